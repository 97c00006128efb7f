//! Uploaded files, as a stranger would try them: over plain HTTP, by the command line, and to
//! the worker that fetches them.

mod cli;
mod files;
mod refusals;
mod runs;
mod s3;

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use punctual_core::attempt::{Failure, Outcome};
use punctual_core::hex;
use punctual_core::task::Run;
use punctual_worker::{Call, Downloads, ExecutionEnd, Executor, Worker};
use reqwest::Method;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::checked::{Answer, Checked, plain_http};
use crate::harness::{Home, Server, eventually};

/// A server, and a client that judges its answers.
pub(super) struct World {
    pub(super) api: Checked,
    pub(super) server: Server,
    pub(super) home: Home,
}

impl World {
    pub(super) async fn new() -> Self {
        Self::with(&[], &[]).await
    }

    pub(super) async fn with(flags: &[&str], variables: &[(&str, &str)]) -> Self {
        let home = Home::new();
        let server = home.server_with("127.0.0.1:0", flags, variables);
        Self { api: Checked::new(&server).await, server, home }
    }

    pub(super) async fn declare(&self, bytes: &[u8]) -> Answer {
        self.api.post("/v1/artifacts", declaration(bytes)).await
    }

    /// Declares and uploads; answers the id.
    pub(super) async fn push(&self, bytes: &[u8]) -> String {
        let declared = self.declare(bytes).await.expect(201);
        put(declared.str("/upload/url"), bytes.to_vec()).await.expect(200);
        declared.str("/id").to_owned()
    }

    pub(super) async fn state(&self, id: &str) -> String {
        self.api.get(&format!("/v1/artifacts/{id}")).await.expect(200).str("/state").to_owned()
    }

    /// All files in the storage, finished or not.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        let storage = self.home.file("data/storage");
        let folders = [storage.join("artifacts"), storage.join("uploads"), storage.join(".uploads")];
        let files = folders.iter().flat_map(|folder| std::fs::read_dir(folder).into_iter().flatten().flatten());
        files.map(|file| file.path()).collect()
    }
}

pub(super) fn declaration(bytes: &[u8]) -> Value {
    json!({ "name": "program", "size": bytes.len(), "sha256": hex::encode(Sha256::digest(bytes)), "kind": "binary" })
}

/// As any client would, without credentials.
pub(super) async fn put(url: &str, body: impl Into<reqwest::Body>) -> Answer {
    let response = plain_http().request(Method::PUT, url).body(body).send().await.expect("an answer");
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let text = response.text().await.expect("the answer is text");
    Answer { status, headers, body: serde_json::from_str(&text).unwrap_or(Value::Null), text }
}

/// A static program of so many bytes, as far as its header goes. Nobody runs it here.
pub(crate) fn program(len: usize, salt: u8) -> Vec<u8> {
    let mut bytes = vec![salt; len.max(200)];
    bytes[..64 + 56].fill(0);
    bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
    bytes[0x10] = 2;
    bytes[0x12] = 0x3e;
    bytes[0x19] = 0x10;
    bytes[0x20] = 64;
    bytes[0x36] = 56;
    bytes[0x38] = 1;
    bytes[64] = 1;
    let size = (bytes.len() as u64).to_le_bytes();
    bytes[64 + 0x20..64 + 0x28].copy_from_slice(&size);
    bytes
}

/// The same, loaded at an address that differs each time, as `gcc -static-pie` makes them.
pub(super) fn position_independent(len: usize, salt: u8) -> Vec<u8> {
    with(program(len, salt), &[(0x10, 3)])
}

/// Files that no worker can run, and what is said of each.
pub(super) fn unusable() -> Vec<(Vec<u8>, &'static str)> {
    let whole = || program(5_000, 1);
    vec![
        (std::fs::read("/bin/true").expect("a program of the system"), "link it with `gcc -static`"),
        (b"#!/bin/sh\necho hello\n".to_vec(), "it is a script"),
        (b"dear diary".to_vec(), "it is not a program for Linux"),
        (whole()[..4_000].to_vec(), "it is cut off"),
        (whole()[..40].to_vec(), "it is cut off in its header"),
        (whole()[..100].to_vec(), "it is cut off"),
        (with(whole(), &[(4, 1)]), "it is a 32-bit program"),
        (with(whole(), &[(5, 2)]), "it is for a big-endian processor"),
        (with(whole(), &[(0x12, 243)]), "it is for a processor of number 243"),
        (with(whole(), &[(0x10, 1)]), "it is an object file"),
        (with(whole(), &[(0x10, 4)]), "it is a core dump"),
        (with(whole(), &[(0x10, 3), (0x19, 0)]), "it is a library"),
        (with(whole(), &[(64, 2)]), "nothing of it would be loaded"),
        (with(whole(), &[(0x36, 0)]), "its header is damaged"),
    ]
}

fn with(mut bytes: Vec<u8>, changes: &[(usize, u8)]) -> Vec<u8> {
    changes.iter().for_each(|(place, byte)| bytes[*place] = *byte);
    bytes
}

pub(super) fn binary(artifact: &str) -> Value {
    json!({ "run": { "binary": { "artifact": artifact } } })
}

/// Stands in for the executor of binaries: fetches the file in two parts and answers its digest.
struct Fetches(Arc<dyn Downloads>);

#[async_trait]
impl Executor for Fetches {
    fn kind(&self) -> &'static str {
        "binary"
    }

    fn capabilities(&self) -> Vec<String> {
        vec!["binary".to_owned()]
    }

    async fn execute(self: Arc<Self>, call: Call) -> ExecutionEnd {
        let Run::Binary(binary) = &*call.run else { return Outcome::Failed(Failure::new("not a binary")).into() };
        let download = match self.0.locate(call.job, call.attempt, binary.artifact).await {
            Ok(download) => download,
            Err(error) => return Outcome::Failed(Failure::new(error.to_string())).into(),
        };
        let http = plain_http();
        let mut bytes = Vec::new();
        for (range, expected) in [("bytes=0-9".to_owned(), 10), ("bytes=10-".to_owned(), download.size - 10)] {
            let part = http.get(&download.url).header("range", range).send().await.expect("an answer");
            assert_eq!(part.status().as_u16(), 206);
            let part = part.bytes().await.expect("the part");
            assert_eq!(part.len() as u64, expected);
            bytes.extend_from_slice(&part);
        }
        assert_eq!(<[u8; 32]>::from(Sha256::digest(&bytes)), download.sha256);
        // What is not this worker's is not given to it.
        let other = self.0.locate(call.job, punctual_core::AttemptNo(call.attempt.0 + 1), binary.artifact).await;
        assert!(matches!(other, Err(punctual_worker::DownloadError::Refused(_))), "{other:?}");
        Outcome::Succeeded { output: Some(format!("\"{}\"", hex::encode(Sha256::digest(&bytes))).into()) }.into()
    }
}

/// A worker in this process, which ends with the test.
pub(super) async fn fetching_worker(api: &Checked, servers: &[&Server]) -> tokio::task::JoinHandle<()> {
    let worker = Worker::connect_any(servers.iter().map(|server| server.url.clone()));
    let fetches = Fetches(worker.downloads());
    let running = tokio::spawn(async move { worker.executor(fetches).run().await.expect("the worker runs") });
    eventually("the worker connects", || async { api.get("/v1/stats").await.body["workers"] == json!(1) }).await;
    running
}
