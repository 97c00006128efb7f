//! The few calls of the Docker API that agents need, over its socket. Podman offers them too.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::UnixStream;

/// The API version of Docker 20.10 and Podman 3; later releases support it too.
const VERSION: &str = "/v1.41";
/// The time limit of a call. Starting and removing a container take some hundred milliseconds, and more on a busy
/// machine.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
const ANSWER_BYTES_MAX: usize = 4 << 20;
/// A wait is repeated after this time, so that a broken connection is noticed.
const WAIT_LIMIT: Duration = Duration::from_secs(300);
const TAIL_LINES: u32 = 20;

#[derive(Debug, Clone)]
pub struct ContainerEngine {
    socket: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContainerEngineError {
    #[error("the container engine at {socket} cannot be reached: {reason}")]
    Unreachable { socket: String, reason: String },
    /// The engine did not answer. It may have done what was requested, or may still do it.
    #[error("the container engine at {socket} did not answer: {reason}")]
    Unanswered { socket: String, reason: String },
    #[error("there is no such thing: {0}")]
    NoSuch(String),
    #[error("the container engine refused: {0}")]
    Refused(String),
}

/// The engine that answers, for the few options in which Docker and Podman differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    Docker,
    Podman,
}

/// The result of a request to remove a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Removal {
    Removed,
    NotThere,
}

/// A container in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ListedContainer {
    pub(super) id: String,
    pub(super) labels: BTreeMap<String, String>,
}

impl ContainerEngine {
    pub fn new(socket: impl Into<PathBuf>) -> Self {
        Self { socket: socket.into() }
    }

    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Checks that the engine answers and has the image.
    pub async fn check(&self, image: &str) -> Result<(), ContainerEngineError> {
        self.call(Method::GET, "/_ping", None).await?;
        match self.call(Method::GET, &format!("/images/{}/json", encoded(image)), None).await {
            Err(ContainerEngineError::NoSuch(_)) => Err(ContainerEngineError::NoSuch(format!("the image {image}"))),
            answered => answered.map(drop),
        }
    }

    pub(super) async fn dialect(&self) -> Result<Dialect, ContainerEngineError> {
        let version = self.call(Method::GET, "/version", None).await?;
        let mut components = version["Components"].as_array().into_iter().flatten();
        let is_podman = components.any(|part| part["Name"].as_str().is_some_and(|name| name.starts_with("Podman")));
        Ok(if is_podman { Dialect::Podman } else { Dialect::Docker })
    }

    pub(super) async fn create(&self, name: &str, container: &Value) -> Result<(), ContainerEngineError> {
        self.call(Method::POST, &format!("/containers/create?name={name}"), Some(container)).await.map(drop)
    }

    pub(super) async fn start(&self, name: &str) -> Result<(), ContainerEngineError> {
        self.call(Method::POST, &format!("/containers/{name}/start"), None).await.map(drop)
    }

    /// Waits until a container has ended, and returns its exit code.
    pub(super) async fn wait(&self, name: &str) -> Result<i32, ContainerEngineError> {
        loop {
            let path = format!("/containers/{name}/wait");
            let Ok(answer) = tokio::time::timeout(WAIT_LIMIT, self.exchange(Method::POST, &path, None)).await else {
                continue;
            };
            let answer = read(answer?)?;
            let code = answer["StatusCode"].as_i64().and_then(|code| i32::try_from(code).ok());
            return code.ok_or_else(|| ContainerEngineError::Refused("it answered a wait without a status".to_owned()));
        }
    }

    /// The last output of a container to stderr.
    pub(super) async fn last_words(&self, name: &str) -> Result<Vec<u8>, ContainerEngineError> {
        let path = format!("/containers/{name}/logs?stderr=1&tail={TAIL_LINES}");
        let answer = self.exchange(Method::GET, &path, None);
        let (status, bytes) = self.in_time(ANSWER_LIMIT, answer).await?;
        if !status.is_success() {
            return Err(refused(status, &bytes));
        }
        Ok(without_frames(&bytes))
    }

    /// Removes a container, and kills it first if it runs.
    pub(super) async fn remove(&self, name: &str) -> Result<Removal, ContainerEngineError> {
        match self.call(Method::DELETE, &format!("/containers/{name}?force=1&v=1"), None).await {
            Ok(_) => Ok(Removal::Removed),
            Err(ContainerEngineError::NoSuch(_)) => Ok(Removal::NotThere),
            Err(error) => Err(error),
        }
    }

    /// Lists the containers with these labels, including ended ones.
    pub(super) async fn list(&self, labels: &[(&str, String)]) -> Result<Vec<ListedContainer>, ContainerEngineError> {
        let labels: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let filters = json!({ "label": labels }).to_string();
        let list =
            self.call(Method::GET, &format!("/containers/json?all=1&filters={}", encoded(&filters)), None).await?;
        Ok(list.as_array().into_iter().flatten().filter_map(listed).collect())
    }

    async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, ContainerEngineError> {
        read(self.in_time(ANSWER_LIMIT, self.exchange(method, path, body)).await?)
    }

