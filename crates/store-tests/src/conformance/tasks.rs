use std::collections::BTreeMap;

use punctual_core::retry::RetryPolicy;
use punctual_core::task::{DeliveryMode, HttpCall, Method, OnLost, Run, Task, TaskSpec};
use punctual_core::{NamespaceId, Span};
use punctual_store::{Store, TaskChange};

use crate::fixture::*;

pub(super) async fn a_task_reads_back_as_it_was_written(store: &dyn Store) {
    let call = HttpCall {
        method: Method::Post,
        headers: BTreeMap::from([("x-a".to_owned(), "1".to_owned())]),
        body: Some("{\"a\":\"\\u0000\"}".to_owned()),
        expect_status: vec![200, 404],
        ..HttpCall::new("https://example.org/ü?x=1")
    };
    let spec = TaskSpec {
        queue: "web".to_owned(),
        labels: BTreeMap::from([("zone".to_owned(), "eu".to_owned())]),
        priority: priority(-7),
        retry: RetryPolicy { max: 9, factor: 1.1, jitter: 0.3, ..RetryPolicy::default() },
        timeout: Span::from_millis(1500),
        queue_timeout: Some(Span::from_secs(90)),
        delivery: DeliveryMode::ExactlyOnce,
        on_lost: OnLost::Rerun,
        ..TaskSpec::new(Run::Http(call))
    };
    let task = Task { revision: 4, updated_at: at(7), spec, ..named_task(1, "ping") };
    assert_eq!(store.create_task(task.clone()).await.unwrap(), TaskChange::Done);
    assert_eq!(store.task_by_name(NamespaceId::DEFAULT, "ping").await.unwrap(), Some(task.clone()));
    assert_eq!(store.tasks_by_id(vec![task.id]).await.unwrap(), [task]);
    assert_eq!(store.task_by_name(NamespaceId::DEFAULT, "Ping").await.unwrap(), None);
}

pub(super) async fn a_live_name_belongs_to_one_task(store: &dyn Store) {
    with_task(store).await;
    assert_eq!(store.create_task(named_task(2, "report")).await.unwrap(), TaskChange::NameTaken);
    assert_eq!(store.tasks_by_id(vec![task_id(2)]).await.unwrap(), []);
    assert_inconsistent(store.create_task(named_task(1, "another")).await);
    assert_eq!(store.task_by_name(NamespaceId::DEFAULT, "another").await.unwrap(), None);
}

pub(super) async fn a_task_that_must_have_a_name_is_refused_without_one(store: &dyn Store) {
    assert_inconsistent(store.create_task(nameless_task(1).0).await);
}

fn second_revision() -> Task {
    let (other, _) = nameless_task(9);
    Task { revision: 2, updated_at: at(50), spec: other.spec, ..named_task(1, "report") }
}

pub(super) async fn an_update_replaces_the_spec_of_the_revision_before(store: &dyn Store) {
    with_task(store).await;
    assert_eq!(store.update_task(second_revision()).await.unwrap(), TaskChange::Done);
    assert_eq!(store.task_by_name(NamespaceId::DEFAULT, "report").await.unwrap(), Some(second_revision()));
}

pub(super) async fn an_update_of_another_revision_is_a_conflict(store: &dyn Store) {
    with_task(store).await;
    for revision in [0, 1, 3] {
        let change = store.update_task(Task { revision, ..second_revision() }).await.unwrap();
        assert_eq!(change, TaskChange::Conflict { revision: 1 });
    }
    store.update_task(second_revision()).await.unwrap();
    assert_eq!(store.update_task(second_revision()).await.unwrap(), TaskChange::Conflict { revision: 2 });
}

pub(super) async fn a_task_nobody_knows_cannot_be_changed(store: &dyn Store) {
    assert_eq!(store.update_task(second_revision()).await.unwrap(), TaskChange::Absent);
    assert_eq!(store.delete_task(task_id(1), None).await.unwrap(), TaskChange::Absent);
    assert_eq!(store.task_by_name(NamespaceId::DEFAULT, "report").await.unwrap(), None);
}

