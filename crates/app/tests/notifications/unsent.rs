//! Messages that no worker takes, and what a message calls a job whose task has no name.

use crate::world::by;
use punctual_api::DeliveryQuery;
use punctual_app::Reports;
use punctual_core::notice::{Notice, NoticeKind};
use punctual_core::schedule::{ChangeKind, ScheduleChange, Source, SourceKind};
use punctual_core::shard::write::{ScheduleWrite, Write};
use punctual_core::{JobKey, NamespaceId, Span};
use punctual_store::{NewJob, Notices, Tasks};
use punctual_store_tests::fixture::{at, nameless_task, new_job, owner_of, submit, succeed, task_id};
use punctual_store_tests::report_fixture::{notice, tell};
use punctual_store_tests::schedule_fixture::{add, change};
use serde_json::json;

use super::late::go_on;
use super::{fail, interval, mail, schedule, sent, summaries, text, with, world_with};

#[tokio::test]
async fn messages_that_nobody_sends_do_not_pile_up() {
    let world = world_with(&[("ops", with(json!({"window": "5s"})))]).await;
    let mut owner = owner_of(&world.store, &[]).await;
    let mut reports = Reports::default();
    for n in 0..10 {
        owner.done(vec![tell(&notice(NoticeKind::Failed, n * 10, 0))]).await;
        go_on(&world, &mut reports, 10).await;
    }
    let made = world.store.deliveries(NamespaceId::DEFAULT, None, None, 100).await.unwrap();
    assert_eq!(made.len(), 3, "{made:?}");
    let waiting = world.app.notification(&by(&world.app), "ops").await.unwrap().waiting.unwrap();
    assert_eq!(waiting.events, 7, "what came after them is one message");
    assert_eq!(waiting.held.as_deref(), Some("the last 3 messages have not been sent"));
    let log = world.app.deliveries(&by(&world.app), Some("ops"), DeliveryQuery::default()).await.unwrap().deliveries;
    assert!(log.iter().all(|message| message.state.as_deref() == Some("scheduled")), "{log:?}");

    // One of them is sent, and the rest follows in one message.
    owner.done(vec![succeed(JobKey::original(made[0].job), 1)]).await;
    go_on(&world, &mut reports, 60).await;
    let rows = world.store.deliveries(NamespaceId::DEFAULT, None, None, 100).await.unwrap();
    assert_eq!((rows.len(), rows[0].events), (4, 7));
}

#[tokio::test]
async fn a_message_that_no_worker_takes_is_given_up_after_a_day() {
    let world = world_with(&[("ops", mail())]).await;
    let job = new_job(1, 60, 0);
    let mut owner = owner_of(&world.store, std::slice::from_ref(&job)).await;
    fail(&mut owner, &job).await;
    world.pass(102);
    go_on(&world, &mut Reports::default(), 5).await;
    let (_, _, task, _) = sent(&world).await.pop().unwrap();
    assert_eq!(task.spec.queue_timeout, Some(Span::from_secs(86_400)));
}

#[tokio::test]
async fn a_job_without_a_named_task_is_called_by_its_schedule_or_by_what_it_runs() {
    let world = world_with(&[("ops", mail())]).await;
    let mut owner = owner_of(&world.store, &[]).await;
    world.store.intern_tasks(vec![nameless_task(7)]).await.unwrap();
    let row = schedule(1, "nightly", 2, &interval(60));
    owner.done(vec![add(&row)]).await;
    let source = Source { schedule: row.id, at: at(50), kind: SourceKind::Planned, is_tracked: false };
    let of_schedule = NewJob { task: task_id(7), source: Some(source), ..new_job(1, 60, 0) };
    let alone = NewJob { task: task_id(7), tracing_id: Some("order-4711".to_owned()), ..new_job(2, 60, 0) };
    submit(&world.store, vec![of_schedule.clone(), alone.clone()]).await.unwrap();
    let failed = |job: &NewJob, planned| Notice {
        task: Some(task_id(7)),
        job: Some(job.id),
        planned,
        ..notice(NoticeKind::Failed, 70, 0)
    };
    let mut reports = Reports::default();
    world.pass(71);
    owner.done(vec![tell(&failed(&of_schedule, Some((row.id, at(50)))))]).await;
    go_on(&world, &mut reports, 70).await;
    owner.done(vec![tell(&failed(&alone, None))]).await;
    go_on(&world, &mut reports, 70).await;
    assert_eq!(summaries(&world).await, ["nightly failed", "handler-7 failed"]);
    let (_, _, task, input) = sent(&world).await.pop().unwrap();
    assert!(text(&task, &input).contains("\ntrace    order-4711\n"), "{}", text(&task, &input));
}

#[tokio::test]
async fn a_job_is_called_by_its_schedule_also_when_that_was_deleted() {
    let world = world_with(&[("ops", mail())]).await;
    let mut owner = owner_of(&world.store, &[]).await;
    world.store.intern_tasks(vec![nameless_task(7)]).await.unwrap();
    let row = schedule(1, "nightly", 2, &interval(60));
    let deleted = ScheduleChange { note: Some(row.name.clone()), ..change(ChangeKind::Deleted, 60) };
    owner.done(vec![add(&row)]).await;
    owner.done(vec![Write::Schedule(ScheduleWrite::Drop { id: row.id, change: deleted })]).await;
    let failed =
        Notice { task: Some(task_id(7)), planned: Some((row.id, at(50))), ..notice(NoticeKind::Failed, 70, 0) };
    world.pass(71);
    owner.done(vec![tell(&failed)]).await;
    go_on(&world, &mut Reports::default(), 70).await;
    assert_eq!(summaries(&world).await, ["nightly failed"]);
}