    async fn in_time<T>(
        &self,
        limit: Duration,
        answer: impl Future<Output = Result<T, ContainerEngineError>>,
    ) -> Result<T, ContainerEngineError> {
        let answer = tokio::time::timeout(limit, answer).await;
        answer.unwrap_or_else(|_| Err(self.unanswered(&format!("nothing within {limit:?}"))))
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<(StatusCode, Bytes), ContainerEngineError> {
        let broken = |error: hyper::Error| self.unanswered(&punctual_exec::root_cause(&error));
        let stream = UnixStream::connect(&self.socket).await.map_err(|error| self.unreachable(&error.to_string()))?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
        let body = body.map_or_else(Bytes::new, |body| body.to_string().into());
        let request = Request::builder()
            .method(method)
            .uri(format!("{VERSION}{path}"))
            .header(HOST, "punctual")
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .map_err(|error| ContainerEngineError::Refused(format!("{path} is no address: {error}")))?;
        let answer = async {
            let answer = sender.send_request(request).await.map_err(broken)?;
            let status = answer.status();
            let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
            let body = body.map_err(|error| self.unanswered(&error.to_string()))?;
            Ok((status, body.to_bytes()))
        };
        // The connection lives as long as its one request.
        tokio::select! {
            biased;
            answer = answer => answer,
            ended = connection => match ended {
                Err(error) => Err(broken(error)),
                Ok(()) => Err(self.unanswered("it closed the connection")),
            },
        }
    }

    fn unreachable(&self, reason: &str) -> ContainerEngineError {
        ContainerEngineError::Unreachable { socket: self.socket.display().to_string(), reason: reason.to_owned() }
    }

    fn unanswered(&self, reason: &str) -> ContainerEngineError {
        ContainerEngineError::Unanswered { socket: self.socket.display().to_string(), reason: reason.to_owned() }
    }
}

fn read((status, bytes): (StatusCode, Bytes)) -> Result<Value, ContainerEngineError> {
    // 304: it is so already.
    if status.is_success() || status == StatusCode::NOT_MODIFIED {
        return Ok(serde_json::from_slice(&bytes).unwrap_or(Value::Null));
    }
    Err(refused(status, &bytes))
}

fn refused(status: StatusCode, bytes: &[u8]) -> ContainerEngineError {
    let said: Value = serde_json::from_slice(bytes).unwrap_or(Value::Null);
    let message = said["message"].as_str().or(said["cause"].as_str()).unwrap_or("it said nothing").trim().to_owned();
    if status == StatusCode::NOT_FOUND {
        ContainerEngineError::NoSuch(message)
    } else {
        ContainerEngineError::Refused(message)
    }
}

fn listed(container: &Value) -> Option<ListedContainer> {
    let labels = container["Labels"].as_object()?;
    let labels = labels.iter().filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
    Some(ListedContainer { id: container["Id"].as_str()?.to_owned(), labels: labels.collect() })
}

/// Removes the header of eight bytes that each piece of a log has: its stream and its length.
fn without_frames(mut bytes: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    while let Some((header, rest)) = bytes.split_first_chunk::<8>() {
        let len = u32::from_be_bytes([header[4], header[5], header[6], header[7]]) as usize;
        let (piece, rest) = rest.split_at(len.min(rest.len()));
        text.extend_from_slice(piece);
        bytes = rest;
    }
    text
}

fn encoded(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_freed_of_its_frames() {
        let mut bytes = vec![2, 0, 0, 0, 0, 0, 0, 4];
        bytes.extend(b"one\n");
        bytes.extend([2, 0, 0, 0, 0, 0, 0, 9]);
        bytes.extend(b"cut");
        assert_eq!(without_frames(&bytes), b"one\ncut");
        assert_eq!(without_frames(b""), b"");
        assert_eq!(without_frames(b"short"), b"");
    }

    #[test]
    fn a_refusal_says_what_the_engine_said() {
        let answer = |status, text: &'static str| read((status, Bytes::from_static(text.as_bytes())));
        assert_eq!(
            answer(StatusCode::NOT_FOUND, r#"{"message":"No such container: x"}"#),
            Err(ContainerEngineError::NoSuch("No such container: x".to_owned()))
        );
        let odd = answer(StatusCode::INTERNAL_SERVER_ERROR, "<html>").unwrap_err();
        assert_eq!(odd.to_string(), "the container engine refused: it said nothing");
        assert_eq!(answer(StatusCode::NO_CONTENT, ""), Ok(Value::Null));
        assert_eq!(answer(StatusCode::NOT_MODIFIED, ""), Ok(Value::Null));
    }

    #[tokio::test]
    async fn an_engine_that_is_not_there_is_named() {
        let nowhere = ContainerEngine::new("/nowhere/engine.sock");
        let error = nowhere.check("image").await.unwrap_err().to_string();
        assert!(error.starts_with("the container engine at /nowhere/engine.sock cannot be reached: "), "{error}");
    }
}
