//! What all schedules would do in a stretch of time to come: how often they fire, how many runs there are at once, and
//! when.

mod world;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::tz::TimeZone;
use punctual_api::{Busy, ErrorKind, Forecast, ForecastQuery, HourOfForecast, ScheduleForecast, limits};
use punctual_core::namespace::NamespaceId;
use punctual_core::schedule::Verdict;
use punctual_core::shard::event::LoadedSchedule;
use punctual_core::{ScheduleId, Span, TaskId, Timestamp};
use punctual_store::{Filter, JobRecord, Order, Position, ScheduleFilter, Tables};

use crate::principal::By;
use crate::principal::permission::ViewSchedules;
use crate::schedules::plans::Plans;
use crate::schedules::zone;
use crate::{App, AppError, Checked, Faults, Result, validate};

/// Without a word about it, the coming day.
const SPAN: Span = Span::from_secs(86_400);
/// How long a run takes of which nothing is known and nothing is said.
const ASSUMED: Span = Span::from_secs(10);

/// The same run on the hour, the same share of all starts: more than this is a herd.
const HERD_SHARE: f64 = 0.25;
/// Fewer starts are no herd.
const HERD_MIN: usize = 50;

const PAGE: usize = 1000;
const SHOWN: usize = 20;

impl App {
    /// Plays all schedules, as they are stored, from one moment to another.
    pub async fn forecast(&self, by: &By<ViewSchedules>, query: ForecastQuery) -> Result<Forecast> {
        let Read { from, to, otherwise } = read(&query, self.now())?;
        let _turn = self.0.forecasts.try_acquire().map_err(|_| {
            AppError::new(ErrorKind::TooManyRequests, "another forecast is being made")
                .hint("try again in a few seconds")
        })?;
        let (schedules, names) = self.forecast_schedules(by.namespace(), query.prefix).await?;
        let count = schedules.len();
        let durations = self.usual_durations(&schedules).await?;
        let plans = world::Plans { schedules, from, to, durations, otherwise };
        let happened = tokio::task::spawn_blocking(move || world::play(plans)).await;
        let happened = happened.map_err(|_| AppError::new(ErrorKind::Internal, "the forecast broke down"))?;
        Ok(summary(&happened, &names, count, from, to))
    }

    async fn forecast_schedules(
        &self,
        namespace: NamespaceId,
        prefix: Option<String>,
    ) -> Result<(Vec<LoadedSchedule>, BTreeMap<ScheduleId, String>)> {
        let filter = ScheduleFilter { namespace, prefix, ..ScheduleFilter::default() };
        let (mut loaded, mut names) = (Vec::new(), BTreeMap::new());
        let mut after = None;
        loop {
            let (rows, next) = self.0.store.list_schedules(filter.clone(), after, PAGE).await?;
            let calendars = self.calendars_named(namespace, rows.iter().flat_map(|row| &row.edit.calendars)).await?;
            let tasks = self.0.store.tasks_by_id(rows.iter().map(|row| row.edit.task).collect()).await?;
            let tasks: BTreeMap<TaskId, _> = tasks.into_iter().map(|task| (task.id, Arc::new(task))).collect();
            let mut plans = Plans::new(&calendars);
            for row in rows {
                // What cannot be planned does not fire.
                let Ok(plan) = plans.get(&row) else { continue };
                let Some(task) = tasks.get(&row.edit.task).cloned() else { continue };
                let name = row.name.as_str().into();
                names.insert(row.id, row.name);
                loaded.push(LoadedSchedule {
                    id: row.id,
                    plan,
                    task,
                    name,
                    priority: row.edit.priority,
                    has_input: false,
                    state: row.state,
                });
            }
            if loaded.len() > limits::FORECAST_SCHEDULES_MAX {
                let error =
                    AppError::field("prefix", format!("more than {} schedules", limits::FORECAST_SCHEDULES_MAX));
                return Err(error.hint("choose some of them by the beginning of their names"));
            }
            after = next;
            if after.is_none() {
                return Ok((loaded, names));
            }
        }
    }

    /// How long the last run of each task took.
    async fn usual_durations(&self, schedules: &[LoadedSchedule]) -> Result<BTreeMap<TaskId, Span>> {
        let tasks: std::collections::BTreeSet<TaskId> = schedules.iter().map(|row| row.task.id).collect();
        let mut durations = BTreeMap::new();
        for task in tasks.into_iter().take(limits::FORECAST_TASKS_MAX) {
            let filter = Filter { tables: Tables::Finished, task: Some(task), ..Filter::default() };
            let position = Position { after: None, order: Order::Descending, limit: 1 };
            let Some(job) = self.0.store.list_jobs(filter, position).await?.finished.rows.pop() else { continue };
            if let Some(JobRecord::Finished { attempts, .. }) = self.0.store.job(job.id).await?
                && let Some(last) = attempts.last()
            {
                durations.insert(task, last.finished_at.since(last.started_at));
            }
        }
        Ok(durations)
    }
}

/// What the parameters mean.
struct Read {
    from: Timestamp,
    to: Timestamp,
    /// How long a run takes of which nothing is known.
    otherwise: Span,
}

fn read(query: &ForecastQuery, now: Timestamp) -> Result<Read> {
    let mut faults = Faults::default();
    let Parts { from, to, assumed } = parts(query, &mut faults);
    let range = from.zip(to).map(|(from, to)| {
        let from = from.unwrap_or(now);
        (from, to.unwrap_or(from + SPAN))
    });
    if let Some((from, to)) = range {
        faults.check(check_range(from, to));
    }
    faults.finish()?;
    let (from, to) = range.expect("it was read, or refused");
    Ok(Read { from, to, otherwise: assumed.unwrap_or(ASSUMED) })
}

