//! The requests of an agent. Any server can answer them; a server that does not answer is skipped.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use prost::Message;
use punctual_core::shard::event::Report;
use punctual_exec::{LogPiece, root_cause};
use punctual_proto::MESSAGE_BYTES_MAX;
use punctual_proto::convert::outcome_to_wire;
use punctual_proto::worker as wire;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Method, StatusCode};
use tokio::time::Instant;

use super::AgentError;
use super::turn::{PassReason, ServerTurn};
use crate::handover::Handover;

/// The time limit of a connection. Shorter than that of a heartbeat, so that most of the time is left for other
/// servers.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);
/// The time limit of an answer, longer than the slowest commit.
const ANSWER_LIMIT: Duration = Duration::from_secs(15);
/// The first pause between two tries; pauses double up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// The length to which the detail of an error is cut.
const DETAIL_CHARS_MAX: usize = 300;

pub(super) struct Servers {
    http: reqwest::Client,
    /// The URL of this attempt at each server.
    bases: Vec<String>,
    turn: Mutex<ServerTurn>,
    last_refusal: Mutex<Option<String>>,
}

/// Why a request has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RequestError {
    /// The attempt is no longer this agent's.
    Over(String),
    /// The request is invalid, and would be invalid again.
    Bad(String),
    /// The server works, but the job's shard is changing owners. Other servers would say the same.
    Moving(String),
    /// The server works, but its store is unavailable.
    NoStore(String),
    /// The request failed; a retry or another server may answer it.
    Later(String),
    /// The server did not answer in time.
    Silent(String),
}

impl Servers {
    pub(super) fn new(handover: &Handover) -> Result<Self, AgentError> {
        let setup = |error: &dyn std::fmt::Display| AgentError::Setup(error.to_string());
        let mut bearer = HeaderValue::from_str(&format!("Bearer {}", handover.token.0))
            .map_err(|_| setup(&"the token has letters that no header may have"))?;
        bearer.set_sensitive(true);
        let path = |server: &String| format!("{server}/v1/agent/{}/{}", handover.job, handover.attempt.0);
        Ok(Self {
            http: client(handover, bearer).map_err(|error| setup(&root_cause(&error)))?,
            bases: handover.servers.iter().map(path).collect(),
            turn: Mutex::new(ServerTurn::new(handover.servers.len())),
            last_refusal: Mutex::default(),
        })
    }

    /// Fetches the attempt, retrying until a server answers. The error says why the attempt is over.
    pub(super) async fn attempt(&self) -> Result<wire::AgentAttempt, String> {
        let answer = self.patiently(Method::GET, "", Bytes::new()).await;
        let body = answer.map_err(|refusal| refusal.into_reason())?;
        wire::AgentAttempt::decode(body).map_err(|_| "the server sent an attempt that cannot be read".to_owned())
    }

    /// Sends one heartbeat, without retries.
    pub(super) async fn beat(&self, limit: Duration) -> Result<wire::AgentOrder, RequestError> {
        let body = self.ask(Method::POST, "/heartbeat", Bytes::new(), limit).await?;
        wire::AgentOrder::decode(body)
            .map_err(|_| RequestError::Later("the server sent an order that cannot be read".into()))
    }

    pub(super) async fn log(&self, piece: LogPiece) -> Result<(), String> {
        let path = format!("/logs?offset={}&marks={}", piece.offset, piece.marks.len());
        let body = [&piece.bytes[..], &piece.marks[..]].concat().into();
        self.patiently(Method::POST, &path, body).await.map(drop).map_err(RequestError::into_reason)
    }

    /// Reports the outcome. Returns when it is durable.
    pub(super) async fn report(&self, report: &Report) -> Result<(), String> {
        let body = outcome_to_wire(report).encode_to_vec().into();
        self.patiently(Method::POST, "/outcome", body).await.map(drop).map_err(RequestError::into_reason)
    }

