//! Facts about lanes, and about shards that retire.

use crate::NamespaceId;
use std::sync::Arc;

use super::event::{Command, Event, Loaded, Send, StreamId, Token, WorkerSpec};
use super::write::{Epoch, JobWrite, SharedBatch, Write};
use super::{Answer, Ask, Config, Owner};
use crate::id::{JobId, ServerId, ShardId, TaskId, WorkerId};
use crate::job::{Counters, Input, JobKey, JobRow};
use crate::task::{Priority, Probe, Run, Task, TaskSpec};
use crate::time::{Span, Timestamp};

const NOW: Timestamp = Timestamp::saturating_from_micros(1_000_000_000_000);

/// An owner of four shards on two lanes, with a worker.
struct Bench {
    owner: Owner,
    task: Arc<Task>,
    jobs_made: u64,
}

impl Bench {
    fn new(config: Config) -> Self {
        let spec = TaskSpec::new(Run::Probe(Probe::default()));
        let task = Task {
            namespace: NamespaceId::DEFAULT,
            id: TaskId::new(NOW, 1),
            name: None,
            revision: 1,
            created_at: NOW,
            updated_at: NOW,
            spec,
            waits_for: None,
            created_by: None,
            changed_by: None,
        };
        let mut owner = Owner::new(ServerId::new(NOW, 1), Config { lanes: 2, ..config }, 7);
        for shard in (0..4).map(ShardId) {
            owner.handle(
                Event::Acquired {
                    shard,
                    epoch: Epoch(1),
                    running: vec![],
                    spent: vec![],
                    whole_since: Epoch(0),
                    schedules: Default::default(),
                },
                NOW,
            );
        }
        let spec = WorkerSpec {
            namespaces: crate::namespace::ServedNamespaces::All,
            queues: vec!["default".into()],
            capabilities: vec!["probe".into()],
            labels: Default::default(),
            credit: 100,
        };
        let worker = WorkerId::new(NOW, 1);
        owner.handle(Event::WorkerHello { worker, stream: StreamId(1), spec, held: vec![] }, NOW);
        Self { owner, task: Arc::new(task), jobs_made: 0 }
    }

    /// A job that is due, in this shard.
    fn submit(&mut self, shard: u16) -> JobId {
        self.jobs_made += 1;
        let id = JobId::new(NOW, ShardId(shard), self.jobs_made);
        let row = JobRow {
            key: JobKey::original(id),
            task: self.task.id,
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
        self.owner.handle(Event::Submitted { jobs: vec![Loaded { row, task: Arc::clone(&self.task) }] }, NOW);
        id
    }

    fn batch(&mut self) -> Option<SharedBatch> {
        self.owner.tick(NOW);
        self.owner.take_batch(NOW)
    }

    fn assigned(&mut self) -> Vec<JobId> {
        let sends = self.owner.take_effects().sends.into_iter();
        let assigned = |(_, _, send)| match send {
            Send::Assign(assignment) => Some(assignment.key.id),
            _ => None,
        };
        sends.filter_map(assigned).collect()
    }
}

fn jobs(batch: &SharedBatch) -> Vec<JobId> {
    let started = |write: &Write| match write {
        Write::Job(JobWrite::Start(start)) => Some(start.key.id),
        _ => None,
    };
    batch.writes.iter().filter_map(started).collect()
}

#[test]
fn a_batch_is_of_one_lane_and_lanes_take_turns() {
    let mut bench = Bench::new(Config { batch_max: 1, ..Config::default() });
    for shard in [0, 1, 2, 3, 0, 1] {
        bench.submit(shard);
    }
    let lanes: Vec<usize> = std::iter::from_fn(|| bench.batch()).map(|batch| batch.lane(2)).collect();
    assert_eq!(lanes, [0, 1, 0, 1], "two in flight on each lane, and the third waits");
}

#[test]
fn lanes_are_answered_independently() {
    let mut bench = Bench::new(Config::default());
    let (even, odd) = (bench.submit(2), bench.submit(3));
    let (first, second) = (bench.batch().unwrap(), bench.batch().unwrap());
    bench.owner.committed(second.seq, &Default::default(), NOW);
    assert_eq!(bench.assigned(), [odd]);
    bench.owner.committed(first.seq, &Default::default(), NOW);
    assert_eq!(bench.assigned(), [even]);
}

#[test]
fn a_doubt_on_one_lane_concerns_all_its_batches_and_no_other_lane() {
    let mut bench = Bench::new(Config::default());
    bench.submit(0);
    let odd = bench.submit(1);
    let (doubtful, other) = (bench.batch().unwrap(), bench.batch().unwrap());
    bench.submit(2);
    let follower = bench.batch().unwrap();
    assert_eq!(bench.owner.unknown(doubtful.seq, NOW), [ShardId(0), ShardId(2)]);
    bench.owner.committed(other.seq, &Default::default(), NOW);
    assert_eq!(bench.assigned(), [odd]);
    // Whatever became of the one behind it, it is not believed.
    bench.owner.committed(follower.seq, &Default::default(), NOW);
    assert!(bench.assigned().is_empty());
    let owned: Vec<ShardId> = bench.owner.owned_shards().into_iter().map(|(shard, _)| shard).collect();
    assert_eq!(owned, [ShardId(1), ShardId(3)]);
}

#[test]
fn what_is_tried_again_goes_before_what_was_decided_later() {
    let mut bench = Bench::new(Config { batches_in_flight_max: 1, ..Config::default() });
    bench.submit(0);
    let kept = bench.submit(2);
    let refused = bench.batch().unwrap();
    let later = bench.submit(2);
    assert!(bench.batch().is_none(), "the lane is full");
    bench.owner.fenced(refused.seq, &[ShardId(0)], NOW);
    assert_eq!(jobs(&bench.batch().unwrap()), [kept, later]);
}

#[test]
fn a_shard_that_retires_starts_nothing_more_and_sends_what_it_started() {
    let mut bench = Bench::new(Config::default());
    let started = bench.submit(0);
    let batch = bench.batch().unwrap();
    bench.owner.handle(Event::Retire { shard: ShardId(0) }, NOW);
    bench.submit(0);
    let elsewhere = bench.submit(2);
    let other = bench.batch().unwrap();
    assert_eq!(jobs(&other), [elsewhere]);
    assert!(!bench.owner.is_quiet(ShardId(0)), "its start is on its way");
    bench.owner.committed(batch.seq, &Default::default(), NOW);
    assert!(bench.owner.is_quiet(ShardId(0)));
    assert_eq!(bench.assigned(), [started]);
    assert!(bench.owner.next_wake() > NOW, "it has nothing to read any more");
}

#[test]
fn a_shard_that_retires_leaves_commands_to_the_next_owner() {
    let mut bench = Bench::new(Config::default());
    let id = bench.submit(0);
    bench.owner.handle(Event::Retire { shard: ShardId(0) }, NOW);
    bench.owner.handle(Event::Ask { token: Token(1), ask: Ask::Job { id, command: Command::Delete }, made: None }, NOW);
    assert!(matches!(bench.owner.take_effects().answers[..], [(Token(1), Answer::NotOwner)]));
}

#[test]
fn an_assignment_that_has_not_left_when_its_shard_is_lost_never_does() {
    let mut bench = Bench::new(Config::default());
    bench.submit(0);
    let batch = bench.batch().unwrap();
    bench.owner.committed(batch.seq, &Default::default(), NOW + Span::from_millis(1));
    bench.owner.handle(Event::Released { shard: ShardId(0) }, NOW);
    assert!(bench.assigned().is_empty());
}
