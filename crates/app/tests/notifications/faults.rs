//! Rows that nobody can read, and what is told all the same.

use punctual_app::Reports;
use punctual_core::notice::{Notice, NoticeKind};
use punctual_store::Notices;
use punctual_store_tests::fixture::{new_job, owner_of, task_id};
use punctual_store_tests::report_fixture::{notice, tell};
use punctual_store_tests::schedule_fixture::add;
use serde_json::json;

use super::{interval, mail, report, schedule, sent, summaries, text, with, world_with};

#[tokio::test]
async fn a_job_that_cannot_be_read_is_told_by_its_id() {
    let world = world_with(&[("ops", mail())]).await;
    let (spoiled, sound) = (new_job(1, 10, 0), new_job(2, 11, 0));
    let mut owner = owner_of(&world.store, &[spoiled.clone(), sound.clone()]).await;
    world.store.spoil(spoiled.id);
    for job in [&spoiled, &sound] {
        let failed = Notice { task: None, job: Some(job.id), ..notice(NoticeKind::Failed, 20, 0) };
        owner.done(vec![tell(&failed)]).await;
    }
    world.pass(60);
    report(&world, &mut Reports::default()).await;
    let (_, events, task, input) = sent(&world).await.pop().unwrap();
    let text = text(&task, &input);
    assert_eq!(events, 2);
    assert!(text.contains(&spoiled.id.to_string()) && text.contains(&sound.id.to_string()), "{text}");
    assert_eq!(world.store.waiting_notices(10).await.unwrap(), []);
}

#[tokio::test]
async fn tasks_and_schedules_that_cannot_be_read_do_not_hide_others() {
    let world = world_with(&[
        ("all", with(json!({"on": ["failed", "missed", "late"]}))),
        ("one-task", with(json!({"tasks": ["report"]}))),
        ("one-schedule", with(json!({"schedules": ["backup"]}))),
    ])
    .await;
    let mut owner = owner_of(&world.store, &[]).await;
    let row = schedule(1, "backup", 2, &interval(60));
    owner.done(vec![add(&row)]).await;
    world.store.spoil(task_id(99));
    world.store.spoil(row.id);
    let of_spoiled_task = Notice { task: Some(task_id(99)), ..notice(NoticeKind::Failed, 1, 1) };
    let planned = Some((row.id, row.created.at));
    let missed = Notice { task: Some(task_id(99)), planned, ..notice(NoticeKind::Missed, 1, 2) };
    let late = Notice { planned, ..notice(NoticeKind::Late, 1, 2) };
    owner.done(vec![tell(&of_spoiled_task), tell(&missed), tell(&late), tell(&notice(NoticeKind::Failed, 1, 0))]).await;
    world.pass(60);
    report(&world, &mut Reports::default()).await;
    let mut told = summaries(&world).await;
    told.sort_unstable();
    let by_schedule = format!("{} missed its time", row.name);
    assert_eq!(told, ["2 failed, 1 missed in 2 tasks", &by_schedule, "report failed"]);
}
