//! Workers that fall silent, come back, or die of a job.

use super::*;

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
    let spec = TaskSpec { delivery: DeliveryMode::ExactlyOnce, ..TaskSpec::new(Run::Probe(Probe::default())) };
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
        gang: None,
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
        whole_since: Epoch(0),
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
    assert!(matches!(&batch.writes[..], [Write::Job(JobWrite::Stale(stale))] if stale.id == id));
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
    let [Write::Job(JobWrite::ResolveLost(resolve))] = &batch.writes[..] else { panic!("{:?}", batch.writes) };
    let kept = Details { class: Some(FailureClass::Limit), ..details };
    assert_eq!((resolve.id, resolve.details.as_deref()), (id, Some(&kept)));
}

/// How the attempt of a job ended whose start is from `started_in`, in a database that has lost commits before
/// `whole_since`, when its worker comes and does not know it.
fn denied(delivery: DeliveryMode, started_in: Epoch, whole_since: Epoch) -> Write {
    let spec = TaskSpec { delivery, ..TaskSpec::new(Run::Probe(Probe::default())) };
    let mut bench = Bench::with(spec, Config::default());
    let job = bench.job(bench.now, 0);
    let (key, worker, now) = (job.row.key, bench.worker, bench.now);
    let start = Start { key, attempt: AttemptNo(1), worker, picked_up_at: now, started_at: now, gang: None };
    let starts = StartsId { shard: SHARD, epoch: started_in, seq: BatchSeq(9) };
    let start = OpenStart { starts, start, server: bench.owner.server(), cancel: CancelMark::None };
    bench.handle(Event::Acquired {
        shard: SHARD,
        epoch: Epoch(whole_since.0.max(started_in.0) + 1),
        running: vec![Adopted { start, job }],
        spent: vec![],
        whole_since,
        schedules: Default::default(),
    });
    bench.connect(1, vec![]);
    let batch = bench.batch().expect("the attempt ends");
    assert_eq!(batch.writes.len(), 1, "{:?}", batch.writes);
    batch.writes[0].clone()
}

#[test]
fn a_start_that_its_worker_denies_proves_nothing_once_the_database_has_lost_commits_since() {
    let generation = Epoch(7 << 20);
    let before = Epoch((7 << 20) - 1);
    for delivery in [DeliveryMode::AtMostOnce, DeliveryMode::ExactlyOnce] {
        let write = denied(delivery, before, generation);
        let Write::Job(JobWrite::Settle(settle)) = &write else { panic!("{write:?}") };
        assert_eq!(settle.state, JobState::Lost, "it may have run: {delivery:?}");
        let ran = settle.attempt.as_ref().expect("it was started");
        assert_eq!(ran.ending, Ending::WorkerLost);
        assert!(ran.reason.as_deref().is_some_and(|reason| reason.contains("lost commits")), "{ran:?}");
    }
    let write = denied(DeliveryMode::AtLeastOnce, before, generation);
    let Write::Job(JobWrite::Requeue(requeue)) = &write else { panic!("{write:?}") };
    assert_eq!(requeue.attempt.as_ref().map(|ran| ran.ending), Some(Ending::WorkerLost), "nothing is proven");
    // One of the present generation was never received, and starts again in every mode.
    for delivery in [DeliveryMode::AtLeastOnce, DeliveryMode::AtMostOnce, DeliveryMode::ExactlyOnce] {
        let write = denied(delivery, generation, generation);
        let Write::Job(JobWrite::Requeue(requeue)) = &write else { panic!("{write:?}") };
        assert_eq!(requeue.attempt.as_ref().map(|ran| ran.ending), Some(Ending::NotStarted));
    }
}

#[test]
fn an_old_start_that_its_worker_holds_goes_on_although_the_database_has_lost_commits() {
    let spec = TaskSpec { delivery: DeliveryMode::ExactlyOnce, ..TaskSpec::new(Run::Probe(Probe::default())) };
    let mut bench = Bench::with(spec, Config::default());
    let job = bench.job(bench.now, 0);
    let (key, worker, now) = (job.row.key, bench.worker, bench.now);
    let start = Start { key, attempt: AttemptNo(1), worker, picked_up_at: now, started_at: now, gang: None };
    let starts = StartsId { shard: SHARD, epoch: EPOCH, seq: BatchSeq(9) };
    let start = OpenStart { starts, start, server: bench.owner.server(), cancel: CancelMark::None };
    bench.handle(Event::Acquired {
        shard: SHARD,
        epoch: Epoch(9),
        running: vec![Adopted { start, job }],
        spent: vec![],
        whole_since: Epoch(8),
        schedules: Default::default(),
    });
    bench.connect(1, vec![(key.id, AttemptNo(1))]);
    bench.report(key.id, 1, Outcome::Succeeded { output: None });
    bench.pass(Span::ZERO);
    assert_eq!((bench.owner.counts().succeeded, bench.owner.counts().lost), (1, 0));
}

