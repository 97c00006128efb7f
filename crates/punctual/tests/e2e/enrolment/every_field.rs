//! A worker with the smallest scope that lies in each field of each message. The lies are generated over the protocol's
//! descriptors, so a new field is lied about as well.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use prost_reflect::{DescriptorPool, DynamicMessage, FieldDescriptor, Kind, MapKey, ReflectMessage as _, Value};
use punctual_core::task::Probe;
use punctual_core::{JobId, Span};
use punctual_pki::{ClientTls, LeafKey, OwnCertificate, Trust};
use punctual_proto::convert::id_bytes;
use punctual_proto::worker as wire;
use punctual_proto::worker::enrolment_client::EnrolmentClient;
use punctual_proto::worker::worker_client::WorkerClient;
use tokio::sync::mpsc;
use tonic::Streaming;
use tonic::transport::Channel;

use super::Stage;
use super::guest::{channel, guest, introduce, read_token};
use crate::harness::eventually;

/// What belongs to others, and what a worker could know of it from lists.
struct Foreign {
    bytes: Vec<Bytes>,
    texts: Vec<String>,
}

fn pool() -> DescriptorPool {
    let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../proto/proto"));
    let set = protox::compile(["punctual/worker/v1/worker.proto"], [root]).expect("the protocol compiles");
    DescriptorPool::from_file_descriptor_set(set).expect("the descriptors are complete")
}

/// The message with one field changed, in every way that there is.
fn lies<M: prost::Message + Default>(
    pool: &DescriptorPool,
    name: &str,
    honest: &M,
    foreign: &Foreign,
) -> Vec<(String, M)> {
    let descriptor = pool.get_message_by_name(&format!("punctual.worker.v1.{name}")).expect("the message is known");
    let mut message = DynamicMessage::new(descriptor);
    message.transcode_from(honest).expect("it is of this type");
    let lies = lies_in(&message, foreign);
    lies.into_iter()
        .map(|(path, lie)| (format!("{name}{path}"), lie.transcode_to().expect("it is still of this type")))
        .collect()
}

fn lies_in(message: &DynamicMessage, foreign: &Foreign) -> Vec<(String, DynamicMessage)> {
    let mut all = Vec::new();
    for field in message.descriptor().fields() {
        for (path, value) in values(message, &field, foreign) {
            let mut lie = message.clone();
            lie.set_field(&field, value);
            all.push((format!(".{}{path}", field.name()), lie));
        }
        if message.has_field(&field) {
            let mut lie = message.clone();
            lie.clear_field(&field);
            all.push((format!(".{} left out", field.name()), lie));
        }
    }
    all
}

fn values(message: &DynamicMessage, field: &FieldDescriptor, foreign: &Foreign) -> Vec<(String, Value)> {
    if field.is_map() {
        let entries = foreign.texts.iter().map(|text| (MapKey::String(text.clone()), Value::String(text.clone())));
        return vec![(" of others".to_owned(), Value::Map(entries.collect()))];
    }
    if !field.is_list() {
        return kinds(&field.kind(), Some(&*message.get_field(field)), foreign);
    }
    let known = message.get_field(field).as_list().map(<[Value]>::to_vec).unwrap_or_default();
    let mut lists: Vec<(String, Value)> = Vec::new();
    for (path, value) in kinds(&field.kind(), known.first(), foreign) {
        lists.push((format!("[0]{path}"), Value::List(vec![value.clone()])));
        lists.push((format!("[+]{path}"), Value::List([known.clone(), vec![value]].concat())));
    }
    lists
}

