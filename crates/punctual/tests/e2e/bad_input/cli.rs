//! The command line: every mistake has its exit code and a sentence on stderr.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;
use std::time::Duration;

use serde_json::json;
use tokio::process::Command;

use super::library_words::library_word;
use crate::harness::{Home, PUNCTUAL, Server};

/// A person waits so long for an error, on a busy machine.
const WITHIN: Duration = Duration::from_secs(20);

struct CommandOutput {
    code: Option<i32>,
    stderr: String,
}

async fn say(home: &Home, arguments: &[OsString]) -> Option<CommandOutput> {
    let mut command = Command::new(PUNCTUAL);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_bytes().starts_with(b"PUNCTUAL_")) {
        command.env_remove(name);
    }
    let child = command
        .args(arguments)
        .env("HOME", home.path())
        .env_remove("XDG_CONFIG_HOME")
        .current_dir(home.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("the program starts");
    let output = tokio::time::timeout(WITHIN, child.wait_with_output()).await.ok()?.expect("the program ends");
    Some(CommandOutput { code: output.status.code(), stderr: String::from_utf8_lossy(&output.stderr).into_owned() })
}

/// Runs every line and lists all that went wrong.
async fn check(home: &Home, cases: &[(Vec<OsString>, i32, &str)]) {
    let mut wrong = Vec::new();
    for (arguments, code, word) in cases {
        let complaint = match say(home, arguments).await {
            None => format!("still running after {WITHIN:?}"),
            Some(said) if said.code != Some(*code) => format!("{:?} and not {code}: {}", said.code, said.stderr),
            Some(said) if !said.stderr.contains(word) => format!("does not say `{word}`: {}", said.stderr),
            Some(said) if said.stderr.contains("panicked") => said.stderr,
            Some(said) if library_word(&said.stderr).is_some() => format!("in words of a library: {}", said.stderr),
            Some(_) => continue,
        };
        wrong.push(format!("{arguments:?}: {complaint}"));
    }
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

/// A line as a shell would cut it, but for quotes: `|` stands for a blank within a word.
fn line(text: &str) -> Vec<OsString> {
    text.split_whitespace().map(|word| OsString::from(word.replace('|', " "))).collect()
}

fn to(server: &Server, text: &str) -> Vec<OsString> {
    [line(text), line(&format!("--server {}", server.url))].concat()
}

#[tokio::test]
async fn lines_that_make_no_sense_are_refused_before_anyone_is_asked() {
    let home = Home::new();
    let bytes = |bytes: &[u8]| vec!["run".into(), OsStr::from_bytes(bytes).to_owned()];
    std::fs::write(home.file("unknown.toml"), "heartbeet = \"5s\"\n").expect("a file");
    std::fs::write(home.file("broken.toml"), "slots = [").expect("a file");
    std::fs::write(home.file("typed.toml"), "slots = 2020-01-01\n").expect("a file");
    std::fs::write(home.file("binary.toml"), b"\xff\xfe").expect("a file");
    std::fs::write(home.file("broken.json"), "{\"run\":").expect("a file");
    std::fs::write(home.file("misspelt.json"), "{\"run\":{\"http\":{\"ulr\":\"x\"}}}").expect("a file");
    let mut cases = vec![
        (bytes(b"\xff\xfe"), 2, "UTF-8"),
        (vec![OsString::from("--tz"), OsStr::from_bytes(b"\xc3").to_owned()], 2, ""),
    ];
    for (text, word) in [
        ("", "Usage"),
        ("fly", "unrecognized subcommand 'fly'"),
        ("--fly", "--fly"),
        ("ps --fly", "--fly"),
        ("run", "nothing says what to run"),
        ("run a b", "unexpected argument 'b'"),
        ("run a --probe {}", "has its own definition"),
        ("run --probe {} --http http://h/", "cannot be used with"),
        ("run --probe {", "--probe"),
        ("run --probe {\"slep\":\"1s\"}", "slep"),
        ("run --probe @nowhere.json", "cannot read nowhere.json"),
        ("run --http http://h/ --method SHOUT", "SHOUT"),
        ("run --http http://h/ --header nonsense", "has no colon"),
        ("run --http http://h/ --expect-status ok", "--expect-status"),
        ("run --http http://h/ --expect-status 70000", "--expect-status"),
        ("run --method GET", "--http"),
        ("run a --at tomorrow", "needs a date and a time zone"),
        ("run a --at 2026-12-24", "has no zone"),
        ("run a --at 2026-12-24|18:00", "has no zone"),
        ("run a --at 2026-12-24|18:00|Atlantis", "no time zone"),
        ("run a --at 2026-03-29|02:30|Europe/Berlin", "does not exist there"),
        ("run a --at 2026-10-25|02:30|Europe/Berlin", "happens twice"),
        ("run a --at 2026-13-01T00:00:00Z", "is not a time"),
        ("run a --at 1960-01-01T00:00:00Z", "1970"),
        ("run a --at 10000-01-01T00:00:00Z", "is not a time"),
        ("run a --at=", "is not a time"),
        ("run a --in soon", "is not a duration"),
        ("run a --in=-5s", "duration"),
        ("run a --in 4000d", "3650 days"),
        ("run a --at 2026-12-24T18:00Z --in 5m", "cannot be used with"),
        ("run a --input {", "--input is not JSON"),
        ("run a --input hello", "--input is not JSON"),
        ("run a --input @nowhere.json", "cannot read nowhere.json"),
        ("run a --retries three", "from 0 to 1000"),
        ("run a --retries -1", "'-1'"),
        ("ps -n 0", "from 1 to 1000"),
        ("ps -n many", "from 1 to 1000"),
        ("logs job_01m7et4344e91804jsy8wksbxz --attempt 0", "from 1"),
        ("ps --server http://", "names no host"),
        ("ps --server http://h:99999", "port"),
        ("ps --server ftp://h", "must begin with http://"),
        ("ps --server http://[::1", "IP address"),
        ("run a --priority 101", "from -100 to 100"),
        ("run a --priority high", "from -100 to 100"),
        ("run a --idempotency-key=", "--idempotency-key"),
        ("run a --idempotency-key grüße", "--idempotency-key"),
        ("run a --wait-timeout 5s", "--wait"),
        ("run --http http://h/ --method GET --input 1", "--input would not be sent"),
        ("run --probe hello", "the fields are sleep, fail_times"),
        ("run --probe {} --retries -1", "-1"),
        ("run --probe {} --retries 70000", "--retries"),
        ("run --probe {} --timeout never", "is not a duration"),
        ("run --probe {} --delivery maybe", "--delivery"),
        ("run --probe {} --on-lost panic", "--on-lost"),
        ("run --probe {} --label eu", "equals sign"),
        ("ps --limit 0", "--limit"),
        ("ps --limit 1001", "--limit"),
        ("ps --scheduled-from yesterday", "is not a time"),
        ("ps --watch=soon", "is not a duration"),
        ("ps -o yaml", "yaml"),
        ("ps -q -v", "cannot be used with"),
        ("ps --tz Mars/Phobos", "time zone"),
        ("ps --server localhost:8020", "http://"),
        ("ps --server ftp://localhost", "http://"),
        ("logs", "<ID>"),
        ("logs job_1", "26 letters"),
        ("logs task_01m7etxc82e7j8000xwvsb0mnb", "job_"),
        ("logs job_01m7etxc82e7j8000xwvsb0mnb --attempt 0", "--attempt"),
        ("wait 1", "26 letters"),
        ("wait job_01m7etxc82e7j8000xwvsb0mnb --timeout 5s --no-wait", "cannot be used with"),
        ("cancel", "<ID>"),
        ("job delete x", "26 letters"),
        ("job fly", "fly"),
        ("task apply a", "nothing says what the task runs"),
        ("task apply -f nowhere.json", "cannot read nowhere.json"),
        ("task apply a -f broken.json", "does not define a task"),
        ("task apply a -f misspelt.json", "ulr"),
        ("task apply --probe {}", "has no name"),
        ("task apply a -f misspelt.json --probe {}", "both a file and flags"),
        ("server --listen 8020", "is not an address"),
        ("server --listen 0.0.0.0:8020", "without TLS"),
        ("server --shards 0", "from 1 to 1024"),
        ("server --shards many", "from 1 to 1024"),
        ("server --heartbeat soon", "is not a duration"),
        ("server --heartbeat 10s --worker-dead-after 15s", "two heartbeats"),
        ("server --durability none", "full, normal"),
        ("server --window-max 1", "from 100"),
        ("worker --slots 0", "from 1"),
        ("worker --queues a,,b", "a queue needs a name"),
        ("worker --labels eu", "is not a label"),
        ("ps --config nowhere.toml", "cannot read nowhere.toml"),
        ("ps --config unknown.toml", "did you mean `heartbeat`?"),
        ("ps --config broken.toml", "line 1 is not valid TOML"),
        ("ps --config typed.toml", "wrong type"),
        ("ps --config binary.toml", "cannot read binary.toml"),
        ("completions klingon", "klingon"),
    ] {
        cases.push((line(text), 2, word));
    }
    check(&home, &cases).await;
}

#[tokio::test]
async fn a_server_that_is_not_there_is_said_to_be_out_of_reach() {
    let home = Home::new();
    // Bound and closed again: nobody listens there.
    let port =
        std::net::TcpListener::bind("127.0.0.1:0").and_then(|port| port.local_addr()).expect("a free port").port();
    let mut cases = Vec::new();
    for text in [
        "ps",
        "run --probe {}",
        "logs job_01m7etxc82e7j8000xwvsb0mnb",
        "wait job_01m7etxc82e7j8000xwvsb0mnb",
        "cancel job_01m7etxc82e7j8000xwvsb0mnb",
        "job get job_01m7etxc82e7j8000xwvsb0mnb",
        "task list",
        "server get",
    ] {
        cases.push((line(&format!("{text} --server http://127.0.0.1:{port}")), 7, "cannot reach"));
    }
    check(&home, &cases).await;
}

#[tokio::test]
async fn what_the_server_refuses_has_the_exit_code_of_its_kind() {
    let home = Home::new();
    let server = home.server();
    let client = server.client();
    let job = |run_at: &str| json!({ "inline": { "run": { "probe": {} } }, "run_at": run_at });
    let waiting = client.submit(&job("2099-01-01T00:00:00Z")).await.expect("submitted").id;
    let deleted = client.submit(&job("2099-01-01T00:00:00Z")).await.expect("submitted").id;
    client.delete_job(deleted).await.expect("deleted");
    let unknown = "job_01m7etxc82e7j8000xwvsb0mnb";
    std::fs::write(home.file("large.json"), format!("\"{}\"", "a".repeat(300 << 10))).expect("a file");
    std::fs::write(home.file("huge.json"), format!("\"{}\"", "a".repeat(3 << 20))).expect("a file");
    assert_eq!(say(&home, &to(&server, "task apply known --probe {}")).await.and_then(|said| said.code), Some(0));
    let mut cases = Vec::new();
    for (text, code, word) in [
        (format!("job get {unknown}"), 5, "there is no job"),
        (format!("logs {unknown}"), 5, "there is no job"),
        (format!("logs -f {unknown}"), 5, "there is no job"),
        (format!("wait {unknown}"), 5, "there is no job"),
        (format!("cancel {unknown}"), 5, "there is no job"),
        (format!("job delete {unknown}"), 5, "there is no job"),
        (format!("job retry {unknown}"), 5, "there is no job"),
        (format!("job run-now {unknown}"), 5, "there is no job"),
        (format!("logs {waiting} --attempt 3"), 5, "See its attempts with `punctual job get"),
        ("task get nobody".to_owned(), 5, "there is no task"),
        ("task delete nobody".to_owned(), 5, "there is no task"),
        ("run nobody".to_owned(), 5, "there is no task"),
        ("ps --task nobody".to_owned(), 5, "there is no task"),
        (format!("job retry {waiting}"), 6, "has not finished"),
        (format!("cancel {deleted}"), 6, "was deleted"),
        (format!("job run-now {deleted}"), 6, "was deleted"),
        (format!("cancel {unknown} {deleted}"), 5, "there is no job"),
        ("task apply known --probe {} --if-revision 7".to_owned(), 6, "revision 7"),
        ("task apply new --probe {} --if-revision 1".to_owned(), 6, "does not exist"),
        ("task apply a/b --probe {}".to_owned(), 2, "letters, digits"),
        ("task get ../../etc/passwd".to_owned(), 2, "letters, digits"),
        ("task apply x --http ftp://h/".to_owned(), 2, "--http: must begin with"),
        ("task apply x --http http://h/ --header Host:evil".to_owned(), 2, "host is set by Punctual"),
        ("task apply x --probe {} --timeout 0s".to_owned(), 2, "--timeout: must be more"),
        ("task apply x --probe {} --queue a/b".to_owned(), 2, "--queue: must be"),
        ("run .".to_owned(), 2, "`.` is a folder"),
        ("run ..x".to_owned(), 2, "must not begin with a dot"),
        ("run ../x".to_owned(), 125, "cannot read ../x"),
        ("run known --input @large.json".to_owned(), 2, "--input: must be"),
        ("run known --input @huge.json".to_owned(), 2, "larger than"),
        ("ps --state done".to_owned(), 2, "--state: done is not one of"),
        ("ps --kind shell".to_owned(), 2, "shell is not one of"),
        ("ps --cursor x".to_owned(), 2, "--cursor: is not one of ours"),
        ("notify apply x --email a@h.org --email b@".to_owned(), 2, "--email: `b@` is not an email address"),
        ("notify apply x --email a@h.org --cc b".to_owned(), 2, "--cc: `b` is not an email address"),
        ("simulate --from 2026-12-24 --to 2026-12-23".to_owned(), 2, "--to: must be later than --from"),
        ("simulate --from 2026-01-01 --to 2026-12-23".to_owned(), 2, "after --from"),
        (format!("wait {waiting} --no-wait"), 8, ""),
        (format!("wait {waiting} --timeout 100ms"), 124, ""),
        (format!("wait {deleted}"), 3, ""),
    ] {
        cases.push((to(&server, &text), code, word));
    }
    check(&home, &cases).await;
}

#[tokio::test]
async fn a_second_server_does_not_touch_the_data_of_the_first() {
    let home = Home::new();
    let server = home.server();
    let data = home.file("data");
    let data = data.to_str().expect("a path of ours is UTF-8");
    let taken = server.address();
    check(
        &home,
        &[
            (line(&format!("server --listen 127.0.0.1:0 --data-dir {data}")), 1, "another process has"),
            (line(&format!("server --listen {taken} --data-dir elsewhere")), 1, "cannot listen on"),
            (line("server --listen 127.0.0.1:0 --data-dir /dev/null/x"), 1, "cannot use the folder"),
        ],
    )
    .await;
    server.client().ready().await.expect("the first goes on");
}
