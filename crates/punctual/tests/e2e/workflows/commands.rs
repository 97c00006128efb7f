//! `punctual workflow …`, as docs/workflows.md shows it.

use std::process::Command;

use serde_json::Value;

use super::{ended, read, states};
use crate::checked::Checked;
use crate::harness::{Home, PUNCTUAL, Server, eventually};

/// What a command prints, and what it says besides.
pub(super) fn punctual(server: &Server, arguments: &[&str]) -> (i32, String, String) {
    let run = Command::new(PUNCTUAL).args(["--server", &server.url, "workflow"]).args(arguments).output();
    let run = run.expect("the program starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it is UTF-8");
    (run.status.code().expect("it ends by itself"), text(run.stdout), text(run.stderr))
}

pub(super) fn printed(server: &Server, arguments: &[&str]) -> String {
    let (code, out, said) = punctual(server, arguments);
    assert_eq!(code, 0, "{arguments:?}: {said}");
    out
}

/// The blocks of this kind on the page.
pub(super) fn blocks(kind: &str) -> Vec<String> {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/workflows.md"));
    let page = page.expect("the page is there");
    let begin = format!("```{kind}\n");
    page.split(&begin).skip(1).map(|rest| rest.split("```").next().unwrap_or_default().to_owned()).collect()
}

/// The first block of YAML of the page.
fn example() -> String {
    blocks("yaml").swap_remove(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_workflow_of_the_docs_runs() {
    let home = Home::new();
    let server = home.server();
    let _worker = home.worker(&server, &[]);
    let api = Checked::new(&server).await;
    let file = home.file("nightly.yaml");
    std::fs::write(&file, example()).expect("the file is written");
    let file = file.to_str().expect("the path is UTF-8");
    assert_eq!(printed(&server, &["apply", "nightly", file]), "nightly\n");
    assert_eq!(
        printed(&server, &["graph", "nightly"]),
        "nightly version 1\n  extract\n    approve  after extract  [gate]  (Load these rows?)\n      load  after extract, approve\n        report  after load\n"
    );
    let run = printed(&server, &["run", "nightly", "-o", "name"]).trim().to_owned();
    eventually("the gate is open", || async { states(&read(&api, &run).await)[1] == "open" }).await;
    assert_eq!(printed(&server, &["graph", &run, "--as", "mermaid"]), blocks("mermaid")[0], "the picture on the page");
    assert_eq!(printed(&server, &["approve", &run, "approve"]), format!("{run}\n"));
    let done = ended(&api, &run).await;
    assert_eq!(states(&done), ["succeeded"; 4]);
    let shown = printed(&server, &["get", &run]);
    assert!(
        shown.starts_with(&format!("{run}  succeeded\n")) && shown.contains("gate; Load these rows?; by "),
        "{shown}"
    );
    let listed: Value = serde_json::from_str(&printed(&server, &["runs", "nightly", "-o", "json"])).expect("JSON");
    assert_eq!((&listed["runs"][0]["id"], &listed["runs"][0]["nodes_ended"]), (&Value::from(run), &Value::from(4)));
    assert!(printed(&server, &["graph", "nightly", "--as", "mermaid"]).contains("n_extract --> n_approve"));
    assert!(printed(&server, &["list"]).contains("nightly"));
    let schedule =
        ["schedule", "create", "nightly", "--workflow", "nightly", "--cron", "0 2 * * *", "--zone", "Europe/Berlin"];
    for arguments in [&schedule[..], &["schedule", "preview", "nightly"]] {
        let said = Command::new(PUNCTUAL).args(["--server", &server.url]).args(arguments).output().expect("it starts");
        assert!(said.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&said.stderr));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_waited_for_tells_what_becomes_of_its_nodes() {
    let home = Home::new();
    let server = home.server();
    let _worker = home.worker(&server, &[]);
    let file = home.file("flow.json");
    let definition = r#"{"nodes":[{"name":"a","inline":{"run":{"probe":{"fail_times":1}},"retry":{"max":0}}}]}"#;
    std::fs::write(&file, definition).expect("the file is written");
    let file = file.to_str().expect("the path is UTF-8");
    printed(&server, &["apply", "flow", file]);
    let (code, out, said) = punctual(&server, &["run", "flow", "--wait"]);
    assert_eq!(code, 3, "{said}");
    assert!(said.contains("a: active\n") && said.contains("a: failed\n"), "{said}");
    assert!(out.contains("failed"), "{out}");
    std::fs::write(home.file("bomb.yaml"), "a: &a [x]\nb: *a\n").expect("the file is written");
    let (code, _, said) = punctual(&server, &["apply", "flow", home.file("bomb.yaml").to_str().expect("UTF-8")]);
    assert!(code == 2 && said.contains("line 1: anchors"), "{code} {said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_from_outside_opens_a_gate_and_its_payload_is_read() {
    let home = Home::new();
    let server = home.server();
    let _worker = home.worker(&server, &[]);
    let api = Checked::new(&server).await;
    let version = |rows: &str| {
        format!(
            r#"{{"nodes":[{{"name":"uploaded","gate":{{"event":"file_uploaded"}}}},
            {{"name":"load","needs":["uploaded"],"inline":{{"run":{{"probe":{{}}}}}},"input":{{"path":{{"from":"uploaded.{rows}"}}}}}}]}}"#
        )
    };
    let file = home.file("flow.json");
    for rows in ["file", "path"] {
        std::fs::write(&file, version(rows)).expect("the file is written");
        printed(&server, &["apply", "flow", file.to_str().expect("UTF-8")]);
    }
    let diff = printed(&server, &["diff", "flow"]);
    let change = r#"~ load.input.path.from: "uploaded.file" -> "uploaded.path""#;
    assert_eq!(diff, format!("flow version 1 to version 2\n  {change}\n"));
    let run = printed(&server, &["run", "flow", "-o", "name"]).trim().to_owned();
    let explain = Command::new(PUNCTUAL).args(["--server", &server.url, "explain", &run]).output().expect("it starts");
    let explain = String::from_utf8(explain.stdout).expect("UTF-8");
    assert!(explain.contains("It waits for the event `file_uploaded` (`uploaded`)."), "{explain}");
    assert!(explain.contains("load waits for `uploaded`"), "{explain}");
    let (code, _, said) = punctual(&server, &["event", &run, "other"]);
    assert!(code != 0 && said.contains("no gate of the run waits for this event"), "{code} {said}");
    let large = format!("\"{}\"", "x".repeat(70_000));
    let body = serde_json::json!({ "event": "file_uploaded", "payload": large });
    let refused = api.post(&format!("/v1/runs/{run}/events"), body).await.refused(400, "invalid_request");
    assert!(refused.text.contains("/payload"), "{}", refused.text);
    printed(&server, &["event", &run, "file_uploaded", "--payload", r#"{"path":"in/7.csv"}"#]);
    let done = ended(&api, &run).await;
    assert_eq!(states(&done), ["succeeded", "succeeded"]);
    let job = done["nodes"][1]["job"].as_str().expect("it had a job");
    let job = api.get(&format!("/v1/jobs/{job}")).await.expect(200).body;
    assert_eq!(job["input"]["path"], "in/7.csv", "{job:#}");
}
