//! Lies in the form of messages: too long, too many, too large.

use std::collections::HashMap;

use punctual_core::AttemptNo;
use punctual_core::JobId;
use punctual_proto::convert::attempt_ref;
use punctual_proto::worker as wire;
use tonic::Code;

use super::Stage;
use super::liar::{Assigned, Liar, denied, new_secret};
use crate::harness::eventually;

type Lie = Box<dyn Fn(&mut wire::Hello)>;

fn lies() -> Vec<(&'static str, Lie)> {
    fn lie(name: &'static str, tell: impl Fn(&mut wire::Hello) + 'static) -> (&'static str, Lie) {
        (name, Box::new(tell))
    }
    let many = |count: usize| (0..count).map(|number| format!("n{number}")).collect::<Vec<_>>();
    let anyone = JobId::new(punctual_core::Timestamp::EPOCH, punctual_core::ShardId(0), 1);
    vec![
        lie("no id", |hello| hello.worker_id = bytes::Bytes::new()),
        lie("an id that is none", |hello| hello.worker_id = vec![0xff; 16].into()),
        lie("a long name", |hello| hello.name = "n".repeat(257)),
        lie("a name with control characters", |hello| hello.name = "\x1b[2J".to_owned()),
        lie("a name with NUL", |hello| hello.name = "a\0b".to_owned()),
        lie("a long machine", |hello| hello.host = "h".repeat(257)),
        lie("a long version", |hello| hello.version = "1".repeat(129)),
        lie("a long user", |hello| hello.commands_as = "u".repeat(129)),
        lie("many queues", move |hello| hello.queues = many(1025)),
        lie("a long queue", |hello| hello.queues = vec!["q".repeat(129)]),
        lie("a queue that is a path", |hello| hello.queues = vec!["../q".to_owned()]),
        lie("many handlers", move |hello| hello.capabilities = many(1025)),
        lie("a long capability", |hello| hello.capabilities = vec!["c".repeat(257)]),
        lie("more of them than fits", |hello| {
            hello.capabilities = (0..1000).map(|number| format!("{number}{}", "c".repeat(200))).collect();
        }),
        lie("many labels", |hello| {
            hello.labels = (0..65).map(|number| (format!("l{number}"), String::new())).collect();
        }),
        lie("a long label", |hello| hello.labels = HashMap::from([("l".to_owned(), "v".repeat(257))])),
        lie("a key of a label with a space", |hello| {
            hello.labels = HashMap::from([("a b".to_owned(), String::new())]);
        }),
        lie("many slots", |hello| hello.credit = 65_537),
        lie("many held attempts", move |hello| hello.held = vec![attempt_ref(anyone, AttemptNo(1)); 140_000]),
        lie("a held attempt of no job", |hello| hello.held = vec![wire::AttemptRef::default()]),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn every_field_of_a_hello_has_its_limit() {
    let stage = Stage::embedded();
    for (what, lie) in lies() {
        let mut liar = Liar::greeted(&stage.server, new_secret()).await;
        let mut hello = liar.hello();
        lie(&mut hello);
        eprintln!("{what}");
        denied(liar.introduce(hello).await, Code::InvalidArgument);
    }
    let client = stage.server.client();
    assert_eq!(client.workers().await.expect("workers are listed").workers.len(), 0, "none of them was let in");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_message_is_a_hello() {
    let stage = Stage::embedded();
    let mut liar = Liar::greeted(&stage.server, new_secret()).await;
    liar.say(wire::WorkerMessage { credit: Some(1), ..Default::default() }).await;
    denied(liar.hear().await, Code::InvalidArgument);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_beyond_its_limits_ends_the_stream_and_nothing_else() {
    let stage = Stage::embedded();
    let anyone = JobId::new(punctual_core::Timestamp::EPOCH, punctual_core::ShardId(0), 1);
    let nobody = Assigned { job: anyone, attempt: 1, token: bytes::Bytes::new() };
    let outcome = nobody.succeeded(None);
    for (what, message) in [
        ("a credit", wire::WorkerMessage { credit: Some(u32::MAX), ..Default::default() }),
        ("many outcomes", wire::WorkerMessage { outcomes: vec![outcome.clone(); 4097], ..Default::default() }),
        ("many logs", wire::WorkerMessage { logs: vec![nobody.printed(0, "x"); 32_769], ..Default::default() }),
        ("5 MiB", wire::WorkerMessage { logs: vec![nobody.printed(0, vec![0; 5 << 20])], ..Default::default() }),
        (
            "no result",
            wire::WorkerMessage {
                outcomes: vec![wire::Outcome { result: None, ..outcome.clone() }],
                ..Default::default()
            },
        ),
        ("no job", wire::WorkerMessage { outcomes: vec![wire::Outcome::default()], ..Default::default() }),
        ("a log of no job", wire::WorkerMessage { logs: vec![wire::LogChunk::default()], ..Default::default() }),
    ] {
        eprintln!("{what}");
        let mut liar = Liar::welcomed(&stage.server).await;
        liar.say(message).await;
        liar.cut_off().await;
    }
    let _worker = stage.worker().await;
    let job = stage.submit("default", Default::default()).await;
    assert_eq!(crate::cluster::finished(&stage.server.client(), job).await.state, "succeeded");
}

/// What it is answered waits for it, and does not grow without end.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_reads_nothing_is_not_read_either() {
    let stage = Stage::embedded();
    let _worker = stage.worker().await;
    let liar = Liar::welcomed(&stage.server).await;
    let before = stage.server.process.rss_kib();
    let anyone = JobId::new(punctual_core::Timestamp::EPOCH, punctual_core::ShardId(0), 1);
    let nobody = Assigned { job: anyone, attempt: 1, token: bytes::Bytes::new() };
    let message = wire::WorkerMessage { outcomes: vec![nobody.succeeded(None); 4096], ..Default::default() };
    let said = liar.shout(&message, 20_000).await;
    assert!(said < 20_000, "the server stops reading");
    let grown = stage.server.process.rss_kib().saturating_sub(before);
    assert!(grown < 64 << 10, "{grown} KiB after {said} messages");
    let job = stage.submit("default", Default::default()).await;
    assert_eq!(crate::cluster::finished(&stage.server.client(), job).await.state, "succeeded");
    drop(liar);
    eventually("it is gone", || async {
        stage.server.client().workers().await.is_ok_and(|list| list.workers.len() == 1)
    })
    .await;
}
