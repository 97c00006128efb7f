//! Exit codes, and what is said about errors.

use std::io::Read;
use std::process::Stdio;

use crate::fake::{self, DONE, FAILED, WAITING};
use crate::{punctual, run, stderr, stdout};

#[test]
fn every_outcome_has_its_exit_code() {
    let url = fake::start();
    for (line, code) in [
        (format!("wait {DONE}"), 0),
        (format!("wait {FAILED}"), 3),
        (format!("wait {DONE} {FAILED}"), 3),
        (format!("wait {WAITING} --no-wait"), 8),
        (format!("wait {WAITING} --timeout 10ms"), 124),
        (format!("wait {WAITING} {FAILED} --timeout 10ms"), 3),
        ("wait job_nonsense".to_owned(), 2),
        ("job get job_01m7et4ff8ee180czxxjbesthv".to_owned(), 5),
        ("task get nope".to_owned(), 5),
        ("task delete ping".to_owned(), 4),
        ("task list".to_owned(), 7),
        (format!("cancel {WAITING}"), 0),
        (format!("cancel {DONE}"), 6),
        (format!("cancel {DONE} {WAITING}"), 6),
        ("run".to_owned(), 2),
        ("run ping --http http://h/".to_owned(), 2),
        ("run ping --input nonsense".to_owned(), 2),
        ("run ping --at tomorrow".to_owned(), 2),
        ("run ping --in 1s --at 2030-01-01T00:00:00Z".to_owned(), 2),
        ("ps --tz Atlantis".to_owned(), 2),
        ("server --listen 0.0.0.0:8020".to_owned(), 2),
        ("dev --listen 192.168.0.1:8020".to_owned(), 2),
        ("bench --set nonsense=1".to_owned(), 2),
        ("config nonsense".to_owned(), 2),
        ("exit-codes".to_owned(), 0),
        ("help exit-codes".to_owned(), 0),
        ("nonsense".to_owned(), 2),
    ] {
        let mut args = vec!["--server", url.as_str()];
        args.extend(line.split_whitespace());
        let output = run(&args);
        assert_eq!(output.status.code(), Some(code), "{line}: {}", stderr(&output));
        assert!(code != 2 || output.stdout.is_empty(), "{line} wrote to stdout");
    }
}

