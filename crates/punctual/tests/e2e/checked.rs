//! Plain HTTP, with every answer held against the served OpenAPI document.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use futures_util::StreamExt;
use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, HeaderMap};
use serde_json::{Value, json};

use crate::harness::{PATIENCE, Server};
use crate::openapi::Document;

/// An HTTP client that adds nothing of its own.
pub(crate) fn plain_http() -> reqwest::Client {
    // Another test of this process may have chosen a provider already; any will do.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .tls_certs_only([])
        .timeout(PATIENCE)
        .build()
        .expect("a client")
}

pub(crate) struct Checked {
    http: reqwest::Client,
    url: String,
    pub(crate) document: Document,
    /// The operations that have succeeded at least once.
    succeeded: Mutex<BTreeSet<String>>,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
    /// Null unless it is JSON.
    pub(crate) body: Value,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().expect("a header of ours is ASCII"))
    }

    /// The text at a JSON pointer.
    #[track_caller]
    pub(crate) fn str(&self, pointer: &str) -> &str {
        let found = self.body.pointer(pointer).and_then(Value::as_str);
        found.unwrap_or_else(|| panic!("no text at {pointer} of {}", self.text))
    }

    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.text);
        self
    }

    #[track_caller]
    pub(crate) fn refused(self, status: u16, code: &str) -> Self {
        assert_eq!((self.status, self.body["code"].as_str()), (status, Some(code)), "{}", self.text);
        self
    }
}

impl Checked {
    pub(crate) async fn new(server: &Server) -> Self {
        let http = plain_http();
        let served = http.get(format!("{}/openapi.json", server.url)).send().await.expect("the document is served");
        let document = Document::new(&served.json().await.expect("the document is JSON"));
        Self { http, url: server.url.clone(), document, succeeded: Mutex::default() }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, None, &[]).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.send(Method::POST, path, Some(body), &[]).await
    }

    /// A POST that says everything with its path.
    pub(crate) async fn command(&self, path: &str) -> Answer {
        self.send(Method::POST, path, None, &[]).await
    }

    pub(crate) async fn put(&self, path: &str, body: Value) -> Answer {
        self.send(Method::PUT, path, Some(body), &[]).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.send(Method::DELETE, path, None, &[]).await
    }

    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
        headers: &[(&str, &str)],
    ) -> Answer {
        let mut request = self.http.request(method.clone(), format!("{}{path}", self.url));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(body) = &body {
            request = request.json(body);
        }
        let response = request.send().await.unwrap_or_else(|error| panic!("{method} {path}: {error:?}"));
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let text = response.text().await.expect("the answer is text");
        let answer = Answer { status, headers, body: serde_json::from_str(&text).unwrap_or(Value::Null), text };
        self.judge(&method, path, body.as_ref(), &answer);
        answer
    }

    #[track_caller]
    fn judge(&self, method: &Method, path: &str, request: Option<&Value>, answer: &Answer) {
        let at = format!("{method} {path}: {} {}", answer.status, answer.text);
        let request_id = answer.header("x-request-id");
        assert!(request_id.is_some_and(|id| id.starts_with("req_")), "{at}");
        let bare = path.split('?').next().unwrap_or(path);
        let Some(operation) = self.document.operation(method.as_str(), bare) else {
            assert!(matches!(answer.status, 404 | 405), "not documented, yet answered: {at}");
            let misfits = self.document.misfits_of("Problem", &answer.body);
            assert!(misfits.is_empty(), "{at}: {misfits:#?}");
            return;
        };
        let misfits = operation.misfits(answer.status, answer.header(CONTENT_TYPE.as_str()), &answer.text);
        assert!(misfits.is_empty(), "{at}: {misfits:#?}");
        if answer.status >= 400 {
            assert_eq!(answer.body["request_id"].as_str(), request_id, "{at}");
            assert_eq!(answer.body["status"], json!(answer.status), "{at}");
            return;
        }
        if let Some(request) = request {
            let misfits = operation.request_misfits(request);
            assert!(misfits.is_empty(), "accepted, yet not documented: {request}: {misfits:#?}");
        }
        self.succeeded.lock().expect("no panic before").insert(operation.id.to_owned());
    }

    /// The documented operations that have not succeeded yet.
    pub(crate) fn not_yet_seen(&self) -> Vec<String> {
        let seen = self.succeeded.lock().expect("no panic before");
        self.document.operation_ids().filter(|id| !seen.contains(*id)).map(str::to_owned).collect()
    }

    /// Opens a stream of server-sent events.
    pub(crate) async fn listen(&self, path: &str, headers: &[(&str, &str)]) -> Events {
        let mut request = self.http.get(format!("{}{path}", self.url)).header("accept", "text/event-stream");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = request.send().await.expect("the server answers");
        let answer = Answer {
            status: response.status().as_u16(),
            headers: response.headers().clone(),
            text: String::new(),
            body: Value::Null,
        };
        assert_eq!(answer.header("content-type"), Some("text/event-stream"), "{path}");
        self.judge(&Method::GET, path, None, &answer);
        Events {
            response: Box::pin(response.bytes_stream().map(|bytes| bytes.map(|bytes| bytes.to_vec()))),
            text: String::new(),
        }
    }

    // Shorthands for what most tests begin with.

    pub(crate) async fn submit(&self, job: Value) -> String {
        self.post("/v1/jobs", job).await.expect(201).str("/id").to_owned()
    }

    /// The job once it has finished.
    pub(crate) async fn finished(&self, id: &str) -> Answer {
        let job = self.get(&format!("/v1/jobs/{id}?wait=60s")).await.expect(200);
        assert!(job.body["finished_at"].is_string(), "{}", job.text);
        job
    }
}

/// One server-sent event.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) name: String,
    pub(crate) id: String,
    pub(crate) data: String,
}

impl Event {
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap_or_else(|error| panic!("{error}: {}", self.data))
    }
}

pub(crate) struct Events {
    response: std::pin::Pin<Box<dyn futures_util::Stream<Item = reqwest::Result<Vec<u8>>> + Send>>,
    text: String,
}

impl Events {
    /// The next event; `None` when the server has ended the stream.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.take_event() {
                return Some(event);
            }
            let next = tokio::time::timeout(PATIENCE, self.response.next());
            let bytes = next.await.expect("an event comes, or the stream ends")?.expect("the stream does not break");
            self.text += std::str::from_utf8(&bytes).expect("our events are ASCII or cut between characters");
        }
    }

    pub(crate) async fn all(mut self) -> Vec<Event> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            events.push(event);
        }
        events
    }

    /// Whether nothing comes for a while.
    pub(crate) async fn is_quiet(&mut self, for_so_long: Duration) -> bool {
        tokio::time::timeout(for_so_long, self.next()).await.is_err()
    }

    fn take_event(&mut self) -> Option<Event> {
        loop {
            let (lines, rest) = self.text.split_once("\n\n")?;
            let mut event = Event::default();
            for line in lines.lines() {
                match line.split_once(": ").or_else(|| line.split_once(':')) {
                    Some(("event", name)) => event.name = name.to_owned(),
                    Some(("id", id)) => event.id = id.to_owned(),
                    Some(("data", data)) => event.data += data,
                    _ => {}
                }
            }
            self.text = rest.to_owned();
            // What is left of a comment that keeps the connection alive.
            if event != Event::default() {
                return Some(event);
            }
        }
    }
}