/// Lies for one value.
fn kinds(kind: &Kind, known: Option<&Value>, foreign: &Foreign) -> Vec<(String, Value)> {
    let plain = |values: Vec<Value>| values.into_iter().map(|value| (format!(" = {value:.40?}"), value)).collect();
    match kind {
        Kind::Bool => plain(vec![Value::Bool(true), Value::Bool(false)]),
        Kind::Uint32 | Kind::Fixed32 => plain([0, 1, 2, 7, u32::MAX].map(Value::U32).into()),
        Kind::Uint64 | Kind::Fixed64 => plain([0, 1, 2, u64::MAX].map(Value::U64).into()),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => plain([0, -1, i32::MIN, i32::MAX].map(Value::I32).into()),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => plain([0, -1, i64::MIN, i64::MAX].map(Value::I64).into()),
        Kind::Enum(_) => plain([0, 1, 4, 99, -1].map(Value::EnumNumber).into()),
        Kind::Bytes => plain(foreign.bytes.iter().cloned().map(Value::Bytes).collect()),
        Kind::String => plain(foreign.texts.iter().cloned().map(Value::String).collect()),
        Kind::Message(descriptor) => {
            let empty = DynamicMessage::new(descriptor.clone());
            let known = known.and_then(Value::as_message).cloned().unwrap_or_else(|| empty.clone());
            let inner = lies_in(&known, foreign).into_iter().map(|(path, lie)| (path, Value::Message(lie)));
            inner.chain([(" empty".to_owned(), Value::Message(empty))]).collect()
        }
        Kind::Float | Kind::Double => Vec::new(),
    }
}

/// Rows that no worker may change.
fn rows(database: &Path) -> Vec<String> {
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
    let database = rusqlite::Connection::open_with_flags(database, flags).expect("the database can be read");
    let mut rows = Vec::new();
    for table in [
        "authority",
        "identity_key",
        "identity_session",
        "identity_user",
        "join_token",
        "schedule",
        "sealed_key",
        "secret",
    ] {
        let mut statement = database.prepare(&format!("SELECT * FROM {table}")).expect("the table is there");
        let columns = statement.column_count();
        let found = statement.query_map([], |row| {
            let values = (0..columns).map(|column| row.get::<_, rusqlite::types::Value>(column));
            Ok(format!("{table} {:?}", values.collect::<Result<Vec<_>, _>>()?))
        });
        rows.extend(found.expect("it can be read").map(|row| row.expect("a row")));
    }
    rows
}

/// What belongs to others: a job that runs on another worker, and one that nobody may run.
struct Victims {
    running: JobId,
    waiting: JobId,
    witness: PathBuf,
    rows: Vec<String>,
    shown: Vec<String>,
}

impl Victims {
    async fn new(stage: &Stage) -> Self {
        let client = stage.client();
        client.put_secret("planted", b"a planted value".to_vec()).await.expect("a secret");
        let witness = stage.home.file("witness");
        let probe = Probe {
            sleep: Span::from_secs(3600),
            witness: Some(witness.to_str().expect("UTF-8").to_owned()),
            ..Probe::default()
        };
        let running = stage.submit("vault", probe).await;
        let secret = Probe { output: Some("{{ secret.planted }}".to_owned()), ..Probe::default() };
        let waiting = stage.submit("nobody", secret).await;
        eventually("the job runs", || async { client.job(running).await.is_ok_and(|job| job.state == "running") })
            .await;
        let mut victims = Self { running, waiting, witness, rows: Vec::new(), shown: Vec::new() };
        (victims.rows, victims.shown) = (victims.rows_now(stage), victims.shown(stage).await);
        victims
    }

    fn rows_now(&self, stage: &Stage) -> Vec<String> {
        rows(&stage.home.file("data/punctual.db"))
    }

    async fn shown(&self, stage: &Stage) -> Vec<String> {
        let client = stage.client();
        let mut shown = Vec::new();
        for id in [self.running, self.waiting] {
            let job = client.job(id).await.expect("the job is there");
            shown.push(format!("{} {} {:?} {:?} {:?}", id, job.state, job.attempts, job.output, job.late_outcomes));
            shown.push(format!(
                "{:?}",
                client.logs(id, punctual_client::Logs::default()).await.map(|log| log.text).ok()
            ));
        }
        shown
    }

    async fn are_untouched(&self, stage: &Stage) {
        assert_eq!(self.rows_now(stage), self.rows);
        assert_eq!(self.shown(stage).await, self.shown);
        let begun = std::fs::read_to_string(&self.witness).expect("the witness").matches(" begin ").count();
        assert_eq!(begun, 1, "it began once");
    }
}

/// A worker whose stream is opened again when a lie ends it.
struct Liar {
    client: WorkerClient<Channel>,
    stream: Option<(mpsc::Sender<wire::WorkerMessage>, Streaming<wire::ServerMessage>)>,
    victims: [Bytes; 2],
}

