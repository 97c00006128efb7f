//! Secrets reach what needs them, and appear nowhere else.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use aho_corasick::AhoCorasick;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use reqwest::Method;
use serde_json::{Value, json};

use crate::artifacts::{declaration, put};
use crate::binaries::compile_c;
use crate::checked::{Checked, plain_http};
use crate::cluster::Cluster;
use crate::harness::{Home, PUNCTUAL, Server, eventually};
use crate::mailbox::Mailbox;

/// Values that appear nowhere by chance, with characters that encodings change.
fn planted(name: &str) -> String {
    format!("Zq7-{name}/pl4nted+value=\"{}\" ü&end", name.len() * 7919)
}

const NAMES: [&str; 8] = ["command", "stdin", "header", "body", "url", "mail", "slack", "program"];

/// Further secrets, used in numbers by each kind of task: those of one task begin with its word.
const FURTHER: [(&str, usize); 6] = [("env", 12), ("head", 10), ("arg", 8), ("letter", 5), ("chat", 3), ("probe", 4)];

fn further(word: &str) -> Vec<String> {
    let count = FURTHER.iter().find(|(known, _)| *known == word).expect("a word of the list").1;
    (0..count).map(|number| format!("{word}-{number:02}")).collect()
}

fn all_names() -> Vec<String> {
    let further = FURTHER.iter().flat_map(|(word, _)| further(word));
    NAMES.into_iter().map(str::to_owned).chain(further).collect()
}

/// `{{ secret.… }}` for each, with a name before it.
fn named_values(names: &[String], prefix: &str) -> serde_json::Map<String, Value> {
    let value = |name: &String| Value::from(format!("{{{{ secret.{name} }}}}"));
    names.iter().map(|name| (format!("{prefix}{}", name.replace('-', "_")), value(name))).collect()
}

fn in_one_text(names: &[String]) -> String {
    names.iter().map(|name| format!("{{{{ secret.{name} }}}} ")).collect()
}

/// What the value looks like to somebody who searches, written down apart from the code that hides it.
fn needles(name: &str) -> Vec<Vec<u8>> {
    let value = planted(name);
    let percent: String = value
        .bytes()
        .map(|byte| match byte {
            b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
            byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
            byte => format!("%{byte:02X}"),
        })
        .collect();
    let mut needles = vec![value.clone(), percent];
    needles.push(serde_json::to_string(&value).unwrap().trim_matches('"').to_owned());
    for before in ["", "x", "xx"] {
        let encoded = BASE64_STANDARD.encode(format!("{before}{value}"));
        // Without the characters that share bits with the neighbours.
        needles.push(encoded[4..encoded.len() - 4].to_owned());
    }
    needles.push(value.bytes().map(|byte| format!("{byte:02x}")).collect());
    // A part that says enough.
    needles.push(format!("{name}/pl4nted+value"));
    needles.into_iter().map(String::into_bytes).collect()
}

#[track_caller]
fn assert_without_secrets(what: &str, text: &[u8]) {
    // All forms of all values in one pass over the text.
    static FORMS: LazyLock<AhoCorasick> = LazyLock::new(|| {
        let needles: Vec<Vec<u8>> = all_names().iter().flat_map(|name| needles(name)).collect();
        AhoCorasick::new(needles).expect("it is small")
    });
    if let Some(found) = FORMS.find(text) {
        let around = &text[found.start().saturating_sub(80)..(found.end() + 80).min(text.len())];
        panic!("{what} has a secret: {}", String::from_utf8_lossy(around));
    }
}

fn files_below(folder: &Path, visit: &mut impl FnMut(&Path, Vec<u8>)) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files_below(&path, visit);
        } else if let Ok(bytes) = std::fs::read(&path) {
            visit(&path, bytes);
        }
    }
}

type Heard = Arc<Mutex<Vec<String>>>;

/// Answers with what it was asked; with a failure if the path says so.
fn echo() -> (SocketAddr, Heard) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let heard = Heard::default();
    let requests = heard.clone();
    std::thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            let mut bytes = vec![0; 64 << 10];
            let read = socket.read(&mut bytes).unwrap_or(0);
            let asked = String::from_utf8_lossy(&bytes[..read]).into_owned();
            let status = if asked.contains("/fail") { "404 Not Found" } else { "200 OK" };
            // A secret at the place where long answers are cut, and in base64.
            let encoded = BASE64_STANDARD.encode(&asked);
            let body = format!("{}{asked}{encoded}", "-".repeat(480));
            requests.lock().expect("no panic").push(asked);
            let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
            let _ = socket.write_all(format!("{head}{body}").as_bytes());
        }
    });
    (address, heard)
}

