//! Mails, messages and calls, from the command line to the far side.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};

use crate::harness::{Home, PUNCTUAL, Server};
use crate::mailbox::Mailbox;

type ReceivedRequests = Arc<Mutex<Vec<String>>>;

/// Answers each request by its number, from 1 on, with a status and a body.
fn web_server(answer: fn(usize) -> (&'static str, &'static str)) -> (SocketAddr, ReceivedRequests) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let heard = ReceivedRequests::default();
    let requests = heard.clone();
    std::thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            let mut bytes = vec![0; 64 << 10];
            let read = socket.read(&mut bytes).unwrap_or(0);
            let mut requests = requests.lock().expect("no panic");
            requests.push(String::from_utf8_lossy(&bytes[..read]).into_owned());
            let (status, body) = answer(requests.len());
            let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
            let _ = socket.write_all(format!("{head}{body}").as_bytes());
        }
    });
    (address, heard)
}

fn ok(_: usize) -> (&'static str, &'static str) {
    ("200 OK", "ok")
}

/// The Telegram Bot API: refuses the first message for a second, and takes the others.
fn bot_api(request: usize) -> (&'static str, &'static str) {
    match request {
        1 => ("429 Too Many Requests", r#"{"ok":false,"parameters":{"retry_after":1}}"#),
        _ => ("200 OK", r#"{"ok":true,"result":{"message_id":7}}"#),
    }
}

fn punctual(server: &Server, arguments: &[&str]) -> Output {
    let output = Command::new(PUNCTUAL).args(arguments).args(["--server", &server.url]).output();
    output.expect("the command runs")
}

#[track_caller]
fn succeeds(server: &Server, arguments: &[&str]) -> String {
    let output = punctual(server, arguments);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{arguments:?}\n{out}\n{err}");
    out.into_owned()
}

#[test]
fn what_the_command_line_sends_arrives_and_secrets_are_not_shown() {
    let mailbox = Mailbox::open();
    let (web, requests) = web_server(ok);
    let home = Home::new();
    let settings = format!(
        "smtp_url = \"smtp://{}\"\nsmtp_from = \"Punctual <jobs@example.org>\"\n\
         slack_webhooks = {{ ops = \"http://{web}/services/s3cret\" }}\n\
         webhook_keys = {{ ci = \"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\" }}\n",
        mailbox.address()
    );
    home.set(&settings);
    let server = home.server();
    let _worker = home.worker(&server, &[]);

    let wait = ["--wait", "--wait-timeout", "30s"];
    let run = |arguments: &[&str]| succeeds(&server, &[&["run"], arguments, &wait[..]].concat());
    run(&["--email", "Ops <ops@example.org>", "--subject", "It is done", "--text", "All of it."]);
    let mail = mailbox.mails().pop().expect("it arrived");
    assert_eq!((mail.header("to"), mail.subject()), ("Ops <ops@example.org>", "It is done"));
    assert!(mail.text.starts_with("All of it."), "{mail:?}");

    run(&["--slack", "ops", "--text", "It is done"]);
    run(&["--webhook", &format!("http://{web}/hook"), "--body", "{}", "--sign-with", "ci"]);
    run(&["--ping", &format!("http://{web}/ping"), "--expect-body", "^ok$"]);
    let requests = requests.lock().expect("no panic").clone();
    assert!(requests[0].starts_with("POST /services/s3cret ") && requests[0].ends_with(r#"{"text":"It is done"}"#));
    assert!(requests[1].starts_with("POST /hook ") && requests[1].contains("\r\nwebhook-signature: v1,"));
    assert!(requests[2].starts_with("GET /ping "));

    let config = ["config", "--config", "settings.toml"];
    let config = Command::new(PUNCTUAL).args(config).current_dir(home.path()).output().expect("it runs");
    let shown = String::from_utf8_lossy(&config.stdout);
    assert!(config.status.success() && shown.contains("ops=***") && shown.contains("ci=***"), "{shown}");
    assert!(!shown.contains("s3cret") && !shown.contains("MfKQ"), "{shown}");

    let address = "https://hooks.slack.com/services/T0/B0/s3cret";
    succeeds(&server, &["task", "apply", "alarm", "--slack", address, "--text", "hi"]);
    for shown in [
        succeeds(&server, &["task", "list"]),
        succeeds(&server, &["task", "get", "alarm"]),
        succeeds(&server, &["task", "apply", "alarm", "--slack", "ops"]),
    ] {
        assert!(!shown.contains("s3cret"), "{shown}");
    }
}

/// A worker that was not told to may not call this machine.
#[test]
fn a_task_cannot_call_into_the_workers_own_network() {
    let (web, requests) = web_server(ok);
    let home = Home::new();
    let server = home.server();
    let _worker = home.strict_worker(&server, "spool", &[]);
    let url = format!("http://{web}/");
    let output = punctual(&server, &["run", "--ping", &url, "--wait", "--wait-timeout", "30s"]);
    assert_eq!(output.status.code(), Some(3));
    let jobs = succeeds(&server, &["ps", "-o", "json"]);
    assert!(jobs.contains("http_allow") && jobs.contains("failed"), "{jobs}");
    assert!(requests.lock().expect("no panic").is_empty());
}

/// The kernel says that the worker is the server's own user. The author of the task is somebody else.
#[test]
fn a_task_that_calls_the_server_has_no_rights_there() {
    let home = Home::new();
    let server = home.server();
    let _worker = home.strict_worker(&server, "spool", &["--http-allow", "127.0.0.0/8"]);
    succeeds(&server, &["run", "--ping", &format!("{}/livez", server.url), "--wait", "--wait-timeout", "30s"]);
    let url = format!("{}/v1/jobs", server.url);
    let output = punctual(&server, &["run", "--ping", &url, "--wait", "--wait-timeout", "30s"]);
    assert_eq!(output.status.code(), Some(3));
    let jobs = succeeds(&server, &["ps", "-o", "json"]);
    assert!(jobs.contains("401"), "{jobs}");
}

/// E6 names a message to the subscribers of a Telegram channel.
#[test]
fn a_telegram_message_is_sent_by_a_bot_whose_token_nobody_sees() {
    let (api, requests) = web_server(bot_api);
    let home = Home::new();
    let settings = format!(
        "telegram_api = \"http://{api}\"\ntelegram_bots = {{ default = \"42:s3cret\", ops = \"43:s3cret\" }}\n"
    );
    home.set(&settings);
    let server = home.server();
    let _worker = home.worker(&server, &[]);

    let wait = ["--wait", "--wait-timeout", "30s", "-o", "json"];
    let sent = succeeds(&server, &[&["run", "--telegram", "@news", "--text", "It is done"], &wait[..]].concat());
    let job: serde_json::Value = serde_json::from_str(&sent).expect("a job");
    assert_eq!(job["output"], serde_json::json!({ "message_id": 7 }));
    // The second attempt comes when Telegram asked for it.
    let attempts = job["attempts"].as_array().expect("a list");
    assert_eq!((attempts.len(), attempts[0]["reason"].as_str()), (2, Some("Telegram answered 429 Too Many Requests")));
    let heard = requests.lock().expect("no panic")[1].clone();
    assert!(heard.starts_with("POST /bot42:s3cret/sendMessage "), "{heard}");
    assert!(heard.ends_with(r#"{"chat_id":"@news","text":"It is done"}"#), "{heard}");

    succeeds(&server, &["notify", "apply", "chat", "--telegram", "-100123", "--bot", "ops", "--silent"]);
    succeeds(&server, &["notify", "test", "chat"]);
    let heard = requests.lock().expect("no panic")[2].clone();
    assert!(heard.starts_with("POST /bot43:s3cret/sendMessage "), "{heard}");
    assert!(heard.contains(r#""chat_id":"-100123""#) && heard.contains(r#""disable_notification":true"#), "{heard}");

    let file = home.file("settings.toml");
    let config = Command::new(PUNCTUAL).args(["config", "--config"]).arg(file).output().expect("it runs");
    let logs = succeeds(&server, &["logs", job["id"].as_str().expect("an id")]);
    for shown in [
        String::from_utf8_lossy(&config.stdout).into_owned(),
        logs,
        sent,
        succeeds(&server, &["notify", "get", "chat"]),
        succeeds(&server, &["ps", "-o", "json"]),
    ] {
        assert!(!shown.contains("s3cret"), "{shown}");
    }
}
