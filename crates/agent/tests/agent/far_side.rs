//! A server that speaks the agents' protocol over a real socket, and the agents themselves.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path as UrlPath, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use prost::Message;
use punctual_agent::{AgentToken, Handover, HostId};
use punctual_core::attempt::AttemptNo;
use punctual_core::id::{ArtifactId, JobId};
use punctual_core::shard::event::Report;
use punctual_core::{ShardId, Timestamp};
use punctual_exec::Download;
use punctual_proto::convert::outcome_from_wire;
use punctual_proto::worker as wire;
use punctual_sandbox::ProgramUser;
use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::process::{Child, Command};

const AGENT: &str = env!("CARGO_BIN_EXE_agent_lab");
const TOKEN: &str = "the-token-of-this-test";

/// Reached only when a test fails.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);
/// What the server tells agents.
pub(crate) const DEAD_AFTER: Duration = Duration::from_secs(2);

/// What the server does and has heard.
pub(crate) struct Script {
    pub(crate) attempt: wire::AgentAttempt,
    pub(crate) file: Vec<u8>,
    pub(crate) cancel: bool,
    /// Everything but the file is answered with this problem.
    pub(crate) refuse: Option<(StatusCode, &'static str)>,
    /// So many requests that change something are answered with 503.
    pub(crate) busy: u32,
    /// So many pieces of a log are taken, and the answer is lost.
    pub(crate) lost: u32,
    pub(crate) beats: u32,
    /// Requests that were refused.
    pub(crate) refusals: u32,
    pub(crate) logs: Vec<(u64, Bytes)>,
    pub(crate) outcomes: Vec<Report>,
}

impl Script {
    pub(crate) fn log(&self) -> String {
        let mut text = Vec::new();
        for (offset, bytes) in &self.logs {
            assert_eq!(*offset, text.len() as u64, "pieces follow each other");
            text.extend_from_slice(bytes);
        }
        String::from_utf8(text).unwrap()
    }
}

#[derive(Clone)]
pub(crate) struct FarServer {
    pub(crate) addr: SocketAddr,
    script: Arc<Mutex<Script>>,
}

impl FarServer {
    pub(crate) async fn start(program: &Path, run: serde_json::Value) -> Self {
        let artifact = ArtifactId::new(Timestamp::EPOCH, 1);
        let mut binary = json!({ "artifact": artifact.to_string(), "grace": "1s" });
        binary.as_object_mut().unwrap().extend(run.as_object().unwrap().clone());
        let task = wire::TaskDefinition {
            name: "tool".to_owned(),
            run: json!({ "binary": binary }).to_string().into_bytes().into(),
            ..wire::TaskDefinition::default()
        };
        let attempt = wire::AgentAttempt {
            task: Some(task),
            input: Some(Bytes::from_static(b"the input")),
            tracing_id: "order 17".to_owned(),
            remaining_us: 20_000_000,
            heartbeat_ms: 100,
            dead_after_ms: DEAD_AFTER.as_millis() as u32,
            log_bytes_max: 1 << 20,
            scheduled_run: None,
            files: Vec::new(),
            secrets: Vec::new(),
            secrets_unavailable: String::new(),
        };
        let script = Arc::new(Mutex::new(Script {
            attempt,
            file: std::fs::read(program).unwrap(),
            cancel: false,
            refuse: None,
            busy: 0,
            lost: 0,
            beats: 0,
            refusals: 0,
            logs: Vec::new(),
            outcomes: Vec::new(),
        }));
        Self::serve(script).await
    }

    /// Another server of the same cluster.
    pub(crate) async fn start_another(&self) -> Self {
        Self::serve(Arc::clone(&self.script)).await
    }

    async fn serve(script: Arc<Mutex<Script>>) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Self { addr: listener.local_addr().unwrap(), script };
        let routes = Router::new()
            .route("/v1/agent/{job}/{attempt}", get(attempt_of))
            .route("/v1/agent/{job}/{attempt}/heartbeat", post(heartbeat))
            .route("/v1/agent/{job}/{attempt}/logs", post(logs))
            .route("/v1/agent/{job}/{attempt}/outcome", post(outcome))
            .route("/file", get(async |State(server): State<FarServer>| server.script().file.clone()))
            .with_state(server.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        server
    }

    pub(crate) fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap()
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    pub(crate) fn handover(&self) -> Handover {
        let script = self.script();
        let sha256 = Sha256::digest(&script.file).into();
        Handover {
            servers: vec![self.url()],
            token: AgentToken(TOKEN.to_owned()),
            job: job(),
            attempt: AttemptNo(2),
            download: Download { url: format!("{}/file", self.url()), size: script.file.len() as u64, sha256 },
            host: HostId::parse("host-of-this-test").unwrap(),
            tracing_id: Some("order 17".to_owned()),
            authorities: None,
            sandbox_require: Vec::new(),
            program_user: ProgramUser::Usual,
        }
    }

