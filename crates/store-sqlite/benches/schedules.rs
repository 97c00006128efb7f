//! What schedules cost in this store: creating many, reading them at a takeover, and deciding.
//!
//! `cargo bench -p punctual-store-sqlite --bench schedules -- [schedules] [scattered] [folder]`
//!
//! Names come in order, or scattered: then nearly every one changes a page of their index.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use punctual_core::random::SplitMix64;
use punctual_core::schedule::{ScheduleRow, Verdict};
use punctual_core::shard::write::Write;
use punctual_core::{ScheduleId, ShardId, Timestamp};
use punctual_store::{OccurrenceFilter, Order, Retention, Schedules};
use punctual_store_sqlite::{Options, SqliteStore};
use punctual_store_tests::fixture::*;
use punctual_store_tests::schedule_fixture::*;

const BATCH: usize = 2_000;
const PAGE: usize = 1_000;
const DECIDED_MAX: u64 = 200_000;

#[tokio::main]
async fn main() {
    let mut args = arguments().peekable();
    let count: u64 = args.next().map_or(1_000_000, |text| text.parse().expect("a number of schedules"));
    let is_scattered = args.next_if(|text| text == "scattered").is_some();
    let folder = args.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = tempfile::tempdir_in(folder).expect("a folder can be made there");
    let options = Options { shard_count: SHARDS, ..Options::new(Arc::new(|| at(0))) };
    let path = folder.path().join("jobs.db");
    let store = SqliteStore::open(&path, options).expect("a fresh store opens");
    let mut owner = owner_of(&store, &[]).await;

    let ids: Vec<ScheduleId> = (0..count).map(id).collect();
    let began = Instant::now();
    write(&mut owner, ids.iter().enumerate().map(|(n, id)| add(&schedule(*id, n, is_scattered)))).await;
    report("AddSchedule", count, began);

    let began = Instant::now();
    let mut loaded = 0;
    for shard in 0..SHARDS {
        let mut after = None;
        loop {
            let page = store.load_schedules(ShardId(shard), after, PAGE).await.unwrap();
            let Some(last) = page.last() else { break };
            after = Some(last.id);
            loaded += page.len() as u64;
        }
    }
    assert_eq!(loaded, count);
    report("load_schedules", loaded, began);

    let decided = count.min(DECIDED_MAX);
    let some = || ids.iter().step_by((count / decided) as usize).take(decided as usize);
    let began = Instant::now();
    write(&mut owner, some().zip(0..).map(|(id, n)| decide(&fired(*id, 60, n)))).await;
    report("Decide, and fire", decided, began);
    let began = Instant::now();
    write(&mut owner, some().zip(decided..).map(|(id, n)| decide(&with_input(fired(*id, 120, n))))).await;
    report("Decide, and fire with an input", decided, began);
    let began = Instant::now();
    write(&mut owner, some().map(|id| decide(&unfired(*id, 180, Verdict::SkippedPaused)))).await;
    report("Decide without a job", decided, began);

    let began = Instant::now();
    let page = store.occurrences(ids[0], OccurrenceFilter::default(), None, Order::Descending, 100).await.unwrap();
    println!("{} occurrences of one schedule in {:?}", page.0.len(), began.elapsed());
    let began = Instant::now();
    let taken = store.shard_schedules(ShardId(0)).await.unwrap();
    println!("a takeover found watermark {} in {:?}", taken.watermark, began.elapsed());

    let began = Instant::now();
    let mut calls = 0;
    while store.prune(Timestamp::MAX, at(0), 500).await.unwrap() == 500 {
        calls += 1;
    }
    println!("the ledger was pruned in {} calls in {:?}", calls + 1, began.elapsed());
    println!("{} MiB", std::fs::metadata(&path).unwrap().len() >> 20);
}

/// Made one after the other, over all shards.
fn id(n: u64) -> ScheduleId {
    let made_at = Timestamp::from_micros(at(0).as_micros() + 20 * n as i64).expect("it is a time");
    ScheduleId::new(made_at, ShardId((n % u64::from(SHARDS)) as u16), SplitMix64::new(n).bits())
}

fn schedule(id: ScheduleId, n: usize, is_scattered: bool) -> ScheduleRow {
    let name = match is_scattered {
        true => format!("customer {} nightly report {n}", n.wrapping_mul(7919) % 100_003),
        false => format!("customer {n:08} nightly report"),
    };
    let mut row = new_schedule(0, &name, 0);
    row.id = id;
    row.edit.spec = format!(
        r#"{{"when":{{"rule":{{"cron":"{} {} * * *"}},"zone":"Europe/Berlin"}},"overlap":"skip"}}"#,
        n % 60,
        n % 24
    )
    .into();
    row.edit.input = Some(text(r#"{"report": "nightly", "format": "pdf"}"#));
    row
}

async fn write(owner: &mut Owner<'_>, writes: impl Iterator<Item = Write>) {
    let writes: Vec<Write> = writes.collect();
    for writes in writes.chunks(BATCH) {
        owner.done(writes.to_vec()).await;
    }
}

fn report(what: &str, count: u64, began: Instant) {
    let took = began.elapsed();
    println!("{what}: {count} in {took:.2?}, {:.0} a second", count as f64 / took.as_secs_f64());
}

/// Without the `--bench` that cargo adds.
fn arguments() -> impl Iterator<Item = String> {
    std::env::args().skip(1).filter(|argument| argument != "--bench")
}
