use futures_util::future::{join, join_all, join3};
use punctual_core::run::{Run, TaskFile};
use punctual_core::task::Task;
use punctual_core::{ArtifactId, NamespaceId};
use punctual_store::{
    Arrival, Artifact, ArtifactChange, ArtifactKind, ArtifactState, CreatedArtifact, Interned, NewArtifact, Store,
    TaskChange, Unfit,
};

use crate::fixture::*;

fn pending(n: u64) -> Artifact {
    let NewArtifact { id, namespace, name, size, sha256, kind, created_at, until, .. } = new_artifact(n);
    Artifact { id, namespace, name, size, sha256, kind, state: ArtifactState::Pending { until }, created_at }
}

async fn arrive(store: &dyn Store, n: u64, secs: i64) -> Vec<Task> {
    match store.artifact_arrived(artifact_id(n), at(secs), Some("x86_64".to_owned())).await.unwrap() {
        Arrival::Done(tasks) => tasks,
        other => panic!("it did not arrive: {other:?}"),
    }
}

async fn refuse(store: &dyn Store, n: u64, secs: i64) {
    let change = store.refuse_artifact(artifact_id(n), at(secs), "it is a script".to_owned()).await.unwrap();
    assert_eq!(change, ArtifactChange::Done);
}

async fn create(store: &dyn Store, task: Task) {
    assert_eq!(store.create_task(task).await.unwrap(), TaskChange::Done);
}

fn refused() -> Unfit {
    Unfit::Refused { reason: "it is a script".to_owned() }
}

pub(super) async fn an_artifact_reads_back_in_each_of_its_states(store: &dyn Store) {
    for n in 1..4 {
        assert_eq!(store.create_artifact(new_artifact(n)).await.unwrap(), CreatedArtifact::New(pending(n)));
    }
    assert_eq!(arrive(store, 2, 50).await, []);
    refuse(store, 3, 60).await;
    let ready = ArtifactState::Ready { at: at(50), machine: Some("x86_64".to_owned()) };
    let refused = ArtifactState::Refused { at: at(60), reason: "it is a script".to_owned() };
    for artifact in [pending(1), Artifact { state: ready, ..pending(2) }, Artifact { state: refused, ..pending(3) }] {
        assert_eq!(store.artifact(artifact.id).await.unwrap(), Some(artifact));
    }
    assert_eq!(store.artifact(artifact_id(9)).await.unwrap(), None);
    let nameless = NewArtifact { name: None, ..new_artifact(4) };
    let CreatedArtifact::New(created) = store.create_artifact(nameless).await.unwrap() else { panic!() };
    assert_eq!(store.artifact(artifact_id(4)).await.unwrap(), Some(created));
}

/// A task that runs one artifact and reads others.
fn reading(n: u64, name: &str, program: u64, files: &[u64]) -> Task {
    let mut task = binary_task(n, name, program);
    if let Run::Binary(binary) = &mut task.spec.run {
        let file = |n: &u64| TaskFile { artifact: artifact_id(*n), name: format!("file-{n}") };
        binary.files = files.iter().map(file).collect();
    }
    task
}

async fn delete(store: &dyn Store, id: ArtifactId) -> punctual_store::Result<ArtifactChange> {
    store.delete_artifact(id, Vec::new()).await
}