/// Each parameter by itself; `None` for a time that cannot be read.
struct Parts {
    from: Option<Option<Timestamp>>,
    to: Option<Option<Timestamp>>,
    assumed: Option<Span>,
}

fn parts(query: &ForecastQuery, faults: &mut Faults) -> Parts {
    let time = |field, text: &Option<String>| {
        text.as_deref().map(|text| zone::parse_time(field, text, &TimeZone::UTC)).transpose()
    };
    let from = faults.value(time("from", &query.from));
    let to = faults.value(time("to", &query.to));
    let assumed = query.assume.as_deref().map(Span::parse).transpose();
    let assumed = faults.value(assumed.map_err(|error| AppError::time("assume", &error))).flatten();
    if let Some(prefix) = &query.prefix {
        faults.check(validate::name("prefix", prefix));
    }
    Parts { from, to, assumed }
}

impl Checked for ForecastQuery {
    fn check(&self) -> Result<()> {
        let mut faults = Faults::default();
        parts(self, &mut faults);
        faults.finish()
    }
}

fn check_range(from: Timestamp, to: Timestamp) -> Result<()> {
    if to <= from {
        return Err(AppError::out_of_range("to", "must be later than `from`"));
    }
    if to.since(from) > limits::FORECAST_SPAN_MAX {
        return Err(AppError::out_of_range(
            "to",
            format!("must be at most {} after `from`", limits::FORECAST_SPAN_MAX),
        ));
    }
    Ok(())
}

fn summary(
    happened: &world::Happened,
    names: &BTreeMap<ScheduleId, String>,
    schedules: usize,
    from: Timestamp,
    to: Timestamp,
) -> Forecast {
    let count = |verdict| happened.verdicts.values().filter(|found| **found == verdict).count();
    let mut by_minute: BTreeMap<i64, usize> = BTreeMap::new();
    for begun in &happened.begun {
        *by_minute.entry(begun.as_micros() / 60_000_000).or_default() += 1;
    }
    let mut busiest: Vec<Busy> = by_minute
        .iter()
        .map(|(minute, starts)| Busy { at: Timestamp::saturating_from_micros(minute * 60_000_000), starts: *starts })
        .collect();
    busiest.sort_by_key(|busy| std::cmp::Reverse(busy.starts));
    busiest.truncate(5);
    let on_the_hour = by_minute.iter().filter(|(minute, _)| *minute % 60 == 0).map(|(_, starts)| starts).sum::<usize>();
    let starts = happened.begun.len();
    let share = if starts == 0 { 0.0 } else { on_the_hour as f64 / starts as f64 };
    let herd = (starts >= HERD_MIN && share > HERD_SHARE).then(|| {
        format!(
            "{on_the_hour} of {starts} starts fall on minute 0 of an hour; a jitter, or H instead of 0 in the minute field, \
             spreads them"
        )
    });
    Forecast {
        from,
        to: happened.stopped_at.unwrap_or(to),
        is_cut: happened.stopped_at.is_some(),
        schedules,
        starts,
        skipped: count(Verdict::SkippedOverlap),
        queued_at_end: count(Verdict::Queued),
        not_run: happened.verdicts.len()
            - count(Verdict::Fired)
            - count(Verdict::SkippedOverlap)
            - count(Verdict::Queued),
        peak: happened.peak.map(|(at, running)| Busy { at, starts: running }),
        hours: hours(&by_minute, from, happened.stopped_at.unwrap_or(to)),
        busiest,
        herd,
        overlapping: overlapping(happened, names),
    }
}

/// The starts of each hour, in twelve parts of five minutes.
fn hours(by_minute: &BTreeMap<i64, usize>, from: Timestamp, to: Timestamp) -> Vec<HourOfForecast> {
    let hour = |at: Timestamp| at.as_micros() / 3_600_000_000;
    let last = hour(to - Span::from_micros(1)).min(hour(from) + limits::FORECAST_HOURS_SHOWN - 1);
    (hour(from)..=last)
        .map(|hour| {
            let mut parts = vec![0; 12];
            for (minute, starts) in by_minute.range(hour * 60..(hour + 1) * 60) {
                parts[(minute % 60 / 5) as usize] += starts;
            }
            HourOfForecast { at: Timestamp::saturating_from_micros(hour * 3_600_000_000), parts }
        })
        .collect()
}

/// The schedules whose runs meet most often.
fn overlapping(happened: &world::Happened, names: &BTreeMap<ScheduleId, String>) -> Vec<ScheduleForecast> {
    let mut met: BTreeMap<ScheduleId, (usize, usize)> = BTreeMap::new();
    for ((id, _), verdict) in &happened.verdicts {
        let (planned, skipped) = met.entry(*id).or_default();
        *planned += 1;
        *skipped += usize::from(matches!(verdict, Verdict::SkippedOverlap | Verdict::Queued));
    }
    let mut met: Vec<ScheduleForecast> = met
        .into_iter()
        .filter(|(_, (_, held_up))| *held_up > 0)
        .filter_map(|(id, (planned, held_up))| {
            Some(ScheduleForecast { name: names.get(&id)?.clone(), planned, held_up })
        })
        .collect();
    met.sort_by(|one, other| other.held_up.cmp(&one.held_up).then_with(|| one.name.cmp(&other.name)));
    met.truncate(SHOWN);
    met
}
