//! Namespaces, and that what is in one is not in another.

use std::collections::BTreeSet;

use punctual_core::attempt::Ending;
use punctual_core::namespace::{NamespaceId, NamespaceName};
use punctual_core::schedule::{ScheduleEdit, ScheduleRow, StoredCalendar, Verdict};
use punctual_core::shard::write::{Decision, FiredJob, JobWrite, Rerun, Write};
use punctual_core::task::Task;
use punctual_core::{JobId, JobState};
use punctual_store::{
    ArtifactChange, CLUSTER_SECRET, CalendarDeletion, CreatedArtifact, Dispatch, DueWindow, Filter, IdempotencyKey,
    IdempotentAnswer, Interned, JobRecord, NamespaceChange, NamespaceContent, NamespaceDeletion, NamespaceRow,
    NewArtifact, NewJob, Order, RootKeyId, RuleDeletion, RuleRow, ScheduleFilter, SealedKey, SecretChange, SecretRow,
    Store, Submission, Submitted, TaskChange, Unfit, data_key_label,
};

use crate::fixture::*;
use crate::report_fixture::*;
use crate::schedule_fixture::{add, by, decide, drop_it, edit, fired, key_of, new_schedule, schedule_id, unfired};

const BOTH: [NamespaceId; 2] = [NamespaceId::DEFAULT, NamespaceId(1)];
const TENANT: NamespaceId = BOTH[1];

fn name(text: &str) -> NamespaceName {
    text.parse().expect("the name of a namespace")
}

async fn created(store: &dyn Store, text: &str) -> NamespaceRow {
    match store.create_namespace(name(text), "{}".to_owned(), by("ada", 10)).await.unwrap() {
        NamespaceChange::Done(row) => row,
        other => panic!("it was not created: {other:?}"),
    }
}

async fn deleted(store: &dyn Store, id: NamespaceId) -> NamespaceDeletion {
    store.delete_namespace(id, None, by("bob", 30)).await.unwrap()
}

pub(super) async fn the_default_namespace_always_exists(store: &dyn Store) {
    let all = store.namespaces().await.unwrap();
    let row = &all.rows[0];
    assert_eq!((all.rows.len(), row.id, row.name.as_str(), row.revision), (1, NamespaceId::DEFAULT, "default", 1));
    assert_eq!(store.namespaces_revision().await.unwrap(), all.revision);
    assert_eq!(deleted(store, NamespaceId::DEFAULT).await, NamespaceDeletion::IsDefault);
    let taken = store.create_namespace(name("default"), "{}".to_owned(), by("ada", 10)).await.unwrap();
    assert_eq!(taken, NamespaceChange::NameTaken);
    let changed = store.update_namespace(NamespaceId::DEFAULT, 1, "{\"a\":1}".to_owned(), by("ada", 20)).await.unwrap();
    assert!(
        matches!(&changed, NamespaceChange::Done(row) if row.revision == 2 && row.spec == "{\"a\":1}"),
        "{changed:?}"
    );
}

pub(super) async fn the_number_of_a_namespace_is_never_given_again(store: &dyn Store) {
    let first = created(store, "team-a").await;
    assert_eq!((first.id, first.revision, first.deleted_at), (NamespaceId(1), 1, None));
    assert_eq!((first.created_at, first.created_by.as_str()), (at(10), "ada"));
    assert_eq!(deleted(store, first.id).await, NamespaceDeletion::Done);
    assert_eq!(deleted(store, first.id).await, NamespaceDeletion::Absent);
    let second = created(store, "team-a").await;
    assert_eq!(second.id, NamespaceId(2), "the name is free and the number is not");
    let rows = store.namespaces().await.unwrap().rows;
    let gone = NamespaceRow {
        revision: 2,
        changed_at: at(30),
        changed_by: "bob".to_owned(),
        deleted_at: Some(at(30)),
        ..first.clone()
    };
    assert_eq!(rows[1..], [gone, second]);
    let late = store.update_namespace(first.id, 2, "{}".to_owned(), by("ada", 40)).await.unwrap();
    assert_eq!(late, NamespaceChange::Absent);
    // Its row goes when nothing of its history can be there.
    store.prune(at(31), at(31), 100).await.unwrap();
    assert_eq!(store.namespaces().await.unwrap().rows.iter().map(|row| row.id.0).collect::<Vec<_>>(), [0, 2]);
    assert_eq!(created(store, "team-b").await.id, NamespaceId(3));
}

