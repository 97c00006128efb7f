//! Times that nobody was there for.

use super::*;
use crate::schedule::{CatchUp, CatchUpMode, Marks, Overlap};

/// Every ten minutes, with a server that is away from 12:05 until `back`.
fn away(rule: CatchUp, overlap: Overlap, back: &str) -> Bench {
    let spec = ScheduleSpec { catch_up: rule, overlap, ..spec("*/10 * * * *") };
    let mut bench = Bench::new(at("11:55:00"));
    let id = bench.create(&spec);
    bench.pass_until(at("12:05:00"));
    bench.finish(&succeeded());
    assert_eq!(bench.verdicts(), [(at("12:00:00"), Verdict::Fired)]);
    bench.take_over(id, &spec, at(back));
    bench
}

fn rule(mode: CatchUpMode, max: u32, window: i64, per_minute: u32) -> CatchUp {
    CatchUp { mode, max, window: Some(secs(window)), per_minute }
}

fn replayed(bench: &Bench) -> Vec<Timestamp> {
    let replayed = |row: &&OccurrenceRow| row.marks.has(Marks::REPLAYED) && row.verdict == Verdict::Fired;
    bench.ledger.values().filter(replayed).map(|row| row.at).collect()
}

#[test]
fn none_is_made_up_for_where_the_schedule_says_so() {
    let mut bench = away(rule(CatchUpMode::None, 100, 86_400, 60), Overlap::Allow, "18:05:00");
    assert_eq!((bench.count(Verdict::Missed), bench.running.len()), (36, 0));
    bench.pass_until(at("18:10:00"));
    assert_eq!(bench.running.len(), 1, "it goes on as planned");
}

#[test]
fn the_last_one_runs_where_the_schedule_says_so() {
    let bench = away(rule(CatchUpMode::Last, 100, 86_400, 60), Overlap::Allow, "18:05:00");
    assert_eq!(replayed(&bench), [at("18:00:00")]);
    assert_eq!((bench.count(Verdict::Missed), bench.running.len()), (35, 1));
    let row = &bench.ledger[&at("18:00:00")];
    assert!(row.marks.has(Marks::LATE) && row.decided_at == at("18:05:00"));
    let outside = away(rule(CatchUpMode::Last, 100, 60, 60), Overlap::Allow, "18:05:00");
    assert_eq!(outside.count(Verdict::Missed), 36, "it is older than the window");
}

#[test]
fn the_last_one_runs_however_old_it_is_unless_a_window_is_named() {
    let weekly = spec("0 12 * * SUN");
    let mut bench = Bench::new(at("11:55:00"));
    let id = bench.create(&weekly);
    // A Sunday, 12:00, and an outage until Tuesday.
    bench.take_over(id, &weekly, at("18:00:00") + secs(2 * 86_400));
    assert_eq!(replayed(&bench), [at("12:00:00")]);

    let a_day = ScheduleSpec { catch_up: rule(CatchUpMode::Last, 1, 86_400, 60), ..weekly };
    let mut bench = Bench::new(at("11:55:00"));
    let id = bench.create(&a_day);
    bench.take_over(id, &a_day, at("18:00:00") + secs(2 * 86_400));
    let row = &bench.ledger[&at("12:00:00")];
    assert_eq!(row.verdict, Verdict::Missed);
    assert!(row.reason.as_ref().unwrap().contains("older than the catch-up window of 24h"), "{:?}", row.reason);
}

#[test]
fn only_those_are_missed_for_their_age_that_would_have_run() {
    let named = |bench: &Bench| -> Vec<Timestamp> {
        bench.ledger.values().filter(|row| row.reason.is_some()).map(|row| row.at).collect()
    };
    let last = away(rule(CatchUpMode::Last, 100, 60, 60), Overlap::Allow, "18:05:00");
    assert_eq!(named(&last), [at("18:00:00")], "the others were not the last");
    let all = away(rule(CatchUpMode::All, 5, 1500, 60), Overlap::Allow, "18:05:00");
    assert_eq!(named(&all), [at("17:20:00"), at("17:30:00")], "three of five are within 25 minutes");
    let none = away(rule(CatchUpMode::None, 5, 60, 60), Overlap::Allow, "18:05:00");
    assert_eq!(named(&none), []);
}

/// A schedule with this rule whose server is away for 90 seconds.
fn away_for_90_s(spec: &ScheduleSpec) -> Bench {
    let mut bench = Bench::new(at("12:00:00.5"));
    let id = bench.create(spec);
    bench.pass_until(at("12:00:59.5"));
    bench.finish(&succeeded());
    bench.ledger.clear();
    bench.take_over(id, spec, at("12:02:29.5"));
    bench
}

