use punctual_core::attempt::Ending;
use punctual_core::job::Input;
use punctual_core::schedule::{Marks, OccurrenceRow, ScheduleEdit, ScheduleRow, ScheduleState, Verdict};
use punctual_core::shard::write::{Decision, FiredJob, JobWrite, LateStart, Requeue, ScheduleWrite, Settle, Write};
use punctual_core::{Counters, JobId, JobRow, JobState, ShardId};
use punctual_store::{Applied, FoundRow, JobRecord, ScheduleFilter, Store};

use crate::fixture::*;
use crate::schedule_fixture::*;

async fn is_there(store: &dyn Store, decision: &Decision) -> bool {
    store.find(job_of(decision)).await.unwrap() != FoundRow::Absent
}

async fn scheduled<'a>(store: &'a dyn Store, row: &ScheduleRow) -> Owner<'a> {
    let mut owner = owner_of(store, &[]).await;
    owner.done(vec![add(row)]).await;
    owner
}

pub(super) async fn a_planned_time_that_fires_makes_its_job(store: &dyn Store) {
    let schedule = new_schedule(1, "backup", 2);
    let mut owner = scheduled(store, &schedule).await;
    let mut decision = tracked(fired(schedule.id, 60, 1));
    decision.occurrence.slot = at(61);
    decision.occurrence.marks = Marks::SHIFTED.with(Marks::LATE);
    decision.occurrence.count = 2;
    decision.occurrence.reason = Some("after a gap".to_owned());
    let job = decision.job.as_mut().unwrap();
    job.priority = priority(4);
    let source = job.source;
    owner.done(vec![decide(&decision)]).await;
    let row = JobRow {
        key: key_of(&decision),
        task: task_id(1),
        priority: priority(4),
        counters: Counters::NEW,
        submitted_at: decision.occurrence.decided_at,
        tracing_id: None,
        source: Some(Box::new(source)),
        node: None,
        member: None,
        give_backs: None,
        input: Input::None,
    };
    assert_eq!(store.load(load_all(2)).await.unwrap().rows, std::slice::from_ref(&row));
    assert_eq!(store.find(row.key.id).await.unwrap(), FoundRow::Hot(row));
    assert_eq!(ledger(store, schedule.id).await, [decision.occurrence]);
}

pub(super) async fn every_verdict_is_shown_as_it_was_decided(store: &dyn Store) {
    let schedule = new_schedule(1, "backup", 2);
    let mut owner = scheduled(store, &schedule).await;
    let mut expected = Vec::new();
    for (verdict, n) in Verdict::ALL.into_iter().zip(1..) {
        expected.push(OccurrenceRow {
            marks: Marks(1 << n | 1 << 15),
            count: u32::MAX - n,
            reason: (n % 2 == 0).then(|| format!("reason {n}")),
            // Which job it was, it says; whether there is one, the decision does.
            job: (n % 3 == 0).then(|| job_id(u64::from(n), 60, 2)),
            ..occurrence(schedule.id, 60 * i64::from(n), verdict)
        });
    }
    let write = |row: &OccurrenceRow| decide(&Decision { occurrence: row.clone(), job: None, notice: None });
    owner.done(expected.iter().map(write).collect()).await;
    assert_eq!(ledger(store, schedule.id).await, expected);
    assert_eq!(store.load(load_all(2)).await.unwrap().rows, [], "none of them made a job");
}

