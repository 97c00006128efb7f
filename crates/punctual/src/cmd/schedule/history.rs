//! `punctual schedule history`: what became of planned times, and why.

use clap::Args;
use jiff::civil::Date;
use punctual_api::{
    BackfilledTime, ErrorKind, Job, OccurrenceList, OccurrenceQuery, OccurrenceView, PreviewQuery, PreviewedTime,
    ScheduleStanding, ScheduleView, UnfiredBy,
};
use punctual_client::Client;
use punctual_core::{Span, Timestamp};
use serde::Serialize;

use super::named;
use crate::clock::now;
use crate::cmd::Context;
use crate::exit::Exit;
use crate::output::{Format, Output};
use crate::view::{backfilled_words, one_line};
use crate::when::{parse_at, whole};
use crate::zone::{plain_local, show_in};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    punctual schedule history nightly --on 2026-11-12\n  \
    punctual schedule history nightly --verdict missed,skipped_overlap --from 2026-11-01")]
pub(crate) struct HistoryArgs {
    /// The schedule's name
    #[arg(value_name = "NAME")]
    name: String,
    /// Say in words what became of this day, in the schedule's zone
    #[arg(long, value_name = "DATE", value_parser = date, conflicts_with_all = ["from", "to", "cursor"])]
    on: Option<Date>,
    /// At or after this time, or this day in the schedule's zone
    #[arg(long, value_name = "TIME", value_parser = time_or_date)]
    from: Option<String>,
    /// Before this time, or before this day in the schedule's zone
    #[arg(long, value_name = "TIME", value_parser = time_or_date)]
    to: Option<String>,
    /// Only these, with commas: fired, queued, missed, skipped_overlap, skipped_paused, skipped_calendar, skipped_gap,
    /// skipped_by_request, skipped_max_runs
    #[arg(long, value_name = "VERDICTS")]
    verdict: Option<String>,
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

fn date(text: &str) -> Result<Date, String> {
    text.trim().parse().map_err(|_| format!("`{text}` is not a date, such as 2026-11-12"))
}

/// A date goes to the server as it is, which knows the schedule's zone.
pub(crate) fn time_or_date(text: &str) -> Result<String, String> {
    if date(text).is_ok() && text.trim().len() == "2026-11-12".len() {
        return Ok(text.trim().to_owned());
    }
    parse_at(text).map(|at| at.to_string())
}

pub(super) async fn run(args: &HistoryArgs, client: &Client, context: &Context) -> anyhow::Result<Exit> {
    if let Some(date) = args.on {
        return on(date, args, client, context).await;
    }
    let query = OccurrenceQuery { from: args.from.clone(), before: args.to.clone(), ..args.query() };
    let page = fetch(&args.name, &query, client).await?;
    context.out.rows(&page.occurrences, &page)?;
    print_backfilled_only(&page, &context.out)?;
    match &page.next_cursor {
        Some(cursor) => context.out.hint_more(page.occurrences.len(), "planned time", cursor),
        None if page.occurrences.is_empty() && page.backfilled_only.is_empty() => {
            context.out.hint(&format!("Nothing is on record. What is to come: punctual schedule preview {}", args.name))
        }
        None => {}
    }
    Ok(Exit::Ok)
}

/// Times that have no row of their own, below those that have one.
fn print_backfilled_only(page: &OccurrenceList, out: &Output) -> anyhow::Result<()> {
    for time in &page.backfilled_only {
        match out.format {
            // They are part of the document.
            Format::Json => {}
            Format::Jsonl => out.json(time)?,
            Format::Name => out.line(&time.at.to_string())?,
            Format::Table => out.line(&of_backfilled(time))?,
        }
    }
    if page.backfilled_only_is_partial {
        out.hint("Backfills ran more times that are not on record; see them with a shorter range, --from and --to.");
    }
    Ok(())
}

fn of_backfilled(time: &BackfilledTime) -> String {
    format!("{}  not on record{}", plain_local(&time.local), backfilled_words(&time.backfilled))
}

impl HistoryArgs {
    fn query(&self) -> OccurrenceQuery {
        OccurrenceQuery {
            verdict: self.verdict.clone(),
            order: self.asc.then(|| "asc".to_owned()),
            limit: Some(self.limit.to_string()),
            cursor: self.cursor.clone(),
            ..OccurrenceQuery::default()
        }
    }
}

pub(super) async fn fetch(name: &str, query: &OccurrenceQuery, client: &Client) -> anyhow::Result<OccurrenceList> {
    client.occurrences(name, query).await.map_err(named)
}

/// Each is a request; a day of more runs is told without the end of the later ones.
const JOBS_ASKED_FOR_MAX: usize = 50;

/// A planned time of the day that was asked for, with the job that was made.
#[derive(Serialize)]
#[serde(untagged)]
enum OfDay {
    Recorded {
        #[serde(flatten)]
        occurrence: Box<OccurrenceView>,
        #[serde(skip_serializing_if = "Option::is_none")]
        job_state: Option<String>,
    },
    Backfilled(BackfilledTime),
}

async fn on(date: Date, args: &HistoryArgs, client: &Client, context: &Context) -> anyhow::Result<Exit> {
    let out = &context.out;
    let tomorrow = date.tomorrow().unwrap_or(date);
    let query = OccurrenceQuery {
        from: Some(date.to_string()),
        before: Some(tomorrow.to_string()),
        order: Some("asc".to_owned()),
        ..args.query()
    };
    let page = fetch(&args.name, &query, client).await?;
    let last = page.occurrences.last().map(|occurrence| occurrence.at);
    let mut told = Vec::new();
    for occurrence in page.occurrences {
        // Jobs are kept for a limited time, too.
        let job = match occurrence.job {
            Some(id) if told.len() < JOBS_ASKED_FOR_MAX => Some(client.job(id).await.ok()),
            Some(_) | None => None,
        };
        match out.format {
            Format::Table => out.line(&of_occurrence(&occurrence, job.as_ref(), out))?,
            Format::Name => out.line(&occurrence.at.to_string())?,
            Format::Json | Format::Jsonl => {}
        }
        let job_state = job.flatten().map(|job| job.state);
        told.push(OfDay::Recorded { occurrence: Box::new(occurrence), job_state });
    }
    for time in &page.backfilled_only {
        match out.format {
            Format::Table => out.line(&of_backfilled(time))?,
            Format::Name => out.line(&time.at.to_string())?,
            Format::Json | Format::Jsonl => told.push(OfDay::Backfilled(time.clone())),
        }
    }
    match out.format {
        Format::Json => out.json(&told)?,
        Format::Jsonl => told.iter().try_for_each(|row| out.json(row))?,
        Format::Table if args.verdict.is_none() && page.next_cursor.is_none() => {
            out.write(&rest_of_day(date, last, &page.backfilled_only, args, client).await?)?;
        }
        Format::Table | Format::Name => {}
    }
    if page.next_cursor.is_some() || page.backfilled_only_is_partial {
        out.hint(&format!("There were more; see them with --from {date} --to {tomorrow}, or with a larger --limit."));
    }
    Ok(Exit::Ok)
}

/// One planned time in a sentence, and its job in another: `Some(None)` if it was asked for and is gone.
fn of_occurrence(occurrence: &OccurrenceView, job: Option<&Option<Job>>, out: &Output) -> String {
    let plain = |text: &str| one_line(&out.zone.localize(text));
    let backfilled = backfilled_words(&occurrence.backfilled);
    let told = format!("{}  {}{backfilled}", plain_local(&occurrence.local), plain(&occurrence.explanation));
    match job {
        Some(Some(job)) => format!("{told}\n  {} {}: {}", job.id, job.state, plain(&job.explanation)),
        Some(None) => format!("{told}\n  the job is no longer on record"),
        None => told,
    }
}

/// What is planned on a day and not on record: it is still to come, or was never decided about.
async fn rest_of_day(
    date: Date,
    last: Option<Timestamp>,
    backfilled: &[BackfilledTime],
    args: &HistoryArgs,
    client: &Client,
) -> anyhow::Result<String> {
    let schedule = match client.schedule(&args.name).await {
        // One that is gone has a record, and nothing to come.
        Err(error) if last.is_some() && error.kind() == Some(ErrorKind::NotFound) => return Ok(String::new()),
        schedule => schedule?,
    };
    let now = now();
    let is_today = show_in(&schedule.zone, now).starts_with(&date.to_string());
    // Of today, what is over is told only if nothing else can be. What waits out its jitter is not over.
    let waits_from = now - schedule.definition.jitter.unwrap_or(Span::ZERO);
    let from = match last {
        Some(last) if is_today => last.max(waits_from).to_string(),
        Some(last) => last.to_string(),
        None if is_today => waits_from.to_string(),
        None => date.to_string(),
    };
    let mut planned = planned_on(date, from, args, client).await?;
    planned.times.retain(|time| !is_today || time.start_at > now);
    if planned.times.is_empty() && last.is_none() {
        planned = planned_on(date, date.to_string(), args, client).await?;
    }
    planned.times.retain(|time| last.is_none_or(|last| time.at > last));
    planned.times.retain(|time| backfilled.iter().all(|known| known.at != time.at));
    let told = match (last, backfilled) {
        (Some(_), _) => DayRecord::Records,
        (None, [_, ..]) => DayRecord::Backfilled,
        (None, []) => DayRecord::Nothing,
    };
    Ok(of_rest(&schedule, date, told, &planned, now))
}

/// Planned times of a day.
struct PlannedTimes {
    times: Vec<PreviewedTime>,
    /// There may be later ones.
    is_cut: bool,
}

async fn planned_on(date: Date, from: String, args: &HistoryArgs, client: &Client) -> anyhow::Result<PlannedTimes> {
    /// A sentence needs no more.
    const LOOK_AT: usize = 100;
    let query = PreviewQuery { count: Some(LOOK_AT.to_string()), from: Some(from) };
    let mut times = client.preview_schedule(&args.name, &query).await?.occurrences;
    let prefix = date.to_string();
    let is_cut = times.len() == LOOK_AT && times.last().is_some_and(|last| last.local.starts_with(&prefix));
    times.retain(|time| time.local.starts_with(&prefix));
    Ok(PlannedTimes { times, is_cut })
}

/// What was said of a day so far.
#[derive(Debug, Clone, Copy)]
enum DayRecord {
    Records,
    /// Only times that are on record nowhere but in backfills.
    Backfilled,
    Nothing,
}

fn of_rest(schedule: &ScheduleView, date: Date, told: DayRecord, planned: &PlannedTimes, now: Timestamp) -> String {
    let zone = &schedule.zone;
    let date = date.to_string();
    let is_over = planned.times.iter().all(|time| time.start_at <= now);
    match (&planned.times[..], told, is_over) {
        ([], DayRecord::Records | DayRecord::Backfilled, _) | (_, DayRecord::Records, true) => String::new(),
        ([], DayRecord::Nothing, _) => format!("{date}  not planned: {}\n", schedule.explanation),
        (_, _, false) => {
            let stands = match schedule.state {
                ScheduleStanding::Active => "still to come",
                ScheduleStanding::Paused => "planned, but the schedule is paused",
                ScheduleStanding::Ended => "planned, but the schedule has ended",
                ScheduleStanding::Broken => "planned, but the schedule is broken",
            };
            format!("{date}  {stands}, {zone}: {}\n", listed(planned))
        }
        (_, DayRecord::Backfilled | DayRecord::Nothing, true) => {
            let is_older = planned.times.iter().all(|time| time.at < schedule.created.at);
            let reason = if is_older {
                format!("the schedule was created later, {}", show_in(zone, schedule.created.at))
            } else {
                "its definition was another one, or the record is no longer kept".to_owned()
            };
            let nothing = if matches!(told, DayRecord::Backfilled) { "nothing else" } else { "nothing" };
            format!("{date}  {nothing} is on record: {reason}. By its definition of today: {}\n", listed(planned))
        }
    }
}

/// A few times of a day, or how many there are.
fn listed(planned: &PlannedTimes) -> String {
    /// More are only counted.
    const LISTED_MAX: usize = 6;
    let times: Vec<String> = planned.times.iter().map(planned_words).collect();
    let more = if planned.is_cut { ", and more" } else { "" };
    match &times[..] {
        [first, .., last] if times.len() > LISTED_MAX => {
            format!("{} times from {first} to {last}{more}", times.len())
        }
        times => times.join(", "),
    }
}

fn planned_words(time: &PreviewedTime) -> String {
    let local = plain_local(&time.local);
    match time.unfired {
        None => local,
        Some(UnfiredBy::Calendar) => format!("{local} (will not run: a calendar closes the day)"),
        Some(UnfiredBy::Gap) => format!("{local} (will not run: the clocks leave it out)"),
        Some(UnfiredBy::Request) => format!("{local} (will not run: somebody asked to skip it)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn told(date: &str, so_far: DayRecord, times: &[(&str, Option<&str>)]) -> String {
        let by = json!({ "at": "2026-11-10T00:00:00Z", "who": "local" });
        let schedule: ScheduleView = serde_json::from_value(json!({
            "id": "schedule_01m7et433kee4803yssgvaf2fh", "name": "n", "explanation": "at 02:30, Monday, Europe/Berlin",
            "task": { "id": "task_01m7et433kee4803yssgvaf2fh", "kind": "http", "queue": "default" }, "definition": {},
            "zone": "Europe/Berlin", "state": "active", "next": [], "created": by, "changed": by, "revision": 1, "changes": [],
        }))
        .unwrap();
        let times: Vec<PreviewedTime> = times
            .iter()
            .map(|(time, unfired)| {
                let local = format!("{date}T{time}:00+01:00");
                serde_json::from_value(json!({ "at": local, "local": local, "start_at": local, "unfired": unfired }))
                    .unwrap()
            })
            .collect();
        // 00:30 of the 16th in Berlin.
        let now = Timestamp::parse("2026-11-15T23:30:00Z").unwrap();
        let planned = PlannedTimes { is_cut: times.len() > 7, times };
        of_rest(&schedule, date.parse().unwrap(), so_far, &planned, now)
    }

    #[test]
    fn a_day_without_records_is_explained() {
        for (date, times, wanted) in [
            (
                "2026-11-16",
                &[("02:30", None)][..],
                "2026-11-16  still to come, Europe/Berlin: 2026-11-16 02:30+01:00\n",
            ),
            (
                "2026-11-17",
                &[("02:30", Some("calendar"))],
                "2026-11-17  still to come, Europe/Berlin: 2026-11-17 02:30+01:00 (will not run: a calendar closes the day)\n",
            ),
            (
                "2026-11-16",
                &[("00:15", None)],
                "2026-11-16  nothing is on record: its definition was another one, or the record is no longer kept. By its \
                 definition of today: 2026-11-16 00:15+01:00\n",
            ),
            ("2026-11-14", &[], "2026-11-14  not planned: at 02:30, Monday, Europe/Berlin\n"),
            (
                "2026-11-09",
                &[("02:30", None)],
                "2026-11-09  nothing is on record: the schedule was created later, 2026-11-10 01:00+01:00. By its definition of \
                 today: 2026-11-09 02:30+01:00\n",
            ),
            (
                "2026-11-15",
                &[("02:30", None)],
                "2026-11-15  nothing is on record: its definition was another one, or the record is no longer kept. By its \
                 definition of today: 2026-11-15 02:30+01:00\n",
            ),
        ] {
            assert_eq!(told(date, DayRecord::Nothing, times), wanted);
        }
        for (count, end) in [(7, "08:00+01:00\n"), (8, "08:00+01:00, and more\n")] {
            let many = told("2026-11-16", DayRecord::Nothing, &vec![("08:00", None); count]);
            assert!(
                many.contains(&format!("{count} times from 2026-11-16 08:00+01:00 to")),
                "they are counted: {many}"
            );
            assert!(many.ends_with(end), "{many}");
        }
    }

    #[test]
    fn beside_records_only_what_is_to_come_is_told() {
        assert_eq!(told("2026-11-15", DayRecord::Records, &[("02:30", None)]), "", "the records tell all");
        assert_eq!(told("2026-11-16", DayRecord::Records, &[]), "");
        assert!(told("2026-11-16", DayRecord::Records, &[("02:30", None)]).contains("still to come"));
    }

    #[test]
    fn beside_what_only_backfills_know_the_rest_of_the_day_is_told() {
        assert_eq!(told("2026-11-09", DayRecord::Backfilled, &[]), "", "they ran all of it");
        let rest = told("2026-11-09", DayRecord::Backfilled, &[("02:30", None)]);
        assert!(rest.starts_with("2026-11-09  nothing else is on record: the schedule was created later"), "{rest}");
    }
}
