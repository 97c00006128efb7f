//! The real core under a clock of its own: what schedules would do between two moments.
//!
//! The range is `from` up to `to` and without it. One owner of all shards, a store that takes every batch at once, and one worker with room for everything, whose
//! attempts last as long as they are said to and succeed. Reads no clock and writes nothing.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

use punctual_core::attempt::{AttemptNo, Outcome};
use punctual_core::schedule::{OccurrenceRow, Verdict};
use punctual_core::shard::event::{Event, LoadedSchedule, Report, Send, StreamId, TakenSchedules, WorkerSpec};
use punctual_core::shard::write::{Epoch, ScheduleWrite, Void, Write};
use punctual_core::shard::{Config, Owner};
use punctual_core::task::{Probe, Run, Task, TaskSpec, default_queue};
use punctual_core::{JobId, ScheduleId, ServerId, ShardId, Span, TaskId, Timestamp, WorkerId};

/// Verdicts of one forecast: more would take seconds, and nobody reads them.
pub(super) const VERDICTS_MAX: usize = 500_000;

/// What is due at the first moment belongs to the range, and was decided by nobody before.
const INSTANT: Span = Span::from_micros(1);

/// Attempts that the one worker runs side by side. Nothing waits for a worker.
const SLOTS: u32 = 1_000_000;

const STREAM: StreamId = StreamId(1);

pub(super) struct Plans {
    pub(super) schedules: Vec<LoadedSchedule>,
    pub(super) from: Timestamp,
    pub(super) to: Timestamp,
    /// How long runs take, by task.
    pub(super) durations: BTreeMap<TaskId, Span>,
    pub(super) otherwise: Span,
}

#[derive(Default)]
pub(super) struct Happened {
    /// Every verdict, as it was in the end.
    pub(super) verdicts: BTreeMap<(ScheduleId, Timestamp), Verdict>,
    /// When runs began, in order.
    pub(super) begun: Vec<Timestamp>,
    pub(super) peak: Option<(Timestamp, usize)>,
    /// It went no further than up to here.
    pub(super) stopped_at: Option<Timestamp>,
}

struct World {
    owner: Owner,
    now: Timestamp,
    ends: BinaryHeap<Reverse<(Timestamp, JobId, AttemptNo)>>,
    plans: Plans,
    happened: Happened,
}

pub(super) fn play(mut plans: Plans) -> Happened {
    let schedules = std::mem::take(&mut plans.schedules);
    let mut world = World {
        owner: Owner::new(ServerId::new(plans.from, 1), config(), 1),
        now: plans.from,
        ends: BinaryHeap::new(),
        plans,
        happened: Happened::default(),
    };
    world.begin(schedules);
    world.run();
    world.happened
}

fn config() -> Config {
    Config { window_max: SLOTS as usize, ..Config::default() }
}

impl World {
    fn begin(&mut self, schedules: Vec<LoadedSchedule>) {
        let mut tasks: BTreeMap<TaskId, Arc<Task>> = BTreeMap::new();
        let mut by_shard: BTreeMap<ShardId, Vec<LoadedSchedule>> = BTreeMap::new();
        for mut row in schedules {
            row.task = Arc::clone(tasks.entry(row.task.id).or_insert_with(|| stand_in(&row.task)));
            row.state.since = row.state.since.max(self.now - INSTANT);
            by_shard.entry(row.id.shard()).or_default().push(row);
        }
        for (shard, rows) in by_shard {
            let schedules = TakenSchedules { watermark: self.now - INSTANT, ..TakenSchedules::default() };
            let acquired = Event::Acquired {
                shard,
                epoch: Epoch(1),
                running: vec![],
                spent: vec![],
                whole_since: Epoch(0),
                schedules,
            };
            self.owner.handle(acquired, self.now);
            if let Some(load) = self.owner.take_effects().schedule_loads.pop() {
                self.owner.handle(Event::Schedules { load, rows, next: None, calendars: 0 }, self.now);
            }
        }
        let spec = WorkerSpec {
            namespaces: punctual_core::namespace::ServedNamespaces::All,
            queues: vec![default_queue()],
            capabilities: vec![Run::Probe(Probe::default()).capability()],
            labels: BTreeMap::new(),
            credit: SLOTS,
        };
        self.owner.handle(Event::WorkerHello { worker: worker(), stream: STREAM, spec, held: vec![] }, self.now);
    }

