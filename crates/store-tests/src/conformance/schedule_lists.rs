use punctual_core::schedule::{Pause, ScheduleEdit, ScheduleRow, ScheduleState, Verdict};
use punctual_core::{NamespaceId, ScheduleId, ShardId, Timestamp};
use punctual_store::{LoadedRow, OccurrenceFilter, Order, ScheduleFilter, Store};

use crate::fixture::*;
use crate::schedule_fixture::*;

async fn with_schedules(store: &dyn Store, rows: &[ScheduleRow]) {
    let mut owner = owner_of(store, &[]).await;
    store.intern_tasks(vec![nameless_task(2)]).await.unwrap();
    owner.done(rows.iter().map(add).collect()).await;
}

fn loaded(row: &ScheduleRow) -> LoadedRow {
    LoadedRow {
        namespace: NamespaceId::DEFAULT,
        id: row.id,
        name: row.name.clone(),
        task: row.edit.task,
        spec: row.edit.spec.clone(),
        priority: row.edit.priority,
        has_input: row.edit.input.is_some(),
        state: row.state.clone(),
    }
}

fn paused(row: ScheduleRow) -> ScheduleRow {
    let pause = Some(Pause { by: by("bob", 9), note: None });
    ScheduleRow { state: ScheduleState { pause, ..row.state }, ..row }
}

pub(super) async fn schedules_of_a_shard_are_loaded_in_pages(store: &dyn Store) {
    let mut rows: Vec<_> = (0..25).map(|n| new_schedule(n, &format!("{:02}", 40 - n), (n % 2) as u16)).collect();
    rows[4].edit = ScheduleEdit { task: task_id(2), priority: Some(priority(9)), input: Some(text("")), ..edit(7) };
    rows[6] = paused(rows[6].clone());
    rows[6].state.skip_until = Some(at(5));
    with_schedules(store, &rows).await;
    let mut expected: Vec<_> = rows.iter().filter(|row| row.id.shard() == ShardId(0)).map(loaded).collect();
    expected.sort_by_key(|row| row.id);
    for limit in [1, 4, 13, 100] {
        let mut found = Vec::new();
        loop {
            let after = found.last().map(|row: &LoadedRow| row.id);
            let page = store.load_schedules(ShardId(0), after, limit).await.unwrap();
            assert!(page.len() <= limit);
            if page.is_empty() {
                break;
            }
            found.extend(page);
        }
        assert_eq!(found, expected);
    }
    assert_eq!(store.load_schedules(ShardId(3), None, 10).await.unwrap(), []);
}

pub(super) async fn schedules_are_found_by_their_names(store: &dyn Store) {
    let rows = [new_schedule(1, "one", 0), new_schedule(2, "two", 3), new_schedule(3, "three", 1)];
    with_schedules(store, &rows).await;
    let names = ["two", "absent", "one", "ONE"].map(str::to_owned).to_vec();
    let mut found = store.schedule_ids(NamespaceId::DEFAULT, names).await.unwrap();
    found.sort();
    assert_eq!(found, [("one".to_owned(), rows[0].id), ("two".to_owned(), rows[1].id)]);
    assert_eq!(store.schedule_ids(NamespaceId::DEFAULT, vec![]).await.unwrap(), []);
    let repeated = vec!["two".to_owned(), "two".to_owned()];
    let found = store.schedule_ids(NamespaceId::DEFAULT, repeated).await.unwrap();
    assert!(!found.is_empty() && found.iter().all(|(_, id)| *id == rows[1].id), "{found:?}");
}

/// All pages, one after the other.
async fn listed(store: &dyn Store, filter: &ScheduleFilter, limit: usize) -> Vec<ScheduleRow> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let (rows, next) = store.list_schedules(filter.clone(), after, limit).await.unwrap();
        assert!(rows.len() <= limit.max(1), "{} of {limit}", rows.len());
        all.extend(rows);
        if next.is_none() {
            return all;
        }
        after = next;
    }
}

