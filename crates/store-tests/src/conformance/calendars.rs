use punctual_core::NamespaceId;
use std::collections::BTreeSet;

use futures_util::future::join_all;
use jiff::civil::Date;
use punctual_core::schedule::{ScheduleEdit, ScheduleRow, StoredCalendar};
use punctual_store::{CalendarDeletion, CalendarUpdate, Store};

use crate::fixture::*;
use crate::schedule_fixture::*;

fn calendar(name: &str, days: std::ops::Range<i8>) -> StoredCalendar {
    let dates: BTreeSet<_> = days.map(|day| Date::new(2026, 12, day).unwrap()).collect();
    StoredCalendar { namespace: NamespaceId::DEFAULT, name: name.to_owned(), dates, revision: 0, changed: by("ada", 5) }
}

fn using(n: u64, name: &str, shard: u16, calendars: &[&str]) -> ScheduleRow {
    let calendars = calendars.iter().map(|name| (*name).to_owned()).collect();
    ScheduleRow { edit: ScheduleEdit { calendars, ..edit(1) }, ..new_schedule(n, name, shard) }
}

/// Whatever there is.
async fn put(store: &dyn Store, calendar: StoredCalendar) -> u32 {
    match store.put_calendar(calendar, None).await.unwrap() {
        CalendarUpdate::Done { revision } => revision,
        CalendarUpdate::Conflict { revision } => panic!("nothing was expected, and there is revision {revision}"),
    }
}

pub(super) async fn a_calendar_reads_back_as_it_was_put(store: &dyn Store) {
    let (holidays, empty) = (calendar("holidays", 24..27), calendar("Ü 'empty'", 1..1));
    let first = put(store, holidays.clone()).await;
    let second = put(store, empty.clone()).await;
    let holidays = StoredCalendar { revision: first, ..holidays };
    let empty = StoredCalendar { revision: second, ..empty };
    assert_eq!(store.calendar(NamespaceId::DEFAULT, "holidays").await.unwrap(), Some(holidays.clone()));
    assert_eq!(store.calendar(NamespaceId::DEFAULT, "Holidays").await.unwrap(), None);
    assert_eq!(store.calendars(None).await.unwrap(), [holidays, empty.clone()]);
    let replaced = StoredCalendar { changed: by("bob", 9), ..calendar("holidays", 1..3) };
    let third = put(store, replaced.clone()).await;
    let replaced = StoredCalendar { revision: third, ..replaced };
    assert_eq!(store.calendars(None).await.unwrap(), [replaced, empty]);
}

pub(super) async fn every_change_of_a_calendar_has_a_larger_revision(store: &dyn Store) {
    assert_eq!(store.calendars_revision().await.unwrap(), 0);
    let mut last = 0;
    for name in ["a", "b", "a", "a", "b"] {
        let revision = put(store, calendar(name, 1..2)).await;
        assert_eq!(revision, last + 1);
        assert_eq!(store.calendars_revision().await.unwrap(), revision);
        last = revision;
    }
    // Whoever remembers the revision of one that is gone must see that another came in its place.
    assert_eq!(store.delete_calendar(NamespaceId::DEFAULT, "b", None).await.unwrap(), CalendarDeletion::Done);
    assert_eq!(put(store, calendar("b", 2..3)).await, last + 1);
    for name in ["a", "b"] {
        assert_eq!(store.delete_calendar(NamespaceId::DEFAULT, name, None).await.unwrap(), CalendarDeletion::Done);
    }
    assert_eq!(store.calendars_revision().await.unwrap(), 0);
    assert_eq!(put(store, calendar("c", 2..3)).await, last + 2);
    assert_eq!(store.calendars_revision().await.unwrap(), last + 2);
}

pub(super) async fn a_calendar_is_changed_only_at_the_expected_revision(store: &dyn Store) {
    let conflict = |revision| CalendarUpdate::Conflict { revision };
    let change = async |expected| store.put_calendar(calendar("holidays", 1..3), expected).await.unwrap();
    assert_eq!(change(Some(1)).await, conflict(0), "it is not there");
    assert_eq!(store.calendars(None).await.unwrap(), []);
    assert_eq!(change(Some(0)).await, CalendarUpdate::Done { revision: 1 }, "what was refused has used no revision");
    for expected in [0, 2, u32::MAX] {
        assert_eq!(change(Some(expected)).await, conflict(1));
    }
    assert_eq!(change(Some(1)).await, CalendarUpdate::Done { revision: 2 });
    // Of many that know the same revision, one gets through.
    let answers = join_all((0..8).map(|_| store.put_calendar(calendar("holidays", 3..5), Some(2)))).await;
    let done = answers.into_iter().filter(|answer| *answer.as_ref().unwrap() == CalendarUpdate::Done { revision: 3 });
    assert_eq!(done.count(), 1);
    let create = join_all((0..8).map(|_| store.put_calendar(calendar("new", 3..5), Some(0)))).await;
    let done = create.into_iter().filter(|answer| matches!(answer, Ok(CalendarUpdate::Done { .. })));
    assert_eq!(done.count(), 1);

    for expected in [0, 2, u32::MAX] {
        let deletion = store.delete_calendar(NamespaceId::DEFAULT, "holidays", Some(expected)).await.unwrap();
        assert_eq!(deletion, CalendarDeletion::Conflict { revision: 3 });
    }
    assert_eq!(store.delete_calendar(NamespaceId::DEFAULT, "absent", Some(3)).await.unwrap(), CalendarDeletion::Absent);
    assert_eq!(store.delete_calendar(NamespaceId::DEFAULT, "holidays", Some(3)).await.unwrap(), CalendarDeletion::Done);
    assert_eq!(store.calendar(NamespaceId::DEFAULT, "holidays").await.unwrap(), None);
}

