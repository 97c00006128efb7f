//! What an agent's token opens, and what it does not. The agent here is the test itself.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use prost::Message;
use punctual_app::RootKeys;
use punctual_core::attempt::{Details, Failure, Outcome};
use punctual_core::shard::event::Report;
use punctual_core::task::Run;
use punctual_core::{ArtifactId, AttemptNo, JobId};
use punctual_exec::{Admission, AdmissionGrant, Admissions};
use punctual_proto::convert::outcome_to_wire;
use punctual_proto::worker as wire;
use punctual_store::{RootKeyId, SealedKey};
use punctual_worker::{Call, ExecutionEnd, Executor, Worker};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::artifacts::{World, binary, declaration, program, put};
use crate::checked::{Answer, Checked, plain_http};
use crate::cluster::Cluster;
use crate::harness::eventually;

/// An attempt that waits for its agent.
pub(crate) struct Admittance {
    pub(crate) job: JobId,
    attempt: AttemptNo,
    pub(crate) admitted: AdmissionGrant,
    /// Closed when the worker was told to let go.
    pub(crate) held: mpsc::Receiver<()>,
}

/// Stands in for a worker that makes environments: it admits an agent and waits.
struct Holds {
    admissions: Arc<dyn Admissions>,
    admitted: mpsc::UnboundedSender<Admittance>,
}

#[async_trait]
impl Executor for Holds {
    fn kind(&self) -> &'static str {
        "binary"
    }

    fn capabilities(&self) -> Vec<String> {
        vec!["binary".to_owned(), "agent".to_owned()]
    }

    async fn execute(self: Arc<Self>, call: Call) -> ExecutionEnd {
        let Run::Binary(binary) = &*call.run else { return Outcome::Failed(Failure::new("not a binary")).into() };
        let admission = Admission {
            job: call.job,
            attempt: call.attempt,
            artifact: binary.artifact,
            host_id: format!("host-{}", call.attempt.0),
            pod: "pod".to_owned(),
        };
        let another = Admission { attempt: call.attempt.next(), ..admission.clone() };
        assert!(self.admissions.admit(another).await.is_err(), "an attempt that is not this worker's");
        let other_file = ArtifactId::new(punctual_core::Timestamp::EPOCH, 1);
        let another = Admission { artifact: other_file, ..admission.clone() };
        assert!(self.admissions.admit(another).await.is_err(), "a file that is not this attempt's");
        let admitted = self.admissions.admit(admission).await.expect("the agent is admitted");
        let (_holding, held) = mpsc::channel(1);
        let _ = self.admitted.send(Admittance { job: call.job, attempt: call.attempt, admitted, held });
        std::future::pending().await
    }
}

struct Stage {
    world: World,
    admitted: mpsc::UnboundedReceiver<Admittance>,
    _worker: tokio::task::JoinHandle<()>,
}

pub(crate) async fn worker(
    api: &Checked,
    servers: &[String],
) -> (mpsc::UnboundedReceiver<Admittance>, tokio::task::JoinHandle<()>) {
    let worker = Worker::connect_any(servers.iter().cloned());
    let (sender, admitted) = mpsc::unbounded_channel();
    let holds = Holds { admissions: worker.admissions(), admitted: sender };
    let running = tokio::spawn(async move { worker.executor(holds).run().await.expect("the worker runs") });
    eventually("the worker connects", || async { api.get("/v1/stats").await.body["workers"] == json!(1) }).await;
    (admitted, running)
}

impl Stage {
    async fn new(flags: &[&str]) -> Self {
        let world = World::with(flags, &[]).await;
        let (admitted, _worker) = worker(&world.api, std::slice::from_ref(&world.server.url)).await;
        Self { world, admitted, _worker }
    }

    /// A job that an agent is to run.
    async fn admitted(&mut self) -> Admittance {
        self.admitted_for(1).await
    }

    async fn admitted_for(&mut self, salt: u8) -> Admittance {
        let id = self.world.push(&program(5_000, salt)).await;
        self.world.api.submit(json!({ "inline": binary(&id), "tracing_id": "trace-1" })).await;
        self.admitted.recv().await.expect("it is given to the worker")
    }

    async fn ask(&self, method: Method, path: &str, token: Option<&str>, body: Vec<u8>) -> Answer {
        ask(&self.world.server.url, method, path, token, body).await
    }

