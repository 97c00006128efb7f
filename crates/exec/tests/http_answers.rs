//! What the HTTP executor makes of an answer: expectations, retries, signatures, connections.

mod far_side;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use far_side::secure::{answering_securely, identity, identity_with};
use far_side::*;
use hmac::{Hmac, Mac};
use punctual_core::attempt::{FailureClass, Last, Ran};
use punctual_core::task::{HttpCall, Method, Run};
use punctual_exec::{Cancel, Http, Places, WebhookKeys};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

#[tokio::test]
async fn the_body_must_match_what_the_task_expects() {
    for (pattern, body, is_match) in [
        (r#""status":\s*"ok""#, r#"{"status": "ok"}"#, true),
        ("ok", "not OK", false),
        ("(?i)ok", "not OK", true),
        ("^$", "", true),
        ("ü", "gr\u{fc}n", true),
    ] {
        let (addr, _) = answering(ok(body)).await;
        let spec = HttpCall { expect_body: Some(pattern.to_owned()), ..get(format!("http://{addr}/")) };
        let done = execute(spec, None).await;
        if is_match {
            assert_eq!(done.output()["body"], body);
            continue;
        }
        assert!(done.log.contains(&format!("answer: {body}")), "{}", done.log);
        let failure = done.failure();
        assert_eq!(failure.reason, "the answer (status 200) does not match expect_body");
        assert_eq!((failure.class, failure.last, failure.ran), (FailureClass::Task, Last::No, Ran::Yes));
    }
}

#[tokio::test]
async fn only_the_start_of_a_long_body_is_matched_and_the_reason_says_so() {
    let body = format!("{}needle", "x".repeat(64 << 10));
    let (addr, _) = answering(ok(&body)).await;
    let spec = HttpCall { expect_body: Some("needle".to_owned()), ..get(format!("http://{addr}/")) };
    let failure = execute(spec, None).await.failure();
    assert_eq!(failure.reason, "the start of the answer (status 200) does not match expect_body");
}

#[tokio::test]
async fn a_pattern_that_was_never_checked_harms_nobody() {
    let (addr, _) = answering(ok("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!")).await;
    for pattern in ["(", "a{1000}{1000}"] {
        let spec = HttpCall { expect_body: Some(pattern.to_owned()), ..get(format!("http://{addr}/")) };
        assert_eq!(execute(spec, None).await.failure().last, Last::Yes);
    }
}

#[tokio::test]
async fn what_a_receiver_says_no_to_is_not_tried_again() {
    let answer = |status: u16, more: &str| format!("HTTP/1.1 {status} X\r\n{more}content-length: 0\r\n\r\n");
    for (status, more, retry_status, last) in [
        (400, "", vec![], Last::Yes),
        (401, "", vec![], Last::Yes),
        (404, "", vec![], Last::Yes),
        (410, "", vec![], Last::Yes),
        (422, "", vec![], Last::Yes),
        (302, "", vec![], Last::Yes),
        (408, "", vec![], Last::No),
        (425, "", vec![], Last::No),
        (429, "", vec![], Last::No),
        (500, "", vec![], Last::No),
        (501, "", vec![], Last::No),
        (503, "", vec![], Last::No),
        // The receiver asks to be asked again.
        (403, "retry-after: 5\r\n", vec![], Last::No),
        // The task knows better.
        (404, "", vec![404], Last::No),
        (500, "", vec![404], Last::Yes),
        (503, "retry-after: 5\r\n", vec![404], Last::No),
    ] {
        let (addr, _) = answering(answer(status, more)).await;
        let spec = HttpCall { retry_status: retry_status.clone(), ..get(format!("http://{addr}/")) };
        let failure = execute(spec, None).await.failure();
        assert_eq!(failure.last, last, "{status} {more:?} {retry_status:?}");
        assert_eq!((failure.class, failure.ran), (FailureClass::Task, Ran::Yes));
    }
}

#[tokio::test]
async fn a_signed_request_can_be_verified_by_the_standard() {
    let secret = "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let next = STANDARD.encode([7; 32]);
    let keys = WebhookKeys::parse(&format!("ci=whsec_{secret},ci=whsec_{next}")).unwrap();
    let http = Arc::new(Http::new(Arc::new(outbound(Places::LOOPBACK))).webhook_keys(keys));
    let (addr, received) = answering(ok("")).await;
    let spec = HttpCall {
        method: Method::Post,
        body: Some(r#"{"n":1}"#.to_owned()),
        sign_with: Some("ci".to_owned()),
        ..get(format!("http://{addr}/"))
    };
    perform(http.clone(), Run::Http(spec.clone()), None, Cancel::default()).await.output();
    let request = received.lock().unwrap()[0].clone();
    let header = |name: &str| {
        let start = format!("{name}: ");
        request.lines().find_map(|line| line.strip_prefix(&start)).unwrap_or_else(|| panic!("{request}")).to_owned()
    };
    let (id, seconds) = (header("webhook-id"), header("webhook-timestamp"));
    assert_eq!(id, job().to_string(), "the same for every attempt");
    let age = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs() - seconds.parse::<u64>().unwrap();
    assert!(age < 60, "{seconds}");
    let expected = [secret, &next].map(|key| {
        let mut mac = Hmac::<sha2::Sha256>::new_from_slice(&STANDARD.decode(key).unwrap()).unwrap();
        mac.update(format!("{id}.{seconds}.{{\"n\":1}}").as_bytes());
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    });
    assert_eq!(header("webhook-signature"), expected.join(" "));

    let unknown = HttpCall { sign_with: Some("shop".to_owned()), ..spec };
    let failure = perform(http, Run::Http(unknown), None, Cancel::default()).await.failure();
    assert_eq!(failure.reason, "this worker has no webhook key `shop`; its setting webhook_keys can have it");
    assert_eq!((failure.class, failure.last, failure.ran), (FailureClass::Environment, Last::No, Ran::No));
    assert_eq!(received.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn certificates_that_are_wrong_are_explained_and_prove_that_nothing_ran() {
    let known = identity(&["127.0.0.1"]);
    let foreign = identity(&["127.0.0.1"]);
    let other_name = identity(&["other.example"]);
    let expired = identity_with(&["127.0.0.1"], |params| {
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2021, 1, 1);
    });
    for (served, trusted, reason) in [
        (&foreign, &known, "is signed by nobody whom this machine trusts"),
        (&other_name, &other_name, "is for another name"),
        (&expired, &expired, "has expired"),
    ] {
        let (addr, received) = answering_securely(served, ok("")).await;
        let http = Arc::new(Http::new(Arc::new(outbound(Places::LOOPBACK).trust(trusted.certificate.clone()))));
        let spec = get(format!("https://{addr}/"));
        let failure = perform(http, Run::Http(spec), None, Cancel::default()).await.failure();
        assert_eq!(failure.reason, format!("cannot connect: the certificate of 127.0.0.1 {reason}"));
        assert_eq!((failure.class, failure.last, failure.ran), (FailureClass::Network, Last::No, Ran::No));
        assert!(received.lock().unwrap().is_empty());
    }
    let (addr, received) = answering_securely(&known, ok("safe")).await;
    let http = Arc::new(Http::new(Arc::new(outbound(Places::LOOPBACK).trust(known.certificate.clone()))));
    let done = perform(http, Run::Http(get(format!("https://{addr}/"))), None, Cancel::default()).await;
    assert_eq!(done.output()["body"], "safe");
    assert_eq!(received.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_port_without_tls_is_named_as_such() {
    let (addr, _) = answering(ok("")).await;
    let failure = execute(get(format!("https://{addr}/")), None).await.failure();
    assert_eq!(failure.ran, Ran::No, "{}", failure.reason);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        socket.write_all(b"220 mail.example ESMTP\r\n").await.unwrap();
        std::future::pending::<()>().await;
    });
    let failure = execute(get(format!("https://{addr}/")), None).await.failure();
    assert_eq!(failure.reason, "cannot connect: there is no TLS on this port");
}

/// Serves several requests on each connection and counts the connections.
async fn patient_server(requests_per_connection: usize) -> (std::net::SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let connections = Arc::new(AtomicUsize::new(0));
    let count = connections.clone();
    tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            count.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(async move {
                for _ in 0..requests_per_connection {
                    if read_request(&mut socket).await.is_empty() {
                        return;
                    }
                    socket.write_all(ok("").as_bytes()).await.unwrap();
                }
            });
        }
    });
    (addr, connections)
}

