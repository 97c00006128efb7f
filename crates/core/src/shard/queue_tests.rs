//! Facts about paused queues, and about what an owner says of its queues.

use std::sync::Arc;

use super::event::{Demand, Event, Loaded, PausedQueue, Send, StreamId, WorkerSpec};
use super::write::{Epoch, JobWrite, SharedBatch, Write};
use super::{Config, Owner};
use crate::NamespaceId;
use crate::id::{JobId, ServerId, ShardId, TaskId, WorkerId};
use crate::job::{Counters, Input, JobKey, JobRow};
use crate::queue::QueueLoad;
use crate::task::{Priority, Probe, Run, Task, TaskSpec};
use crate::time::{Span, Timestamp};

const NOW: Timestamp = Timestamp::saturating_from_micros(1_000_000_000_000);
const A: NamespaceId = NamespaceId(0);
const B: NamespaceId = NamespaceId(2);

/// An owner of one shard, with a worker for the queues `mail` and `web`.
struct Bench {
    owner: Owner,
    made: u64,
    now: Timestamp,
}

fn task(namespace: NamespaceId, queue: &str) -> Arc<Task> {
    let spec = TaskSpec { queue: queue.to_owned(), ..TaskSpec::new(Run::Probe(Probe::default())) };
    Arc::new(Task {
        namespace,
        id: TaskId::new(NOW, u64::from(namespace.0) * 100 + queue.len() as u64),
        name: None,
        revision: 1,
        created_at: NOW,
        updated_at: NOW,
        spec,
        waits_for: None,
        created_by: None,
        changed_by: None,
    })
}

impl Bench {
    fn new(slots: u32) -> Self {
        Self::with(Config::default(), slots)
    }

    fn with(config: Config, slots: u32) -> Self {
        let mut bench = Self { owner: Owner::new(ServerId::new(NOW, 1), config, 7), made: 0, now: NOW };
        bench.acquire(0, 1);
        let spec = WorkerSpec {
            namespaces: crate::namespace::ServedNamespaces::All,
            queues: vec!["mail".into(), "web".into()],
            capabilities: vec!["probe".into()],
            labels: Default::default(),
            credit: slots,
        };
        let worker = WorkerId::new(NOW, 1);
        bench.owner.handle(Event::WorkerHello { worker, stream: StreamId(1), spec, held: vec![] }, NOW);
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
        self.owner.handle(event, self.now);
    }

    fn pause(&mut self, paused: &[(NamespaceId, &str)]) {
        let paused = paused.iter().map(|(namespace, queue)| PausedQueue {
            namespace: *namespace,
            name: (*queue).to_owned(),
            since: "since noon by user:ana: the provider is down".to_owned(),
        });
        let paused = paused.collect();
        self.owner.handle(Event::PausedQueues { paused }, self.now);
    }

    fn submit(&mut self, namespace: NamespaceId, queue: &str) -> JobId {
        self.submit_of(task(namespace, queue))
    }

    fn submit_of(&mut self, task: Arc<Task>) -> JobId {
        self.made += 1;
        let id = JobId::new(self.now, ShardId(0), self.made);
        let row = JobRow {
            key: JobKey::original(id),
            task: task.id,
            priority: Priority::default(),
            counters: Counters::NEW,
            submitted_at: self.now,
            tracing_id: None,
            source: None,
            node: None,
            member: None,
            give_backs: None,
            input: Input::None,
        };
        self.owner.handle(Event::Submitted { jobs: vec![Loaded { row, task }] }, self.now);
        id
    }

    fn batch(&mut self) -> Option<SharedBatch> {
        self.owner.tick(self.now);
        self.owner.take_batch(self.now)
    }

    /// What starts now, once it is durable.
    fn started(&mut self) -> Vec<JobId> {
        let Some(batch) = self.batch() else { return Vec::new() };
        self.owner.committed(batch.seq, &Default::default(), self.now);
        let started = |write: &Write| match write {
            Write::Job(JobWrite::Start(start)) => Some(start.key.id),
            _ => None,
        };
        batch.writes.iter().filter_map(started).collect()
    }

    fn loads(&self) -> Vec<QueueLoad> {
        self.owner.queue_loads()
    }
}

