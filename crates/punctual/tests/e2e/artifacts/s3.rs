//! The same with the files in S3, which the server does not see arrive.

use punctual_core::hex;
use punctual_local_s3::{BUCKET, KEY_ID, LocalS3, SECRET};
use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::io::AsyncWriteExt;

use super::{World, binary, declaration, fetching_worker, position_independent, program, put, unusable};
use crate::harness::eventually;

#[test]
fn child_that_serves_s3() {
    punctual_local_s3::serve_if_asked();
}

async fn world(s3: &LocalS3) -> World {
    let storage = format!("s3://{BUCKET}/files");
    let endpoint = s3.endpoint();
    let variables = [
        ("PUNCTUAL_STORAGE", storage.as_str()),
        ("PUNCTUAL_STORAGE_ENDPOINT", &endpoint),
        ("AWS_ACCESS_KEY_ID", KEY_ID),
        ("PUNCTUAL_STORAGE_SECRET", SECRET),
    ];
    World::with(&[], &variables).await
}

fn start() -> LocalS3 {
    LocalS3::start("artifacts::s3::child_that_serves_s3")
}

/// The keys in the bucket, below our prefix.
fn keys(s3: &LocalS3) -> Vec<String> {
    let root = s3.bucket_folder().join("files");
    let mut keys = Vec::new();
    for folder in ["artifacts", "uploads", "checks"] {
        for file in std::fs::read_dir(root.join(folder)).into_iter().flatten().flatten() {
            keys.push(format!("{folder}/{}", file.file_name().to_string_lossy()));
        }
    }
    keys
}

#[tokio::test]
async fn a_job_runs_when_its_file_is_in_s3_without_anybody_asking() {
    let s3 = start();
    let world = world(&s3).await;
    let _worker = fetching_worker(&world.api, &[&world.server]).await;
    let bytes = program(300_000, 1);
    let declared = world.declare(&bytes).await.expect(201);
    let (id, url) = (declared.str("/id"), declared.str("/upload/url"));
    assert!(url.starts_with(&s3.endpoint()), "{url}");
    let job = world.api.submit(json!({ "inline": binary(id) })).await;
    assert_eq!(put(url, bytes.clone()).await.status, 200);
    let job = world.api.finished(&job).await;
    assert_eq!((job.str("/state"), job.str("/output")), ("succeeded", hex::encode(Sha256::digest(&bytes)).as_str()));
    eventually("what was sent is removed", || async { keys(&s3) == [format!("artifacts/{id}")] }).await;
    // Sent again to the same address, it changes nothing.
    assert_eq!(put(url, program(300_000, 9)).await.status, 200);
    assert_eq!(world.state(id).await, "ready");
    let job = world.api.submit(json!({ "inline": { "run": { "binary": { "artifact": id, "args": ["x"] } } } })).await;
    assert_eq!(world.api.finished(&job).await.str("/output"), hex::encode(Sha256::digest(&bytes)));
}

#[tokio::test]
async fn a_file_in_s3_that_is_not_what_was_declared_is_refused_and_removed() {
    let s3 = start();
    let world = world(&s3).await;
    for (salt, sent, reason) in [
        (1, program(900, 1), "it has 900 bytes, and 1000 were declared"),
        (2, program(1_000, 99), "its SHA-256 is not the one that was declared"),
    ] {
        let declared = world.declare(&program(1_000, salt)).await.expect(201);
        assert_eq!(put(declared.str("/upload/url"), sent).await.status, 200);
        let artifact = world.api.get(&format!("/v1/artifacts/{}", declared.str("/id"))).await.expect(200);
        assert_eq!(artifact.str("/state"), "refused");
        assert!(artifact.str("/reason").contains(reason), "{}", artifact.text);
        assert!(keys(&s3).is_empty(), "{:?}", keys(&s3));
    }
    // The same file may be declared again: what was refused is another's.
    let bytes = program(1_000, 2);
    let declared = world.declare(&bytes).await.expect(201);
    assert_eq!(put(declared.str("/upload/url"), bytes).await.status, 200);
    assert_eq!(world.state(declared.str("/id")).await, "ready");
}

