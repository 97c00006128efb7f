use std::sync::Arc;

use punctual_core::schedule::{ChangeKind, Pause, ScheduleChange, ScheduleEdit, ScheduleRow, ScheduleState, Verdict};
use punctual_core::shard::write::{ScheduleWrite, SharedBatch, Void, Write};
use punctual_core::{NamespaceId, ScheduleId, ShardId};
use punctual_store::{Applied, Store};

use crate::fixture::*;
use crate::schedule_fixture::*;

async fn shown(store: &dyn Store, id: ScheduleId) -> Option<ScheduleRow> {
    store.schedule(id).await.unwrap()
}

async fn changes(store: &dyn Store, id: ScheduleId) -> Vec<ScheduleChange> {
    store.schedule_changes(id, 100).await.unwrap()
}

fn set(id: ScheduleId, state: ScheduleState, change: Option<ScheduleChange>) -> Write {
    Write::Schedule(ScheduleWrite::Set { id, state, change })
}

fn without(schedules: Vec<ScheduleId>) -> Void {
    Void { schedules, ..Void::default() }
}

pub(super) async fn a_schedule_is_shown_as_it_was_added(store: &dyn Store) {
    let mut owner = owner_of(store, &[]).await;
    let plain = new_schedule(1, "plain", 0);
    let full = ScheduleRow {
        edit: ScheduleEdit {
            calendars: vec!["holidays".to_owned(), "ü \"days\"".to_owned()],
            priority: Some(priority(-7)),
            input: Some(text("{\"key\": \"\0\"}")),
            ..edit(5)
        },
        state: ScheduleState {
            revision: u32::MAX,
            since: at(5),
            pause: Some(Pause { by: by("carl", 9), note: Some("a note".to_owned()) }),
            skip_until: Some(at(77)),
            runs: u32::MAX,
            failures: u16::MAX,
            last_success: None,
        },
        changed: by("dora", 8),
        ..new_schedule(2, "full ü 'quoted' %_", 3)
    };
    let paused_without_a_note = ScheduleRow {
        edit: ScheduleEdit { input: Some(text("")), ..edit(1) },
        state: ScheduleState { pause: Some(Pause { by: by("", 9), note: None }), ..ScheduleState::new(at(1)) },
        ..new_schedule(3, "paused", 0)
    };
    owner.done(vec![add(&plain), add(&full), add(&paused_without_a_note)]).await;
    for row in [plain, full, paused_without_a_note] {
        assert_eq!(shown(store, row.id).await, Some(row.clone()));
        assert_eq!(changes(store, row.id).await, []);
    }
    assert_eq!(shown(store, schedule_id(9, 0)).await, None);
}

pub(super) async fn a_schedule_whose_name_is_taken_is_void_and_the_rest_applies(store: &dyn Store) {
    let mut owner = owner_of(store, &[]).await;
    let first = new_schedule(1, "backup", 0);
    owner.done(vec![add(&first)]).await;
    let (taken, other) = (new_schedule(2, "backup", 3), new_schedule(3, "Backup", 3));
    let early = ScheduleRow { edit: edit(7), ..new_schedule(4, "report", 1) };
    let late = new_schedule(5, "report", 2);
    let writes = vec![add(&taken), add(&other), add(&early), add(&late), watermark(3, 60)];
    owner.all_but(writes, without(vec![taken.id, late.id])).await;
    for row in [first, other, early] {
        assert_eq!(shown(store, row.id).await, Some(row));
    }
    assert_eq!(shown(store, taken.id).await, None);
    assert_eq!(shown(store, late.id).await, None, "the first of a batch has the name");
    assert_eq!(store.shard_schedules(ShardId(3)).await.unwrap().watermark, at(60));
}

pub(super) async fn a_schedule_that_is_there_is_not_added_again(store: &dyn Store) {
    let mut owner = owner_of(store, &[]).await;
    let first = new_schedule(1, "backup", 0);
    owner.done(vec![add(&first)]).await;
    let again = ScheduleRow { edit: edit(9), ..first.clone() };
    let renamed = ScheduleRow { name: "other".to_owned(), ..again.clone() };
    owner.all_but(vec![add(&again)], without(vec![first.id])).await;
    owner.all_but(vec![add(&renamed)], without(vec![first.id])).await;
    assert_eq!(shown(store, first.id).await, Some(first));
    assert_eq!(store.schedule_ids(NamespaceId::DEFAULT, vec!["other".to_owned()]).await.unwrap(), []);
}

