//! Facts about quotas of running attempts, as the owner keeps to them.

use std::sync::Arc;

use super::event::{Event, Loaded, Report, StreamId, WorkerSpec};
use super::write::{Epoch, JobWrite, SharedBatch, Write};
use super::{Config, Owner, QuotasAtStart};
use crate::NamespaceId;
use crate::attempt::{AttemptNo, Outcome};
use crate::id::{JobId, ServerId, ShardId, TaskId, WorkerId};
use crate::job::{Counters, Input, JobKey, JobRow};
use crate::running_places::RunningUse;
use crate::task::{Priority, Probe, Run, Task, TaskSpec};
use crate::time::Timestamp;

const NOW: Timestamp = Timestamp::saturating_from_micros(1_000_000_000_000);
const LIMITED: NamespaceId = NamespaceId(1);
const FREE: NamespaceId = NamespaceId(2);

/// An owner of two shards with a worker that has room for everything.
struct Bench {
    owner: Owner,
    made: u64,
}

fn task(namespace: NamespaceId) -> Arc<Task> {
    Arc::new(Task {
        namespace,
        id: TaskId::new(NOW, u64::from(namespace.0)),
        name: None,
        revision: 1,
        created_at: NOW,
        updated_at: NOW,
        spec: TaskSpec::new(Run::Probe(Probe::default())),
        waits_for: None,
        created_by: None,
        changed_by: None,
    })
}

impl Bench {
    fn new(config: Config) -> Self {
        let mut bench = Self { owner: Owner::new(ServerId::new(NOW, 1), config, 7), made: 0 };
        for shard in [0, 1] {
            bench.acquire(shard, 1);
        }
        let spec = WorkerSpec {
            namespaces: crate::namespace::ServedNamespaces::All,
            queues: vec!["default".into()],
            capabilities: vec!["probe".into()],
            labels: Default::default(),
            credit: 100,
        };
        let worker = WorkerId::new(NOW, 1);
        bench.owner.handle(Event::WorkerHello { worker, stream: StreamId(1), spec, held: vec![] }, NOW);
        bench
    }

    /// One of ten jobs in each shard, half of them limited to `places`.
    fn limited(places: u64) -> Self {
        let mut bench = Self::new(Config::default());
        bench.owner.handle(Event::RunningQuotas { quotas: vec![(LIMITED, 3)] }, NOW);
        bench.places(places);
        bench
    }

    fn acquire(&mut self, shard: u16, epoch: u64) {
        let event = Event::Acquired {
            shard: ShardId(shard),
            epoch: Epoch(epoch),
            running: vec![],
            spent: vec![],
            whole_since: Epoch(0),
            schedules: Default::default(),
        };
        self.owner.handle(event, NOW);
    }

    fn places(&mut self, places: u64) {
        let version = self.owner.running_report().unwrap().version;
        self.owner.handle(Event::RunningPlaces { version, places: vec![(LIMITED, places)] }, NOW);
    }

    fn submit(&mut self, namespace: NamespaceId, shard: u16) -> JobId {
        self.made += 1;
        let (id, task) = (JobId::new(NOW, ShardId(shard), self.made), task(namespace));
        let row = JobRow {
            key: JobKey::original(id),
            task: task.id,
            priority: Priority::default(),
            counters: Counters::NEW,
            submitted_at: NOW,
            tracing_id: None,
            source: None,
            node: None,
            member: None,
            give_backs: None,
            input: Input::None,
        };
        self.owner.handle(Event::Submitted { jobs: vec![Loaded { row, task }] }, NOW);
        id
    }

    fn batch(&mut self) -> Option<SharedBatch> {
        self.owner.tick(NOW);
        self.owner.take_batch(NOW)
    }

    /// What starts now, once it is durable.
    fn started(&mut self) -> Vec<JobId> {
        let Some(batch) = self.batch() else { return Vec::new() };
        self.owner.committed(batch.seq, &Default::default(), NOW);
        let started = |write: &Write| match write {
            Write::Job(JobWrite::Start(start)) => Some(start.key.id),
            _ => None,
        };
        batch.writes.iter().filter_map(started).collect()
    }

    fn succeed(&mut self, id: JobId) {
        let outcome = Outcome::Succeeded { output: None };
        let report = Report { id, attempt: AttemptNo(1), outcome, timed_out: false, details: None };
        self.owner.handle(Event::Outcomes { worker: WorkerId::new(NOW, 1), reports: vec![report] }, NOW);
    }

