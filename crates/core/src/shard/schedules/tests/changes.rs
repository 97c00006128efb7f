//! What people do to schedules.

use super::*;
use crate::NamespaceId;
use crate::schedule::Marks;

fn bench() -> (Bench, ScheduleId) {
    let mut bench = Bench::new(at("11:59:30"));
    let id = bench.create(&spec("* * * * *"));
    bench.pass_until(at("12:00:30"));
    (bench, id)
}

const RUN_NOW: ScheduleCommand = ScheduleCommand::RunNow { overlap: None };

fn done(revision: u32) -> ScheduleReply {
    ScheduleReply::Done { revision }
}

#[test]
fn a_pause_holds_until_it_is_resumed() {
    let (mut bench, id) = bench();
    assert_eq!(bench.ask(id, ScheduleCommand::Pause { note: Some("holiday".into()) }), done(1));
    bench.pass_until(at("12:02:30"));
    assert_eq!(bench.ask(id, ScheduleCommand::Resume { note: None }), done(1));
    bench.pass_until(at("12:03:30"));
    let verdicts: Vec<Verdict> = bench.verdicts().into_iter().map(|(_, verdict)| verdict).collect();
    assert_eq!(verdicts, [Verdict::Fired, Verdict::SkippedPaused, Verdict::SkippedPaused, Verdict::Fired]);
}

#[test]
fn the_next_times_are_skipped_on_request() {
    let (mut bench, id) = bench();
    let skip = ScheduleCommand::SkipNext { count: 2 };
    assert_eq!(bench.ask(id, skip.clone()), ScheduleReply::Skipping(at("12:02:00")));
    assert_eq!(bench.ask(id, skip), ScheduleReply::Skipping(at("12:04:00")), "asked twice, two more");
    bench.pass_until(at("12:05:30"));
    assert_eq!((bench.count(Verdict::SkippedByRequest), bench.count(Verdict::Fired)), (4, 2));
}

#[test]
fn a_run_beside_the_plan_has_a_row_of_its_own() {
    let (mut bench, id) = bench();
    bench.running.clear();
    let mut jobs = Vec::new();
    for _ in 0..3 {
        let ScheduleReply::Fired(job) = bench.ask(id, RUN_NOW) else { panic!("it fires") };
        jobs.push(job);
    }
    let mut running: Vec<JobId> = bench.running.iter().map(|(job, _)| *job).collect();
    running.sort_unstable();
    jobs.sort_unstable();
    assert_eq!(running, jobs);
    assert_eq!(bench.ledger.values().filter(|row| row.marks.has(Marks::MANUAL)).count(), 3);
}

#[test]
fn an_edit_counts_from_its_moment_on() {
    let (mut bench, id) = bench();
    let hourly = spec("30 * * * *");
    let edit = Box::new(bench.edit(&hourly));
    let made = Some(bench.made(&hourly));
    bench.tell(id, ScheduleCommand::Edit { revision: Some(9), edit: edit.clone() }, made.clone());
    assert_eq!(bench.replies.pop(), Some(ScheduleReply::Conflict { revision: 1 }));
    bench.tell(id, ScheduleCommand::Edit { revision: Some(1), edit }, made);
    assert_eq!(bench.replies.pop(), Some(done(2)));
    assert_eq!(bench.states[&id].since, at("12:00:30"));
    bench.pass_until(at("13:00:00"));
    assert_eq!(bench.verdicts(), [(at("12:00:00"), Verdict::Fired), (at("12:30:00"), Verdict::Fired)]);
}

#[test]
fn a_schedule_is_deleted_only_at_the_expected_revision() {
    let (mut bench, id) = bench();
    let delete = |revision| ScheduleCommand::DeleteRevision { revision };
    assert_eq!(bench.ask(id, delete(2)), ScheduleReply::Conflict { revision: 1 });
    let hourly = spec("0 * * * *");
    let (edit, made) = (Box::new(bench.edit(&hourly)), Some(bench.made(&hourly)));
    bench.tell(id, ScheduleCommand::Edit { revision: None, edit }, made);
    assert_eq!(bench.replies.pop(), Some(done(2)));
    assert_eq!(bench.ask(id, delete(1)), ScheduleReply::Conflict { revision: 2 });
    assert_eq!(bench.ask(id, delete(2)), done(2));
    assert_eq!(bench.ask(id, delete(2)), ScheduleReply::NotFound);
}

