//! What a run knows of the schedule that made it.

use std::sync::Arc;

use crate::id::ScheduleId;
use crate::schedule::plan::to_jiff;
use crate::schedule::{Plan, Source, SourceKind, seed_of};
use crate::time::{Span, Timestamp};

/// The schedule, the planned time and the data interval of a run, as its task sees them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduledRun {
    pub schedule: ScheduleId,
    /// Absent if the schedule was deleted before the attempt started; so is what only the definition says.
    pub name: Option<String>,
    pub kind: SourceKind,
    pub planned_at: Timestamp,
    /// The planned time with the offset of the schedule's time zone, by RFC 3339.
    pub planned_local: Option<String>,
    pub time_zone: Option<String>,
    /// The previous planned time. The data interval begins there, and ends at the planned time, which is not part of it.
    pub interval_start: Option<Timestamp>,
    /// The latest planned time whose run has succeeded.
    pub last_success: Option<Timestamp>,
}

/// Where a scheduled run comes from. The owner hands it on as it is; what it means takes longer to work out than the
/// owner can wait.
#[derive(Debug, Clone)]
pub struct Origin {
    pub source: Source,
    /// `None` if the owner does not have the schedule in memory.
    pub schedule: Option<OriginSchedule>,
}

#[derive(Debug, Clone)]
pub struct OriginSchedule {
    pub name: Box<str>,
    pub plan: Arc<Plan>,
    pub last_success: Option<Timestamp>,
}

impl Origin {
    pub fn scheduled_run(&self) -> ScheduledRun {
        let Source { schedule, at, kind, .. } = self.source;
        let mut run = ScheduledRun {
            schedule,
            name: None,
            kind,
            planned_at: at,
            planned_local: None,
            time_zone: None,
            interval_start: None,
            last_success: None,
        };
        if let Some(OriginSchedule { name, plan, last_success }) = &self.schedule {
            run.name = Some(name.to_string());
            run.planned_local = Some(local(at, plan.zone()));
            run.time_zone = Some(plan.spec.when.zone.clone());
            run.interval_start = plan.previous(at, seed_of(name));
            run.last_success = *last_success;
        }
        run
    }
}

fn local(at: Timestamp, zone: &jiff::tz::TimeZone) -> String {
    let zoned = to_jiff(at).to_zoned(zone.clone());
    let (text, offset) = (zoned.datetime(), zoned.offset());
    let seconds = offset.seconds();
    let sign = if seconds < 0 { '-' } else { '+' };
    let minutes = seconds.unsigned_abs() / 60;
    format!("{text}{sign}{:02}:{:02}", minutes / 60, minutes % 60)
}

/// Farther back than any cron expression reaches: 29 February on a given weekday comes every 28 years, or 40 around a
/// year like 2100.
const LOOK_BACK_MAX: Span = Span::from_secs(41 * 366 * 86_400);

/// The first look back, for a schedule without a later time to learn its pace from.
const LOOK_BACK_MIN: Span = Span::from_secs(60);

/// Times that are walked one by one; more of them are searched by halves.
const STEPS_MAX: usize = 32;

impl Plan {
    /// The last time that fires before `at`.
    pub fn previous(&self, at: Timestamp, seed: u64) -> Option<Timestamp> {
        let first_after = |after: Timestamp| {
            let first = self.fires_after(after, seed).next()?;
            Timestamp::from_micros(first.at.as_microsecond()).filter(|first| *first < at)
        };
        // The pace after it is mostly the pace before it.
        let next = self.fires_after(at, seed).next().and_then(|next| Timestamp::from_micros(next.at.as_microsecond()));
        let mut back = next.map_or(LOOK_BACK_MIN, |next| (next + Span::from_secs(1)).since(at)).min(LOOK_BACK_MAX);
        let mut known = loop {
            let from = Timestamp::EPOCH.max(at - back);
            if let Some(found) = first_after(from) {
                break found;
            }
            if back >= LOOK_BACK_MAX || from == Timestamp::EPOCH {
                return None;
            }
            back = Span::from_micros(back.as_micros().saturating_mul(4)).min(LOOK_BACK_MAX);
        };
        for _ in 0..STEPS_MAX {
            match first_after(known) {
                Some(later) => known = later,
                None => return Some(known),
            }
        }
        // None fires between `bound` and `at`.
        let mut bound = at;
        while bound.since(known).as_micros() > 1 {
            let middle = known + Span::from_micros(bound.since(known).as_micros() / 2);
            match first_after(middle) {
                Some(later) => known = later,
                None => bound = middle,
            }
        }
        Some(known)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::id::ShardId;

    fn plan(rules: &str) -> Plan {
        let text = format!(r#"{{"when":{{"rules":[{rules}],"zone":"Europe/Berlin"}}}}"#);
        Plan::read(&text, &BTreeMap::new(), seed_of("s")).unwrap()
    }

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).unwrap()
    }

    #[test]
    fn the_interval_begins_at_the_previous_planned_time() {
        let check = |rules: &str, planned: &str, previous: Option<&str>| {
            assert_eq!(plan(rules).previous(at(planned), seed_of("s")), previous.map(at), "{rules} before {planned}");
        };
        check(r#"{"cron":"0 9 * * *"}"#, "2026-11-16T08:00:00Z", Some("2026-11-15T08:00:00Z"));
        // Over a clock change the day has 25 hours.
        check(r#"{"cron":"0 9 * * *"}"#, "2026-10-25T08:00:00Z", Some("2026-10-24T07:00:00Z"));
        check(r#"{"cron":"0 9 * * 1-5"}"#, "2026-11-16T08:00:00Z", Some("2026-11-13T08:00:00Z"));
        check(r#"{"cron":"0 0 29 2 *"}"#, "2028-02-28T23:00:00Z", Some("2024-02-28T23:00:00Z"));
        // A manual run lies between two planned times.
        check(r#"{"cron":"0 9 * * *"}"#, "2026-11-16T11:22:33Z", Some("2026-11-16T08:00:00Z"));
        // Many times of another pace lie between the first that is found and the one that is asked for.
        check(r#"{"cron":"* * 1 1 *"}"#, "2026-12-31T23:00:00Z", Some("2026-01-01T22:59:00Z"));
        check(r#"{"once":"2026-11-16T08:00:00Z"}"#, "2026-11-16T08:00:00Z", None);
    }

    #[test]
    fn a_run_of_a_deleted_schedule_knows_its_planned_time_alone() {
        let planned = at("2026-11-16T08:00:00Z");
        let schedule = ScheduleId::new(planned, ShardId(1), 7);
        let source = Source { schedule, at: planned, kind: SourceKind::Replayed, is_tracked: false };
        let known = OriginSchedule {
            name: "s".into(),
            plan: Arc::new(plan(r#"{"cron":"0 9 * * *"}"#)),
            last_success: Some(at("2026-11-14T08:00:00Z")),
        };
        let run = Origin { source, schedule: Some(known) }.scheduled_run();
        assert_eq!(run.planned_local.as_deref(), Some("2026-11-16T09:00:00+01:00"));
        assert_eq!(run.time_zone.as_deref(), Some("Europe/Berlin"));
        assert_eq!(run.interval_start, Some(at("2026-11-15T08:00:00Z")));
        let bare = Origin { source, schedule: None }.scheduled_run();
        assert_eq!((bare.name, bare.planned_at, bare.kind), (None, planned, SourceKind::Replayed));
        assert_eq!((bare.interval_start, bare.time_zone, bare.last_success), (None, None, None));
    }
}
