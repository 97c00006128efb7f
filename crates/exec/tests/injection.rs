//! Line breaks and NULs in every field that goes out, with the checks of the server passed by:
//! the far side gets no header, command or request that we did not mean.

mod far_side;

use std::collections::BTreeMap;
use std::sync::Arc;

use far_side::smtp::{Script, mail_server};
use far_side::*;
use punctual_core::attempt::{Last, Outcome, Ran};
use punctual_core::run::{Email as Mail, Slack as Message};
use punctual_core::task::{HttpCall, Method, Run};
use punctual_exec::{Cancel, Email, Http, MailServer, Places, Slack, SlackWebhooks, WebhookKeys};

const EVIL: [&str; 14] = [
    "\r\nEvil: yes",
    "\nEvil: yes",
    "\rEvil: yes",
    "\0Evil: yes",
    "\r\n\r\nEvil: yes",
    "\r\n.\r\nMAIL FROM:<evil@example.com>\r\n",
    "\u{85}Evil: yes",
    "\u{2028}Evil: yes",
    "\u{2029}Evil: yes",
    "\u{b}Evil: yes",
    "\u{c}Evil: yes",
    // Line breaks for whoever decodes once too often, or keeps the low byte of each letter.
    "%0d%0aEvil: yes",
    "=0D=0AEvil: yes",
    "\u{560d}\u{560a}Evil: yes",
];

/// All that a request of ours has; `x-a` is the tests' own.
const KNOWN_HEADERS: [&str; 12] = [
    "accept",
    "user-agent",
    "idempotency-key",
    "punctual-job-id",
    "punctual-attempt",
    "punctual-tracing-id",
    "punctual-scheduled-at",
    "punctual-run-type",
    "content-type",
    "content-length",
    "host",
    "x-a",
];

/// What comes from the job and not from its task.
fn words(evil: &str) -> [Words<'_>; 3] {
    let usual = Words { task: "a task", input: None, tracing_id: "trace-7" };
    [Words { task: evil, ..usual }, Words { input: Some(evil), ..usual }, Words { tracing_id: evil, ..usual }]
}

fn mail() -> Mail {
    Mail {
        to: vec!["ops@example.com".to_owned()],
        cc: vec!["cc@example.com".to_owned()],
        bcc: vec!["bcc@example.com".to_owned()],
        reply_to: Some("re@example.com".to_owned()),
        subject: "subject".to_owned(),
        text: Some("text".to_owned()),
        html: None,
    }
}

