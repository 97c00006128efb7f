//! Who has access to a server on loopback: its own user and root at once, everybody else with the access token.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use punctual_api::ErrorKind;
use punctual_client::Client;
use punctual_core::task::Probe;
use serde_json::Value;

use crate::cluster::{Cluster, finished, probe, submit};
use crate::harness::{Home, PUNCTUAL, Process, Server, eventually};

/// Another user: `nobody` on most machines.
const STRANGER: u32 = 65534;

/// Whether this test can be another user. Says why not.
fn can_be_another_user() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        eprintln!("skipped: only root can start a process as another user");
    }
    is_root
}

/// The program as another user, who has neither a home nor settings.
fn as_stranger(program: &str) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", "/usr/bin:/bin").current_dir("/").stdin(Stdio::null()).uid(STRANGER).gid(STRANGER);
    command
}

fn punctual_as_stranger(server: &str, arguments: &[&str]) -> Output {
    as_stranger(PUNCTUAL).args(["--server", server]).args(arguments).output().expect("the command runs")
}

fn curl_as_stranger(server: &str, arguments: &[&str], path: &str) -> (u16, Value) {
    let output = as_stranger("curl")
        .args(["-sS", "--path-as-is", "-w", "\n%{http_code}"])
        .args(arguments)
        .arg(format!("{server}{path}"))
        .output()
        .expect("curl is installed");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (body, status) = text.rsplit_once('\n').unwrap_or_else(|| panic!("{output:?}"));
    (status.parse().expect("a status"), serde_json::from_str(body).unwrap_or(Value::Null))
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn token(home: &Home) -> String {
    let token = std::fs::read_to_string(home.file("data/token")).expect("a server keeps its token");
    token.trim().to_owned()
}

fn worker_as_stranger(server: &Server, folder: &Path, variables: &[(&str, &str)]) -> Process {
    let mut command = as_stranger(PUNCTUAL);
    command.args(["worker", "--exit-with-stdin", "--server", &server.url]).env("PUNCTUAL_DATA_DIR", folder);
    command.envs(variables.iter().copied()).stdin(Stdio::piped());
    Process::from(command.spawn().expect("the worker starts"))
}

/// A folder that the other user may use.
fn folder_of_stranger() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    std::os::unix::fs::chown(folder.path(), Some(STRANGER), Some(STRANGER)).expect("root gives folders away");
    folder
}