#[test]
fn a_start_that_was_never_sent_is_taken_back_although_the_database_has_lost_commits() {
    let spec = TaskSpec { delivery: DeliveryMode::AtMostOnce, ..TaskSpec::new(Run::Probe(Probe::default())) };
    let mut bench = Bench::with(spec, Config::default());
    bench.connect(1, vec![]);
    bench.submit(Span::ZERO);
    let batch = bench.batch().expect("a start was decided");
    let [Write::Job(JobWrite::Start(start))] = &batch.writes[..] else { panic!("{:?}", batch.writes) };
    let start = *start;
    // The database dies before it answers, and has the start when it is back.
    assert_eq!(bench.owner.unknown(batch.seq, bench.now), [SHARD]);
    let job = Loaded { row: bench.job(bench.now, 0).row, task: Arc::clone(&bench.task) };
    let row = JobRow { key: start.key, ..job.row };
    let open =
        OpenStart { starts: batch.starts_id(SHARD), start, server: bench.owner.server(), cancel: CancelMark::None };
    bench.handle(Event::Acquired {
        shard: SHARD,
        epoch: Epoch(9),
        running: vec![Adopted { start: open, job: Loaded { row, task: job.task } }],
        spent: vec![],
        whole_since: Epoch(8),
        schedules: Default::default(),
    });
    bench.connect(2, vec![]);
    let batch = bench.batch().expect("the attempt ends");
    let [Write::Job(JobWrite::Requeue(requeue))] = &batch.writes[..] else { panic!("{:?}", batch.writes) };
    assert_eq!(requeue.attempt.as_ref().map(|ran| ran.ending), Some(Ending::NotStarted));
}

#[test]
fn a_job_is_shown_as_running_until_its_end_is_durable() {
    let mut bench = Bench::new();
    bench.connect(1, vec![]);
    let id = bench.submit(Span::ZERO);
    bench.pass(Span::ZERO);
    assert_eq!(bench.owner.shown_running(&[id]).len(), 1);
    bench.report(id, 1, Outcome::Succeeded { output: None });
    assert_eq!(bench.owner.running(id), None, "nothing more comes of it");
    assert_eq!(bench.owner.shown_running(&[id]).len(), 1, "and nobody finds it finished yet");
    assert_eq!(bench.owner.all_shown_running().len(), 1);
    bench.pass(Span::ZERO);
    assert_eq!(bench.owner.shown_running(&[id]), []);
}

#[test]
fn what_a_revoked_worker_runs_goes_to_another_at_once() {
    let mut bench = Bench::new();
    bench.connect(1, vec![]);
    let id = bench.submit(Span::ZERO);
    bench.pass(Span::ZERO);
    let revoked = bench.worker;
    bench.worker = WorkerId::new(bench.now, 2);
    bench.connect(1, vec![]);
    let stranger = WorkerId::new(bench.now, 3);
    bench.handle(Event::WorkersRevoked { workers: vec![revoked, stranger] });
    let batch = bench.batch().expect("the attempt ends");
    let [Write::Job(JobWrite::Requeue(requeue))] = &batch.writes[..] else { panic!("{:?}", batch.writes) };
    let reason = requeue.attempt.as_ref().and_then(|ended| ended.reason.as_deref());
    assert_eq!(reason, Some("the worker was revoked, or its certificate expired"));
    bench.owner.committed(batch.seq, &Default::default(), bench.now);
    assert_eq!(bench.owner.take_effects().disconnects, [revoked]);
    bench.pass(Span::from_secs(1));
    let running = bench.owner.running(id).map(|view| view.attempt);
    assert!(running.is_none_or(|attempt| attempt == AttemptNo(2)), "its first attempt is over: {running:?}");
}

