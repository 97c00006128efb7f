//! `punctual ps` and `punctual job list`.

use std::time::Duration;

use clap::Args;
use punctual_api::{JobSummary, ListQuery};
use punctual_client::{Client, Ended, Listed};
use punctual_core::{Span, Timestamp};

use super::Context;
use super::flags::{self, in_flags};
use crate::exit::Exit;
use crate::output::{Format, Output, Size, counted};
use crate::table;
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
    /// Also jobs that are due later than a day from now; these are left out unless there is a filter
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
    /// Whether it narrows the list: whoever asks for something wants all of it.
    fn is_given(&self) -> bool {
        let Self { state, task, kind, queue, due_from, due_before, cursor, asc: _, limit: _ } = self;
        [state, task, kind, queue, cursor].into_iter().any(Option::is_some) || due_from.or(*due_before).is_some()
    }

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

/// What `ps` leaves out unless told otherwise: the far future.
struct Hidden {
    jobs: usize,
    /// There are more than were counted.
    and_more: bool,
}

/// More than this is counted as "at least".
const HIDDEN_COUNTED_MAX: usize = 100;

async fn hidden(from: Timestamp, client: &Client) -> anyhow::Result<Option<Hidden>> {
    let query = ListQuery { due_from: Some(from.to_string()), ..ListQuery::default() };
    let found = client.first_jobs(&query, HIDDEN_COUNTED_MAX).await?;
    let (jobs, and_more) = (found.list.jobs.len(), found.ended != Ended::Complete);
    Ok((jobs > 0).then_some(Hidden { jobs, and_more }))
}

impl Hidden {
    fn sentence(&self) -> String {
        let more = if self.and_more { "at least " } else { "" };
        let are = if self.jobs == 1 { "is" } else { "are" };
        format!("{more}{} due later than a day from now {are} not shown: --all", counted(self.jobs, "job"))
    }
}

async fn fetch(filter: &Filter, client: &Client) -> anyhow::Result<Listed> {
    let listed = client.first_jobs(&filter.query(), filter.limit.into()).await;
    Ok(listed.map_err(|error| in_flags(error, flags::OF_LISTS))?)
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
        let (listed, hidden) = recent(&args, &client).await?;
        let out = context.out.resized();
        match out.terminal {
            Some(size) if out.format == Format::Table => {
                let title = format!("{}  every {pause}; Ctrl-C ends", out.zone.show(now()));
                let end = hidden.map(|hidden| hidden.sentence());
                out.write(&screen(&title, &listed.list.jobs, end, size, &out))?;
            }
            _ => show(&listed, context)?,
        }
        tokio::time::sleep(pause.to_std().max(WATCH_MIN)).await;
    }
}

/// The list, and what was left out of it.
async fn recent(args: &PsArgs, client: &Client) -> anyhow::Result<(Listed, Option<Hidden>)> {
    let mut filter = args.filter.clone();
    if args.all || filter.is_given() {
        return Ok((fetch(&filter, client).await?, None));
    }
    let horizon = now() + RECENT;
    filter.due_before = Some(horizon);
    Ok((fetch(&filter, client).await?, hidden(horizon, client).await?))
}

/// One screen, never more, drawn over the one before without a flicker.
fn screen(title: &str, jobs: &[JobSummary], end: Option<String>, size: Size, out: &Output) -> String {
    // The title, the header, the line below and the cursor.
    let room = size.rows.saturating_sub(4).max(1);
    let shown = &jobs[..jobs.len().min(room)];
    let table = if shown.is_empty() { "no jobs".to_owned() } else { table::draw(shown, out) };
    let more = jobs.len() - shown.len();
    let more = (more > 0).then(|| format!("{} more below", counted(more, "job")));
    let end = [more, end].into_iter().flatten().collect::<Vec<_>>().join("; ");
    let mut text = String::from("\x1b[H");
    // A line of ours that is too long would be folded into a second one.
    let cut = |line: &str| line.chars().take(size.columns).collect::<String>();
    for line in [cut(title).as_str()].into_iter().chain(table.lines()).chain([cut(&end).as_str()]) {
        text += line;
        text += "\x1b[K\n";
    }
    text + "\x1b[J"
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_screen_is_never_taller_than_the_terminal() {
        let job: JobSummary = serde_json::from_value(json!({
            "id": "job_01m7et4344e91804jsy8wksbxz",
            "task": { "id": "task_01m7et433kee4803yssgvaf2fh", "kind": "http", "queue": "default" },
            "state": "failed", "priority": 0, "attempts": 4, "reason": "x".repeat(300),
            "submitted_at": "2026-01-01T00:00:00Z", "due_at": "2026-01-01T00:00:00Z",
        }))
        .unwrap();
        let jobs = vec![job; 50];
        let out = Output::plain(Some(80));
        let size = out.terminal.unwrap();
        let text = screen("now", &jobs, Some("1 hidden".to_owned()), size, &out);
        assert_eq!(text.lines().count(), size.rows);
        assert!(text.contains("\n30 jobs more below; 1 hidden"), "{text}");
        assert!(screen("now", &[], None, size, &out).contains("no jobs"));
    }

    #[test]
    fn what_is_hidden_is_counted() {
        let said = |jobs, and_more| Hidden { jobs, and_more }.sentence();
        assert_eq!(said(1, false), "1 job due later than a day from now is not shown: --all");
        assert_eq!(said(100, true), "at least 100 jobs due later than a day from now are not shown: --all");
    }
}