pub(super) async fn a_name_is_free_in_the_batch_that_drops_its_schedule(store: &dyn Store) {
    let mut owner = owner_of(store, &[]).await;
    let (old, new) = (new_schedule(1, "backup", 0), new_schedule(2, "backup", 1));
    owner.done(vec![add(&old)]).await;
    owner.done(vec![add(&new), drop_it(old.id, 20)]).await;
    assert_eq!(shown(store, old.id).await, None);
    assert_eq!(shown(store, new.id).await, Some(new));
}

pub(super) async fn an_edit_replaces_the_definition_and_keeps_the_former_spec(store: &dyn Store) {
    let mut owner = owner_of(store, &[]).await;
    store.intern_tasks(vec![nameless_task(2)]).await.unwrap();
    let row = ScheduleRow {
        edit: ScheduleEdit { priority: Some(priority(3)), input: Some(text("old")), ..edit(1) },
        ..new_schedule(1, "backup", 2)
    };
    let state = ScheduleState { revision: 2, since: at(30), failures: 4, ..row.state.clone() };
    let edited = ScheduleEdit { task: task_id(2), calendars: vec!["holidays".to_owned()], ..edit(15) };
    let note = Some("less often".to_owned());
    let said = ScheduleChange { note, former_spec: Some(spec(99)), ..change(ChangeKind::Edited, 31) };
    owner.done(vec![add(&row)]).await;
    let write = Write::Schedule(ScheduleWrite::Edit {
        id: row.id,
        edit: Arc::new(edited.clone()),
        state: state.clone(),
        change: said.clone(),
    });
    owner.done(vec![write]).await;
    let expected = ScheduleRow { edit: edited, state, changed: by("bob", 31), ..row.clone() };
    assert_eq!(shown(store, row.id).await, Some(expected), "an input that is left out is gone");
    let kept = ScheduleChange { former_spec: Some(spec(1)), ..said };
    assert_eq!(changes(store, row.id).await, [kept], "the store knows what was there");
}

pub(super) async fn setting_a_schedule_leaves_its_definition(store: &dyn Store) {
    let mut owner = owner_of(store, &[]).await;
    let row = ScheduleRow {
        edit: ScheduleEdit { input: Some(text("in")), calendars: vec!["holidays".to_owned()], ..edit(1) },
        ..new_schedule(1, "backup", 2)
    };
    owner.done(vec![add(&row)]).await;
    let ran = |failures| ScheduleState { failures, ..row.state.clone() };
    owner.done(vec![set(row.id, ran(1), None), set(row.id, ran(2), None)]).await;
    let counted = ScheduleRow { state: ran(2), ..row.clone() };
    assert_eq!(shown(store, row.id).await, Some(counted), "the last one counts");
    assert_eq!(changes(store, row.id).await, [], "nobody asked for it");

    let pause = Pause { by: by("bob", 40), note: Some("on holiday".to_owned()) };
    let paused = ScheduleState { pause: Some(pause), skip_until: Some(at(90)), since: at(3), revision: 4, ..ran(2) };
    let said = change(ChangeKind::Paused, 40);
    let skipped = change(ChangeKind::Skipped, 39);
    owner
        .done(vec![
            set(row.id, ran(7), Some(skipped.clone())),
            set(row.id, paused.clone(), Some(said.clone())),
            set(row.id, ScheduleState { failures: 8, ..paused.clone() }, None),
        ])
        .await;
    let state = ScheduleState { failures: 8, ..paused };
    let expected = ScheduleRow { state, changed: by("bob", 40), ..row.clone() };
    assert_eq!(shown(store, row.id).await, Some(expected));
    assert_eq!(changes(store, row.id).await, [said, skipped]);

    owner.done(vec![set(row.id, row.state.clone(), Some(change(ChangeKind::Resumed, 50)))]).await;
    let resumed = ScheduleRow { changed: by("bob", 50), ..row.clone() };
    assert_eq!(shown(store, row.id).await, Some(resumed), "a pause and a skip end");
}

pub(super) async fn what_is_done_to_a_schedule_that_is_not_there_is_nothing(store: &dyn Store) {
    let mut owner = owner_of(store, &[]).await;
    let row = new_schedule(1, "ghost", 1);
    let paused = set(row.id, row.state.clone(), Some(change(ChangeKind::Paused, 10)));
    owner.done(vec![edit_to(&row, edit(2), 10), drop_it(row.id, 11), paused]).await;
    assert_eq!(shown(store, row.id).await, None);
    assert_eq!(changes(store, row.id).await, []);
}

