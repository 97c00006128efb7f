//! Starting a backfill: what is asked for is checked, and what it would run is worked out.

use jiff::tz::TimeZone;
use punctual_api::{
    BackfillInclude, BackfillPlan, BackfillRequest, BackfillTime, BackfillView, ErrorKind, UnknownTimes, limits,
};
use punctual_core::schedule::{By, Overlap, ScheduleRow};
use punctual_core::{BackfillId, Timestamp};
use punctual_store::{BACKFILLS_MAX, BACKFILLS_OF_ALL_MAX, BackfillProgress, BackfillRow, BackfillState};

use super::judge::{Call, is_older};
use super::spec::{BackfillSpec, Time, Times};
use super::view::view;
use crate::principal::permission::ControlSchedules;
use crate::schedules::{read_rules, refused, zone};
use crate::{App, AppError, Checked, Faults, Result};

/// More times than this are not counted to the end.
const COUNTED_MAX: usize = 1_000_000;
/// Times of a dry run that are looked at together.
const JUDGED_AT_ONCE: usize = 1000;
/// Times that a dry run names.
const FIRST_SHOWN: usize = 10;

/// What a request led to.
#[derive(Debug)]
pub enum Backfilling {
    Started(Box<BackfillView>),
    /// It was a dry run.
    Planned(BackfillPlan),
}

impl App {
    pub async fn start_backfill(
        &self,
        by: &crate::By<ControlSchedules>,
        name: &str,
        request: &BackfillRequest,
    ) -> Result<Backfilling> {
        let who = by.who();
        let (overlap, max_active) = check(request)?;
        let schedule = self.read_schedule(by.namespace(), name).await?;
        let rules = read_rules(&schedule).ok_or_else(|| refused("its definition cannot be read".to_owned()))?;
        let (from, to) = self.range(request, &rules.when.zone)?;
        let (include, older) = (request.include, request.unknown);
        let mut spec = BackfillSpec { from, to, overlap, max_active, include, older, unknown: None, rules };
        let times = self.times_of(&spec, schedule.namespace, &schedule.name).await?;
        let times = times.map_err(|error| refused(format!("its times cannot be worked out: {error}")))?;
        let times = list(times).await?;
        spec.unknown = self.unknown_times(&schedule, &spec, &times);
        if request.dry_run {
            return Ok(Backfilling::Planned(self.dry_run(&schedule, &spec, &times).await?));
        }
        if times.is_empty() {
            let error = AppError::field("/from", "the schedule has no times in this range");
            return Err(error.hint("GET /v1/schedules/{name}/preview?from=… shows its times"));
        }
        if let Some(unknown) = spec.unknown.as_ref().filter(|unknown| unknown.decision.is_none()) {
            return Err(undecided(unknown, times.len(), &spec));
        }
        let now = self.now();
        let row = BackfillRow {
            id: BackfillId::new(now, self.random()),
            namespace: schedule.namespace,
            schedule: schedule.id,
            schedule_name: schedule.name,
            spec: spec.write(),
            created: By { at: now, who: who.to_owned() },
            version: 1,
            progress: beginning(times.len()),
        };
        let started = view(&row)?;
        if !self.0.store.add_backfill(row).await? {
            let detail = format!(
                "too many backfills are running: {BACKFILLS_MAX} may in a namespace, and {BACKFILLS_OF_ALL_MAX} in the cluster"
            );
            return Err(AppError::new(ErrorKind::TooManyBackfills, detail).hint("wait for one of them, or abort one"));
        }
        self.0.backfill_requested.notify_one();
        Ok(Backfilling::Started(Box::new(started)))
    }

    fn range(&self, request: &BackfillRequest, zone: &str) -> Result<(Timestamp, Timestamp)> {
        let (zone, now) = (zone::find(zone), self.now());
        let (from, to) = read_range(request, &zone)?;
        let to = to.unwrap_or(now);
        if to > now {
            let error = AppError::out_of_range("/to", "must not be in the future");
            return Err(error.hint("leave it out for now; the schedule itself runs what is to come"));
        }
        if from >= to {
            let error = AppError::out_of_range("/from", "must be earlier than the end of the range");
            return Err(error.hint("`from` is included, `to` is not"));
        }
        Ok((from, to))
    }

