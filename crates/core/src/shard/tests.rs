//! Facts about the owner, one step at a time. The simulator looks for what these
//! did not think of.

use std::sync::Arc;

use super::event::{
    Adopted, Command, Effects, Event, Found, Lane, Load, Loaded, Reply, Report, Send, StreamId, Token, WorkerSpec,
};
use super::write::{BatchSeq, CancelMark, Epoch, OpenStart, SharedBatch, Start, StartsId, Write};
use super::{Config, Owner};
use crate::attempt::{AttemptNo, Details, Failure, FailureClass, Outcome, Ran};
use crate::id::{ArtifactId, JobId, ServerId, ShardId, TaskId, WorkerId};
use crate::job::{Counters, Input, JobKey, JobRow};
use crate::lifecycle::JobState;
use crate::task::{Delivery, Priority, Probe, Run, Task, TaskSpec};
use crate::time::{Span, Timestamp};

mod agents;
mod notices;

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
            id: TaskId::new(now, 1),
            name: None,
            revision: 1,
            created_at: now,
            updated_at: now,
            spec,
            waits_for: None,
        };
        let mut owner = Owner::new(ServerId::new(now, 1), config, 7);
        owner.handle(
            Event::Acquired {
                shard: SHARD,
                epoch: EPOCH,
                running: vec![],
                spent: vec![],
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
        self.handle(Event::Command { token: Token(1), id, command });
        self.pass(Span::ZERO).replies.into_iter().map(|(_, reply)| reply).collect()
    }
}