pub(super) async fn a_dropped_schedule_is_gone_and_what_it_did_is_still_known(store: &dyn Store) {
    let mut owner = owner_of(store, &[]).await;
    let row = new_schedule(1, "backup", 1);
    let decision = fired(row.id, 60, 1);
    owner.done(vec![add(&row), decide(&decision)]).await;
    owner.done(vec![edit_to(&row, edit(2), 70)]).await;
    owner.done(vec![drop_it(row.id, 80)]).await;
    assert_eq!(shown(store, row.id).await, None);
    assert_eq!(store.schedule_ids(NamespaceId::DEFAULT, vec!["backup".to_owned()]).await.unwrap(), []);
    assert_eq!(store.load_schedules(ShardId(1), None, 10).await.unwrap(), []);
    let edited = ScheduleChange { former_spec: Some(spec(1)), ..change(ChangeKind::Edited, 70) };
    assert_eq!(changes(store, row.id).await, [change(ChangeKind::Deleted, 80), edited]);
    assert_eq!(ledger(store, row.id).await, std::slice::from_ref(&decision.occurrence));
    // The same id cannot fire for that time again, whatever becomes of it.
    owner.but_verdicts(vec![add(&row), decide(&fired(row.id, 60, 2))], &[&decision]).await;
}

pub(super) async fn changes_are_shown_the_latest_first(store: &dyn Store) {
    let mut owner = owner_of(store, &[]).await;
    let (row, other) = (new_schedule(1, "one", 1), new_schedule(2, "other", 1));
    owner.done(vec![add(&row), add(&other)]).await;
    let kinds = [ChangeKind::Paused, ChangeKind::Resumed, ChangeKind::Skipped, ChangeKind::Paused];
    // The first two at the same moment.
    let said: Vec<_> = kinds.into_iter().zip([10, 10, 20, 30]).map(|(kind, secs)| change(kind, secs)).collect();
    let write = |said: &ScheduleChange| set(row.id, row.state.clone(), Some(said.clone()));
    owner.done(vec![write(&said[0]), write(&said[1])]).await;
    owner.done(vec![set(other.id, other.state.clone(), Some(change(ChangeKind::Paused, 15)))]).await;
    owner.done(vec![write(&said[2])]).await;
    owner.done(vec![write(&said[3])]).await;
    let mut latest_first = said;
    latest_first.reverse();
    assert_eq!(changes(store, row.id).await, latest_first);
    assert_eq!(store.schedule_changes(row.id, 3).await.unwrap(), latest_first[..3]);
    assert_eq!(store.schedule_changes(row.id, 0).await.unwrap(), []);
}

pub(super) async fn a_schedule_of_an_unknown_task_is_refused(store: &dyn Store) {
    let mut owner = owner_of(store, &[]).await;
    let good = new_schedule(1, "good", 0);
    let nowhere = ScheduleEdit { task: task_id(9), ..edit(1) };
    let bad = ScheduleRow { edit: nowhere.clone(), ..new_schedule(2, "bad", 0) };
    owner.refused(vec![add(&good), add(&bad)]).await;
    assert_eq!(shown(store, good.id).await, None);
    owner.done(vec![add(&good)]).await;
    owner.refused(vec![edit_to(&good, nowhere, 20)]).await;
    assert_eq!(shown(store, good.id).await, Some(good));
}

pub(super) async fn a_schedule_of_a_shard_that_is_not_there_is_fenced(store: &dyn Store) {
    let mut owner = owner_of(store, &[]).await;
    let mut batch = owner.batch(vec![]);
    batch.fences = vec![(ShardId(SHARDS), owner.epoch(0))];
    batch.writes = vec![add(&new_schedule(1, "nowhere", SHARDS)), watermark(SHARDS, 10)];
    let applied = store.apply(SharedBatch::new(batch)).await.unwrap();
    assert_eq!(applied, Applied::Fenced(vec![ShardId(SHARDS)]));
}

/// One of each kind, on what `prepared` has made, and a new schedule.
fn one_of_each(row: &ScheduleRow, doomed: &ScheduleRow) -> Vec<Write> {
    let calendars = vec!["holidays".to_owned()];
    vec![
        edit_to(row, ScheduleEdit { calendars, ..edit(3) }, 30),
        drop_it(doomed.id, 30),
        add(&new_schedule(3, "new", 1)),
        set(row.id, ScheduleState { failures: 5, ..row.state.clone() }, Some(change(ChangeKind::Skipped, 31))),
        decide(&fired(row.id, 120, 2)),
        release(&fired(row.id, 60, 1)),
        watermark(1, 120),
    ]
}