/// Looks at the arguments of all processes again and again.
struct Onlooker {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<BTreeSet<String>>>,
}

impl Onlooker {
    fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let until = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut seen = BTreeSet::new();
            while !until.load(Ordering::Relaxed) {
                for process in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
                    // What every user of the machine can read.
                    for file in ["cmdline", "comm", "stat"] {
                        let shown = std::fs::read(process.path().join(file)).unwrap_or_default();
                        let is_times = file == "stat";
                        let text = String::from_utf8_lossy(&shown).into_owned();
                        seen.insert(if is_times {
                            text.split(')').next().unwrap_or_default().to_owned()
                        } else {
                            text
                        });
                    }
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            seen
        });
        Self { stop, thread: Some(thread) }
    }

    fn seen(mut self) -> BTreeSet<String> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().expect("it is asked once").join().expect("it looks on")
    }
}

async fn set(server: &Server, name: &str, value: &str) -> reqwest::Response {
    let request = plain_http().request(Method::PUT, format!("{}/v1/secrets/{name}", server.url));
    request.body(value.to_owned()).send().await.expect("an answer")
}

/// Prints the variable in many forms, whole and in pieces, and fails.
const PRINTS: &str = r#"
env | grep ^X_
env | grep ^X_ | base64 -w 0
env | grep ^X_ | base64
env | grep ^X_ | tr -d '\n' >&2
printf '%s\n' "$VALUE"
printf '%s\n' "$VALUE" >&2
printf 'user:%s' "$VALUE" | base64
printf 'us:%s' "$VALUE" | base64 -w 0; echo
printf '%s' "$VALUE" | od -An -v -tx1 | tr -d ' \n'; echo
printf '%s' "$VALUE" | od -An -v -tx1 | tr -d ' \n' | sed 's/../%&/g'; echo
printf '%s' "$VALUE" | head -c 9; sleep 0.2; printf '%s' "$VALUE" | tail -c +10 | head -c 9; sleep 0.2
printf '%s' "$VALUE" | tail -c +19; echo
cat
printf '{"said":"%s"}' "$VALUE" > "$PUNCTUAL_OUTPUT"
printf 'the end of the log: %s' "$VALUE"
"#;

const PROGRAM: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(void) {
    extern char **environ;
    for (char **at = environ; *at; at++) if (!strncmp(*at, "X_", 2)) { puts(*at); fputs(*at, stderr); }
    const char *value = getenv("VALUE");
    for (const char *at = value; *at; at += strlen(at) < 5 ? strlen(at) : 5) {
        printf("%.5s", at);
        fflush(stdout);
        usleep(20000);
    }
    printf("\n");
    for (const char *at = value; *at; at++) fprintf(stderr, "%02x", (unsigned char)*at);
    FILE *out = fopen(getenv("PUNCTUAL_OUTPUT"), "w");
    fprintf(out, "it is %s", value);
    fclose(out);
    return 0;
}
"#;

/// Uploads a program that prints its secret piece by piece. Answers the id.
async fn program(home: &Home, api: &Checked) -> String {
    let bytes = std::fs::read(compile_c(home, "prints", PROGRAM)).expect("a program");
    let declared = api.post("/v1/artifacts", declaration(&bytes)).await.expect(201);
    put(declared.str("/upload/url"), bytes).await.expect(200);
    declared.str("/id").to_owned()
}