#[test]
fn a_paused_queue_starts_nothing_and_others_go_on() {
    let mut bench = Bench::new(10);
    bench.pause(&[(A, "mail")]);
    let held = bench.submit(A, "mail");
    let mut expected = vec![bench.submit(B, "mail"), bench.submit(A, "web")];
    let mut started = bench.started();
    expected.sort_unstable();
    started.sort_unstable();
    assert_eq!(started, expected, "a queue of this name in another namespace is another queue");
    assert_eq!(bench.started(), []);
    bench.pause(&[]);
    assert_eq!(bench.started(), [held], "at once, when it is resumed");
}

#[test]
fn a_pause_counts_for_shards_that_are_taken_over_later() {
    let mut bench = Bench::new(10);
    bench.pause(&[(A, "mail")]);
    bench.acquire(0, 2);
    bench.submit(A, "mail");
    assert_eq!(bench.started(), []);
}

#[test]
fn a_start_that_was_decided_before_the_pause_is_counted_until_it_is_durable() {
    let mut bench = Bench::new(10);
    bench.submit(A, "mail");
    let batch = bench.batch().expect("a start");
    bench.pause(&[(A, "mail")]);
    assert_eq!(bench.owner.starts_of_paused_queues(), 1);
    bench.owner.committed(batch.seq, &Default::default(), bench.now);
    assert_eq!(bench.owner.starts_of_paused_queues(), 0);
}

#[test]
fn jobs_of_a_paused_queue_ask_for_no_slots_and_no_workers_and_are_no_lag() {
    let mut bench = Bench::new(1);
    let running = bench.submit(A, "web");
    assert_eq!(bench.started(), [running]);
    bench.pause(&[(A, "mail")]);
    bench.submit(A, "mail");
    bench.now = NOW + Span::from_secs(15);
    bench.started();
    let demands = |bench: &mut Bench| {
        let sends = bench.owner.take_effects().sends;
        sends.iter().filter(|(_, _, send)| matches!(send, Send::Demand(Demand { jobs: 1.., .. }))).count()
    };
    assert_eq!(demands(&mut bench), 0);
    assert!(bench.owner.workers_wanted().is_empty());
    assert_eq!(bench.owner.lag(), Span::ZERO);
    bench.pause(&[]);
    bench.now = NOW + Span::from_secs(17);
    bench.started();
    assert_eq!(demands(&mut bench), 1, "the worker is full");
    assert!(!bench.owner.workers_wanted().is_empty());
    assert_eq!(bench.owner.lag(), Span::from_secs(17));
}

#[test]
fn a_job_whose_time_is_over_in_a_paused_queue_says_since_when_it_is_paused() {
    for (paused, expected) in [
        (vec![], "no worker took it in time"),
        (
            vec![(A, "mail")],
            "queue mail is paused since noon by user:ana: the provider is down (not started within its queue_timeout of 2s)",
        ),
    ] {
        let mut bench = Bench::new(0);
        bench.pause(&paused);
        let mut task = (*task(A, "mail")).clone();
        task.spec.queue_timeout = Some(Span::from_secs(2));
        bench.submit_of(Arc::new(task));
        bench.started();
        bench.now = NOW + Span::from_secs(4);
        let batch = bench.batch().expect("it ends");
        let [Write::Job(JobWrite::Settle(settle))] = &batch.writes[..] else { panic!("{batch:?}") };
        assert_eq!(settle.reason.as_deref(), Some(expected));
    }
}

#[test]
fn an_owner_says_what_waits_and_runs_in_each_queue() {
    let mut bench = Bench::new(1);
    bench.submit(A, "mail");
    bench.started();
    bench.now = NOW + Span::from_secs(1);
    bench.submit(A, "mail");
    bench.submit(B, "mail");
    bench.now = NOW + Span::from_secs(2);
    bench.submit(A, "mail");
    bench.started();
    let since = Some(NOW + Span::from_secs(1));
    let load = |namespace, waiting, running| QueueLoad {
        waiting,
        running,
        waiting_since: since,
        ..QueueLoad::new(namespace, "mail".to_owned())
    };
    assert_eq!(bench.loads(), [load(A, 2, 1), load(B, 1, 0)]);
}

#[test]
fn an_owner_says_that_more_wait_than_it_has_in_memory() {
    let mut bench = Bench::with(Config { window_max: 4, ..Config::default() }, 1);
    bench.pause(&[(A, "mail")]);
    for _ in 0..10 {
        bench.submit(A, "mail");
    }
    bench.started();
    let [load] = &bench.loads()[..] else { panic!("one queue") };
    assert!(load.has_more && load.waiting < 10, "{load:?}");
}