    /// Everything that is known of the job, for comparing.
    async fn record(&self, job: JobId) -> (String, String) {
        let record = self.world.api.get(&format!("/v1/jobs/{job}")).await.expect(200);
        let log = self.world.api.get(&format!("/v1/jobs/{job}/logs")).await.expect(200);
        (record.text, log.text)
    }
}

pub(crate) async fn ask(server: &str, method: Method, path: &str, token: Option<&str>, body: Vec<u8>) -> Answer {
    let mut request = plain_http().request(method, format!("{server}{path}")).body(body);
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let response = request.send().await.expect("an answer");
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let bytes = response.bytes().await.expect("a body");
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Answer { status, headers, body: serde_json::from_str(&text).unwrap_or(Value::Null), text }
}

pub(crate) fn path(job: JobId, attempt: u32, rest: &str) -> String {
    format!("/v1/agent/{job}/{attempt}{rest}")
}

pub(crate) fn succeeded(job: JobId, attempt: u32) -> Vec<u8> {
    let details = Details { host: Some("somebody else".to_owned()), exit_code: Some(0), ..Details::default() };
    let outcome = Outcome::Succeeded { output: Some("\"done\"".into()) };
    let details = Some(Box::new(details));
    let report = Report { id: job, attempt: AttemptNo(attempt), outcome, timed_out: false, details };
    outcome_to_wire(&report).encode_to_vec()
}

#[tokio::test]
async fn an_agent_runs_its_attempt_and_its_worker_lets_go() {
    let mut stage = Stage::new(&[]).await;
    let Admittance { job, attempt, admitted, mut held } = stage.admitted().await;
    let token = Some(admitted.token.as_str());
    let file = plain_http().get(&admitted.download.url).send().await.expect("an answer");
    assert_eq!(file.bytes().await.expect("the file"), program(5_000, 1));

    let url = format!("{}{}", stage.world.server.url, path(job, attempt.0, ""));
    let work = plain_http().get(url).header("authorization", format!("Bearer {}", admitted.token));
    let work = work.send().await.expect("an answer").bytes().await.expect("a body");
    let work = wire::AgentAttempt::decode(work).expect("an AgentAttempt");
    let run: Value = serde_json::from_slice(&work.task.as_ref().expect("a task").run).expect("JSON");
    assert!(run["binary"]["artifact"].is_string(), "{run}");
    assert_eq!((work.tracing_id.as_str(), work.heartbeat_ms, work.dead_after_ms), ("trace-1", 5000, 20_000));
    assert!((1_100_000_000..=1_200_000_000).contains(&work.remaining_us), "{}", work.remaining_us);

    stage.ask(Method::POST, &path(job, 1, "/heartbeat"), token, vec![]).await.expect(200);
    stage.ask(Method::POST, &path(job, 1, "/logs?offset=0"), token, b"hello\n".to_vec()).await.expect(204);
    stage.ask(Method::POST, &path(job, 1, "/logs?offset=6"), token, b"world\n".to_vec()).await.expect(204);
    stage.ask(Method::POST, &path(job, 1, "/logs?offset=0"), token, b"hello\n".to_vec()).await.expect(204);
    stage.ask(Method::POST, &path(job, 1, "/outcome"), token, succeeded(job, 1)).await.expect(204);
    assert!(held.recv().await.is_none(), "the worker is told to end the environment");

    let record = stage.world.api.finished(&job.to_string()).await;
    assert_eq!((record.str("/state"), record.str("/output")), ("succeeded", "done"));
    assert_eq!(record.str("/attempts/0/details/host"), "host-1", "what was admitted, not what it says");
    let log = stage.world.api.get(&format!("/v1/jobs/{job}/logs")).await.expect(200);
    assert_eq!(log.text, "hello\nworld\n");

    // A9: whatever it says now changes nothing.
    let before = stage.record(job).await;
    let late = outcome_to_wire(&Report {
        id: job,
        attempt,
        outcome: Outcome::Failed(Failure::new("late")),
        timed_out: false,
        details: None,
    });
    stage.ask(Method::GET, &path(job, 1, ""), token, vec![]).await.refused(409, "attempt_over");
    stage.ask(Method::POST, &path(job, 1, "/heartbeat"), token, vec![]).await.refused(409, "attempt_over");
    let more = stage.ask(Method::POST, &path(job, 1, "/logs?offset=12"), token, b"late".to_vec()).await;
    more.refused(409, "attempt_over");
    for body in [late.encode_to_vec(), succeeded(job, 1)] {
        stage.ask(Method::POST, &path(job, 1, "/outcome"), token, body).await.refused(409, "attempt_over");
    }
    assert_eq!(stage.record(job).await, before);
}

