//! Runs of one schedule that meet.

use super::*;
use crate::schedule::{ChangeKind, Marks, Overlap};

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

fn run_now(overlap: Option<Overlap>) -> ScheduleCommand {
    ScheduleCommand::RunNow { overlap }
}

/// Every five minutes, with a run under way.
fn busy(overlap: Overlap) -> (Bench, ScheduleId, JobId) {
    let mut bench = Bench::new(at("11:59:30"));
    let id = bench.create(&ScheduleSpec { overlap, ..spec("*/5 * * * *") });
    bench.pass_until(at("12:00:10"));
    let (job, _) = bench.running[0];
    (bench, id, job)
}

#[test]
fn a_run_that_somebody_asks_for_obeys_the_overlap_policy() {
    let (mut bench, id, job) = busy(Overlap::Skip);
    let reply = bench.ask(id, run_now(None));
    let ScheduleReply::SkippedOverlap { at: when, reason } = reply else { panic!("{reply:?}") };
    assert_eq!((reason, bench.running.len()), (format!("{job} had not ended"), 1));
    let row = &bench.ledger[&when];
    assert!(row.verdict == Verdict::SkippedOverlap && row.marks.has(Marks::MANUAL));
    assert!(matches!(bench.ask(id, run_now(Some(Overlap::Allow))), ScheduleReply::Fired(_)));
    assert_eq!(bench.running.len(), 2);
    bench.finish(&succeeded());
    assert!(matches!(bench.ask(id, run_now(None)), ScheduleReply::Fired(_)), "nothing runs any more");
}

#[test]
fn a_run_that_somebody_asks_for_waits_its_turn_also_while_the_schedule_is_paused() {
    let (mut bench, id, _) = busy(Overlap::QueueOne);
    let ScheduleReply::Queued { at: when } = bench.ask(id, run_now(None)) else { panic!("it waits") };
    assert!(matches!(bench.ask(id, run_now(None)), ScheduleReply::SkippedOverlap { .. }), "one waits");
    bench.ask(id, ScheduleCommand::Pause { note: None });
    bench.finish(&succeeded());
    let row = &bench.ledger[&when];
    assert_eq!((row.verdict, row.job), (Verdict::Fired, Some(bench.running[0].0)));
    let is_manual = |write: &Write| match write {
        Write::Schedule(ScheduleWrite::Release(decision)) => {
            decision.job.as_ref().is_some_and(|job| job.source.kind == SourceKind::Manual)
        }
        _ => false,
    };
    assert!(bench.writes.iter().any(is_manual), "it does not count for max_runs");
}

#[test]
fn whoever_asks_for_a_run_may_have_the_one_before_cancelled() {
    let (mut bench, id, job) = busy(Overlap::QueueAll);
    bench.pass_until(at("12:05:10"));
    assert_eq!(bench.count(Verdict::Queued), 1);
    let reply = bench.ask(id, run_now(Some(Overlap::CancelPrevious)));
    let ScheduleReply::CancelsPrevious { at: when } = reply else { panic!("{reply:?}") };
    assert_eq!(bench.cancels, [job]);
    assert_eq!(bench.ledger[&at("12:05:00")].verdict, Verdict::SkippedOverlap, "the newest takes its place");
    // The next owner does not forget about it.
    let spec = ScheduleSpec { overlap: Overlap::QueueAll, ..spec("*/5 * * * *") };
    let running = bench.running.clone();
    bench.take_over(id, &spec, at("12:05:40"));
    assert_eq!(bench.ledger[&when].verdict, Verdict::Queued);
    assert!(bench.ledger[&when].marks.has(Marks::CANCELS_PREVIOUS));
    assert_eq!(bench.running, running);
}

#[test]
fn nobody_knows_what_runs_where_runs_may_meet() {
    let (mut bench, id, _) = busy(Overlap::Allow);
    let reply = bench.ask(id, run_now(Some(Overlap::Skip)));
    assert!(matches!(&reply, ScheduleReply::Refused(reason) if reason.contains("`allow`")), "{reply:?}");
    assert!(matches!(bench.ask(id, run_now(None)), ScheduleReply::Fired(_)));
}