    fn used(&self) -> RunningUse {
        self.owner.running_report().unwrap().namespaces[0]
    }
}

#[test]
fn no_more_attempts_start_than_there_are_places() {
    let mut bench = Bench::limited(2);
    let jobs: Vec<JobId> = (0..5).map(|_| bench.submit(LIMITED, 0)).collect();
    let other = bench.submit(FREE, 0);
    let mut started = bench.started();
    started.sort_unstable();
    let mut expected = [jobs[0], jobs[1], other];
    expected.sort_unstable();
    assert_eq!(started, expected, "others are not limited");
    assert_eq!(bench.used(), RunningUse { namespace: LIMITED, quota: 3, running: 2, places: 2, waiting: 3 });
    bench.succeed(jobs[0]);
    let end = bench.batch().unwrap();
    assert_eq!(bench.used().running, 2, "its end is not on record yet");
    bench.owner.committed(end.seq, &Default::default(), NOW);
    assert_eq!(bench.started(), [jobs[2]]);
    bench.places(0);
    bench.succeed(jobs[1]);
    assert!(bench.started().is_empty());
    bench.places(3);
    assert_eq!(bench.started(), [jobs[3], jobs[4]]);
}

#[test]
fn a_shard_that_leaves_takes_its_places_along() {
    let mut bench = Bench::limited(3);
    for shard in [0, 0, 1] {
        bench.submit(LIMITED, shard);
    }
    assert_eq!(bench.started().len(), 3);
    let version = bench.owner.running_report().unwrap().version;
    bench.owner.handle(Event::Released { shard: ShardId(0) }, NOW);
    bench.submit(LIMITED, 1);
    assert!(bench.started().is_empty());
    assert_eq!((bench.used().running, bench.used().places), (1, 1));
    // The answer is to what it said before.
    bench.owner.handle(Event::RunningPlaces { version, places: vec![(LIMITED, 3)] }, NOW);
    assert!(bench.started().is_empty());
    bench.places(2);
    assert_eq!(bench.started().len(), 1);
}

#[test]
fn whoever_takes_a_shard_over_has_no_places_until_it_has_said_so() {
    let mut bench = Bench::limited(3);
    let version = bench.owner.running_report().unwrap().version;
    bench.acquire(2, 5);
    bench.submit(LIMITED, 0);
    bench.owner.handle(Event::RunningPlaces { version, places: vec![(LIMITED, 3)] }, NOW);
    assert!(bench.started().is_empty());
    assert_eq!(bench.owner.running_report().unwrap().shards.len(), 3);
    bench.places(1);
    assert_eq!(bench.started().len(), 1);
}

#[test]
fn an_answer_counts_once() {
    let mut bench = Bench::limited(1);
    let version = bench.owner.running_report().unwrap().version;
    for places in [1, 3] {
        bench.owner.handle(Event::RunningPlaces { version, places: vec![(LIMITED, places)] }, NOW);
    }
    assert_eq!(bench.used().places, 1);
}

#[test]
fn what_runs_already_counts_when_a_quota_is_set() {
    let mut bench = Bench::new(Config::default());
    let jobs: Vec<JobId> = (0..4).map(|_| bench.submit(LIMITED, 0)).collect();
    assert_eq!(bench.started().len(), 4);
    bench.owner.handle(Event::RunningQuotas { quotas: vec![(LIMITED, 3)] }, NOW);
    assert_eq!((bench.used().running, bench.used().places), (4, 0));
    bench.places(3);
    bench.submit(LIMITED, 0);
    bench.succeed(jobs[0]);
    assert!(bench.started().is_empty());
    assert!(bench.started().is_empty(), "three of the first run");
    bench.succeed(jobs[1]);
    assert!(bench.started().is_empty(), "this is its end");
    assert_eq!(bench.started().len(), 1);
    // Without the quota, nothing is kept.
    bench.owner.handle(Event::RunningQuotas { quotas: vec![] }, NOW);
    assert_eq!(bench.owner.running_report(), None);
}

#[test]
fn nothing_starts_before_it_is_known_which_namespaces_are_limited() {
    let mut bench = Bench::new(Config { quotas_at_start: QuotasAtStart::Unknown, ..Config::default() });
    let job = bench.submit(FREE, 0);
    assert!(bench.started().is_empty());
    bench.owner.handle(Event::RunningQuotas { quotas: vec![] }, NOW);
    assert_eq!(bench.started(), [job]);
}
