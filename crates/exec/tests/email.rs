//! What the mail executor says to a server, and what it makes of the answers.

mod far_side;

use std::net::SocketAddr;
use std::sync::Arc;

use far_side::secure::{Identity, identity};
use far_side::smtp::{Does, Script, SharedTraffic, Step, mail_server};
use far_side::*;
use punctual_core::attempt::{FailureClass, Last, Ran};
use punctual_core::run::Email as Mail;
use punctual_core::task::Run;
use punctual_exec::{Cancel, Email, MailServer, Outbound};

fn mail() -> Mail {
    Mail {
        to: vec!["Ops <ops@example.com>".to_owned()],
        cc: Vec::new(),
        bcc: Vec::new(),
        reply_to: None,
        subject: "It is done".to_owned(),
        text: Some("All of it.".to_owned()),
        html: None,
    }
}

async fn send(url: &str, password: Option<&str>, outbound: Outbound, mail: Mail, input: Option<&'static str>) -> Done {
    let server = MailServer::parse(url, password, "Punctual <jobs@example.com>").unwrap();
    let email = Arc::new(Email::new(Arc::new(outbound), server));
    perform(email, Run::Email(mail), input, Cancel::default()).await
}

/// On this machine, without encryption.
async fn send_plainly(addr: SocketAddr, mail: Mail, input: Option<&'static str>) -> Done {
    // The guard is for what tasks name; the server is the worker's own.
    send(&format!("smtp://{addr}"), None, outbound(""), mail, input).await
}

fn only_mail(ear: &SharedTraffic) -> String {
    let heard = ear.lock().unwrap();
    assert_eq!(heard.mails.len(), 1, "{:?}", heard.commands);
    heard.mails[0].clone()
}

#[tokio::test]
async fn a_mail_arrives_with_what_the_task_says_and_who_it_is_from() {
    let (addr, ear) = mail_server(Script { offers: vec!["SIZE 1000000", "8BITMIME"], ..Script::default() }).await;
    let done = send_plainly(
        addr,
        Mail {
            cc: vec!["boss@example.com".to_owned(), "ops@example.com".to_owned()],
            bcc: vec!["Hidden <hidden@example.com>".to_owned()],
            reply_to: Some("help@example.com".to_owned()),
            subject: "Größe: ok".to_owned(),
            ..mail()
        },
        None,
    )
    .await;
    let id = format!("<{}@example.com>", job());
    assert_eq!(
        done.output(),
        serde_json::json!({
            "message_id": id,
            "to": ["ops@example.com", "boss@example.com", "hidden@example.com"],
            "answer": "250 2.0.0 queued as 17",
        })
    );
    assert_eq!(done.log, "sent to 3 of 3: 250 2.0.0 queued as 17\n");
    let mail = only_mail(&ear);
    for line in [
        "From: Punctual <jobs@example.com>",
        "To: Ops <ops@example.com>",
        "Cc: boss@example.com, ops@example.com",
        "Reply-To: help@example.com",
        "Auto-Submitted: auto-generated",
        &format!("Message-ID: {id}"),
        &format!("X-Punctual-Job: {}", job()),
        "All of it.",
    ] {
        assert!(mail.lines().any(|found| found == line), "no `{line}` in\n{mail}");
    }
    assert!(mail.contains("Subject: =?utf-8?b?"), "{mail}");
    assert!(!mail.contains("hidden"), "a blind copy is not blind:\n{mail}");
    let commands = ear.lock().unwrap().commands.clone();
    assert_eq!(commands[0], "EHLO [127.0.0.1]");
    assert!(commands[1].starts_with("MAIL FROM:<jobs@example.com> SIZE="), "{commands:?}");
    assert_eq!(
        commands[2..6],
        ["RCPT TO:<ops@example.com>", "RCPT TO:<boss@example.com>", "RCPT TO:<hidden@example.com>", "DATA"]
    );
}