#[tokio::test]
async fn a_stream_of_calls_shares_a_connection() {
    let (addr, connections) = patient_server(100).await;
    let http = Arc::new(Http::new(Arc::new(outbound(Places::LOOPBACK))));
    for _ in 0..20 {
        let run = Run::Http(get(format!("http://{addr}/")));
        perform(http.clone(), run, None, Cancel::default()).await.output();
    }
    let connections = connections.load(Ordering::SeqCst);
    assert!(connections < 5, "{connections} connections for 20 calls");
}

/// The far side closes after each answer. No call may be in doubt for it.
#[tokio::test]
async fn a_connection_that_was_closed_is_replaced_without_doubt() {
    let (addr, connections) = patient_server(1).await;
    let http = Arc::new(Http::new(Arc::new(outbound(Places::LOOPBACK))));
    for _ in 0..20 {
        let run = Run::Http(get(format!("http://{addr}/")));
        perform(http.clone(), run, None, Cancel::default()).await.output();
        // The far side's end of the connection takes a moment to arrive.
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    assert_eq!(connections.load(Ordering::SeqCst), 20);
}

#[tokio::test]
async fn a_call_that_is_late_before_it_is_connected_proves_that_nothing_ran() {
    // A listener whose queue is full answers no one.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let addr = listener.local_addr().unwrap();
    let mut held = Vec::new();
    for _ in 0..8 {
        let connect = tokio::net::TcpStream::connect(addr);
        let Ok(connected) = tokio::time::timeout(std::time::Duration::from_millis(100), connect).await else { break };
        held.push(connected.unwrap());
    }
    let spec = HttpCall { timeout: punctual_core::Span::from_millis(300), ..get(format!("http://{addr}/")) };
    let failure = execute(spec, None).await.failure();
    assert_eq!(failure.reason, "cannot connect: no answer to the connection");
    assert_eq!((failure.class, failure.ran), (FailureClass::Network, Ran::No));
}