pub(super) async fn a_namespace_is_changed_only_from_the_expected_revision(store: &dyn Store) {
    let row = created(store, "team-a").await;
    let before = store.namespaces_revision().await.unwrap();
    let update = async |expected| store.update_namespace(row.id, expected, "{\"b\":2}".to_owned(), by("bob", 20)).await;
    assert_eq!(update(2).await.unwrap(), NamespaceChange::Conflict { revision: 1 });
    assert_eq!(store.namespaces_revision().await.unwrap(), before, "nothing was changed");
    let expected = NamespaceRow {
        revision: 2,
        spec: "{\"b\":2}".to_owned(),
        changed_at: at(20),
        changed_by: "bob".to_owned(),
        ..row.clone()
    };
    assert_eq!(update(1).await.unwrap(), NamespaceChange::Done(expected.clone()));
    assert!(store.namespaces_revision().await.unwrap() > before);
    assert_eq!(store.namespaces().await.unwrap().rows[1], expected);
    let stale = store.delete_namespace(row.id, Some(1), by("bob", 30)).await.unwrap();
    assert_eq!(stale, NamespaceDeletion::Conflict { revision: 2 });
    assert_eq!(store.delete_namespace(row.id, Some(2), by("bob", 30)).await.unwrap(), NamespaceDeletion::Done);
}

pub(super) async fn a_namespace_that_is_deleted_takes_its_data_keys_with_it(store: &dyn Store) {
    let (gone, stays) = (created(store, "team-a").await.id, created(store, "team-b").await.id);
    let first = data_key_label(gone);
    let of_others =
        [CLUSTER_SECRET.to_owned(), data_key_label(NamespaceId::DEFAULT), data_key_label(stays), format!("{first}0")];
    let of_namespace = [first.clone(), format!("{first}/00001795622400000000")];
    for label in of_others.iter().chain(&of_namespace) {
        let key = SealedKey { label: label.clone(), root_key: RootKeyId([1; 8]), sealed: vec![1; 72] };
        store.keep_sealed_key(key).await.unwrap();
    }
    assert_eq!(deleted(store, gone).await, NamespaceDeletion::Done);
    let left: BTreeSet<String> = store.sealed_keys().await.unwrap().into_iter().map(|key| key.label).collect();
    assert_eq!(left, BTreeSet::from(of_others));
}

fn task_in(namespace: NamespaceId, n: u64, called: &str) -> Task {
    Task { namespace, ..named_task(n, called) }
}

/// The same name in each namespace.
async fn with_tasks(store: &dyn Store) {
    for (namespace, n) in BOTH.into_iter().zip(1..) {
        assert_eq!(store.create_task(task_in(namespace, n, "report")).await.unwrap(), TaskChange::Done);
    }
}

/// Number 1 is the task of the default namespace, 2 that of the tenant.
fn job_in(namespace: NamespaceId, n: u64, due_secs: i64) -> NewJob {
    let task = task_id(1 + u64::from(namespace.0));
    NewJob { namespace, task, ..new_job(n, due_secs, (n % 4) as u16) }
}

pub(super) async fn a_namespace_that_is_in_use_is_not_deleted(store: &dyn Store) {
    let id = created(store, "team-a").await.id;
    let in_use = NamespaceDeletion::InUse;
    with_tasks(store).await;
    let schedule = ScheduleRow {
        namespace: id,
        edit: ScheduleEdit { task: task_id(2), ..edit(1) },
        ..new_schedule(1, "nightly", 1)
    };
    let job = job_in(id, 1, 10);
    assert_eq!(submit(store, vec![job.clone()]).await.unwrap(), Submitted::Done);
    let mut owner = Owner::new(store, 1).await;
    owner.done(vec![add(&schedule)]).await;
    store.create_artifact(NewArtifact { namespace: id, ..new_artifact(1) }).await.unwrap();
    store.put_calendar(calendar(id, "holidays"), None).await.unwrap();
    store.put_secret(secret(id, "token")).await.unwrap();
    store.put_rule(RuleRow { namespace: id, ..new_rule("ops") }, None).await.unwrap();
    assert_eq!(deleted(store, id).await, in_use(NamespaceContent::Schedules));
    owner.done(vec![drop_it(schedule.id, 20)]).await;
    assert_eq!(deleted(store, id).await, in_use(NamespaceContent::Tasks));
    assert_eq!(store.delete_task(task_id(2), None).await.unwrap(), TaskChange::Done);
    assert_eq!(deleted(store, id).await, in_use(NamespaceContent::Jobs));
    owner.done(vec![start(original(&job), 1)]).await;
    owner.done(vec![succeed(original(&job), 1)]).await;
    assert_eq!(deleted(store, id).await, in_use(NamespaceContent::Artifacts));
    assert_eq!(store.delete_artifact(artifact_id(1), Vec::new()).await.unwrap(), ArtifactChange::Done);
    assert_eq!(deleted(store, id).await, in_use(NamespaceContent::Calendars));
    assert_eq!(store.delete_calendar(id, "holidays", None).await.unwrap(), CalendarDeletion::Done);
    assert_eq!(deleted(store, id).await, in_use(NamespaceContent::Secrets));
    assert!(store.delete_secret(id, "token").await.unwrap());
    assert_eq!(deleted(store, id).await, in_use(NamespaceContent::Rules));
    assert_eq!(store.delete_rule(id, "ops", None).await.unwrap(), RuleDeletion::Done);
    assert_eq!(deleted(store, id).await, NamespaceDeletion::Done, "history goes by retention");
    assert!(store.job(job.id).await.unwrap().is_some());
}