#[tokio::test]
async fn no_field_of_a_mail_adds_a_header_or_a_command() {
    let (addr, ear) = mail_server(Script::default()).await;
    let server = MailServer::parse(&format!("smtp://{addr}"), None, "jobs@example.com").unwrap();
    let email = Arc::new(Email::new(Arc::new(outbound("")), server));
    for evil in EVIL {
        let with = |text: &str| format!("{text}{evil}");
        let headers = [
            Mail { to: vec![with("ops@example.com")], ..mail() },
            Mail { to: vec![format!("Ops{evil} <ops@example.com>")], ..mail() },
            Mail { to: vec![format!("\"Ops{evil}\" <ops@example.com>")], ..mail() },
            Mail { to: vec![format!("<ops@example.com>{evil}")], ..mail() },
            Mail { to: vec![format!("ops{evil}@example.com")], ..mail() },
            Mail { to: vec![format!("\"ops{evil}\"@example.com")], ..mail() },
            Mail { cc: vec![with("ops@example.com")], ..mail() },
            Mail { bcc: vec![with("ops@example.com")], ..mail() },
            Mail { reply_to: Some(with("ops@example.com")), ..mail() },
            Mail { subject: with("subject"), ..mail() },
        ];
        let bodies =
            [Mail { text: Some(with("text")), ..mail() }, Mail { text: None, html: Some(with("html")), ..mail() }];
        // A field that is added does not compile before it is tried above.
        let Mail { to: _, cc: _, bcc: _, reply_to: _, subject: _, text: _, html: _ } = mail();
        for words in words(evil) {
            let from_input = Mail { text: None, ..mail() };
            let done = perform_with(email.clone(), Run::Email(from_input), words, Cancel::default()).await;
            if let Outcome::Failed(failure) = done.outcome {
                assert_eq!(failure.ran, Ran::No, "{}", failure.reason);
            }
        }
        let must_fail = evil.contains(|letter: char| letter.is_control());
        let cases = headers.map(|case| (case, must_fail)).into_iter().chain(bodies.map(|case| (case, false)));
        for (case, must_fail) in cases {
            let done = perform(email.clone(), Run::Email(case), None, Cancel::default()).await;
            match done.outcome {
                Outcome::Succeeded { .. } => assert!(!must_fail, "{evil:?} was sent"),
                Outcome::Failed(failure) => {
                    assert_eq!((failure.last, failure.ran), (Last::Yes, Ran::No), "{}", failure.reason);
                    assert!(!failure.reason.contains(['\r', '\n', '\0']), "{:?}", failure.reason);
                }
                other => panic!("{other:?}"),
            }
        }
    }
    let heard = ear.lock().unwrap();
    for mail in &heard.mails {
        let (head, _) = mail.split_once("\r\n\r\n").expect("a head and a body");
        for line in head.lines() {
            let name = line.split(':').next().unwrap_or_default();
            let known = [
                "From",
                "To",
                "Cc",
                "Reply-To",
                "Subject",
                "Message-ID",
                "Date",
                "X-Punctual-Job",
                "Auto-Submitted",
                "MIME-Version",
                "Content-Type",
                "Content-Transfer-Encoding",
            ];
            assert!(line.starts_with(' ') || known.contains(&name), "an extra header `{line}` in\n{mail}");
        }
        assert!(!head.contains('\n') || !head.replace("\r\n", "").contains(['\r', '\n', '\0']), "{head:?}");
    }
    for command in &heard.commands {
        let word = command.split([' ', ':']).next().unwrap_or_default();
        assert!(["EHLO", "MAIL", "RCPT", "DATA", "QUIT"].contains(&word), "an extra command {command:?}");
        assert!(!command.contains("evil") && !command.contains("Evil"), "{command:?}");
    }
    let senders = heard.commands.iter().filter(|command| command.starts_with("MAIL")).count();
    assert_eq!(senders, heard.mails.len(), "one sender for each mail");
}

