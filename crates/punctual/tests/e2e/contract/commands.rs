//! Commands on jobs, and the conflicts that they meet.

use serde_json::json;

use super::{World, far_future, probe, sleeper};
use crate::harness::eventually;

const VERBS: [&str; 4] = ["delete", "cancel", "retry", "run"];

async fn command(world: &World, verb: &str, id: &str) -> crate::checked::Answer {
    match verb {
        "delete" => world.api.delete(&format!("/v1/jobs/{id}")).await,
        _ => world.api.command(&format!("/v1/jobs/{id}/{verb}")).await,
    }
}

async fn state(world: &World, id: &str) -> String {
    world.api.get(&format!("/v1/jobs/{id}")).await.expect(200).str("/state").to_owned()
}

/// What each verb is answered with when the job is in one state for good.
async fn check(world: &World, id: &str, answers: &[(&str, u16, &str)]) {
    for &(verb, status, code) in answers {
        let answer = command(world, verb, id).await.refused(status, code);
        assert!(answer.body["hint"].is_string(), "{verb}: {}", answer.text);
    }
}

#[tokio::test]
async fn a_deleted_job_is_gone_for_good() {
    let world = World::idle().await;
    let id = world.api.submit(far_future()).await;
    command(&world, "retry", &id).await.refused(409, "job_not_finished");
    let answer = command(&world, "delete", &id).await.expect(200);
    assert_eq!((answer.str("/state"), &answer.body["pending"]), ("deleted", &json!(false)));
    assert_eq!(state(&world, &id).await, "deleted");
    check(&world, &id, &[("cancel", 409, "job_deleted"), ("retry", 409, "job_deleted"), ("run", 409, "job_deleted")])
        .await;
    let again = command(&world, "delete", &id).await.expect(200);
    assert_eq!(again.str("/state"), "deleted", "whoever asks twice has what they want");
}

#[tokio::test]
async fn a_waiting_job_is_cancelled_at_once() {
    let world = World::idle().await;
    let id = world.api.submit(far_future()).await;
    assert_eq!(command(&world, "cancel", &id).await.expect(200).str("/state"), "cancelled");
    assert_eq!(state(&world, &id).await, "cancelled");
    check(&world, &id, &[("delete", 409, "job_already_finished"), ("run", 409, "job_already_finished")]).await;
    let again = command(&world, "cancel", &id).await.expect(200);
    assert_eq!(again.str("/state"), "cancelled", "whoever asks twice has what they want");
}

#[tokio::test]
async fn a_running_job_is_asked_to_end_and_then_has() {
    let world = World::working().await;
    let id = world.api.submit(sleeper("10m")).await;
    eventually("it runs", || async { state(&world, &id).await == "running" }).await;
    check(
        &world,
        &id,
        &[
            ("delete", 409, "job_already_started"),
            ("run", 409, "job_already_started"),
            ("retry", 409, "job_not_finished"),
        ],
    )
    .await;
    let answer = command(&world, "cancel", &id).await.expect(202);
    assert_eq!((answer.str("/state"), &answer.body["pending"]), ("running", &json!(true)));
    let job = world.api.finished(&id).await;
    assert_eq!((job.str("/state"), job.str("/attempts/0/state")), ("cancelled", "cancelled"));
}

#[tokio::test]
async fn a_finished_job_runs_again_when_asked_and_keeps_its_first_attempt() {
    let world = World::working().await;
    let mut spec = probe(json!({ "fail_times": 1 }));
    spec["retry"] = json!({ "max": 0 });
    let id = world.api.submit(json!({ "inline": spec })).await;
    let job = world.api.finished(&id).await;
    assert_eq!(job.str("/state"), "failed");
    assert!(job.str("/reason").contains("failed as asked"), "{}", job.text);
    assert_eq!(command(&world, "retry", &id).await.expect(200).str("/state"), "scheduled");
    let job = world.api.finished(&id).await;
    assert_eq!(job.str("/state"), "succeeded");
    let attempts = job.body["attempts"].as_array().expect("attempts");
    let numbers: Vec<_> = attempts.iter().map(|attempt| &attempt["attempt"]).collect();
    assert_eq!(numbers, [1, 2]);
    let reruns = job.body["reruns"].as_array().expect("that it ran again is on record");
    assert_eq!((reruns.len(), &reruns[0]["from"], &reruns[0]["next_attempt"]), (1, &json!("failed"), &json!(2)));
    assert!(job.str("/reruns/0/at") > job.str("/attempts/0/finished_at"), "{}", job.text);
}

#[tokio::test]
async fn a_job_of_the_far_future_runs_now_when_asked() {
    let world = World::working().await;
    let id = world.api.submit(far_future()).await;
    assert_eq!(command(&world, "run", &id).await.expect(200).str("/state"), "scheduled");
    let job = world.api.finished(&id).await;
    assert_eq!(job.str("/state"), "succeeded");
    assert!(job.str("/due_at") < "2099", "{}", job.text);
}

#[tokio::test]
async fn commands_on_a_job_that_there_is_not_say_so() {
    let world = World::idle().await;
    let id = "job_06bpwz2d0e5kxr4n7v1t3m9qcz";
    // Made from a real one, so that only the last random digits differ.
    let real = world.api.submit(far_future()).await;
    let unknown = format!("{}{}", &real[..real.len() - 4], &id[id.len() - 4..]);
    for verb in VERBS {
        command(&world, verb, &unknown).await.refused(404, "job_not_found");
    }
    for part in ["", "/logs", "/events"] {
        world.api.get(&format!("/v1/jobs/{unknown}{part}")).await.refused(404, "job_not_found");
    }
}