#[tokio::test]
async fn a_token_opens_its_own_attempt_and_nothing_else() {
    let mut stage = Stage::new(&[]).await;
    let first = stage.admitted().await;
    let second = stage.admitted_for(2).await;
    let before = (stage.record(first.job).await, stage.record(second.job).await);
    let token = first.admitted.token.as_str();
    let (header, rest) = token.split_once('.').expect("three parts");
    let (payload, signature) = rest.split_once('.').expect("three parts");
    // {"alg":"none","typ":"JWT"} and {"alg":"HS256","typ":"JWT"}
    let none = format!("eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0.{payload}.");
    let hmac = format!("eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.{payload}.{signature}");
    let swapped = second.admitted.token.split('.').nth(1).expect("a payload");
    let mixed = format!("{header}.{swapped}.{signature}");
    let refused: Vec<(&str, Option<&str>, u16, &str)> = vec![
        ("no token", None, 401, "invalid_token"),
        ("an empty token", Some(""), 401, "invalid_token"),
        ("no algorithm", Some(&none), 401, "invalid_token"),
        ("another algorithm", Some(&hmac), 401, "invalid_token"),
        ("claims of another token", Some(&mixed), 401, "invalid_token"),
        ("another job's token", Some(&second.admitted.token), 403, "wrong_attempt"),
    ];
    for (case, token, status, code) in refused {
        for (method, rest) in all_paths() {
            let path = path(first.job, 1, rest);
            let answer = stage.ask(method, &path, token, succeeded(first.job, 1)).await;
            assert_eq!((answer.status, answer.body["code"].as_str()), (status, Some(code)), "{case}: {}", answer.text);
        }
    }
    for attempt in [0, 2, u32::MAX] {
        for (method, rest) in all_paths() {
            let path = path(first.job, attempt, rest);
            stage.ask(method, &path, Some(token), succeeded(first.job, attempt)).await.refused(403, "wrong_attempt");
        }
    }
    // The right place with a report about another attempt.
    for (job, attempt) in [(second.job, 1), (first.job, 2)] {
        let body = succeeded(job, attempt);
        let answer = stage.ask(Method::POST, &path(first.job, 1, "/outcome"), Some(token), body).await;
        answer.refused(403, "wrong_attempt");
    }
    let beyond = format!("/logs?offset={}", u64::MAX);
    for (rest, body, status, code) in [
        ("/outcome", b"not a message".to_vec(), 400, "invalid_request"),
        ("/outcome", vec![], 400, "invalid_request"),
        ("/outcome", vec![0; 1 << 20], 413, "payload_too_large"),
        ("/logs?offset=x", vec![1], 400, "invalid_request"),
        ("/logs", vec![1], 400, "invalid_request"),
        ("/logs?offset=0", vec![b'x'; (1 << 20) + 1], 413, "payload_too_large"),
        ("/logs?offset=1048576", vec![1], 413, "payload_too_large"),
        (beyond.as_str(), vec![1], 413, "payload_too_large"),
        // Only in order: pieces that overlap would have no end.
        ("/logs?offset=1", vec![1], 400, "invalid_request"),
        ("/heartbeat?x=1", vec![], 400, "invalid_request"),
    ] {
        stage.ask(Method::POST, &path(first.job, 1, rest), Some(token), body).await.refused(status, code);
    }
    // It is no key to anything else either.
    let cancel = format!("/v1/jobs/{}/outcome", second.job);
    stage.ask(Method::POST, &cancel, Some(token), vec![]).await.refused(401, "invalid_token");
    assert_eq!((stage.record(first.job).await, stage.record(second.job).await), before, "nothing has changed");
    stage.ask(Method::POST, &path(first.job, 1, "/outcome"), Some(token), succeeded(first.job, 1)).await.expect(204);
}

/// Tokens as the server would sign them, with whatever claims.
fn signed(secret: &[u8], claims: &Value) -> String {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret);
    let seed = ring::hmac::sign(&key, b"derivepunctual attempt tokens 1");
    let key = ring::signature::Ed25519KeyPair::from_seed_unchecked(seed.as_ref()).expect("a seed is 32 bytes");
    let signed = format!("eyJhbGciOiJFZERTQSIsInR5cCI6IkpXVCJ9.{}", BASE64.encode(claims.to_string()));
    let signature = BASE64.encode(key.sign(signed.as_bytes()));
    format!("{signed}.{signature}")
}

