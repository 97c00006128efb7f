//! What people have decided about queues.

use punctual_core::NamespaceId;
use punctual_core::queue::QueueState;
use punctual_core::task::Task;
use punctual_store::{NamespaceChange, NamespaceDeletion, QueueChange, QueueRow, Store, TaskChange};

use crate::fixture::*;
use crate::schedule_fixture::by;

fn row(namespace: NamespaceId, name: &str, revision: u32) -> QueueRow {
    QueueRow {
        namespace,
        name: name.to_owned(),
        revision,
        state: QueueState::Active,
        state_by: by("ada", 10),
        note: None,
        changed: by("ada", 10),
        spec: "{}".to_owned(),
    }
}

const DEFAULT: NamespaceId = NamespaceId::DEFAULT;

pub(super) async fn a_queue_reads_back_as_it_was_stored(store: &dyn Store) {
    assert_eq!(store.queues().await.unwrap().rows, []);
    let before = store.queues_revision().await.unwrap();
    let first = row(DEFAULT, "mail", 1);
    assert_eq!(store.put_queue(first.clone()).await.unwrap(), QueueChange::Done);
    let paused = QueueRow {
        revision: 2,
        state: QueueState::Paused,
        state_by: by("bob", 20),
        note: Some("the provider is down".to_owned()),
        changed: by("bob", 20),
        spec: "{\"description\":\"mails\"}".to_owned(),
        ..first
    };
    assert_eq!(store.put_queue(paused.clone()).await.unwrap(), QueueChange::Done);
    let draining = QueueRow { state: QueueState::Draining, ..row(NamespaceId(7), "a", 1) };
    assert_eq!(store.put_queue(draining.clone()).await.unwrap(), QueueChange::Done);
    let all = store.queues().await.unwrap();
    assert_eq!(all.rows, [paused, draining], "in order of namespace and name");
    assert!(all.revision > before);
    assert_eq!(store.queues_revision().await.unwrap(), all.revision);
}

pub(super) async fn a_queue_is_changed_only_from_the_expected_revision(store: &dyn Store) {
    let change = async |revision: u32| store.put_queue(row(DEFAULT, "mail", revision)).await.unwrap();
    assert_eq!(change(2).await, QueueChange::Conflict { revision: 0 });
    assert_eq!(change(1).await, QueueChange::Done);
    let known = store.queues_revision().await.unwrap();
    assert_eq!(change(1).await, QueueChange::Conflict { revision: 1 });
    assert_eq!(change(3).await, QueueChange::Conflict { revision: 1 });
    assert_eq!(store.queues_revision().await.unwrap(), known, "nothing was changed");
    assert_eq!(change(2).await, QueueChange::Done);
}

pub(super) async fn the_queues_of_tasks_are_named_once_in_each_namespace(store: &dyn Store) {
    let add = async |number: u64, namespace: NamespaceId, queue: &str| {
        let mut task = Task { namespace, ..named_task(number, &format!("task-{number}")) };
        task.spec.queue = queue.to_owned();
        assert_eq!(store.create_task(task.clone()).await.unwrap(), TaskChange::Done);
        task
    };
    for (number, queue) in [(1, "web"), (2, "mail"), (3, "web"), (4, "Zoo"), (5, "a-b")] {
        add(number, DEFAULT, queue).await;
    }
    add(6, NamespaceId(1), "theirs").await;
    let gone = add(7, DEFAULT, "gone").await;
    assert_eq!(store.delete_task(gone.id, None).await.unwrap(), TaskChange::Done);
    let names = async |after: &str, limit: usize| store.queue_names(DEFAULT, after, limit).await.unwrap();
    assert_eq!(names("", 10).await, ["Zoo", "a-b", "mail", "web"]);
    assert_eq!(names("Zoo", 2).await, ["a-b", "mail"]);
    assert_eq!(names("web", 10).await, Vec::<String>::new());
    assert_eq!(store.queue_names(NamespaceId(1), "", 10).await.unwrap(), ["theirs"]);
    assert_eq!(store.queue_names(NamespaceId(2), "", 10).await.unwrap(), Vec::<String>::new());
}

pub(super) async fn the_queues_of_a_namespace_go_when_it_is_deleted(store: &dyn Store) {
    let made = store.create_namespace("team-a".parse().expect("a name"), "{}".to_owned(), by("ada", 10)).await.unwrap();
    let NamespaceChange::Done(namespace) = made else { panic!("it was not created: {made:?}") };
    for of in [DEFAULT, namespace.id] {
        assert_eq!(store.put_queue(row(of, "mail", 1)).await.unwrap(), QueueChange::Done);
    }
    let before = store.queues_revision().await.unwrap();
    let deleted = store.delete_namespace(namespace.id, None, by("bob", 30)).await.unwrap();
    assert_eq!(deleted, NamespaceDeletion::Done, "queues do not keep it");
    let all = store.queues().await.unwrap();
    assert_eq!(all.rows, [row(DEFAULT, "mail", 1)]);
    assert!(all.revision > before);
}