pub(super) async fn a_calendar_that_schedules_use_stays(store: &dyn Store) {
    let mut owner = owner_of(store, &[]).await;
    for name in ["holidays", "other"] {
        put(store, calendar(name, 1..2)).await;
    }
    let rows: Vec<_> =
        (0..12).map(|n| using(n, &format!("{:02}", 20 - n), (n % 4) as u16, &["holidays", "absent"])).collect();
    owner.done(rows.iter().map(add).collect()).await;
    let users: Vec<_> = (9..19).map(|n| format!("{n:02}")).collect();
    assert_eq!(
        store.delete_calendar(NamespaceId::DEFAULT, "holidays", None).await.unwrap(),
        CalendarDeletion::InUse(users)
    );
    assert!(store.calendar(NamespaceId::DEFAULT, "holidays").await.unwrap().is_some());
    assert_eq!(store.delete_calendar(NamespaceId::DEFAULT, "other", None).await.unwrap(), CalendarDeletion::Done);
    assert_eq!(store.delete_calendar(NamespaceId::DEFAULT, "other", None).await.unwrap(), CalendarDeletion::Absent);
    assert_eq!(
        store.delete_calendar(NamespaceId::DEFAULT, "absent", None).await.unwrap(),
        CalendarDeletion::Absent,
        "used, but not there"
    );
    assert_eq!(store.calendar(NamespaceId::DEFAULT, "other").await.unwrap(), None);

    // All but three are dropped; of these one is edited not to use it, one to use it still.
    owner.done(rows[3..].iter().map(|row| drop_it(row.id, 9)).collect()).await;
    let still = ScheduleEdit { calendars: vec!["holidays".to_owned()], ..edit(2) };
    owner.done(vec![edit_to(&rows[0], edit(2), 9), edit_to(&rows[1], still, 9)]).await;
    let users = vec!["18".to_owned(), "19".to_owned()];
    assert_eq!(
        store.delete_calendar(NamespaceId::DEFAULT, "holidays", None).await.unwrap(),
        CalendarDeletion::InUse(users)
    );
    owner.done(vec![drop_it(rows[1].id, 10), drop_it(rows[2].id, 10)]).await;
    assert_eq!(store.delete_calendar(NamespaceId::DEFAULT, "holidays", None).await.unwrap(), CalendarDeletion::Done);
}

pub(super) async fn schedules_with_calendars_are_found_in_pages(store: &dyn Store) {
    let mut owner = owner_of(store, &[]).await;
    let mut rows: Vec<_> = (0..20)
        .map(|n| {
            let calendars: &[&str] = match n % 4 {
                0 => &["a"],
                1 => &["b", "a"],
                2 => &["c"],
                _ => &[],
            };
            using(n, &format!("schedule {n}"), (n % 3) as u16, calendars)
        })
        .collect();
    owner.done(rows.iter().map(add).collect()).await;
    rows.sort_by_key(|row| row.id);
    for names in [&["a"][..], &["a", "b"], &["b", "c"], &["a", "a"], &["absent"], &[]] {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let is_wanted = |row: &&ScheduleRow| row.edit.calendars.iter().any(|name| names.contains(name));
        let expected: Vec<_> = rows.iter().filter(is_wanted).map(|row| row.id).collect();
        let keys: Vec<_> = names.iter().map(|name| (NamespaceId::DEFAULT, name.clone())).collect();
        for limit in [1, 3, 100] {
            let mut found = Vec::new();
            loop {
                let after = found.last().copied();
                let page = store.schedules_with_calendars(keys.clone(), after, limit).await.unwrap();
                assert!(page.len() <= limit);
                if page.is_empty() {
                    break;
                }
                found.extend(page.iter().map(|row| row.id));
            }
            assert_eq!(found, expected, "{names:?} by {limit}");
        }
    }
    // A schedule may name a calendar twice; it is one use.
    let twice = using(50, "twice", 0, &["d", "d"]);
    owner.done(vec![add(&twice)]).await;
    let found = store.schedules_with_calendars(vec![(NamespaceId::DEFAULT, "d".to_owned())], None, 10).await.unwrap();
    assert_eq!(found.iter().map(|row| (row.id, row.name.as_str())).collect::<Vec<_>>(), [(twice.id, "twice")]);
    owner.done(vec![drop_it(twice.id, 9)]).await;
    assert_eq!(
        store.schedules_with_calendars(vec![(NamespaceId::DEFAULT, "d".to_owned())], None, 10).await.unwrap(),
        []
    );
}