fn calendar(namespace: NamespaceId, called: &str) -> StoredCalendar {
    let dates = ["2026-12-25".parse().expect("a date")].into();
    StoredCalendar { namespace, name: called.to_owned(), dates, revision: 0, changed: by("ada", 1) }
}

fn secret(namespace: NamespaceId, called: &str) -> SecretRow {
    let (created, changed) = (by("ada", 1), by("ada", 1));
    SecretRow { namespace, name: called.to_owned(), revision: 1, sealed: vec![namespace.0 as u8], created, changed }
}

pub(super) async fn tasks_of_one_name_and_content_are_one_in_each_namespace(store: &dyn Store) {
    with_tasks(store).await;
    assert_eq!(store.create_task(task_in(TENANT, 3, "report")).await.unwrap(), TaskChange::NameTaken);
    for (namespace, n) in BOTH.into_iter().zip(1..) {
        let found = store.task_by_name(namespace, "report").await.unwrap();
        assert_eq!(found, Some(task_in(namespace, n, "report")));
        assert_eq!(store.list_tasks(namespace, None, 10).await.unwrap(), [task_in(namespace, n, "report")]);
    }
    assert_eq!(store.task_by_name(NamespaceId(7), "report").await.unwrap(), None);
    let (content, digest) = nameless_task(1);
    let one = (Task { id: task_id(11), ..content.clone() }, digest);
    let other = (Task { id: task_id(12), namespace: TENANT, ..content }, digest);
    for (task, expected) in [(&one, 11), (&other, 12), (&one, 11), (&other, 12)] {
        let interned = store.intern_tasks(vec![task.clone()]).await.unwrap();
        assert_eq!(interned, Interned::Done(vec![task_id(expected)]));
    }
}

pub(super) async fn schedules_and_calendars_of_one_name_are_one_in_each_namespace(store: &dyn Store) {
    with_tasks(store).await;
    let mut owner = Owner::new(store, 1).await;
    let rows = BOTH.map(|namespace| {
        let n = 1 + u64::from(namespace.0);
        let edit = ScheduleEdit { task: task_id(n), calendars: vec!["holidays".to_owned()], ..edit(1) };
        ScheduleRow { namespace, edit, ..new_schedule(n, "nightly", 1) }
    });
    for row in &rows {
        store.put_calendar(calendar(row.namespace, "holidays"), Some(0)).await.unwrap();
        owner.done(vec![add(row)]).await;
    }
    for row in &rows {
        let namespace = row.namespace;
        let names = vec!["nightly".to_owned()];
        assert_eq!(store.schedule_ids(namespace, names).await.unwrap(), [("nightly".to_owned(), row.id)]);
        for (task, expected) in [(None, 1), (Some(row.edit.task), 1), (Some(task_id(3 - row.id_number())), 0)] {
            let filter = ScheduleFilter { namespace, task, ..ScheduleFilter::default() };
            let (found, _) = store.list_schedules(filter, None, 10).await.unwrap();
            assert_eq!(found.iter().filter(|found| found.id == row.id).count(), expected);
            assert_eq!(found.len(), expected);
        }
        let users = store.schedules_with_calendars(vec![(namespace, "holidays".to_owned())], None, 10).await.unwrap();
        assert_eq!(users.iter().map(|user| (user.id, user.namespace)).collect::<Vec<_>>(), [(row.id, namespace)]);
        let known = store.calendar(namespace, "holidays").await.unwrap().map(|known| known.namespace);
        assert_eq!(known, Some(namespace));
        assert_eq!(store.calendars(Some(namespace)).await.unwrap().len(), 1);
    }
    assert_eq!(store.calendars(None).await.unwrap().len(), 2);
    // The one whose schedule is gone is free, and the other is not.
    owner.done(vec![drop_it(rows[1].id, 20)]).await;
    let in_use = CalendarDeletion::InUse(vec!["nightly".to_owned()]);
    assert_eq!(store.delete_calendar(NamespaceId::DEFAULT, "holidays", None).await.unwrap(), in_use);
    assert_eq!(store.delete_calendar(TENANT, "holidays", None).await.unwrap(), CalendarDeletion::Done);
    assert!(store.calendar(NamespaceId::DEFAULT, "holidays").await.unwrap().is_some());
}