fn claims_of(token: &str) -> Value {
    use base64::Engine as _;
    let payload = token.split('.').nth(1).expect("three parts");
    let payload = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(payload).expect("base64");
    serde_json::from_slice(&payload).expect("JSON")
}

#[tokio::test]
async fn expired_and_wrong_typed_claims_are_refused_although_their_signature_is_right() {
    let mut stage = Stage::new(&[]).await;
    let Admittance { job, admitted, .. } = stage.admitted().await;
    let database = rusqlite::Connection::open(stage.world.home.file("data/punctual.db")).expect("the database");
    let read = |row: &rusqlite::Row<'_>| {
        Ok(SealedKey { label: row.get(0)?, root_key: RootKeyId(row.get(1)?), sealed: row.get(2)? })
    };
    let sealed = database
        .query_row("SELECT label, root_key, sealed FROM sealed_key WHERE label = 'cluster'", [], read)
        .expect("the cluster's secret");
    let root_keys = std::fs::read_to_string(stage.world.home.file("data/root.key")).expect("the root key");
    let secret = RootKeys::read(&root_keys).expect("a root key").open(&sealed).expect("it opens").to_vec();
    let good = claims_of(&admitted.token);
    assert_eq!((good["sub"].as_str(), good["attempt"].as_u64()), (Some(job.to_string().as_str()), Some(1)));
    assert_eq!(
        (good["host"].as_str(), good["pod"].as_str(), good["trace"].as_str()),
        (Some("host-1"), Some("pod"), Some("trace-1"))
    );
    // 20 minutes are the timeout, and there is the grace and a minute for the last words.
    let lifetime = good["exp"].as_i64().unwrap() - good["iat"].as_i64().unwrap();
    assert!((1270..=1272).contains(&lifetime), "{lifetime}");

    let before = stage.record(job).await;
    let second = |secs: i64| json!(good["iat"].as_i64().unwrap() + secs);
    let wrong = [
        ("exp", second(-1)),
        ("exp", second(0)),
        ("exp", json!("4000000000")),
        ("exp", json!(4e9 + 0.5)),
        ("exp", json!(null)),
        ("attempt", json!("1")),
        ("attempt", json!([1])),
        ("attempt", json!(1.0)),
        ("sub", json!([job.to_string()])),
        ("sub", json!({})),
        ("host", json!(7)),
        ("pod", json!(null)),
        ("aud", json!("server")),
        ("iss", json!("somebody")),
        ("role", json!("admin")),
    ];
    for (claim, value) in wrong {
        let mut claims = good.clone();
        claims[claim] = value.clone();
        let token = signed(&secret, &claims);
        for (method, rest) in all_paths() {
            let answer = stage.ask(method, &path(job, 1, rest), Some(&token), succeeded(job, 1)).await;
            assert_eq!(
                (answer.status, answer.body["code"].as_str()),
                (401, Some("invalid_token")),
                "{claim} = {value}"
            );
            assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
        }
    }
    let mut another = good.clone();
    another["attempt"] = json!(2);
    for (method, rest) in all_paths() {
        let answer = stage.ask(method, &path(job, 2, rest), Some(&signed(&secret, &another)), succeeded(job, 2)).await;
        answer.refused(409, "attempt_over");
    }
    assert_eq!(stage.record(job).await, before, "nothing has changed");
    // The same way with nothing wrong is accepted, so it was the claims.
    let token = signed(&secret, &good);
    stage.ask(Method::POST, &path(job, 1, "/outcome"), Some(&token), succeeded(job, 1)).await.expect(204);
}

#[tokio::test]
async fn an_agent_that_dawdles_keeps_nobody_out() {
    let mut stage = Stage::new(&[]).await;
    let Admittance { job, admitted, .. } = stage.admitted().await;
    // Bodies that never end.
    let dawdle = |path: String| {
        let url = format!("{}{path}", stage.world.server.url);
        let body = reqwest::Body::wrap_stream(futures_util::stream::pending::<Result<Vec<u8>, std::io::Error>>());
        let request = plain_http().post(url).header("authorization", format!("Bearer {}", admitted.token)).body(body);
        tokio::spawn(request.send())
    };
    // Far more than its share of requests: none of them takes a place before its body has arrived.
    let dawdling: Vec<_> = (0..100).map(|_| dawdle(path(job, 1, "/logs?offset=0"))).collect();
    let other = stage.admitted_for(2).await;
    for (job, admitted) in [(job, &admitted), (other.job, &other.admitted)] {
        let token = Some(admitted.token.as_str());
        stage.ask(Method::POST, &path(job, 1, "/heartbeat"), token, vec![]).await.expect(200);
    }
    for dawdling in dawdling {
        dawdling.abort();
    }
}