#[tokio::test]
async fn no_field_of_a_call_adds_a_header_or_a_request() {
    let (addr, received) = answering(ok("")).await;
    let keys = WebhookKeys::parse("ci=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
    let http = Arc::new(Http::new(Arc::new(outbound(Places::LOOPBACK))).webhook_keys(keys));
    let usual = || HttpCall { method: Method::Post, body: Some("x".to_owned()), ..get(format!("http://{addr}/")) };
    for evil in EVIL {
        let headers = |name: String, value: String| BTreeMap::from([(name, value)]);
        for case in [
            HttpCall { url: format!("http://{addr}/{evil}"), ..usual() },
            HttpCall { url: format!("http://{addr}/?q={evil}"), ..usual() },
            HttpCall { url: format!("http://{addr}/#{evil}"), ..usual() },
            HttpCall { url: format!("http://{addr}{evil}/"), ..usual() },
            HttpCall { headers: headers("X-A".to_owned(), format!("a{evil}")), ..usual() },
            HttpCall { headers: headers(format!("X-A{evil}"), "a".to_owned()), ..usual() },
            HttpCall { body: Some(format!("x{evil}")), ..usual() },
            HttpCall { sign_with: Some(format!("ci{evil}")), ..usual() },
            // A body that would be the next request.
            HttpCall { method: Method::Get, body: Some(format!("GET /evil HTTP/1.1{evil}")), ..usual() },
        ] {
            let done = perform(http.clone(), Run::Http(case), None, Cancel::default()).await;
            if let Outcome::Failed(failure) = done.outcome {
                assert_eq!(failure.ran, Ran::No, "{}", failure.reason);
            }
        }
        // A field that is added does not compile before it is tried above, or named here because it sends nothing.
        let HttpCall {
            url: _,
            method: _,
            headers: _,
            body: _,
            sign_with: _,
            expect_status: _,
            retry_status: _,
            expect_body: _,
            follow_redirects: _,
            forward_body: _,
            timeout: _,
        } = usual();
        for words in words(evil) {
            let from_input = HttpCall { body: None, ..usual() };
            let done = perform_with(http.clone(), Run::Http(from_input), words, Cancel::default()).await;
            assert!(matches!(done.outcome, Outcome::Succeeded { .. }), "{:?}", done.outcome);
        }
    }
    let requests = received.lock().unwrap();
    assert!(!requests.is_empty());
    for request in requests.iter() {
        let (head, _) = request.split_once("\r\n\r\n").expect("a head");
        let mut lines = head.split("\r\n");
        let first = lines.next().unwrap();
        assert!(first.starts_with("POST /") && first.ends_with(" HTTP/1.1"), "{first}");
        for line in lines {
            let name = line.split(':').next().unwrap_or_default();
            assert!(KNOWN_HEADERS.contains(&name), "an extra header `{line}` in\n{request}");
        }
        assert!(!head.replace("\r\n", "").contains(['\r', '\n', '\0']), "{head:?}");
    }
}

#[tokio::test]
async fn no_field_of_a_message_to_slack_adds_a_header_or_a_request() {
    let (addr, received) = answering(ok("ok")).await;
    let webhooks = SlackWebhooks::parse(&format!("ops=http://{addr}/x")).unwrap();
    let slack = Arc::new(Slack::new(Arc::new(outbound(Places::LOOPBACK)), webhooks));
    for evil in EVIL {
        for case in [
            Message { webhook: "ops".to_owned(), text: Some(format!("text{evil}")) },
            Message { webhook: format!("ops{evil}"), text: Some("text".to_owned()) },
            Message { webhook: format!("https://hooks.slack.com/x{evil}"), text: Some("text".to_owned()) },
            Message { webhook: format!("https://hooks.slack.com{evil}/x"), text: Some("text".to_owned()) },
        ] {
            let is_text = case.text.as_deref() != Some("text");
            // The outside world is not part of this: only what would get as far as a connection.
            if !is_text && !evil.contains(|letter: char| letter.is_control()) {
                continue;
            }
            let done = perform(slack.clone(), Run::Slack(case), None, Cancel::default()).await;
            match done.outcome {
                Outcome::Succeeded { .. } => assert!(is_text),
                Outcome::Failed(failure) => {
                    assert!(!is_text);
                    assert_eq!(failure.ran, Ran::No, "{}", failure.reason);
                    assert!(!failure.reason.contains(['\r', '\n', '\0']), "{:?}", failure.reason);
                }
                other => panic!("{other:?}"),
            }
        }
    }
    for evil in EVIL {
        for words in words(evil) {
            let Message { webhook: _, text: _ } = Message { webhook: String::new(), text: None };
            let case = Message { webhook: "ops".to_owned(), text: words.input.is_none().then(|| "text".to_owned()) };
            let done = perform_with(slack.clone(), Run::Slack(case), words, Cancel::default()).await;
            assert!(matches!(done.outcome, Outcome::Succeeded { .. }), "{:?}", done.outcome);
        }
    }
    let requests = received.lock().unwrap();
    assert_eq!(requests.len(), EVIL.len() * 4);
    for request in requests.iter() {
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        for line in head.split("\r\n").skip(1) {
            let name = line.split(':').next().unwrap_or_default();
            assert!(KNOWN_HEADERS.contains(&name), "an extra header `{line}` in\n{request}");
        }
        assert!(!head.replace("\r\n", "").contains(['\r', '\n', '\0']), "{head:?}");
        assert!(!body.contains(['\r', '\n', '\0']), "JSON has them escaped: {body:?}");
    }
}