    /// Retries a request until it is answered. The heartbeat bounds the time: it ends the agent.
    async fn patiently(&self, method: Method, path: &str, body: Bytes) -> Result<Bytes, RequestError> {
        let mut pause = FIRST_PAUSE;
        loop {
            match self.ask(method.clone(), path, body.clone(), ANSWER_LIMIT).await {
                Ok(answer) => return Ok(answer),
                Err(refusal @ (RequestError::Over(_) | RequestError::Bad(_))) => return Err(refusal),
                Err(
                    RequestError::Moving(reason)
                    | RequestError::NoStore(reason)
                    | RequestError::Later(reason)
                    | RequestError::Silent(reason),
                ) => self.note(reason),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Logs a reason once, not with every try.
    fn note(&self, reason: String) {
        let mut last = self.last_refusal.lock().unwrap_or_else(PoisonError::into_inner);
        if last.as_ref() != Some(&reason) {
            tracing::warn!(reason, "a request is tried again");
            *last = Some(reason);
        }
    }

    async fn ask(&self, method: Method, path: &str, body: Bytes, limit: Duration) -> Result<Bytes, RequestError> {
        let base = &self.bases[self.turn().current()];
        let kind = if path.starts_with("/logs") { "application/octet-stream" } else { "application/x-protobuf" };
        let request = self.http.request(method, format!("{base}{path}")).header(CONTENT_TYPE, kind).body(body);
        let answer = tokio::time::timeout(limit, answer(request)).await;
        let answer = answer.unwrap_or_else(|_| Err(RequestError::Silent("no answer in time".to_owned())));
        let mut turn = self.turn();
        match &answer {
            Ok(_) | Err(RequestError::Over(_)) => turn.stay(),
            Err(RequestError::Bad(_) | RequestError::NoStore(_) | RequestError::Later(_)) => {
                turn.pass(PassReason::Refused, Instant::now())
            }
            Err(RequestError::Moving(_)) => turn.pass(PassReason::Moving, Instant::now()),
            Err(RequestError::Silent(_)) => turn.pass(PassReason::Silent, Instant::now()),
        }
        answer
    }

    fn turn(&self) -> MutexGuard<'_, ServerTurn> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RequestError {
    fn into_reason(self) -> String {
        match self {
            Self::Over(reason)
            | Self::Bad(reason)
            | Self::Moving(reason)
            | Self::NoStore(reason)
            | Self::Later(reason)
            | Self::Silent(reason) => reason,
        }
    }

    /// By the `code` of our problems. Anything between us and a server may answer with a status of its own,
    /// which says nothing of the attempt.
    fn read(status: StatusCode, body: &[u8]) -> Self {
        let problem: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
        let code = problem["code"].as_str().unwrap_or_default();
        let said = match problem["detail"].as_str() {
            Some(detail) if !code.is_empty() => format!("{code}: {detail}").chars().take(DETAIL_CHARS_MAX).collect(),
            _ => format!("the server answered {status}"),
        };
        match (status, code) {
            (StatusCode::CONFLICT, "attempt_over")
            | (StatusCode::UNAUTHORIZED, "invalid_token")
            | (StatusCode::FORBIDDEN, "wrong_attempt") => Self::Over(said),
            (StatusCode::BAD_REQUEST, "invalid_request") | (StatusCode::PAYLOAD_TOO_LARGE, "payload_too_large") => {
                Self::Bad(said)
            }
            (StatusCode::SERVICE_UNAVAILABLE, "shard_moving") => Self::Moving(said),
            (
                StatusCode::SERVICE_UNAVAILABLE,
                "unavailable" | "database_unavailable" | "disk_full" | "database_read_only" | "database_file_replaced",
            ) => Self::NoStore(said),
            _ => Self::Later(said),
        }
    }
}

fn client(handover: &Handover, bearer: HeaderValue) -> Result<reqwest::Client, reqwest::Error> {
    // Another part of the process may have chosen a provider before us; that is fine.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let authorities = match &handover.authorities {
        Some(pem) => reqwest::Certificate::from_pem_bundle(pem.as_bytes())?,
        None => Vec::new(),
    };
    let builder = || {
        reqwest::Client::builder()
            .user_agent(concat!("punctual-agent/", env!("CARGO_PKG_VERSION")))
            .default_headers(HeaderMap::from_iter([(AUTHORIZATION, bearer.clone())]))
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .tcp_nodelay(true)
            .connect_timeout(CONNECT_LIMIT)
    };
    if handover.servers.iter().all(|server| server.starts_with("http://")) {
        // Reading the system's certificates takes longer than all else.
        return builder().tls_certs_only([]).build();
    }
    // There may be no certificates here at all.
    builder().tls_certs_merge(authorities.clone()).build().or_else(|_| builder().tls_certs_only(authorities).build())
}

async fn answer(request: reqwest::RequestBuilder) -> Result<Bytes, RequestError> {
    let broken = |error: reqwest::Error| {
        let refusal = if error.is_timeout() { RequestError::Silent } else { RequestError::Later };
        refusal(root_cause(&error.without_url()))
    };
    let mut answer = request.send().await.map_err(broken)?;
    let status = answer.status();
    let mut body = Vec::new();
    while let Some(piece) = answer.chunk().await.map_err(broken)? {
        if body.len() + piece.len() > MESSAGE_BYTES_MAX {
            return Err(RequestError::Later("the answer is longer than any should be".to_owned()));
        }
        body.extend_from_slice(&piece);
    }
    if status.is_success() {
        return Ok(body.into());
    }
    Err(RequestError::read(status, &body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_words_end_an_attempt_or_a_report() {
        let read = |status: u16, body: &str| RequestError::read(StatusCode::from_u16(status).unwrap(), body.as_bytes());
        let ours = |code: &str| format!(r#"{{"code":"{code}","detail":"so it is"}}"#);
        let said = |code: &str| format!("{code}: so it is");
        for (status, code) in [(409, "attempt_over"), (401, "invalid_token"), (403, "wrong_attempt")] {
            assert_eq!(read(status, &ours(code)), RequestError::Over(said(code)));
        }
        for (status, code) in [(400, "invalid_request"), (413, "payload_too_large")] {
            assert_eq!(read(status, &ours(code)), RequestError::Bad(said(code)));
        }
        assert_eq!(read(503, &ours("shard_moving")), RequestError::Moving(said("shard_moving")));
        for code in ["unavailable", "database_unavailable", "disk_full"] {
            assert_eq!(read(503, &ours(code)), RequestError::NoStore(said(code)));
        }
        for (status, code) in [(403, "forbidden_host"), (421, "not_served_here"), (404, "not_found"), (500, "internal")]
        {
            assert_eq!(read(status, &ours(code)), RequestError::Later(said(code)));
        }
        for status in [400, 401, 403, 404, 409, 413, 429, 502, 503] {
            for body in ["", "<html>", r#"{"error":"denied"}"#] {
                assert!(matches!(read(status, body), RequestError::Later(_)), "{status} {body}");
            }
        }
    }
}
