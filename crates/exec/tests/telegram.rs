//! What is sent by a Telegram bot, what the answers of the API mean, and that nobody sees the token.

mod far_side;

use std::sync::Arc;

use far_side::*;
use punctual_core::Span;
use punctual_core::attempt::{FailureClass, Last, Ran};
use punctual_core::run::{ParseMode, Telegram as Message};
use punctual_core::task::Run;
use punctual_exec::{Cancel, Places, Telegram, TelegramBots};

fn message(text: Option<&str>) -> Message {
    Message { bot: "ops".to_owned(), text: text.map(str::to_owned), ..Message::new("@news") }
}

async fn send(addr: std::net::SocketAddr, message: Message, input: Option<&'static str>) -> Done {
    let bots = TelegramBots::parse("ops=42:s3cret").unwrap().reached_at(&format!("http://{addr}")).unwrap();
    let telegram = Arc::new(Telegram::new(Arc::new(outbound(Places::LOOPBACK)), bots));
    perform(telegram, Run::Telegram(message), input, Cancel::default()).await.without("s3cret")
}

#[tokio::test]
async fn a_message_goes_to_the_chat_by_the_bot() {
    let (addr, received) = answering(answer(200, "", r#"{"ok":true,"result":{"message_id":7,"chat":{"id":1}}}"#)).await;
    let formatted =
        Message { parse_mode: Some(ParseMode::MarkdownV2), silent: true, ..message(Some("*It is* \"done\"")) };
    let done = send(addr, formatted, Some("{}")).await;
    assert_eq!(done.output(), serde_json::json!({"message_id": 7}));
    assert!(done.log.starts_with("sendMessage by the Telegram bot ops → 200 in "), "{}", done.log);
    let request = received.lock().unwrap()[0].clone();
    assert!(request.starts_with("POST /bot42:s3cret/sendMessage HTTP/1.1\r\n"), "{request}");
    assert!(request.contains("content-type: application/json\r\n"), "{request}");
    let (_, body) = request.split_once("\r\n\r\n").unwrap();
    let body: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(
        body,
        serde_json::json!({
            "chat_id": "@news", "text": "*It is* \"done\"", "parse_mode": "MarkdownV2", "disable_notification": true
        })
    );
}

#[tokio::test]
async fn an_input_that_is_too_long_is_cut_and_the_log_says_so() {
    let (addr, received) = answering(answer(200, "", r#"{"ok":true,"result":{"message_id":7}}"#)).await;
    let input: &'static str = Box::leak(format!("\"{}\"", "x".repeat(5000)).into_boxed_str());
    let done = send(addr, message(None), Some(input)).await;
    assert!(done.log.starts_with("the text is too long for Telegram: the last 905 characters are left out\n"));
    let request = received.lock().unwrap()[0].clone();
    let body: serde_json::Value = serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(body["text"].as_str().unwrap().encode_utf16().count(), 4096);
}

#[tokio::test]
async fn the_answer_says_whether_another_try_can_help() {
    for (status, more, body, last, retry_after, said) in [
        (400, "", r#"{"ok":false,"description":"Bad Request: chat not found"}"#, Last::Yes, None, "chat not found"),
        (401, "", r#"{"ok":false,"description":"Unauthorized"}"#, Last::Yes, None, "check the token"),
        (400, "", r#"{"ok":false,"description":"Bad Request: no chat"}"#, Last::Yes, None, "400 Bad Request: no chat"),
        (403, "", r#"{"ok":false,"description":"Forbidden: bot was kicked"}"#, Last::Yes, None, "bot was kicked"),
        (
            400,
            "",
            r#"{"ok":false,"description":"group upgraded","parameters":{"migrate_to_chat_id":-1009}}"#,
            Last::Yes,
            None,
            "the chat has a new id, -1009",
        ),
        (
            429,
            "",
            r#"{"ok":false,"description":"Too Many Requests","parameters":{"retry_after":35}}"#,
            Last::No,
            Some(Span::from_secs(35)),
            "Too Many Requests",
        ),
        (429, "retry-after: 9\r\n", "", Last::No, Some(Span::from_secs(9)), "429"),
        (500, "", r#"{"ok":false,"description":"Internal"}"#, Last::No, None, "500"),
        (502, "", "<html>", Last::No, None, "502"),
        (200, "", r#"{"ok":false,"description":"no 42:s3cret here"}"#, Last::Yes, None, "200"),
    ] {
        let (addr, _) = answering(answer(status, more, body)).await;
        let failure = send(addr, message(Some("hi")), None).await.failure();
        assert_eq!((failure.last, failure.retry_after), (last, retry_after), "{status} {body}");
        assert_eq!((failure.class, failure.ran), (FailureClass::Task, Ran::Yes));
        assert!(failure.reason.starts_with(&format!("Telegram answered {status}")), "{}", failure.reason);
        assert!(failure.reason.contains(said) && !failure.reason.contains("html"), "{}", failure.reason);
    }
}

#[tokio::test]
async fn an_answer_of_something_else_leaves_a_doubt_and_no_connection_does_not() {
    let (addr, _) = answering(answer(200, "", "<html>Welcome to the hotel")).await;
    let failure = send(addr, message(Some("hi")), None).await.failure();
    assert_eq!((failure.class, failure.ran), (FailureClass::Network, Ran::Unknown));
    let failure = send(nobody().await, message(Some("hi")), None).await.failure();
    assert_eq!((failure.class, failure.ran), (FailureClass::Network, Ran::No));
}

#[tokio::test]
async fn a_bot_that_the_worker_does_not_have_may_be_known_elsewhere() {
    let telegram = Arc::new(Telegram::new(Arc::new(outbound("")), TelegramBots::default()));
    let failure = perform(telegram, Run::Telegram(message(Some("hi"))), None, Cancel::default()).await.failure();
    assert!(failure.reason.contains("telegram_bots"), "{}", failure.reason);
    assert_eq!((failure.class, failure.last, failure.ran), (FailureClass::Environment, Last::No, Ran::No));
}
