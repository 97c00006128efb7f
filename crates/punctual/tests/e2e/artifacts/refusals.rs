//! What is refused, how, and that nothing is left of it.

use std::time::Duration;

use futures_util::stream;
use serde_json::json;
use tokio::io::AsyncWriteExt;

use super::{World, binary, declaration, position_independent, program, put, unusable};
use crate::checked::plain_http;
use crate::harness::eventually;

#[tokio::test]
async fn declarations_that_cannot_be_are_refused_by_field() {
    let world = World::new().await;
    let good = declaration(b"x");
    let with = |name: &str, value: serde_json::Value| {
        let mut changed = good.clone();
        changed[name] = value;
        changed
    };
    for (body, pointer) in [
        (with("size", json!(0)), "/size"),
        (with("size", json!(-1)), "/size"),
        (with("sha256", json!("abc")), "/sha256"),
        (with("sha256", json!("zz".repeat(32))), "/sha256"),
        (with("kind", json!("poem")), "/kind"),
        (with("name", json!("two\nlines")), "/name"),
        (with("name", json!(" ")), "/name"),
        (with("name", json!("x".repeat(257))), "/name"),
        (with("more", json!(1)), "/more"),
    ] {
        let refused = world.api.post("/v1/artifacts", body).await.refused(400, "invalid_request");
        assert_eq!(refused.str("/errors/0/pointer"), pointer, "{}", refused.text);
    }
    // Exactly the limit may be declared, and not a byte more.
    world.api.post("/v1/artifacts", with("size", json!(2_u64 << 30))).await.expect(201);
    let refused = world.api.post("/v1/artifacts", with("size", json!((2_u64 << 30) + 1))).await;
    assert!(refused.refused(413, "payload_too_large").str("/hint").contains("artifact_max"));
    world.api.get("/v1/artifacts/artifact_nonsense").await.refused(400, "invalid_request");
    world.api.get("/v1/artifacts/artifact_01m7et433kee4803yssgvaf2fh").await.refused(404, "artifact_not_found");
    world.api.delete("/v1/artifacts/artifact_01m7et433kee4803yssgvaf2fh").await.refused(404, "artifact_not_found");
    world.api.get("/v1/artifacts?cursor=x").await.refused(400, "invalid_request");
}

#[tokio::test]
async fn a_file_that_is_not_what_was_declared_is_refused_and_may_be_sent_again() {
    let world = World::new().await;
    let bytes = program(100_000, 1);
    let declared = world.declare(&bytes).await.expect(201);
    let (id, url) = (declared.str("/id"), declared.str("/upload/url"));
    let mut other = bytes.clone();
    other[50_000] ^= 1;
    let pieces = |bytes: &[u8]| {
        let pieces: Vec<_> = bytes.chunks(10_000).map(|piece| Ok::<_, std::io::Error>(piece.to_vec())).collect();
        // Without a length.
        reqwest::Body::wrap_stream(stream::iter(pieces))
    };
    put(url, bytes[..99_999].to_vec()).await.refused(422, "size_mismatch");
    put(url, [&bytes[..], b"x"].concat()).await.refused(422, "size_mismatch");
    put(url, pieces(&bytes[..60_000])).await.refused(422, "size_mismatch");
    put(url, pieces(&[&bytes[..], &bytes].concat())).await.refused(422, "size_mismatch");
    put(url, Vec::new()).await.refused(422, "size_mismatch");
    put(url, other).await.refused(422, "digest_mismatch");
    assert_eq!(world.state(id).await, "pending");
    assert!(world.files().is_empty(), "{:?}", world.files());
    put(url, pieces(&bytes)).await.expect(200);
    assert_eq!(world.state(id).await, "ready");
    put(url, bytes).await.refused(409, "artifact_ready");
    assert_eq!(world.files().len(), 1);
}

#[tokio::test]
async fn an_address_that_was_changed_is_refused() {
    let world = World::new().await;
    let bytes = program(1_000, 1);
    let declared = world.declare(&bytes).await.expect(201);
    let other = world.declare(&program(1_000, 2)).await.expect(201);
    let url = declared.str("/upload/url");
    let swapped = url.replace(declared.str("/id"), other.str("/id"));
    let grown = url.replace("size=1000", "size=1001");
    let (start, signature) = url.split_once("signature=").expect("it is signed");
    let (before, expires) = start.split_once("expires=").expect("it expires");
    let later = format!("{before}expires=9{expires}signature={signature}");
    for url in
        [&swapped, &grown, &later, &format!("{start}signature={}", "0".repeat(64)), &format!("{start}signature=x")]
    {
        put(url, bytes.clone()).await.refused(403, "bad_signature");
    }
    let get = plain_http().get(url).send().await.unwrap();
    assert_eq!(get.status().as_u16(), 403, "an address for uploads reads nothing");
    for url in [start.trim_end_matches('&'), &format!("{url}&more=1"), &url.replace("size=1000", "size=many")] {
        assert_eq!(put(url, bytes.clone()).await.status, 400, "{url}");
    }
    assert!(world.files().is_empty());
    world.api.delete(&format!("/v1/artifacts/{}", declared.str("/id"))).await.expect(204);
    put(url, bytes).await.refused(404, "artifact_not_found");
    assert!(world.files().is_empty());
}

