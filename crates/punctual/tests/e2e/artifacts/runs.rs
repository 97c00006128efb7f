//! From the upload to the worker.

use punctual_core::hex;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::{World, binary, fetching_worker, program, put};
use crate::checked::Checked;
use crate::cluster::Cluster;
use crate::harness::eventually;

#[tokio::test]
async fn a_job_waits_for_its_file_and_runs_when_it_has_arrived() {
    let world = World::new().await;
    let _worker = fetching_worker(&world.api, &[&world.server]).await;
    let bytes = program(300_000, 1);
    let declared = world.declare(&bytes).await.expect(201);
    let id = declared.str("/id").to_owned();
    assert_eq!(declared.str("/state"), "pending");
    let task = world.api.put("/v1/tasks/report", binary(&id)).await.expect(201);
    assert_eq!(task.str("/waits_for"), id);
    let named = world.api.submit(json!({ "task": "report" })).await;
    let inline = world.api.submit(json!({ "inline": binary(&id) })).await;
    let later = world.api.submit(json!({ "task": "report", "run_at": "2099-01-01T00:00:00Z" })).await;
    for job in [&named, &inline, &later] {
        let job = world.api.get(&format!("/v1/jobs/{job}")).await.expect(200);
        assert_eq!(job.str("/state"), "scheduled");
        assert!(job.str("/explanation").contains(&format!("waits for {id} to arrive")), "{}", job.text);
    }
    let arrived = put(declared.str("/upload/url"), bytes.clone()).await.expect(200);
    assert_eq!((arrived.str("/state"), arrived.str("/machine")), ("ready", "x86_64"));
    for job in [&named, &inline] {
        let job = world.api.finished(job).await;
        assert_eq!(job.str("/state"), "succeeded", "{}", job.text);
        assert_eq!(job.str("/output"), hex::encode(Sha256::digest(&bytes)));
    }
    let task = world.api.get("/v1/tasks/report").await.expect(200);
    assert_eq!((task.body["revision"].as_u64(), task.body.get("waits_for")), (Some(2), None));
    // Known by its digest, it need not be uploaded again, and is eligible at once.
    let again = world.declare(&bytes).await.expect(200);
    assert_eq!((again.str("/id"), again.body.get("upload")), (id.as_str(), None));
    let job = world.api.submit(json!({ "inline": { "run": { "binary": { "artifact": id, "args": ["x"] } } } })).await;
    assert_eq!(world.api.finished(&job).await.str("/state"), "succeeded");
}

#[tokio::test]
async fn a_file_that_arrives_at_one_server_makes_jobs_of_another_eligible() {
    let cluster = Cluster::new();
    let servers = cluster.pair().await;
    let api = Checked::new(&servers[0]).await;
    let other = Checked::new(&servers[1]).await;
    let _worker = fetching_worker(&api, &[&servers[0], &servers[1]]).await;
    let bytes = program(5_000, 2);
    let declared = api.post("/v1/artifacts", super::declaration(&bytes)).await.expect(201);
    let id = declared.str("/id");
    // Each server stores jobs in shards of its own.
    let mut jobs = Vec::new();
    for api in [&api, &other] {
        for args in ["one", "two"] {
            let inline = json!({ "run": { "binary": { "artifact": id, "args": [args] } } });
            jobs.push(api.submit(json!({ "inline": inline })).await);
        }
    }
    eventually("the second server has them in memory", || async {
        other.get("/v1/stats").await.body["ready"].as_u64() >= Some(2)
    })
    .await;
    put(declared.str("/upload/url"), bytes).await.expect(200);
    for job in &jobs {
        assert_eq!(api.finished(job).await.str("/state"), "succeeded");
    }
}

#[tokio::test]
async fn a_server_that_dies_after_the_file_and_before_the_word_of_it_finds_the_file() {
    let world = World::new().await;
    let bytes = program(9_000, 3);
    let declared = world.declare(&bytes).await.expect(201);
    let id = declared.str("/id").to_owned();
    let task = world.api.put("/v1/tasks/report", binary(&id)).await.expect(201);
    assert_eq!(task.str("/waits_for"), id);
    let job = world.api.submit(json!({ "task": "report" })).await;
    let (home, address) = (world.home, world.server.address());
    world.server.kill();
    // As it would be: renamed to its place, and not in the database.
    let folder = home.file("data/storage/artifacts");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(&id), &bytes).unwrap();
    let server = home.server_at(&address, &[]);
    let api = Checked::new(&server).await;
    let _worker = fetching_worker(&api, &[&server]).await;
    // Nobody asks for the artifact.
    assert_eq!(api.finished(&job).await.str("/state"), "succeeded");
}