#[test]
fn a_run_that_is_asked_for_while_verdicts_are_in_doubt_is_decided_when_they_are_known() {
    let skip = ScheduleSpec { overlap: Overlap::Skip, ..spec("* * * * *") };
    let mut bench = Bench::new(at("12:00:30"));
    let id = bench.create(&skip);
    // The former owner had skipped the time, and that the new one does not know: it fires, and the store says no.
    bench.ask(id, ScheduleCommand::SkipNext { count: 1 });
    bench.pass_until(at("12:01:00"));
    bench.states.get_mut(&id).unwrap().skip_until = None;
    bench.watermark = at("12:00:30");
    bench.take_over_quietly(id, &skip, at("12:01:10"));
    let event = Event::Ask {
        token: Token(1),
        ask: Ask::Schedule { id, command: run_now(None), who: "me".to_owned() },
        made: None,
    };
    bench.owner.handle(event, bench.now);
    bench.settle();
    assert!(matches!(bench.replies.pop(), Some(ScheduleReply::Fired(_))), "the run in its way never existed");
    assert_eq!(bench.running.len(), 1);
}

#[test]
fn what_waits_can_be_skipped_and_the_run_goes_on() {
    let (mut bench, id) = bench(Overlap::QueueAll);
    assert_eq!((bench.running.len(), bench.count(Verdict::Queued)), (1, 2));
    assert_eq!(bench.ask(id, ScheduleCommand::ClearQueue), ScheduleReply::Cleared { count: 2 });
    assert_eq!((bench.count(Verdict::Queued), bench.count(Verdict::SkippedByRequest)), (0, 2));
    let row = &bench.ledger[&at("12:01:00")];
    assert_eq!((row.reason.as_deref(), row.decided_at), (Some("me cleared the queue"), at("12:02:30")));
    let is_change = |write: &&Write| matches!(write, Write::Schedule(ScheduleWrite::Set { change: Some(change), .. }) if change.kind == ChangeKind::QueueCleared && change.by.who == "me");
    assert_eq!(bench.writes.iter().filter(is_change).count(), 1);
    assert_eq!(bench.ask(id, ScheduleCommand::ClearQueue), ScheduleReply::Cleared { count: 0 });
    bench.pass_until(at("12:03:10"));
    assert_eq!(bench.count(Verdict::Queued), 1, "what comes later waits as before");
    bench.finish(&succeeded());
    assert_eq!((bench.running.len(), bench.count(Verdict::Queued)), (1, 0));
}

#[test]
fn a_queue_is_cleared_when_all_of_it_is_on_record() {
    let (mut bench, id) = bench(Overlap::QueueAll);
    let event = Event::Ask {
        token: Token(1),
        ask: Ask::Schedule { id, command: ScheduleCommand::ClearQueue, who: "me".to_owned() },
        made: None,
    };
    bench.owner.handle(event, bench.now);
    bench.owner.tick(bench.now);
    let skipped = bench.owner.take_batch(bench.now).expect("what waited is skipped");
    assert!(
        skipped.writes.iter().all(|write| matches!(write, Write::Schedule(ScheduleWrite::Release(_)))),
        "{:?}",
        skipped.writes
    );
    assert!(bench.owner.take_batch(bench.now).is_none(), "that may fail");
    let void = bench.store(&skipped);
    bench.owner.committed(skipped.seq, &void, bench.now);
    bench.settle();
    assert_eq!(bench.replies.pop(), Some(ScheduleReply::Cleared { count: 2 }));
}

#[test]
fn what_max_runs_leaves_over_says_so() {
    let mut bench = Bench::new(at("11:59:30"));
    let id = bench.create(&ScheduleSpec { overlap: Overlap::QueueAll, max_runs: Some(2), ..spec("* * * * *") });
    bench.pass_until(at("12:02:30"));
    assert_eq!((bench.running.len(), bench.count(Verdict::Queued)), (1, 2));
    let ScheduleReply::Queued { at: asked_for } = bench.ask(id, run_now(None)) else { panic!("it waits") };
    bench.finish(&succeeded());
    bench.finish(&succeeded());
    assert_eq!(bench.ledger[&at("12:01:00")].verdict, Verdict::Fired);
    let row = &bench.ledger[&at("12:02:00")];
    assert_eq!(row.verdict, Verdict::SkippedMaxRuns);
    assert!(row.reason.as_ref().unwrap().contains("max_runs"));
    assert_eq!(bench.ledger[&asked_for].verdict, Verdict::Fired, "what somebody asked for is not one of them");
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