async fn prepared(owner: &mut Owner<'_>) -> (ScheduleRow, ScheduleRow) {
    let (row, doomed) = (new_schedule(1, "kept", 1), new_schedule(2, "doomed", 1));
    let queued = unfired(row.id, 60, Verdict::Queued);
    owner.done(vec![add(&row), add(&doomed), decide(&queued), watermark(1, 60)]).await;
    (row, doomed)
}

/// Asserts that the schedules are as `prepared` left them.
async fn nothing_changed(store: &dyn Store, row: &ScheduleRow, doomed: &ScheduleRow) {
    for there in [row, doomed] {
        assert_eq!(shown(store, there.id).await.as_ref(), Some(there));
        assert_eq!(changes(store, there.id).await, []);
    }
    let names = ["new", "kept", "doomed"].map(str::to_owned).to_vec();
    assert_eq!(store.schedule_ids(NamespaceId::DEFAULT, names).await.unwrap().len(), 2);
    assert_eq!(ledger(store, row.id).await, [occurrence(row.id, 60, Verdict::Queued)]);
    let of_shard = store.shard_schedules(ShardId(1)).await.unwrap();
    assert_eq!((of_shard.watermark, of_shard.queued.len(), of_shard.tracked), (at(60), 1, vec![]));
    assert_eq!(store.load(load_all(1)).await.unwrap().rows, []);
    let using =
        store.schedules_with_calendars(vec![(NamespaceId::DEFAULT, "holidays".to_owned())], None, 10).await.unwrap();
    assert_eq!(using, []);
}

pub(super) async fn a_fenced_batch_changes_no_schedule(store: &dyn Store) {
    let mut former = owner_of(store, &[]).await;
    let (row, doomed) = prepared(&mut former).await;
    let _owner = Owner::new(store, 2).await;
    let applied = former.apply(one_of_each(&row, &doomed)).await.unwrap();
    assert_eq!(applied, Applied::Fenced(vec![ShardId(1)]));
    nothing_changed(store, &row, &doomed).await;
}

pub(super) async fn a_batch_that_does_not_fit_changes_no_schedule(store: &dyn Store) {
    let mut owner = owner_of(store, &[]).await;
    let (row, doomed) = prepared(&mut owner).await;
    let nobody = new_job(9, 10, 1);
    let mut writes = one_of_each(&row, &doomed);
    writes.push(succeed(original(&nobody), 1));
    owner.refused(writes).await;
    nothing_changed(store, &row, &doomed).await;
    // And without what does not fit, it is all done.
    owner.done(one_of_each(&row, &doomed)).await;
    let calendars = vec!["holidays".to_owned()];
    let expected = ScheduleRow {
        edit: ScheduleEdit { calendars, ..edit(3) },
        state: ScheduleState { failures: 5, ..row.state.clone() },
        changed: by("bob", 31),
        ..row.clone()
    };
    assert_eq!(shown(store, row.id).await, Some(expected));
    assert_eq!(shown(store, doomed.id).await, None);
    assert_eq!(ledger(store, row.id).await.len(), 2);
    assert_eq!(store.load(load_all(1)).await.unwrap().rows.len(), 2);
}

pub(super) async fn writes_about_schedules_have_an_order_of_their_own(store: &dyn Store) {
    let mut owner = owner_of(store, &[]).await;
    let (row, doomed) = prepared(&mut owner).await;
    // A schedule of the dropped one's name; a queued time that is released at once; a count that comes after
    // the edit: it works in any order.
    let new = ScheduleRow { edit: ScheduleEdit { input: Some(text("in")), ..edit(1) }, ..new_schedule(4, "doomed", 1) };
    let released = with_input(fired(new.id, 180, 3));
    let mut writes = one_of_each(&row, &doomed);
    writes.extend([
        decide(&unfired(new.id, 180, Verdict::Queued)),
        release(&released),
        start(key_of(&released), 1),
        add(&new),
    ]);
    writes.reverse();
    owner.done(writes).await;
    assert_eq!(shown(store, new.id).await, Some(new.clone()));
    assert_eq!(shown(store, doomed.id).await, None);
    assert_eq!(shown(store, row.id).await.unwrap().state.failures, 5);
    assert_eq!(shown(store, row.id).await.unwrap().edit.spec, spec(3));
    assert_eq!(changes(store, row.id).await[0], change(ChangeKind::Skipped, 31));
    assert_eq!(ledger(store, new.id).await, std::slice::from_ref(&released.occurrence));
    assert_eq!(store.inputs(vec![key_of(&released)]).await.unwrap(), [Some(text("in"))]);
    assert_eq!(store.open_starts(ShardId(1)).await.unwrap().running.len(), 1);
}