pub(super) async fn a_late_start_is_put_on_record_with_its_planned_time(store: &dyn Store) {
    let schedule = new_schedule(1, "backup", 2);
    let mut owner = scheduled(store, &schedule).await;
    let decisions: Vec<_> = (1..4).map(|n| fired(schedule.id, 60 * n, n as u64)).collect();
    owner.done(decisions.iter().map(decide).collect()).await;
    let late = |place: usize, secs: i64, marks: Marks| {
        let row = &decisions[place].occurrence;
        LateStart { schedule: row.schedule, at: row.at, job: row.job.unwrap(), started_at: at(secs), marks }
    };
    // One starts twice, because it was given back in between.
    let starts = [late(0, 70, Marks::NONE), late(1, 200, Marks::LATE), late(0, 190, Marks::LATE)];
    owner.done(starts.into_iter().map(|late| ScheduleWrite::StartedLate(late).into()).collect()).await;
    let other = LateStart { job: decisions[0].occurrence.job.unwrap(), ..late(2, 300, Marks::LATE) };
    let gone = LateStart { at: at(7), ..late(2, 300, Marks::LATE) };
    owner
        .done(vec![
            Write::Schedule(ScheduleWrite::StartedLate(other)),
            Write::Schedule(ScheduleWrite::StartedLate(gone)),
        ])
        .await;
    let marked = |place: usize, secs: i64| OccurrenceRow {
        started_at: Some(at(secs)),
        marks: Marks::LATE,
        ..decisions[place].occurrence.clone()
    };
    assert_eq!(ledger(store, schedule.id).await, [marked(0, 190), marked(1, 200), decisions[2].occurrence.clone()]);
}

pub(super) async fn a_planned_time_gets_one_verdict(store: &dyn Store) {
    let schedule = new_schedule(1, "backup", 2);
    let mut owner = scheduled(store, &schedule).await;
    let (first, second) = (fired(schedule.id, 60, 1), fired(schedule.id, 60, 2));
    owner.but_verdicts(vec![decide(&first), decide(&second)], &[&second]).await;
    assert!(is_there(store, &first).await);
    assert!(!is_there(store, &second).await, "not in the same batch");
    let next = fired(schedule.id, 120, 3);
    owner.but_verdicts(vec![decide(&second), decide(&next), watermark(2, 120)], &[&second]).await;
    assert!(!is_there(store, &second).await, "not in another batch");
    assert!(is_there(store, &next).await, "what is new applies");
    let skipped = unfired(schedule.id, 60, Verdict::SkippedPaused);
    owner.but_verdicts(vec![decide(&skipped)], &[&skipped]).await;
    assert_eq!(ledger(store, schedule.id).await, [first.occurrence, next.occurrence]);
    assert_eq!(store.shard_schedules(ShardId(2)).await.unwrap().watermark, at(120));
}

pub(super) async fn a_planned_time_gets_one_verdict_from_all_its_owners(store: &dyn Store) {
    let schedule = new_schedule(1, "backup", 2);
    let mut former = scheduled(store, &schedule).await;
    let first = fired(schedule.id, 60, 1);
    former.done(vec![decide(&first)]).await;
    // The next owner did not see the watermark, and decides again.
    let mut owner = Owner::new(store, 2).await;
    let again = fired(schedule.id, 60, 2);
    owner.but_verdicts(vec![decide(&again)], &[&again]).await;
    // The job has ended, the schedule has gone and come back: it stays decided.
    owner.done(vec![succeed(key_of(&first), 1)]).await;
    owner.done(vec![drop_it(schedule.id, 70)]).await;
    owner.done(vec![add(&schedule)]).await;
    owner.but_verdicts(vec![decide(&again)], &[&again]).await;
    assert!(!is_there(store, &again).await);
    // What was decided by one that is no longer the owner does not count at all.
    let late = fired(schedule.id, 120, 3);
    assert_eq!(former.apply(vec![decide(&late)]).await.unwrap(), Applied::Fenced(vec![ShardId(2)]));
    assert!(!is_there(store, &late).await);
    owner.done(vec![decide(&fired(schedule.id, 120, 4))]).await;
}