    fn run(&mut self) {
        loop {
            self.settle();
            let wake = self.owner.next_wake();
            let end = self.ends.peek().map_or(Timestamp::MAX, |Reverse((at, ..))| *at);
            let next = wake.min(end).max(self.now + INSTANT);
            if next >= self.plans.to {
                return;
            }
            if self.happened.verdicts.len() >= VERDICTS_MAX {
                self.happened.stopped_at = Some(next);
                return;
            }
            self.now = next;
            self.owner.handle(Event::WorkersAlive { workers: vec![worker()] }, self.now);
            self.report_ends();
        }
    }

    fn report_ends(&mut self) {
        let mut reports = Vec::new();
        while let Some(Reverse((_, id, attempt))) =
            self.ends.peek().copied().filter(|Reverse((at, ..))| *at <= self.now)
        {
            self.ends.pop();
            let outcome = Outcome::Succeeded { output: None };
            reports.push(Report { id, attempt, outcome, timed_out: false, details: None });
        }
        if !reports.is_empty() {
            self.owner.handle(Event::Outcomes { worker: worker(), reports }, self.now);
        }
    }

    /// Everything that was decided is durable at once, and what follows from it happens.
    fn settle(&mut self) {
        loop {
            self.owner.tick(self.now);
            while let Some(batch) = self.owner.take_batch(self.now) {
                batch.writes.iter().for_each(|write| self.happened.note(write));
                self.owner.committed(batch.seq, &Void::default(), self.now);
                self.owner.tick(self.now);
            }
            let sends = self.owner.take_effects().sends;
            if sends.is_empty() {
                return;
            }
            for (_, _, send) in sends {
                self.sent(send);
            }
        }
    }

    fn sent(&mut self, send: Send) {
        match send {
            Send::Assign(assignment) => {
                let lasts = self.plans.durations.get(&assignment.task.id).copied();
                let end = self.now + lasts.unwrap_or(self.plans.otherwise);
                self.ends.push(Reverse((end, assignment.key.id, assignment.attempt)));
                self.happened.begun.push(self.now);
                let running = self.ends.len();
                if self.happened.peak.is_none_or(|(_, most)| running > most) {
                    self.happened.peak = Some((self.now, running));
                }
            }
            Send::Cancel { id, attempt } => {
                self.ends.retain(|Reverse((_, running, _))| *running != id);
                let report = Report { id, attempt, outcome: Outcome::Cancelled, timed_out: false, details: None };
                self.owner.handle(Event::Outcomes { worker: worker(), reports: vec![report] }, self.now);
            }
            Send::Ack { .. } | Send::Stop { .. } | Send::Credit(_) | Send::Demand { .. } => {}
        }
    }
}

impl Happened {
    fn note(&mut self, write: &Write) {
        if let Write::Schedule(ScheduleWrite::Decide(decision) | ScheduleWrite::Release(decision)) = write {
            let OccurrenceRow { schedule, at, verdict, .. } = decision.occurrence;
            self.verdicts.insert((schedule, at), verdict);
        }
    }
}

/// A task that any worker can run at once: a forecast is about when, not about what and where.
fn stand_in(task: &Task) -> Arc<Task> {
    let mut spec = TaskSpec::new(Run::Probe(Probe::default()));
    spec.timeout = Span::MAX;
    Arc::new(Task { spec, waits_for: None, ..task.clone() })
}

fn worker() -> WorkerId {
    WorkerId::new(Timestamp::EPOCH, 1)
}

