//! Tasks: defined, changed, listed, deleted.

use serde_json::json;

use super::{FAR, World, probe};

#[tokio::test]
async fn a_task_is_created_once_and_read_back_with_its_defaults() {
    let world = World::idle().await;
    let api = &world.api;
    let request = json!({ "name": "ping", "spec": { "run": { "http": { "url": "https://example.org/" } } } });
    let created = api.post("/v1/tasks", request.clone()).await.expect(201);
    assert!(created.header("etag").is_some_and(|etag| etag.starts_with("\"1-")), "{:?}", created.header("etag"));
    assert_eq!(created.body["revision"], json!(1));
    assert_eq!(created.body.pointer("/spec/retry/max"), Some(&json!(3)));
    assert_eq!(created.str("/spec/queue"), "default");

    let read = api.get("/v1/tasks/ping").await.expect(200);
    assert_eq!((&read.body, read.header("etag")), (&created.body, created.header("etag")));
    api.post("/v1/tasks", request).await.refused(409, "task_exists");
}

#[tokio::test]
async fn tasks_are_listed_by_name_page_by_page() {
    let world = World::idle().await;
    let api = &world.api;
    let names: Vec<String> = (0..11).map(|n| format!("task-{n:02}")).collect();
    for name in names.iter().rev() {
        api.put(&format!("/v1/tasks/{name}"), probe(json!({}))).await.expect(201);
    }
    let mut listed = Vec::new();
    let mut cursor = String::new();
    let mut pages = 0;
    loop {
        let page = api.get(&format!("/v1/tasks?limit=3{cursor}")).await.expect(200);
        pages += 1;
        for task in page.body["tasks"].as_array().expect("a list") {
            listed.push(task["name"].as_str().expect("a name").to_owned());
        }
        match page.body["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(listed, names);
    assert_eq!(pages, 4);
}

#[tokio::test]
async fn the_waiting_jobs_of_a_deleted_task_still_run() {
    let world = World::working().await;
    let api = &world.api;
    api.put("/v1/tasks/old", probe(json!({ "output": "still here" }))).await.expect(201);
    let id = api.submit(json!({ "task": "old", "run_at": FAR })).await;
    api.delete("/v1/tasks/old").await.expect(204);
    api.get("/v1/tasks/old").await.refused(404, "task_not_found");
    api.delete("/v1/tasks/old").await.refused(404, "task_not_found");
    api.post("/v1/jobs", json!({ "task": "old" })).await.refused(404, "task_not_found");
    api.command(&format!("/v1/jobs/{id}/run")).await.expect(200);
    let job = api.finished(&id).await;
    assert_eq!((job.str("/state"), job.str("/output")), ("succeeded", "still here"));
}
