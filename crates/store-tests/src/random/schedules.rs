//! Chooses what happens to schedules, their ledger and calendars.

use std::sync::Arc;

use punctual_core::schedule::{
    ChangeKind, Marks, OccurrenceRow, Pause, ScheduleChange, ScheduleEdit, ScheduleRow, ScheduleState, Source,
    SourceKind, StoredCalendar, Verdict,
};
use punctual_core::shard::write::{Decision, FiredJob, JobWrite, ScheduleWrite, Write};
use punctual_core::{JobId, JobKey, ScheduleId, ShardId, TaskId, Timestamp};
use punctual_store::{OccurrenceFilter, Order, ScheduleFilter};

use super::operation::Operation;
use super::plan::{Plan, all_tasks};
use crate::fixture::{SHARDS, at, plain_start, priority};
use crate::model::ModelStore;
use crate::schedule_fixture::{by, new_schedule, schedule_id, spec};

const SCHEDULES: u64 = 7;
const NAMES: [&str; 5] = ["alpha", "alpine", "beta", "Beta", "ä"];
const CALENDARS: [&str; 3] = ["holidays", "closing days", "absent"];
const KINDS: [SourceKind; 4] = [SourceKind::Planned, SourceKind::Replayed, SourceKind::Manual, SourceKind::Backfill];

pub(super) fn all_schedules() -> Vec<ScheduleId> {
    (0..SCHEDULES).map(|n| schedule_id(n, (n % u64::from(SHARDS)) as u16)).collect()
}

/// Everything that can be seen of them.
pub(super) fn final_reads() -> Vec<Operation> {
    let mut final_reads = vec![
        Operation::Calendars,
        Operation::CalendarsRevision,
        Operation::Watermarks,
        Operation::ListSchedules(ScheduleFilter::default(), None, 100),
        Operation::SchedulesWithCalendars(CALENDARS.map(str::to_owned).to_vec(), None, 100),
        Operation::ScheduleIds(NAMES.map(str::to_owned).to_vec()),
    ];
    for shard in 0..SHARDS {
        final_reads.push(Operation::ShardSchedules(ShardId(shard)));
        final_reads.push(Operation::LoadSchedules(ShardId(shard), None, 100));
    }
    for id in all_schedules() {
        final_reads.push(Operation::Schedule(id));
        final_reads.push(Operation::ScheduleChanges(id, 100));
        final_reads.push(Operation::Occurrences(id, OccurrenceFilter::default(), None, Order::Ascending, 100));
    }
    final_reads
}

impl Plan {
    pub(super) fn schedule(&mut self) -> ScheduleId {
        self.random.pick(&all_schedules())
    }

    /// One of few, so that the same time comes again.
    pub(super) fn planned(&mut self) -> Timestamp {
        at(5 * self.random.below(12) as i64)
    }

    pub(super) fn source(&mut self) -> Source {
        Source {
            schedule: self.schedule(),
            at: self.planned(),
            kind: self.random.pick(&KINDS),
            is_tracked: self.random.one_in(2),
        }
    }

    /// One write, or a verdict and the start of its job. A schedule is edited or dropped once in a batch.
    pub(super) fn schedule_writes(&mut self, model: &ModelStore, batch: &[Write]) -> Vec<Write> {
        let known: Vec<TaskId> = model.tasks_by_id_now(&all_tasks()).iter().map(|task| task.id).collect();
        if known.is_empty() {
            return Vec::new();
        }
        let id = self.schedule();
        let is_changed = batch
            .iter()
            .filter_map(Write::as_schedule)
            .any(|write| write.is_definition() && write.shard() == id.shard());
        match self.random.below(15) {
            0..3 => vec![Write::Schedule(ScheduleWrite::Add(Arc::new(self.new_schedule(id, &known))))],
            3 if !is_changed => {
                let (edit, state) = (Arc::new(self.edit(&known)), self.state());
                vec![Write::Schedule(ScheduleWrite::Edit { id, edit, state, change: self.change(ChangeKind::Edited) })]
            }
            4 if !is_changed => {
                vec![Write::Schedule(ScheduleWrite::Drop { id, change: self.change(ChangeKind::Deleted) })]
            }
            5 | 6 => {
                let kind = self.random.pick(&[ChangeKind::Paused, ChangeKind::Resumed, ChangeKind::Skipped]);
                let change = self.random.one_in(2).then(|| self.change(kind));
                vec![Write::Schedule(ScheduleWrite::Set { id, state: self.state(), change })]
            }
            7 => vec![Write::Schedule(ScheduleWrite::Watermark { shard: id.shard(), at: self.planned() })],
            8 => self.notice(id.shard()).map(Write::Notice).into_iter().collect(),
            9 | 10 => self.release(model, &known),
            _ => {
                let at = self.planned();
                let decision = self.decision(id, at, &known);
                let start = decision.job.as_ref().filter(|_| self.random.one_in(4)).map(|job| job.id);
                let start = start.map(|job| Write::Job(JobWrite::Start(plain_start(JobKey::original(job), 1))));
                [Write::Schedule(ScheduleWrite::Decide(Box::new(decision)))].into_iter().chain(start).collect()
            }
        }
    }

    fn new_schedule(&mut self, id: ScheduleId, known: &[TaskId]) -> ScheduleRow {
        let name = self.random.pick(&NAMES);
        let (edit, state) = (self.edit(known), self.state());
        let created = by("ada", self.now);
        ScheduleRow {
            namespace: self.namespace(),
            id,
            edit,
            state,
            changed: created.clone(),
            created,
            ..new_schedule(0, name, 0)
        }
    }

