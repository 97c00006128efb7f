//! What agents ask: each for its own attempt, with the token that opens it.
//!
//! The bodies are those of the worker protocol; `worker.proto` describes them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use axum::Extension;
use axum::extract::{FromRequestParts, Path, Request, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::request::Parts;
use http::{StatusCode, header};
use prost::Message;
use punctual_api::ErrorKind;
use punctual_app::{App, AppError, Checked, Claims, Download, Faults, parameters};
use punctual_core::shard::event::Assignment;
use punctual_core::{ArtifactId, AttemptNo, JobId};
use punctual_proto::bounds::bounded_report;
use punctual_proto::convert::{id_bytes, outcome_from_wire, scheduled_run_to_wire};
use punctual_proto::worker as wire;
use serde::Deserialize;

use crate::bodies::read_body;
use crate::guard::Reached;
use crate::outgoing::secrets_to_send;
use crate::parse::{NoParams, Params};
use crate::problem::{Problems, Refused};

const PROTOBUF: &str = "application/x-protobuf";
/// An outcome: an output, a reason, and what is known besides. What is a little too long is
/// recorded as that; what is much longer is not read.
const OUTCOME_BYTES_MAX: usize = 512 << 10;
/// Text and marks of one request; agents send pieces of 64 KiB.
const PRINTED_BYTES_MAX: usize = 1 << 20;

/// Where all requests of agents go.
pub(crate) const PATH: &str = "/v1/agent/";

/// Requests of one agent that are worked on at a time. It needs three: a beat, a log, an outcome. More would let
/// one that dawdles keep others out.
const IN_FLIGHT_MAX: u32 = 8;

static IN_FLIGHT: LazyLock<Mutex<HashMap<JobId, u32>>> = LazyLock::new(Mutex::default);

fn in_flight() -> MutexGuard<'static, HashMap<JobId, u32>> {
    IN_FLIGHT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whom the request speaks for.
pub(crate) struct Agent(Claims);

impl Agent {
    fn new(claims: Claims) -> Result<Self, AppError> {
        let mut in_flight = in_flight();
        let count = in_flight.entry(claims.job).or_default();
        if *count >= IN_FLIGHT_MAX {
            let error = AppError::new(ErrorKind::TooManyRequests, "too many requests of one agent at a time");
            return Err(error.hint("wait for the answers"));
        }
        *count += 1;
        Ok(Self(claims))
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if let Entry::Occupied(mut count) = in_flight().entry(self.0.job) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

impl FromRequestParts<App> for Agent {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Refused> {
        let not_one = || AppError::invalid("the path does not name an attempt").hint("/v1/agent/{job}/{attempt}");
        let Path((job, attempt)) =
            Path::<(String, String)>::from_request_parts(parts, app).await.map_err(|_| not_one())?;
        let job: JobId = job.parse().map_err(|_| not_one())?;
        let attempt: u32 = attempt.parse().map_err(|_| not_one())?;
        let header = parts.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = header.and_then(|value| value.strip_prefix("Bearer "));
        Ok(Self::new(app.agent(token, job, AttemptNo(attempt))?)?)
    }
}

/// What the agent is to run.
#[utoipa::path(get, path = "/v1/agent/{job}/{attempt}", operation_id = "get_agent_work", tag = "agents",
    params(("job" = String, Path), ("attempt" = u32, Path)), responses(
    (status = 200, description = "An AgentAttempt of the worker protocol", content_type = "application/x-protobuf", body = String),
    Problems,
))]
pub(crate) async fn work(
    State(app): State<App>,
    agent: Agent,
    Extension(reached): Extension<Reached>,
    _: NoParams,
) -> Result<Response, Refused> {
    let work = app.agent_work(&agent.0).await?;
    let files = app.agent_files(&work, &reached.url()).await?;
    let settings = app.settings();
    let Assignment { task, tracing_id, input, started_at, .. } = work.assignment;
    let secrets = app.attempt_secrets(task.namespace, &task.spec.run).await;
    let (secrets, secrets_unavailable) = secrets_to_send(Some(&secrets));
    let over_at = started_at + task.spec.timeout;
    Ok(protobuf(&wire::AgentAttempt {
        task: Some(wire::TaskDefinition {
            task_id: id_bytes(task.id.to_bytes()),
            revision: task.revision,
            name: task.name.clone().unwrap_or_default(),
            run: serde_json::to_vec(&task.spec.run).expect("a task's run is JSON").into(),
            timeout_us: task.spec.timeout.as_micros().unsigned_abs(),
            namespace: task.namespace.0,
        }),
        input: input.into_bytes(),
        tracing_id: tracing_id.unwrap_or_default(),
        remaining_us: over_at.since(app.now()).as_micros().unsigned_abs(),
        heartbeat_ms: crate::grpc::to_millis(settings.heartbeat),
        dead_after_ms: crate::grpc::to_millis(settings.worker_dead_after),
        log_bytes_max: settings.log_limit.get() as u32,
        scheduled_run: work.scheduled_run.map(scheduled_run_to_wire),
        files: files.into_iter().map(file).collect(),
        secrets,
        secrets_unavailable,
    }))
}

fn file((artifact, download): (ArtifactId, Download)) -> wire::FileDownload {
    let Download { url, size, sha256 } = download;
    let download = wire::DownloadReply { url, size, sha256: Bytes::copy_from_slice(&sha256) };
    wire::FileDownload { artifact_id: id_bytes(artifact.to_bytes()), download: Some(download) }
}

/// Says that the agent lives.
#[utoipa::path(post, path = "/v1/agent/{job}/{attempt}/heartbeat", operation_id = "beat_agent", tag = "agents",
    params(("job" = String, Path), ("attempt" = u32, Path)), responses(
    (status = 200, description = "An AgentOrder of the worker protocol", content_type = "application/x-protobuf", body = String),
    Problems,
))]
pub(crate) async fn heartbeat(State(app): State<App>, agent: Agent, _: NoParams) -> Result<Response, Refused> {
    let cancel = app.agent_alive(&agent.0).await?;
    Ok(protobuf(&wire::AgentOrder { cancel }))
}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct PrintedQuery {
    /// The place of the first byte in the attempt's log.
    offset: String,
    /// How many bytes at the end of the body are no text, but its marks, as in a LogChunk of the worker protocol.
    marks: Option<String>,
}

