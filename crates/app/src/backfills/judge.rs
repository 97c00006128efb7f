//! Which times of a backfill are run.

use punctual_api::{BackfillInclude, OlderTimes};
use punctual_core::schedule::{ScheduleRow, Verdict};
use punctual_core::{BackfillId, Timestamp};

use super::record::Elsewhere;
use super::spec::{BackfillSpec, Time};
use crate::schedules::read_spec;
use crate::{App, Result};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    Run,
    /// It has run before, or is about to.
    PassOver,
    /// It is older than the record, and nobody has said what is to become of such times.
    Unknown,
    Wait(Hold),
}

/// What may deal with a time before the backfill has to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hold {
    /// The schedule itself may be about to run it.
    Schedule,
    /// Another backfill is running it, and that may fail.
    Backfill(BackfillId),
}

/// How much is known of a schedule's times.
#[derive(Debug, Clone, Copy)]
struct Known {
    created_at: Timestamp,
    /// The schedule decides about later times.
    since: Timestamp,
    /// A time that was to start later may get its verdict yet.
    settled_until: Timestamp,
    /// Every time that was to start up to here has its verdict.
    decided_until: Timestamp,
    /// Earlier verdicts may be gone.
    record_begins_at: Timestamp,
}

impl App {
    /// What is to become of times that follow each other, in their order: of the first of them, as many as a bounded
    /// number of reads tells, and of one at least.
    pub(super) async fn judge(
        &self,
        schedule: &ScheduleRow,
        backfill: Option<BackfillId>,
        spec: &BackfillSpec,
        decided_until: Timestamp,
        times: &[Time],
    ) -> Result<Vec<Call>> {
        match spec.include {
            BackfillInclude::All => return Ok(vec![Call::Run; times.len()]),
            BackfillInclude::NotRun => {}
        }
        let (now, begun_at) = (self.now(), spec.unknown.as_ref().map(|unknown| unknown.record_begins_at));
        let missed_after = read_spec(&schedule.edit.spec).and_then(|spec| spec.missed_after);
        let known = Known {
            settled_until: now - self.0.settings.decided_within_of(missed_after),
            created_at: schedule.created.at,
            since: schedule.state.since,
            decided_until,
            // Some may have left the record since the backfill was made.
            record_begins_at: begun_at.unwrap_or(Timestamp::EPOCH).max(self.record_begins_at(now)),
        };
        let instants: Vec<Timestamp> = times.iter().map(|time| time.at).collect();
        let verdicts = self.verdicts_of(schedule.id, &instants).await?;
        let elsewhere = self.elsewhere_of(schedule.id, backfill, &instants[..verdicts.covered]).await?;
        let judged = times.iter().take(elsewhere.covered).map(|time| {
            let call =
                call(time, known, verdicts.by_time.get(&time.at).copied(), elsewhere.by_time.get(&time.at).copied());
            by(call, spec.older)
        });
        Ok(judged.collect())
    }

    /// What became of earlier times may be forgotten.
    pub(super) fn record_begins_at(&self, now: Timestamp) -> Timestamp {
        now - self.0.settings.retention
    }
}

/// Whether such a time is on record is a matter of luck.
pub(super) fn is_older(time: &Time, created_at: Timestamp, record_begins_at: Timestamp) -> bool {
    time.slot > created_at && time.at < record_begins_at
}

fn call(time: &Time, known: Known, verdict: Option<Verdict>, elsewhere: Option<Elsewhere>) -> Call {
    let is_settled = time.slot <= known.settled_until && time.slot <= known.decided_until;
    match (verdict, elsewhere) {
        // One that is queued will have its turn.
        (Some(Verdict::Fired | Verdict::Queued), _) | (_, Some(Elsewhere::Ran)) => Call::PassOver,
        (_, Some(Elsewhere::Open(other))) => Call::Wait(Hold::Backfill(other)),
        (None, None) if time.slot > known.since && !is_settled => Call::Wait(Hold::Schedule),
        (None, None) if is_older(time, known.created_at, known.record_begins_at) => Call::Unknown,
        (
            None
            | Some(
                Verdict::SkippedOverlap
                | Verdict::SkippedPaused
                | Verdict::SkippedCalendar
                | Verdict::SkippedGap
                | Verdict::SkippedByRequest
                | Verdict::Missed
                | Verdict::SkippedMaxRuns,
            ),
            None,
        ) => Call::Run,
    }
}

