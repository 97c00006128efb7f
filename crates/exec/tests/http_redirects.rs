//! Where a redirect leads, and what is sent there.

mod far_side;

use std::collections::BTreeMap;
use std::sync::Arc;

use far_side::secure::{answering_securely, identity};
use far_side::*;
use punctual_core::attempt::{Last, Ran};
use punctual_core::task::{HttpCall, Method, Run};
use punctual_exec::{Cancel, Http, Places, WebhookKeys};

const KEY: &str = "ci=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

fn redirect(status: u16, location: &str) -> String {
    format!("HTTP/1.1 {status} Elsewhere\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n")
}

fn post(url: String, follow_redirects: u8) -> HttpCall {
    HttpCall { method: Method::Post, body: Some("the body".to_owned()), follow_redirects, ..get(url) }
}

#[tokio::test]
async fn the_status_says_what_becomes_of_the_method() {
    for (method, status, then) in [
        (Method::Get, 301, "GET"),
        (Method::Get, 302, "GET"),
        (Method::Get, 303, "GET"),
        (Method::Get, 307, "GET"),
        (Method::Head, 303, "HEAD"),
        (Method::Head, 302, "HEAD"),
        (Method::Post, 303, "GET"),
        (Method::Post, 307, "POST"),
        (Method::Post, 308, "POST"),
        (Method::Put, 308, "PUT"),
        (Method::Delete, 303, "GET"),
    ] {
        let (target, received) = answering(ok("")).await;
        let (addr, _) = answering(redirect(status, &format!("http://{target}/there?x=1"))).await;
        let body = method.takes_body().then(|| "the body".to_owned());
        let spec = HttpCall { method, body, follow_redirects: 1, forward_body: true, ..get(format!("http://{addr}/")) };
        let done = execute(spec, None).await;
        assert_eq!(done.output()["status"], 200, "{method:?} {status}");
        let request = received.lock().unwrap()[0].clone();
        assert!(request.starts_with(&format!("{then} /there?x=1 HTTP/1.1\r\n")), "{method:?} {status}: {request}");
        assert_eq!(request.ends_with("the body"), !matches!(then, "GET" | "HEAD"), "{request}");
        assert!(done.log.contains(&format!("redirected to http://{target}/there\n")), "{}", done.log);
    }
}

/// Browsers make a GET of it, and the receiver would never see the body.
#[tokio::test]
async fn a_post_is_not_made_a_get() {
    for status in [301, 302] {
        let (target, received) = answering(ok("")).await;
        let (addr, _) = answering(redirect(status, &format!("http://{target}/"))).await;
        let failure = execute(post(format!("http://{addr}/"), 5), None).await.failure();
        assert!(failure.reason.contains("does not say that the redirect is for a POST"), "{}", failure.reason);
        assert_eq!((failure.last, failure.ran), (Last::Yes, Ran::Yes));
        assert!(received.lock().unwrap().is_empty());
    }
}

#[tokio::test]
async fn secrets_stay_with_the_place_that_they_were_for() {
    let secrets = ["authorization", "cookie", "x-api-key", "webhook-signature", "webhook-id"];
    let headers = BTreeMap::from(
        [("Authorization", "Bearer a"), ("Cookie", "b"), ("X-Api-Key", "c"), ("Accept", "text/plain")]
            .map(|(name, value)| (name.to_owned(), value.to_owned())),
    );
    let keys = WebhookKeys::parse(KEY).unwrap();
    let http = || Arc::new(Http::new(Arc::new(outbound(Places::LOOPBACK))).webhook_keys(keys.clone()));
    let has = |request: &str, name: &str| request.to_lowercase().contains(&format!("\r\n{name}: "));

    // Elsewhere: another port is another place.
    let (target, received) = answering(ok("")).await;
    let (addr, first) = answering(redirect(307, &format!("http://{target}/"))).await;
    let spec =
        HttpCall { headers: headers.clone(), sign_with: Some("ci".to_owned()), ..post(format!("http://{addr}/"), 1) };
    let spec = HttpCall { forward_body: true, ..spec };
    perform(http(), Run::Http(spec.clone()), None, Cancel::default()).await.output();
    let (first, second) = (first.lock().unwrap()[0].clone(), received.lock().unwrap()[0].clone());
    for name in secrets {
        assert!(has(&first, name), "{name} was meant for the first place:\n{first}");
        assert!(!has(&second, name), "{name} went elsewhere:\n{second}");
    }
    assert!(has(&second, "accept") && has(&second, "idempotency-key") && has(&second, "content-type"), "{second}");
    assert!(second.contains(&format!("\r\nhost: {target}\r\n")), "{second}");

    // And back: what was left behind stays behind.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let home = listener.local_addr().unwrap();
    let (away, _) = answering(redirect(307, &format!("http://{home}/2"))).await;
    let seen = Received::default();
    let requests = seen.clone();
    tokio::spawn(async move {
        for answer in [redirect(307, &format!("http://{away}/")), ok("")] {
            let (mut socket, _) = listener.accept().await.unwrap();
            let request = read_request(&mut socket).await;
            requests.lock().unwrap().push(request);
            tokio::io::AsyncWriteExt::write_all(&mut socket, answer.as_bytes()).await.unwrap();
        }
    });
    let spec = HttpCall { url: format!("http://{home}/1"), follow_redirects: 2, ..spec };
    perform(http(), Run::Http(spec), None, Cancel::default()).await.output();
    let seen = seen.lock().unwrap().clone();
    assert!(has(&seen[0], "authorization"), "{}", seen[0]);
    for name in secrets {
        assert!(!has(&seen[1], name), "{name} came back:\n{}", seen[1]);
    }
}

