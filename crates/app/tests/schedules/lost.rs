//! Commands on schedules that a peer owns, whose answers get lost on the way: each is carried out once.

use std::sync::atomic::Ordering;

use punctual_api::{ErrorKind, IfExists, RunRequest, ScheduleBulkRequest, SkipRequest};
use punctual_app::{Precondition, Put};

use crate::world::{World, by, request};

#[tokio::test]
async fn a_creation_whose_answer_is_lost_makes_one_schedule() {
    let world = World::new().await;
    world.wire.to_lose.store(1, Ordering::Relaxed);
    let body = request(r#"{"name":"report","task":"t","daily":"09:00"}"#);
    let schedule = world.front.create_schedule(&by(&world.front), body, None).await.unwrap();
    assert_eq!((schedule.name.as_str(), schedule.revision), ("report", 1));
    world.wire.to_lose.store(2, Ordering::Relaxed);
    let body = request(r#"{"task":"t","daily":"09:00"}"#);
    let Put::Created(_) =
        world.front.put_schedule(&by(&world.front), "other", body, Precondition::None, None).await.unwrap()
    else {
        panic!("it was new")
    };
    assert_eq!(world.names().await, ["other", "report"]);
}

#[tokio::test]
async fn a_creation_that_reaches_no_owner_says_so() {
    let world = World::new().await;
    world.wire.is_unreachable.store(true, Ordering::Relaxed);
    let body = request(r#"{"task":"t","daily":"09:00"}"#);
    let Err(error) = world.front.put_schedule(&by(&world.front), "report", body, Precondition::None, None).await else {
        panic!("nobody stored it")
    };
    assert_eq!(error.kind, ErrorKind::Unavailable, "{}", error.detail);
    assert!(!error.detail.contains("many at once"), "{}", error.detail);
}

#[tokio::test]
async fn many_creations_whose_answers_are_lost_are_counted_once() {
    let world = World::new().await;
    world.wire.to_lose.store(1, Ordering::Relaxed);
    let schedule = |n: usize| request(&format!(r#"{{"name":"s{n:03}","task":"t","daily":"09:00"}}"#));
    let bulk = ScheduleBulkRequest { schedules: (0..100).map(schedule).collect(), if_exists: IfExists::Fail };
    let answer = world.front.create_schedules(&by(&world.front), bulk, None).await.unwrap();
    assert_eq!((answer.created, answer.names_taken.len()), (100, 0));
}

#[tokio::test]
async fn a_new_definition_whose_answer_is_lost_is_no_conflict() {
    let world = World::new().await;
    world.create(r#"{"name":"report","task":"t","daily":"09:00"}"#).await;
    world.wire.to_lose.store(1, Ordering::Relaxed);
    let body = request(r#"{"task":"t","daily":"10:00"}"#);
    let Put::Replaced(schedule) =
        world.front.put_schedule(&by(&world.front), "report", body, Precondition::Revision(1), None).await.unwrap()
    else {
        panic!("it was there")
    };
    assert_eq!((schedule.revision, schedule.explanation.as_str()), (2, "at 10:00, every day, UTC"));
}

#[tokio::test]
async fn a_run_a_skip_and_a_deletion_whose_answers_are_lost_happen_once() {
    let world = World::new().await;
    world.create(r#"{"name":"report","task":"t","daily":"09:00"}"#).await;
    world.wire.to_lose.store(1, Ordering::Relaxed);
    let run = world.front.run_schedule(&by(&world.front), "report", RunRequest::default()).await.unwrap();
    let list = world.owner.occurrences(&by(&world.owner), "report", Default::default()).await.unwrap();
    let jobs: Vec<_> = list.occurrences.iter().filter_map(|occurrence| occurrence.job).collect();
    assert_eq!(jobs, [run.job.unwrap()]);

    world.wire.to_lose.store(1, Ordering::Relaxed);
    let skip = world.front.skip_schedule(&by(&world.front), "report", SkipRequest { count: Some(2) }).await.unwrap();
    assert_eq!(skip.skipped.len(), 2);
    assert_eq!(world.owner.schedule(&by(&world.owner), "report").await.unwrap().skip_until, Some(skip.until));

    world.wire.to_lose.store(1, Ordering::Relaxed);
    let asked = world.wire.asked.load(Ordering::Relaxed);
    world.front.delete_schedule(&by(&world.front), "report", Precondition::None).await.unwrap();
    assert_eq!(world.wire.asked.load(Ordering::Relaxed) - asked, 2, "it was asked for again");
    assert!(world.names().await.is_empty());
}