/// Schedules of these cases have the numbers of their tasks.
trait Numbered {
    fn id_number(&self) -> u64;
}

impl Numbered for ScheduleRow {
    fn id_number(&self) -> u64 {
        (1..3).find(|n| schedule_id(*n, 1) == self.id).expect("it is one of the two")
    }
}

pub(super) async fn an_artifact_is_known_only_in_its_namespace(store: &dyn Store) {
    let new = |namespace, n| NewArtifact { namespace, id: artifact_id(n), ..new_artifact(1) };
    for (namespace, n) in BOTH.into_iter().zip(1..) {
        let made = store.create_artifact(new(namespace, n)).await.unwrap();
        assert!(matches!(&made, CreatedArtifact::New(artifact) if artifact.namespace == namespace), "{made:?}");
        let again = store.create_artifact(new(namespace, n + 10)).await.unwrap();
        assert!(matches!(&again, CreatedArtifact::Known(artifact) if artifact.id == artifact_id(n)), "{again:?}");
    }
    for (namespace, n) in BOTH.into_iter().zip(1..) {
        let listed = store.list_artifacts(namespace, None, 10).await.unwrap();
        assert_eq!(listed.iter().map(|artifact| artifact.id).collect::<Vec<_>>(), [artifact_id(n)]);
        let own = Task { namespace, ..binary_task(n, "own", n) };
        assert_eq!(store.create_task(own).await.unwrap(), TaskChange::Done);
        // Also one that is ready is not there for others.
        store.artifact_arrived(artifact_id(n), at(5), None).await.unwrap();
        let other = 3 - n;
        let foreign = Task { namespace, ..binary_task(10 + n, "foreign", other) };
        let change = store.create_task(foreign).await.unwrap();
        assert_eq!(change, TaskChange::Unfit(artifact_id(other), Unfit::Unknown));
        let (nameless, digest) = nameless_task(n);
        let nameless = Task { namespace, spec: binary_spec(other), ..nameless };
        let interned = store.intern_tasks(vec![(nameless, digest)]).await.unwrap();
        assert_eq!(interned, Interned::Unfit(artifact_id(other), Unfit::Unknown));
    }
    assert_eq!(store.pending_artifacts(None, 10).await.unwrap(), []);
}

pub(super) async fn rules_secrets_and_deliveries_of_one_name_are_one_in_each_namespace(store: &dyn Store) {
    with_tasks(store).await;
    for namespace in BOTH {
        store.put_rule(RuleRow { namespace, ..new_rule("ops") }, Some(0)).await.unwrap();
        assert_eq!(store.put_secret(secret(namespace, "token")).await.unwrap(), SecretChange::Done);
    }
    let mut rule = update("ops", 0, "theirs");
    rule.namespace = TENANT;
    let mut sent = delivery("ops", 10, job_id(1, 10, 0));
    sent.namespace = TENANT;
    let ailing = vec![ailing(2, 1, 10)];
    dispatched(store, Dispatch { rules: vec![rule], deliveries: vec![sent.clone()], ailing, ..Dispatch::default() })
        .await;
    let state = async |namespace| store.rule(namespace, "ops").await.unwrap().and_then(|row| row.state);
    assert_eq!((state(NamespaceId::DEFAULT).await, state(TENANT).await.as_deref()), (None, Some("theirs")));
    assert_eq!(store.rules(Some(TENANT)).await.unwrap().len(), 1);
    assert_eq!(store.rules(None).await.unwrap().len(), 2);
    for rule in [None, Some("ops".to_owned())] {
        assert_eq!(store.deliveries(NamespaceId::DEFAULT, rule.clone(), None, 10).await.unwrap(), []);
        assert_eq!(store.deliveries(TENANT, rule, None, 10).await.unwrap(), [sent.clone()]);
    }
    assert_eq!(store.ailing(Some(NamespaceId::DEFAULT), 10).await.unwrap(), []);
    assert_eq!(store.ailing(Some(TENANT), 10).await.unwrap().len(), 1);
    assert_eq!(store.ailing(None, 10).await.unwrap().len(), 1);
    assert_eq!(store.secrets(TENANT).await.unwrap(), [secret(TENANT, "token")]);
    assert!(store.delete_secret(NamespaceId::DEFAULT, "token").await.unwrap());
    assert_eq!(store.delete_rule(NamespaceId::DEFAULT, "ops", None).await.unwrap(), RuleDeletion::Done);
    assert_eq!((store.secrets(TENANT).await.unwrap().len(), store.rules(None).await.unwrap().len()), (1, 1));
}

