//! A namespace and the administrator of it.

use std::collections::BTreeMap;

use punctual_api::{KeyRequest, NamespaceRequest, QuotasEdit, SecretText};
use punctual_client::Client;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::checked::plain_http;
use crate::harness::Server;

/// The name of everything that has one.
pub(super) const NAME: &str = "nightly";
pub(super) const JOBS: usize = 6;
pub(super) const DIGEST: &str = "abababababababababababababababababababababababababababababababab";

/// An answer, before anything in it is made comparable.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) status: u16,
    pub(super) text: String,
}

pub(super) struct Tenant {
    http: reqwest::Client,
    url: String,
    token: String,
    pub(super) key_id: String,
    pub(super) number: u32,
    /// By what they are called in requests.
    pub(super) ids: BTreeMap<String, String>,
}

/// Random requests reach each of them, whatever the other tenant has.
fn quotas() -> QuotasEdit {
    let quotas = json!({ "stored_jobs": 30, "schedules": 4, "artifact_bytes": 20, "log_bytes": 1_000_000 });
    serde_json::from_value(quotas).expect("quotas")
}

/// What takes long to read. Whoever may not know of it must not wait for that.
const LARGE_INPUT: usize = 60_000;
const LARGE_RUN: usize = 200;

pub(super) fn admin(server: &Server) -> Client {
    server.client()
}

impl Tenant {
    /// Makes a namespace, and fills it as its administrator.
    pub(super) async fn new(server: &Server, name: &str) -> Self {
        let admin = admin(server);
        let request = NamespaceRequest { name: name.to_owned(), quotas: quotas(), ..NamespaceRequest::default() };
        admin.create_namespace(&request).await.expect("a namespace");
        let number = u32::from(name.ends_with('b')) + 1;
        let role = Some("admin".to_owned());
        let namespace = Some(name.to_owned());
        let request = KeyRequest { name: "admin".to_owned(), role, namespace, ..KeyRequest::default() };
        let created = admin.create_key(&request).await.expect("a key");
        let SecretText(token) = created.secret;
        let ids = BTreeMap::new();
        let mut tenant =
            Self { http: plain_http(), url: server.url.clone(), token, key_id: created.key.id, number, ids };
        tenant.fill().await;
        tenant
    }