impl Liar {
    /// Tells one message, and hears what comes back meanwhile.
    async fn tell(&mut self, what: &str, message: wire::WorkerMessage) {
        let (said, heard) = match self.stream.take() {
            Some(stream) => stream,
            None => introduce(&mut self.client, |_| {}).await.expect("an honest hello is welcome"),
        };
        let is_open = said.send(message).await.is_ok();
        let mut stream = (said, heard);
        if self.hears(what, &mut stream.1).await && is_open {
            self.stream = Some(stream);
        }
    }

    /// Reads what is there. False if the stream has ended. Nothing of others may be in it.
    async fn hears(&self, what: &str, heard: &mut Streaming<wire::ServerMessage>) -> bool {
        let soon = std::time::Duration::from_millis(10);
        while let Ok(next) = tokio::time::timeout(soon, heard.message()).await {
            let Ok(Some(message)) = next else { return false };
            for assignment in &message.assignments {
                assert!(!self.victims.contains(&assignment.job_id), "{what}: it was given a job of others");
                assert!(assignment.secrets.is_empty(), "{what}: it was given a secret");
            }
        }
        true
    }
}

/// The attempt of its own that the worker lies about.
async fn assigned(stage: &Stage, liar: &mut Liar) -> wire::Assignment {
    let (said, mut heard) = introduce(&mut liar.client, |_| {}).await.expect("an honest hello is welcome");
    let job = stage.submit("q", Probe::default()).await;
    loop {
        let message = heard.message().await.expect("the stream is open").expect("the stream is open");
        if let Some(found) = message.assignments.into_iter().next() {
            assert_eq!(found.job_id, id_bytes(job.to_bytes()));
            liar.stream = Some((said, heard));
            return found;
        }
    }
}