pub(super) async fn schedules_are_listed_by_name_in_pages(store: &dyn Store) {
    // In order of bytes, whatever a language would say.
    let names = ["A", "Z", "Zz", "a", "a b", "a-b", "ab", "z", "ä", "中"];
    let mut rows: Vec<_> = (0..).zip(names).map(|(n, name)| new_schedule(n * 7 % 10, name, (n % 4) as u16)).collect();
    with_schedules(store, &rows).await;
    for limit in [0, 1, 3, 10, 100] {
        assert_eq!(listed(store, &ScheduleFilter::default(), limit).await, rows, "{limit}");
    }
    let first = store.list_schedules(ScheduleFilter::default(), None, 10).await.unwrap();
    assert_eq!(first.1, None, "a full page that is the last says so");
    let from_the_middle = store.list_schedules(ScheduleFilter::default(), Some("ZZ".to_owned()), 2).await.unwrap();
    assert_eq!(from_the_middle, (rows[2..4].to_vec(), Some("a".to_owned())));
    // Inputs stay in the store.
    let with_input = ScheduleRow {
        edit: ScheduleEdit { input: Some(text("in")), calendars: vec!["holidays".to_owned()], ..edit(1) },
        ..new_schedule(50, "zz", 0)
    };
    Owner::new(store, 1).await.done(vec![add(&with_input)]).await;
    rows = listed(store, &ScheduleFilter { prefix: Some("zz".to_owned()), ..ScheduleFilter::default() }, 10).await;
    assert_eq!(rows, [ScheduleRow { edit: ScheduleEdit { input: None, ..with_input.edit.clone() }, ..with_input }]);
}

pub(super) async fn a_list_of_schedules_can_be_narrowed(store: &dyn Store) {
    let names = ["app", "app%", "app%x", "app_1", "appx1", "apr", "b", "\u{10FFFF}", "\u{10FFFF}a"];
    let rows: Vec<_> = (0..)
        .zip(names)
        .map(|(n, name)| {
            let task = task_id(1 + n % 2);
            let row = ScheduleRow { edit: ScheduleEdit { task, ..edit(1) }, ..new_schedule(n, name, (n % 4) as u16) };
            if n % 3 == 0 { paused(row) } else { row }
        })
        .collect();
    with_schedules(store, &rows).await;
    for task in [None, Some(task_id(1)), Some(task_id(2)), Some(task_id(9))] {
        for is_paused in [None, Some(true), Some(false)] {
            for prefix in [None, Some(""), Some("app"), Some("app%"), Some("app_"), Some("\u{10FFFF}"), Some("c")] {
                let fits = |row: &&ScheduleRow| {
                    task.is_none_or(|task| task == row.edit.task)
                        && is_paused.is_none_or(|paused| paused == row.state.pause.is_some())
                        && prefix.is_none_or(|prefix| row.name.starts_with(prefix))
                };
                let expected: Vec<_> = rows.iter().filter(fits).cloned().collect();
                let filter = ScheduleFilter {
                    namespace: NamespaceId::DEFAULT,
                    task,
                    is_paused,
                    prefix: prefix.map(str::to_owned),
                };
                for limit in [1, 2, 100] {
                    assert_eq!(listed(store, &filter, limit).await, expected, "{filter:?} by {limit}");
                }
            }
        }
    }
}

