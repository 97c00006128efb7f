//! Who asked for what, on the record of each.

use punctual_api::{JobRequest, RequestedBy, RunRequest};
use punctual_app::Precondition;
use punctual_core::{JobId, Span};

use crate::world::{WHO, World, by, request};

fn local() -> RequestedBy {
    RequestedBy { kind: "local_user".to_owned(), name: WHO.to_owned() }
}

/// Far from its time.
fn in_an_hour() -> JobRequest {
    serde_json::from_str(r#"{"task":"t","delay":"1h"}"#).unwrap()
}

#[tokio::test]
async fn a_job_says_who_submitted_it_and_who_gave_commands_on_it() {
    let world = World::new().await;
    let submitted = world.front.submit(&by(&world.front), in_an_hour(), None, None).await.unwrap().answer;
    let job = async |id: JobId| world.owner.job(&by(&world.owner), id, None).await.unwrap();
    let shown = job(submitted.id).await;
    assert_eq!((shown.submitted_by, shown.actions), (Some(local()), vec![]));
    world.front.cancel_job(&by(&world.front), submitted.id).await.unwrap();
    world.owner.retry_job(&by(&world.owner), submitted.id).await.unwrap();
    let refused = world.owner.retry_job(&by(&world.owner), submitted.id).await;
    assert!(refused.is_err(), "it waits");
    let shown = job(submitted.id).await;
    let actions: Vec<&str> = shown.actions.iter().map(|action| action.action.as_str()).collect();
    assert_eq!(actions, ["cancel", "retry"], "what was refused is not on record");
    assert!(shown.actions.iter().all(|action| action.by == local()), "{:?}", shown.actions);
    assert_eq!(shown.submitted_by, Some(local()), "a retry does not change that");
}

#[tokio::test]
async fn a_run_says_who_asked_for_it_and_otherwise_which_schedule_made_it() {
    let world = World::new().await;
    world.create(r#"{"name":"report","task":"t","every":"1h","overlap":"queue_one"}"#).await;
    let run = async || world.front.run_schedule(&by(&world.front), "report", RunRequest::default()).await.unwrap();
    let fired = run().await;
    run().await;
    let list = world.owner.occurrences(&by(&world.owner), "report", Default::default()).await.unwrap();
    let asked: Vec<Option<&str>> = list.occurrences.iter().map(|time| time.requested_by.as_deref()).collect();
    assert_eq!(asked, [Some(WHO), Some(WHO)], "also for the one that waits");
    let shown = world.owner.job(&by(&world.owner), fired.job.unwrap(), None).await.unwrap();
    assert_eq!(shown.submitted_by, Some(local()));
    // One that was planned was asked for by nobody.
    world.create(r#"{"name":"planned","task":"t","every":"1h"}"#).await;
    world.pass(Span::from_secs(3601));
    let mut planned = None;
    crate::world::eventually("it fires", || async {
        let list = world.owner.occurrences(&by(&world.owner), "planned", Default::default()).await.unwrap();
        list.occurrences.iter().any(|time| time.job.is_some())
    })
    .await;
    for time in world.owner.occurrences(&by(&world.owner), "planned", Default::default()).await.unwrap().occurrences {
        assert_eq!(time.requested_by, None);
        planned = planned.or(time.job);
    }
    let shown = world.owner.job(&by(&world.owner), planned.unwrap(), None).await.unwrap();
    let schedule = RequestedBy { kind: "schedule".to_owned(), name: "schedule:planned".to_owned() };
    assert_eq!(shown.submitted_by, Some(schedule));
}

#[tokio::test]
async fn a_task_says_who_defined_it_and_who_changed_it() {
    let world = World::new().await;
    let spec = serde_json::from_str::<punctual_core::task::TaskSpec>(r#"{"run":{"probe":{}}}"#).unwrap();
    let app = &world.owner;
    let made = app.create_task(&by(app), "mail".to_owned(), spec.clone()).await.unwrap();
    assert_eq!((made.created_by.as_deref(), made.changed_by.as_deref()), (Some(WHO), Some(WHO)));
    let unknown = app.task(&by(app), "t").await.unwrap();
    assert_eq!((unknown.created_by, unknown.changed_by), (None, None), "nobody wrote that down");
    let (changed, _) = app.put_task(&by(app), "t".to_owned(), spec, Precondition::None).await.unwrap();
    assert_eq!((changed.created_by, changed.changed_by.as_deref()), (None, Some(WHO)));
    // What is deferred keeps its answer: the schedule was made by whoever asked.
    let schedule = app.create_schedule(&by(app), request(r#"{"name":"s","task":"t","daily":"09:00"}"#), None).await;
    assert_eq!(schedule.unwrap().created.who, WHO);
}