pub(super) async fn an_idempotency_key_is_one_in_each_namespace(store: &dyn Store) {
    with_tasks(store).await;
    let submission = |namespace: NamespaceId, n| {
        let answer = IdempotentAnswer {
            key: IdempotencyKey { namespace, key: "k".to_owned() },
            fingerprint: [7; 32],
            answer: text(&format!("answer {namespace}")),
            now: at(0),
            expires_at: at(100),
        };
        Submission { jobs: vec![job_in(namespace, n, 10)], idempotency: Some(answer), batch: None }
    };
    for (namespace, n) in BOTH.into_iter().zip(1..) {
        assert_eq!(store.submit(submission(namespace, n)).await.unwrap(), Submitted::Done);
    }
    for (namespace, n) in BOTH.into_iter().zip(11..) {
        let answer = text(&format!("answer {namespace}"));
        assert_eq!(store.submit(submission(namespace, n)).await.unwrap(), Submitted::Replayed { answer });
    }
    let elsewhere = IdempotencyKey { namespace: NamespaceId(2), key: "k".to_owned() };
    assert_eq!(store.idempotent_answer(elsewhere, [7; 32], at(0)).await.unwrap(), None);
}

pub(super) async fn a_job_is_in_the_namespace_of_its_task(store: &dyn Store) {
    with_tasks(store).await;
    for (namespace, task) in [(TENANT, 1), (NamespaceId::DEFAULT, 2)] {
        let stray = NewJob { namespace, task: task_id(task), ..new_job(1, 10, 0) };
        assert_inconsistent(submit(store, vec![stray]).await);
    }
    let mut owner = Owner::new(store, 1).await;
    for namespace in BOTH {
        let n = 1 + u64::from(namespace.0);
        let schedule = ScheduleRow {
            namespace,
            edit: ScheduleEdit { task: task_id(n), ..edit(1) },
            ..new_schedule(n, "nightly", 1)
        };
        let made = fired(schedule.id, 60, n);
        let made = Decision { job: made.job.map(|job| FiredJob { task: task_id(n), ..job }), ..made };
        let missed = unfired(schedule.id, 50, Verdict::Missed);
        owner.done(vec![add(&schedule), decide(&made), decide(&missed)]).await;
        let job = store.job(key_of(&made).id).await.unwrap();
        assert!(matches!(&job, Some(JobRecord::Hot { job, .. }) if job.namespace == namespace), "{job:?}");
    }
}

/// What is listed of each table, in this order.
async fn listed(store: &dyn Store, filter: &Filter, order: Order) -> [Vec<JobId>; 2] {
    let hot = hot_page(store, filter.clone(), first_page(order, 100)).await;
    let finished = finished_page(store, filter.clone(), first_page(order, 100)).await;
    let wanted = filter.namespace.expect("the cases ask for one");
    assert!(hot.rows.iter().all(|job| job.namespace == wanted));
    assert!(finished.rows.iter().all(|job| job.namespace == wanted));
    [hot.rows.iter().map(|job| job.key.id).collect(), finished.rows.iter().map(|job| job.id).collect()]
}