pub(super) async fn a_task_keeps_the_files_that_it_reads(store: &dyn Store) {
    with_artifact(store, 1).await;
    arrive(store, 1, 10).await;
    for n in 2..=3 {
        let file = NewArtifact { kind: ArtifactKind::File, ..new_artifact(n) };
        assert!(matches!(store.create_artifact(file).await.unwrap(), CreatedArtifact::New(_)));
    }
    // The same content may be a program, too.
    let program = NewArtifact { id: artifact_id(4), ..NewArtifact { sha256: [2; 32], size: 1002, ..new_artifact(4) } };
    assert!(matches!(store.create_artifact(program).await.unwrap(), CreatedArtifact::New(_)));

    let task = |files: &[u64]| reading(1, "report", 1, files);
    let change = async |task| store.create_task(task).await.unwrap();
    assert_eq!(change(task(&[2])).await, TaskChange::Unfit(artifact_id(2), Unfit::NotArrived));
    assert_eq!(change(task(&[9])).await, TaskChange::Unfit(artifact_id(9), Unfit::Unknown));
    arrive(store, 2, 20).await;
    arrive(store, 3, 20).await;
    assert_eq!(change(reading(1, "report", 2, &[])).await, TaskChange::Unfit(artifact_id(2), Unfit::NotAProgram));
    assert_eq!(change(task(&[2, 3])).await, TaskChange::Done);

    let in_use = ArtifactChange::InUse { task: task(&[]).id, name: Some("report".to_owned()) };
    for n in [1, 2, 3] {
        assert_eq!(delete(store, artifact_id(n)).await.unwrap(), in_use);
    }
    assert_eq!(store.prune_artifacts(at(5000), at(5000), 10).await.unwrap(), [artifact_id(4)]);
    // What it does not read any more was used until now, and may go then.
    let update = Task { revision: 2, updated_at: at(6000), ..task(&[3]) };
    assert_eq!(store.update_task(update).await.unwrap(), TaskChange::Done);
    assert_eq!(store.prune_artifacts(at(6000), at(6000), 10).await.unwrap(), []);
    assert_eq!(store.prune_artifacts(at(6001), at(6001), 10).await.unwrap(), [artifact_id(2)]);
    assert_eq!(delete(store, artifact_id(3)).await.unwrap(), in_use);

    // A one-off task keeps them as well.
    let one_off = Task { name: None, ..reading(2, "", 1, &[3]) };
    let interned = store.intern_tasks(vec![(one_off.clone(), [8; 32])]).await.unwrap();
    assert_eq!(interned, Interned::Done(vec![one_off.id]));
    let without = Task { revision: 3, updated_at: at(6100), ..task(&[]) };
    assert_eq!(store.update_task(without).await.unwrap(), TaskChange::Done);
    assert_eq!(delete(store, artifact_id(3)).await.unwrap(), ArtifactChange::InUse { task: one_off.id, name: None });
}

pub(super) async fn the_same_content_is_one_artifact(store: &dyn Store) {
    with_artifact(store, 1).await;
    let again = |n, secs| NewArtifact {
        id: artifact_id(n),
        name: None,
        created_at: at(secs),
        until: at(secs + 100),
        ..new_artifact(1)
    };
    let longer = Artifact { state: ArtifactState::Pending { until: at(120) }, ..pending(1) };
    assert_eq!(store.create_artifact(again(2, 20)).await.unwrap(), CreatedArtifact::Known(longer.clone()));
    // Times do not go back.
    assert_eq!(store.create_artifact(again(3, -50)).await.unwrap(), CreatedArtifact::Known(longer));
    arrive(store, 1, 30).await;
    let ready = store.artifact(artifact_id(1)).await.unwrap().unwrap();
    assert_eq!(store.create_artifact(again(4, 40)).await.unwrap(), CreatedArtifact::Known(ready));
    let other_size = NewArtifact { size: 7, ..again(5, 40) };
    assert!(matches!(store.create_artifact(other_size).await.unwrap(), CreatedArtifact::New(_)));
    assert_inconsistent(store.create_artifact(NewArtifact { sha256: [77; 32], ..new_artifact(1) }).await);
    assert_inconsistent(store.create_artifact(NewArtifact { size: u64::MAX, ..new_artifact(6) }).await);
}

pub(super) async fn a_refused_artifact_does_not_stand_for_its_content(store: &dyn Store) {
    with_artifact(store, 1).await;
    refuse(store, 1, 10).await;
    let again = NewArtifact { id: artifact_id(2), ..new_artifact(1) };
    assert!(matches!(store.create_artifact(again).await.unwrap(), CreatedArtifact::New(_)));
    let change = store.refuse_artifact(artifact_id(1), at(20), String::new()).await.unwrap();
    assert_eq!(change, ArtifactChange::NotPending);
    let change = store.refuse_artifact(artifact_id(9), at(20), String::new()).await.unwrap();
    assert_eq!(change, ArtifactChange::Absent);
    let arrival = store.artifact_arrived(artifact_id(1), at(20), None).await.unwrap();
    assert_eq!(arrival, Arrival::Refused { reason: "it is a script".to_owned() });
    assert_eq!(store.artifact_arrived(artifact_id(9), at(20), None).await.unwrap(), Arrival::Absent);
}

