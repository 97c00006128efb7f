//! Facts about the owner, one step at a time. The simulator looks for what these
//! did not think of.

use crate::NamespaceId;
use std::sync::Arc;

use super::event::{
    Adopted, Command, Effects, Event, Found, Load, Loaded, Reply, Report, Send, StreamId, Sweep, Token, WorkerSpec,
};
use super::write::{BatchSeq, CancelMark, Epoch, JobWrite, OpenStart, SharedBatch, Start, StartsId, Write};
use super::{Answer, Ask, Config, Owner};
use crate::attempt::{AttemptNo, Details, Ending, Failure, FailureClass, Outcome, Ran};
use crate::id::{ArtifactId, JobId, ServerId, ShardId, TaskId, WorkerId};
use crate::job::{Counters, Input, JobKey, JobRow};
use crate::lifecycle::JobState;
use crate::task::{DeliveryMode, Priority, Probe, Run, Task, TaskSpec};
use crate::time::{Span, Timestamp};

mod agents;
mod give_backs;
mod notices;
mod window;
mod worker_requests;
mod workers;
mod workflows;

const SHARD: ShardId = ShardId(0);
const EPOCH: Epoch = Epoch(1);

struct Bench {
    owner: Owner,
    now: Timestamp,
    worker: WorkerId,
    task: Arc<Task>,
    jobs_made: u64,
}

impl Bench {
    fn new() -> Self {
        Self::with(TaskSpec::new(Run::Probe(Probe::default())), Config::default())
    }

    fn with(spec: TaskSpec, config: Config) -> Self {
        let now = Timestamp::from_micros(1_000_000_000_000).unwrap();
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
        let mut owner = Owner::new(ServerId::new(now, 1), config, 7);
        owner.handle(
            Event::Acquired {
                shard: SHARD,
                epoch: EPOCH,
                running: vec![],
                spent: vec![],
                whole_since: Epoch(0),
                schedules: Default::default(),
            },
            now,
        );
        Self { owner, now, worker: WorkerId::new(now, 1), task: Arc::new(task), jobs_made: 0 }
    }

    fn connect(&mut self, stream: u64, held: Vec<(JobId, AttemptNo)>) {
        let (worker, stream) = (self.worker, StreamId(stream));
        self.handle(Event::WorkerHello { worker, stream, spec: worker_spec(), held });
    }