/// Runs a workflow whose nodes are given secrets and what the nodes before them printed. Answers the run and the jobs.
async fn use_in_workflow(api: &Checked, environment: &Value) -> (String, Vec<String>) {
    let retry = json!({ "max": 0 });
    let command =
        |line: &str| json!({ "run": { "command": { "line": line, "environment": environment } }, "retry": retry });
    let say = json!({ "run": { "probe": { "output": "it is {{ secret.program }}" } }, "retry": retry });
    let given = json!({ "said": { "from": "say" }, "given": { "from": "run.key" }, "fixed": { "value": "{{ secret.header }}" } });
    let nodes = json!([
        { "name": "say", "inline": say },
        { "name": "pass", "needs": ["say"], "inline": command(PRINTS), "input": given },
        { "name": "fails", "needs": ["pass"], "inline": command(&format!("{PRINTS}\nexit 3")), "input": given },
    ]);
    let output = json!({ "said": { "from": "say" }, "given": { "from": "run.key" } });
    let after = json!([{ "name": "after", "inline": command(PRINTS), "input": given }]);
    let flow = json!({ "nodes": nodes, "on_node_failure": "continue", "on_end": after, "output": output });
    let applied = api.put("/v1/workflows/uses", flow).await.expect(201);
    assert_without_secrets("a workflow", applied.text.as_bytes());
    // Whoever starts runs would get the secret.
    let input = json!({ "input": { "key": "{{ secret.body }}" } });
    api.post("/v1/workflows/uses/runs", input).await.expect(400);
    let input = json!({ "input": { "key": "a key" } });
    let run = api.post("/v1/workflows/uses/runs", input).await.expect(201).str("/id").to_owned();
    let path = format!("/v1/runs/{run}");
    eventually("the run ends", || async { api.get(&path).await.expect(200).str("/state") != "running" }).await;
    let ended = api.get(&path).await.expect(200);
    assert_eq!(ended.str("/state"), "failed", "{}", ended.text);
    let nodes = ended.body["nodes"].as_array().expect("nodes");
    let jobs: Vec<String> = nodes.iter().map(|node| node["job"].as_str().expect("each ran").to_owned()).collect();
    assert_eq!(jobs.len(), 4, "{}", ended.text);
    let said = api.get(&format!("/v1/jobs/{}", jobs[0])).await.expect(200);
    assert_eq!(said.body["output"], Value::from("it is [secret program]"));
    (run, jobs)
}

/// Runs all executors with their secrets. Answers the ids of the jobs.
async fn use_all(
    home: &Home,
    server: &Server,
    api: &Checked,
    far: SocketAddr,
    mailbox: &Mailbox,
    heard: &Heard,
) -> Vec<String> {
    let secret = |name: &str| format!("{{{{ secret.{name} }}}}");
    let retry = json!({ "max": 0 });
    let mut environment = named_values(&further("env"), "X_");
    environment.insert("VALUE".to_owned(), secret("command").into());
    let command = json!({ "line": PRINTS, "environment": environment, "stdin": secret("stdin") });
    let call = |path: &str| {
        let mut headers = named_values(&further("head"), "x-");
        headers.insert("x-key".to_owned(), format!("Bearer {}", secret("header")).into());
        json!({
            "url": format!("http://{far}{path}?key={}", secret("url")), "method": "POST",
            "headers": headers, "body": format!("body {}", secret("body"))
        })
    };
    let text = format!("It is {} {}", secret("mail"), in_one_text(&further("letter")));
    let mail = json!({ "to": ["ops@example.org"], "subject": "Hello", "text": text });
    let slack =
        json!({ "webhook": "ops", "text": format!("It is {} {}", secret("slack"), in_one_text(&further("chat"))) });
    let mut variables = named_values(&further("arg"), "X_");
    variables.insert("VALUE".to_owned(), secret("program").into());
    let binary = json!({ "artifact": program(home, api).await, "env": variables });
    let runs = [
        ("command", json!({ "command": command }), "succeeded"),
        (
            "failing-command",
            json!({ "command": { "line": format!("{PRINTS}\nexit 3"), "environment": environment } }),
            "failed",
        ),
        ("call", json!({ "http": call("/ok") }), "succeeded"),
        ("failing-call", json!({ "http": call("/fail") }), "failed"),
        ("program", json!({ "binary": binary }), "succeeded"),
        ("mail", json!({ "email": mail }), "succeeded"),
        ("slack", json!({ "slack": slack }), "succeeded"),
        (
            "probe",
            json!({ "probe": { "output": format!("it is {} {}", secret("program"), in_one_text(&further("probe"))) } }),
            "succeeded",
        ),
    ];
    let mut jobs = Vec::new();
    for (name, run, state) in runs {
        let task = api.put(&format!("/v1/tasks/{name}"), json!({ "run": run, "retry": retry })).await.expect(201);
        assert_without_secrets(name, task.text.as_bytes());
        let id = api.submit(json!({ "task": name })).await;
        let job = api.finished(&id).await;
        assert_eq!(job.str("/state"), state, "{name}: {}", job.text);
        jobs.push(id);
    }
    let (run, of_run) = use_in_workflow(api, &Value::Object(environment)).await;
    for path in ["/v1/runs", "/v1/workflows", "/v1/workflows/uses", &format!("/v1/runs/{run}")] {
        assert_without_secrets(path, api.get(path).await.expect(200).text.as_bytes());
    }
    jobs.extend(of_run);
    // What needs a secret has it.
    let requests = heard.lock().expect("no panic").clone();
    let call = &requests[0];
    assert!(call.contains(&format!("body {}", planted("body"))), "{call}");
    assert!(call.contains("?key=Zq7-url%2Fpl4nted%2Bvalue%3D%22"), "{call}");
    assert!(requests.iter().any(|asked| asked.contains("It is Zq7-slack/pl4nted")), "{requests:?}");
    assert!(call.to_lowercase().contains("x-key: bearer zq7-header/pl4nted"), "{call}");
    assert!(mailbox.mails()[0].text.contains(&planted("mail")), "{:?}", mailbox.mails());
    assert!(further("head").iter().all(|name| call.contains(&planted(name)[..12])), "{call}");
    // And nobody sees more of it than its name.
    for id in &jobs {
        let log = logs(server, id).await;
        assert_without_secrets("a log", log.as_bytes());
    }
    let log = logs(server, &jobs[0]).await;
    for part in ["[secret command]\n", "[secret stdin]", "the end of the log: [secret command]"] {
        assert!(log.contains(part), "{part}: {log}");
    }
    assert!(log.matches("[secret command]").count() >= 8, "{log}");
    jobs
}

