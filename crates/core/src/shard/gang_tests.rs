//! Facts about gangs, as the owner starts them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::event::{Event, Loaded, Report, Send, StreamId, WorkerSpec};
use super::write::{Epoch, JobWrite, SharedBatch, Void, Write};
use super::{Config, Owner};
use crate::NamespaceId;
use crate::attempt::{AttemptNo, Outcome};
use crate::batch::{BatchStart, Contract, MemberRef, OnStartTimeout, member_job};
use crate::id::{BatchId, JobId, ServerId, ShardId, TaskId, WorkerId};
use crate::job::{Counters, Input, JobKey, JobRow};
use crate::lifecycle::JobState;
use crate::task::{Priority, Probe, Run, Task, TaskSpec};
use crate::time::{Span, Timestamp};

const START: Timestamp = Timestamp::saturating_from_micros(1_000_000_000_000);
const SHARD: ShardId = ShardId(0);

fn labels(label: &str) -> BTreeMap<String, String> {
    label.split_terminator(',').map(|label| (label.to_owned(), "yes".to_owned())).collect()
}

fn task(label: &str) -> Arc<Task> {
    let mut spec = TaskSpec::new(Run::Probe(Probe::default()));
    spec.labels = labels(label);
    Arc::new(Task {
        namespace: NamespaceId::DEFAULT,
        id: TaskId::new(START, label.bytes().map(u64::from).sum()),
        name: None,
        revision: 1,
        created_at: START,
        updated_at: START,
        spec,
        waits_for: None,
        created_by: None,
        changed_by: None,
    })
}

fn together() -> Contract {
    Contract { start: BatchStart::Together, ..Contract::default() }
}

struct Bench {
    owner: Owner,
    now: Timestamp,
    made: u64,
}

impl Bench {
    fn new(config: Config) -> Self {
        let mut owner = Owner::new(ServerId::new(START, 1), config, 7);
        let event = Event::Acquired {
            shard: SHARD,
            epoch: Epoch(1),
            running: vec![],
            spent: vec![],
            whole_since: Epoch(0),
            schedules: Default::default(),
        };
        owner.handle(event, START);
        Self { owner, now: START, made: 0 }
    }

    /// With workers that have so many slots each.
    fn with_slots(slots: &[u32]) -> Self {
        let mut bench = Self::new(Config::default());
        slots.iter().for_each(|slots| _ = bench.worker(*slots, ""));
        bench
    }

    fn worker(&mut self, credit: u32, label: &str) -> WorkerId {
        self.made += 1;
        let worker = WorkerId::new(START, self.made);
        let spec = WorkerSpec {
            namespaces: crate::namespace::ServedNamespaces::All,
            queues: vec!["default".into()],
            capabilities: vec!["probe".into()],
            labels: labels(label),
            credit,
        };
        self.owner.handle(Event::WorkerHello { worker, stream: StreamId(self.made), spec, held: vec![] }, self.now);
        worker
    }

    fn job(&mut self) -> JobId {
        self.made += 1;
        let id = JobId::new(self.now, SHARD, self.made);
        self.admit(id, None, "");
        id
    }

    /// A batch whose members need these labels, due now.
    fn gang(&mut self, contract: Contract, needs: &[&str]) -> Vec<JobId> {
        let (batch, ids) = self.members(needs.len());
        for (place, label) in needs.iter().enumerate() {
            let member = MemberRef::member(batch, place as u16, needs.len(), &contract);
            self.admit(ids[place], Some(member), label);
        }
        ids
    }

    fn members(&mut self, count: usize) -> (BatchId, Vec<JobId>) {
        self.made += 1;
        let batch = BatchId::new(self.now, SHARD, self.made);
        (batch, (0..count as u16).map(|place| member_job(batch, self.now, place)).collect())
    }

    fn admit(&mut self, id: JobId, member: Option<MemberRef>, label: &str) {
        let task = task(label);
        let row = JobRow {
            key: JobKey::original(id),
            task: task.id,
            priority: Priority::default(),
            counters: Counters::NEW,
            submitted_at: self.now,
            tracing_id: None,
            source: None,
            node: None,
            member: member.map(Box::new),
            give_backs: None,
            input: Input::None,
        };
        self.owner.handle(Event::Submitted { jobs: vec![Loaded { row, task }] }, self.now);
    }