#[test]
fn a_frequent_schedule_gives_a_time_up_when_the_next_one_has_come() {
    for (cron, missed, late) in [
        ("* * * * * *", 89, 1),
        ("*/5 * * * * *", 17, 1),
        ("*/20 * * * * *", 4, 1),
        ("*/30 * * * * *", 2, 1),
        ("* * * * *", 1, 1),
        // Of neighbours that are not equally far from each other, each has its own.
        ("0,1 * * * * *", 3, 1),
    ] {
        let none = ScheduleSpec { catch_up: rule(CatchUpMode::None, 1, 60, 60), ..spec(cron) };
        let bench = away_for_90_s(&none);
        assert_eq!((bench.count(Verdict::Missed), bench.running.len()), (missed, late), "{cron}");
        assert!(replayed(&bench).is_empty());
    }
}

#[test]
fn a_schedule_may_say_itself_when_a_time_is_missed() {
    for (own, missed, late) in [(1, 89, 1), (6, 84, 6), (90, 0, 90)] {
        let catch_up = rule(CatchUpMode::None, 1, 60, 60);
        let own = ScheduleSpec { missed_after: Some(secs(own)), catch_up, ..spec("* * * * * *") };
        let bench = away_for_90_s(&own);
        assert_eq!((bench.count(Verdict::Missed), bench.running.len()), (missed, late), "{own:?}");
    }
}

#[test]
fn each_time_has_one_verdict_where_jitter_makes_later_times_start_before_earlier_ones() {
    for seconds in [3, 7, 20] {
        for mode in [CatchUpMode::None, CatchUpMode::Last, CatchUpMode::All] {
            let mut jittered = spec(&format!("*/{seconds} * * * * *"));
            jittered.catch_up = rule(mode, 3, 600, 600);
            jittered.when.jitter = Some(jiff::SignedDuration::from_secs(40));
            let mut bench = away_for_90_s(&jittered);
            let budget = jittered.catch_up.budget();
            assert!(replayed(&bench).len() <= budget, "{seconds} {mode:?}");
            bench.pass_until(at("12:03:30"));
            let plan = Plan::new(jittered, &BTreeMap::new(), seed_of(EVERY)).unwrap();
            let times = plan.times_after(at("12:00:00"), seed_of(EVERY));
            let due = times.take_while(|planned| planned.at < at("12:03:30"));
            let due = due.filter(|planned| planned.slot > at("12:00:59.5") && planned.slot <= at("12:03:30"));
            for planned in due {
                assert!(bench.ledger.contains_key(&planned.at), "{seconds} {mode:?}: {}", planned.at);
            }
        }
    }
}

#[test]
fn all_run_within_count_window_and_rate() {
    let mut bench = away(rule(CatchUpMode::All, 5, 86_400, 12), Overlap::Allow, "18:05:00");
    assert_eq!(replayed(&bench), [at("17:20:00"), at("17:30:00"), at("17:40:00"), at("17:50:00"), at("18:00:00")]);
    assert_eq!(bench.count(Verdict::Missed), 31);
    assert_eq!(bench.running.len(), 1, "twelve a minute is one every five seconds");
    bench.pass_until(at("18:05:04.999999"));
    assert_eq!(bench.running.len(), 1);
    bench.pass_until(at("18:05:20"));
    assert_eq!(bench.running.len(), 5);
    let narrow = away(rule(CatchUpMode::All, 5, 1500, 12), Overlap::Allow, "18:05:00");
    assert_eq!(replayed(&narrow), [at("17:40:00"), at("17:50:00"), at("18:00:00")], "25 minutes");
}

#[test]
fn a_short_absence_is_no_miss() {
    let mut bench = away(rule(CatchUpMode::None, 100, 86_400, 60), Overlap::Allow, "12:10:45");
    assert_eq!(bench.running.len(), 1);
    assert_eq!((bench.count(Verdict::Fired), bench.count(Verdict::Missed)), (2, 0));
    bench.pass_until(at("12:20:00"));
    assert_eq!(bench.count(Verdict::Fired), 3);
}

#[test]
fn runs_that_must_not_meet_are_made_up_for_one_after_the_other() {
    for overlap in [Overlap::Skip, Overlap::QueueOne, Overlap::QueueAll] {
        let mut bench = away(rule(CatchUpMode::All, 3, 86_400, 12), overlap, "18:05:00");
        assert_eq!((bench.running.len(), bench.count(Verdict::Queued)), (1, 2), "{overlap:?}");
        bench.finish(&succeeded());
        assert_eq!(bench.running.len(), 0, "not so soon after the first: {overlap:?}");
        bench.pass_until(at("18:05:05"));
        assert_eq!(bench.running.len(), 1, "{overlap:?}");
        bench.finish(&succeeded());
        bench.pass_until(at("18:05:10"));
        bench.finish(&succeeded());
        assert_eq!(replayed(&bench).len(), 3, "{overlap:?}");
        assert_eq!(bench.count(Verdict::Queued), 0, "{overlap:?}");
    }
}