pub(super) async fn a_list_of_one_namespace_never_shows_the_jobs_of_another(store: &dyn Store) {
    with_tasks(store).await;
    let jobs: Vec<NewJob> = (1..=40)
        .map(|n| NewJob {
            tracing_id: (n % 4 == 0).then(|| "traced".to_owned()),
            ..job_in(BOTH[(n / 2 % 2) as usize], n, 10 * n as i64)
        })
        .collect();
    assert_eq!(submit(store, jobs.clone()).await.unwrap(), Submitted::Done);
    let mut owner = Owner::new(store, 1).await;
    // Some end well or badly, and some are moved.
    for (place, job) in jobs.iter().enumerate() {
        let key = original(job);
        let writes = match place % 4 {
            0 => vec![start(key, 1), succeed(key, 1)],
            1 => vec![Write::Job(JobWrite::Settle(settled(key, 1, JobState::Failed, Ending::Failed)))],
            2 => vec![Write::Job(JobWrite::Requeue(retried(key, 1, at(1000 + place as i64))))],
            _ => continue,
        };
        for write in writes {
            owner.done(vec![write]).await;
        }
    }
    for namespace in BOTH {
        let own = || jobs.iter().enumerate().filter(|(_, job)| job.namespace == namespace);
        let of = |finished: bool, fits: &dyn Fn(&(usize, &NewJob)) -> bool| -> BTreeSet<JobId> {
            let wanted = own().filter(|(place, _)| (place % 4 < 2) == finished).filter(|one| fits(one));
            wanted.map(|(_, job)| job.id).collect()
        };
        let plain = Filter { namespace: Some(namespace), ..Filter::default() };
        let traced = Filter { tracing_id: Some("traced".to_owned()), ..plain.clone() };
        let of_task = Filter { task: Some(task_id(1 + u64::from(namespace.0))), ..plain.clone() };
        let foreign = Filter { task: Some(task_id(2 - u64::from(namespace.0))), ..plain.clone() };
        let failed = Filter { states: vec![JobState::Failed], ..plain.clone() };
        for order in [Order::Ascending, Order::Descending] {
            let check = async |filter: &Filter, hot: BTreeSet<JobId>, finished: BTreeSet<JobId>| {
                let [listed_hot, listed_finished] = listed(store, filter, order).await;
                assert_eq!(BTreeSet::from_iter(listed_hot), hot, "{filter:?}");
                assert_eq!(BTreeSet::from_iter(listed_finished), finished, "{filter:?}");
            };
            let all = |_: &(usize, &NewJob)| true;
            let is_traced = |(_, job): &(usize, &NewJob)| job.tracing_id.is_some();
            check(&plain, of(false, &all), of(true, &all)).await;
            check(&traced, of(false, &is_traced), of(true, &is_traced)).await;
            check(&of_task, of(false, &all), of(true, &all)).await;
            check(&foreign, BTreeSet::new(), BTreeSet::new()).await;
            check(&failed, of(false, &all), of(true, &|(place, _)| place % 4 == 1)).await;
        }
        let window = DueWindow { namespace: Some(namespace), from: at(0), before: at(10_000), after: None };
        let due = store.list_due(window, 100).await.unwrap().rows;
        assert_eq!(due.iter().map(|job| job.key.id).collect::<BTreeSet<_>>(), of(false, &|_| true));
    }
}

pub(super) async fn a_job_stays_in_its_namespace_whatever_becomes_of_it(store: &dyn Store) {
    with_tasks(store).await;
    let job = job_in(TENANT, 1, 10);
    assert_eq!(submit(store, vec![job.clone()]).await.unwrap(), Submitted::Done);
    let mut owner = Owner::new(store, 1).await;
    let is_listed = async || {
        let filter = Filter { namespace: Some(TENANT), ..Filter::default() };
        let [hot, finished] = listed(store, &filter, Order::Ascending).await;
        let default = Filter { namespace: Some(NamespaceId::DEFAULT), ..Filter::default() };
        assert_eq!(listed(store, &default, Order::Ascending).await, [Vec::new(), Vec::new()]);
        assert_eq!(store.namespace_of_job(job.id).await.unwrap(), Some(TENANT));
        (hot.len(), finished.len())
    };
    assert_eq!(is_listed().await, (1, 0));
    assert_eq!(store.namespace_of_job(job_id(9, 10, 1)).await.unwrap(), None);
    let moved = retried(original(&job), 1, at(50));
    owner.done(vec![Write::Job(JobWrite::Requeue(moved))]).await;
    assert_eq!(is_listed().await, (1, 0));
    let key = punctual_core::JobKey { due_at: at(50), id: job.id };
    owner.done(vec![Write::Job(JobWrite::Settle(settled(key, 2, JobState::Failed, Ending::Failed)))]).await;
    assert_eq!(is_listed().await, (0, 1));
    let again = Rerun { id: job.id, due_at: at(200), counters: counters(3, 0, 0) };
    owner.done(vec![Write::Job(JobWrite::Rerun(again))]).await;
    assert_eq!(is_listed().await, (1, 0));
}
