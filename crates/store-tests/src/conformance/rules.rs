use futures_util::future::join_all;
use punctual_core::NamespaceId;
use punctual_store::{Dispatch, Dispatched, RULES_MAX, RuleChange, RuleDeletion, RuleRow, Store};

use crate::fixture::*;
use crate::report_fixture::*;
use crate::schedule_fixture::by;

pub(super) async fn a_rule_reads_back_as_it_was_put(store: &dyn Store) {
    let row = new_rule("ops \"ü\"");
    // Only the name, the spec, who changed it and where its versions begin count.
    let row = RuleRow { version: u64::MAX >> 2, ..row };
    let odd = RuleRow { revision: 77, created: by("nobody", 9), state: Some("odd".to_owned()), ..row.clone() };
    assert_eq!(store.put_rule(odd, None).await.unwrap(), RuleChange::Done { revision: 1 });
    assert_eq!(store.rule(NamespaceId::DEFAULT, &row.name).await.unwrap(), Some(row.clone()));
    assert_eq!(store.rules(None).await.unwrap(), [row]);
    assert_eq!(store.rule(NamespaceId::DEFAULT, "ops").await.unwrap(), None);
}

pub(super) async fn a_change_of_a_rule_leaves_what_waits(store: &dyn Store) {
    let row = with_rule(store, "ops").await;
    dispatched(store, Dispatch { rules: vec![update("ops", 0, "waits")], ..Dispatch::default() }).await;
    let edited = RuleRow { spec: "new".to_owned(), changed: by("bob", 50), ..row.clone() };
    assert_eq!(store.put_rule(edited, Some(1)).await.unwrap(), RuleChange::Done { revision: 2 });
    let expected = RuleRow {
        spec: "new".to_owned(),
        changed: by("bob", 50),
        revision: 2,
        state: Some("waits".to_owned()),
        version: 2,
        ..row
    };
    assert_eq!(store.rule(NamespaceId::DEFAULT, "ops").await.unwrap(), Some(expected.clone()));
    // The same again is a change too.
    assert_eq!(store.put_rule(expected.clone(), None).await.unwrap(), RuleChange::Done { revision: 3 });
    assert_eq!(
        store.rule(NamespaceId::DEFAULT, "ops").await.unwrap(),
        Some(RuleRow { revision: 3, version: 3, ..expected })
    );
    // Whoever read the former spec does not send by it any more.
    let late = Dispatch { rules: vec![update("ops", 1, "goes on")], ..Dispatch::default() };
    assert_eq!(store.dispatch(late).await.unwrap(), Dispatched::Conflict);
    dispatched(store, Dispatch { rules: vec![update("ops", 3, "goes on")], ..Dispatch::default() }).await;
}

pub(super) async fn a_rule_is_put_only_over_the_expected_revision(store: &dyn Store) {
    let row = new_rule("ops");
    let put = async |expected| store.put_rule(row.clone(), expected).await.unwrap();
    assert_eq!(put(Some(1)).await, RuleChange::Conflict { revision: 0 }, "it is not there");
    assert_eq!(store.rules(None).await.unwrap(), []);
    assert_eq!(put(Some(0)).await, RuleChange::Done { revision: 1 });
    for expected in [0, 2, u32::MAX] {
        assert_eq!(put(Some(expected)).await, RuleChange::Conflict { revision: 1 });
    }
    assert_eq!(store.rules(None).await.unwrap(), std::slice::from_ref(&row));
    assert_eq!(put(Some(1)).await, RuleChange::Done { revision: 2 });
    assert_eq!(put(None).await, RuleChange::Done { revision: 3 });
    // Of many that know the same revision, one gets through.
    let answers = join_all((0..8).map(|_| store.put_rule(row.clone(), Some(3)))).await;
    let done = answers.into_iter().filter(|answer| *answer.as_ref().unwrap() == RuleChange::Done { revision: 4 });
    assert_eq!(done.count(), 1);
    assert_eq!(store.rule(NamespaceId::DEFAULT, "ops").await.unwrap().unwrap().revision, 4);
}