    pub(super) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.url)).bearer_auth(&self.token)
    }

    pub(super) async fn send(&self, request: RequestBuilder) -> Answered {
        let response = request.send().await.expect("an answer");
        let status = response.status().as_u16();
        Answered { status, text: response.text().await.expect("text") }
    }

    /// The jobs of two tenants are due at different times, so that there is one order of all.
    pub(super) fn run_at(&self, number: usize) -> String {
        format!("2099-01-0{}T0{}:00:00Z", number + 1, self.number)
    }

    async fn made(&mut self, method: Method, path: &str, body: Value, headers: &[(&str, &str)]) -> Value {
        let mut request = self.request(method, path).json(&body);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let Answered { status, text } = self.send(request).await;
        assert!((200..300).contains(&status), "{path}: {status} {text}");
        serde_json::from_str(&text).unwrap_or_default()
    }

    fn keep(&mut self, what: String, made: &Value) {
        self.ids.insert(what, made["id"].as_str().expect("an id").to_owned());
    }

    async fn fill(&mut self) {
        let spec = json!({ "run": { "http": { "url": "https://example.com/" } } });
        let task = self.made(Method::PUT, &format!("/v1/tasks/{NAME}"), spec, &[]).await;
        self.keep("task".to_owned(), &task);
        for number in 0..JOBS {
            let run_at = self.run_at(number);
            let body =
                json!({ "task": NAME, "run_at": run_at, "input": number, "tracing_id": format!("trace-{number}") });
            let key = format!("key-{number}");
            let job = self.made(Method::POST, "/v1/jobs", body, &[("Idempotency-Key", &key)]).await;
            self.keep(format!("job{number}"), &job);
        }
        let cancelled = self.ids["job5"].clone();
        self.made(Method::POST, &format!("/v1/jobs/{cancelled}/cancel"), json!({}), &[]).await;
        let dates = json!({ "dates": ["2098-12-25"] });
        self.made(Method::PUT, &format!("/v1/calendars/{NAME}"), dates, &[]).await;
        let schedule = json!({ "task": NAME, "at": "2099-02-01T00:00:00Z" });
        let schedule = self.made(Method::PUT, &format!("/v1/schedules/{NAME}"), schedule, &[]).await;
        self.keep("schedule".to_owned(), &schedule);
        let file = json!({ "name": "data", "size": 7, "sha256": DIGEST, "kind": "file" });
        let artifact = self.made(Method::POST, "/v1/artifacts", file, &[]).await;
        let signed = artifact["upload"]["url"].as_str().expect("an address").to_owned();
        let signed = signed.trim_start_matches(&self.url).to_owned();
        self.ids.insert("signed".to_owned(), signed);
        self.keep("artifact".to_owned(), &artifact);
        let page = self.send(self.request(Method::GET, "/v1/jobs?limit=2&order=asc")).await;
        let page: Value = serde_json::from_str(&page.text).expect("JSON");
        self.ids.insert("cursor".to_owned(), page["next_cursor"].as_str().expect("a cursor").to_owned());
        let rule = json!({ "on": ["failed"], "email": { "to": ["ops@example.com"] } });
        self.made(Method::PUT, &format!("/v1/notifications/{NAME}"), rule, &[]).await;
        self.fill_with_runs().await;
        let large = json!({ "task": NAME, "run_at": self.run_at(JOBS), "input": "x".repeat(LARGE_INPUT) });
        let large = self.made(Method::POST, "/v1/jobs", large, &[]).await;
        self.keep("large job".to_owned(), &large);
        let secret = self.request(Method::PUT, &format!("/v1/secrets/{NAME}"));
        let secret = secret.header("Content-Type", "text/plain").body("the value of a secret");
        assert_eq!(self.send(secret).await.status, 200);
    }

    /// A workflow whose run waits for a person and for an event, and one that has many nodes.
    async fn fill_with_runs(&mut self) {
        let ask = json!({ "name": "ask", "gate": {} });
        let wait = json!({ "name": "wait", "gate": { "event": "go" } });
        let last = json!({ "name": "last", "needs": ["ask", "wait"], "task": NAME });
        let gates: Vec<Value> = (0..LARGE_RUN).map(|n| json!({ "name": format!("gate-{n}"), "gate": {} })).collect();
        for (name, nodes, run) in [(NAME, json!([ask, wait, last]), "run"), ("large", json!(gates), "large run")] {
            self.made(Method::PUT, &format!("/v1/workflows/{name}"), json!({ "nodes": nodes }), &[]).await;
            let input = json!({ "input": self.number });
            let started = self.made(Method::POST, &format!("/v1/workflows/{name}/runs"), input, &[]).await;
            self.keep(run.to_owned(), &started);
        }
        let page = self.send(self.request(Method::GET, "/v1/runs?limit=1")).await;
        let page: Value = serde_json::from_str(&page.text).expect("JSON");
        self.ids.insert("runs cursor".to_owned(), page["next_cursor"].as_str().expect("a cursor").to_owned());
    }

    /// What the tenant sees of itself.
    pub(super) async fn shown(&self) -> Vec<String> {
        let lists = [
            "tasks",
            "jobs",
            "schedules",
            "calendars",
            "artifacts",
            "notifications",
            "secrets",
            "keys",
            "workflows",
            "runs",
            "namespaces",
        ];
        let mut paths: Vec<String> = lists.iter().map(|list| format!("/v1/{list}")).collect();
        paths.extend(["run", "large run"].map(|run| format!("/v1/runs/{}", self.ids[run])));
        let mut shown = Vec::new();
        for path in paths {
            let answered = self.send(self.request(Method::GET, &path)).await;
            assert_eq!(answered.status, 200, "{path}");
            shown.push(without_times(&answered.text));
        }
        shown
    }

    /// An answer without what differs between two clusters: times, and ids other than those of the other tenant.
    pub(super) fn normalized(&self, answered: &Answered, other: &Self) -> String {
        let mut text = answered.text.replace(&self.url, "URL");
        for (what, id) in &other.ids {
            text = text.replace(id.as_str(), &format!("<other {what}>"));
        }
        format!("{} {}", answered.status, without_ids(&without_times(&text)))
    }
}

/// RFC 3339 times of now become `TIME`, and how long it is until a time becomes `SPAN`.
fn without_times(text: &str) -> String {
    let parts = text.split('"').map(|part| match part.split_once(", in ") {
        Some((start, span)) => {
            format!("{}, in SPAN.{}", timeless(start), span.split_once('.').map_or("", |(_, rest)| rest))
        }
        None => timeless(part),
    });
    parts.collect::<Vec<_>>().join("\"")
}

/// Those of jobs and schedules were chosen, and are the same everywhere.
fn timeless(text: &str) -> String {
    let is_now = |word: &str| {
        let bytes = word.as_bytes();
        bytes.len() >= 20 && bytes[4] == b'-' && bytes[10] == b'T' && word.starts_with("20") && !word.starts_with("209")
    };
    text.split(' ').map(|word| if is_now(word) { "TIME" } else { word }).collect::<Vec<_>>().join(" ")
}

/// Words that only differ by chance: ids, cursors, digests and signatures.
fn without_ids(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut word = String::new();
    let end = |word: &mut String, plain: &mut String| {
        let digits = word.chars().filter(char::is_ascii_digit).count();
        let is_random = word.len() >= 16 && digits >= 4 && word != DIGEST;
        // The last is when an address expires.
        let is_id = is_random || word.starts_with("req_") || word.len() >= 9 && digits == word.len();
        plain.push_str(if is_id { "ID" } else { word.as_str() });
        word.clear();
    };
    for letter in text.chars() {
        if letter.is_ascii_alphanumeric() || letter == '_' {
            word.push(letter);
        } else {
            end(&mut word, &mut plain);
            plain.push(letter);
        }
    }
    end(&mut word, &mut plain);
    plain
}