    fn job(&mut self, due_at: Timestamp, priority: i8) -> Loaded {
        self.jobs_made += 1;
        let row = JobRow {
            key: JobKey::original(JobId::new(due_at, SHARD, self.jobs_made)),
            task: self.task.id,
            priority: Priority::new(priority).unwrap(),
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

    fn submit(&mut self, due_in: Span) -> JobId {
        let job = self.job(self.now + due_in, 0);
        let id = job.row.key.id;
        self.handle(Event::Submitted { jobs: vec![job] });
        id
    }

    fn handle(&mut self, event: Event) {
        self.owner.handle(event, self.now);
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

    fn batch(&mut self) -> Option<SharedBatch> {
        self.owner.tick(self.now);
        self.owner.take_batch(self.now)
    }

    fn report(&mut self, id: JobId, attempt: u32, outcome: Outcome) {
        let report = Report { id, attempt: AttemptNo(attempt), outcome, timed_out: false, details: None };
        self.handle(Event::Outcomes { worker: self.worker, reports: vec![report] });
    }

    fn command(&mut self, id: JobId, command: Command) -> Vec<Reply> {
        self.handle(Event::Ask { token: Token(1), ask: Ask::Job { id, command }, made: None });
        replies(self.pass(Span::ZERO))
    }
}

fn cancelled(effects: &Effects) -> Vec<JobId> {
    let cancelled = |(_, _, send): &(WorkerId, StreamId, Send)| match send {
        Send::Cancel { id, .. } => Some(*id),
        _ => None,
    };
    effects.sends.iter().filter_map(cancelled).collect()
}

/// The answers to commands on jobs.
fn replies(effects: Effects) -> Vec<Reply> {
    let reply = |(_, answer)| match answer {
        Answer::Job(reply) => Some(reply),
        Answer::NotOwner | Answer::Schedule(_) | Answer::Agent(_) | Answer::Gang(_) => None,
    };
    effects.answers.into_iter().filter_map(reply).collect()
}

fn worker_spec() -> WorkerSpec {
    WorkerSpec {
        namespaces: crate::namespace::ServedNamespaces::All,
        queues: vec!["default".into()],
        capabilities: vec!["probe".into()],
        labels: Default::default(),
        credit: 4,
    }
}

fn assigned(effects: &Effects) -> Vec<(JobId, u32)> {
    let assigned = |(_, _, send): &(WorkerId, StreamId, Send)| match send {
        Send::Assign(assignment) => Some((assignment.key.id, assignment.attempt.0)),
        _ => None,
    };
    effects.sends.iter().filter_map(assigned).collect()
}

#[test]
fn a_job_starts_at_its_time_and_not_a_microsecond_before() {
    let mut bench = Bench::new();
    bench.connect(1, vec![]);
    let id = bench.submit(Span::from_secs(5));
    assert!(assigned(&bench.pass(Span::from_micros(4_999_999))).is_empty());
    assert!(bench.owner.next_wake() <= bench.now + Span::from_micros(1));
    assert_eq!(assigned(&bench.pass(Span::from_micros(1))), [(id, 1)]);
}

#[test]
fn nothing_is_sent_before_the_start_is_durable() {
    let mut bench = Bench::new();
    bench.connect(1, vec![]);
    let id = bench.submit(Span::ZERO);
    let batch = bench.batch().expect("a start was decided");
    assert!(matches!(&batch.writes[..], [Write::Job(JobWrite::Start(start))] if start.key.id == id));
    assert_eq!(batch.fences, [(SHARD, EPOCH)]);
    assert!(assigned(&bench.owner.take_effects()).is_empty());
    bench.owner.committed(batch.seq, &Default::default(), bench.now);
    assert_eq!(assigned(&bench.owner.take_effects()), [(id, 1)]);
}

#[test]
fn a_start_that_the_store_left_out_is_dropped() {
    let mut bench = Bench::new();
    bench.connect(1, vec![]);
    let id = bench.submit(Span::ZERO);
    let batch = bench.batch().expect("a start was decided");
    bench.owner.committed(batch.seq, &vec![id].into(), bench.now);
    assert!(assigned(&bench.pass(Span::from_secs(1))).is_empty());
    assert_eq!(bench.owner.counts().running, 0);
}

#[test]
fn the_oldest_due_job_goes_first_and_priority_is_worth_waiting_time() {
    let mut bench = Bench::new();
    let jobs: Vec<Loaded> = [(0, 0), (-60, 0), (0, 1), (-3600, 0)]
        .map(|(due_in, priority)| {
            let due_at = Timestamp::from_micros(bench.now.as_micros() + due_in * 1_000_000).unwrap();
            bench.job(due_at, priority)
        })
        .into();
    let ids: Vec<JobId> = jobs.iter().map(|job| job.row.key.id).collect();
    bench.handle(Event::Submitted { jobs });
    bench.connect(1, vec![]);
    let order: Vec<JobId> = assigned(&bench.pass(Span::ZERO)).into_iter().map(|(id, _)| id).collect();
    assert_eq!(order, [ids[3], ids[2], ids[1], ids[0]]);
}

#[test]
fn a_worker_never_has_more_than_its_credit() {
    let mut bench = Bench::new();
    bench.connect(1, vec![]);
    let ids: Vec<JobId> = (0..6).map(|_| bench.submit(Span::ZERO)).collect();
    assert_eq!(assigned(&bench.pass(Span::ZERO)).len(), 4);
    bench.report(ids[0], 1, Outcome::Succeeded { output: None });
    assert_eq!(assigned(&bench.pass(Span::ZERO)).len(), 1);
    assert_eq!(bench.owner.counts().running, 4);
}

#[test]
fn a_failed_attempt_is_tried_again_after_its_wait_with_the_next_number() {
    let mut bench = Bench::new();
    bench.connect(1, vec![]);
    let id = bench.submit(Span::ZERO);
    bench.pass(Span::ZERO);
    bench.report(id, 1, Outcome::Failed(Failure::new("no luck")));
    assert!(assigned(&bench.pass(Span::from_millis(700))).is_empty(), "the wait is 0.8 to 1 s");
    assert_eq!(assigned(&bench.pass(Span::from_millis(300))), [(id, 2)]);
}

#[test]
fn the_outcome_of_an_attempt_that_was_given_up_changes_nothing() {
    let mut bench = Bench::new();
    bench.connect(1, vec![]);
    let id = bench.submit(Span::ZERO);
    bench.pass(Span::ZERO);
    bench.report(id, 1, Outcome::Failed(Failure::new("no luck")));
    bench.pass(Span::from_secs(1));
    bench.report(id, 1, Outcome::Succeeded { output: None });
    let batch = bench.batch().expect("it is kept for the record");
    assert!(matches!(&batch.writes[..], [Write::Job(JobWrite::Stale(stale))] if stale.id == id));
    assert!(bench.owner.running(id).is_some());
}

#[test]
fn a_delete_is_granted_before_the_start_and_refused_after_it() {
    let mut bench = Bench::new();
    let waiting = bench.submit(Span::from_secs(5));
    assert_eq!(bench.command(waiting, Command::Delete), [Reply::Done(JobState::Deleted)]);
    bench.connect(1, vec![]);
    let started = bench.submit(Span::ZERO);
    bench.batch().expect("a start was decided");
    // Decided counts, durable or not.
    bench.handle(Event::Ask { token: Token(1), ask: Ask::Job { id: started, command: Command::Delete }, made: None });
    let answers = bench.owner.take_effects().answers;
    assert!(matches!(answers[..], [(Token(1), Answer::Job(Reply::Refused(JobState::Running, _)))]), "{answers:?}");
}

#[test]
fn a_rerun_that_is_asked_for_again_does_not_run_the_job_twice() {
    let mut bench = Bench::new();
    let id = JobId::new(bench.now, SHARD, 9);
    let mut ask = |next_attempt: u32| {
        let command = Command::RerunOnce(AttemptNo(2));
        bench.handle(Event::Ask { token: Token(1), ask: Ask::Job { id, command }, made: None });
        let (token, _) = bench.owner.take_effects().lookups[0];
        let counters = Counters { next_attempt: AttemptNo(next_attempt), ..Counters::NEW };
        let found = Found::Finished { state: JobState::Failed, attempt: Some(AttemptNo(next_attempt - 1)), counters };
        bench.handle(Event::Found { token, id, found });
        replies(bench.pass(Span::ZERO))
    };
    assert_eq!(ask(2), [Reply::Done(JobState::Scheduled)]);
    // It ran again and failed again before the answer was asked for once more.
    assert_eq!(ask(3), [Reply::Done(JobState::Failed)]);
}

#[test]
fn a_binary_has_its_grace_before_the_owner_ends_it() {
    let grace = Span::from_secs(60);
    let run: Run = serde_json::from_str(&format!(
        r#"{{"binary":{{"artifact":"{}","grace":"{grace}"}}}}"#,
        ArtifactId::new(Timestamp::EPOCH, 1)
    ))
    .unwrap();
    let mut bench = Bench::with(TaskSpec { timeout: Span::from_secs(5), ..TaskSpec::new(run) }, Config::default());
    let spec = WorkerSpec { capabilities: vec!["binary".into()], ..worker_spec() };
    bench.handle(Event::WorkerHello { worker: bench.worker, stream: StreamId(1), spec, held: vec![] });
    let id = bench.submit(Span::ZERO);
    bench.pass(Span::ZERO);
    for _ in 0..74 {
        bench.handle(Event::WorkersAlive { workers: vec![bench.worker] });
        bench.pass(Span::from_secs(1));
    }
    assert_eq!(bench.owner.running(id).map(|view| view.attempt), Some(AttemptNo(1)), "5 s, 60 s and 10 s to say so");
    bench.handle(Event::WorkersAlive { workers: vec![bench.worker] });
    bench.pass(Span::from_secs(2));
    assert!(bench.owner.running(id).is_none());
}