    async fn dry_run(&self, schedule: &ScheduleRow, spec: &BackfillSpec, times: &[Time]) -> Result<BackfillPlan> {
        let zone = spec.zone();
        let shown = |time: &Time| BackfillTime { at: time.at, local: zone::local(time.at, &zone) };
        let (mut first, mut last, mut runs, mut passed_over) = (Vec::new(), None, 0, 0);
        let mut rest = times;
        while !rest.is_empty() {
            let part = &rest[..rest.len().min(JUDGED_AT_ONCE)];
            let calls = self.judge(schedule, None, spec, Timestamp::MAX, part).await?;
            rest = &rest[calls.len()..];
            for (time, call) in part.iter().zip(calls) {
                match call {
                    Call::PassOver => {
                        passed_over += 1;
                        continue;
                    }
                    Call::Unknown => continue,
                    // Unless what is waited for is quicker.
                    Call::Run | Call::Wait(_) => {}
                }
                runs += 1;
                last = Some(time);
                if first.len() < FIRST_SHOWN {
                    first.push(shown(time));
                }
            }
        }
        Ok(BackfillPlan {
            zone: spec.rules.when.zone.clone(),
            total: number(times.len()),
            runs,
            passed_over,
            unknown: spec.unknown.clone(),
            first,
            last: last.map(shown),
        })
    }
}

impl App {
    /// Those that are older than the record.
    fn unknown_times(&self, schedule: &ScheduleRow, spec: &BackfillSpec, times: &[Time]) -> Option<UnknownTimes> {
        match spec.include {
            BackfillInclude::All => return None,
            BackfillInclude::NotRun => {}
        }
        let record_begins_at = self.record_begins_at(self.now());
        let older = times.iter().filter(|time| is_older(time, schedule.created.at, record_begins_at)).count();
        (older > 0).then(|| UnknownTimes { times: number(older), record_begins_at, decision: spec.older })
    }
}

/// Everything that can be checked without the schedule. How many may run at a time.
fn check(request: &BackfillRequest) -> Result<(Overlap, u32)> {
    let mut faults = Faults::default();
    let overlap = faults.value(check_overlap(request));
    faults.check(check_older(request));
    faults.check(read_range(request, &TimeZone::UTC).map(drop));
    faults.finish()?;
    Ok(overlap.expect("it was read, or refused"))
}

impl Checked for BackfillRequest {
    fn check(&self) -> Result<()> {
        check(self).map(drop)
    }
}

/// Dates are those of the schedule's zone.
fn read_range(request: &BackfillRequest, zone: &TimeZone) -> Result<(Timestamp, Option<Timestamp>)> {
    let mut faults = Faults::default();
    let from = faults.value(zone::parse_time("/from", &request.from, zone));
    let to = request.to.as_deref().map(|text| zone::parse_time("/to", text, zone)).transpose();
    let to = faults.value(to).flatten();
    faults.finish()?;
    Ok((from.expect("it was read, or refused"), to))
}

fn check_older(request: &BackfillRequest) -> Result<()> {
    match (request.include, request.unknown) {
        (BackfillInclude::All, Some(_)) => {
            let error = AppError::field("/unknown", "has no meaning where every time is run");
            Err(error.hint("leave it out, or leave `include` out"))
        }
        (BackfillInclude::All, None) | (BackfillInclude::NotRun, _) => Ok(()),
    }
}

/// Nothing is run twice, and nothing left out, that nobody has decided about.
fn undecided(unknown: &UnknownTimes, total: usize, spec: &BackfillSpec) -> AppError {
    let begins = zone::local(unknown.record_begins_at, &spec.zone());
    let detail = format!(
        "{} of the {total} times are older than the record, which begins at {begins}: whether they ran is not known",
        unknown.times
    );
    AppError::field("/unknown", detail).hint("say run or skip, or begin the range later")
}