pub(super) async fn a_deleted_rule_takes_what_waits_with_it(store: &dyn Store) {
    with_rule(store, "ops").await;
    let kept = with_rule(store, "devs").await;
    let sent = delivery("ops", 10, job_id(1, 10, 0));
    let rules = vec![update("ops", 0, "waits")];
    dispatched(store, Dispatch { rules, deliveries: vec![sent.clone()], ..Dispatch::default() }).await;
    assert_eq!(
        store.delete_rule(NamespaceId::DEFAULT, "ops", Some(2)).await.unwrap(),
        RuleDeletion::Conflict { revision: 1 }
    );
    assert_eq!(store.delete_rule(NamespaceId::DEFAULT, "ops", Some(1)).await.unwrap(), RuleDeletion::Done);
    assert_eq!(store.delete_rule(NamespaceId::DEFAULT, "ops", None).await.unwrap(), RuleDeletion::Absent);
    assert_eq!(store.delete_rule(NamespaceId::DEFAULT, "op", Some(1)).await.unwrap(), RuleDeletion::Absent);
    assert_eq!(store.rules(None).await.unwrap(), [kept]);
    let late = Dispatch { rules: vec![update("ops", 1, "late")], ..Dispatch::default() };
    assert_eq!(store.dispatch(late.clone()).await.unwrap(), Dispatched::Conflict);
    assert_eq!(
        store.deliveries(NamespaceId::DEFAULT, Some("ops".to_owned()), None, 10).await.unwrap(),
        [sent],
        "what was sent stays"
    );
    // One that has its name begins anew, and whoever still knows the former one does not write over it, however it is
    // changed.
    let row = RuleRow { version: 1 << 40, ..new_rule("ops") };
    assert_eq!(store.put_rule(row.clone(), Some(0)).await.unwrap(), RuleChange::Done { revision: 1 });
    assert_eq!(store.rule(NamespaceId::DEFAULT, "ops").await.unwrap(), Some(row.clone()));
    assert_eq!(store.dispatch(late.clone()).await.unwrap(), Dispatched::Conflict);
    assert_eq!(store.put_rule(row, Some(1)).await.unwrap(), RuleChange::Done { revision: 2 });
    assert_eq!(store.dispatch(late).await.unwrap(), Dispatched::Conflict);
    let known = Dispatch { rules: vec![update("ops", (1 << 40) + 1, "new")], ..Dispatch::default() };
    dispatched(store, known).await;
}

pub(super) async fn rules_are_in_order_of_name(store: &dyn Store) {
    for name in ["ops", "ä", "Ops", "a", "ops-2", "-"] {
        with_rule(store, name).await;
    }
    let names: Vec<String> = store.rules(None).await.unwrap().into_iter().map(|rule| rule.name).collect();
    assert_eq!(names, ["-", "Ops", "a", "ops", "ops-2", "ä"]);
}

pub(super) async fn there_are_only_so_many_rules(store: &dyn Store) {
    let names: Vec<String> = (0..RULES_MAX - 3).map(|n| format!("rule {n:04}")).collect();
    for some in names.chunks(50) {
        join_all(some.iter().map(|name| with_rule(store, name))).await;
    }
    // The last places are given to as many as there are, also if many ask at once.
    let more: Vec<_> = (0..8).map(|n| new_rule(&format!("more {n}"))).collect();
    let answers = join_all(more.iter().map(|row| store.put_rule(row.clone(), None))).await;
    let answers: Vec<_> = answers.into_iter().map(Result::unwrap).collect();
    assert_eq!(answers.iter().filter(|answer| **answer == RuleChange::Done { revision: 1 }).count(), 3, "{answers:?}");
    assert_eq!(answers.iter().filter(|answer| **answer == RuleChange::Full).count(), 5, "{answers:?}");
    let one_more = new_rule("one more");
    assert_eq!(store.put_rule(one_more.clone(), Some(0)).await.unwrap(), RuleChange::Full);
    assert_eq!(store.put_rule(one_more.clone(), Some(1)).await.unwrap(), RuleChange::Conflict { revision: 0 });
    assert_eq!(store.rules(None).await.unwrap().len(), RULES_MAX);
    // Those that are there can be changed.
    assert_eq!(store.put_rule(new_rule(&names[0]), None).await.unwrap(), RuleChange::Done { revision: 2 });
    assert_eq!(store.delete_rule(NamespaceId::DEFAULT, &names[1], None).await.unwrap(), RuleDeletion::Done);
    assert_eq!(store.put_rule(one_more.clone(), None).await.unwrap(), RuleChange::Done { revision: 1 });
    assert_eq!(store.put_rule(new_rule("too many"), None).await.unwrap(), RuleChange::Full);
    // Those of another namespace do not count.
    let elsewhere = RuleRow { namespace: NamespaceId(1), ..new_rule("too many") };
    assert_eq!(store.put_rule(elsewhere, None).await.unwrap(), RuleChange::Done { revision: 1 });
    assert_eq!(store.rules(None).await.unwrap().len(), RULES_MAX + 1, "and all are read");
    assert_eq!(store.rules(Some(NamespaceId(1))).await.unwrap().len(), 1);
}