pub(super) async fn artifacts_are_listed_by_age_in_pages(store: &dyn Store) {
    for n in 1..6 {
        with_artifact(store, n).await;
    }
    arrive(store, 2, 10).await;
    refuse(store, 4, 10).await;
    let ids = |artifacts: Vec<Artifact>| artifacts.into_iter().map(|artifact| artifact.id).collect::<Vec<_>>();
    assert_eq!(ids(store.list_artifacts(NamespaceId::DEFAULT, None, 3).await.unwrap()), [5, 4, 3].map(artifact_id));
    assert_eq!(
        ids(store.list_artifacts(NamespaceId::DEFAULT, Some(artifact_id(3)), 3).await.unwrap()),
        [2, 1].map(artifact_id)
    );
    assert_eq!(ids(store.pending_artifacts(None, 2).await.unwrap()), [1, 3].map(artifact_id));
    assert_eq!(ids(store.pending_artifacts(Some(artifact_id(3)), 2).await.unwrap()), [5].map(artifact_id));
}

pub(super) async fn a_task_waits_for_its_artifact_until_it_arrives(store: &dyn Store) {
    with_artifact(store, 1).await;
    // What the argument says of it does not count.
    for waits_for in [None, Some(artifact_id(9))] {
        let n = if waits_for.is_some() { 2 } else { 1 };
        create(store, Task { waits_for, ..binary_task(n, &format!("task-{n}"), 1) }).await;
    }
    create(store, Task { waits_for: Some(artifact_id(1)), ..named_task(3, "task-3") }).await;
    let waiting = |n, name: &str| Task { waits_for: Some(artifact_id(1)), ..binary_task(n, name, 1) };
    assert_eq!(store.task_by_name(NamespaceId::DEFAULT, "task-1").await.unwrap(), Some(waiting(1, "task-1")));
    let expected = [waiting(1, "task-1"), waiting(2, "task-2"), named_task(3, "task-3")];
    assert_eq!(store.list_tasks(NamespaceId::DEFAULT, None, 10).await.unwrap(), expected);
    assert_eq!(store.tasks_by_id([1, 2, 3].map(task_id).to_vec()).await.unwrap(), expected);
    let released = |n, name: &str| Task { revision: 2, updated_at: at(30), ..binary_task(n, name, 1) };
    let expected = [released(1, "task-1"), released(2, "task-2")];
    assert_eq!(arrive(store, 1, 30).await, expected);
    assert_eq!(store.tasks_by_id([1, 2].map(task_id).to_vec()).await.unwrap(), expected);
}

pub(super) async fn an_arrival_releases_named_deleted_and_nameless_tasks_at_once(store: &dyn Store) {
    with_artifact(store, 1).await;
    with_artifact(store, 2).await;
    create(store, binary_task(1, "kept", 1)).await;
    create(store, binary_task(2, "deleted", 1)).await;
    create(store, binary_task(3, "other", 2)).await;
    store.delete_task(task_id(2), None).await.unwrap();
    let nameless = Task { name: None, ..binary_task(4, "", 1) };
    assert_eq!(store.intern_tasks(vec![(nameless.clone(), [4; 32])]).await.unwrap().ids(), [task_id(4)]);
    let waits = store.tasks_by_id(vec![task_id(4)]).await.unwrap();
    assert_eq!(waits, [Task { waits_for: Some(artifact_id(1)), ..nameless.clone() }]);
    let ids: Vec<_> = arrive(store, 1, 30).await.into_iter().map(|task| task.id).collect();
    assert_eq!(ids, [1, 2, 4].map(task_id));
    let other = store.task_by_name(NamespaceId::DEFAULT, "other").await.unwrap().unwrap();
    assert_eq!((other.waits_for, other.revision), (Some(artifact_id(2)), 1));
    // Interned again, it is the released one.
    assert_eq!(store.intern_tasks(vec![(nameless, [4; 32])]).await.unwrap().ids(), [task_id(4)]);
    assert_eq!(store.tasks_by_id(vec![task_id(4)]).await.unwrap()[0].waits_for, None);
}

