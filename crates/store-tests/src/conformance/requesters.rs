//! Who asked for jobs, and who gave commands on them.

use punctual_core::Span;
use punctual_core::shard::write::{CancelMark, JobWrite, Rerun, Settle};
use punctual_core::{Counters, JobId, JobKey, JobState};
use punctual_store::{
    IdentityId, JOB_ACTIONS_MAX, JobAction, JobActionKind, NewJob, Requester, RequesterId, Store, TaskChange,
};

use crate::fixture::{at, named_task, new_job, owner_of, submit, task_id, text, with_task};

fn requester(name: &str, user: Option<u64>) -> Requester {
    Requester { kind: "person".to_owned(), name: name.to_owned(), user: user.map(IdentityId) }
}

pub(super) async fn a_requester_has_one_number_for_ever(store: &dyn Store) {
    let ana = store.requester_id(requester("user:ana", Some(u64::MAX))).await.unwrap();
    assert_eq!(store.requester_id(requester("user:ana", Some(u64::MAX))).await.unwrap(), ana);
    let namesake = store.requester_id(requester("user:ana", Some(8))).await.unwrap();
    let key = Requester { kind: "key".to_owned(), ..requester("user:ana", None) };
    let key_id = store.requester_id(key.clone()).await.unwrap();
    let numbers = [ana, namesake, key_id];
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
    let asked = vec![key_id, ana, RequesterId(9999), ana];
    let found = store.requesters(asked).await.unwrap();
    assert_eq!(found, [(ana, requester("user:ana", Some(u64::MAX))), (key_id, key)]);
}

async fn submitted_by(store: &dyn Store, id: JobId) -> Option<RequesterId> {
    store.job(id).await.unwrap().unwrap().requester()
}

/// Also jobs that are stored together with others that have more to say.
pub(super) async fn a_job_keeps_its_requester_whatever_becomes_of_it(store: &dyn Store) {
    let by = |n, requester| NewJob { requester, ..new_job(n, 10 + n as i64, 1) };
    let plain = [by(1, Some(RequesterId(3))), by(2, None)];
    let mut owner = owner_of(store, &plain).await;
    let more = NewJob { input: Some(text("in")), ..by(3, Some(RequesterId(4))) };
    submit(store, vec![more.clone(), by(4, Some(RequesterId(5)))]).await.unwrap();
    for (job, expected) in [(&plain[0], Some(3)), (&plain[1], None), (&more, Some(4)), (&by(4, None), Some(5))] {
        assert_eq!(submitted_by(store, job.id).await, expected.map(RequesterId));
    }
    for job in [&plain[0], &more] {
        let settle = Settle {
            key: JobKey::original(job.id),
            state: JobState::Cancelled,
            finished_at: at(20),
            counters: Counters::NEW,
            attempt: None,
            reason: None,
            output: None,
            cancel: CancelMark::None,
            notice: None,
            success_of: None,
            node: None,
            member: None,
        };
        owner.done(vec![JobWrite::Settle(settle).into()]).await;
        assert_eq!(submitted_by(store, job.id).await, job.requester, "in history");
        let rerun = Rerun { id: job.id, due_at: at(30), counters: Counters::NEW };
        owner.done(vec![JobWrite::Rerun(rerun).into()]).await;
        assert_eq!(submitted_by(store, job.id).await, job.requester, "and when it waits again");
    }
}

pub(super) async fn commands_on_a_job_are_on_record_as_long_as_the_job(store: &dyn Store) {
    let job = new_job(1, 10, 1);
    owner_of(store, std::slice::from_ref(&job)).await;
    let action = |secs, kind| JobAction { job: job.id, at: at(secs), kind, by: RequesterId(secs as u32) };
    let asked =
        [action(20, JobActionKind::Cancel), action(30, JobActionKind::Retry), action(25, JobActionKind::Delete)];
    for action in asked {
        store.keep_job_action(action).await.unwrap();
    }
    // One that comes later stands later, whatever the clock of its server says.
    let last = JobAction { at: at(30) + Span::from_micros(1), ..asked[2] };
    assert_eq!(store.job_actions(job.id).await.unwrap(), [asked[0], asked[1], last]);
    assert_eq!(store.job_actions(new_job(2, 10, 1).id).await.unwrap(), []);
    for n in 0..JOB_ACTIONS_MAX as i64 {
        store.keep_job_action(action(100 + n, JobActionKind::RunNow)).await.unwrap();
    }
    let kept = store.job_actions(job.id).await.unwrap();
    assert_eq!((kept.len(), kept[0].at), (JOB_ACTIONS_MAX, at(100)), "the latest are kept");
}

pub(super) async fn a_task_says_who_made_it_and_who_changed_it(store: &dyn Store) {
    with_task(store).await;
    let unknown = store.task_by_name(named_task(1, "").namespace, "report").await.unwrap().unwrap();
    assert_eq!((unknown.created_by, unknown.changed_by), (None, None));
    let mut task = named_task(2, "mail");
    (task.created_by, task.changed_by) = (Some("user:ana".into()), Some("user:ana".into()));
    assert_eq!(store.create_task(task.clone()).await.unwrap(), TaskChange::Done);
    assert_eq!(store.tasks_by_id(vec![task_id(2)]).await.unwrap(), [task.clone()]);
    (task.revision, task.changed_by) = (2, Some("key:deploy".into()));
    // Who made it does not change.
    let update = punctual_core::task::Task { created_by: Some("nobody".into()), ..task.clone() };
    assert_eq!(store.update_task(update).await.unwrap(), TaskChange::Done);
    assert_eq!(store.task_by_name(task.namespace, "mail").await.unwrap(), Some(task.clone()));
    assert_eq!(store.list_tasks(task.namespace, Some("a".to_owned()), 1).await.unwrap(), [task]);
}