#[test]
fn a_start_for_a_revoked_worker_is_taken_back() {
    let mut bench = Bench::new();
    bench.connect(1, vec![]);
    let id = bench.submit(Span::ZERO);
    bench.handle(Event::WorkersRevoked { workers: vec![bench.worker] });
    bench.pass(Span::ZERO);
    assert!(bench.owner.running(id).is_none());
}

fn cancelled_report(id: JobId) -> Report {
    Report { id, attempt: AttemptNo(1), outcome: Outcome::Cancelled, timed_out: false, details: None }
}

#[test]
fn an_attempt_that_nobody_asked_to_end_has_failed_and_is_tried_again() {
    let mut bench = Bench::new();
    bench.connect(1, vec![]);
    let id = bench.submit(Span::ZERO);
    bench.pass(Span::ZERO);
    bench.handle(Event::Outcomes { worker: bench.worker, reports: vec![cancelled_report(id)] });
    let batch = bench.batch().expect("it ends the attempt");
    let [Write::Job(JobWrite::Requeue(again))] = &batch.writes[..] else { panic!("{:?}", batch.writes) };
    let attempt = again.attempt.as_ref().expect("the attempt is on record");
    assert_eq!((attempt.ending, again.counters.failures), (Ending::Failed, 1));
    assert_eq!(attempt.reason.as_deref(), Some("reported as cancelled, but no cancel was requested"));
}

#[test]
fn an_attempt_that_somebody_asked_to_end_is_cancelled() {
    let mut bench = Bench::new();
    bench.connect(1, vec![]);
    let id = bench.submit(Span::ZERO);
    bench.pass(Span::ZERO);
    bench.command(id, Command::Cancel);
    bench.report(id, 1, Outcome::Cancelled);
    bench.pass(Span::ZERO);
    assert_eq!(bench.owner.counts().cancelled, 1);
}

/// What becomes of a report that the last attempt of a finished job was cancelled: what is written, and whether it is
/// acknowledged before that.
fn late_cancel(state: JobState) -> (Option<JobWrite>, bool) {
    let mut bench = Bench::new();
    bench.connect(1, vec![]);
    let id = bench.job(bench.now, 0).row.key.id;
    bench.handle(Event::Outcomes { worker: bench.worker, reports: vec![cancelled_report(id)] });
    let (token, _) = bench.owner.take_effects().lookups[0];
    let counters = Counters { next_attempt: AttemptNo(2), ..Counters::NEW };
    bench.handle(Event::Found { token, id, found: Found::Finished { state, attempt: Some(AttemptNo(1)), counters } });
    let is_acknowledged = bench.owner.take_effects().sends.iter().any(|(_, _, send)| matches!(send, Send::Ack { .. }));
    let write = bench.batch().and_then(|batch| match batch.writes.first() {
        Some(Write::Job(write)) => Some(write.clone()),
        _ => None,
    });
    (write, is_acknowledged)
}

#[test]
fn a_late_report_that_a_lost_attempt_was_cancelled_says_that_it_failed() {
    let (Some(JobWrite::ResolveLost(resolved)), false) = late_cancel(JobState::Lost) else {
        panic!("it resolves the loss")
    };
    assert_eq!(resolved.state, JobState::Failed, "a job whose cancel was requested is not lost");
    assert_eq!(resolved.reason.as_deref(), Some("reported as cancelled, but no cancel was requested"));
}

#[test]
fn a_repeated_report_that_an_attempt_was_cancelled_is_acknowledged() {
    for state in [JobState::Cancelled, JobState::Failed] {
        assert_eq!(late_cancel(state), (None, true), "{state}");
    }
}

#[test]
fn a_worker_hears_of_a_cancel_when_it_is_durable_and_not_before() {
    let mut bench = Bench::new();
    bench.connect(1, vec![]);
    let id = bench.submit(Span::ZERO);
    bench.pass(Span::ZERO);
    bench.handle(Event::Ask { token: Token(1), ask: Ask::Job { id, command: Command::Cancel }, made: None });
    let batch = bench.batch().expect("the request is written");
    bench.connect(2, vec![(id, AttemptNo(1))]);
    assert!(cancelled(&bench.owner.take_effects()).is_empty(), "the write may still fail");
    bench.owner.committed(batch.seq, &Default::default(), bench.now);
    assert_eq!(cancelled(&bench.owner.take_effects()), [id]);
    bench.connect(3, vec![(id, AttemptNo(1))]);
    assert_eq!(cancelled(&bench.owner.take_effects()), [id], "the message may have been lost");
}