fn worker_spec() -> WorkerSpec {
    WorkerSpec {
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
    assert!(matches!(&batch.writes[..], [Write::Start(start)] if start.key.id == id));
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
    assert!(matches!(&batch.writes[..], [Write::Stale(stale)] if stale.id == id));
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
    bench.handle(Event::Command { token: Token(1), id: started, command: Command::Delete });
    let replies = bench.owner.take_effects().replies;
    assert!(matches!(replies[..], [(Token(1), Reply::Refused(JobState::Running, _))]), "{replies:?}");
}

#[test]
fn a_rerun_that_is_asked_for_again_does_not_run_the_job_twice() {
    let mut bench = Bench::new();
    let id = JobId::new(bench.now, SHARD, 9);
    let mut ask = |next_attempt: u32| {
        let command = Command::RerunOnce(AttemptNo(2));
        bench.handle(Event::Command { token: Token(1), id, command });
        let (token, _) = bench.owner.take_effects().lookups[0];
        let counters = Counters { next_attempt: AttemptNo(next_attempt), ..Counters::NEW };
        let found = Found::Finished { state: JobState::Failed, attempt: Some(AttemptNo(next_attempt - 1)), counters };
        bench.handle(Event::Found { token, id, found });
        bench.pass(Span::ZERO).replies
    };
    assert_eq!(ask(2), [(Token(1), Reply::Done(JobState::Scheduled))]);
    // It ran again and failed again before the answer was asked for once more.
    assert_eq!(ask(3), [(Token(1), Reply::Done(JobState::Failed))]);
}

#[test]
fn a_silent_worker_is_given_up_after_twenty_seconds_and_not_before() {
    let mut bench = Bench::new();
    bench.connect(1, vec![]);
    let id = bench.submit(Span::ZERO);
    bench.pass(Span::ZERO);
    for _ in 0..19 {
        bench.pass(Span::from_secs(1));
    }
    assert!(bench.owner.running(id).is_some());
    bench.pass(Span::from_secs(1));
    bench.pass(Span::from_secs(1));
    assert!(bench.owner.running(id).is_none());
    bench.worker = WorkerId::new(bench.now, 2);
    bench.connect(1, vec![]);
    assert_eq!(assigned(&bench.pass(Span::ZERO)), [(id, 2)]);
}

#[test]
fn a_pause_of_the_server_is_not_held_against_its_workers() {
    let mut bench = Bench::new();
    bench.connect(1, vec![]);
    let id = bench.submit(Span::ZERO);
    bench.pass(Span::ZERO);
    bench.pass(Span::from_secs(3600));
    assert!(bench.owner.running(id).is_none_or(|view| view.attempt == AttemptNo(1)), "it is not lost, at most overdue");
}

#[test]
fn what_a_reconnecting_worker_does_not_hold_was_never_received() {
    let mut bench = Bench::new();
    bench.connect(1, vec![]);
    let (held, unheld) = (bench.submit(Span::ZERO), bench.submit(Span::ZERO));
    bench.pass(Span::ZERO);
    bench.connect(2, vec![(held, AttemptNo(1))]);
    bench.pass(Span::ZERO);
    assert_eq!(assigned(&bench.pass(Span::from_micros(1))), [(unheld, 2)], "at once, and without costing a retry");
    assert_eq!(bench.owner.running(held).map(|view| view.attempt), Some(AttemptNo(1)));
}

#[test]
fn an_exactly_once_job_is_lost_with_its_worker_and_not_started_again() {
    let spec = TaskSpec { delivery: Delivery::ExactlyOnce, ..TaskSpec::new(Run::Probe(Probe::default())) };
    let mut bench = Bench::with(spec, Config::default());
    bench.connect(1, vec![]);
    bench.submit(Span::ZERO);
    bench.pass(Span::ZERO);
    for _ in 0..25 {
        bench.pass(Span::from_secs(1));
    }
    assert_eq!(bench.owner.counts().lost, 1);
}

#[test]
fn a_job_that_kills_three_workers_is_set_aside() {
    let mut bench = Bench::new();
    bench.submit(Span::ZERO);
    for life in 0..3 {
        bench.worker = WorkerId::new(bench.now, 100 + life);
        bench.connect(1, vec![]);
        for _ in 0..25 {
            bench.pass(Span::from_secs(1));
        }
    }
    assert_eq!(bench.owner.counts().quarantined, 1);
}

/// An owner with a small window, whose sweep has passed the present.
fn swept(window_max: usize) -> Bench {
    let config = Config { window_max, page_len: 2, ..Config::default() };
    let mut bench = Bench::with(TaskSpec::new(Run::Probe(Probe::default())), config);
    for load in bench.pass(Span::ZERO).loads {
        bench.handle(Event::Page { load, jobs: vec![], stopped_at: None });
    }
    bench
}

#[test]
fn a_full_window_reads_later_what_it_had_no_room_for() {
    let mut bench = swept(4);
    let jobs: Vec<Loaded> = (0..3).map(|_| bench.job(bench.now, 0)).collect();
    bench.handle(Event::Submitted { jobs: jobs.clone() });
    assert_eq!(bench.owner.counts().ready, 2, "half of the window stays free for others");
    bench.connect(1, vec![]);
    let loads = bench.pass(Span::from_millis(1)).loads;
    let load = loads.into_iter().find(|load| load.lane == Lane::Parked).expect("there is room again");
    assert!(load.after.is_some_and(|after| after < jobs[2].row.key));
    bench.handle(Event::Page { load, jobs: jobs[2..].to_vec(), stopped_at: None });
    assert_eq!(assigned(&bench.pass(Span::ZERO)), [(jobs[2].row.key.id, 1)]);
    assert!(bench.pass(Span::from_millis(1)).loads.iter().all(|load| load.lane != Lane::Parked), "nothing is left");
}

/// A sweep that was under way while the parked jobs were read has looked farther ahead than
/// that read, and has left out what lies there.
#[test]
fn what_a_sweep_left_out_is_read_by_another() {
    let mut bench = swept(4);
    let jobs: Vec<Loaded> = (0..3).map(|_| bench.job(bench.now, 0)).collect();
    bench.handle(Event::Submitted { jobs });
    bench.connect(1, vec![]);
    let loads = bench.pass(Span::from_millis(1)).loads;
    let parked = loads.into_iter().find(|load| load.lane == Lane::Parked).expect("there is room again");
    let loads = bench.pass(Span::from_secs(1)).loads;
    let sweep = loads.into_iter().find(|load| load.lane == Lane::All).expect("it is read on");
    assert_eq!(sweep.skip, [bench.task.id]);
    for is_sweep_first in [true, false] {
        let mut order = [sweep.clone(), parked.clone()];
        if !is_sweep_first {
            order.reverse();
        }
        let mut owner = Bench { jobs_made: 0, ..swept(4) };
        let jobs: Vec<Loaded> = (0..3).map(|_| owner.job(owner.now, 0)).collect();
        owner.handle(Event::Submitted { jobs });
        owner.connect(1, vec![]);
        owner.pass(Span::from_millis(1));
        owner.pass(Span::from_secs(1));
        for load in order {
            owner.handle(Event::Page { load, jobs: vec![], stopped_at: None });
        }
        let loads = owner.pass(Span::from_millis(60)).loads;
        let covers = |load: &Load| load.skip.is_empty() && load.after.is_some_and(|after| after.due_at <= parked.until);
        assert!(loads.iter().any(covers), "{loads:?}");
    }
}

#[test]
fn a_queue_without_workers_does_not_shut_out_the_others() {
    let mut bench = swept(8);
    bench.connect(1, vec![]);
    let served = Arc::clone(&bench.task);
    let mut spec = served.spec.clone();
    spec.queue = "nobody".to_owned();
    bench.task = Arc::new(Task { id: TaskId::new(bench.now, 2), spec, ..(*served).clone() });
    for _ in 0..100 {
        bench.submit(Span::ZERO);
    }
    bench.task = served;
    let id = bench.submit(Span::ZERO);
    assert_eq!(assigned(&bench.pass(Span::ZERO)), [(id, 1)]);
}

#[test]
fn a_waiting_job_follows_its_task_to_another_queue() {
    let mut bench = Bench::new();
    bench.connect(1, vec![]);
    let right = Arc::clone(&bench.task);
    let mut spec = right.spec.clone();
    spec.queue = "mistyped".to_owned();
    bench.task = Arc::new(Task { spec, ..(*right).clone() });
    let id = bench.submit(Span::ZERO);
    assert!(assigned(&bench.pass(Span::from_secs(1))).is_empty());
    let task = Arc::new(Task { revision: 2, ..(*right).clone() });
    bench.handle(Event::TaskChanged { task });
    assert_eq!(assigned(&bench.pass(Span::ZERO)), [(id, 1)]);
    // Read before the change, and delivered after it.
    let id = bench.submit(Span::ZERO);
    assert_eq!(assigned(&bench.pass(Span::ZERO)), [(id, 1)]);
}

#[test]
fn a_job_whose_file_has_not_arrived_waits_for_it_whatever_workers_say() {
    let mut bench = Bench::new();
    bench.connect(1, vec![]);
    let ready = Arc::clone(&bench.task);
    let artifact = ArtifactId::new(bench.now, 1);
    bench.task = Arc::new(Task { waits_for: Some(artifact), ..(*ready).clone() });
    let id = bench.submit(Span::ZERO);
    let other = bench.submit(Span::from_secs(5));
    let mut spec = worker_spec();
    spec.capabilities.push("\0arrival".to_owned());
    let (worker, stream) = (WorkerId::new(bench.now, 2), StreamId(2));
    bench.handle(Event::WorkerHello { worker, stream, spec, held: vec![] });
    assert!(assigned(&bench.pass(Span::from_secs(1))).is_empty());
    assert_eq!(bench.owner.tasks_that_wait(), [(bench.task.id, 1)]);
    assert_eq!(bench.owner.lag(), Span::ZERO, "no worker could do anything about it");
    bench.handle(Event::TaskChanged { task: Arc::new(Task { revision: 2, ..(*ready).clone() }) });
    assert_eq!(assigned(&bench.pass(Span::ZERO)), [(id, 1)]);
    assert!(bench.owner.tasks_that_wait().is_empty());
    assert_eq!(assigned(&bench.pass(Span::from_secs(5))), [(other, 1)]);
    // Read before the arrival, and delivered after it.
    let late = bench.submit(Span::ZERO);
    assert_eq!(assigned(&bench.pass(Span::ZERO)), [(late, 1)]);
}

#[test]
fn jobs_that_wait_for_a_file_do_not_shut_out_the_others_and_all_start_when_it_is_there() {
    let mut bench = swept(8);
    bench.connect(1, vec![]);
    let ready = Arc::clone(&bench.task);
    let id = TaskId::new(bench.now, 2);
    let waiting = Arc::new(Task { id, waits_for: Some(ArtifactId::new(bench.now, 1)), ..(*ready).clone() });
    bench.task = waiting;
    for _ in 0..100 {
        bench.submit(Span::ZERO);
    }
    bench.task = Arc::clone(&ready);
    let served = bench.submit(Span::ZERO);
    assert_eq!(assigned(&bench.pass(Span::ZERO)), [(served, 1)]);
    bench.handle(Event::TaskChanged { task: Arc::new(Task { id, revision: 2, ..(*ready).clone() }) });
    let effects = bench.pass(Span::ZERO);
    assert_eq!(assigned(&effects).len(), 3, "three of its four slots are free");
    let reads_on = effects.loads.iter().any(|load| load.lane == Lane::Parked);
    assert!(reads_on, "what the window had no room for is read now: {:?}", effects.loads);
}

#[test]
fn a_job_whose_file_does_not_arrive_in_time_fails_and_says_so() {
    let mut spec = TaskSpec::new(Run::Probe(Probe::default()));
    spec.queue_timeout = Some(Span::from_secs(2));
    let mut bench = Bench::with(spec, Config::default());
    bench.connect(1, vec![]);
    let artifact = ArtifactId::new(bench.now, 1);
    bench.task = Arc::new(Task { waits_for: Some(artifact), ..(*bench.task).clone() });
    bench.submit(Span::ZERO);
    bench.pass(Span::from_secs(1));
    bench.now = bench.now + Span::from_secs(2);
    let batch = bench.batch().expect("it ends");
    let [Write::Settle(settle)] = &batch.writes[..] else { panic!("{batch:?}") };
    assert_eq!(settle.reason, Some(format!("{artifact} did not arrive in time")));
}

#[test]
fn a_worker_that_still_holds_what_was_given_up_gets_no_more_than_it_has_room_for() {
    let mut bench = Bench::new();
    let held: Vec<_> = (0..4).map(|_| (bench.job(bench.now, 0).row.key.id, AttemptNo(1))).collect();
    bench.connect(1, held.clone());
    bench.submit(Span::ZERO);
    assert!(assigned(&bench.pass(Span::ZERO)).is_empty(), "its four slots are taken");
    bench.report(held[0].0, 1, Outcome::Succeeded { output: None });
    assert_eq!(assigned(&bench.pass(Span::ZERO)).len(), 1);
}

#[test]
fn a_job_that_is_given_back_waits_longer_each_time() {
    let mut bench = Bench::new();
    bench.connect(1, vec![]);
    let id = bench.submit(Span::ZERO);
    for (attempt, wait_ms) in [(1, 100), (2, 200), (3, 400)] {
        assert_eq!(assigned(&bench.pass(Span::ZERO)), [(id, attempt)]);
        bench.report(id, attempt, Outcome::NotStarted { reason: "no such handler".into() });
        assert!(assigned(&bench.pass(Span::from_millis(wait_ms - 1))).is_empty());
        bench.now = bench.now + Span::from_millis(1);
    }
}

#[test]
fn an_adopted_attempt_has_time_to_be_reported_however_long_the_server_was_away() {
    let mut bench = Bench::new();
    let job = bench.job(bench.now, 0);
    let id = job.row.key.id;
    let start = Start {
        key: job.row.key,
        attempt: AttemptNo(1),
        worker: bench.worker,
        picked_up_at: bench.now,
        started_at: bench.now,
    };
    bench.now = bench.now + Span::from_secs(24 * 3600);
    let starts = StartsId { shard: SHARD, epoch: EPOCH, seq: BatchSeq(9) };
    let start = OpenStart { starts, start, server: bench.owner.server(), cancel: CancelMark::None };
    let running = vec![Adopted { start, job }];
    bench.handle(Event::Acquired {
        shard: SHARD,
        epoch: Epoch(2),
        running,
        spent: vec![],
        schedules: Default::default(),
    });
    bench.pass(Span::from_secs(1));
    assert!(bench.owner.running(id).is_some(), "it is not called overdue at once");
    bench.connect(1, vec![(id, AttemptNo(1))]);
    bench.report(id, 1, Outcome::Succeeded { output: None });
    bench.pass(Span::ZERO);
    assert_eq!(bench.owner.counts().succeeded, 1);
}

#[test]
fn a_report_that_is_in_doubt_itself_does_not_settle_a_lost_job() {
    let mut bench = Bench::new();
    bench.connect(1, vec![]);
    let id = bench.job(bench.now, 0).row.key.id;
    bench.report(id, 1, Outcome::Failed(Failure { ran: Ran::Unknown, ..Failure::new("no answer") }));
    let (token, _) = bench.owner.take_effects().lookups[0];
    let counters = Counters { next_attempt: AttemptNo(2), ..Counters::NEW };
    let found = Found::Finished { state: JobState::Lost, attempt: Some(AttemptNo(1)), counters };
    bench.handle(Event::Found { token, id, found });
    let batch = bench.batch().expect("it is kept for the record");
    assert!(matches!(&batch.writes[..], [Write::Stale(stale)] if stale.id == id));
}

#[test]
fn a_late_result_brings_what_is_known_of_the_attempt() {
    let mut bench = Bench::new();
    bench.connect(1, vec![]);
    let id = bench.job(bench.now, 0).row.key.id;
    let details = Details { exit_code: Some(137), limit: Some("oom".into()), ..Details::default() };
    let failure = Failure { class: FailureClass::Limit, ..Failure::new("out of memory") };
    let report = Report {
        id,
        attempt: AttemptNo(1),
        outcome: Outcome::Failed(failure),
        timed_out: false,
        details: Some(Box::new(details.clone())),
    };
    bench.handle(Event::Outcomes { worker: bench.worker, reports: vec![report] });
    let (token, _) = bench.owner.take_effects().lookups[0];
    let counters = Counters { next_attempt: AttemptNo(2), ..Counters::NEW };
    let found = Found::Finished { state: JobState::Lost, attempt: Some(AttemptNo(1)), counters };
    bench.handle(Event::Found { token, id, found });
    let batch = bench.batch().expect("it settles the job");
    let [Write::ResolveLost(resolve)] = &batch.writes[..] else { panic!("{:?}", batch.writes) };
    let kept = Details { class: Some(FailureClass::Limit), ..details };
    assert_eq!((resolve.id, resolve.details.as_deref()), (id, Some(&kept)));
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

#[test]
fn a_clock_that_steps_back_does_not_stop_the_sweep() {
    let mut bench = swept(8);
    bench.now = bench.now - Span::from_secs(3600);
    let loads = bench.pass(Span::from_millis(1)).loads;
    let sweep = loads.iter().find(|load| load.lane == Lane::All).expect("it is read on at once");
    assert!(sweep.after.is_none_or(|after| after.due_at <= bench.now + Span::from_secs(30)));
}

/// Whoever stored a job while the shard changed hands may have told the former owner.
#[test]
fn a_new_owner_sweeps_again_soon_and_then_less_and_less_often() {
    let mut bench = Bench::new();
    let mut sweeps = Vec::new();
    for _ in 0..600 {
        for load in bench.pass(Span::from_millis(50)).loads {
            if load.lane == Lane::Floor {
                sweeps.push(bench.now);
            }
            bench.handle(Event::Page { load, jobs: vec![], stopped_at: None });
        }
    }
    let pauses: Vec<i64> = sweeps.windows(2).map(|pair| pair[1].since(pair[0]).as_micros() / 1000).collect();
    assert_eq!(pauses, [500, 2000, 8000, 10_000]);
}