#[test]
fn an_edit_keeps_what_is_to_be_skipped() {
    let (mut bench, id) = bench();
    assert_eq!(bench.ask(id, ScheduleCommand::SkipNext { count: 4 }), ScheduleReply::Skipping(at("12:04:00")));
    let same = spec("* * * * *");
    let (edit, made) = (Box::new(bench.edit(&same)), Some(bench.made(&same)));
    bench.tell(id, ScheduleCommand::Edit { revision: None, edit }, made);
    assert_eq!(bench.replies.pop(), Some(done(2)));
    assert_eq!(bench.states[&id].skip_until, Some(at("12:04:00")));
    bench.pass_until(at("12:05:30"));
    assert_eq!((bench.count(Verdict::SkippedByRequest), bench.count(Verdict::Fired)), (4, 2));
}

#[test]
fn a_new_definition_waits_until_all_before_it_is_on_record() {
    let (mut bench, id) = bench();
    bench.now = at("12:01:00");
    bench.owner.tick(bench.now);
    let verdict = bench.owner.take_batch(bench.now).expect("the minute is decided about");
    let event = Event::Ask {
        token: Token(1),
        ask: Ask::Schedule { id, command: ScheduleCommand::Delete, who: "me".to_owned() },
        made: None,
    };
    bench.owner.handle(event, bench.now);
    bench.owner.tick(bench.now);
    assert!(bench.owner.take_batch(bench.now).is_none(), "the verdict may yet fail");
    let void = bench.store(&verdict);
    bench.owner.committed(verdict.seq, &void, bench.now);
    bench.settle();
    assert_eq!(bench.replies.pop(), Some(done(1)));
    assert!(bench.writes.iter().any(|write| matches!(write, Write::Schedule(ScheduleWrite::Drop { .. }))));
    assert_eq!(bench.ask(id, RUN_NOW), ScheduleReply::NotFound);
}

#[test]
fn a_time_that_waits_out_its_jitter_has_a_verdict_when_the_definition_changes() {
    let mut late = spec("0 * * * *");
    late.when.jitter = Some(jiff::SignedDuration::from_mins(55));
    let mut bench = Bench::new(at("11:59:30"));
    let id = bench.create(&late);
    bench.pass_until(at("12:00:01"));
    assert!(bench.ledger.is_empty(), "its slot is later");
    let other = spec("30 13 * * *");
    let (edit, made) = (Box::new(bench.edit(&other)), Some(bench.made(&other)));
    bench.tell(id, ScheduleCommand::Edit { revision: None, edit }, made);
    assert_eq!(bench.replies.pop(), Some(done(2)));
    assert_eq!(bench.verdicts(), [(at("12:00:00"), Verdict::SkippedByRequest)]);
    bench.pass_until(at("13:30:00"));
    assert_eq!(bench.verdicts().len(), 2);
}

#[test]
fn a_creation_that_is_asked_for_again_is_one() {
    let (mut bench, id) = bench();
    let every_minute = spec("* * * * *");
    let new =
        NewSchedule { namespace: NamespaceId::DEFAULT, id, name: EVERY.to_owned(), edit: bench.edit(&every_minute) };
    let made = Some(bench.made(&every_minute));
    bench.tell(id, ScheduleCommand::Create(Box::new(new)), made);
    assert_eq!(bench.replies.pop(), Some(done(1)));
    assert_eq!(bench.writes.iter().filter(|write| matches!(write, Write::Schedule(ScheduleWrite::Add(_)))).count(), 1);
}

#[test]
fn edits_of_many_schedules_share_a_batch() {
    let (mut bench, first) = bench();
    let every_minute = spec("* * * * *");
    let mut ids = vec![first];
    for number in 2..50 {
        let id = ScheduleId::new(bench.now, SHARD, number);
        let new = NewSchedule {
            namespace: NamespaceId::DEFAULT,
            id,
            name: format!("{number}"),
            edit: bench.edit(&every_minute),
        };
        let made = Some(bench.made(&every_minute));
        bench.tell(id, ScheduleCommand::Create(Box::new(new)), made);
        ids.push(id);
    }
    for &id in ids.iter().chain(&ids[..1]) {
        let command = ScheduleCommand::Edit { revision: None, edit: Box::new(bench.edit(&every_minute)) };
        let made = Some(bench.made(&every_minute));
        bench.owner.handle(
            Event::Ask { token: Token(1), ask: Ask::Schedule { id, command, who: "me".to_owned() }, made },
            bench.now,
        );
    }
    let mut batches = Vec::new();
    while let Some(batch) = bench.owner.take_batch(bench.now) {
        batches.push(batch.writes.len());
        let void = bench.store(&batch);
        bench.owner.committed(batch.seq, &void, bench.now);
    }
    assert_eq!(batches, [49, 1], "the second edit of the first one has to follow");
}