pub(super) async fn schedules_of_a_task_are_named(store: &dyn Store) {
    let of = |n, name, task| ScheduleRow {
        edit: ScheduleEdit { task: task_id(task), ..edit(1) },
        ..new_schedule(n, name, (n % 4) as u16)
    };
    let rows = [of(1, "c", 1), of(2, "a", 1), of(3, "b", 2), of(4, "d", 1)];
    with_schedules(store, &rows).await;
    assert_eq!(store.schedules_of_task(task_id(1), 10).await.unwrap(), ["a", "c", "d"]);
    assert_eq!(store.schedules_of_task(task_id(1), 2).await.unwrap(), ["a", "c"]);
    assert_eq!(store.schedules_of_task(task_id(9), 10).await.unwrap(), [""; 0]);
    let mut owner = Owner::new(store, 1).await;
    owner.done(vec![edit_to(&rows[0], ScheduleEdit { task: task_id(2), ..edit(1) }, 9), drop_it(rows[3].id, 9)]).await;
    assert_eq!(store.schedules_of_task(task_id(1), 10).await.unwrap(), ["a"]);
    assert_eq!(store.schedules_of_task(task_id(2), 10).await.unwrap(), ["b", "c"]);
}

/// The times that all pages show together.
async fn times(
    store: &dyn Store,
    schedule: ScheduleId,
    filter: &OccurrenceFilter,
    order: Order,
    limit: usize,
) -> Vec<Timestamp> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let (rows, next) = store.occurrences(schedule, filter.clone(), after, order, limit).await.unwrap();
        assert!(rows.len() <= limit.max(1), "{} of {limit}", rows.len());
        all.extend(rows.iter().map(|row| row.at));
        if next.is_none() {
            return all;
        }
        after = next;
    }
}

pub(super) async fn occurrences_are_listed_in_pages_both_ways(store: &dyn Store) {
    let (row, other) = (new_schedule(1, "one", 1), new_schedule(2, "other", 1));
    with_schedules(store, &[row.clone(), other.clone()]).await;
    let mut owner = Owner::new(store, 1).await;
    let verdict = |n: i64| Verdict::ALL[(n as usize) % Verdict::ALL.len()];
    let all: Vec<_> = (0..20).map(|n| unfired(row.id, 60 * n, verdict(n))).collect();
    let mut writes: Vec<_> = all.iter().rev().map(decide).collect();
    writes.extend((0..3).map(|n| decide(&unfired(other.id, 60 * n, Verdict::Missed))));
    owner.done(writes).await;
    let filters = [
        OccurrenceFilter::default(),
        OccurrenceFilter { from: Some(at(120)), ..OccurrenceFilter::default() },
        OccurrenceFilter { before: Some(at(600)), ..OccurrenceFilter::default() },
        OccurrenceFilter { from: Some(at(61)), before: Some(at(601)), verdicts: vec![verdict(2), verdict(3)] },
        OccurrenceFilter { verdicts: vec![Verdict::Missed, Verdict::Missed], ..OccurrenceFilter::default() },
        OccurrenceFilter { from: Some(at(600)), before: Some(at(600)), ..OccurrenceFilter::default() },
        OccurrenceFilter { from: Some(at(700)), before: Some(at(600)), ..OccurrenceFilter::default() },
    ];
    for filter in filters {
        for order in [Order::Ascending, Order::Descending] {
            let fits = |at: Timestamp, verdict: Verdict| {
                filter.from.is_none_or(|from| at >= from)
                    && filter.before.is_none_or(|before| at < before)
                    && (filter.verdicts.is_empty() || filter.verdicts.contains(&verdict))
            };
            let rows = all.iter().map(|decision| &decision.occurrence);
            let mut expected: Vec<_> = rows.filter(|row| fits(row.at, row.verdict)).map(|row| row.at).collect();
            if order == Order::Descending {
                expected.reverse();
            }
            for limit in [0, 1, 7, 20, 100] {
                assert_eq!(times(store, row.id, &filter, order, limit).await, expected, "{filter:?} {order:?} {limit}");
            }
        }
    }
    // From a time that is none of them, and of a schedule that has none.
    let page = store.occurrences(row.id, OccurrenceFilter::default(), Some(at(90)), Order::Descending, 10).await;
    let (rows, next) = page.unwrap();
    assert_eq!((rows, next), (vec![all[1].occurrence.clone(), all[0].occurrence.clone()], None));
    assert_eq!(times(store, schedule_id(9, 1), &OccurrenceFilter::default(), Order::Ascending, 9).await, []);
}