impl PrintedQuery {
    fn read(&self) -> Result<(u64, usize), AppError> {
        let mut faults = Faults::default();
        let offset = faults.value(parameters::number("offset", Some(&self.offset), 0..=u64::MAX)).flatten();
        let marks = parameters::number("marks", self.marks.as_deref(), 0..=PRINTED_BYTES_MAX);
        let marks = faults.value(marks).flatten();
        faults.finish()?;
        Ok((offset.unwrap_or_default(), marks.unwrap_or_default()))
    }
}

impl Checked for PrintedQuery {
    fn check(&self) -> Result<(), AppError> {
        self.read().map(drop)
    }
}

/// Keeps what the attempt printed.
#[utoipa::path(post, path = "/v1/agent/{job}/{attempt}/logs", operation_id = "append_agent_log", tag = "agents",
    params(("job" = String, Path), ("attempt" = u32, Path), PrintedQuery),
    request_body(content = String, content_type = "application/octet-stream", description = "What was printed"), responses(
    (status = 204, description = "It is durable"),
    Problems,
))]
pub(crate) async fn logs(
    State(app): State<App>,
    agent: Agent,
    Params(query): Params<PrintedQuery>,
    request: Request,
) -> Result<StatusCode, Refused> {
    let (offset, marks_len) = query.read()?;
    let mut bytes = read_body(request.into_body(), PRINTED_BYTES_MAX).await?;
    let Some(text_len) = bytes.len().checked_sub(marks_len) else {
        return Err(AppError::field("marks", "must be at most the length of the body").into());
    };
    let marks = bytes.split_off(text_len);
    app.agent_printed(&agent.0, offset, bytes, marks).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Says how the attempt ended.
#[utoipa::path(post, path = "/v1/agent/{job}/{attempt}/outcome", operation_id = "end_agent_attempt", tag = "agents",
    params(("job" = String, Path), ("attempt" = u32, Path)),
    request_body(content = String, content_type = "application/x-protobuf", description = "An Outcome of the worker protocol"), responses(
    (status = 204, description = "It is durable"),
    Problems,
))]
pub(crate) async fn outcome(
    State(app): State<App>,
    agent: Agent,
    _: NoParams,
    request: Request,
) -> Result<StatusCode, Refused> {
    let body: Bytes = read_body(request.into_body(), OUTCOME_BYTES_MAX).await?;
    let not_one = |detail: String| AppError::invalid(detail).hint("the body is an Outcome of the worker protocol");
    let outcome = wire::Outcome::decode(body).map_err(|error| not_one(format!("the body cannot be read: {error}")))?;
    let report = outcome_from_wire(outcome).map_err(|error| not_one(error.to_string()))?;
    if (report.id, report.attempt) != (agent.0.job, agent.0.attempt) {
        return Err(app.not_its_attempt().into());
    }
    app.agent_ended(&agent.0, bounded_report(report)).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn protobuf(message: &impl Message) -> Response {
    ([(header::CONTENT_TYPE, PROTOBUF)], message.encode_to_vec()).into_response()
}