#[test]
fn a_skip_looks_at_so_many_times_and_no_more() {
    let mut closed = spec("* * * * *");
    closed.calendars.include = vec!["past".to_owned()];
    let mut bench = Bench::new(at("11:59:30"));
    let dates = ["1999-01-01".parse().unwrap()].into();
    let past = punctual_recurrence::Calendar { name: "past".to_owned(), dates };
    let calendars = BTreeMap::from([("past".to_owned(), Arc::new(past))]);
    let plan = Arc::new(Plan::new(closed.clone(), &calendars, 0).unwrap());
    let id = ScheduleId::new(bench.now, SHARD, 1);
    let new = NewSchedule { namespace: NamespaceId::DEFAULT, id, name: EVERY.to_owned(), edit: bench.edit(&closed) };
    let made = Made { plan, task: Arc::clone(&bench.task), calendars: 0 };
    bench.tell(id, ScheduleCommand::Create(Box::new(new)), Some(made));
    bench.replies.clear();
    let reply = bench.ask(id, ScheduleCommand::SkipNext { count: 1 });
    assert!(matches!(reply, ScheduleReply::Refused(_)), "{reply:?}");
}

#[test]
fn what_a_former_owner_decided_is_not_run_again() {
    let (mut bench, id) = bench();
    bench.pass_until(at("12:01:00"));
    // As if the server had died before it wrote the last watermark.
    bench.watermark = at("12:00:00");
    bench.running.clear();
    bench.take_over(id, &spec("* * * * *"), at("12:01:20"));
    assert!(bench.running.is_empty());
    assert_eq!(bench.verdicts().len(), 2);
    bench.pass_until(at("12:02:00"));
    assert_eq!(bench.running.len(), 1);
}

#[test]
fn a_definition_does_not_starve_while_the_store_is_slower_than_the_schedule() {
    let mut bench = Bench::new(at("12:00:00.5"));
    let id = bench.create(&spec("* * * * * *"));
    bench.pass_until(at("12:00:02.5"));
    let edited = ScheduleCommand::Edit { revision: None, edit: Box::new(bench.edit(&spec("*/5 * * * * *"))) };
    let made = Some(bench.made(&spec("*/5 * * * * *")));
    let event =
        |command, made| Event::Ask { token: Token(1), ask: Ask::Schedule { id, command, who: "me".to_owned() }, made };
    // The verdict of the third second needs three seconds to be durable, and so does whatever is written then.
    bench.now = at("12:00:03");
    bench.owner.tick(bench.now);
    let slow = bench.owner.take_batch(bench.now).expect("a verdict");
    bench.now = at("12:00:03.5");
    bench.owner.handle(event(edited, made), bench.now);
    bench.owner.handle(event(ScheduleCommand::Pause { note: None }, None), bench.now);
    bench.now = at("12:00:06.5");
    bench.owner.tick(bench.now);
    let void = bench.store(&slow);
    bench.owner.committed(slow.seq, &void, bench.now);
    let next = bench.owner.take_batch(bench.now).expect("the edit");
    let since = next.writes.iter().find_map(|write| match write {
        Write::Schedule(ScheduleWrite::Edit { state, .. }) => Some(state.since),
        _ => None,
    });
    assert_eq!(since, Some(at("12:00:03.5")), "it counts from when it was asked for: {:?}", next.writes);
    let void = bench.store(&next);
    bench.owner.committed(next.seq, &void, bench.now);
    bench.settle();
    assert_eq!(bench.replies, [done(2), done(2)], "what was asked for after it followed it");
    bench.pass_until(at("12:00:11"));
    let seconds = ["12:00:01", "12:00:02", "12:00:03", "12:00:05", "12:00:10"].map(at);
    assert_eq!(bench.ledger.keys().copied().collect::<Vec<_>>(), seconds);
    assert_eq!(bench.ledger[&at("12:00:05")].verdict, Verdict::Fired, "it came before the pause counted");
    assert_eq!(bench.ledger[&at("12:00:10")].verdict, Verdict::SkippedPaused);
}

