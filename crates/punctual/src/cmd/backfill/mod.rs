//! `punctual backfill …`.

mod watch;

use clap::{Args, Subcommand};
use punctual_api::{
    AbortRequest, BackfillInclude, BackfillQuery, BackfillRequest, BackfillRunQuery, BackfillStanding, OlderTimes,
};
use punctual_client::{Client, ClientError};
use punctual_core::BackfillId;

use super::Context;
use super::schedule::history::time_or_date;
use crate::exit::Exit;
use crate::field_flags::{BACKFILL_WORDS, OF_BACKFILLS, in_flags, in_words};
use crate::output::{Format, Output, counted};
use crate::task_flags::word;
use crate::view;
use crate::when::whole;

#[derive(Debug, Subcommand)]
pub(crate) enum BackfillVerb {
    /// Create a backfill: run planned times of a schedule that are past
    ///
    /// Times that ran are passed over, unless --all is given. What became of the others by plan stays on record.
    #[command(aliases = ["start", "add"])]
    Create(CreateArgs),
    /// List backfills, the latest first
    #[command(aliases = ["ls"])]
    List(ListArgs),
    /// Show a backfill and how far it has come
    #[command(aliases = ["show"])]
    Get {
        /// The backfill's id; `punctual backfill list` shows them
        #[arg(value_name = "ID")]
        id: BackfillId,
    },
    /// Follow a backfill until it ends; exit with code 3 unless all its runs succeeded
    Watch {
        /// The backfill's id
        #[arg(value_name = "ID")]
        id: BackfillId,
    },
    /// List the times of a backfill that got a job, in order
    Runs(RunsArgs),
    /// Let a backfill make no more jobs; those that run go on
    #[command(aliases = ["cancel"])]
    Abort {
        /// The backfill's id
        #[arg(value_name = "ID")]
        id: BackfillId,
        /// Also cancel its jobs that have not ended
        #[arg(long)]
        cancel: bool,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    punctual backfill create nightly --from 2026-11-01 --to 2026-11-08 --dry-run\n  \
    punctual backfill create nightly --from 2026-11-01 --overlap allow --max-active 4 --watch")]
pub(crate) struct CreateArgs {
    /// The schedule's name
    #[arg(value_name = "SCHEDULE")]
    schedule: String,
    /// The first time, or the first day in the schedule's zone
    #[arg(long, value_name = "TIME", value_parser = time_or_date)]
    from: String,
    /// Before this time, or before this day in the schedule's zone; now if not given
    #[arg(long, value_name = "TIME", value_parser = time_or_date)]
    to: Option<String>,
    /// queue_all: one run after the other, in the order of their times; allow: side by side [default: queue_all]
    #[arg(long, value_name = "POLICY")]
    overlap: Option<String>,
    /// With `--overlap allow`: how many at a time; 1 to 1000 [default: 10]
    #[arg(long, value_name = "N", value_parser = whole::<u32, 1, 1000>)]
    max_active: Option<u32>,
    /// Also run times that ran before
    #[arg(long)]
    all: bool,
    /// What becomes of times that are older than the record, so that nobody knows whether they ran: run or skip
    #[arg(long, value_name = "WHAT", value_parser = word::<OlderTimes>, conflicts_with = "all")]
    older: Option<OlderTimes>,
    /// Only say what would be run
    #[arg(long, conflicts_with = "watch")]
    dry_run: bool,
    /// Follow it until it ends; exit with code 3 unless all its runs succeeded
    #[arg(short, long, visible_alias = "wait")]
    watch: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Only those of this schedule
    #[arg(short, long, value_name = "NAME")]
    schedule: Option<String>,
    /// How many, at most; 1 to 1000
    #[arg(short = 'n', long, value_name = "N", default_value_t = 50, value_parser = whole::<u16, 1, 1000>)]
    limit: u16,
    /// Go on where another list ended
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct RunsArgs {
    /// The backfill's id
    #[arg(value_name = "ID")]
    id: BackfillId,
    /// How many, at most; 1 to 1000
    #[arg(short = 'n', long, value_name = "N", default_value_t = 50, value_parser = whole::<u16, 1, 1000>)]
    limit: u16,
    /// Go on where another list ended
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
}

impl CreateArgs {
    fn request(&self) -> BackfillRequest {
        BackfillRequest {
            from: self.from.clone(),
            to: self.to.clone(),
            // As flags of other commands write such words, too.
            overlap: self.overlap.as_ref().map(|word| word.replace('-', "_")),
            max_active: self.max_active,
            include: if self.all { BackfillInclude::All } else { BackfillInclude::NotRun },
            unknown: self.older,
            dry_run: self.dry_run,
        }
    }
}

fn named(error: ClientError) -> anyhow::Error {
    in_words(in_flags(error, OF_BACKFILLS), BACKFILL_WORDS).into()
}

pub(crate) async fn run(verb: BackfillVerb, context: &Context) -> anyhow::Result<Exit> {
    let client = context.client()?;
    let out = &context.out;
    match verb {
        BackfillVerb::Create(args) => return create(&args, &client, out).await,
        BackfillVerb::List(args) => list(&args, &client, out).await?,
        BackfillVerb::Get { id } => view::backfill::print(&client.backfill(id).await.map_err(named)?, out)?,
        BackfillVerb::Watch { id } => return watch::run(id, &client, out).await,
        BackfillVerb::Runs(args) => runs(&args, &client, out).await?,
        BackfillVerb::Abort { id, cancel } => abort(id, cancel, &client, out).await?,
    }
    Ok(Exit::Ok)
}

async fn create(args: &CreateArgs, client: &Client, out: &Output) -> anyhow::Result<Exit> {
    let request = args.request();
    if args.dry_run {
        let plan = client.plan_backfill(&args.schedule, &request).await.map_err(named)?;
        view::backfill::print_plan(&plan, &args.schedule, out)?;
        return Ok(Exit::Ok);
    }
    let backfill = client.start_backfill(&args.schedule, &request).await.map_err(named)?;
    let mut times = counted(backfill.total as usize, "planned time");
    if let Some(unknown) = &backfill.unknown {
        times += &format!("; {}", view::backfill::unknown_words(unknown, out));
    }
    if args.watch {
        out.hint(&format!("{} has {times}. It continues if you stop watching.", backfill.id));
        return watch::run(backfill.id, client, out).await;
    }
    match out.format {
        Format::Json | Format::Jsonl => out.json(&backfill)?,
        Format::Name => out.line(&backfill.id.to_string())?,
        Format::Table => {
            out.line(&backfill.id.to_string())?;
            out.hint(&format!("It has {times}. Next: punctual backfill watch {}", backfill.id));
        }
    }
    Ok(Exit::Ok)
}

async fn list(args: &ListArgs, client: &Client, out: &Output) -> anyhow::Result<()> {
    let query = BackfillQuery {
        schedule: args.schedule.clone(),
        limit: Some(args.limit.to_string()),
        cursor: args.cursor.clone(),
    };
    let page = client.backfills(&query).await.map_err(named)?;
    out.rows(&page.backfills, &page)?;
    match &page.next_cursor {
        Some(cursor) => out.hint_more(page.backfills.len(), "backfill", cursor),
        None if page.backfills.is_empty() && out.format == Format::Table => {
            out.hint("No backfills. Create one: punctual backfill create SCHEDULE --from 2026-11-01 --dry-run");
        }
        None => {}
    }
    Ok(())
}

async fn runs(args: &RunsArgs, client: &Client, out: &Output) -> anyhow::Result<()> {
    let query = BackfillRunQuery { limit: Some(args.limit.to_string()), cursor: args.cursor.clone() };
    let page = client.backfill_runs(args.id, &query).await.map_err(named)?;
    out.rows(&page.runs, &page)?;
    match &page.next_cursor {
        Some(cursor) => out.hint_more(page.runs.len(), "run", cursor),
        None if page.runs.is_empty() && out.format == Format::Table => {
            let so_far = match client.backfill(args.id).await.map_err(named)?.state {
                BackfillStanding::Running => "It has made no job so far",
                BackfillStanding::Done | BackfillStanding::Aborted => "It made no job",
            };
            out.hint(&format!("{so_far}: punctual backfill get {}", args.id));
        }
        None => {}
    }
    Ok(())
}

async fn abort(id: BackfillId, cancel: bool, client: &Client, out: &Output) -> anyhow::Result<()> {
    let backfill = client.abort_backfill(id, AbortRequest { cancel }).await.map_err(named)?;
    match out.format {
        Format::Json | Format::Jsonl => return out.json(&backfill),
        Format::Name | Format::Table => out.line(&id.to_string())?,
    }
    let left = match (backfill.running, cancel) {
        (0, _) => "None of its jobs is left to end.".to_owned(),
        (1, true) => "1 job ends as soon as its worker can.".to_owned(),
        (1, false) => "1 job still runs or waits; --cancel ends it.".to_owned(),
        (running, true) => format!("{running} jobs end as soon as their workers can."),
        (running, false) => format!("{running} jobs still run or wait; --cancel ends them."),
    };
    let not_run = counted(backfill.remaining as usize, "planned time");
    out.hint(&format!("It makes no more jobs: {not_run} will not be run. {left}"));
    Ok(())
}
