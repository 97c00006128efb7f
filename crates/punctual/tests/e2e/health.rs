//! Readiness means that a write would succeed, and `doctor` says what is wrong: with a full disk, a file that was moved, a
//! damaged one, and without a worker that can run what waits.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::checked::plain_http;
use crate::harness::{Home, PUNCTUAL, Server, eventually};

/// Later than any test runs.
const FAR: &str = "2099-01-01T00:00:00Z";

struct Answer {
    status: u16,
    body: Value,
}

impl Answer {
    fn code(&self) -> &str {
        self.body["code"].as_str().unwrap_or_default()
    }
}

async fn answer(request: reqwest::RequestBuilder) -> Answer {
    let response = request.send().await.expect("the server answers");
    let status = response.status().as_u16();
    let text = response.text().await.expect("the answer can be read");
    Answer { status, body: serde_json::from_str(&text).unwrap_or(Value::String(text)) }
}

async fn ready(server: &Server) -> Answer {
    answer(plain_http().get(format!("{}/readyz", server.url))).await
}

async fn submit(server: &Server, input_bytes: usize) -> Answer {
    let input = "x".repeat(input_bytes);
    let job = json!({ "inline": { "run": { "probe": {} } }, "run_at": FAR, "input": input });
    answer(plain_http().post(format!("{}/v1/jobs", server.url)).json(&job)).await
}

async fn delete(server: &Server, id: &str) -> Answer {
    answer(plain_http().delete(format!("{}/v1/jobs/{id}", server.url))).await
}

async fn is_ready(server: &Server) -> bool {
    ready(server).await.status == 200
}

/// Until one is refused.
async fn submit_until_full(server: &Server, input_bytes: usize) {
    for _ in 0..2000 {
        let answer = submit(server, input_bytes).await;
        if answer.status != 201 {
            assert_eq!((answer.status, answer.code()), (503, "disk_full"), "{}", answer.body);
            assert!(answer.body["hint"].as_str().unwrap().contains("make room"), "{}", answer.body);
            return;
        }
    }
    panic!("the disk never became full");
}

#[tokio::test]
async fn a_full_disk_is_named_and_the_server_goes_on_when_there_is_space() {
    let home = Home::new();
    let log = home.file("server.log");
    let server = home.server_on_small_disk(64, 16, File::create(&log).unwrap());
    let first = submit(&server, 10).await;
    assert_eq!(first.status, 201, "{}", first.body);
    let id = first.body["id"].as_str().unwrap().to_owned();
    // The large ones leave some space that smaller ones find.
    for input_bytes in [200_000, 20_000, 10] {
        submit_until_full(&server, input_bytes).await;
    }
    eventually("the server is not ready", || async { !is_ready(&server).await }).await;
    let not_ready = ready(&server).await;
    assert_eq!((not_ready.status, not_ready.code()), (503, "disk_full"), "{}", not_ready.body);
    let refused = delete(&server, &id).await;
    assert_eq!((refused.status, refused.code()), (503, "disk_full"), "{}", refused.body);
    // The owner of the job could not write and has to begin anew, which is no takeover.
    eventually("the job says why nobody knows of it", || async {
        let shown = answer(plain_http().get(format!("{}/v1/jobs/{id}", server.url))).await;
        let explanation = shown.body["explanation"].as_str().expect("an explanation");
        assert!(!explanation.contains("taken over"), "{explanation}");
        explanation.contains("the disk of the database is full. What to do: make room")
    })
    .await;
    let said = fs::read_to_string(&log).unwrap();
    assert!(!said.contains("a change is missing in the audit log"), "nothing was changed: {said}");
    assert!(said.contains("a request that failed is missing in the audit log"), "{said}");

    fs::remove_file(server.own_view(&home.file("data/filler"))).unwrap();
    eventually("the server is ready again", || is_ready(&server)).await;
    eventually("the job can be deleted", || async { delete(&server, &id).await.status == 200 }).await;
    assert_eq!(submit(&server, 10).await.status, 201);
}

#[tokio::test]
async fn a_folder_that_is_moved_away_stops_writes_until_it_is_back() {
    let home = Home::new();
    let server = home.server();
    let id = submit(&server, 10).await.body["id"].as_str().unwrap().to_owned();
    assert!(is_ready(&server).await);
    let (data, elsewhere) = (home.file("data"), home.file("elsewhere"));
    fs::rename(&data, &elsewhere).unwrap();
    eventually("the server is not ready", || async { !is_ready(&server).await }).await;
    for refused in [ready(&server).await, submit(&server, 10).await, delete(&server, &id).await] {
        assert_eq!((refused.status, refused.code()), (503, "database_file_replaced"), "{}", refused.body);
    }
    let (code, checks) = doctor(&home, &server);
    assert_eq!(code, 1);
    assert_eq!(checks["ready"].0, "FAIL", "{checks:?}");
    assert!(checks["ready"].1.contains("database_file_replaced"), "{checks:?}");
    assert_eq!(checks["store"].0, "FAIL", "what the server remembers is no pass: {checks:?}");
    assert_eq!(checks["data folder"].0, "SKIP", "{checks:?}");

    fs::rename(&elsewhere, &data).unwrap();
    eventually("the server is ready again", || is_ready(&server)).await;
    eventually("the job can be deleted", || async { delete(&server, &id).await.status == 200 }).await;
}