#[test]
fn nothing_is_decided_by_what_is_not_durable() {
    let (mut bench, id) = bench();
    let pause =
        |command| Event::Ask { token: Token(1), ask: Ask::Schedule { id, command, who: "me".to_owned() }, made: None };
    bench.owner.handle(pause(ScheduleCommand::Pause { note: None }), bench.now);
    let lost = bench.owner.take_batch(bench.now).expect("the pause");
    bench.now = at("12:01:00");
    bench.owner.tick(bench.now);
    assert!(
        bench.owner.take_batch(bench.now).is_none(),
        "the pause may yet fail, and this would say that it was there"
    );
    let void = bench.store(&lost);
    bench.owner.committed(lost.seq, &void, bench.now);
    bench.settle();
    assert_eq!(bench.ledger[&at("12:01:00")].verdict, Verdict::SkippedPaused);
}

#[test]
fn calendars_count_from_the_first_time_that_they_are_told_of() {
    let mut bench = Bench::new(at("12:00:00.5"));
    let (every_second, rarely) = (spec("* * * * * *"), spec("*/5 * * * * *"));
    let id = bench.create(&every_second);
    bench.now = at("12:00:01");
    bench.owner.tick(bench.now);
    let slow = bench.owner.take_batch(bench.now).expect("a verdict");
    // Told three times, in case it came too early, while that verdict is on its way.
    for told in ["12:00:02.5", "12:00:03.5", "12:00:04.5"] {
        bench.now = at(told);
        let rows = vec![bench.loaded(id, &rarely)];
        bench.owner.handle(Event::Replanned { rows, calendars: 1 }, bench.now);
    }
    bench.now = at("12:00:08.5");
    let void = bench.store(&slow);
    bench.owner.committed(slow.seq, &void, bench.now);
    bench.settle();
    let seconds = ["12:00:01", "12:00:02", "12:00:05"].map(at);
    assert_eq!(bench.ledger.keys().copied().collect::<Vec<_>>(), seconds);
}

/// Every minute, but for the days of a calendar.
fn with_calendar(bench: &Bench, seed: u64, calendars: u32) -> (ScheduleSpec, Made) {
    let mut spec = spec("* * * * *");
    spec.calendars.exclude = vec!["closed".to_owned()];
    let closed = punctual_recurrence::Calendar { name: "closed".to_owned(), dates: [].into() };
    let all = BTreeMap::from([("closed".to_owned(), Arc::new(closed))]);
    let plan = Arc::new(Plan::new(spec.clone(), &all, seed).unwrap());
    (spec, Made { plan, task: Arc::clone(&bench.task), calendars })
}

#[test]
fn a_schedule_that_was_on_its_way_when_calendars_changed_is_told_of() {
    let mut bench = Bench::new(at("11:59:30"));
    let (spec, made) = with_calendar(&bench, seed_of(EVERY), 4);
    let id = ScheduleId::new(bench.now, SHARD, 1);
    let new = NewSchedule { namespace: NamespaceId::DEFAULT, id, name: EVERY.to_owned(), edit: bench.edit(&spec) };
    let event =
        |command, made| Event::Ask { token: Token(1), ask: Ask::Schedule { id, command, who: "me".to_owned() }, made };
    bench.owner.handle(event(ScheduleCommand::Create(Box::new(new)), Some(made.clone())), bench.now);
    let missed = |bench: &mut Bench| bench.owner.take_effects().calendars_missed_since;
    // The store does not know it yet, so it is not among those that are told.
    bench.owner.handle(Event::Replanned { rows: vec![], calendars: 5 }, bench.now);
    let batch = bench.owner.take_batch(bench.now).expect("the creation");
    let void = bench.store(&batch);
    assert_eq!(missed(&mut bench), None, "it would be too early again");
    bench.owner.committed(batch.seq, &void, bench.now);
    assert_eq!(missed(&mut bench), Some(4));

    let edit = Box::new(bench.edit(&spec));
    let (_, made) = with_calendar(&bench, seed_of(EVERY), 5);
    bench.owner.handle(event(ScheduleCommand::Edit { revision: None, edit }, Some(made)), bench.now);
    bench.owner.handle(Event::Replanned { rows: vec![], calendars: 6 }, bench.now);
    let batch = bench.owner.take_batch(bench.now).expect("the edit");
    let void = bench.store(&batch);
    assert_eq!(missed(&mut bench), None);
    bench.owner.committed(batch.seq, &void, bench.now);
    assert_eq!(missed(&mut bench), Some(5));
    bench.settle();
    let reply = bench.ask(id, ScheduleCommand::Pause { note: None });
    assert_eq!((reply, missed(&mut bench)), (done(2), None), "once is enough");
}
