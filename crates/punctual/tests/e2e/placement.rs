//! Jobs that no connected worker can run: whoever submits, lists or follows one is told at once why it waits.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Output, Stdio};

use serde_json::json;

use crate::checked::Checked;
use crate::harness::{Home, PUNCTUAL, Server, eventually};

const WHY: &str = "no connected worker runs commands; start one with `punctual worker --allow-commands`";

fn say(server: &Server, words: &[&str]) -> Output {
    Command::new(PUNCTUAL).args(["--server", &server.url]).args(words).output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

async fn connected(api: &Checked, number: usize) {
    eventually("workers are connected", || async {
        let list = api.get("/v1/workers").await.expect(200);
        list.body["workers"].as_array().is_some_and(|workers| workers.len() == number)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_no_worker_can_run_is_accepted_with_a_warning() {
    let home = Home::new();
    let server = home.server();
    let api = Checked::new(&server).await;
    let probe = json!({ "inline": { "run": { "probe": {} } } });
    let alone = api.post("/v1/jobs", probe.clone()).await.expect(201);
    assert_eq!(alone.str("/warnings/0/code"), "no_worker");
    assert_eq!(alone.str("/warnings/0/detail"), "no worker is connected; start one with `punctual worker`");

    let _worker = home.worker(&server, &["--labels", "zone=eu"]);
    connected(&api, 1).await;
    let fine = api.post("/v1/jobs", probe.clone()).await.expect(201);
    assert!(fine.body.get("warnings").is_none(), "{}", fine.text);

    let command = json!({ "inline": { "run": { "command": { "line": "echo hi" } } } });
    let warned = api.post("/v1/jobs", command.clone()).await.expect(201);
    assert_eq!((warned.str("/warnings/0/code"), warned.str("/warnings/0/detail")), ("no_worker", WHY));
    let bulk = json!({ "jobs": [command, probe, command] });
    let bulk = api.post("/v1/jobs/bulk", bulk).await.expect(201);
    assert_eq!((bulk.body["ids"].as_array().map(Vec::len), &bulk.body["warnings"][1]), (Some(3), &json!(null)));
    let mut later = command.clone();
    later["run_at"] = json!("2099-01-01T00:00:00Z");
    let later = api.post("/v1/jobs", later).await.expect(201);
    assert_eq!(later.str("/warnings/0/detail"), WHY, "whoever submits it may not be there when it is due");

    // Lists and the job itself say the same.
    let id = warned.str("/id").to_owned();
    let list = api.get("/v1/jobs?state=scheduled&kind=command&scheduled_before=2090-01-01T00:00:00Z").await.expect(200);
    let rows = list.body["jobs"].as_array().expect("a list");
    assert!(rows.len() == 3 && rows.iter().all(|row| row["waiting_for"] == WHY), "{}", list.text);
    assert!(rows.iter().all(|row| row["title"] == "echo"), "{}", list.text);
    let job = api.get(&format!("/v1/jobs/{id}")).await.expect(200);
    assert!(job.str("/waiting_for") == WHY && job.str("/explanation").contains(WHY), "{}", job.text);
    let listed = say(&server, &["ps", "--kind", "command", "--scheduled-before", "2090-01-01T00:00:00Z"]);
    assert!(text(&listed.stdout).contains(WHY), "{}", text(&listed.stdout));
    let told = text(&listed.stderr);
    assert!(told.contains(&format!("3 jobs wait: {WHY}")), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn submissions_are_warned_again_when_the_worker_leaves() {
    let home = Home::new();
    let server = home.server();
    let api = Checked::new(&server).await;
    let put = api.put("/v1/tasks/ping", json!({ "run": { "probe": {} } })).await;
    put.expect(201);
    let submit = || async {
        let submitted = api.post("/v1/jobs", json!({ "task": "ping" })).await.expect(201);
        submitted.body["warnings"][0]["code"].as_str().map(str::to_owned)
    };
    // Twice each: the second answer comes from memory.
    for _ in 0..2 {
        assert_eq!(submit().await.as_deref(), Some("no_worker"));
    }
    let worker = home.worker(&server, &[]);
    connected(&api, 1).await;
    for _ in 0..2 {
        assert_eq!(submit().await, None);
    }
    drop(worker);
    eventually("a submission is warned", || async { submit().await.is_some() }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_runs_or_waits_for_such_a_job_is_told_why() {
    let home = Home::new();
    let server = home.server();
    let api = Checked::new(&server).await;
    let _worker = home.worker(&server, &[]);
    connected(&api, 1).await;

    let ran = say(&server, &["run", "--command", "echo hi"]);
    assert_eq!(ran.status.code(), Some(0), "it is accepted");
    let told = text(&ran.stderr);
    assert!(told.contains(&format!("warning: {WHY}")), "{told}");
    let id = text(&ran.stdout).trim().to_owned();

    let waited = say(&server, &["run", "--command", "echo hi", "--wait", "--wait-timeout", "2s"]);
    let told = text(&waited.stderr);
    assert_eq!((waited.status.code(), told.matches("warning: ").count()), (Some(124), 1), "{told}");
    assert!(!told.contains(" waits: "), "it was told at once: {told}");
    let waited = say(&server, &["wait", &id, "--timeout", "2s"]);
    assert!(text(&waited.stderr).contains(&format!("{id} waits: {WHY}")), "{}", text(&waited.stderr));

    // Following its log goes on when a worker comes.
    let mut following = Command::new(PUNCTUAL)
        .args(["--server", &server.url, "logs", "-f", &id])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut line = String::new();
    BufReader::new(following.stderr.take().expect("it is piped")).read_line(&mut line).expect("it says something");
    assert_eq!(line, format!("{id} waits: {WHY}\n"));
    let _allowed = home.worker_with_spool(&server, "allowed", &["--allow-commands"]);
    let mut printed = String::new();
    following.stdout.take().expect("it is piped").read_to_string(&mut printed).expect("it ends");
    assert_eq!((printed.as_str(), following.wait().expect("it ends").code()), ("hi\n", Some(0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_for_later_and_schedules_are_accepted_with_the_same_warning() {
    let home = Home::new();
    let server = home.server();
    let api = Checked::new(&server).await;
    let _worker = home.worker(&server, &[]);
    connected(&api, 1).await;
    let warned = |words: &[&str], why: &str| {
        let said = say(&server, words);
        assert_eq!(said.status.code(), Some(0), "{words:?}: {}", text(&said.stderr));
        let told = text(&said.stderr);
        assert_eq!(told.matches(&format!("warning: {why}\n")).count(), 1, "{words:?}: {told}");
    };
    warned(&["run", "--command", "date", "--in", "1h"], WHY);
    let handler = "no connected worker has the handler nope; start a worker of your own that has the handler nope";
    warned(&["run", "--handler", "nope", "--at", "2031-01-01T00:00:00Z"], handler);
    warned(&["schedule", "create", "nightly", "--command", "date", "--daily", "02:00", "--zone", "UTC"], WHY);
    warned(&["schedule", "edit", "nightly", "--daily", "03:00"], WHY);
    warned(&["schedule", "run", "nightly"], WHY);
    let shown = text(&say(&server, &["schedule", "get", "nightly"]).stdout);
    assert!(shown.contains(&format!("warning        {WHY}")), "{shown}");
    let crontab = home.file("crontab");
    std::fs::write(&crontab, "0 3 * * * /usr/bin/find /tmp | sort\n").expect("written");
    warned(&["import", "crontab", crontab.to_str().expect("plain"), "--shell"], WHY);
    // Nothing is due, so there is nothing to do.
    say(&server, &["schedule", "pause", "nightly"]);
    let shown = text(&say(&server, &["schedule", "get", "nightly"]).stdout);
    assert!(!shown.contains("warning"), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_of_workers_shows_what_they_run_and_who_is_gone() {
    let home = Home::new();
    std::fs::write(home.file("punctual.toml"), "worker_dead_after = \"2s\"\nheartbeat = \"500ms\"\n").expect("written");
    let server = home.server();
    let api = Checked::new(&server).await;
    let capable = home.worker(&server, &["--name", "capable", "--allow-commands", "--labels", "zone=eu"]);
    let doomed = home.worker_with_spool(&server, "doomed", &["--name", "doomed"]);
    connected(&api, 2).await;
    let listed = text(&say(&server, &["worker", "list"]).stdout);
    for part in ["RUNS", "LABELS", "command", "http", "zone=eu", "capable", "doomed"] {
        assert!(listed.contains(part), "{part}: {listed}");
    }
    doomed.kill();
    capable.stop();
    connected(&api, 0).await;
    let gone = |kind: &str| format!("/v1/workers?gone={kind}");
    let lost = api.get(&gone("lost")).await.expect(200);
    assert_eq!((lost.str("/workers/0/name"), lost.str("/workers/0/state")), ("doomed", "lost"), "{}", lost.text);
    assert!(lost.body["workers"][1].is_null() && lost.body["workers"][0]["host"].is_string(), "{}", lost.text);
    let all = api.get(&gone("all")).await.expect(200);
    let states: Vec<(&str, &str)> = all.body["workers"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|worker| Some((worker["name"].as_str()?, worker["state"].as_str()?)))
        .collect();
    assert!(states.len() == 2 && states.contains(&("capable", "left")), "{}", all.text);
    api.get(&gone("some")).await.refused(400, "invalid_request");
    let listed = text(&say(&server, &["worker", "list"]).stdout);
    assert!(listed.contains("lost") && !listed.contains("capable"), "{listed}");
}