pub(super) async fn schedules_may_fire_at_the_same_time(store: &dyn Store) {
    let (one, other) = (new_schedule(1, "one", 2), new_schedule(2, "other", 2));
    let elsewhere = new_schedule(1, "elsewhere", 3);
    let mut owner = scheduled(store, &one).await;
    let decisions = [fired(one.id, 60, 1), fired(other.id, 60, 2), fired(elsewhere.id, 60, 3)];
    let mut writes = vec![add(&other), add(&elsewhere)];
    writes.extend(decisions.iter().map(decide));
    owner.done(writes).await;
    for decision in &decisions {
        assert!(is_there(store, decision).await);
    }
}

pub(super) async fn the_input_of_a_schedule_is_copied_when_it_fires(store: &dyn Store) {
    let inputs = ["short".to_owned(), "long ".repeat(Input::INLINE_MAX), String::new()];
    let rows: Vec<_> = (0..)
        .zip(&inputs)
        .map(|(n, input)| ScheduleRow {
            edit: ScheduleEdit { input: Some(text(input)), ..edit(1) },
            ..new_schedule(n, &format!("schedule {n}"), 2)
        })
        .collect();
    let bare = new_schedule(9, "bare", 2);
    let mut owner = scheduled(store, &bare).await;
    owner.done(rows.iter().map(add).collect()).await;
    let decisions: Vec<_> = (1..).zip(&rows).map(|(n, row)| with_input(fired(row.id, 60, n))).collect();
    let without = [fired(rows[0].id, 120, 11), with_input(fired(bare.id, 120, 12))];
    owner.done(decisions.iter().chain(&without).map(decide).collect()).await;
    let copied = |store, decision: &Decision| input_of(store, job_of(decision));
    for (decision, input) in decisions.iter().zip(&inputs) {
        assert_eq!(copied(store, decision).await, Some(text(input)));
    }
    for decision in &without {
        assert_eq!(copied(store, decision).await, None);
    }
    // A job keeps what it was given; one that is made by the batch that edits gets the new one.
    let edited = ScheduleEdit { input: Some(text("new")), ..edit(1) };
    let next = with_input(fired(rows[0].id, 180, 13));
    owner.done(vec![edit_to(&rows[0], edited, 170), decide(&next)]).await;
    assert_eq!(copied(store, &decisions[0]).await, Some(text("short")));
    assert_eq!(copied(store, &next).await, Some(text("new")));
    // Of a schedule that is gone there is nothing to copy.
    let last = with_input(fired(rows[0].id, 240, 14));
    owner.done(vec![drop_it(rows[0].id, 230), decide(&last)]).await;
    assert_eq!(copied(store, &last).await, None);
}

async fn input_of(store: &dyn Store, id: JobId) -> Option<bytes::Bytes> {
    match store.job(id).await.unwrap() {
        Some(JobRecord::Hot { input, .. }) => input,
        other => panic!("{other:?}"),
    }
}

pub(super) async fn a_queued_time_is_released_once(store: &dyn Store) {
    let schedule =
        ScheduleRow { edit: ScheduleEdit { input: Some(text("in")), ..edit(1) }, ..new_schedule(1, "backup", 2) };
    let mut owner = scheduled(store, &schedule).await;
    let (absent, decided) = (fired(schedule.id, 60, 1), fired(schedule.id, 120, 2));
    owner.done(vec![decide(&unfired(schedule.id, 120, Verdict::Missed))]).await;
    owner.done(vec![decide(&unfired(schedule.id, 180, Verdict::Queued))]).await;
    owner.but_verdicts(vec![release(&absent), release(&decided)], &[&absent, &decided]).await;
    let mut released = with_input(fired(schedule.id, 180, 3));
    released.occurrence.decided_at = at(200);
    released.occurrence.reason = Some("it waited".to_owned());
    let again = fired(schedule.id, 180, 4);
    owner.but_verdicts(vec![release(&released), release(&again)], &[&again]).await;
    owner.but_verdicts(vec![release(&again), decide(&again)], &[&again, &again]).await;
    for made_no_job in [&absent, &decided, &again] {
        assert!(!is_there(store, made_no_job).await);
    }
    let missed = occurrence(schedule.id, 120, Verdict::Missed);
    assert_eq!(ledger(store, schedule.id).await, [missed, released.occurrence.clone()]);
    assert_eq!(input_of(store, job_of(&released)).await, Some(text("in")));
    assert_eq!(store.shard_schedules(ShardId(2)).await.unwrap().queued, []);
}