#[tokio::test]
async fn another_user_needs_the_token_for_every_route() {
    if !can_be_another_user() {
        return;
    }
    let home = Home::new();
    let server = home.server();
    let bearer = format!("Authorization: Bearer {}", token(&home));
    let (_, document) = curl_as_stranger(&server.url, &["-H", &bearer], "/openapi.json");
    let paths = document["paths"].as_object().expect("the document has paths");
    let (mut refused, mut wrong) = (0, Vec::new());
    for (path, methods) in paths {
        for method in methods.as_object().expect("methods").keys() {
            let at: Vec<_> = path.split('/').map(|part| if part.starts_with('{') { "1" } else { part }).collect();
            let at = at.join("/");
            let method = method.to_uppercase();
            let (status, body) = curl_as_stranger(&server.url, &["-X", &method], &at);
            // What needs no credential, and what has one of its own.
            let open = ["/livez", "/readyz", "/problems/"];
            let own = path.starts_with("/v1/agent/")
                || path.ends_with("/content")
                || path.starts_with("/v1/login/oidc/")
                || (path == "/v1/sessions" && method == "POST");
            if own || open.iter().any(|open| path.starts_with(open)) {
                if body["code"] == "unauthenticated" {
                    wrong.push(format!("{method} {path} needs the token"));
                }
                continue;
            }
            refused += 1;
            if status != 401 || body["code"] != "unauthenticated" {
                wrong.push(format!("{method} {path}: {status} {body}"));
            }
            // Deleting something that is not there is all that this does.
            let (status, body) = curl_as_stranger(&server.url, &["-m", "2", "-X", &method, "-H", &bearer], &at);
            if status == 401 {
                wrong.push(format!("{method} {path} with the token: {status} {body}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(refused > 50, "{refused} routes");
    let (status, body) = curl_as_stranger(&server.url, &[], "/v1/jobs");
    assert_eq!(status, 401);
    let hint = body["hint"].as_str().expect("a hint");
    assert!(hint.contains(home.file("data/token").to_str().expect("a path")), "{hint}");
    assert_eq!(curl_as_stranger(&server.url, &[], "/nothing/here").0, 401, "also what is not there");
}

/// The status and the message of a call without a body.
fn grpc_as_stranger(server: &str, headers: &[&str], path: &str) -> String {
    let mut curl = as_stranger("curl");
    curl.args(["-sS", "-m", "2", "--http2-prior-knowledge", "-D", "-", "-X", "POST"]);
    curl.args(["-H", "content-type: application/grpc", "-H", "te: trailers"]);
    for header in headers {
        curl.args(["-H", header]);
    }
    said(&curl.arg(format!("{server}{path}")).output().expect("curl is installed"))
}

#[tokio::test]
async fn another_user_needs_the_token_for_the_worker_protocol() {
    if !can_be_another_user() {
        return;
    }
    let home = Home::new();
    let server = home.server();
    let bearer = format!("Authorization: Bearer {}", token(&home));
    for method in ["Work", "Heartbeat", "Download", "Admit"] {
        let path = format!("/punctual.worker.v1.Worker/{method}");
        let refused = grpc_as_stranger(&server.url, &[], &path);
        assert!(refused.contains("grpc-status: 16") && refused.contains("data/token"), "{method}: {refused}");
        let answered = grpc_as_stranger(&server.url, &[&bearer], &path);
        assert!(!answered.contains("grpc-status: 16"), "{method}: {answered}");
    }
    // Peers have a proof of their own, and the token is none.
    let peer = grpc_as_stranger(&server.url, &[&bearer], "/punctual.peer.v1.Peer/Stats");
    assert!(!peer.contains("data/token"), "{peer}");
}

#[tokio::test]
async fn only_the_right_token_opens_and_it_is_never_shown() {
    if !can_be_another_user() {
        return;
    }
    let home = Home::new();
    let log = std::fs::File::create(home.file("log")).expect("a file");
    let server = home.server_logging("127.0.0.1:0", &["-vv"], &[], log);
    let token = token(&home);
    assert_eq!(token.len(), "punctual_".len() + 64);
    let status = |header: &str| curl_as_stranger(&server.url, &["-H", header], "/v1/tasks");
    assert_eq!(status(&format!("Authorization: Bearer {token}")).0, 200);
    assert_eq!(status(&format!("authorization: bearer {token}")).0, 200);
    let longer = format!("Authorization: Bearer {token}0");
    let shorter = format!("Authorization: Bearer {}", &token[..token.len() - 1]);
    let basic = format!("Authorization: Basic {token}");
    for (header, code) in [
        (longer.as_str(), "invalid_token"),
        (&shorter, "invalid_token"),
        ("Authorization: Bearer x", "invalid_token"),
        (&basic, "invalid_token"),
        ("Authorization: ", "unauthenticated"),
        ("X-Forwarded-For: 127.0.0.1", "unauthenticated"),
    ] {
        let (status, body) = status(header);
        assert_eq!((status, body["code"].as_str()), (401, Some(code)), "{header}: {body}");
    }
    // The server's own user needs none, but a wrong one is refused.
    assert!(server.client().tasks(None, None).await.is_ok());
    let wrong = server.client().with_tokens(|_| Some("wrong".to_owned())).tasks(None, None).await;
    assert_eq!(wrong.expect_err("it is refused").kind(), Some(ErrorKind::InvalidToken));
    assert!(server.client().with_tokens(|_| Some(token.clone())).tasks(None, None).await.is_ok());
    // A proxy of this user may speak for anybody.
    for header in ["Forwarded: for=192.0.2.1", "X-Forwarded-For: 192.0.2.1", "X-Real-IP: 192.0.2.1", "Via: 1.1 proxy"] {
        let status = |more: &[&str]| {
            let arguments = ["-s", "-o", "/dev/null", "-w", "%{http_code}", "-H", header];
            let output =
                Command::new("curl").args(arguments).args(more).arg(format!("{}/v1/jobs", server.url)).output();
            String::from_utf8_lossy(&output.expect("curl is installed").stdout).into_owned()
        };
        assert_eq!(status(&[]), "401", "{header}");
        assert_eq!(status(&["-H", &format!("Authorization: Bearer {token}")]), "200", "{header}");
    }
    server.process.stop();
    let log = std::fs::read_to_string(home.file("log")).expect("the log");
    assert!(!log.contains(&token["punctual_".len()..]), "the token is in the log");
}

#[tokio::test]
async fn a_token_of_another_user_works_for_commands_and_workers() {
    if !can_be_another_user() {
        return;
    }
    let home = Home::new();
    let server = home.server();
    let output = punctual_as_stranger(&server.url, &["ps"]);
    assert_eq!(output.status.code(), Some(4), "{}", said(&output));
    assert!(said(&output).contains("--token-file") && said(&output).contains("data/token"), "{}", said(&output));

    let theirs = folder_of_stranger();
    let file = theirs.path().join("token");
    std::fs::copy(home.file("data/token"), &file).expect("a copy of the token");
    std::os::unix::fs::chown(&file, Some(STRANGER), None).expect("root gives files away");
    let file = file.to_str().expect("a path");
    for arguments in [&["ps", "--token-file", file][..], &["server", "get", "--token-file", file]] {
        let output = punctual_as_stranger(&server.url, arguments);
        assert!(output.status.success(), "{}", said(&output));
    }
    let with = |name: &str, value: &str| {
        as_stranger(PUNCTUAL).args(["ps", "--server", &server.url]).env(name, value).output().expect("it runs")
    };
    assert!(with("PUNCTUAL_TOKEN", &token(&home)).status.success());
    assert!(with("PUNCTUAL_TOKEN_FILE", file).status.success());
    assert_eq!(with("PUNCTUAL_TOKEN", "wrong").status.code(), Some(4));
    assert_eq!(with("PUNCTUAL_TOKEN", "two words").status.code(), Some(2));
    assert_eq!(with("PUNCTUAL_TOKEN_FILE", "/nowhere").status.code(), Some(2));
    let shown = as_stranger(PUNCTUAL).args(["--token", "x", "ps"]).output().expect("it runs");
    assert_eq!(shown.status.code(), Some(2), "there is no flag that would show it to everybody");

    let client = server.client();
    let workers = || async { client.workers().await.expect("the server answers").workers };
    let uninvited = worker_as_stranger(&server, theirs.path(), &[]);
    let worker = worker_as_stranger(&server, theirs.path(), &[("PUNCTUAL_TOKEN", &token(&home))]);
    eventually("the worker with the token is connected", || async { !workers().await.is_empty() }).await;
    assert_eq!(workers().await.len(), 1, "and the one without is not");
    let job = submit(&client, &probe(Probe::default())).await;
    finished(&client, job).await;
    worker.stop();
    uninvited.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_of_a_cluster_share_the_token() {
    if !can_be_another_user() {
        return;
    }
    let cluster = Cluster::new();
    let [first, second] = cluster.pair().await;
    let bearer = format!("Authorization: Bearer {}", token(&cluster.home));
    for server in [&first, &second] {
        assert_eq!(curl_as_stranger(&server.url, &[], "/v1/jobs").0, 401);
        // Answered with what both know: peers show each other a proof of their own.
        assert_eq!(curl_as_stranger(&server.url, &["-H", &bearer], "/v1/workers").0, 200);
    }
}

#[tokio::test]
async fn commands_of_the_same_user_find_the_token_by_the_address() {
    let home = Home::new();
    let runtime = home.file("run");
    let server = home.server_with("127.0.0.1:0", &[], &[("XDG_RUNTIME_DIR", runtime.to_str().expect("a path"))]);
    let note = runtime.join("punctual/servers").join(server.address());
    let token_file = std::fs::read_to_string(&note).expect("a note on the token");
    assert_eq!(token_file.trim(), home.file("data/token").to_str().expect("a path"));
    let shown = Command::new(PUNCTUAL)
        .args(["ps", "-vv", "--server", &server.url])
        .env("XDG_RUNTIME_DIR", &runtime)
        .output()
        .expect("it runs");
    assert!(shown.status.success(), "{}", said(&shown));
    assert!(!said(&shown).contains(&token(&home)), "the token is shown");
    server.process.stop();
    assert!(!note.exists(), "the note goes with the server");
}

/// A client of the server with no more than its address.
#[tokio::test]
async fn the_servers_own_user_needs_nothing() {
    let home = Home::new();
    for listen in ["127.0.0.1:0", "127.0.0.2:0", "[::1]:0"] {
        let server = home.server_at(listen, &[]);
        Client::new(&server.url).expect("a URL").tasks(None, None).await.expect("its own user has access");
        server.process.stop();
    }
}
