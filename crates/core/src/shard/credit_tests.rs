//! Facts about credits, demands and epochs: what a worker with several servers goes by.

use crate::NamespaceId;
use std::sync::Arc;

use super::event::{CreditKept, Effects, Event, Loaded, Report, Send, StreamId, WorkerSpec};
use super::write::Epoch;
use super::{Config, Owner};
use crate::attempt::{AttemptNo, Outcome};
use crate::id::{JobId, ServerId, ShardId, TaskId, WorkerId};
use crate::job::{Counters, Input, JobKey, JobRow};
use crate::task::{Priority, Probe, Run, Task, TaskSpec};
use crate::time::{Span, Timestamp};

struct Bench {
    owner: Owner,
    now: Timestamp,
    task: Arc<Task>,
    jobs_made: u64,
}

const EPOCH: Epoch = Epoch(7);

impl Bench {
    fn new() -> Self {
        let now = Timestamp::from_micros(1_000_000_000_000).unwrap();
        let spec = TaskSpec::new(Run::Probe(Probe::default()));
        let task = Task {
            namespace: NamespaceId::DEFAULT,
            id: TaskId::new(now, 1),
            name: None,
            revision: 1,
            created_at: now,
            updated_at: now,
            spec,
            waits_for: None,
            created_by: None,
            changed_by: None,
        };
        let owner = Owner::new(ServerId::new(now, 1), Config::default(), 7);
        let mut bench = Self { owner, now, task: Arc::new(task), jobs_made: 0 };
        bench.handle(Event::Acquired {
            shard: ShardId(0),
            epoch: EPOCH,
            running: vec![],
            spent: vec![],
            whole_since: Epoch(0),
            schedules: Default::default(),
        });
        bench
    }

    fn handle(&mut self, event: Event) {
        self.owner.handle(event, self.now);
    }

    fn connect(&mut self, worker: u64, credit: u32, held: Vec<(JobId, AttemptNo)>) -> WorkerId {
        let id = WorkerId::new(Timestamp::EPOCH, worker);
        let spec = WorkerSpec {
            namespaces: crate::namespace::ServedNamespaces::All,
            queues: vec!["default".into()],
            capabilities: vec!["probe".into()],
            labels: Default::default(),
            credit,
        };
        self.handle(Event::WorkerHello { worker: id, stream: StreamId(1), spec, held });
        id
    }

    fn submit(&mut self, count: usize) -> Vec<JobId> {
        let jobs: Vec<Loaded> = (0..count).map(|_| self.job()).collect();
        let ids = jobs.iter().map(|job| job.row.key.id).collect();
        self.handle(Event::Submitted { jobs });
        ids
    }

    fn job(&mut self) -> Loaded {
        self.jobs_made += 1;
        let row = JobRow {
            key: JobKey::original(JobId::new(self.now, ShardId(0), self.jobs_made)),
            task: self.task.id,
            priority: Priority::new(0).unwrap(),
            counters: Counters::NEW,
            submitted_at: self.now,
            tracing_id: None,
            source: None,
            node: None,
            member: None,
            give_backs: None,
            input: Input::None,
        };
        Loaded { row, task: Arc::clone(&self.task) }
    }

    fn credit(&mut self, worker: WorkerId, credit: u32) {
        self.handle(Event::WorkerCredit { worker, stream: StreamId(1), credit });
    }

    fn succeed(&mut self, worker: WorkerId, id: JobId) {
        let outcome = Outcome::Succeeded { output: None };
        let report = Report { id, attempt: AttemptNo(1), outcome, timed_out: false, details: None };
        self.handle(Event::Outcomes { worker, reports: vec![report] });
    }

    /// Lets time pass and everything that was decided commit.
    fn pass(&mut self, span: Span) -> Effects {
        self.now = self.now + span;
        self.owner.tick(self.now);
        while let Some(batch) = self.owner.take_batch(self.now) {
            self.owner.committed(batch.seq, &Default::default(), self.now);
            self.owner.tick(self.now);
        }
        self.owner.take_effects()
    }
}

fn kept(effects: &Effects) -> Vec<(u32, u32)> {
    let kept = |(_, _, send): &(WorkerId, StreamId, Send)| match send {
        Send::Credit(CreditKept { told, bound }) => Some((*told, *bound)),
        _ => None,
    };
    effects.sends.iter().filter_map(kept).collect()
}

fn demands(effects: &Effects) -> Vec<u32> {
    let demand = |(_, _, send): &(WorkerId, StreamId, Send)| match send {
        Send::Demand(demand) => Some(demand.jobs),
        _ => None,
    };
    effects.sends.iter().filter_map(demand).collect()
}

#[test]
fn an_assignment_carries_the_epoch_under_which_it_was_started() {
    let mut bench = Bench::new();
    bench.connect(1, 1, vec![]);
    bench.submit(1);
    let sends = bench.pass(Span::ZERO).sends;
    let epochs = sends.iter().filter_map(|(_, _, send)| match send {
        Send::Assign(assignment) => Some(assignment.epoch),
        _ => None,
    });
    assert_eq!(epochs.collect::<Vec<_>>(), [EPOCH]);
}

