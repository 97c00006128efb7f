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