/// As somebody decided about times that are older than the record.
fn by(call: Call, older: Option<OlderTimes>) -> Call {
    match (call, older) {
        (Call::Unknown, Some(OlderTimes::Run)) => Call::Run,
        (Call::Unknown, Some(OlderTimes::Skip)) => Call::PassOver,
        (Call::Run | Call::PassOver | Call::Wait(_) | Call::Unknown, _) => call,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_micros(secs * 1_000_000).expect("a time")
    }

    /// Created at 1,000; the record begins at 2,000 and is complete up to 8,000.
    const NOW: i64 = 10_000;

    fn known() -> Known {
        Known {
            settled_until: at(NOW - 120),
            created_at: at(1000),
            since: at(1000),
            decided_until: at(8000),
            record_begins_at: at(2000),
        }
    }

    fn time(secs: i64) -> Time {
        Time { at: at(secs), slot: at(secs) }
    }

    #[test]
    fn a_time_is_judged_by_when_it_was_to_start() {
        assert_eq!(call(&time(7999), known(), None, None), Call::Run);
        assert_eq!(call(&time(8001), known(), None, None), Call::Wait(Hold::Schedule));
        // Planned before and to start after what is decided: the schedule has yet to decide about it.
        let jittered = Time { at: at(7000), slot: at(8500) };
        assert_eq!(call(&jittered, known(), None, None), Call::Wait(Hold::Schedule));
        let all = Known { decided_until: Timestamp::MAX, ..known() };
        assert_eq!(call(&jittered, all, None, None), Call::Run);
        assert_eq!(call(&time(NOW - 119), all, None, None), Call::Wait(Hold::Schedule), "it may be about to run");
        assert_eq!(call(&time(NOW - 121), all, None, None), Call::Run);
        assert_eq!(call(&jittered, known(), Some(Verdict::Missed), None), Call::Run, "it is decided");
    }

    #[test]
    fn what_is_older_than_the_record_is_not_known_to_have_run() {
        assert_eq!(call(&time(1500), known(), None, None), Call::Unknown);
        assert_eq!(call(&time(2000), known(), None, None), Call::Run);
        assert_eq!(call(&time(999), known(), None, None), Call::Run, "there was no schedule");
        assert_eq!(call(&time(1500), known(), Some(Verdict::Missed), None), Call::Run, "it is still on record");
        assert_eq!(call(&time(1500), known(), Some(Verdict::Fired), None), Call::PassOver);
        assert_eq!(by(Call::Unknown, Some(OlderTimes::Run)), Call::Run);
        assert_eq!(by(Call::Unknown, Some(OlderTimes::Skip)), Call::PassOver);
        assert_eq!(by(Call::Unknown, None), Call::Unknown);
        assert_eq!(by(Call::Run, Some(OlderTimes::Skip)), Call::Run);
    }

    #[test]
    fn what_another_backfill_is_running_is_waited_for() {
        let other = BackfillId::new(at(1), 1);
        for verdict in [None, Some(Verdict::Missed)] {
            let open = call(&time(5000), known(), verdict, Some(Elsewhere::Open(other)));
            assert_eq!(open, Call::Wait(Hold::Backfill(other)));
            assert_eq!(call(&time(5000), known(), verdict, Some(Elsewhere::Ran)), Call::PassOver);
        }
        let fired = call(&time(5000), known(), Some(Verdict::Fired), Some(Elsewhere::Open(other)));
        assert_eq!(fired, Call::PassOver, "it ran by plan");
    }
}
