//! What is posted to Slack, what its answers mean, and that nobody sees the address.

mod far_side;

use std::sync::Arc;

use far_side::*;
use punctual_core::Span;
use punctual_core::attempt::{FailureClass, Last, Ran};
use punctual_core::run::Slack as Message;
use punctual_core::task::Run;
use punctual_exec::{Cancel, Places, Slack, SlackWebhooks};

async fn post(addr: std::net::SocketAddr, text: Option<&str>, input: Option<&'static str>) -> Done {
    let webhooks = SlackWebhooks::parse(&format!("ops=http://{addr}/services/s3cret")).unwrap();
    let slack = Arc::new(Slack::new(Arc::new(outbound(Places::LOOPBACK)), webhooks));
    let message = Message { webhook: "ops".to_owned(), text: text.map(str::to_owned) };
    perform(slack, Run::Slack(message), input, Cancel::default()).await.without("s3cret")
}

#[tokio::test]
async fn a_text_is_posted_as_json() {
    let (addr, received) = answering(ok("ok")).await;
    let done = post(addr, Some("<!here> \"done\""), Some("{}")).await;
    assert_eq!(done.output(), serde_json::json!({"status": 200, "body": "ok", "truncated": false}));
    assert!(done.log.starts_with("POST to the Slack webhook ops → 200 in "), "{}", done.log);
    let request = received.lock().unwrap()[0].clone();
    assert!(request.starts_with("POST /services/s3cret HTTP/1.1\r\n"), "{request}");
    assert!(request.contains("content-type: application/json; charset=utf-8\r\n"), "{request}");
    assert!(request.ends_with("\r\n\r\n{\"text\":\"<!here> \\\"done\\\"\"}"), "{request}");
}

#[tokio::test]
async fn an_object_is_the_message_itself() {
    let (addr, received) = answering(ok("ok")).await;
    post(addr, None, Some(r#"{"blocks":[]}"#)).await.output();
    assert!(received.lock().unwrap()[0].ends_with("\r\n\r\n{\"blocks\":[]}"));
}

#[tokio::test]
async fn the_answer_says_whether_another_try_can_help() {
    for (status, more, body, last, retry_after) in [
        (400, "", "invalid_payload", Last::Yes, None),
        (403, "", "action_prohibited", Last::Yes, None),
        (404, "", "no_service", Last::Yes, None),
        (404, "", "<html>", Last::Yes, None),
        (410, "", "channel_is_archived", Last::Yes, None),
        (200, "", "no_service", Last::Yes, None),
        (500, "", "rollup_error", Last::No, None),
        (503, "", "", Last::No, None),
        (429, "retry-after: 30\r\n", "rate_limited", Last::No, Some(Span::from_secs(30))),
    ] {
        let (addr, _) = answering(answer(status, more, body)).await;
        let failure = post(addr, Some("hi"), None).await.failure();
        assert_eq!((failure.last, failure.retry_after), (last, retry_after), "{status} {body}");
        assert_eq!((failure.class, failure.ran), (FailureClass::Task, Ran::Yes));
        assert!(failure.reason.starts_with(&format!("Slack answered {status}")), "{}", failure.reason);
        assert!(!failure.reason.contains("html"), "{}", failure.reason);
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let (target, received) = answering(ok("ok")).await;
    let (addr, _) =
        answering(format!("HTTP/1.1 307 X\r\nlocation: http://{target}/\r\ncontent-length: 0\r\n\r\n")).await;
    assert_eq!(post(addr, Some("hi"), None).await.failure().last, Last::Yes);
    assert!(received.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_connection_that_breaks_leaves_a_doubt_and_one_that_never_was_does_not() {
    let (addr, _) = answering("").await;
    let failure = post(addr, Some("hi"), None).await.failure();
    assert_eq!((failure.class, failure.ran), (FailureClass::Network, Ran::Unknown));
    let failure = post(nobody().await, Some("hi"), None).await.failure();
    assert_eq!((failure.class, failure.ran), (FailureClass::Network, Ran::No));
}

#[tokio::test]
async fn a_name_that_the_worker_does_not_have_may_be_known_elsewhere() {
    let slack = Arc::new(Slack::new(Arc::new(outbound("")), SlackWebhooks::default()));
    let message = Message { webhook: "ops".to_owned(), text: Some("hi".to_owned()) };
    let failure = perform(slack, Run::Slack(message), None, Cancel::default()).await.failure();
    assert!(failure.reason.contains("slack_webhooks"), "{}", failure.reason);
    assert_eq!((failure.class, failure.last, failure.ran), (FailureClass::Environment, Last::No, Ran::No));
}
