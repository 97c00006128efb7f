//! What the HTTP executor sends, and what it keeps of an answer.

mod far_side;

use far_side::*;
use punctual_core::attempt::Outcome;
use punctual_core::task::{HttpCall, Method};
use punctual_exec::Cancel;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

#[tokio::test]
async fn a_ping_succeeds_with_status_and_body_as_its_output() {
    let (addr, received) = answering(ok("pong")).await;
    let done = execute(get(format!("http://{addr}/health?token=secret")), Some("unused")).await;
    assert_eq!(done.output(), serde_json::json!({"status": 200, "body": "pong", "truncated": false}));
    let request = received.lock().unwrap()[0].clone();
    assert!(request.starts_with("GET /health?token=secret HTTP/1.1\r\n"), "{request}");
    assert!(!request.contains("unused"), "a GET carries no input");
    let start = format!("GET http://{addr}/health → 200 in ");
    assert!(done.log.starts_with(&start), "{}", done.log);
    assert!(done.log.ends_with(" ms\nanswer of 4 bytes\n"), "{}", done.log);
    assert!(!done.log.contains("secret"), "{}", done.log);
}

#[tokio::test]
async fn a_request_says_which_job_and_attempt_it_is_and_a_task_cannot_change_that() {
    let (addr, received) = answering(ok("")).await;
    let headers = [
        ("idempotency-key", "forged"),
        ("Host", "forged.example"),
        ("Proxy-Authorization", "forged"),
        ("User-Agent", "own/1"),
        ("X-Api-Key", "hush"),
        ("Content-Type", "text/plain"),
    ];
    let spec = HttpCall {
        method: Method::Post,
        headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        body: Some("hello".to_owned()),
        ..get(format!("http://{addr}/hook"))
    };
    let done = execute(spec, Some("not sent")).await;
    let request = received.lock().unwrap()[0].clone();
    for line in [
        "POST /hook HTTP/1.1".to_owned(),
        format!("idempotency-key: {}", job()),
        format!("punctual-job-id: {}", job()),
        "punctual-attempt: 3".to_owned(),
        "punctual-tracing-id: trace-7".to_owned(),
        "user-agent: own/1".to_owned(),
        "x-api-key: hush".to_owned(),
        "content-type: text/plain".to_owned(),
        "hello".to_owned(),
    ] {
        assert!(request.lines().any(|found| found == line), "no `{line}` in\n{request}");
    }
    assert!(!request.contains("forged"));
    for name in ["idempotency-key", "host", "proxy-authorization"] {
        assert!(done.log.contains(&format!("header {name} is not for a task to set")), "{}", done.log);
    }
    assert!(!done.log.contains("hush"), "{}", done.log);
}

#[tokio::test]
async fn the_input_is_the_body_of_a_webhook_that_has_none_of_its_own() {
    let (addr, received) = answering(ok("")).await;
    let spec = HttpCall { method: Method::Post, ..get(format!("http://{addr}/")) };
    execute(spec, Some(r#"{"n":1}"#)).await;
    let request = received.lock().unwrap()[0].clone();
    assert!(request.ends_with("\r\n\r\n{\"n\":1}"), "{request}");
    assert!(request.contains("content-type: application/json\r\n"), "{request}");
    let agent = concat!("user-agent: punctual/", env!("CARGO_PKG_VERSION"), "\r\n");
    assert!(request.contains(agent), "{request}");
}

#[tokio::test]
async fn the_task_says_which_statuses_are_expected() {
    let (addr, _) = answering("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n").await;
    let spec = HttpCall { expect_status: vec![200, 404], ..get(format!("http://{addr}/")) };
    assert_eq!(execute(spec, None).await.output()["status"], 404);
    let (addr, _) = answering(ok("")).await;
    let spec = HttpCall { expect_status: vec![204], ..get(format!("http://{addr}/")) };
    assert_eq!(execute(spec, None).await.failure().reason, "unexpected status 200 OK");
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let (target, received) = answering(ok("")).await;
    let answer = format!("HTTP/1.1 302 Found\r\nlocation: http://{target}/\r\ncontent-length: 0\r\n\r\n");
    let (addr, _) = answering(answer).await;
    let failure = execute(get(format!("http://{addr}/")), None).await.failure();
    assert_eq!(failure.reason, "unexpected status 302 Found: follow_redirects is 0");
    assert!(received.lock().unwrap().is_empty());
}

#[tokio::test]
async fn an_endless_body_is_cut_and_still_a_success() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        read_request(&mut socket).await;
        socket.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        while socket.write_all(&[b'x'; 10_000]).await.is_ok() {}
    });
    let done = execute(get(format!("http://{addr}/")), None).await;
    assert_eq!(done.output()["truncated"], true);
    assert_eq!(done.output()["body"].as_str().unwrap().len(), 64 << 10);
}

#[tokio::test]
async fn a_cancelled_call_ends_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let cancel = Cancel::default();
    let asked = cancel.clone();
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        read_request(&mut socket).await;
        asked.cancel();
        std::future::pending::<()>().await;
    });
    let done = execute_with(get(format!("http://{addr}/")), None, cancel).await;
    assert_eq!(done.outcome, Outcome::Cancelled);
}