/// All times of the range, unless there are too many.
async fn list(times: Times) -> Result<Vec<Time>> {
    let count = move || {
        let mut all = times.after(None);
        let listed: Vec<Time> = all.by_ref().take(limits::BACKFILL_TIMES_MAX).collect();
        let more = all.take(COUNTED_MAX - limits::BACKFILL_TIMES_MAX).count();
        (listed, more)
    };
    // A million times take a while.
    let counted = tokio::task::spawn_blocking(count).await;
    let (listed, more) = counted.map_err(|_| AppError::new(ErrorKind::Internal, "the times could not be counted"))?;
    if more == 0 {
        return Ok(listed);
    }
    let found = listed.len() + more;
    let found = if found == COUNTED_MAX { format!("{found} times or more") } else { format!("{found} times") };
    let detail = format!("the range has {found}, and a backfill at most {}", limits::BACKFILL_TIMES_MAX);
    Err(AppError::out_of_range("/from", detail).hint("make several backfills, each of a part of the range"))
}

fn beginning(total: usize) -> BackfillProgress {
    BackfillProgress {
        state: BackfillState::Running,
        reached: None,
        total: number(total),
        made: 0,
        passed_over: 0,
        succeeded: 0,
        failed: 0,
        cancelled: 0,
        ended: None,
        note: None,
    }
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// How many may run at a time.
fn check_overlap(request: &BackfillRequest) -> Result<(Overlap, u32)> {
    let word = request.overlap.as_deref().unwrap_or("queue_all");
    let overlap = match word {
        "queue_all" => Overlap::QueueAll,
        "allow" => Overlap::Allow,
        _ => {
            let shown: String = word.chars().take(64).collect();
            let error = AppError::field("/overlap", format!("`{shown}` is not one of queue_all, allow"));
            return Err(match word {
                "skip" | "queue_one" => error.hint(
                    "a backfill runs every time of its range, so none is skipped: queue_all runs one after the other",
                ),
                "cancel_previous" => error.hint(
                    "a backfill runs every time of its range, so none ends another: queue_all runs one after the other",
                ),
                _ => error.hint("queue_all runs one after the other, allow up to `max_active` side by side"),
            });
        }
    };
    match (overlap, request.max_active) {
        (Overlap::Allow, None) => Ok((overlap, limits::BACKFILL_ACTIVE_DEFAULT)),
        (Overlap::Allow, Some(max)) if (1..=limits::BACKFILL_ACTIVE_MAX).contains(&max) => Ok((overlap, max)),
        (Overlap::Allow, Some(_)) => {
            Err(AppError::out_of_range("/max_active", format!("must be 1 to {}", limits::BACKFILL_ACTIVE_MAX)))
        }
        (_, None | Some(1)) => Ok((overlap, 1)),
        (_, Some(_)) => {
            let error = AppError::field("/max_active", "runs of queue_all are one at a time");
            Err(error.hint("set `overlap` to allow, or leave `max_active` out"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(overlap: Option<&str>, max_active: Option<u32>) -> std::result::Result<(Overlap, u32), String> {
        let request = BackfillRequest { overlap: overlap.map(str::to_owned), max_active, ..BackfillRequest::default() };
        check_overlap(&request).map_err(|error| format!("{}; {}", error.detail, error.hint.unwrap_or_default()))
    }

    #[test]
    fn only_policies_that_run_every_time_are_taken() {
        assert_eq!(check(None, None), Ok((Overlap::QueueAll, 1)));
        assert_eq!(check(Some("queue_all"), Some(1)), Ok((Overlap::QueueAll, 1)));
        assert_eq!(check(Some("allow"), None), Ok((Overlap::Allow, 10)));
        assert_eq!(check(Some("allow"), Some(1000)), Ok((Overlap::Allow, 1000)));
        for (overlap, max, expected) in [
            (Some("skip"), None, "none is skipped"),
            (Some("queue_one"), None, "none is skipped"),
            (Some("cancel_previous"), None, "none ends another"),
            (Some("ALLOW"), None, "not one of queue_all, allow"),
            (Some(""), None, "not one of queue_all, allow"),
            (None, Some(2), "one at a time"),
            (Some("allow"), Some(0), "must be 1 to 1000"),
            (Some("allow"), Some(1001), "must be 1 to 1000"),
        ] {
            let told = check(overlap, max).unwrap_err();
            assert!(told.contains(expected), "{overlap:?} {max:?}: {told}");
        }
    }
}