#[test]
fn a_long_absence_does_not_fill_the_ledger() {
    let every_second = ScheduleSpec { catch_up: rule(CatchUpMode::Last, 1, 86_400, 60), ..spec("* * * * * *") };
    let mut bench = Bench::new(at("00:00:00.5"));
    let id = bench.create(&every_second);
    bench.pass_until(at("00:00:02.5"));
    bench.take_over(id, &every_second, at("23:00:02.5"));
    bench.pass_until(at("23:00:02.6"));
    let stretches: Vec<&OccurrenceRow> = bench.ledger.values().filter(|row| row.marks.has(Marks::STRETCH)).collect();
    assert!(stretches.iter().all(|row| row.count == 1000));
    assert!((75..85).contains(&stretches.len()), "{}", stretches.len());
    let missed: u32 = bench.ledger.values().filter(|row| row.verdict == Verdict::Missed).map(|row| row.count).sum();
    // All seconds of 23 hours, but for the last one, which is late, and the one that ran after all.
    assert_eq!(missed, 23 * 3600 - 1 - 1);
    assert!(bench.ledger.len() < 2200, "{}", bench.ledger.len());
}

#[test]
fn the_budget_holds_however_much_was_missed() {
    // Two days of seconds are more than one turn looks at.
    let every_second = ScheduleSpec { catch_up: rule(CatchUpMode::All, 7, 86_400, 600), ..spec("* * * * * *") };
    let mut bench = Bench::new(at("00:00:00.5"));
    let id = bench.create(&every_second);
    bench.pass_until(at("00:00:02.5"));
    bench.take_over(id, &every_second, at("23:00:02.5") + secs(86_400));
    bench.pass_until(at("23:00:02.6") + secs(86_400));
    assert_eq!(replayed(&bench).len(), 7);
    let missed: u32 = bench.ledger.values().filter(|row| row.verdict == Verdict::Missed).map(|row| row.count).sum();
    assert_eq!(missed, 47 * 3600 - 1 - 7);
}

/// More than an hour of seconds fills a turn; the rest comes in the next, when one more is a minute late.
fn behind_by_more_than_a_turn(rule: CatchUp) -> Bench {
    let every_second = ScheduleSpec { catch_up: rule, missed_after: Some(secs(60)), ..spec("* * * * * *") };
    let mut bench = Bench::new(at("00:00:00.5"));
    let id = bench.create(&every_second);
    bench.pass_until(at("00:00:02.5"));
    bench.take_over_quietly(id, &every_second, at("02:00:02.9999"));
    bench.now = at("02:00:03.0003");
    bench.settle();
    bench
}

#[test]
fn what_turns_out_to_be_missed_in_the_next_turn_shares_the_budget() {
    for (mode, max) in [(CatchUpMode::Last, 1), (CatchUpMode::All, 7)] {
        let bench = behind_by_more_than_a_turn(rule(mode, max, 86_400, 600));
        assert_eq!(bench.ledger[&at("01:59:03")].verdict, Verdict::Missed);
        assert_eq!(replayed(&bench).len(), max as usize);
        assert_eq!(replayed(&bench).last(), Some(&at("01:59:02")));
    }
}

#[test]
fn what_is_left_of_a_budget_goes_to_what_turns_out_to_be_missed_at_its_pace() {
    let bench = behind_by_more_than_a_turn(rule(CatchUpMode::All, 10_000, 86_400, 6000));
    let due_at = |text: &str| bench.ledger[&at(text)].job.unwrap().due_at();
    assert_eq!(due_at("01:59:03"), due_at("01:59:02") + Span::from_millis(10));
}

#[test]
fn what_turns_out_to_be_missed_while_runs_take_turns_shares_the_budget() {
    for overlap in [Overlap::Skip, Overlap::QueueAll, Overlap::CancelPrevious] {
        let rule = rule(CatchUpMode::Last, 1, 86_400, 600);
        let every_second = ScheduleSpec { catch_up: rule, overlap, ..spec("* * * * * *") };
        let mut bench = Bench::new(at("12:00:00.5"));
        let id = bench.create(&every_second);
        bench.pass_until(at("12:00:02.5"));
        bench.finish(&succeeded());
        bench.take_over_quietly(id, &every_second, at("12:02:02.9"));
        // Each verdict takes the store a second.
        for _ in 0..10 {
            let Some(batch) = bench.owner.take_batch(bench.now) else { break };
            bench.now = bench.now + secs(1);
            let void = bench.store(&batch);
            bench.owner.committed(batch.seq, &void, bench.now);
            bench.owner.tick(bench.now);
        }
        let chosen = bench.ledger.values().filter(|row| row.marks.has(Marks::REPLAYED)).count();
        assert_eq!(chosen, 1, "{overlap:?}");
    }
}