#[cfg(test)]
mod tests {
    use punctual_core::schedule::{Overlap, Plan, ScheduleSpec, ScheduleState, recurrence};

    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).unwrap()
    }

    fn schedule(number: u64, rule: &str, overlap: Overlap) -> LoadedSchedule {
        let from = at("2026-11-15T10:30:00Z");
        let mut spec = ScheduleSpec::new(recurrence::ScheduleSpec::new(rule.parse().unwrap(), "UTC"));
        spec.overlap = overlap;
        let task = Task {
            namespace: punctual_core::NamespaceId::DEFAULT,
            id: TaskId::new(from, number),
            name: None,
            revision: 1,
            created_at: from,
            updated_at: from,
            spec: TaskSpec::new(Run::Probe(Probe::default())),
            waits_for: None,
            created_by: None,
            changed_by: None,
        };
        LoadedSchedule {
            id: ScheduleId::new(from, ShardId((number % 3) as u16), number),
            plan: Arc::new(Plan::new(spec, &BTreeMap::new(), 0).unwrap()),
            task: Arc::new(task),
            name: format!("schedule-{number}").into(),
            priority: None,
            has_input: true,
            state: ScheduleState::new(from),
        }
    }

    fn plans(schedules: Vec<LoadedSchedule>, lasts: Span) -> Plans {
        let (from, to) = (at("2026-11-15T10:30:00Z"), at("2026-11-16T10:30:00Z"));
        Plans { schedules, from, to, durations: BTreeMap::new(), otherwise: lasts }
    }

    #[test]
    fn a_day_of_hourly_runs_is_played_with_its_peak() {
        let schedules = (0..40).map(|number| schedule(number, "0 * * * *", Overlap::Allow)).collect();
        let happened = play(plans(schedules, Span::from_secs(90 * 60)));
        assert_eq!(happened.begun.len(), 40 * 24);
        assert_eq!(happened.peak, Some((at("2026-11-15T12:00:00Z"), 80)), "those of 11:00 still run at 12:00");
        assert_eq!(happened.stopped_at, None);
    }

    #[test]
    fn the_first_moment_belongs_to_the_range_and_the_last_does_not() {
        let (from, to) = (at("2030-01-01T00:00:00Z"), at("2030-01-02T00:00:00Z"));
        let play = |rule: &str| {
            let schedules = vec![schedule(1, rule, Overlap::Allow)];
            play(Plans { schedules, from, to, durations: BTreeMap::new(), otherwise: Span::from_secs(10) })
        };
        let daily = play("0 0 * * *");
        assert_eq!((daily.begun, daily.peak), (vec![from], Some((from, 1))));
        assert_eq!(play("0 * * * *").begun.len(), 24);
        // One that counts from a moment on does not begin before it.
        let mut later = schedule(1, "0 0 * * *", Overlap::Allow);
        later.state.since = from;
        let plans = Plans { schedules: vec![later], from, to, durations: BTreeMap::new(), otherwise: Span::ZERO };
        assert_eq!(super::play(plans).begun, []);
    }

    #[test]
    fn runs_that_must_not_meet_are_held_up() {
        let lasts = Span::from_secs(90 * 60);
        let verdicts = |overlap, verdict| {
            let happened = play(plans(vec![schedule(1, "0 * * * *", overlap)], lasts));
            happened.verdicts.values().filter(|found| **found == verdict).count()
        };
        assert_eq!(verdicts(Overlap::Skip, Verdict::Fired), 12);
        assert_eq!(verdicts(Overlap::Skip, Verdict::SkippedOverlap), 12);
        // Each waits for the one before it, an hour and a half.
        assert_eq!(verdicts(Overlap::QueueAll, Verdict::Fired), 16);
        assert_eq!(verdicts(Overlap::QueueAll, Verdict::Queued), 8);
        assert_eq!(verdicts(Overlap::CancelPrevious, Verdict::Fired), 24);
    }

    #[test]
    fn it_ends_where_there_is_too_much() {
        let schedules = (0..30).map(|number| schedule(number, "* * * * * *", Overlap::Allow)).collect();
        let happened = play(plans(schedules, Span::from_millis(1)));
        assert!(happened.stopped_at.is_some());
        assert!(happened.verdicts.len() < VERDICTS_MAX + 10_000, "{}", happened.verdicts.len());
    }
}