    fn edit(&mut self, known: &[TaskId]) -> ScheduleEdit {
        let long = vec![self.now as u8; self.random.pick(&[0, 10, 1025, 5000])];
        ScheduleEdit {
            task: self.random.pick(known),
            spec: spec(self.random.below(50) as u32),
            calendars: CALENDARS.iter().filter(|_| self.random.one_in(4)).map(|name| (*name).to_owned()).collect(),
            priority: self.random.one_in(2).then(|| priority(self.random.pick(&[-3, 0, 7]))),
            input: self.random.one_in(2).then(|| long.into()),
        }
    }

    fn state(&mut self) -> ScheduleState {
        let note = self.random.one_in(2).then(|| "a note".to_owned());
        let pause = self.random.one_in(3).then(|| Pause { by: by("bob", self.now), note });
        ScheduleState {
            revision: self.random.below(9) as u32,
            since: self.planned(),
            pause,
            skip_until: self.random.one_in(3).then(|| self.planned()),
            runs: self.random.draw() as u32 / 2,
            failures: self.random.draw() as u16,
            last_success: None,
        }
    }

    fn change(&mut self, kind: ChangeKind) -> ScheduleChange {
        let note = self.random.one_in(2).then(|| format!("note {}", self.now));
        ScheduleChange { by: by("bob", self.now), kind, note, former_spec: None }
    }

    fn decision(&mut self, schedule: ScheduleId, at: Timestamp, known: &[TaskId]) -> Decision {
        let verdict = self.random.pick(&[Verdict::Fired, Verdict::Fired, Verdict::Queued, Verdict::Missed]);
        let job = (verdict == Verdict::Fired).then(|| FiredJob {
            id: JobId::new(at, schedule.shard(), self.random.draw()),
            task: self.random.pick(known),
            priority: priority(self.random.pick(&[0, 1])),
            source: Source { schedule, at, ..self.source() },
            has_input: self.random.one_in(2),
            is_counted: self.random.one_in(2),
        });
        self.jobs.extend(job.as_ref().map(|job| job.id));
        let occurrence = OccurrenceRow {
            schedule,
            at,
            slot: self.planned(),
            verdict,
            decided_at: crate::fixture::at(self.now),
            marks: Marks(self.random.draw() as u16),
            count: self.random.draw() as u32,
            job: job.as_ref().map(|job| job.id),
            started_at: None,
            reason: self.random.one_in(3).then(|| format!("reason {}", self.now)),
            requested_by: None,
        };
        Decision { occurrence, job, notice: self.notice(schedule.shard()) }
    }

    /// Of something that is queued, if there is anything; now and then of another time.
    fn release(&mut self, model: &ModelStore, known: &[TaskId]) -> Vec<Write> {
        let shard = ShardId(self.random.below(u64::from(SHARDS)) as u16);
        let queued = model.shard_schedules_now(shard).queued;
        let (id, at) = match queued.is_empty() || self.random.one_in(6) {
            true => (self.schedule(), self.planned()),
            false => {
                let occurrence = self.random.pick(&queued);
                (occurrence.schedule, occurrence.at)
            }
        };
        vec![Write::Schedule(ScheduleWrite::Release(Box::new(self.decision(id, at, known))))]
    }

    pub(super) fn look_at_schedules(&mut self) -> Operation {
        let id = self.schedule();
        let limit = self.random.below(5) as usize;
        let after = self.random.one_in(2).then_some(id);
        match self.random.below(13) {
            0 => Operation::Schedule(id),
            1 => Operation::ScheduleChanges(id, limit),
            2 => Operation::LoadSchedules(id.shard(), after, limit),
            3 => Operation::ShardSchedules(id.shard()),
            4 | 5 => {
                let after = self.random.one_in(2).then(|| self.random.pick(&NAMES).to_owned());
                Operation::ListSchedules(self.schedule_filter(), after, limit)
            }
            6 | 7 => {
                let after = self.random.one_in(2).then(|| self.planned());
                let order = self.random.pick(&[Order::Ascending, Order::Descending]);
                Operation::Occurrences(id, self.occurrence_filter(), after, order, limit)
            }
            8 => Operation::SchedulesOfTask(self.random.pick(&all_tasks()), limit),
            9 => {
                let names = CALENDARS.iter().filter(|_| self.random.one_in(2)).map(|name| (*name).to_owned());
                Operation::SchedulesWithCalendars(names.collect(), after, limit)
            }
            10 => Operation::Watermarks,
            11 => Operation::DeleteCalendar(
                self.namespace(),
                self.random.pick(&CALENDARS).to_owned(),
                self.expected_revision(),
            ),
            _ => Operation::PutCalendar(self.calendar(), self.expected_revision()),
        }
    }

    fn schedule_filter(&mut self) -> ScheduleFilter {
        ScheduleFilter {
            namespace: self.namespace(),
            task: self.random.one_in(3).then(|| self.random.pick(&all_tasks())),
            is_paused: self.random.one_in(2).then(|| self.random.one_in(2)),
            prefix: self.random.one_in(2).then(|| self.random.pick(&["", "a", "alp", "b", "B", "ä"]).to_owned()),
        }
    }

    fn occurrence_filter(&mut self) -> OccurrenceFilter {
        OccurrenceFilter {
            from: self.random.one_in(3).then(|| self.planned()),
            before: self.random.one_in(3).then(|| self.planned()),
            verdicts: (0..self.random.below(3)).map(|_| self.random.pick(&Verdict::ALL)).collect(),
        }
    }

    fn calendar(&mut self) -> StoredCalendar {
        // Never the one that is absent.
        let name = self.random.pick(&CALENDARS[..2]).to_owned();
        let days = (1..=self.random.below(5) as i8).map(|day| jiff::civil::date(2026, 12, day));
        StoredCalendar {
            namespace: self.namespace(),
            name,
            dates: days.collect(),
            revision: 0,
            changed: by("ada", self.now),
        }
    }
}
