//! Runs of one schedule that meet.

use super::*;
use crate::schedule::Overlap;

fn bench(overlap: Overlap) -> (Bench, ScheduleId) {
    let mut bench = Bench::new(at("11:59:30"));
    let id = bench.create(&ScheduleSpec { overlap, ..spec("* * * * *") });
    bench.pass_until(at("12:02:30"));
    (bench, id)
}

#[test]
fn they_run_side_by_side_where_that_is_allowed() {
    let (bench, _) = bench(Overlap::Allow);
    assert_eq!(bench.running.len(), 3);
}

#[test]
fn a_time_is_skipped_while_a_run_has_not_ended() {
    let (mut bench, _) = bench(Overlap::Skip);
    assert_eq!((bench.running.len(), bench.count(Verdict::SkippedOverlap)), (1, 2));
    let reason = bench.ledger[&at("12:01:00")].reason.clone().unwrap();
    assert_eq!(reason, format!("{} had not ended", bench.running[0].0));
    bench.finish(&succeeded());
    bench.pass_until(at("12:03:00"));
    assert_eq!(bench.running.len(), 1);
}

#[test]
fn one_waits_and_the_others_are_skipped() {
    let (mut bench, _) = bench(Overlap::QueueOne);
    assert_eq!(bench.verdicts()[1..], [(at("12:01:00"), Verdict::Queued), (at("12:02:00"), Verdict::SkippedOverlap)]);
    bench.finish(&failed());
    assert_eq!((bench.running.len(), bench.count(Verdict::Queued)), (1, 0));
    assert_eq!(bench.ledger[&at("12:01:00")].job, Some(bench.running[0].0));
}

#[test]
fn all_wait_and_run_in_order_also_over_a_takeover() {
    let (mut bench, id) = bench(Overlap::QueueAll);
    assert_eq!((bench.running.len(), bench.count(Verdict::Queued)), (1, 2));
    // Its run is reported to the new owner, who knows that others wait for it.
    let spec = ScheduleSpec { overlap: Overlap::QueueAll, ..spec("* * * * *") };
    bench.take_over(id, &spec, at("12:02:40"));
    assert_eq!(bench.count(Verdict::Fired), 1, "the run has not ended");
    bench.pass_until(at("12:03:10"));
    assert_eq!(bench.count(Verdict::Queued), 3);
}

#[test]
fn a_new_owner_starts_what_waits_if_nothing_runs() {
    let (mut bench, id) = bench(Overlap::QueueAll);
    bench.running.clear();
    let spec = ScheduleSpec { overlap: Overlap::QueueAll, ..spec("* * * * *") };
    bench.take_over(id, &spec, at("12:02:40"));
    assert_eq!(bench.ledger[&at("12:01:00")].verdict, Verdict::Fired);
    assert_eq!((bench.count(Verdict::Fired), bench.count(Verdict::Queued)), (2, 1));
}

#[test]
fn the_run_before_is_cancelled_and_the_newest_follows_it() {
    let (mut bench, _) = bench(Overlap::CancelPrevious);
    assert_eq!(bench.cancels, [bench.running[0].0]);
    assert_eq!(bench.verdicts()[1..], [(at("12:01:00"), Verdict::SkippedOverlap), (at("12:02:00"), Verdict::Queued)]);
    bench.finish(&Outcome::Cancelled);
    assert_eq!(bench.ledger[&at("12:02:00")].verdict, Verdict::Fired);
}

#[test]
fn a_new_owner_does_not_cancel_the_run_of_the_time_that_it_decides_about_again() {
    let (mut bench, id) = bench(Overlap::CancelPrevious);
    bench.finish(&Outcome::Cancelled);
    bench.cancels.clear();
    // As if the watermark had not been written since before its time.
    bench.watermark = at("12:01:30");
    let spec = ScheduleSpec { overlap: Overlap::CancelPrevious, ..spec("* * * * *") };
    let running = bench.running.clone();
    bench.running = vec![(JobId::new(at("12:02:00"), SHARD, 1), AttemptNo(1))];
    bench.take_over(id, &spec, at("12:02:40"));
    bench.running = running;
    assert!(bench.cancels.is_empty());
    assert_eq!(bench.ledger[&at("12:02:00")].verdict, Verdict::Fired);
}

#[test]
fn a_pause_holds_up_what_waits() {
    let (mut bench, id) = bench(Overlap::QueueAll);
    assert_eq!(bench.count(Verdict::Queued), 2);
    bench.ask(id, ScheduleCommand::Pause { note: None });
    bench.finish(&succeeded());
    assert_eq!((bench.running.len(), bench.count(Verdict::Queued)), (0, 2));
    bench.ask(id, ScheduleCommand::Resume { note: None });
    assert_eq!((bench.running.len(), bench.count(Verdict::Queued)), (1, 1));
}

#[test]
fn a_schedule_that_fails_too_often_pauses_itself() {
    let mut bench = Bench::new(at("11:59:30"));
    let id = bench.create(&ScheduleSpec { pause_after_failures: Some(2), ..spec("* * * * *") });
    for minute in ["12:00:10", "12:01:10"] {
        bench.pass_until(at(minute));
        bench.finish(&failed());
    }
    let pause = bench.states[&id].pause.clone().unwrap();
    assert_eq!((pause.by.who.as_str(), pause.note.as_deref()), ("scheduler", Some("2 runs in a row failed")));
    bench.pass_until(at("12:02:10"));
    assert_eq!(bench.ledger[&at("12:02:00")].verdict, Verdict::SkippedPaused);
    assert_eq!(bench.ask(id, ScheduleCommand::Resume { note: None }), ScheduleReply::Done { revision: 1 });
    bench.pass_until(at("12:03:10"));
    bench.finish(&succeeded());
    bench.pass_until(at("12:04:10"));
    bench.finish(&failed());
    assert_eq!(bench.states[&id].failures, 1, "a success begins the count anew");
}

#[test]
fn a_run_that_may_not_exist_does_not_stand_in_the_way_of_a_later_time() {
    let spec = ScheduleSpec { overlap: Overlap::Skip, ..spec("* * * * *") };
    let mut bench = Bench::new(at("12:00:30"));
    let id = bench.create(&spec);
    bench.ask(id, ScheduleCommand::Pause { note: None });
    bench.pass_until(at("12:01:00"));
    bench.ask(id, ScheduleCommand::Resume { note: None });
    assert_eq!(bench.verdicts(), [(at("12:01:00"), Verdict::SkippedPaused)]);
    // The next owner does not know of that verdict, and decides anew; the store takes its time to say so.
    bench.watermark = at("12:00:30");
    bench.take_over_quietly(id, &spec, at("12:01:50"));
    let fired = bench.owner.take_batch(bench.now).expect("it decides about what was due");
    bench.now = at("12:02:00");
    bench.owner.tick(bench.now);
    let void = bench.store(&fired);
    assert_eq!(void.occurrences, [(id, at("12:01:00"))]);
    bench.owner.committed(fired.seq, &void, bench.now);
    bench.settle();
    assert_eq!(bench.ledger[&at("12:02:00")].verdict, Verdict::Fired);
}