    fn take_batch(&mut self) -> Option<SharedBatch> {
        self.owner.tick(self.now);
        self.owner.take_batch(self.now)
    }

    fn commit(&mut self) -> Vec<Write> {
        let Some(batch) = self.take_batch() else { return Vec::new() };
        self.owner.committed(batch.seq, &Void::default(), self.now);
        batch.writes.clone()
    }

    /// The jobs that start in the next transaction.
    fn started(&mut self) -> Vec<JobId> {
        starts(&self.commit())
    }

    fn succeed(&mut self, id: JobId) {
        let worker = self.owner.running(id).unwrap().worker;
        let outcome = Outcome::Succeeded { output: None };
        let report = Report { id, attempt: AttemptNo(1), outcome, timed_out: false, details: None };
        self.owner.handle(Event::Outcomes { worker, reports: vec![report] }, self.now);
    }
}

fn starts(writes: &[Write]) -> Vec<JobId> {
    let start = |write: &Write| match write {
        Write::Job(JobWrite::Start(start)) => Some(start.key.id),
        _ => None,
    };
    let mut ids: Vec<JobId> = writes.iter().filter_map(start).collect();
    ids.sort_unstable();
    ids
}

#[test]
fn a_gang_starts_in_one_transaction_and_not_before_there_is_a_slot_for_each() {
    let mut bench = Bench::with_slots(&[1, 1]);
    let gang = bench.gang(together(), &[""; 3]);
    assert_eq!(bench.started(), []);
    assert_eq!(bench.owner.gang_of(gang[0]).map(|view| (view.size, view.lacking)), Some((3, 1)));
    bench.worker(1, "");
    assert_eq!(bench.started(), gang);
    let sent = bench.owner.take_effects().sends;
    assert_eq!(sent.iter().filter(|(_, _, send)| matches!(send, Send::Assign(_))).count(), 3);
}

#[test]
fn a_gang_larger_than_a_transaction_makes_it_longer() {
    let mut bench = Bench::new(Config { batch_max: 3, ..Config::default() });
    bench.worker(20, "");
    let gang = bench.gang(together(), &[""; 9]);
    let others = [bench.job(), bench.job()];
    let mut batches = Vec::new();
    while let Some(batch) = bench.take_batch() {
        batches.push(starts(&batch.writes));
        bench.owner.committed(batch.seq, &Void::default(), bench.now);
    }
    assert_eq!(batches[0], gang);
    assert_eq!(batches.concat().len(), gang.len() + others.len());
}

#[test]
fn a_gang_does_not_start_before_all_of_its_members_are_known() {
    let mut bench = Bench::with_slots(&[9]);
    let (batch, ids) = bench.members(3);
    let member = |place| Some(MemberRef::member(batch, place, 3, &together()));
    bench.admit(ids[0], member(0), "");
    bench.admit(ids[2], member(2), "");
    let other = bench.job();
    assert_eq!(bench.started(), [other], "nobody holds back for a gang that is not complete");
    bench.admit(ids[1], member(1), "");
    assert_eq!(bench.started(), ids);
}

#[test]
fn two_gangs_that_could_each_hold_half_start_one_after_the_other() {
    let mut bench = Bench::with_slots(&[2, 2]);
    let busy: Vec<JobId> = (0..4).map(|_| bench.job()).collect();
    assert_eq!(bench.started(), busy);
    let first = bench.gang(together(), &[""; 3]);
    bench.now = bench.now + Span::from_secs(1);
    let second = bench.gang(together(), &[""; 2]);
    for (ended, id) in busy.iter().enumerate() {
        bench.succeed(*id);
        // The younger one would fit after two ends, and holds back.
        let expected = if ended == 2 { first.clone() } else { Vec::new() };
        let mut started = bench.started();
        started.extend(bench.started());
        assert_eq!(started, expected, "after {} ends", ended + 1);
    }
    first.iter().for_each(|id| bench.succeed(*id));
    let mut started = bench.started();
    started.extend(bench.started());
    assert_eq!(started, second);
}

#[test]
fn other_jobs_hold_back_for_a_gang_until_its_start_timeout() {
    let wait =
        Contract { start_timeout: Some(Span::from_secs(10)), on_start_timeout: OnStartTimeout::Wait, ..together() };
    let mut bench = Bench::with_slots(&[2]);
    let gang = bench.gang(wait, &[""; 3]);
    let other = bench.job();
    assert_eq!(bench.started(), []);
    assert_eq!(bench.owner.gang_of(gang[0]).map(|view| view.holds), Some(true));
    bench.now = bench.now + Span::from_secs(11);
    assert_eq!(bench.started(), [other]);
    bench.worker(2, "");
    assert_eq!(bench.started(), gang, "it still starts when it can");
}