async fn logs(server: &Server, id: &str) -> String {
    let answer = plain_http().get(format!("{}/v1/jobs/{id}/logs", server.url)).send().await.expect("an answer");
    answer.text().await.expect("text")
}

/// Everything that the interface shows.
async fn assert_answers_without_secrets(server: &Server, jobs: &[String]) {
    let mut paths: Vec<String> =
        ["tasks", "jobs", "secrets", "stats", "workers", "servers", "schedules", "notifications"]
            .iter()
            .map(|list| format!("/v1/{list}"))
            .collect();
    paths.extend(["/v1/jobs?state=failed", "/v1/audit", "/v1/audit/export", "/v1/overdue"].map(str::to_owned));
    for id in jobs {
        paths.extend([format!("/v1/jobs/{id}"), format!("/v1/jobs/{id}/logs/lines")]);
    }
    for path in paths {
        let answer = plain_http().get(format!("{}{path}", server.url)).send().await.expect("an answer");
        assert!(answer.status().is_success(), "{path}: {}", answer.status());
        assert_without_secrets(&path, answer.text().await.expect("text").as_bytes());
    }
    for id in jobs {
        // The events of a job that has ended, to their end.
        let request = plain_http().get(format!("{}/v1/jobs/{id}/events", server.url));
        let answer = request.header("accept", "text/event-stream").send().await.expect("an answer");
        assert_without_secrets("the events", answer.text().await.expect("text").as_bytes());
    }
}

fn settings(home: &Home, far: SocketAddr, mailbox: &Mailbox) {
    home.set(&format!(
        "smtp_url = \"smtp://{}\"\nsmtp_from = \"Punctual <jobs@example.org>\"\n\
         slack_webhooks = {{ ops = \"http://{far}/services/hook\" }}\n",
        mailbox.address()
    ));
}