pub(super) async fn a_time_may_be_queued_and_released_in_one_batch(store: &dyn Store) {
    let schedule = new_schedule(1, "backup", 2);
    let mut owner = scheduled(store, &schedule).await;
    let queued = unfired(schedule.id, 60, Verdict::Queued);
    let released = tracked(fired(schedule.id, 60, 1));
    owner.done(vec![release(&released), decide(&queued)]).await;
    assert!(is_there(store, &released).await);
    assert_eq!(ledger(store, schedule.id).await, [released.occurrence]);
    // What was queued may be given up in the same batch.
    let queued = unfired(schedule.id, 120, Verdict::Queued);
    let given_up = unfired(schedule.id, 120, Verdict::SkippedByRequest);
    owner.done(vec![decide(&queued), release(&given_up)]).await;
    assert_eq!(ledger(store, schedule.id).await[1], given_up.occurrence);
}

pub(super) async fn a_job_may_live_in_the_batch_that_makes_it(store: &dyn Store) {
    let schedule = new_schedule(1, "backup", 2);
    let mut owner = scheduled(store, &schedule).await;
    let decisions: Vec<_> = (1..5).map(|n| fired(schedule.id, 60 * n, n as u64)).collect();
    let [started, settled, moved, waiting] = [0, 1, 2, 3].map(|place| key_of(&decisions[place]));
    let requeue = Requeue {
        key: moved,
        due_at: at(900),
        counters: Counters::NEW,
        give_backs: None,
        attempt: None,
        cancel: punctual_core::shard::write::CancelMark::None,
    };
    let mut writes = vec![
        start(started, 1),
        ended(settled, JobState::Cancelled, at(61)),
        Write::Job(JobWrite::Requeue(requeue)),
        Write::Job(JobWrite::RequestCancel { key: started }),
    ];
    writes.extend(decisions.iter().map(decide));
    owner.done(writes).await;
    let open = store.open_starts(ShardId(2)).await.unwrap().running;
    assert_eq!(open.iter().map(|(open, _)| open.start.key).collect::<Vec<_>>(), [started]);
    let found = store.find(settled.id).await.unwrap();
    assert!(matches!(found, FoundRow::Finished { state: JobState::Cancelled, .. }), "{found:?}");
    for (key, due_at) in [(moved, at(900)), (waiting, waiting.due_at)] {
        let found = store.find(key.id).await.unwrap();
        assert!(matches!(&found, FoundRow::Hot(row) if row.key.due_at == due_at && row.source.is_some()), "{found:?}");
    }
    // And after it, like any job.
    owner.done(vec![succeed(started, 1)]).await;
}

pub(super) async fn a_start_of_a_job_that_was_not_made_is_void(store: &dyn Store) {
    let schedule = new_schedule(1, "backup", 2);
    let mut owner = scheduled(store, &schedule).await;
    let (first, second) = (fired(schedule.id, 60, 1), fired(schedule.id, 60, 2));
    owner.done(vec![decide(&first)]).await;
    let applied = owner.apply(vec![decide(&second), start(key_of(&second), 1)]).await.unwrap();
    let Applied::Done { void, .. } = applied else { panic!("{applied:?}") };
    assert_eq!((void.jobs, void.occurrences), (vec![job_of(&second)], vec![(schedule.id, at(60))]));
}