pub(super) async fn an_arrival_that_is_repeated_changes_nothing(store: &dyn Store) {
    with_artifact(store, 1).await;
    create(store, binary_task(1, "task", 1)).await;
    assert_eq!(arrive(store, 1, 30).await.len(), 1);
    assert_eq!(arrive(store, 1, 40).await, []);
    let artifact = store.artifact(artifact_id(1)).await.unwrap().unwrap();
    assert_eq!(artifact.state, ArtifactState::Ready { at: at(30), machine: Some("x86_64".to_owned()) });
    assert_eq!(store.task_by_name(NamespaceId::DEFAULT, "task").await.unwrap().unwrap().revision, 2);
}

pub(super) async fn a_task_of_a_ready_artifact_does_not_wait(store: &dyn Store) {
    with_artifact(store, 1).await;
    arrive(store, 1, 10).await;
    create(store, binary_task(1, "task", 1)).await;
    let nameless = Task { name: None, ..binary_task(2, "", 1) };
    store.intern_tasks(vec![(nameless.clone(), [2; 32])]).await.unwrap().ids();
    let expected = [binary_task(1, "task", 1), nameless];
    assert_eq!(store.tasks_by_id([1, 2].map(task_id).to_vec()).await.unwrap(), expected);
}

pub(super) async fn a_task_of_an_unknown_or_refused_artifact_is_not_stored(store: &dyn Store) {
    with_artifact(store, 1).await;
    refuse(store, 1, 10).await;
    create(store, named_task(1, "task")).await;
    for (artifact, unfit) in [(1, refused()), (9, Unfit::Unknown)] {
        let id = artifact_id(artifact);
        let change = store.create_task(binary_task(2, "new", artifact)).await.unwrap();
        assert_eq!(change, TaskChange::Unfit(id, unfit.clone()));
        let update = Task { revision: 2, ..binary_task(1, "task", artifact) };
        assert_eq!(store.update_task(update).await.unwrap(), TaskChange::Unfit(id, unfit.clone()));
        let nameless = Task { name: None, ..binary_task(4, "", artifact) };
        let interned = store.intern_tasks(vec![nameless_task(3), (nameless, [4; 32])]).await.unwrap();
        assert_eq!(interned, Interned::Unfit(id, unfit));
    }
    assert_eq!(store.tasks_by_id((1..9).map(task_id).collect()).await.unwrap(), [named_task(1, "task")]);
}

pub(super) async fn an_update_exchanges_the_artifact_of_a_task(store: &dyn Store) {
    for n in 1..4 {
        with_artifact(store, n).await;
    }
    arrive(store, 3, 10).await;
    create(store, binary_task(1, "task", 1)).await;
    let waits = async || store.task_by_name(NamespaceId::DEFAULT, "task").await.unwrap().unwrap().waits_for;
    let update = async |revision: u32, spec| {
        let updated_at = at(100 * i64::from(revision));
        let task = Task { revision, updated_at, spec, ..named_task(1, "task") };
        assert_eq!(store.update_task(task).await.unwrap(), TaskChange::Done);
    };
    update(2, binary_spec(2)).await;
    assert_eq!(waits().await, Some(artifact_id(2)));
    assert_eq!(arrive(store, 1, 20).await, [], "nobody waits for it any more");
    update(3, binary_spec(3)).await;
    assert_eq!(waits().await, None);
    update(4, binary_spec(2)).await;
    assert_eq!(arrive(store, 2, 30).await.len(), 1);
    update(6, named_task(1, "").spec).await;
    assert_eq!(delete(store, artifact_id(3)).await.unwrap(), ArtifactChange::Done);
    // It was in use until the update, and so counts as used then.
    assert_eq!(store.prune_artifacts(at(499), at(499), 10).await.unwrap(), [artifact_id(1)]);
    assert_eq!(store.prune_artifacts(at(600), at(600), 10).await.unwrap(), []);
    assert_eq!(store.prune_artifacts(at(601), at(601), 10).await.unwrap(), [artifact_id(2)]);
}

