//! `punctual schedule …`.

mod define;
pub(crate) mod history;
mod policy;
mod preview;
mod run_now;
mod when;

use clap::{Args, Subcommand};
use punctual_api::{OccurrenceQuery, PlannedStart, ScheduleQuery, ScheduleView, SkipAnswer};
use punctual_client::{Client, ClientError};

use super::Context;
use crate::exit::Exit;
use crate::field_flags::{OF_SCHEDULES, SCHEDULE_WORDS, in_flags, in_words};
use crate::output::{Format, Output, counted};
use crate::view;
use crate::when::whole;
use crate::zone::plain_local;

#[derive(Debug, Subcommand)]
pub(crate) enum ScheduleVerb {
    /// Create a schedule
    ///
    /// It answers with when it runs in words, and with the next starts.
    #[command(aliases = ["add"])]
    Create(Box<define::CreateArgs>),
    /// Change a schedule: what is not given stays as it is
    ///
    /// It shows which of the coming starts move. What was planned and decided before stays on record.
    Edit(Box<define::EditArgs>),
    /// List schedules by name
    #[command(aliases = ["ls"])]
    List(ListArgs),
    /// Show a schedule: its definition, its next and last times, and who changed it
    #[command(aliases = ["show"])]
    Get {
        /// The schedule's name; `punctual schedule list` shows them
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Delete schedules; jobs that they made stay
    #[command(aliases = ["remove", "rm"])]
    Delete {
        /// The schedules' names
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
    /// Pause a schedule; its times are recorded as skipped
    Pause(NoteArgs),
    /// Let a paused schedule run again
    Resume(NoteArgs),
    /// Skip the next times of a schedule
    Skip {
        /// The schedule's name
        #[arg(value_name = "NAME")]
        name: String,
        /// How many of them; 1 to 1000
        #[arg(short = 'n', long, value_name = "N", default_value_t = 1, value_parser = whole::<u32, 1, 1000>)]
        count: u32,
    },
    /// Run a schedule's task now, beside the plan
    ///
    /// If a run of the schedule has not ended, its overlap policy decides whether this one starts, waits, or is skipped. A
    /// run that is skipped ends the command with exit code 6.
    Run(run_now::RunArgs),
    /// Skip the runs of a schedule that wait for the one before them
    ///
    /// The run that is active goes on. The record says skipped_by_request, and by whom.
    ClearQueue {
        /// The schedule's name
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Show when a schedule will run, and what clock changes do to it
    Preview(Box<preview::PreviewArgs>),
    /// Show what became of planned times, and why
    History(history::HistoryArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Only schedules of this task
    #[arg(short, long, value_name = "NAME")]
    task: Option<String>,
    /// Only those that are paused
    #[arg(long)]
    paused: bool,
    /// Only those that are not paused
    #[arg(long, conflicts_with = "paused")]
    not_paused: bool,
    /// Only names that begin with this
    #[arg(long, value_name = "TEXT")]
    prefix: Option<String>,
    /// How many, at most; 1 to 1000
    #[arg(short = 'n', long, value_name = "N", default_value_t = 50, value_parser = whole::<u16, 1, 1000>)]
    limit: u16,
    /// Go on where another list ended
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct NoteArgs {
    /// The schedule's name
    #[arg(value_name = "NAME")]
    name: String,
    /// Why, for whoever asks later
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
}

/// Planned times that `get` looks back at.
const LAST_SHOWN: usize = 5;

fn named(error: ClientError) -> anyhow::Error {
    in_words(in_flags(error, OF_SCHEDULES), SCHEDULE_WORDS).into()
}

pub(crate) async fn run(verb: ScheduleVerb, context: &Context) -> anyhow::Result<Exit> {
    let client = context.client()?;
    let out = &context.out;
    match verb {
        ScheduleVerb::Create(args) => define::create(&args, &client, out).await?,
        ScheduleVerb::Edit(args) => define::edit(&args, &client, out).await?,
        ScheduleVerb::List(args) => list(&args, &client, out).await?,
        ScheduleVerb::Get { name } => show(&name, &client, out).await?,
        ScheduleVerb::Delete { names } => {
            for name in &names {
                client.delete_schedule(name).await.map_err(named)?;
                out.hint(&format!("{name} is deleted."));
            }
        }
        ScheduleVerb::Pause(NoteArgs { name, note }) => {
            let schedule = client.pause_schedule(&name, note.as_deref()).await.map_err(named)?;
            tell(&schedule, &format!("{name} is paused. Let it go on: punctual schedule resume {name}"), out)?;
        }
        ScheduleVerb::Resume(NoteArgs { name, note }) => {
            let schedule = client.resume_schedule(&name, note.as_deref()).await.map_err(named)?;
            let next = schedule.next.first().map(|next| plain_local(&next.local));
            let next = next.unwrap_or_else(|| "never".to_owned());
            tell(&schedule, &format!("{name} goes on. It runs next: {next}"), out)?;
        }
        ScheduleVerb::Skip { name, count } => {
            let answer = client.skip_schedule(&name, count).await.map_err(named)?;
            skipped(&name, &answer, out)?;
        }
        ScheduleVerb::Run(args) => return run_now::run(&args, &client, context).await,
        ScheduleVerb::ClearQueue { name } => {
            let cleared = client.clear_schedule_queue(&name).await.map_err(named)?;
            match out.format {
                Format::Json | Format::Jsonl => out.json(&cleared)?,
                Format::Name | Format::Table => out.line(&name)?,
            }
            out.hint(&match cleared.skipped {
                0 => "Nothing waited.".to_owned(),
                count => format!("{} will not run.", counted(count as usize, "waiting run")),
            });
        }
        ScheduleVerb::Preview(args) => return preview::run(&args, &client, context).await,
        ScheduleVerb::History(args) => return history::run(&args, &client, context).await,
    }
    Ok(Exit::Ok)
}

async fn list(args: &ListArgs, client: &Client, out: &Output) -> anyhow::Result<()> {
    let paused = match (args.paused, args.not_paused) {
        (true, _) => Some("true"),
        (false, true) => Some("false"),
        (false, false) => None,
    };
    let query = ScheduleQuery {
        task: args.task.clone(),
        paused: paused.map(str::to_owned),
        prefix: args.prefix.clone(),
        limit: Some(args.limit.to_string()),
        cursor: args.cursor.clone(),
    };
    let page = client.schedules(&query).await.map_err(named)?;
    out.rows(&page.schedules, &page)?;
    match &page.next_cursor {
        Some(cursor) => out.hint_more(page.schedules.len(), "schedule", cursor),
        None if page.schedules.is_empty() && out.format == Format::Table => {
            out.hint("No schedules match. Create one: punctual schedule create hourly --task TASK --cron @hourly");
        }
        None => {}
    }
    Ok(())
}

async fn show(name: &str, client: &Client, out: &Output) -> anyhow::Result<()> {
    let schedule = client.schedule(name).await.map_err(named)?;
    match out.format {
        Format::Json | Format::Jsonl => return out.json(&schedule),
        Format::Name => return out.line(&schedule.name),
        Format::Table => {}
    }
    let query = OccurrenceQuery { limit: Some(LAST_SHOWN.to_string()), ..OccurrenceQuery::default() };
    let last = history::fetch(name, &query, client).await?;
    out.write(&view::schedule::detail(&schedule, &last.occurrences, out))
}

/// Prints a schedule: its name for programs, and a sentence for people.
fn tell(schedule: &ScheduleView, sentence: &str, out: &Output) -> anyhow::Result<()> {
    match out.format {
        Format::Json | Format::Jsonl => return out.json(schedule),
        Format::Name | Format::Table => out.line(&schedule.name)?,
    }
    out.hint(sentence);
    Ok(())
}

fn skipped(name: &str, answer: &SkipAnswer, out: &Output) -> anyhow::Result<()> {
    match out.format {
        Format::Json | Format::Jsonl => return out.json(answer),
        Format::Name => return out.line(name),
        Format::Table => {}
    }
    for PlannedStart { local, .. } in &answer.skipped {
        out.line(&plain_local(local))?;
    }
    out.hint(&format!("{name} skips {}.", counted(answer.skipped.len(), "planned time")));
    Ok(())
}