#[tokio::test]
async fn the_text_is_the_tasks_own_or_the_input() {
    let without_text = || Mail { text: None, ..mail() };
    for (mail, input, kind, said) in [
        (mail(), Some(r#""unused""#), "Content-Type: text/plain; charset=utf-8", "All of it."),
        (without_text(), Some(r#""line 1\n.\nline 3""#), "text/plain", "line 1\r\n..\r\nline 3\r\n"),
        (without_text(), Some(r#"{"n": 1}"#), "text/plain", r#"{"n": 1}"#),
        (without_text(), None, "text/plain", ""),
        (Mail { html: Some("<p>hi</p>".to_owned()), ..without_text() }, Some("1"), "text/html", "<p>hi</p>"),
        (Mail { html: Some("<p>hi</p>".to_owned()), ..mail() }, None, "multipart/alternative", "<p>hi</p>"),
    ] {
        let (addr, ear) = mail_server(Script::default()).await;
        send_plainly(addr, mail, input).await.output();
        let mail = only_mail(&ear);
        assert!(mail.contains(kind) && mail.contains(said), "{kind} {said}:\n{mail}");
    }
}

#[tokio::test]
async fn every_attempt_has_the_same_message_id() {
    let (addr, ear) = mail_server(Script::default()).await;
    for _ in 0..2 {
        send_plainly(addr, mail(), None).await.output();
    }
    let mails = ear.lock().unwrap().mails.clone();
    let id = |mail: &str| mail.lines().find(|line| line.starts_with("Message-ID: ")).unwrap().to_owned();
    assert_eq!(id(&mails[0]), id(&mails[1]));
}

/// At each step of the conversation: refused for now, refused for good, and cut off.
#[tokio::test]
async fn each_step_of_a_conversation_can_fail_and_says_what_that_means() {
    use Does::{Hangs, Says};
    let no = Ran::No;
    for (step, does, class, last, ran) in [
        (Step::Greeting, Says("421 later"), FailureClass::Environment, Last::No, no),
        (Step::Greeting, Says("554 never"), FailureClass::Environment, Last::Yes, no),
        (Step::Greeting, Says("hello"), FailureClass::Network, Last::No, no),
        (Step::Greeting, Hangs, FailureClass::Network, Last::No, no),
        (Step::Ehlo, Says("421 later"), FailureClass::Environment, Last::No, no),
        (Step::Ehlo, Says("550 never"), FailureClass::Environment, Last::Yes, no),
        (Step::Ehlo, Hangs, FailureClass::Network, Last::No, no),
        (Step::Mail, Says("451 later"), FailureClass::Task, Last::No, no),
        (Step::Mail, Says("550 never"), FailureClass::Task, Last::Yes, no),
        (Step::Mail, Hangs, FailureClass::Network, Last::No, no),
        (Step::Rcpt(0), Says("450 greylisted"), FailureClass::Task, Last::No, no),
        (Step::Rcpt(0), Says("550 no such user"), FailureClass::Task, Last::Yes, no),
        (Step::Rcpt(0), Hangs, FailureClass::Network, Last::No, no),
        (Step::Data, Says("451 later"), FailureClass::Task, Last::No, no),
        (Step::Data, Says("554 never"), FailureClass::Task, Last::Yes, no),
        (Step::Data, Hangs, FailureClass::Network, Last::No, no),
        (Step::Dot, Says("451 later"), FailureClass::Task, Last::No, no),
        (Step::Dot, Says("554 spam"), FailureClass::Task, Last::Yes, no),
        // It was all there, and nobody knows whether it was taken.
        (Step::Dot, Hangs, FailureClass::Network, Last::No, Ran::Unknown),
    ] {
        let (addr, _) = mail_server(Script::odd(step, does)).await;
        let done = send_plainly(addr, mail(), None).await;
        assert!(done.log.contains("mail server"), "{}", done.log);
        let failure = done.failure();
        assert_eq!((failure.class, failure.last, failure.ran), (class, last, ran), "{step:?} {does:?}: {failure:?}");
        if let (Says(said), true) = (does, class != FailureClass::Network) {
            assert!(failure.reason.contains(said), "{}", failure.reason);
        }
    }
}

/// The far side is gone while a large mail is on its way: the dot was never sent.
#[tokio::test]
async fn a_mail_that_was_cut_off_half_way_was_not_sent() {
    let (addr, ear) = mail_server(Script::odd(Step::Body, Does::Hangs)).await;
    // More than the sockets hold; the server reads one line of it.
    let large = Mail { text: Some("a line of text\n".repeat(500_000)), ..mail() };
    let failure = send_plainly(addr, large, None).await.failure();
    assert_eq!((failure.class, failure.ran), (FailureClass::Network, Ran::No), "{}", failure.reason);
    assert!(ear.lock().unwrap().mails.is_empty());
}

#[tokio::test]
async fn a_server_that_is_not_there_proves_that_nothing_was_sent() {
    let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let failure = send_plainly(closed, mail(), None).await.failure();
    assert_eq!(failure.reason, "the mail server: cannot connect: Connection refused");
    assert_eq!((failure.class, failure.last, failure.ran), (FailureClass::Network, Last::No, Ran::No));
}

#[tokio::test]
async fn who_is_refused_is_named_and_the_others_get_the_mail_once() {
    let three = Mail { to: ["a@example.com", "b@example.com", "c@example.com"].map(str::to_owned).to_vec(), ..mail() };
    let (addr, ear) = mail_server(Script::odd(Step::Rcpt(1), Does::Says("550 5.1.1 no such user"))).await;
    let done = send_plainly(addr, three.clone(), None).await;
    assert!(done.log.contains("not sent to b@example.com: 550 5.1.1 no such user"), "{}", done.log);
    let failure = done.failure();
    assert_eq!(failure.reason, "sent to 2 of 3 addresses; refused: b@example.com (550 5.1.1 no such user)");
    // A retry would reach the two others again.
    assert_eq!((failure.last, failure.ran), (Last::Yes, Ran::Yes));
    only_mail(&ear);

    // One who may be taken later holds it back for all.
    let script = Script {
        odd: vec![(Step::Rcpt(0), Does::Says("550 no such user")), (Step::Rcpt(2), Does::Says("450 greylisted"))],
        ..Script::default()
    };
    let (addr, ear) = mail_server(script).await;
    let failure = send_plainly(addr, three, None).await.failure();
    assert_eq!(failure.reason, "the mail server does not take mail for c@example.com now: 450 greylisted");
    assert_eq!((failure.last, failure.ran), (Last::No, Ran::No));
    assert!(ear.lock().unwrap().mails.is_empty());
}

fn trusting(identity: &Identity) -> Outbound {
    outbound("").trust(identity.certificate.clone())
}

#[tokio::test]
async fn a_login_and_a_mail_go_out_only_after_starttls() {
    let own = identity(&["localhost", "127.0.0.1"]);
    let script = Script { offers: vec!["AUTH PLAIN LOGIN"], ..Script::secured(&own) };
    let (addr, ear) = mail_server(script).await;
    let url = format!("smtp://me@{addr}?tls=starttls");
    send(&url, Some("s3cret"), trusting(&own), mail(), None).await.output();
    let heard = ear.lock().unwrap();
    assert_eq!(heard.in_the_clear, 2, "{:?}", heard.commands);
    assert_eq!(heard.commands[1], "STARTTLS");
    assert_eq!(heard.commands[3], "AUTH PLAIN AG1lAHMzY3JldA==");
    assert_eq!(heard.mails.len(), 1);
}

#[tokio::test]
async fn a_server_that_knows_only_the_old_login_is_served_too() {
    let own = identity(&["127.0.0.1"]);
    let (addr, ear) = mail_server(Script { offers: vec!["AUTH LOGIN"], ..Script::secured(&own) }).await;
    let url = format!("smtp://me@{addr}?tls=starttls");
    send(&url, Some("s3cret"), trusting(&own), mail(), None).await.output();
    assert_eq!(ear.lock().unwrap().commands[3..6], ["AUTH LOGIN", "bWU=", "czNjcmV0"]);
}

#[tokio::test]
async fn tls_from_the_first_byte_works_too() {
    let own = identity(&["127.0.0.1"]);
    let (addr, ear) = mail_server(Script { implicit: true, ..Script::secured(&own) }).await;
    send(&format!("smtps://{addr}"), None, trusting(&own), mail(), None).await.output();
    only_mail(&ear);
}

#[tokio::test]
async fn nothing_is_sent_where_the_encryption_is_not_what_it_should_be() {
    let (own, foreign) = (identity(&["127.0.0.1"]), identity(&["127.0.0.1"]));
    // Another's certificate.
    let (addr, ear) = mail_server(Script::secured(&foreign)).await;
    let url = |addr: SocketAddr| format!("smtp://me@{addr}?tls=starttls");
    let failure = send(&url(addr), Some("s3cret"), trusting(&own), mail(), None).await.failure();
    assert!(failure.reason.contains("signed by nobody whom this machine trusts"), "{}", failure.reason);
    assert_eq!((failure.class, failure.ran), (FailureClass::Network, Ran::No));
    assert_eq!(ear.lock().unwrap().commands, ["EHLO [127.0.0.1]", "STARTTLS"]);
    // No encryption on offer, perhaps because someone in between took it out.
    let (addr, ear) = mail_server(Script { offers: vec!["AUTH PLAIN"], ..Script::default() }).await;
    let failure = send(&url(addr), Some("s3cret"), trusting(&own), mail(), None).await.failure();
    assert!(failure.reason.contains("offers no STARTTLS"), "{}", failure.reason);
    assert_eq!((failure.class, failure.last, failure.ran), (FailureClass::Environment, Last::Yes, Ran::No));
    assert_eq!(ear.lock().unwrap().commands, ["EHLO [127.0.0.1]"]);
    // Answers that were put in before the encryption must not count as encrypted ones.
    let script =
        Script { odd: vec![(Step::StartTls, Does::Says("220 go on\r\n250 injected"))], ..Script::secured(&own) };
    let (addr, ear) = mail_server(script).await;
    let failure = send(&url(addr), Some("s3cret"), trusting(&own), mail(), None).await.failure();
    assert!(failure.reason.contains("more before the encryption than it may"), "{}", failure.reason);
    assert_eq!(ear.lock().unwrap().mails.len(), 0);
}

#[tokio::test]
async fn a_login_that_is_refused_is_the_workers_trouble_and_shows_no_password() {
    let own = identity(&["127.0.0.1"]);
    for (offers, answer, reason) in [
        ("AUTH PLAIN", Some("535 5.7.8 bad credentials"), "refused the login: 535 5.7.8 bad credentials"),
        ("AUTH LOGIN", Some("535 no"), "refused the login: 535 no"),
        ("AUTH XOAUTH2", None, "offers neither AUTH PLAIN nor AUTH LOGIN"),
        ("8BITMIME", None, "offers neither AUTH PLAIN nor AUTH LOGIN"),
    ] {
        let odd = answer.map(|answer| (Step::Auth, Does::Says(answer))).into_iter().collect();
        let (addr, _) = mail_server(Script { odd, offers: vec![offers], ..Script::secured(&own) }).await;
        let url = format!("smtp://me@{addr}?tls=starttls");
        let done = send(&url, Some("s3cret"), trusting(&own), mail(), None).await;
        assert!(!done.log.contains("s3cret") && !done.log.contains("czNjcmV0"), "{}", done.log);
        let failure = done.failure();
        assert!(failure.reason.contains(reason), "{}", failure.reason);
        assert_eq!((failure.class, failure.last, failure.ran), (FailureClass::Environment, Last::Yes, Ran::No));
    }
}

#[tokio::test]
async fn a_server_that_talks_without_end_is_left() {
    use tokio::io::AsyncWriteExt;
    for endless in ["220-x\r\n", "x", "220-no line break "] {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut socket, _) = listener.accept().await.unwrap();
            while socket.write_all(endless.repeat(100).as_bytes()).await.is_ok() {}
        });
        let failure = send_plainly(addr, mail(), None).await.failure();
        assert_eq!((failure.class, failure.ran), (FailureClass::Network, Ran::No), "{endless}: {}", failure.reason);
        assert!(failure.reason.len() < 500, "{}", failure.reason);
    }
}