/// Starts a server that refuses to.
fn refused(home: &Home, flags: &[&str]) -> String {
    let Output { status, stderr, .. } = Command::new(PUNCTUAL)
        .args(["server", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(home.file("data"))
        .args(flags)
        .current_dir(home.path())
        .output()
        .expect("the program runs");
    let said = String::from_utf8_lossy(&stderr).into_owned();
    assert_eq!(status.code(), Some(1), "{said}");
    said
}

#[tokio::test]
async fn a_damaged_database_is_refused_at_the_start_with_what_to_do() {
    let home = Home::new();
    let server = home.server();
    for _ in 0..50 {
        assert_eq!(submit(&server, 4000).await.status, 201);
    }
    server.process.stop();
    let file = File::options().write(true).open(home.file("data/punctual.db")).unwrap();
    let pages = file.metadata().unwrap().len() / 4096;
    for page in 20..pages {
        file.write_all_at(&[0xa5; 8], page * 4096).unwrap();
    }
    let said = refused(&home, &[]);
    assert!(said.contains("the database is corrupt") && said.contains(".recover"), "{said}");
}

#[tokio::test]
async fn a_write_ahead_log_that_was_removed_after_a_kill_is_not_overlooked() {
    let home = Home::new();
    let server = home.server();
    for _ in 0..20 {
        assert_eq!(submit(&server, 10).await.status, 201);
    }
    server.kill();
    fs::remove_file(home.file("data/punctual.db-wal")).unwrap();
    let said = refused(&home, &[]);
    assert!(said.contains("has lost its last") && said.contains("--accept-data-loss"), "{said}");
    let server = home.server_at("127.0.0.1:0", &["--accept-data-loss"]);
    assert!(is_ready(&server).await);
    server.process.stop();
    let server = home.server();
    assert!(is_ready(&server).await);
}

#[tokio::test]
async fn the_lock_is_on_the_database_itself() {
    let home = Home::new();
    let server = home.server();
    fs::remove_file(home.file("data/punctual.db.lock")).unwrap();
    let said = refused(&home, &[]);
    assert!(said.contains("another process has") && said.contains("name it with --data-dir"), "{said}");
    assert!(is_ready(&server).await);
}

pub(crate) type Checks = std::collections::BTreeMap<String, (String, String)>;

/// What it exits with, and its checks by name: the verdict and the reason.
pub(crate) fn doctor(home: &Home, server: &Server) -> (i32, Checks) {
    let output = Command::new(PUNCTUAL)
        .args(["doctor", "-o", "json", "--server", &server.url])
        .current_dir(home.path())
        .output()
        .expect("the program runs");
    let checks: Vec<Value> = serde_json::from_slice(&output.stdout).expect("a list of checks");
    let text = |check: &Value, field: &str| check[field].as_str().unwrap_or_default().to_owned();
    let by_name = |check: &Value| (text(check, "name"), (text(check, "verdict"), text(check, "reason")));
    (output.status.code().unwrap_or(-1), checks.iter().map(by_name).collect())
}

#[tokio::test]
async fn doctor_fails_when_no_worker_can_run_what_waits_and_names_root() {
    let home = Home::new();
    let server = home.server();
    let _worker = home.worker(&server, &["--allow-commands"]);
    let client = server.client();
    eventually("the worker connects", || async { client.stats().await.is_ok_and(|stats| stats.workers == 1) }).await;
    let (_, checks) = doctor(&home, &server);
    assert_eq!(checks["ready"].0, "PASS", "{checks:?}");
    assert_eq!(checks["waiting jobs"].0, "PASS", "{checks:?}");
    assert_eq!(checks["database"].0, "PASS", "{checks:?}");
    let folder = home.file("data").canonicalize().unwrap().display().to_string();
    assert!(checks["data folder"].1.contains(&folder), "{checks:?}");
    let is_root = rustix::process::geteuid().is_root();
    assert_eq!(checks["commands"].0, if is_root { "WARN" } else { "PASS" }, "{checks:?}");
    assert!(checks["commands"].1.contains("commands are run by"), "{checks:?}");

    let job = json!({ "inline": { "run": { "handler": { "name": "nope" } } } });
    let url = format!("{}/v1/jobs", server.url);
    assert_eq!(answer(plain_http().post(url).json(&job)).await.status, 201);
    eventually("doctor finds the job", || async { doctor(&home, &server).1["waiting jobs"].0 == "FAIL" }).await;
    let (code, checks) = doctor(&home, &server);
    assert_eq!(code, 1);
    assert!(checks["waiting jobs"].1.contains("no connected worker has the handler nope"), "{checks:?}");
}