    /// What every request must be, and what all may be refused with.
    fn admit(&self, path: &(String, u32), headers: &HeaderMap) -> Result<(), Refused> {
        assert_eq!((path.0.as_str(), path.1), (job().to_string().as_str(), 2));
        assert_eq!(headers["authorization"], format!("Bearer {TOKEN}"));
        let mut script = self.script();
        match script.refuse {
            Some((status, code)) => {
                script.refusals += 1;
                Err((status, json!({ "code": code, "detail": "so it is" }).to_string()))
            }
            None => Ok(()),
        }
    }

    fn change(&self) -> Result<MutexGuard<'_, Script>, Refused> {
        let mut script = self.script();
        if script.busy > 0 {
            script.busy -= 1;
            let body = json!({ "code": "shard_moving", "detail": "try again" });
            return Err((StatusCode::SERVICE_UNAVAILABLE, body.to_string()));
        }
        Ok(script)
    }
}

pub(crate) fn job() -> JobId {
    JobId::new(Timestamp::EPOCH, ShardId(0), 1)
}

type Refused = (StatusCode, String);
type Attempt = UrlPath<(String, u32)>;

async fn attempt_of(State(server): State<FarServer>, UrlPath(path): Attempt, headers: HeaderMap) -> Response {
    if let Err(refused) = server.admit(&path, &headers) {
        return refused.into_response();
    }
    server.script().attempt.encode_to_vec().into_response()
}

async fn heartbeat(
    State(server): State<FarServer>,
    UrlPath(path): Attempt,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    if let Err(refused) = server.admit(&path, &headers) {
        return refused.into_response();
    }
    assert!(body.is_empty());
    let mut script = server.script();
    script.beats += 1;
    wire::AgentOrder { cancel: script.cancel }.encode_to_vec().into_response()
}

async fn logs(
    State(server): State<FarServer>,
    UrlPath(path): Attempt,
    Query(query): Query<std::collections::HashMap<String, u64>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    if let Err(refused) = server.admit(&path, &headers) {
        return refused.into_response();
    }
    let mut script = match server.change() {
        Ok(script) => script,
        Err(busy) => return busy.into_response(),
    };
    let (offset, end) = (query["offset"], script.log().len() as u64);
    let text_len = body.len() - query["marks"] as usize;
    let marks = punctual_core::log::decode_marks(offset, text_len, &body[text_len..]);
    assert!(marks.is_some_and(|marks| marks[0].offset == offset), "each piece has times");
    let body = body.slice(..text_len);
    if offset + body.len() as u64 <= end {
        return StatusCode::NO_CONTENT.into_response();
    }
    if offset != end {
        let problem = json!({ "code": "invalid_request", "detail": format!("offset: must be {end}") });
        return (StatusCode::BAD_REQUEST, problem.to_string()).into_response();
    }
    script.logs.push((offset, body));
    if script.lost > 0 {
        script.lost -= 1;
        return StatusCode::BAD_GATEWAY.into_response();
    }
    StatusCode::NO_CONTENT.into_response()
}

async fn outcome(State(server): State<FarServer>, UrlPath(path): Attempt, headers: HeaderMap, body: Bytes) -> Response {
    if let Err(refused) = server.admit(&path, &headers) {
        return refused.into_response();
    }
    assert_eq!(headers["content-type"], "application/x-protobuf");
    let outcome = outcome_from_wire(wire::Outcome::decode(body).unwrap()).unwrap();
    match server.change() {
        Ok(mut script) => script.outcomes.push(outcome),
        Err(busy) => return busy.into_response(),
    }
    StatusCode::NO_CONTENT.into_response()
}

/// An agent's process, in an empty folder.
pub(crate) struct Agent {
    child: Child,
    _folder: tempfile::TempDir,
}

impl Agent {
    pub(crate) fn start(handover: &Handover) -> Self {
        Self::start_as(Command::new(AGENT), handover)
    }

    /// Where nobody may make a user namespace.
    pub(crate) fn start_confined(handover: &Handover) -> Self {
        let script = format!("echo 0 > /proc/sys/user/max_user_namespaces && exec {AGENT}");
        let mut command = Command::new("/usr/bin/unshare");
        command.args(["--user", "--map-root-user", "/bin/sh", "-c", &script]);
        Self::start_as(command, handover)
    }

    fn start_as(mut command: Command, handover: &Handover) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let child = command
            .env_clear()
            .envs(handover.variables())
            .current_dir(folder.path())
            .stdin(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        Self { child, _folder: folder }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id().expect("it has not been waited for")
    }

    /// Whether it ended well.
    pub(crate) async fn ended(mut self) -> bool {
        // Not by `wait`, which closes its stdin.
        let _worker = self.child.stdin.take();
        tokio::time::timeout(LIMIT, self.child.wait()).await.expect("the agent ends").unwrap().success()
    }
}

/// A static program.
pub(crate) fn compile(folder: &Path, source: &str) -> std::path::PathBuf {
    let (code, program) = (folder.join("tool.c"), folder.join("tool"));
    std::fs::write(&code, source).unwrap();
    let done = std::process::Command::new("cc").args(["-static", "-O1", "-o"]).arg(&program).arg(&code).status();
    assert!(done.expect("there is a C compiler").success());
    program
}

pub(crate) async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + LIMIT;
    while !condition() {
        assert!(tokio::time::Instant::now() < deadline, "{what}: not within {LIMIT:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