pub(super) async fn a_decision_that_cannot_make_its_job_is_refused(store: &dyn Store) {
    let schedule = new_schedule(1, "backup", 2);
    let mut owner = scheduled(store, &schedule).await;
    let taken = fired(schedule.id, 60, 1);
    owner.done(vec![decide(&taken)]).await;
    let with = |secs, change: fn(FiredJob) -> FiredJob| {
        let good = fired(schedule.id, secs, 2);
        Decision { job: good.job.map(change), ..good }
    };
    let same_job = Decision { job: taken.job.clone(), ..fired(schedule.id, 120, 2) };
    let no_task = with(120, |job| FiredJob { task: task_id(9), ..job });
    let elsewhere = with(120, |job| FiredJob { id: job_id(2, 120, 1), ..job });
    for (bad, what) in [(same_job, "its id is taken"), (no_task, "no such task"), (elsewhere, "of another shard")] {
        owner.refused(vec![decide(&fired(schedule.id, 180, 3)), watermark(2, 180), decide(&bad)]).await;
        assert_eq!(ledger(store, schedule.id).await.len(), 1, "{what}");
    }
    assert_eq!(store.load(load_all(2)).await.unwrap().rows.len(), 1);
    assert_eq!(store.shard_schedules(ShardId(2)).await.unwrap().watermark, punctual_core::Timestamp::EPOCH);
    // Where the time has its verdict, the job does not matter any more.
    let void = Decision { job: taken.job.clone(), ..fired(schedule.id, 60, 2) };
    owner.but_verdicts(vec![decide(&void)], &[&void]).await;
}

pub(super) async fn runs_are_counted_by_verdicts_alone(store: &dyn Store) {
    let row = new_schedule(1, "limited", 2);
    let schedule = ScheduleRow { state: ScheduleState { runs: 7, ..row.state.clone() }, ..row };
    let mut owner = scheduled(store, &schedule).await;
    let runs = async || store.schedule(schedule.id).await.unwrap().unwrap().state.runs;
    let (first, second) = (counted(fired(schedule.id, 60, 1)), counted(fired(schedule.id, 120, 2)));
    owner.done(vec![decide(&first), decide(&second), decide(&fired(schedule.id, 180, 3))]).await;
    assert_eq!(runs().await, 9, "two of the three count");
    let again = counted(fired(schedule.id, 60, 4));
    owner.but_verdicts(vec![decide(&again)], &[&again]).await;
    assert_eq!(runs().await, 9, "what is void does not");
    let queued = unfired(schedule.id, 240, Verdict::Queued);
    let released = counted(fired(schedule.id, 240, 5));
    owner.done(vec![decide(&queued)]).await;
    assert_eq!(runs().await, 9, "nor what waits");
    owner.but_verdicts(vec![release(&released), release(&again)], &[&again]).await;
    assert_eq!(runs().await, 10);
    // Who changes something else may know an older number.
    let state = ScheduleState { runs: 3, failures: 1, ..schedule.state.clone() };
    let set = Write::Schedule(ScheduleWrite::Set { id: schedule.id, state: state.clone(), change: None });
    owner.done(vec![set, decide(&counted(fired(schedule.id, 300, 6)))]).await;
    assert_eq!(runs().await, 11);
    owner.done(vec![edit_to(&ScheduleRow { state, ..schedule.clone() }, edit(9), 310)]).await;
    assert_eq!(runs().await, 11);
    let loaded = store.load_schedules(ShardId(2), None, 10).await.unwrap();
    assert_eq!((loaded[0].state.runs, loaded[0].state.failures, loaded[0].state.revision), (11, 1, 2));
    // Refused: nothing counts. Gone: nothing to count.
    let nobody = new_job(9, 10, 2);
    owner.refused(vec![decide(&counted(fired(schedule.id, 360, 7))), succeed(original(&nobody), 1)]).await;
    assert_eq!(runs().await, 11);
    owner.done(vec![drop_it(schedule.id, 350), decide(&counted(fired(schedule.id, 360, 8)))]).await;
}