#[test]
fn every_acquisition_outdates_the_greetings_before_it() {
    let mut bench = Bench::new();
    let before = bench.owner.acquisitions();
    bench.handle(Event::Released { shard: ShardId(0) });
    assert_eq!(bench.owner.acquisitions(), before);
    bench.handle(Event::Acquired {
        shard: ShardId(0),
        epoch: Epoch(8),
        running: vec![],
        spent: vec![],
        whole_since: Epoch(0),
        schedules: Default::default(),
    });
    assert_ne!(bench.owner.acquisitions(), before);
}

#[test]
fn every_change_of_a_credit_is_answered() {
    let mut bench = Bench::new();
    let worker = bench.connect(1, 4, vec![]);
    assert_eq!(kept(&bench.pass(Span::ZERO)), [(4, 4)]);
    assert_eq!(kept(&bench.pass(Span::from_secs(1))), [], "and nothing else is");
    bench.credit(worker, 2);
    assert_eq!(kept(&bench.pass(Span::ZERO)), [(2, 2)]);
}

#[test]
fn a_credit_below_what_runs_is_kept_to_as_that_ends() {
    let mut bench = Bench::new();
    let worker = bench.connect(1, 3, vec![]);
    let ids = bench.submit(3);
    bench.pass(Span::ZERO);
    bench.credit(worker, 1);
    assert_eq!(kept(&bench.pass(Span::ZERO)), [(1, 3)]);
    bench.succeed(worker, ids[0]);
    assert_eq!(kept(&bench.pass(Span::ZERO)), [(1, 2)]);
    bench.succeed(worker, ids[1]);
    assert_eq!(kept(&bench.pass(Span::ZERO)), [(1, 1)]);
    bench.succeed(worker, ids[2]);
    assert_eq!(kept(&bench.pass(Span::ZERO)), [], "it is kept to, there is no more to say");
}

#[test]
fn what_is_being_started_when_a_credit_falls_is_counted() {
    let mut bench = Bench::new();
    let worker = bench.connect(1, 2, vec![]);
    bench.submit(2);
    bench.owner.tick(bench.now);
    bench.owner.take_effects();
    bench.credit(worker, 0);
    bench.owner.tick(bench.now);
    assert_eq!(kept(&bench.owner.take_effects()), [(0, 2)], "two are decided, and not sent yet");
}

#[test]
fn attempts_that_a_worker_brings_along_are_counted() {
    let mut bench = Bench::new();
    let held: Vec<_> = (0..3).map(|_| (bench.job().row.key.id, AttemptNo(1))).collect();
    let worker = bench.connect(1, 1, held.clone());
    assert_eq!(kept(&bench.pass(Span::ZERO)), [(1, 3)]);
    bench.succeed(worker, held[0].0);
    assert_eq!(kept(&bench.pass(Span::ZERO)), [(1, 2)]);
}

#[test]
fn a_full_worker_is_told_how_much_waits_for_it() {
    let mut bench = Bench::new();
    let worker = bench.connect(1, 1, vec![]);
    assert_eq!(demands(&bench.pass(Span::ZERO)), [0_u32; 0]);
    bench.submit(11);
    assert_eq!(demands(&bench.pass(Span::ZERO)), [10]);
    bench.submit(9);
    assert_eq!(demands(&bench.pass(Span::from_secs(1))), [0_u32; 0], "19 is not twice as much");
    bench.submit(1);
    assert!(bench.owner.next_wake() <= bench.now + Span::from_millis(100));
    assert_eq!(demands(&bench.pass(Span::from_secs(1))), [20]);
    bench.credit(worker, 100);
    assert_eq!(demands(&bench.pass(Span::from_millis(100))), [0]);
}

#[test]
fn a_demand_is_told_at_most_every_tenth_of_a_second() {
    let mut bench = Bench::new();
    bench.connect(1, 0, vec![]);
    bench.submit(1);
    assert_eq!(demands(&bench.pass(Span::ZERO)), [1]);
    bench.submit(1);
    assert_eq!(demands(&bench.pass(Span::from_millis(99))), [0_u32; 0]);
    assert_eq!(demands(&bench.pass(Span::from_millis(1))), [2]);
}

#[test]
fn a_worker_that_could_not_run_it_is_not_told_of_it() {
    let mut bench = Bench::new();
    let mut spec = bench.task.spec.clone();
    spec.queue = "other".to_owned();
    bench.task = Arc::new(Task { spec, ..(*bench.task).clone() });
    bench.connect(1, 0, vec![]);
    bench.submit(5);
    assert_eq!(demands(&bench.pass(Span::ZERO)), [0_u32; 0]);
}

#[test]
fn thousands_of_workers_are_told_in_small_steps() {
    let mut bench = Bench::new();
    for worker in 0..5_000 {
        bench.connect(worker, 0, vec![]);
    }
    bench.submit(1000);
    let mut told = 0;
    for _ in 0..20 {
        let step = demands(&bench.pass(Span::from_millis(2))).len();
        assert!(step <= 256, "{step} workers in one tick");
        told += step;
    }
    assert_eq!(told, 5_000);
    // None of them is looked at again before all are, and a tenth of a second is over.
    assert!(bench.owner.next_wake() > bench.now);
}