#[test]
fn nobody_holds_back_for_a_gang_that_the_fleet_cannot_start() {
    let mut bench = Bench::with_slots(&[2]);
    bench.gang(together(), &[""; 3]);
    let gangs = bench.owner.oldest_gangs(4);
    assert_eq!(gangs.len(), 1);
    bench.owner.handle(Event::UnplaceableGangs { gangs }, bench.now);
    let other = bench.job();
    assert_eq!(bench.started(), [other]);
}

#[test]
fn jobs_hold_back_only_on_workers_that_the_gang_could_use() {
    let mut bench = Bench::new(Config::default());
    bench.worker(1, "gpu");
    bench.worker(1, "");
    bench.gang(together(), &["gpu", "gpu"]);
    let (one, two) = (bench.job(), bench.job());
    assert_eq!(bench.started(), [one.min(two)], "on the worker without a GPU");
}

#[test]
fn slots_are_given_so_that_all_members_fit() {
    let mut bench = Bench::new(Config::default());
    // Whoever takes the first free slot for a member without needs leaves too few for the others.
    bench.worker(2, "gpu");
    bench.worker(2, "gpu,big");
    bench.worker(1, "");
    let gang = bench.gang(together(), &["", "", "gpu", "big", "gpu"]);
    assert_eq!(bench.started().len(), gang.len());
}

#[test]
fn a_gang_that_cannot_start_in_time_fails_as_a_whole() {
    let mut bench = Bench::with_slots(&[2]);
    let contract = Contract { start_timeout: Some(Span::from_secs(10)), ..together() };
    let gang = bench.gang(contract, &[""; 3]);
    assert_eq!(bench.started(), []);
    bench.now = bench.now + Span::from_secs(11);
    let writes = bench.commit();
    let failed = |write: &Write| match write {
        Write::Job(JobWrite::Settle(settle)) => {
            assert!(settle.member.is_some() && settle.attempt.is_none());
            assert_eq!(settle.reason.as_deref(), Some("its batch of 3 could not start together within 10s"));
            (settle.state == JobState::Failed).then_some(settle.key.id)
        }
        _ => None,
    };
    assert_eq!(writes.iter().filter_map(failed).collect::<Vec<_>>().len(), gang.len());
    assert!(bench.owner.gang_of(gang[0]).is_none());
}

#[test]
fn a_full_window_leaves_younger_gangs_out_and_reads_them_again() {
    let mut bench = Bench::new(Config { window_max: 1, ..Config::default() });
    let size = Contract::GANG_MAX;
    let older = bench.members(size);
    bench.now = bench.now + Span::from_secs(1);
    let younger = [bench.members(size), bench.members(size)];
    let admit = |bench: &mut Bench, (batch, ids): &(BatchId, Vec<JobId>)| {
        for (place, id) in ids.iter().enumerate() {
            bench.admit(*id, Some(MemberRef::member(*batch, place as u16, size, &together())), "");
        }
    };
    younger.iter().for_each(|gang| admit(&mut bench, gang));
    // Half of the youngest finds no room, and the rest of it makes room.
    admit(&mut bench, &older);
    bench.worker(size as u32, "");
    assert_eq!(bench.started(), older.1, "the oldest always finds room");
}

#[test]
fn a_void_member_leaves_the_others_in_the_store() {
    let mut bench = Bench::with_slots(&[3]);
    let gang = bench.gang(together(), &[""; 3]);
    let batch = bench.take_batch().unwrap();
    assert_eq!(starts(&batch.writes), gang);
    bench.owner.take_effects();
    bench.owner.committed(batch.seq, &Void::from(gang.clone()), bench.now);
    let effects = bench.owner.take_effects();
    assert!(effects.sends.iter().all(|(_, _, send)| !matches!(send, Send::Assign(_))));
    bench.owner.tick(bench.now);
    assert!(!bench.owner.take_effects().loads.is_empty() || bench.owner.next_wake() <= bench.now + Span::from_secs(1));
    assert!(gang.iter().all(|id| bench.owner.running(*id).is_none()));
}
