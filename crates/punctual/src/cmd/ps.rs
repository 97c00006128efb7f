//! `punctual ps` and `punctual job list`.

use clap::Args;
use punctual_api::{ErrorKind, JobSummary, ListQuery};
use punctual_client::{Client, ClientError, Ended, Listed};
use punctual_core::{JobState, Span, Timestamp};

use super::Context;
use crate::clock::now;
use crate::exit::{Exit, Refusal};
use crate::field_flags::{self, in_flags};
use crate::output::{Format, counted};
use crate::screen::{self, Look};
use crate::view::{most_frequent, one_line};
use crate::when::{parse_at, parse_span, whole};

#[derive(Debug, Clone, Args)]
pub(crate) struct Filter {
    /// Only these states, with commas: scheduled, running, succeeded, failed, cancelled, lost,
    /// quarantined, deleted
    #[arg(short, long, value_name = "STATES")]
    state: Option<String>,
    /// Only jobs of this task
    #[arg(short, long, value_name = "NAME")]
    task: Option<String>,
    /// Only tasks of this type: binary, http, email, slack, telegram, probe, handler or command
    #[arg(long, value_name = "TYPE")]
    kind: Option<String>,
    /// Only this queue
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,
    /// Only jobs with exactly this tracing id
    #[arg(long, value_name = "ID")]
    tracing_id: Option<String>,
    /// Only jobs scheduled at this time or later
    #[arg(long, value_name = "TIME", value_parser = parse_at)]
    scheduled_from: Option<Timestamp>,
    /// Only jobs scheduled before this time
    #[arg(long, value_name = "TIME", value_parser = parse_at)]
    scheduled_before: Option<Timestamp>,
    /// The earliest first
    #[arg(long)]
    asc: bool,
    /// How many, at most; 1 to 1000
    #[arg(short = 'n', long, value_name = "N", default_value_t = 50, value_parser = whole::<u16, 1, 1000>)]
    limit: u16,
    /// Go on where another list ended
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct PsArgs {
    #[command(flatten)]
    filter: Filter,
    /// Also jobs that wait for a time more than a day from now; these are left out unless there is a filter
    #[arg(short, long, conflicts_with = "scheduled_before")]
    all: bool,
    /// Refresh at this interval
    #[arg(short, long, value_name = "INTERVAL", num_args = 0..=1, default_missing_value = "2s", value_parser = parse_span)]
    watch: Option<Span>,
}

/// What people call recent: what ran, what runs, and what comes next.
const RECENT: Span = Span::from_secs(86_400);

impl Filter {
    /// Whether it narrows the list: whoever asks for something wants all of it.
    fn is_given(&self) -> bool {
        let Self { state, task, kind, queue, tracing_id, scheduled_from, scheduled_before, cursor, .. } = self;
        [state, task, kind, queue, tracing_id, cursor].into_iter().any(Option::is_some)
            || scheduled_from.or(*scheduled_before).is_some()
    }