/// A form with a password must not go to whomever the first receiver names.
#[tokio::test]
async fn a_body_goes_to_another_origin_only_if_the_task_says_so() {
    for status in [307, 308] {
        for (method, body, input) in
            [(Method::Post, Some("the body"), None), (Method::Put, None, Some(r#"{"secret":1}"#))]
        {
            let (target, received) = answering(ok("")).await;
            let (addr, _) = answering(redirect(status, &format!("http://{target}/there?token=1"))).await;
            let body = body.map(str::to_owned);
            let spec = HttpCall { method, body, follow_redirects: 5, ..get(format!("http://{addr}/")) };
            let failure = execute(spec, input).await.failure();
            let reason = format!(
                "the redirect is not followed: it would send the body to another origin (http://{target}); \
                 set forward_body to allow that"
            );
            assert_eq!((failure.reason, failure.last, failure.ran), (reason, Last::Yes, Ran::Yes));
            assert!(received.lock().unwrap().is_empty(), "nothing may reach the other origin");
        }
    }
    // Without a body there is nothing to give away.
    let (target, received) = answering(ok("")).await;
    let (addr, _) = answering(redirect(307, &format!("http://{target}/"))).await;
    let spec = HttpCall { method: Method::Post, follow_redirects: 1, ..get(format!("http://{addr}/")) };
    execute(spec, None).await.output();
    assert!(received.lock().unwrap()[0].starts_with("POST / HTTP/1.1"));
}

#[tokio::test]
async fn the_same_place_gets_the_same_headers() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let seen = Received::default();
    let requests = seen.clone();
    tokio::spawn(async move {
        for answer in [redirect(308, "/next"), ok("")] {
            let (mut socket, _) = listener.accept().await.unwrap();
            let request = read_request(&mut socket).await;
            requests.lock().unwrap().push(request);
            tokio::io::AsyncWriteExt::write_all(&mut socket, answer.as_bytes()).await.unwrap();
        }
    });
    let headers = BTreeMap::from([("Authorization".to_owned(), "Bearer a".to_owned())]);
    execute(HttpCall { headers, ..post(format!("http://{addr}/"), 1) }, None).await.output();
    let second = seen.lock().unwrap()[1].clone();
    assert!(second.starts_with("POST /next HTTP/1.1\r\n") && second.contains("authorization: Bearer a"), "{second}");
}

#[tokio::test]
async fn a_loop_ends_at_the_limit() {
    let (addr, received) = answering(redirect(302, "/again")).await;
    let spec = HttpCall { follow_redirects: 3, ..get(format!("http://{addr}/")) };
    let failure = execute(spec, None).await.failure();
    assert_eq!(failure.reason, "unexpected status 302 Found: 3 redirects were followed, and no more are");
    assert_eq!(received.lock().unwrap().len(), 4);
}

#[tokio::test]
async fn a_redirect_that_leads_nowhere_good_is_not_followed() {
    for (location, reason) in [
        ("ftp://example.com/", "only http and https"),
        ("file:///etc/passwd", "only http and https"),
        ("javascript:alert(1)", "only http and https"),
        ("http://user:pw@example.com/", "must not carry a user name"),
        ("http://[::1", "its address is not valid"),
        (&format!("/{}", "a".repeat(5000)), "its address is too long"),
    ] {
        let (addr, _) = answering(redirect(302, location)).await;
        let spec = HttpCall { follow_redirects: 3, ..get(format!("http://{addr}/")) };
        let failure = execute(spec, None).await.failure();
        assert!(failure.reason.starts_with("the redirect is not followed: "), "{}", failure.reason);
        assert!(failure.reason.contains(reason) && !failure.reason.contains("pw"), "{}", failure.reason);
        assert_eq!((failure.last, failure.ran), (Last::Yes, Ran::Yes));
    }
    let (addr, _) = answering("HTTP/1.1 302 Found\r\ncontent-length: 0\r\n\r\n").await;
    let spec = HttpCall { follow_redirects: 3, ..get(format!("http://{addr}/")) };
    let failure = execute(spec, None).await.failure();
    assert_eq!(failure.reason, "unexpected status 302 Found: the redirect does not say where to");
}

#[tokio::test]
async fn encryption_is_not_given_up_on_the_way() {
    let (plain, received) = answering(ok("")).await;
    let own = identity(&["127.0.0.1"]);
    let (addr, _) = answering_securely(&own, redirect(302, &format!("http://{plain}/"))).await;
    let http = Arc::new(Http::new(Arc::new(outbound(Places::LOOPBACK).trust(own.certificate.clone()))));
    let spec = HttpCall { follow_redirects: 3, ..get(format!("https://{addr}/")) };
    let failure = perform(http, Run::Http(spec), None, Cancel::default()).await.failure();
    assert!(failure.reason.contains("from https to http"), "{}", failure.reason);
    assert!(received.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_redirect_that_is_expected_is_the_answer() {
    let (target, received) = answering(ok("")).await;
    let (addr, _) = answering(redirect(302, &format!("http://{target}/"))).await;
    let spec = HttpCall { follow_redirects: 3, expect_status: vec![302], ..get(format!("http://{addr}/")) };
    assert_eq!(execute(spec, None).await.output()["status"], 302);
    assert!(received.lock().unwrap().is_empty());
}