fn all_paths() -> [(Method, &'static str); 4] {
    [(Method::GET, ""), (Method::POST, "/heartbeat"), (Method::POST, "/logs?offset=0"), (Method::POST, "/outcome")]
}

#[tokio::test]
async fn a_cancelled_agent_hears_of_it_and_a_silent_one_is_given_up() {
    let mut stage = Stage::new(&["--heartbeat", "1s", "--worker-dead-after", "3s"]).await;
    let Admittance { job, admitted, mut held, .. } = stage.admitted().await;
    let token = Some(admitted.token.as_str());
    let order = stage.ask(Method::POST, &path(job, 1, "/heartbeat"), token, vec![]).await.expect(200);
    assert!(order.text.is_empty(), "go on");
    stage.world.api.command(&format!("/v1/jobs/{job}/cancel")).await;
    let order = stage.ask(Method::POST, &path(job, 1, "/heartbeat"), token, vec![]).await.expect(200);
    assert!(wire::AgentOrder::decode(order.text.as_bytes()).expect("an AgentOrder").cancel);
    // Not a word more: the attempt ends without the agent.
    let begun = std::time::Instant::now();
    let record = stage.world.api.finished(&job.to_string()).await;
    assert!(begun.elapsed() > Duration::from_secs(2), "{:?}", begun.elapsed());
    assert_eq!(record.str("/state"), "cancelled", "{}", record.text);
    assert_eq!(record.str("/attempts/0/state"), "worker_lost");
    assert!(record.str("/attempts/0/reason").contains("its agent was silent for 3s"), "{}", record.text);
    assert_eq!(record.str("/attempts/0/details/host"), "host-1");
    assert!(held.recv().await.is_none(), "the worker is told to end the environment");
}

#[tokio::test]
async fn any_server_of_a_cluster_takes_an_agents_word() {
    let cluster = Cluster::new();
    let servers = cluster.pair().await;
    let api = Checked::new(&servers[0]).await;
    let urls: Vec<String> = servers.iter().map(|server| server.url.clone()).collect();
    let (mut admitted, _worker) = worker(&api, &urls).await;
    let bytes = program(5_000, 1);
    let declared = api.post("/v1/artifacts", declaration(&bytes)).await.expect(201);
    put(declared.str("/upload/url"), bytes).await.expect(200);
    let artifact = declared.str("/id");
    // Each server stores jobs in shards of its own, so of two one is the other's.
    for server in &servers {
        let input = json!({ "text": "x".repeat(100_000) });
        Checked::new(server).await.submit(json!({ "inline": binary(artifact), "input": input })).await;
        let Admittance { job, admitted: agent, mut held, .. } = admitted.recv().await.expect("it is given out");
        let token = Some(agent.token.as_str());
        for url in &urls {
            let work = plain_http().get(format!("{url}{}", path(job, 1, "")));
            let work = work.header("authorization", format!("Bearer {}", agent.token)).send().await.expect("an answer");
            let work = wire::AgentAttempt::decode(work.bytes().await.expect("a body")).expect("an AgentAttempt");
            assert!(work.input.is_some_and(|input| input.len() > 100_000), "large inputs come along");
            ask(url, Method::POST, &path(job, 1, "/heartbeat"), token, vec![]).await.expect(200);
        }
        // The outcome goes to the server that does not own the job, at least once of the two times.
        ask(&urls[0], Method::POST, &path(job, 1, "/logs?offset=0"), token, b"hi".to_vec()).await.expect(204);
        ask(&urls[0], Method::POST, &path(job, 1, "/outcome"), token, succeeded(job, 1)).await.expect(204);
        ask(&urls[1], Method::POST, &path(job, 1, "/outcome"), token, succeeded(job, 1))
            .await
            .refused(409, "attempt_over");
        assert!(held.recv().await.is_none());
        assert_eq!(api.finished(&job.to_string()).await.str("/state"), "succeeded");
    }
}