    fn query(&self) -> ListQuery {
        ListQuery {
            state: self.state.clone(),
            task: self.task.clone(),
            kind: self.kind.clone(),
            queue: self.queue.clone(),
            tracing_id: self.tracing_id.clone(),
            scheduled_from: self.scheduled_from.map(|at| at.to_string()),
            scheduled_before: self.scheduled_before.map(|at| at.to_string()),
            order: self.asc.then(|| "asc".to_owned()),
            limit: Some(self.limit.to_string()),
            cursor: self.cursor.clone(),
        }
    }
}

/// What `ps` leaves out unless told otherwise: the far future.
struct Hidden {
    jobs: usize,
    /// There are more than were counted.
    and_more: bool,
}

/// More than this is counted as "at least".
const HIDDEN_COUNTED_MAX: usize = 100;

async fn hidden(from: Timestamp, client: &Client) -> anyhow::Result<Option<Hidden>> {
    let state = Some(JobState::Scheduled.as_str().to_owned());
    let query = ListQuery { state, scheduled_from: Some(from.to_string()), ..ListQuery::default() };
    let found = client.first_jobs(&query, HIDDEN_COUNTED_MAX).await?;
    let (jobs, and_more) = (found.list.jobs.len(), found.ended != Ended::Complete);
    Ok((jobs > 0).then_some(Hidden { jobs, and_more }))
}

impl Hidden {
    fn sentence(&self) -> String {
        let more = if self.and_more { "at least " } else { "" };
        let are = if self.jobs == 1 { "is" } else { "are" };
        format!(
            "{more}{} scheduled for later than a day from now {are} not shown: --all",
            counted(self.jobs, "waiting job")
        )
    }
}

async fn fetch(filter: &Filter, client: &Client) -> anyhow::Result<Listed> {
    match client.first_jobs(&filter.query(), filter.limit.into()).await {
        Ok(listed) => Ok(listed),
        Err(error) => Err(or_schedule(in_flags(error, field_flags::OF_LISTS), filter.task.as_deref(), client).await),
    }
}

/// Whoever takes the name of a schedule for that of a task is told where its jobs are: lists show both in one column.
async fn or_schedule(error: ClientError, task: Option<&str>, client: &Client) -> anyhow::Error {
    let Some(name) = task.filter(|_| error.kind() == Some(ErrorKind::TaskNotFound)) else { return error.into() };
    if client.schedule(name).await.is_err() {
        return error.into();
    }
    let message = format!("there is no task named {name}, but a schedule");
    let hint = format!("`punctual schedule history {name}` lists its runs with their jobs");
    Refusal { exit: Exit::NotFound, message, hint }.into()
}

pub(crate) async fn list(filter: &Filter, context: &Context) -> anyhow::Result<Exit> {
    let listed = fetch(filter, &context.client()?).await?;
    show(&listed, context)?;
    if listed.list.jobs.is_empty() && listed.ended == Ended::Complete {
        hint_none(context);
    }
    Ok(Exit::Ok)
}

fn show(Listed { list, ended }: &Listed, context: &Context) -> anyhow::Result<()> {
    let out = &context.out;
    out.rows(&list.jobs, list)?;
    if out.format == Format::Table {
        waiting_reasons(&list.jobs).iter().for_each(|reason| out.hint(&out.zone.localize(reason)));
    }
    if list.uncertain {
        out.hint(
            "A server did not say what it runs: jobs may be missing here, or run although they are shown as scheduled.",
        );
    }
    match (&list.next_cursor, ended) {
        (Some(cursor), Ended::TooLong) => out.hint(&format!(
            "{} so far; the search took long and was stopped. Go on: --cursor {cursor}",
            counted(list.jobs.len(), "job")
        )),
        (Some(cursor), Ended::Full | Ended::Complete) => out.hint_more(list.jobs.len(), "job", cursor),
        (None, _) => {}
    }
    Ok(())
}

/// Why due jobs wait, whole: a narrow table cuts it off.
fn waiting_reasons(jobs: &[JobSummary]) -> Vec<String> {
    most_frequent(jobs.iter().filter_map(|job| job.waiting_for.as_deref()), |reason, jobs| {
        let wait = if jobs == 1 { "waits" } else { "wait" };
        format!("{} {wait}: {}", counted(jobs, "job"), one_line(reason))
    })
}

fn hint_none(context: &Context) {
    if context.out.format == Format::Table {
        context.out.hint("No jobs match. Submit one: punctual run --probe '{\"output\":\"hi\"}'");
    }
}

pub(crate) async fn run(args: PsArgs, context: &Context) -> anyhow::Result<Exit> {
    let client = context.client()?;
    let Some(pause) = args.watch else {
        let (listed, hidden) = recent(&args, &client).await?;
        show(&listed, context)?;
        match hidden {
            Some(hidden) => context.out.hint(&hidden.sentence()),
            None if listed.list.jobs.is_empty() && listed.ended == Ended::Complete => hint_none(context),
            None => {}
        }
        return Ok(Exit::Ok);
    };
    loop {
        let (mut listed, hidden) = recent(&args, &client).await?;
        let end = hidden.map(|hidden| hidden.sentence());
        let look = Look { rows: std::mem::take(&mut listed.list.jobs), what: "job", end };
        if !screen::show(&look, pause, &context.out)? {
            listed.list.jobs = look.rows;
            show(&listed, context)?;
        }
        screen::pause(pause).await;
    }
}

/// The list, and what was left out of it.
async fn recent(args: &PsArgs, client: &Client) -> anyhow::Result<(Listed, Option<Hidden>)> {
    let mut filter = args.filter.clone();
    if args.all || filter.is_given() {
        return Ok((fetch(&filter, client).await?, None));
    }
    let horizon = now() + RECENT;
    let early = ended_early(&args.filter, horizon, client).await?;
    filter.scheduled_before = Some(horizon);
    filter.limit = filter.limit.saturating_sub(u16::try_from(early.len()).unwrap_or(u16::MAX)).max(1);
    let mut listed = fetch(&filter, client).await?;
    // The list is in order of scheduled times.
    let at = if filter.asc { listed.list.jobs.len() } else { 0 };
    drop(listed.list.jobs.splice(at..at, early));
    Ok((listed, hidden(horizon, client).await?))
}

/// Jobs for the far future that did not wait for it: whoever cancels one looks for it in the list.
async fn ended_early(filter: &Filter, horizon: Timestamp, client: &Client) -> anyhow::Result<Vec<JobSummary>> {
    let others = JobState::ALL.iter().filter(|state| **state != JobState::Scheduled);
    let others: Vec<&str> = others.map(|state| state.as_str()).collect();
    let query = ListQuery {
        state: Some(others.join(",")),
        scheduled_from: Some(horizon.to_string()),
        order: filter.asc.then(|| "asc".to_owned()),
        ..ListQuery::default()
    };
    let mut jobs = client.first_jobs(&query, filter.limit.into()).await?.list.jobs;
    let is_recent = |job: &JobSummary| job.finished_at.is_none_or(|ended| ended >= now() - RECENT);
    jobs.retain(|job| job.scheduled_at >= horizon && is_recent(job));
    Ok(jobs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_hidden_is_counted() {
        let said = |jobs, and_more| Hidden { jobs, and_more }.sentence();
        assert_eq!(said(1, false), "1 waiting job scheduled for later than a day from now is not shown: --all");
        assert_eq!(
            said(100, true),
            "at least 100 waiting jobs scheduled for later than a day from now are not shown: --all"
        );
    }
}
