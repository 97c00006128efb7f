//! The audit log of a real server: what is in it, and what `verify` finds.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::checked::plain_http;
use crate::harness::{Home, PUNCTUAL, Server, eventually};

fn audit(server: &Server, arguments: &[&str]) -> Output {
    let command = Command::new(PUNCTUAL).args(["--server", &server.url, "audit"]).args(arguments).output();
    command.expect("the command runs")
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn verify_file(file: &Path, key: &str) -> Output {
    let file = file.to_str().expect("text");
    let command = Command::new(PUNCTUAL).args(["audit", "verify", "--file", file, "--key", key]).output();
    command.expect("the command runs")
}

#[tokio::test]
async fn lines_that_somebody_removed_or_changed_in_the_database_are_found() {
    let home = Home::new();
    let server = home.server();
    let task = json!({ "run": { "http": { "url": "https://example.com/s3cret-value" } } });
    for name in ["one", "two", "three", "two"] {
        let url = format!("{}/v1/tasks/{name}", server.url);
        let put = plain_http().put(url).json(&task).send().await.expect("an answer");
        assert!(put.status().is_success());
    }
    let refused = plain_http().get(format!("{}/v1/jobs", server.url)).bearer_auth("punctual_wrong").send().await;
    assert_eq!(refused.expect("an answer").status(), 401);
    // Nobody waits for the line of a refusal.
    eventually("the refusal is on record", || async {
        said(&audit(&server, &["list", "--outcome", "invalid_token"])).contains("nobody")
    })
    .await;

    let listed = audit(&server, &["list", "--object", "two", "-o", "json"]);
    let listed: Value = serde_json::from_slice(&listed.stdout).expect("JSON");
    let entries = listed["entries"].as_array().expect("entries");
    assert_eq!(entries.len(), 2, "{listed}");
    assert_eq!(entries[0]["principal"], "local");
    assert_eq!(entries[0]["action"], "apply_task");
    assert_eq!(entries[0]["address"], "127.0.0.1");
    assert_eq!(entries[0]["before"], "revision 1, http, queue default");

    let file = home.file("audit.jsonl");
    let exported = audit(&server, &["export", "--file", file.to_str().expect("text")]);
    assert!(exported.status.success(), "{}", said(&exported));
    let text = std::fs::read_to_string(&file).expect("the export");
    assert!(!text.contains("s3cret-value"), "{text}");
    assert_eq!(text.lines().count(), 6, "five lines and the head: {text}");
    let verified = audit(&server, &["verify", "-o", "name"]);
    assert!(verified.status.success(), "{}", said(&verified));
    let key = String::from_utf8_lossy(&verified.stdout).trim().to_owned();
    assert!(verify_file(&file, &key).status.success());
    assert!(!verify_file(&file, &"0".repeat(64)).status.success(), "another key");

    std::fs::write(&file, text.replace("\"two\"", "\"six\"")).expect("it is ours");
    assert!(said(&verify_file(&file, &key)).contains("line 2"));

    let database = rusqlite::Connection::open(home.file("data/punctual.db")).expect("the database");
    let change = |sql: &str| assert!(database.execute(sql, []).expect("it is changed") > 0, "{sql}");
    change("UPDATE audit SET line = replace(line, 'three', 'seven') WHERE seq = 3");
    let found = audit(&server, &["verify"]);
    assert_eq!(found.status.code(), Some(1));
    assert!(said(&found).contains("line 3"), "{}", said(&found));
    change("UPDATE audit SET line = replace(line, 'seven', 'three') WHERE seq = 3");
    assert!(audit(&server, &["verify"]).status.success());
    change("DELETE FROM audit WHERE seq = 5");
    assert!(said(&audit(&server, &["verify"])).contains("after 4 are missing"));
    change("UPDATE audit_ends SET head_seq = 4, head_hash = (SELECT hash FROM audit WHERE seq = 4)");
    assert!(said(&audit(&server, &["verify"])).contains("signature"));
}