pub(super) async fn an_artifact_that_a_task_refers_to_stays(store: &dyn Store) {
    for n in 1..5 {
        with_artifact(store, n).await;
    }
    refuse(store, 3, 10).await;
    create(store, binary_task(1, "task", 1)).await;
    create(store, binary_task(2, "gone", 2)).await;
    store.delete_task(task_id(2), None).await.unwrap();
    let in_use = |n, name: &str| ArtifactChange::InUse { task: task_id(n), name: Some(name.to_owned()) };
    assert_eq!(delete(store, artifact_id(1)).await.unwrap(), in_use(1, "task"));
    assert_eq!(delete(store, artifact_id(2)).await.unwrap(), in_use(2, "gone"), "its jobs may still need it");
    assert_eq!(store.prune_artifacts(at(9999), at(9999), 10).await.unwrap(), [4, 3].map(artifact_id));
    assert_eq!(delete(store, artifact_id(4)).await.unwrap(), ArtifactChange::Absent);
    assert!(store.artifact(artifact_id(1)).await.unwrap().is_some());
}

pub(super) async fn an_artifact_goes_when_only_tasks_that_do_not_need_it_refer_to_it(store: &dyn Store) {
    with_artifact(store, 1).await;
    arrive(store, 1, 10).await;
    let nameless = Task { name: None, ..binary_task(1, "", 1) };
    store.intern_tasks(vec![(nameless.clone(), [1; 32])]).await.unwrap().ids();
    create(store, binary_task(2, "gone", 1)).await;
    store.delete_task(task_id(2), None).await.unwrap();
    create(store, reading(3, "reads", 1, &[])).await;
    let delete = async |unneeded_by: &[u64]| {
        let unneeded_by = unneeded_by.iter().copied().map(task_id).collect();
        store.delete_artifact(artifact_id(1), unneeded_by).await.unwrap()
    };
    let in_use = |n, name: Option<&str>| ArtifactChange::InUse { task: task_id(n), name: name.map(str::to_owned) };
    assert_eq!(delete(&[2, 3]).await, in_use(1, None));
    assert_eq!(delete(&[1, 3]).await, in_use(2, Some("gone")));
    assert_eq!(delete(&[1, 2]).await, in_use(3, Some("reads")));
    assert!(store.artifact(artifact_id(1)).await.unwrap().is_some());
    assert_eq!(delete(&[1, 2, 3]).await, ArtifactChange::Done);
    assert_eq!(store.artifact(artifact_id(1)).await.unwrap(), None);
    // Its definition is refused from now on.
    let interned = store.intern_tasks(vec![(nameless, [1; 32])]).await.unwrap();
    assert_eq!(interned, Interned::Unfit(artifact_id(1), Unfit::Unknown));
}

pub(super) async fn a_refused_artifact_leaves_its_tasks_waiting(store: &dyn Store) {
    with_artifact(store, 1).await;
    create(store, binary_task(1, "task", 1)).await;
    let nameless = Task { name: None, ..binary_task(2, "", 1) };
    store.intern_tasks(vec![(nameless.clone(), [2; 32])]).await.unwrap().ids();
    refuse(store, 1, 10).await;
    let tasks = store.tasks_by_id([1, 2].map(task_id).to_vec()).await.unwrap();
    assert!(tasks.iter().all(|task| task.waits_for == Some(artifact_id(1)) && task.revision == 1), "{tasks:?}");
    // A definition that is known already is refused for the same reason as a new one.
    let interned = store.intern_tasks(vec![(nameless, [2; 32])]).await.unwrap();
    assert_eq!(interned, Interned::Unfit(artifact_id(1), refused()));
    assert!(matches!(delete(store, artifact_id(1)).await.unwrap(), ArtifactChange::InUse { .. }));
}

