//! pinned: a drain while another transaction holds a snapshot, against one without. What
//! is deleted meanwhile stays in the tables, and a queue that has to step over it slows down.

use anyhow::{Context, bail};

use super::arena::Arena;
use super::figure::Figure;
use super::{Options, drain};

pub(crate) async fn run(options: &Options) -> anyhow::Result<Vec<Figure>> {
    if !options.settings.iter().any(|(key, _)| key == "database") {
        bail!("pinned is about PostgreSQL: give it one with --set database=postgres://…");
    }
    let drained = options.jobs_or(if options.quick { 20_000 } else { 200_000 });
    // Several drains: what the first leaves behind is what the others step over.
    let rounds = if options.quick { 2 } else { 5 };
    let free = drains(options, "pinned/free", drained, rounds, Snapshot::None).await?;
    let pinned = drains(options, "pinned/held", drained, rounds, Snapshot::Held).await?;
    let ratio = pinned.per_second.unwrap_or_default() / free.per_second.unwrap_or(f64::NAN);
    Ok(vec![free, pinned.with("ratio_to_free", ratio)])
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Snapshot {
    None,
    Held,
}

/// The last of several drains on one database.
async fn drains(options: &Options, name: &str, jobs: u64, rounds: u32, snapshot: Snapshot) -> anyhow::Result<Figure> {
    let mut arena = Arena::start(options).await?;
    let database = arena.database.as_ref().context("there is a database")?;
    let pin = match snapshot {
        Snapshot::None => None,
        Snapshot::Held => Some(database.pin().await?),
    };
    let mut figure = None;
    for _ in 0..rounds {
        figure = Some(drain::in_arena(&mut arena, name, jobs).await?);
        arena.stop_worker().await?;
    }
    drop(pin);
    arena.stop().await?;
    Ok(figure.context("there is a round")?.with("rounds", f64::from(rounds)))
}