#[tokio::test]
async fn files_in_s3_that_no_worker_can_run_are_refused_and_removed() {
    let s3 = start();
    let world = world(&s3).await;
    for (bytes, reason) in unusable() {
        let declared = world.declare(&bytes).await.expect(201);
        let id = declared.str("/id");
        world.api.put("/v1/tasks/waits", binary(id)).await;
        assert_eq!(put(declared.str("/upload/url"), bytes).await.status, 200);
        let artifact = world.api.get(&format!("/v1/artifacts/{id}")).await.expect(200);
        assert_eq!(artifact.str("/state"), "refused", "{reason}");
        assert!(artifact.str("/reason").contains(reason), "{}", artifact.text);
        eventually("nothing is left", || async { keys(&s3).is_empty() }).await;
        // Nothing is eligible by it.
        world.api.put("/v1/tasks/new", binary(id)).await.refused(422, "artifact_refused");
        let task = world.api.get("/v1/tasks/waits").await.expect(200);
        assert_eq!(task.str("/waits_for"), id, "{}", task.text);
    }
    let good = position_independent(5_000, 1);
    let declared = world.declare(&good).await.expect(201);
    assert_eq!(put(declared.str("/upload/url"), good).await.status, 200);
    assert_eq!(world.state(declared.str("/id")).await, "ready");
}

#[tokio::test]
async fn an_upload_to_s3_that_breaks_off_leaves_nothing_and_can_be_repeated() {
    let s3 = start();
    let world = world(&s3).await;
    let bytes = program(1_000_000, 1);
    let declared = world.declare(&bytes).await.expect(201);
    let (id, url) = (declared.str("/id"), declared.str("/upload/url"));
    let place = s3.endpoint();
    let (path, address) =
        (url.strip_prefix(&place).expect("it is S3's"), place.strip_prefix("http://").expect("on this machine"));
    let mut socket = tokio::net::TcpStream::connect(address).await.unwrap();
    let head = format!("PUT {path} HTTP/1.1\r\nHost: {address}\r\nContent-Length: {}\r\n\r\n", bytes.len());
    socket.write_all(head.as_bytes()).await.unwrap();
    socket.write_all(&bytes[..500_000]).await.unwrap();
    assert_eq!(world.state(id).await, "pending", "half a file is no file");
    drop(socket);
    assert_eq!(world.state(id).await, "pending");
    eventually("nothing is left", || async { keys(&s3).is_empty() }).await;
    assert_eq!(put(url, bytes).await.status, 200);
    assert_eq!(world.state(id).await, "ready");
    eventually("only the file is left", || async { keys(&s3) == [format!("artifacts/{id}")] }).await;
}

#[tokio::test]
async fn what_is_too_large_or_empty_is_refused_before_s3_is_asked() {
    let s3 = start();
    let world = world(&s3).await;
    let mut body = declaration(b"x");
    for (size, status, code) in [(0, 400, "invalid_request"), ((2_u64 << 30) + 1, 413, "payload_too_large")] {
        body["size"] = json!(size);
        world.api.post("/v1/artifacts", body.clone()).await.refused(status, code);
    }
    body["size"] = json!(2_u64 << 30);
    world.api.post("/v1/artifacts", body).await.expect(201);
    assert!(keys(&s3).is_empty());
}

#[tokio::test]
async fn storage_that_is_down_is_answered_with_503_and_nothing_is_lost() {
    let mut s3 = start();
    let world = world(&s3).await;
    let bytes = program(50_000, 1);
    let declared = world.declare(&bytes).await.expect(201);
    let (id, url) = (declared.str("/id"), declared.str("/upload/url"));
    let task = world.api.put("/v1/tasks/report", binary(id)).await.expect(201);
    assert_eq!(task.str("/waits_for"), id);
    s3.kill();
    let refused = world.api.get(&format!("/v1/artifacts/{id}")).await.refused(503, "unavailable");
    assert_eq!(refused.header("retry-after"), Some("1"));
    // What needs no storage goes on.
    world.api.get("/v1/artifacts").await.expect(200);
    world.api.submit(json!({ "task": "report" })).await;
    let other = world.declare(&program(60_000, 2)).await.expect(201);
    world.api.delete(&format!("/v1/artifacts/{}", other.str("/id"))).await.expect(204);
    s3.start_again();
    assert_eq!(put(url, bytes).await.status, 200);
    eventually("the task is eligible", || async {
        world.api.get("/v1/tasks/report").await.expect(200).body.get("waits_for").is_none()
    })
    .await;
    assert_eq!(world.state(id).await, "ready");
}

#[tokio::test]
async fn a_server_without_credentials_for_s3_says_what_to_set() {
    let home = crate::harness::Home::new();
    let output = std::process::Command::new(crate::harness::PUNCTUAL)
        .args(["server", "--listen", "127.0.0.1:0", "--storage", "s3://jobs"])
        .env_remove("AWS_ACCESS_KEY_ID")
        .env_remove("AWS_SECRET_ACCESS_KEY")
        .current_dir(home.path())
        .output();
    let output = output.expect("it runs");
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("AWS_ACCESS_KEY_ID"), "{told}");
}