pub(super) async fn unused_artifacts_go_when_they_are_old(store: &dyn Store) {
    for n in 1..4 {
        with_artifact(store, n).await;
    }
    arrive(store, 1, 50).await;
    arrive(store, 2, 50).await;
    arrive(store, 3, 70).await;
    // Asked for again, it is used again.
    store.create_artifact(NewArtifact { id: artifact_id(9), created_at: at(90), ..new_artifact(2) }).await.unwrap();
    assert_eq!(store.prune_artifacts(at(50), at(50), 10).await.unwrap(), []);
    assert_eq!(store.prune_artifacts(at(51), at(51), 10).await.unwrap(), [artifact_id(1)]);
    assert_eq!(store.prune_artifacts(at(89), at(89), 10).await.unwrap(), [artifact_id(3)]);
    assert_eq!(store.prune_artifacts(at(91), at(91), 10).await.unwrap(), [artifact_id(2)]);
    assert_eq!(store.list_artifacts(NamespaceId::DEFAULT, None, 10).await.unwrap(), []);
}

pub(super) async fn pending_artifacts_go_when_their_time_is_over(store: &dyn Store) {
    with_artifact(store, 1).await;
    with_artifact(store, 2).await;
    with_artifact(store, 3).await;
    arrive(store, 2, 50).await;
    create(store, binary_task(1, "task", 3)).await;
    let long_ago = at(-9999);
    assert_eq!(store.prune_artifacts(long_ago, at(100), 10).await.unwrap(), []);
    assert_eq!(store.prune_artifacts(long_ago, at(101), 10).await.unwrap(), [artifact_id(1)]);
    assert_eq!(store.prune_artifacts(long_ago, at(101), 10).await.unwrap(), [], "one is ready, and one is needed");
}

pub(super) async fn pruning_artifacts_stops_at_its_limit(store: &dyn Store) {
    for n in 1..6 {
        with_artifact(store, n).await;
    }
    arrive(store, 4, 10).await;
    arrive(store, 5, 5).await;
    let mut gone = Vec::new();
    for _ in 0..4 {
        gone.push(store.prune_artifacts(at(11), at(101), 2).await.unwrap());
    }
    let expected =
        [&[1, 2][..], &[3, 5], &[4], &[]].map(|ids| ids.iter().copied().map(artifact_id).collect::<Vec<_>>());
    assert_eq!(gone, expected);
}

pub(super) async fn tasks_and_arrivals_at_once_never_miss_each_other(store: &dyn Store) {
    const ROUNDS: u64 = 20;
    for n in 0..ROUNDS {
        with_artifact(store, n).await;
        let create = store.create_task(binary_task(3 * n, &format!("created-{n}"), n));
        let nameless = Task { name: None, ..binary_task(3 * n + 1, "", n) };
        let intern = store.intern_tasks(vec![(nameless, [n as u8; 32])]);
        let arrive = store.artifact_arrived(artifact_id(n), at(30), None);
        let (created, interned, arrived) = join3(create, intern, arrive).await;
        assert_eq!(created.unwrap(), TaskChange::Done);
        interned.unwrap().ids();
        let Arrival::Done(released) = arrived.unwrap() else { panic!("it was pending") };
        let tasks = store.tasks_by_id(vec![task_id(3 * n), task_id(3 * n + 1)]).await.unwrap();
        for task in tasks {
            assert_eq!(task.waits_for, None, "round {n}: {} waits for what has arrived", task.id);
            assert_eq!(task.revision == 2, released.iter().any(|released| released.id == task.id), "round {n}");
        }
    }
    // The other way round: a removal and a task that refers to it.
    let ids: Vec<u64> = (100..100 + ROUNDS).collect();
    join_all(ids.iter().map(|&n| async move {
        with_artifact(store, n).await;
        let create = store.create_task(binary_task(3 * n, &format!("created-{n}"), n));
        let (created, deleted) = join(create, delete(store, artifact_id(n))).await;
        match (created.unwrap(), deleted.unwrap()) {
            (TaskChange::Done, ArtifactChange::InUse { .. }) => {}
            (TaskChange::Unfit(_, Unfit::Unknown), ArtifactChange::Done) => {}
            other => panic!("both or neither: {other:?}"),
        }
    }))
    .await;
}