pub(super) async fn the_last_success_of_a_schedule_is_the_latest_planned_time_that_succeeded(store: &dyn Store) {
    let schedule = new_schedule(1, "kept", 2);
    let mut owner = scheduled(store, &schedule).await;
    let last = async || store.schedule(schedule.id).await.unwrap().unwrap().state.last_success;
    let runs: Vec<Decision> = (1..=4).map(|n| fired(schedule.id, 60 * n as i64, n)).collect();
    owner.done(runs.iter().map(decide).collect()).await;
    assert_eq!(last().await, None);
    let ends = |run: &Decision, secs: i64| {
        let end = settled(key_of(run), 1, JobState::Succeeded, Ending::Succeeded);
        Write::Job(JobWrite::Settle(Settle { success_of: Some(Box::new((schedule.id, at(secs)))), ..end }))
    };
    // Two in one batch, the later first; then one of an earlier time.
    owner.done(vec![ends(&runs[2], 180), ends(&runs[1], 120)]).await;
    assert_eq!(last().await, Some(at(180)));
    owner.done(vec![ends(&runs[0], 60)]).await;
    assert_eq!(last().await, Some(at(180)), "a backfill of an earlier time does not move it");
    // Neither a change nor an edit does, whatever their author knows.
    let set = Write::Schedule(ScheduleWrite::Set { id: schedule.id, state: schedule.state.clone(), change: None });
    owner.done(vec![set, edit_to(&schedule, edit(9), 310)]).await;
    let loaded = store.load_schedules(ShardId(2), None, 10).await.unwrap();
    assert_eq!(loaded[0].state.last_success, Some(at(180)));
    let (listed, _) = store.list_schedules(ScheduleFilter::default(), None, 10).await.unwrap();
    assert_eq!(listed[0].state.last_success, Some(at(180)));
    owner.done(vec![drop_it(schedule.id, 350)]).await;
    owner.done(vec![ends(&runs[3], 240)]).await;
    assert_eq!(store.schedule(schedule.id).await.unwrap(), None);
}

pub(super) async fn the_watermark_never_goes_back(store: &dyn Store) {
    let mut owner = owner_of(store, &[]).await;
    let mark = async |shard| store.shard_schedules(ShardId(shard)).await.unwrap().watermark;
    assert_eq!(mark(1).await, punctual_core::Timestamp::EPOCH);
    owner.done(vec![watermark(1, 60), watermark(1, 90), watermark(1, 70), watermark(2, 10)]).await;
    assert_eq!((mark(1).await, mark(2).await), (at(90), at(10)), "the largest of a batch");
    owner.done(vec![watermark(1, 80), watermark(2, 20)]).await;
    assert_eq!((mark(1).await, mark(2).await), (at(90), at(20)));
    let mut next = Owner::new(store, 2).await;
    assert_eq!(mark(1).await, at(90), "the next owner finds it");
    next.done(vec![watermark(1, 91)]).await;
    store.release(server(2)).await.unwrap();
    assert_eq!((mark(0).await, mark(1).await), (punctual_core::Timestamp::EPOCH, at(91)));
}

pub(super) async fn watermarks_of_all_shards_are_shown(store: &dyn Store) {
    let mut owner = owner_of(store, &[]).await;
    assert_eq!(store.watermarks().await.unwrap(), []);
    owner.done(vec![watermark(3, 10), watermark(1, 90)]).await;
    assert_eq!(store.watermarks().await.unwrap(), [(ShardId(1), at(90)), (ShardId(3), at(10))]);
    owner.done(vec![watermark(1, 80), watermark(0, 5)]).await;
    store.release(server(1)).await.unwrap();
    let marks = [(ShardId(0), at(5)), (ShardId(1), at(90)), (ShardId(3), at(10))];
    assert_eq!(store.watermarks().await.unwrap(), marks, "whoever owns them");
}
