//! Records as they should be, to be spoilt by tests.

use std::ops::Range;

use punctual_core::schedule::{CatchUpMode, Overlap};

use super::check;
use crate::clock::Moment;
use crate::schedules::definition::{Beat, Definition, Policy};
use crate::schedules::record::{Change, Record, Row, ScheduleRecord, ScheduledJob};
use crate::witness::{Ended, Seen, WitnessLine};

const SECOND: i64 = 1_000_000;
const BEGUN_US: i64 = 1_800_000_000 * SECOND;
const EVERY_US: i64 = 20 * SECOND;
const TIMES: i64 = 20;

/// One schedule that fires every 20 s, 20 times, and whose runs take a second.
pub(super) struct RecordBuilder(Record);

impl RecordBuilder {
    pub(super) fn new() -> Self {
        Self::with(Overlap::Allow)
    }

    pub(super) fn with(overlap: Overlap) -> Self {
        let policy = Policy {
            overlap,
            mode: CatchUpMode::All,
            max: 3,
            window_us: 1000 * SECOND,
            per_minute: 6,
            late_after_us: None,
            missed_after_us: None,
        };
        let mut builder = Self(Record {
            missed_after_us: 3 * SECOND,
            schedules: vec![ScheduleRecord {
                name: "some".to_owned(),
                id: "schedule_1".to_owned(),
                policy,
                definitions: vec![definition(EVERY_US)],
                created_us: BEGUN_US - 5 * SECOND,
                changes: Vec::new(),
                rows: Vec::new(),
                rows_again: Vec::new(),
            }],
            ..Record::default()
        });
        for place in 0..TIMES {
            builder.fire(BEGUN_US + place * EVERY_US);
        }
        builder
    }

    fn fire(&mut self, at_us: i64) {
        let id = format!("job_{}", self.0.jobs.len());
        let row = Row {
            at_us,
            start_us: at_us,
            verdict: "fired".to_owned(),
            decided_us: at_us + 1000,
            job: Some(id.clone()),
            marks: Vec::new(),
            count: 1,
        };
        self.0.schedules[0].rows.push(row);
        self.0.jobs.push(ScheduledJob {
            id: id.clone(),
            schedule: "schedule_1".to_owned(),
            at_us,
            kind: "planned".to_owned(),
            state: "succeeded".to_owned(),
            submitted_us: at_us + 1000,
            due_us: at_us,
            finished_us: Some(at_us + SECOND),
            attempts: 1,
            server: Some("server_1".to_owned()),
            was_lost: false,
        });
        for (after_us, seen) in [(2000, Seen::Begin), (SECOND, Seen::End(Ended::Ok))] {
            let at = Moment { boot_us: at_us + after_us, real_us: at_us + after_us };
            self.0.witness.push(WitnessLine { job: id.clone(), attempt: 1, pid: 1, at, seen });
        }
    }

    /// At this place another definition takes over.
    pub(super) fn edited(mut self, place: usize) -> Self {
        let at_us = self.0.schedules[0].rows[place].at_us + 10 * SECOND;
        self.0.schedules[0].rows.truncate(place + 1);
        self.0.jobs.truncate(place + 1);
        self.0.witness.truncate(2 * (place + 1));
        let next = definition(7 * SECOND);
        let times = next.times("some", at_us, next.end_us);
        self.0.schedules[0].definitions.push(next);
        self.0.schedules[0].changes.push(Change { at_us, kind: "edited".to_owned(), until_us: None });
        for time in times {
            self.fire(time.at_us);
        }
        self
    }

    /// The job at this place was asked for by hand.
    pub(super) fn manual(mut self, place: usize) -> Self {
        self.0.jobs[place].kind = "manual".to_owned();
        self.0.schedules[0].rows[place].marks = vec!["manual".to_owned()];
        self
    }

    pub(super) fn catch_up(mut self, mode: CatchUpMode, max: u32) -> Self {
        (self.0.schedules[0].policy.mode, self.0.schedules[0].policy.max) = (mode, max);
        self
    }

    /// Nobody was there for these places, and the last `run` of them ran afterwards.
    pub(super) fn missed(mut self, places: Range<usize>, run: usize) -> Self {
        let looked_us = self.0.schedules[0].rows[places.end - 1].at_us + 15 * SECOND;
        let pause_us = self.0.schedules[0].policy.pause_us();
        let is_in_turn = self.0.schedules[0].policy.overlap != Overlap::Allow;
        let first = places.end - run;
        self.0.broken.push((self.0.schedules[0].rows[places.start].at_us, looked_us));
        for place in places {
            let row = &mut self.0.schedules[0].rows[place];
            row.decided_us = looked_us;
            if place < first {
                (row.verdict, row.job) = ("missed".to_owned(), None);
                continue;
            }
            let due_us = looked_us + (place - first) as i64 * pause_us;
            row.marks = vec!["replayed".to_owned(), "late".to_owned()];
            row.decided_us = if is_in_turn { due_us } else { looked_us };
            let job = &mut self.0.jobs[place];
            (job.kind, job.due_us) = ("replayed".to_owned(), due_us);
            (job.submitted_us, job.finished_us) = (row.decided_us, Some(due_us + SECOND));
            for (line, after_us) in [(2 * place, 2000), (2 * place + 1, SECOND)] {
                self.0.witness[line].at = Moment { boot_us: due_us + after_us, real_us: due_us + after_us };
            }
        }
        let is_on_record: std::collections::BTreeSet<_> =
            self.0.schedules[0].rows.iter().filter_map(|row| row.job.clone()).collect();
        self.0.jobs.retain(|job| is_on_record.contains(&job.id));
        self.0.witness.retain(|line| is_on_record.contains(&line.job));
        self
    }

    pub(super) fn change(mut self, change: impl FnOnce(&mut Record)) -> Self {
        self.0.schedules[0].rows_again = self.0.schedules[0].rows.clone();
        change(&mut self.0);
        self
    }

    fn found(mut self) -> Vec<crate::check::Violation> {
        if self.0.schedules[0].rows_again.is_empty() {
            self.0.schedules[0].rows_again = self.0.schedules[0].rows.clone();
        }
        check(&self.0)
    }

    #[track_caller]
    pub(super) fn holds(self) {
        let violations: Vec<_> =
            self.found().into_iter().filter(|found| found.promise != "what is on record stays").collect();
        assert!(violations.is_empty(), "{violations:?}");
    }

    #[track_caller]
    pub(super) fn holds_for(self, promise: &str) {
        let violations = self.found();
        assert!(!violations.iter().any(|violation| violation.promise == promise), "{violations:?}");
    }

    #[track_caller]
    pub(super) fn breaks(self, promise: &str) {
        let violations = self.found();
        assert!(violations.iter().any(|violation| violation.promise == promise), "{violations:?}");
    }
}

fn definition(every_us: i64) -> Definition {
    Definition {
        beats: vec![Beat::Every { every_us, anchor_us: BEGUN_US }],
        zone: "UTC".to_owned(),
        jitter_us: 0,
        end_us: BEGUN_US + TIMES * EVERY_US,
        sleep_ms: 1000,
    }
}