pub(super) async fn a_deleted_task_frees_its_name_and_is_still_found_by_id(store: &dyn Store) {
    with_task(store).await;
    assert_eq!(store.delete_task(task_id(1), None).await.unwrap(), TaskChange::Done);
    assert_eq!(store.task_by_name(NamespaceId::DEFAULT, "report").await.unwrap(), None);
    assert_eq!(store.list_tasks(NamespaceId::DEFAULT, None, 10).await.unwrap(), []);
    assert_eq!(store.tasks_by_id(vec![task_id(1)]).await.unwrap(), [named_task(1, "report")]);
    assert_eq!(store.update_task(second_revision()).await.unwrap(), TaskChange::Absent);
    assert_eq!(store.delete_task(task_id(1), None).await.unwrap(), TaskChange::Absent);
    assert_eq!(store.create_task(named_task(2, "report")).await.unwrap(), TaskChange::Done);
    assert_eq!(store.task_by_name(NamespaceId::DEFAULT, "report").await.unwrap(), Some(named_task(2, "report")));
}

pub(super) async fn a_task_is_deleted_only_at_the_expected_revision(store: &dyn Store) {
    with_task(store).await;
    assert_eq!(store.delete_task(task_id(1), Some(2)).await.unwrap(), TaskChange::Conflict { revision: 1 });
    store.update_task(second_revision()).await.unwrap();
    for expected in [0, 1, 3] {
        let change = store.delete_task(task_id(1), Some(expected)).await.unwrap();
        assert_eq!(change, TaskChange::Conflict { revision: 2 });
    }
    assert!(store.task_by_name(NamespaceId::DEFAULT, "report").await.unwrap().is_some());
    assert_eq!(store.delete_task(task_id(1), Some(2)).await.unwrap(), TaskChange::Done);
    assert_eq!(store.delete_task(task_id(1), Some(2)).await.unwrap(), TaskChange::Absent);
}

pub(super) async fn the_same_content_is_interned_once(store: &dyn Store) {
    let (first, digest) = nameless_task(1);
    let again = Task { id: task_id(2), ..first.clone() };
    let (other, other_digest) = nameless_task(3);
    let ids = store.intern_tasks(vec![(first.clone(), digest), (again.clone(), digest)]).await.unwrap().ids();
    assert_eq!(ids, [task_id(1), task_id(1)]);
    let ids = store.intern_tasks(vec![(other, other_digest), (again, digest)]).await.unwrap().ids();
    assert_eq!(ids, [task_id(3), task_id(1)]);
    assert_eq!(store.tasks_by_id(vec![task_id(2), task_id(1)]).await.unwrap(), [first]);
}

pub(super) async fn an_interned_task_has_no_name_and_is_not_listed_or_changed(store: &dyn Store) {
    let (task, digest) = nameless_task(1);
    assert_inconsistent(store.intern_tasks(vec![(named_task(2, "named"), [2; 32])]).await);
    store.intern_tasks(vec![(task.clone(), digest)]).await.unwrap();
    assert_eq!(store.list_tasks(NamespaceId::DEFAULT, None, 10).await.unwrap(), []);
    assert_eq!(store.update_task(Task { revision: 2, ..task.clone() }).await.unwrap(), TaskChange::Absent);
    assert_eq!(store.delete_task(task.id, None).await.unwrap(), TaskChange::Absent);
    assert_eq!(store.tasks_by_id(vec![task.id]).await.unwrap(), [task]);
}

pub(super) async fn interning_is_all_or_nothing(store: &dyn Store) {
    let (one, one_digest) = nameless_task(1);
    let (two, two_digest) = nameless_task(2);
    let clash = (Task { id: one.id, ..two.clone() }, two_digest);
    assert_inconsistent(store.intern_tasks(vec![(one.clone(), one_digest), clash]).await);
    assert_eq!(store.tasks_by_id(vec![one.id]).await.unwrap(), []);
    // What was rolled back must not be remembered anywhere.
    let job = punctual_store::NewJob { task: one.id, ..new_job(1, 10, 0) };
    assert_inconsistent(submit(store, vec![job]).await);
}

pub(super) async fn tasks_are_listed_by_name(store: &dyn Store) {
    for (n, name) in ["b", "a", "é", "B", "ab"].into_iter().enumerate() {
        store.create_task(named_task(n as u64, name)).await.unwrap();
    }
    let names = |tasks: Vec<Task>| tasks.into_iter().filter_map(|task| task.name).collect::<Vec<_>>();
    assert_eq!(names(store.list_tasks(NamespaceId::DEFAULT, None, 10).await.unwrap()), ["B", "a", "ab", "b", "é"]);
    assert_eq!(names(store.list_tasks(NamespaceId::DEFAULT, Some("a".to_owned()), 2).await.unwrap()), ["ab", "b"]);
    assert_eq!(
        names(store.list_tasks(NamespaceId::DEFAULT, Some("é".to_owned()), 2).await.unwrap()),
        Vec::<String>::new()
    );
}