const WORKER_FLAGS: [&str; 5] = ["--allow-commands", "--probe-effects", "--http-allow", "127.0.0.0/8", "-vv"];

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_is_left_anywhere_after_every_executor_ran_with_some() {
    let (far, heard) = echo();
    let mailbox = Mailbox::open();
    let home = Home::new();
    settings(&home, far, &mailbox);
    let log = |name: &str| File::create(home.file(name)).expect("a log");
    let server = home.server_logging("127.0.0.1:0", &["-vv"], &[], log("server.log"));
    let worker = home.worker_logging(&server, "spool", &WORKER_FLAGS, &[], log("worker.log"));
    let api = Checked::new(&server).await;
    let names = all_names();
    assert_eq!(names.len(), 50);
    for name in &names {
        let answer = set(&server, name, &planted(name)).await;
        assert_eq!(answer.status().as_u16(), 200);
        assert_without_secrets("the answer to set", answer.text().await.expect("text").as_bytes());
    }
    let onlooker = Onlooker::start();
    let jobs = use_all(&home, &server, &api, far, &mailbox, &heard).await;
    let arguments = onlooker.seen();
    assert!(arguments.iter().any(|seen| seen.contains("base64")), "the commands were seen");
    arguments.iter().for_each(|seen| assert_without_secrets("arguments", seen.as_bytes()));
    assert_answers_without_secrets(&server, &jobs).await;
    worker.stop();
    server.process.stop();
    let mut looked_at = 0;
    files_below(home.path(), &mut |path, bytes| {
        looked_at += 1;
        assert_without_secrets(&path.display().to_string(), &bytes);
    });
    assert!(looked_at >= 5, "only {looked_at} files");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_is_left_in_a_postgresql() {
    let (far, heard) = echo();
    let mailbox = Mailbox::open();
    let cluster = Cluster::new();
    settings(&cluster.home, far, &mailbox);
    let servers = cluster.pair().await;
    let _worker = cluster.home.worker(&servers[0], &["--allow-commands"]);
    let api = Checked::new(&servers[1]).await;
    for name in all_names() {
        // At one server, and used at both.
        assert_eq!(set(&servers[0], &name, &planted(&name)).await.status().as_u16(), 200);
    }
    let jobs = use_all(&cluster.home, &servers[1], &api, far, &mailbox, &heard).await;
    assert_answers_without_secrets(&servers[0], &jobs).await;
    let binaries = std::env::var("PATH").unwrap_or_default()
        + ":/usr/lib/postgresql/15/bin:/usr/lib/postgresql/16/bin:/usr/lib/postgresql/17/bin";
    let dump = Command::new("pg_dump").env("PATH", binaries).arg(&cluster.database).output().expect("pg_dump runs");
    assert!(dump.status.success(), "{}", String::from_utf8_lossy(&dump.stderr));
    let text = String::from_utf8_lossy(&dump.stdout);
    assert!(text.contains("secret.command") && text.contains("sealed_key"), "the dump has the tables");
    let is_plain = |line: &str| line.starts_with("cluster_secret\t");
    assert!(!text.lines().any(is_plain), "the cluster's secret is sealed");
    assert_without_secrets("the database", &dump.stdout);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_does_not_exist_is_refused_where_it_is_referred_to() {
    let home = Home::new();
    let server = home.server();
    let api = Checked::new(&server).await;
    let call =
        json!({ "run": { "http": { "url": "http://h.example/", "headers": { "x-key": "{{ secret.gone }}" } } } });
    let refused = api.put("/v1/tasks/a", call.clone()).await.expect(400);
    assert_eq!(refused.str("/errors/0/pointer"), "/run/http/headers", "{}", refused.text);
    assert!(refused.str("/detail").contains("the secret gone, which does not exist"), "{}", refused.text);
    let refused = api.post("/v1/jobs", json!({ "inline": call })).await.expect(400);
    assert_eq!(refused.str("/errors/0/pointer"), "/inline/run/http/headers", "{}", refused.text);
    let refused = api.post("/v1/jobs", json!({ "task": "a", "input": "{{ secret.gone }}" })).await.expect(400);
    assert_eq!(refused.str("/errors/0/pointer"), "/input", "{}", refused.text);
    let arguments = json!({ "run": { "binary": { "artifact": "artifact_06bp4k0000000000000000000", "args": ["{{ secret.gone }}"] } } });
    let refused = api.put("/v1/tasks/a", arguments).await.expect(400);
    assert!(refused.text.contains("/run/binary/args") || refused.text.contains("artifact"), "{}", refused.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_in_use_stays_and_jobs_fail_clearly_when_it_is_forced_away() {
    let home = Home::new();
    let server = home.server();
    let api = Checked::new(&server).await;
    let _worker = home.worker(&server, &[]);
    assert_eq!(set(&server, "a", "first value").await.status().as_u16(), 200);
    api.put("/v1/tasks/uses", json!({ "run": { "probe": { "output": "{{ secret.a }}" } }, "retry": { "max": 0 } }))
        .await
        .expect(201);
    let delete = async |query: &str| {
        let path = format!("{}/v1/secrets/a{query}", server.url);
        plain_http().delete(path).send().await.expect("an answer").status().as_u16()
    };
    assert_eq!(delete("").await, 409);
    let list = api.get("/v1/secrets").await.expect(200);
    assert_eq!((list.str("/secrets/0/name"), &list.body["secrets"][0]["used_by_tasks"]), ("a", &json!(1)));
    assert_eq!(delete("?force=true").await, 204);
    assert_eq!(delete("?force=true").await, 404);
    eventually("jobs fail clearly", || async {
        let id = api.submit(json!({ "task": "uses" })).await;
        let job = api.finished(&id).await;
        // What was read a second ago is still used.
        job.str("/state") == "failed" && {
            assert!(
                job.str("/explanation").contains("the secret a does not exist")
                    || job.text.contains("the secret a does not exist"),
                "{}",
                job.text
            );
            assert_eq!(job.body["attempts"][0]["details"]["class"], "environment", "{}", job.text);
            true
        }
    })
    .await;
    // It helps to set it again.
    assert_eq!(set(&server, "a", "second value").await.status().as_u16(), 200);
    let id = api.submit(json!({ "task": "uses" })).await;
    assert_eq!(api.finished(&id).await.body["output"], Value::from("[secret a]"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_keeps_values_out_of_arguments_and_rotates_the_root_key() {
    let home = Home::new();
    let server = home.server();
    let api = Checked::new(&server).await;
    let _worker = home.worker(&server, &[]);
    let punctual = |arguments: &[&str]| {
        let mut command = Command::new(PUNCTUAL);
        command.args(arguments).args(["--server", &server.url]);
        command
    };
    let file = home.file("value");
    std::fs::write(&file, "from a file\n").expect("a file");
    let done = punctual(&["secret", "set", "a"]).stdin(File::open(&file).unwrap()).output().expect("it runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let refused = punctual(&["secret", "set", "a", "a-value-as-an-argument"]).output().expect("it runs");
    assert_eq!(refused.status.code(), Some(2));
    let task = json!({ "run": { "probe": { "output": "<{{ secret.a }}>" } } });
    api.put("/v1/tasks/uses", task).await.expect(201);

    let key = std::fs::read_to_string(home.file("data/root.key")).expect("a root key");
    let rotated = punctual(&["root-key", "rotate", "-o", "json"]).output().expect("it runs");
    assert!(rotated.status.success(), "{}", String::from_utf8_lossy(&rotated.stderr));
    let both = std::fs::read_to_string(home.file("data/root.key")).expect("a root key");
    assert!(both.ends_with(&key) && both.lines().count() == 2, "the new key comes first");
    // The server goes on, and starts again with the new key alone.
    let id = api.submit(json!({ "task": "uses" })).await;
    assert_eq!(api.finished(&id).await.body["output"], Value::from("<[secret a]>"));
    let address = server.address();
    server.process.stop();
    std::fs::write(home.file("data/root.key"), both.lines().next().unwrap()).expect("the former key goes");
    let server = home.server_at(&address, &[]);
    let id = api.submit(json!({ "task": "uses" })).await;
    assert_eq!(api.finished(&id).await.body["output"], Value::from("<[secret a]>"));

    // Another key is refused, and so is none.
    server.process.stop();
    for other in [Some(key), None] {
        match &other {
            Some(key) => std::fs::write(home.file("data/root.key"), key).expect("written"),
            None => std::fs::remove_file(home.file("data/root.key")).expect("removed"),
        }
        let refused = Command::new(PUNCTUAL)
            .args(["server", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(home.file("data"))
            .output()
            .expect("it runs");
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(6), "{said}");
        assert!(said.contains("is sealed with root key") && said.contains("opy the file root.key"), "{said}");
    }
    assert!(!home.file("data/root.key").exists(), "no key is made for a database that has one");
}
