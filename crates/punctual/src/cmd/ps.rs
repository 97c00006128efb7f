//! `punctual ps` and `punctual job list`.

use std::time::Duration;

use clap::Args;
use punctual_api::{JobList, ListQuery};
use punctual_core::{Span, Timestamp};

use super::Context;
use crate::exit::Exit;
use crate::output::Format;
use crate::when::{parse_at, parse_span};
use crate::world::now;

#[derive(Debug, Clone, Args)]
pub(crate) struct Filter {
    /// Only these states, with commas: scheduled, running, succeeded, failed, cancelled, lost,
    /// quarantined, deleted
    #[arg(short, long, value_name = "STATES")]
    state: Option<String>,
    /// Only jobs of this task
    #[arg(short, long, value_name = "NAME")]
    task: Option<String>,
    /// Only tasks of this type: http, probe, handler
    #[arg(long, value_name = "TYPE")]
    kind: Option<String>,
    /// Only this queue
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,
    /// Due at or after this time
    #[arg(long, value_name = "TIME", value_parser = parse_at)]
    due_from: Option<Timestamp>,
    /// Due before this time
    #[arg(long, value_name = "TIME", value_parser = parse_at)]
    due_before: Option<Timestamp>,
    /// The earliest due first
    #[arg(long)]
    asc: bool,
    /// How many, at most; 1 to 1000
    #[arg(short = 'n', long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
    /// Go on where another list ended
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct PsArgs {
    #[command(flatten)]
    filter: Filter,
    /// Also jobs that are due later than a day from now
    #[arg(short, long, conflicts_with = "due_before")]
    all: bool,
    /// Show it again every so often
    #[arg(short, long, value_name = "INTERVAL", num_args = 0..=1, require_equals = true, default_missing_value = "2s", value_parser = parse_span)]
    watch: Option<Span>,
}

/// What people call recent: what ran, what runs, and what comes next.
const RECENT: Span = Span::from_secs(86_400);

/// Faster than this, a terminal flickers and a server serves only lists.
const WATCH_MIN: Duration = Duration::from_millis(200);

impl Filter {
    fn query(&self) -> ListQuery {
        ListQuery {
            state: self.state.clone(),
            task: self.task.clone(),
            kind: self.kind.clone(),
            queue: self.queue.clone(),
            due_from: self.due_from.map(|at| at.to_string()),
            due_before: self.due_before.map(|at| at.to_string()),
            order: self.asc.then(|| "asc".to_owned()),
            limit: Some(self.limit.to_string()),
            cursor: self.cursor.clone(),
        }
    }
}

pub(crate) async fn list(filter: &Filter, context: &Context) -> anyhow::Result<Exit> {
    let page = context.client()?.jobs(&filter.query()).await?;
    context.out.rows(&page.jobs, &page)?;
    hint_more(&page, context);
    Ok(Exit::Ok)
}

fn hint_more(page: &JobList, context: &Context) {
    match &page.next_cursor {
        Some(cursor) => context.out.hint(&format!("{} jobs, and there are more: --cursor {cursor}", page.jobs.len())),
        None if page.jobs.is_empty() => {
            context.out.hint("No jobs match. Submit one: punctual run --probe '{\"output\":\"hi\"}'");
        }
        None => {}
    }
}

pub(crate) async fn run(args: PsArgs, context: &Context) -> anyhow::Result<Exit> {
    let client = context.client()?;
    loop {
        let mut filter = args.filter.clone();
        let only_recent = !args.all && filter.due_before.is_none();
        if only_recent {
            filter.due_before = Some(now() + RECENT);
        }
        let page = client.jobs(&filter.query()).await?;
        let clears = args.watch.is_some() && context.out.terminal && context.out.format == Format::Table;
        if clears {
            context.out.write("\x1b[H\x1b[2J")?;
        }
        context.out.rows(&page.jobs, &page)?;
        hint_more(&page, context);
        if only_recent && page.next_cursor.is_none() && context.out.terminal {
            context.out.hint("Jobs that are due later than a day from now: --all");
        }
        match args.watch {
            Some(pause) => tokio::time::sleep(pause.to_std().max(WATCH_MIN)).await,
            None => return Ok(Exit::Ok),
        }
    }
}
