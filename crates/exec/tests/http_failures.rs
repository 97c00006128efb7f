//! How an HTTP call fails, and whether the receiver can have acted.

mod far_side;

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use far_side::*;
use punctual_core::Span;
use punctual_core::attempt::{FailureClass, Last, Ran};
use punctual_core::task::HttpCall;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

#[tokio::test]
async fn an_unexpected_status_is_a_failure_that_certainly_ran() {
    let (addr, _) = answering("HTTP/1.1 404 Not Found\r\ncontent-length: 4\r\n\r\ngone").await;
    let done = execute(get(format!("http://{addr}/")), None).await;
    assert!(done.log.ends_with("answer: gone\n"), "{}", done.log);
    let failure = done.failure();
    assert_eq!(failure.reason, "unexpected status 404 Not Found");
    assert_eq!((failure.ran, failure.last, failure.retry_after), (Ran::Yes, Last::Yes, None));
    assert_eq!(failure.class, FailureClass::Task);
}

#[tokio::test]
async fn a_receiver_that_asks_for_patience_is_heard() {
    let answer = |after: &str| format!("HTTP/1.1 429 Slow\r\nretry-after: {after}\r\ncontent-length: 0\r\n\r\n");
    let (addr, _) = answering(answer("7")).await;
    let failure = execute(get(format!("http://{addr}/")), None).await.failure();
    assert_eq!(failure.retry_after, Some(Span::from_secs(7)));

    let since_epoch = SystemTime::UNIX_EPOCH.elapsed().unwrap() + Duration::from_secs(3600);
    let date = jiff::Timestamp::from_second(since_epoch.as_secs() as i64).unwrap();
    let date = date.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
    let (addr, _) = answering(answer(&date)).await;
    let wait = execute(get(format!("http://{addr}/")), None).await.failure().retry_after.unwrap();
    assert!((Span::from_secs(3570)..=Span::from_secs(3600)).contains(&wait), "{wait}");
}

#[tokio::test]
async fn a_refused_connection_proves_that_nothing_ran() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let failure = execute(get(format!("http://{closed}/")), None).await.failure();
    assert_eq!(failure.reason, "cannot connect: Connection refused");
    assert_eq!((failure.class, failure.ran, failure.last), (FailureClass::Network, Ran::No, Last::No));
}

#[tokio::test]
async fn a_name_that_does_not_exist_proves_that_nothing_ran() {
    let failure = execute(get("http://no-such-host.invalid/"), None).await.failure();
    assert!(failure.reason.starts_with("cannot connect: "), "{}", failure.reason);
    assert_eq!(failure.ran, Ran::No);
}

#[tokio::test]
async fn a_failed_handshake_proves_that_nothing_ran() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let _ = socket.write_all(b"this is not TLS\r\n").await;
    });
    let failure = execute(get(format!("https://{addr}/")), None).await.failure();
    assert_eq!(failure.ran, Ran::No, "{}", failure.reason);
}

#[tokio::test]
async fn a_request_without_an_answer_may_have_run() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let held = tokio::spawn(async move { listener.accept().await.unwrap() });
    let spec = HttpCall { timeout: Span::from_millis(100), ..get(format!("http://{addr}/")) };
    let failure = execute(spec, None).await.failure();
    assert_eq!(failure.reason, "no answer within 100ms");
    assert_eq!((failure.class, failure.ran, failure.last), (FailureClass::Timeout, Ran::Unknown, Last::No));
    drop(held.await.unwrap());
}

#[tokio::test]
async fn a_connection_that_breaks_before_an_answer_may_have_run() {
    let (addr, _) = answering("").await;
    let failure = execute(get(format!("http://{addr}/")), None).await.failure();
    assert!(failure.reason.starts_with("no answer: "), "{}", failure.reason);
    assert_eq!(failure.ran, Ran::Unknown);
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_a_failure_that_may_have_run() {
    let (addr, _) = answering("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nonly so much").await;
    let failure = execute(get(format!("http://{addr}/")), None).await.failure();
    assert!(failure.reason.starts_with("the answer broke off: "), "{}", failure.reason);
    assert_eq!((failure.class, failure.ran), (FailureClass::Network, Ran::Unknown));
}

#[tokio::test]
async fn calls_that_cannot_be_made_fail_for_good_and_nothing_ran() {
    for (url, reason) in [
        ("ftp://example.com/", "only http and https urls can be called, not ftp"),
        ("file:///etc/passwd", "only http and https urls can be called, not file"),
        ("nonsense", "the url is not valid: write it in full, such as https://example.com/hook"),
        ("http://user:secret@example.com/", "the url must not carry a user name or password: use a header"),
    ] {
        let failure = execute(get(url), None).await.failure();
        assert_eq!(failure.reason, reason);
        assert_eq!((failure.class, failure.ran, failure.last), (FailureClass::Task, Ran::No, Last::Yes));
    }
    let headers = BTreeMap::from([("X-Key".to_owned(), "se\ncret".to_owned())]);
    let spec = HttpCall { headers, ..get("http://127.0.0.1:9/") };
    let failure = execute(spec, None).await.failure();
    assert_eq!(failure.reason, "the value of header x-key is not valid");
}