#[tokio::test]
async fn an_artifact_goes_only_when_no_task_refers_to_it() {
    let world = World::new().await;
    let id = world.push(&program(1_000, 4)).await;
    let unused = world.push(&program(1_000, 5)).await;
    world.api.put("/v1/tasks/report", binary(&id)).await.expect(201);
    let path = format!("/v1/artifacts/{id}");
    let refused = world.api.delete(&path).await.refused(409, "artifact_in_use");
    assert!(refused.str("/detail").contains("the task report"), "{}", refused.text);
    assert_eq!(world.files().len(), 2);
    world.api.delete(&format!("/v1/artifacts/{unused}")).await.expect(204);
    world.api.get(&format!("/v1/artifacts/{unused}")).await.refused(404, "artifact_not_found");
    assert_eq!(world.files().len(), 1);
    let list = world.api.get("/v1/artifacts?limit=1").await.expect(200);
    assert_eq!(list.str("/artifacts/0/id"), id);
    // Changed to something else, the task lets go of it.
    world.api.put("/v1/tasks/report", json!({ "run": { "probe": {} } })).await.expect(200);
    world.api.delete(&path).await.expect(204);
    assert!(world.files().is_empty());
}

#[tokio::test]
async fn a_job_whose_file_is_gone_from_storage_is_late_and_fails_when_its_budget_is_used_up() {
    let world = World::new().await;
    let _worker = world.home.worker(&world.server, &[]);
    let id = world.push(&program(5_000, 7)).await;
    for file in world.files() {
        std::fs::remove_file(file).expect("the file is there");
    }
    let mut inline = binary(&id);
    inline["retry"] = json!({ "max": 0 });
    inline["start_retry"] = json!({ "max": 4 });
    let job = world.api.submit(json!({ "inline": inline })).await;
    let other = world.api.submit(json!({ "inline": { "run": { "probe": {} } } })).await;
    assert_eq!(world.api.finished(&other).await.str("/state"), "succeeded", "others are not affected");
    eventually("it is overdue, with the reason", || async {
        let overdue = world.api.get("/v1/overdue?after=1s").await.expect(200);
        let jobs = overdue.body["jobs"].as_array().cloned().unwrap_or_default();
        jobs.iter().any(|late| late["job"] == json!(job) && late["why"].to_string().contains("given back"))
    })
    .await;
    let ended = world.api.finished(&job).await;
    assert_eq!(ended.str("/state"), "failed", "{}", ended.text);
    assert!(ended.str("/reason").ends_with("(given back 5 times)"), "{}", ended.text);
    let attempts = ended.body["attempts"].as_array().expect("a list");
    assert_eq!(attempts.len(), 5);
    assert!(attempts.iter().all(|attempt| attempt["state"] == json!("not_started")), "{}", ended.text);
    assert_eq!(attempts[4]["details"]["class"], json!("environment"));
}

#[tokio::test]
async fn the_file_of_a_one_off_job_can_be_removed_when_the_job_has_finished() {
    let world = World::new().await;
    let id = world.push(&program(1_000, 6)).await;
    let path = format!("/v1/artifacts/{id}");
    // Nobody runs it.
    let job = world.api.submit(json!({ "inline": binary(&id) })).await;
    let refused = world.api.delete(&path).await.refused(409, "artifact_in_use");
    assert_eq!(refused.str("/detail"), format!("{job} has not finished and needs {id}"));
    world.api.command(&format!("/v1/jobs/{job}/cancel")).await.expect(200);
    let body = json!({ "name": "nightly", "inline": binary(&id), "daily": "03:00" });
    world.api.post("/v1/schedules", body).await.expect(201);
    let refused = world.api.delete(&path).await.refused(409, "artifact_in_use");
    assert_eq!(refused.str("/detail"), format!("the schedule nightly runs {id}"));
    world.api.delete("/v1/schedules/nightly").await.expect(204);
    world.api.delete(&path).await.expect(204);
    assert!(world.files().is_empty());
    world.api.get(&path).await.refused(404, "artifact_not_found");
    assert_eq!(world.api.get(&format!("/v1/jobs/{job}")).await.expect(200).str("/state"), "cancelled");
}