#[test]
fn what_is_missed_while_others_are_made_up_for_waits_for_its_turn() {
    let mut bench = away(rule(CatchUpMode::All, 100, 86_400, 1), Overlap::Allow, "18:05:00");
    let due_at = |bench: &Bench, text: &str| bench.ledger[&at(text)].job.unwrap().due_at();
    assert_eq!(due_at(&bench, "18:00:00"), at("18:40:00"), "36 times, one a minute");
    bench.pass_until(at("18:06:00"));
    bench.now = at("18:25:30");
    bench.settle();
    assert_eq!(replayed(&bench).len(), 38);
    assert_eq!(due_at(&bench, "18:10:00"), at("18:41:00"));
    assert_eq!(due_at(&bench, "18:20:00"), at("18:42:00"));
}

#[test]
fn one_that_pauses_itself_while_it_is_far_behind_loses_no_time() {
    let every_second = ScheduleSpec {
        pause_after_failures: Some(1),
        catch_up: rule(CatchUpMode::None, 1, 86_400, 60),
        ..spec("* * * * * *")
    };
    let mut bench = Bench::new(at("12:00:00.5"));
    let id = bench.create(&every_second);
    bench.pass_until(at("12:00:02.5"));
    // The machine was suspended; that a run failed is heard before anything else is done.
    bench.now = at("13:00:02.5");
    let worker = WorkerId::new(Timestamp::EPOCH, 1);
    let report = |(id, attempt)| Report { id, attempt, outcome: failed(), timed_out: false, details: None };
    let reports = bench.running.drain(..1).map(report).collect();
    bench.owner.handle(Event::Outcomes { worker, reports }, bench.now);
    let batch = bench.owner.take_batch(bench.now).expect("the outcome is written");
    let void = bench.store(&batch);
    bench.owner.committed(batch.seq, &void, bench.now);
    bench.pass_until(at("13:00:04.5"));
    assert!(bench.states[&id].pause.is_some());
    let counted: u32 = bench.ledger.values().filter(|row| row.at <= at("13:00:02.5")).map(|row| row.count).sum();
    assert_eq!(counted, 3602);
    assert_eq!(bench.ledger[&at("13:00:02")].verdict, Verdict::Fired, "it came before the pause");
    assert_eq!(bench.ledger[&at("13:00:03")].verdict, Verdict::SkippedPaused);
}

fn notices(bench: &Bench) -> Vec<crate::notice::Notice> {
    bench.writes.iter().filter_map(Write::notice).cloned().collect()
}

#[test]
fn what_was_missed_is_told_with_its_verdict_and_what_runs_late_is_told_then() {
    use crate::notice::NoticeKind;
    let mut bench = away(rule(CatchUpMode::Last, 100, 86_400, 60), Overlap::Allow, "18:05:00");
    let told = notices(&bench);
    assert_eq!(told.len(), 35);
    assert!(told.iter().all(|notice| notice.kind == NoticeKind::Missed && notice.count == 1));
    assert_eq!(told[0].planned.map(|(_, at)| at), Some(at("12:10:00")));
    bench.pass_until(at("18:05:03"));
    assert_eq!(notices(&bench).len(), 35, "nobody wants to know what is late");
}

#[test]
fn a_replayed_run_is_late_by_its_own_time() {
    use crate::notice::NoticeKind;
    use crate::shard::event::Watch;
    let spec = ScheduleSpec { late_after: Some(secs(30)), ..spec("*/10 * * * *") };
    let mut bench = Bench::new(at("11:55:00"));
    let id = bench.create(&spec);
    bench.pass_until(at("12:05:00"));
    bench.take_over(id, &spec, at("18:05:00"));
    // The schedule's own objective counts, not what rules say.
    bench.owner.handle(Event::Watch(Watch { late_after: vec![secs(86_400)], ..Watch::default() }), bench.now);
    bench.pass_until(at("18:05:03"));
    let late: Vec<_> = notices(&bench).into_iter().filter(|notice| notice.kind == NoticeKind::Late).collect();
    let [late] = &late[..] else { panic!("{late:?}") };
    assert_eq!((late.planned, late.lateness), (Some((id, at("18:00:00"))), Some(secs(300))));
}