#[tokio::test]
async fn an_upload_that_breaks_off_leaves_nothing_and_can_be_repeated() {
    let world = World::new().await;
    let bytes = program(1_000_000, 1);
    let declared = world.declare(&bytes).await.expect(201);
    let (id, url) = (declared.str("/id"), declared.str("/upload/url"));
    let path = url.strip_prefix(&world.server.url).expect("it is the server's own");
    let mut socket = tokio::net::TcpStream::connect(world.server.address()).await.unwrap();
    let head = format!("PUT {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", bytes.len());
    socket.write_all(head.as_bytes()).await.unwrap();
    socket.write_all(&bytes[..500_000]).await.unwrap();
    eventually("half of it is there", || async { !world.files().is_empty() }).await;
    assert_eq!(world.state(id).await, "pending", "half a file is no file");
    drop(socket);
    eventually("nothing is left", || async { world.files().is_empty() }).await;
    assert_eq!(world.state(id).await, "pending");
    put(url, bytes).await.expect(200);
    assert_eq!(world.state(id).await, "ready");
}

#[tokio::test]
async fn files_that_no_worker_can_run_are_refused_for_good_with_what_to_do() {
    let world = World::new().await;
    for (bytes, reason) in unusable() {
        let declared = world.declare(&bytes).await.expect(201);
        let id = declared.str("/id");
        world.api.put("/v1/tasks/waits", binary(id)).await;
        let refused = put(declared.str("/upload/url"), bytes.clone()).await.refused(422, "artifact_refused");
        assert!(refused.str("/detail").contains(reason), "{}", refused.text);
        let artifact = world.api.get(&format!("/v1/artifacts/{id}")).await.expect(200);
        assert_eq!(artifact.str("/state"), "refused");
        assert!(artifact.str("/reason").contains(reason), "{}", artifact.text);
        assert!(world.files().is_empty(), "{:?}", world.files());
        // Neither again, nor by a task.
        put(declared.str("/upload/url"), bytes.clone()).await.refused(422, "artifact_refused");
        let task = world.api.put("/v1/tasks/new", binary(id)).await.refused(422, "artifact_refused");
        assert_eq!(task.str("/errors/0/pointer"), "/run/binary/artifact");
        assert!(task.str("/detail").contains(reason), "{}", task.text);
        let job = world.api.post("/v1/jobs", json!({ "inline": binary(id) })).await.refused(422, "artifact_refused");
        assert_eq!(job.str("/errors/0/pointer"), "/inline/run/binary/artifact");
        // A task that waited for it says why it goes on waiting.
        let job = world.api.submit(json!({ "task": "waits" })).await;
        let job = world.api.get(&format!("/v1/jobs/{job}")).await.expect(200);
        assert!(job.str("/explanation").contains("that was refused"), "{}", job.text);
    }
}

#[tokio::test]
async fn a_static_program_that_can_be_loaded_anywhere_is_taken() {
    let world = World::new().await;
    let id = world.push(&position_independent(5_000, 1)).await;
    assert_eq!(world.state(&id).await, "ready");
}

#[tokio::test]
async fn a_task_of_an_artifact_that_is_not_there_is_refused() {
    let world = World::new().await;
    let unknown = "artifact_01m7et433kee4803yssgvaf2fh";
    let posted = json!({ "name": "report", "spec": binary(unknown) });
    let refused = world.api.post("/v1/tasks", posted).await.refused(422, "unknown_artifact");
    assert_eq!(refused.str("/errors/0/pointer"), "/spec/run/binary/artifact");
    world.api.put("/v1/tasks/report", binary(unknown)).await.refused(422, "unknown_artifact");
    world.api.get("/v1/tasks/report").await.refused(404, "task_not_found");
    let jobs = json!({ "jobs": [{ "inline": { "run": { "probe": {} } } }, { "inline": binary(unknown) }] });
    let refused = world.api.post("/v1/jobs/bulk", jobs).await.refused(422, "unknown_artifact");
    assert_eq!(refused.str("/errors/0/pointer"), "/jobs/1/inline/run/binary/artifact");
    assert_eq!(world.api.get("/v1/jobs").await.expect(200).body["jobs"], json!([]));
}

#[tokio::test]
async fn a_file_of_exactly_the_limit_arrives() {
    let world = World::with(&["--artifact-max", "1MiB"], &[]).await;
    let bytes = program(1 << 20, 1);
    let id = world.push(&bytes).await;
    assert_eq!(world.state(&id).await, "ready");
    world.declare(&program((1 << 20) + 1, 1)).await.refused(413, "payload_too_large");
}

#[tokio::test]
async fn a_large_file_costs_the_server_no_memory() {
    const MIB: u64 = 256;
    let world = World::new().await;
    let before = world.server.process.rss_kib();
    let zeros = vec![0_u8; 1 << 20];
    let mut digest = sha2::Sha256::default();
    for _ in 0..MIB {
        sha2::Digest::update(&mut digest, &zeros);
    }
    let sha256 = punctual_core::hex::encode(sha2::Digest::finalize(digest));
    let body = json!({ "size": MIB << 20, "sha256": sha256 });
    let declared = world.api.post("/v1/artifacts", body).await.expect(201);
    let pieces = stream::iter((0..MIB).map(move |_| Ok::<_, std::io::Error>(zeros.clone())));
    let sent = put(declared.str("/upload/url"), reqwest::Body::wrap_stream(pieces));
    let refused = tokio::time::timeout(Duration::from_secs(120), sent).await.expect("in time");
    assert!(refused.refused(422, "artifact_refused").str("/detail").contains("not a program for Linux"));
    let grown = world.server.process.rss_kib().saturating_sub(before);
    assert!(grown < 64 << 10, "it grew by {grown} KiB");
    assert!(world.files().is_empty());
}
