//! What is told when another server takes the reports over, and when what a rule names is gone.

use crate::world::by;
use punctual_app::{Precondition, Reports};
use punctual_core::notice::{Notice, NoticeKind};
use punctual_core::schedule::ScheduleRow;
use punctual_core::{JobId, NamespaceId};
use punctual_store::{Dispatch, Dispatched, NewJob, Notices, RuleUpdate};
use punctual_store_tests::fixture::{new_job, owner_of, submit};
use punctual_store_tests::report_fixture::{notice, tell};
use punctual_store_tests::schedule_fixture::{add, drop_it};
use serde_json::json;

use super::late::{events, go_on, late_rule, patient, run_of, started};
use super::{interval, mail, rule, schedule, sent, summaries, text, with, world_with};

#[tokio::test]
async fn a_late_job_that_one_server_told_of_is_not_told_by_the_next_when_it_starts() {
    let rule = with(json!({"on": ["late"], "late_after": "60s", "window": "5s"}));
    let world = world_with(&[("late", rule)]).await;
    let jobs: Vec<NewJob> = [(1, 10), (2, 12), (3, 120)].map(|(n, due)| new_job(n, due, 0)).into();
    let mut owner = owner_of(&world.store, &jobs).await;
    go_on(&world, &mut Reports::default(), 90).await;
    assert_eq!(events(&world).await, 2, "they were told as they waited");
    // Nobody looks for a while; one starts then, and the other when somebody looks again.
    world.pass(10);
    owner.done(vec![tell(&started(&jobs[0], 95, 85))]).await;
    let mut next = Reports::default();
    go_on(&world, &mut next, 20).await;
    owner.done(vec![tell(&started(&jobs[1], 110, 98))]).await;
    go_on(&world, &mut next, 100).await;
    assert_eq!(events(&world).await, 3, "only the third is new");
    owner.done(vec![tell(&started(&jobs[2], 230, 110))]).await;
    go_on(&world, &mut Reports::default(), 100).await;
    assert_eq!(events(&world).await, 3);
}

#[tokio::test]
async fn a_late_job_that_started_while_nobody_looked_is_told() {
    let world = world_with(&[("late", late_rule())]).await;
    let job = new_job(1, 100, 0);
    let mut owner = owner_of(&world.store, &[]).await;
    go_on(&world, &mut Reports::default(), 150).await;
    // It was late at 160.
    world.pass(50);
    owner.done(vec![tell(&started(&job, 190, 90))]).await;
    go_on(&world, &mut Reports::default(), 100).await;
    assert_eq!(events(&world).await, 1);
}

#[tokio::test]
async fn the_longer_limit_of_a_schedule_outlives_the_server_that_found_it() {
    let world = world_with(&[("late", late_rule())]).await;
    let mut owner = owner_of(&world.store, &[]).await;
    let patient = patient(&mut owner).await;
    let job = run_of(&patient, 10);
    submit(&world.store, vec![job.clone()]).await.unwrap();
    // Each is there for a part of the time.
    for _ in 0..25 {
        go_on(&world, &mut Reports::default(), 10).await;
    }
    assert_eq!(events(&world).await, 1);
    owner.done(vec![tell(&started(&job, 250, 240))]).await;
    go_on(&world, &mut Reports::default(), 100).await;
    assert_eq!(events(&world).await, 1);
}

#[tokio::test]
async fn whoever_knows_a_former_rule_does_not_write_over_one_with_its_name() {
    let world = world_with(&[("ops", mail())]).await;
    let former = world.store.rule(NamespaceId::DEFAULT, "ops").await.unwrap().unwrap();
    world.app.delete_notification(&by(&world.app), "ops", Precondition::None).await.unwrap();
    world.app.put_notification(&by(&world.app), "ops", rule(mail()), Precondition::None).await.unwrap();
    let state = Some("of the former".to_owned());
    let update = RuleUpdate { namespace: NamespaceId::DEFAULT, name: "ops".to_owned(), version: former.version, state };
    let dispatch = Dispatch { rules: vec![update], ..Dispatch::default() };
    assert_eq!(world.store.dispatch(dispatch).await.unwrap(), Dispatched::Conflict);
}

#[tokio::test]
async fn a_rule_for_a_schedule_tells_of_jobs_that_outlive_it() {
    let rules = [("nights", with(json!({"schedules": ["nightly", "other"], "window": "5s"})))];
    let world = world_with(&rules).await;
    let mut owner = owner_of(&world.store, &[]).await;
    let fail = |job: JobId, row: &ScheduleRow, secs| {
        let planned = Some((row.id, row.created.at));
        tell(&Notice { job: Some(job), planned, ..notice(NoticeKind::Failed, secs, 0) })
    };
    let (first, second) = (schedule(1, "nightly", 2, &interval(60)), schedule(2, "nightly", 3, &interval(60)));
    let stranger = schedule(3, "stranger", 1, &interval(60));
    owner.done(vec![add(&first), add(&stranger)]).await;
    go_on(&world, &mut Reports::default(), 20).await;
    owner.done(vec![drop_it(first.id, 20)]).await;
    owner.done(vec![fail(new_job(1, 1, 2).id, &first, 21), fail(new_job(2, 1, 1).id, &stranger, 21)]).await;
    // Another server, which has never seen that schedule.
    go_on(&world, &mut Reports::default(), 10).await;
    let (_, events, task, input) = sent(&world).await.pop().unwrap();
    let text = text(&task, &input);
    assert!(events == 1 && text.contains("schedule nightly\n"), "{text}");
    // One that has its name now is told of as well, and the former one still.
    owner.done(vec![add(&second)]).await;
    go_on(&world, &mut Reports::default(), 20).await;
    owner.done(vec![fail(new_job(3, 1, 2).id, &first, 50), fail(new_job(4, 1, 3).id, &second, 50)]).await;
    go_on(&world, &mut Reports::default(), 10).await;
    assert_eq!(summaries(&world).await.len(), 2);
    assert_eq!(sent(&world).await.pop().unwrap().1, 2);
}