fn honest_message(own: &wire::Assignment) -> wire::WorkerMessage {
    let details = wire::Details { exit_code: Some(0), ..Default::default() };
    let outcome = wire::Outcome {
        job_id: own.job_id.clone(),
        attempt: own.attempt,
        result: Some(wire::outcome::Result::Succeeded(wire::Succeeded { output: None })),
        details: Some(Box::new(details)),
        token: own.token.clone(),
    };
    let log = wire::LogChunk {
        job_id: own.job_id.clone(),
        attempt: own.attempt,
        offset: 0,
        bytes: Bytes::from_static(b"a line\n"),
        marks: Bytes::new(),
        token: own.token.clone(),
    };
    wire::WorkerMessage { outcomes: vec![outcome], logs: vec![log], ..Default::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_lies_in_every_field_reads_and_changes_nothing_of_others() {
    let stage = Stage::new();
    let scope = ["--queues", "vault", "--kinds", "probe"];
    let honest_token = stage.token("honest.token", &scope);
    let token = read_token(&stage.token("join.token", &["--queues", "q", "--kinds", "probe"]));
    let _honest = stage.worker("honest", &honest_token, &[]);
    let rest = stage.client();
    eventually("the worker connects", || async { rest.stats().await.is_ok_and(|stats| stats.workers == 1) }).await;
    let (client, own, _) = guest(&stage, &token).await;
    let victims = Victims::new(&stage).await;
    let honest_worker = rest.workers().await.expect("workers are listed").workers[0].id;
    let ids = [victims.running, victims.waiting].map(|id| id_bytes(id.to_bytes()));
    let foreign = Foreign {
        bytes: vec![
            ids[0].clone(),
            ids[1].clone(),
            id_bytes(honest_worker.to_bytes()),
            Bytes::new(),
            Bytes::from_static(&[0; 16]),
            Bytes::from_static(&[0xff; 33]),
        ],
        texts: ["vault", "nobody", "command", "", "\u{1b}[2J", "../../etc/passwd"]
            .map(str::to_owned)
            .into_iter()
            .chain([victims.running.to_string(), "x".repeat(3000)])
            .collect(),
    };
    let mut liar = Liar { client, stream: None, victims: ids.clone() };
    let pool = pool();
    let assignment = assigned(&stage, &mut liar).await;
    let mut told = 0;
    for (what, lie) in lies(&pool, "WorkerMessage", &honest_message(&assignment), &foreign) {
        liar.tell(&what, lie).await;
        told += 1;
    }
    victims.are_untouched(&stage).await;
    told += hellos(&stage, &pool, &mut liar, &foreign).await;
    victims.are_untouched(&stage).await;
    told += questions(&stage, &pool, &token, &own, &assignment, &foreign).await;
    assert!(told > 500, "only {told} lies");
    victims.are_untouched(&stage).await;
    let enrolments = rest.enrolments(&Default::default()).await.expect("they are listed").enrolments;
    assert_eq!(enrolments.len(), 2, "nobody else has joined");
}

/// Lies in the hello: whatever it says, the worker is what its enrolment says.
async fn hellos(stage: &Stage, pool: &DescriptorPool, liar: &mut Liar, foreign: &Foreign) -> usize {
    let rest = stage.client();
    let mut template = wire::Hello::default();
    liar.stream = None;
    let learned = introduce(&mut liar.client, |hello| template = hello.clone()).await.expect("it is welcome");
    drop(learned);
    let count = lies(pool, "Hello", &template, foreign).len();
    for number in 0..count {
        let mut what = String::new();
        let lie = |hello: &mut wire::Hello| {
            // The greeting differs from stream to stream, so the lie is made again for each.
            let mut all = lies(pool, "Hello", hello, foreign);
            (what, *hello) = all.swap_remove(number.min(all.len() - 1));
        };
        let Ok((said, mut heard)) = introduce(&mut liar.client, lie).await else { continue };
        // A hello that answers another greeting is welcome and then cut off.
        liar.hears(&what, &mut heard).await;
        drop(said);
        for worker in rest.workers().await.expect("workers are listed").workers {
            let is_honest = worker.queues == ["vault"] && worker.name == "honest";
            assert!(is_honest || worker.queues == ["q"], "{what}: {worker:?}");
            assert!(worker.capabilities.iter().all(|kind| kind == "probe"), "{what}: {worker:?}");
            assert!(worker.labels.is_empty() && worker.commands_as.is_none(), "{what}: {worker:?}");
        }
    }
    count
}

/// Lies in what is asked once: heartbeats, files, agents and certificates.
async fn questions(
    stage: &Stage,
    pool: &DescriptorPool,
    token: &punctual_pki::JoinToken,
    own: &OwnCertificate,
    assignment: &wire::Assignment,
    foreign: &Foreign,
) -> usize {
    let tls = |own: Option<OwnCertificate>| {
        ClientTls::new(&Trust::Pinned(token.authority()), own, &[b"h2"]).expect("a configuration")
    };
    let certified = channel(&stage.server.url, tls(Some(own.clone()))).await.expect("it is let in");
    let bare = channel(&stage.server.url, tls(None)).await.expect("the handshake goes well");
    let mut client = WorkerClient::new(certified.clone());
    let (job_id, attempt) = (assignment.job_id.clone(), assignment.attempt);
    let mut told = 0;
    for (what, beat) in lies(pool, "HeartbeatRequest", &wire::HeartbeatRequest::default(), foreign) {
        let answered = client.heartbeat(tokio_stream::once(beat)).await;
        if let Ok(answers) = answered {
            assert!(
                !matches!(answers.into_inner().message().await, Ok(Some(_))) || what.contains("worker_id"),
                "{what}"
            );
        }
        told += 1;
    }
    let download = wire::DownloadRequest {
        job_id: job_id.clone(),
        attempt,
        token: assignment.token.clone(),
        ..Default::default()
    };
    for (what, lie) in lies(pool, "DownloadRequest", &download, foreign) {
        assert!(client.download(lie).await.is_err(), "{what}");
        told += 1;
    }
    let admit = wire::AdmitRequest {
        job_id,
        attempt,
        token: assignment.token.clone(),
        host_id: "h".into(),
        ..Default::default()
    };
    for (what, lie) in lies(pool, "AdmitRequest", &admit, foreign) {
        assert!(client.admit(lie).await.is_err(), "{what}");
        told += 1;
    }
    let key = LeafKey::generate().expect("a key");
    let join = wire::JoinRequest {
        token: token.reveal(),
        public_key: key.public_key().into(),
        name: "guest".into(),
        queues: Vec::new(),
    };
    for (what, lie) in lies(pool, "JoinRequest", &join, foreign) {
        assert!(EnrolmentClient::new(bare.clone()).join(lie).await.is_err(), "{what}: the token has no uses left");
        told += 1;
    }
    for (what, lie) in lies(pool, "RenewRequest", &wire::RenewRequest::default(), foreign) {
        assert!(EnrolmentClient::new(certified.clone()).renew(lie).await.is_err(), "{what}: it is no key");
        told += 1;
    }
    told
}
