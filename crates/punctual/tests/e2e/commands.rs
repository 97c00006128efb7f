//! Commands on the worker's own machine: nowhere without leave, and gone with their worker.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use punctual_client::Logs;
use serde_json::{Value, json};

use crate::checked::Checked;
use crate::harness::{Home, PUNCTUAL, Server, eventually, is_alive};

const ALLOWED: &str = "--allow-commands";

fn one_off(line: &str) -> Value {
    json!({ "inline": { "run": { "command": { "line": line } }, "retry": { "max": 0 } } })
}

async fn printed(server: &Server, id: &str) -> String {
    let id = id.parse().expect("an id");
    server.client().logs(id, Logs::default()).await.map(|piece| piece.text).unwrap_or_default()
}

/// What the command has written there, once there is a whole line.
async fn written(path: &std::path::Path) -> String {
    let read = || std::fs::read_to_string(path).unwrap_or_default();
    eventually("the command to write", || async { read().ends_with('\n') }).await;
    read().trim().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_waits_for_a_worker_that_is_allowed_to_run_it() {
    let home = Home::new();
    let server = home.server();
    let api = Checked::new(&server).await;
    // Everything else is allowed there.
    let _other = home.worker(&server, &[]);
    let probe = api.submit(json!({ "inline": { "run": { "probe": {} } } })).await;
    assert_eq!(api.finished(&probe).await.str("/state"), "succeeded");

    let witness = home.file("witness");
    let line = format!("echo $PUNCTUAL_JOB_ID >> {}; cat; printf 42 > $PUNCTUAL_OUTPUT", witness.display());
    let mut job = one_off(&line);
    job["input"] = json!({ "a": 1 });
    let id = api.submit(job).await;
    let reason = "no connected worker runs commands; start one with `punctual worker --allow-commands`";
    eventually("the job says why it waits", || async {
        let job = api.get(&format!("/v1/jobs/{id}")).await.expect(200);
        job.str("/state") == "scheduled" && job.str("/explanation").contains(reason)
    })
    .await;
    let told = Command::new(PUNCTUAL).args(["explain", &id, "--server", &server.url]).output().expect("it runs");
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    assert!(told.contains(reason) && told.contains(ALLOWED), "{told}");
    assert!(!witness.exists(), "it ran without leave");

    let _worker = home.worker_with_spool(&server, "allowed", &[ALLOWED]);
    let job = api.finished(&id).await;
    assert_eq!((job.str("/state"), &job.body["output"]), ("succeeded", &json!(42)), "{}", job.text);
    assert_eq!(job.body["attempts"].as_array().map(Vec::len), Some(1), "{}", job.text);
    assert_eq!(job.body["attempts"][0]["details"]["sandbox"], "none");
    assert_eq!(std::fs::read_to_string(witness).expect("it ran"), format!("{id}\n"), "it ran once");
    assert_eq!(printed(&server, &id).await, r#"{"a":1}"#);

    let list = api.get("/v1/jobs?kind=command").await.expect(200);
    assert_eq!(list.body["jobs"].as_array().map(Vec::len), Some(1), "{}", list.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_a_timeout_and_a_cancel_end_as_they_should() {
    let home = Home::new();
    let server = home.server();
    let api = Checked::new(&server).await;
    let _worker = home.worker(&server, &[ALLOWED]);

    let id = api.submit(one_off("echo oh no >&2; exit 3")).await;
    let job = api.finished(&id).await;
    assert_eq!((job.str("/state"), job.str("/attempts/0/reason")), ("failed", "exit code 3"));
    assert_eq!(job.body["attempts"][0]["details"]["exit_code"], 3);
    assert_eq!(printed(&server, &id).await, "oh no\n");

    let path = home.file("late");
    let mut late = one_off(&format!("sleep 600 & echo $! > {}; wait", path.display()));
    late["inline"]["timeout"] = json!("1s");
    let job = api.finished(&api.submit(late).await).await;
    assert_eq!((job.str("/state"), job.str("/attempts/0/state")), ("failed", "timed_out"), "{}", job.text);
    let sleeper = written(&path).await.parse().expect("a process id");
    eventually("what it started to be gone", || async { !is_alive(sleeper) }).await;

    let path = home.file("cancelled");
    let id = api.submit(one_off(&format!("sleep 600 & echo $! > {}; wait", path.display()))).await;
    let sleeper = written(&path).await.parse().expect("a process id");
    assert!(is_alive(sleeper));
    api.command(&format!("/v1/jobs/{id}/cancel")).await;
    assert_eq!(api.finished(&id).await.str("/state"), "cancelled");
    eventually("what it started to be gone", || async { !is_alive(sleeper) }).await;
}

#[test]
fn a_command_is_made_with_a_flag_and_run_at_once_or_by_name() {
    let home = Home::new();
    let server = home.server();
    let _worker = home.worker(&server, &[ALLOWED]);
    let say = |args: &[&str]| {
        let said = Command::new(PUNCTUAL).args(args).args(["--server", &server.url]).output().expect("it runs");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it prints text");
        (said.status.code(), text(said.stdout), text(said.stderr))
    };
    let (code, out, err) = say(&["run", "--command", "echo $((6 * 7)); exit 3", "--retries", "0", "--follow"]);
    assert_eq!((code, out.as_str()), (Some(3), "42\n"), "{err}");

    let script = home.file("script");
    std::fs::write(&script, "read name\necho \"hello $name\"\n").expect("it is written");
    let file = format!("@{}", script.display());
    let (code, _, err) = say(&["task", "apply", "greet", "--command", &file, "--timeout", "1m"]);
    assert_eq!(code, Some(0), "{err}");
    let (code, out, err) = say(&["run", "greet", "--input", "7", "--follow"]);
    assert_eq!((code, out.as_str()), (Some(0), "hello 7\n"), "{err}");

    let (code, _, err) = say(&["run", "--command", " "]);
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("--command: must not be empty"), "{err}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_command_outlives_its_worker() {
    let home = Home::new();
    let server = home.server();
    let api = Checked::new(&server).await;
    let line = |path: &std::path::Path| format!("trap '' TERM; sleep 600 & echo $! > {}; wait; wait", path.display());

    let path = home.file("killed");
    let worker = home.worker(&server, &[ALLOWED, "--queues", "killed"]);
    let mut job = one_off(&line(&path));
    job["inline"]["queue"] = json!("killed");
    api.submit(job).await;
    let sleeper = written(&path).await.parse().expect("a process id");
    assert!(is_alive(sleeper));
    worker.kill();
    eventually("what it ran to be gone", || async { !is_alive(sleeper) }).await;

    // One that leaves in order does not wait for ever.
    let path = home.file("stopped");
    let flags = [ALLOWED, "--queues", "stopped", "--drain-timeout", "1s"];
    let worker = home.worker_with_spool(&server, "stopped-spool", &flags);
    let mut job = one_off(&line(&path));
    job["inline"]["queue"] = json!("stopped");
    api.submit(job).await;
    let sleeper = written(&path).await.parse().expect("a process id");
    worker.stop();
    eventually("what it ran to be gone", || async { !is_alive(sleeper) }).await;
}

#[test]
fn a_worker_that_runs_commands_says_so_at_its_start() {
    let home = Home::new();
    let server = home.server();
    let user = Command::new("id").arg("-un").output().expect("there is id");
    let user = String::from_utf8_lossy(&user.stdout).trim().to_owned();
    let said = format!("runs commands on this machine as {user}");
    let worker = ["worker", "--server", &server.url, "--spool-dir", "spool"];
    let dev = ["dev", "--ephemeral", "--listen", "127.0.0.1:0"];
    let variable = "PUNCTUAL_ALLOW_COMMANDS";
    for (arguments, flags, value, expected) in [
        (&worker[..], &[ALLOWED][..], None, true),
        (&worker, &[], Some("true"), true),
        (&worker, &[], None, false),
        (&worker, &[], Some("false"), false),
        (&dev, &[ALLOWED], None, true),
        (&dev, &[], None, false),
    ] {
        let mut child = Command::new(PUNCTUAL)
            .args(arguments)
            .args(flags)
            .envs(value.map(|value| (variable, value)))
            .current_dir(home.path())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let stderr = BufReader::new(child.stderr.take().expect("stderr is piped"));
        // The line comes before the last one of the start.
        let mut lines = stderr.lines().map_while(Result::ok);
        let mut found = false;
        let _last = lines.find(|line| {
            found |= line.contains(&said);
            line.starts_with("Connecting to") || line.starts_with("Punctual is ready")
        });
        // In order, so that it takes its folders with it.
        Command::new("kill").arg(child.id().to_string()).status().expect("there is kill");
        child.wait().expect("it ends");
        assert_eq!(found, expected, "{arguments:?} {flags:?} {value:?}");
    }
}