#[test]
fn a_name_that_was_almost_written_is_offered() {
    let missing = fake::problem("task_not_found", 404, "there is no task named pin");
    let task = serde_json::json!({
        "id": "task_01m7et433kee4803yssgvaf2fh", "name": "ping", "revision": 3,
        "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z",
        "spec": { "run": { "http": { "url": "http://127.0.0.1/" } } },
    });
    let url = fake::start_with([
        ("POST /v1/jobs".to_owned(), (404, missing)),
        ("GET /v1/tasks".to_owned(), (200, serde_json::json!({ "tasks": [task] }))),
    ]);
    let output = run(&["--server", &url, "run", "pin"]);
    assert_eq!(output.status.code(), Some(5), "{}", stderr(&output));
    assert!(stderr(&output).contains("there is no task named pin. The nearest name is `ping`"), "{}", stderr(&output));
    let output = run(&["--server", &url, "run", "other"]);
    assert!(stderr(&output).contains("See what there is with `punctual task list`"), "{}", stderr(&output));
    let output = run(&["rnu", "ping"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("'run'"), "{}", stderr(&output));
}

#[test]
fn a_server_that_is_not_there_is_told_with_what_to_do() {
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let output = run(&["ps", "--server", &format!("http://{unused}")]);
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(
        stderr(&output),
        format!(
            "error: cannot reach http://{unused}: connection refused. Start a server with `punctual dev`, or name \
             another one with --server.\n"
        )
    );
}

#[test]
fn a_file_whose_storage_is_not_there_is_told_with_the_reason() {
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let artifact = serde_json::json!({
        "id": "artifact_01m7et433kee4803yssgvaf2fh", "kind": "file", "size": 4, "sha256": "00", "state": "pending",
        "created_at": "2026-01-01T00:00:00Z",
        "upload": {
            "method": "PUT", "url": format!("http://{unused}/x"), "headers": {}, "expires_at": "2030-01-01T00:00:00Z",
        },
    });
    let url = fake::start_with([("POST /v1/artifacts".to_owned(), (201, artifact))]);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("data");
    std::fs::write(&file, "data").unwrap();
    let output = run(&["--server", &url, "artifact", "create", "--data", file.to_str().unwrap()]);
    let expected = format!("the file was not uploaded: cannot reach http://{unused}: connection refused");
    assert!(stderr(&output).contains(&expected), "{}", stderr(&output));
}

#[test]
fn with_json_output_an_error_is_json_too() {
    let url = fake::start();
    let output = run(&["task", "get", "nope", "-o", "json", "--server", &url]);
    let said: serde_json::Value = serde_json::from_str(&stderr(&output)).unwrap();
    assert_eq!(said["error"]["code"], "task_not_found");
    assert_eq!(said["error"]["exit_code"], 5);
    assert_eq!(said["error"]["request_id"], "r1");
    assert!(said["error"]["hint"].as_str().unwrap().contains("punctual task list"));
}

#[test]
fn a_listener_that_others_could_reach_is_refused_with_the_reason() {
    let output = run(&["server", "--listen", "0.0.0.0:8020"]);
    assert!(stderr(&output).contains("without TLS"), "{}", stderr(&output));
}

#[test]
fn an_output_that_is_closed_is_not_an_error() {
    let dir = tempfile::tempdir().unwrap();
    // Far more than a pipe holds.
    let mut child =
        punctual(dir.path(), &["completions", "bash"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = [0; 16];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(stderr(&output), "");
}

#[test]
fn one_refusal_does_not_spare_the_other_jobs() {
    let url = fake::start();
    let output = run(&["cancel", DONE, WAITING, "-o", "name", "--server", &url]);
    assert_eq!(stdout(&output), format!("{WAITING}\n"));
    assert!(stderr(&output).contains("the job has finished"), "{}", stderr(&output));
}

#[test]
fn settings_come_from_a_file_in_this_folder() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("punctual.toml"), "slots = 7\n").unwrap();
    let output = punctual(dir.path(), &["config", "slots", "-o", "jsonl"]).output().unwrap();
    assert_eq!(stdout(&output), "{\"key\":\"slots\",\"value\":\"7\",\"origin\":\"file punctual.toml\"}\n");
    std::fs::write(dir.path().join("punctual.toml"), "slot = 7\n").unwrap();
    let output = punctual(dir.path(), &["ps"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("did you mean `slots`?"), "{}", stderr(&output));
}

#[test]
fn a_server_that_cannot_be_reached_is_explained_without_words_of_libraries() {
    let url = fake::start();
    let dir = tempfile::tempdir().unwrap();
    for (server, reason) in [
        (url.replace("http://", "https://"), "it does not use TLS; write http:// instead of https://"),
        ("http://nohost.invalid:80".to_owned(), "the name of its host cannot be resolved"),
        (url.replace("http://", ""), "it must begin with http:// or https://"),
    ] {
        let output =
            punctual(dir.path(), &["--allow-plain-http", "--server", &server, "worker", "list"]).output().unwrap();
        assert!(stderr(&output).contains(reason), "{server}: {}", stderr(&output));
        assert!(matches!(output.status.code(), Some(2 | 7)), "{server}");
    }
}

#[test]
fn an_interval_of_watching_may_stand_apart_or_together() {
    // Where the server cannot be reached, the command line was understood.
    let dir = tempfile::tempdir().unwrap();
    for watch in
        [&["-w"][..], &["-w1s"], &["-w", "1s"], &["-w=1s"], &["--watch=1s"], &["--watch", "1s"], &["-w1s", "-a"]]
    {
        let args = [&["--server", "http://127.0.0.1:1", "ps"], watch].concat();
        let output = punctual(dir.path(), &args).output().unwrap();
        assert_eq!(output.status.code(), Some(7), "{watch:?} {}", stderr(&output));
    }
    let output = punctual(dir.path(), &["ps", "-w", "soon"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
}
