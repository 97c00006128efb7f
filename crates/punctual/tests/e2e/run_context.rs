//! What a task knows of its run: its schedule, its planned time and its data interval, wherever it runs.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;
use std::sync::mpsc;

use serde_json::{Value, json};

use crate::binaries::compile_c;
use crate::checked::Checked;
use crate::harness::{Home, PUNCTUAL, eventually};

/// The lines `NAME=value` that a program printed.
fn variables(text: &str) -> BTreeMap<String, String> {
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

async fn fired(api: &Checked, schedule: &str) -> Vec<Value> {
    let path = format!("/v1/schedules/{schedule}/occurrences?verdict=fired&order=asc&limit=1000");
    api.get(&path).await.expect(200).body["occurrences"].as_array().expect("a list").clone()
}

/// The outputs of the first runs of a schedule, with the planned time of each.
async fn outputs(api: &Checked, schedule: &str, count: usize) -> Vec<(String, Value)> {
    eventually("it fires", || async { fired(api, schedule).await.len() >= count }).await;
    let mut outputs = Vec::new();
    for row in &fired(api, schedule).await[..count] {
        let job = api.finished(row["job"].as_str().expect("a job")).await;
        assert_eq!(job.str("/state"), "succeeded", "{}", job.text);
        outputs.push((row["at"].as_str().expect("a time").to_owned(), job.body["output"].clone()));
    }
    outputs
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_of_a_schedule_finds_its_planned_time_and_interval_in_its_environment() {
    let home = Home::new();
    let server = home.server();
    let _worker = home.worker(&server, &["--allow-commands"]);
    let api = &Checked::new(&server).await;
    let line = "env | grep ^PUNCTUAL_ | grep -v OUTPUT > $PUNCTUAL_OUTPUT";
    let tick = json!({
        "name": "tick", "inline": { "run": { "command": { "line": line } } }, "every": "1s", "zone": "Asia/Tokyo"
    });
    let created = api.post("/v1/schedules", tick).await.expect(201);
    let runs = outputs(api, "tick", 3).await;
    let known: Vec<_> = runs.iter().map(|(_, output)| variables(output.as_str().expect("text"))).collect();
    for ((planned, _), found) in runs.iter().zip(&known) {
        let found = |name: &str| found.get(name).map(String::as_str);
        assert_eq!(found("PUNCTUAL_PLANNED_AT"), Some(planned.as_str()));
        assert_eq!(found("PUNCTUAL_SCHEDULE"), Some("tick"));
        assert_eq!(found("PUNCTUAL_SCHEDULE_ID"), Some(created.str("/id")));
        assert_eq!(found("PUNCTUAL_TIME_ZONE"), Some("Asia/Tokyo"));
        assert!(found("PUNCTUAL_PLANNED_AT_LOCAL").is_some_and(|local| local.ends_with("+09:00")));
        assert_eq!((found("PUNCTUAL_RUN_TYPE"), found("PUNCTUAL_ATTEMPT")), (Some("planned"), Some("1")));
        assert_eq!(found("PUNCTUAL_INTERVAL_END"), Some(planned.as_str()));
    }
    assert_eq!(known[1]["PUNCTUAL_INTERVAL_START"], runs[0].0, "the interval begins at the planned time before");
    assert!(!known[0].contains_key("PUNCTUAL_LAST_SUCCESS"), "none has succeeded before the first");

    // A run that somebody asked for, after a success.
    let manual = api.command("/v1/schedules/tick/run").await.expect(200);
    let manual = api.finished(manual.str("/job")).await;
    let found = variables(manual.str("/output"));
    assert_eq!(found["PUNCTUAL_RUN_TYPE"], "manual");
    assert!(found["PUNCTUAL_LAST_SUCCESS"] >= runs[0].0, "{found:?}");

    // What is known of the last success outlives the server.
    api.command("/v1/schedules/tick/pause").await.expect(200);
    server.kill();
    let server = home.server();
    let _worker = home.worker_with_spool(&server, "second", &["--allow-commands"]);
    let api = &Checked::new(&server).await;
    let manual = api.command("/v1/schedules/tick/run").await.expect(200);
    let manual = api.finished(manual.str("/job")).await;
    assert!(variables(manual.str("/output"))["PUNCTUAL_LAST_SUCCESS"] >= runs[2].0, "{}", manual.text);

    // A backfill says so, and which of its times it is.
    let from = &runs[0].0;
    let backfill = json!({ "from": from, "to": runs[2].0, "include": "all" });
    let backfill = api.post("/v1/schedules/tick/backfills", backfill).await.expect(201);
    let path = format!("/v1/backfills/{}/runs", backfill.str("/id"));
    eventually("its jobs are made", || async {
        api.get(&path).await.expect(200).body["runs"].as_array().map(Vec::len) == Some(2)
    })
    .await;
    let first = api.get(&path).await.expect(200);
    let found = variables(api.finished(first.str("/runs/0/job")).await.str("/output"));
    assert_eq!((found["PUNCTUAL_RUN_TYPE"].as_str(), &found["PUNCTUAL_PLANNED_AT"]), ("backfill", from));

    // A one-off job has what applies.
    let job =
        api.submit(json!({ "inline": { "run": { "command": { "line": line } } }, "tracing_id": "order 17" })).await;
    let job = api.finished(&job).await;
    let found = variables(job.str("/output"));
    assert_eq!((found["PUNCTUAL_RUN_TYPE"].as_str(), found["PUNCTUAL_TRACING_ID"].as_str()), ("one_off", "order 17"));
    assert_eq!(found["PUNCTUAL_SCHEDULED_AT"], job.str("/scheduled_at"));
    assert!(!found.contains_key("PUNCTUAL_PLANNED_AT") && !found.contains_key("PUNCTUAL_SCHEDULE"), "{found:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn placeholders_are_filled_in_and_a_receiver_gets_the_headers() {
    let home = Home::new();
    let server = home.server();
    let _worker = home.worker(&server, &[]);
    let api = &Checked::new(&server).await;
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let (sender, requests) = mpsc::channel();
    std::thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            let mut bytes = vec![0; 64 << 10];
            let mut text = String::new();
            while !text.ends_with("\"}") {
                let read = socket.read(&mut bytes).unwrap_or(0);
                text += &String::from_utf8_lossy(&bytes[..read]);
            }
            let _ = socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            let _ = sender.send(text);
        }
    });
    let call = json!({
        "url": format!("http://{address}/?at={{{{ punctual.planned_at_local }}}}"), "method": "POST",
        "headers": { "X-Type": "{{ punctual.run_type }}" }
    });
    let schedule = json!({
        "name": "call", "inline": { "run": { "http": call } }, "every": "1s", "zone": "Europe/Berlin",
        "input": { "from": "{{ punctual.interval_start }}", "to": "{{punctual.interval_end}}", "theirs": "{{ name }}" }
    });
    api.post("/v1/schedules", schedule).await.expect(201);
    let request = requests.recv().expect("it calls").to_lowercase();
    let at = fired(api, "call").await[0]["at"].as_str().expect("a time").to_lowercase();
    let header = |name: &str| {
        let line = request.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
        line.unwrap_or_else(|| panic!("no {name} in {request}")).trim().to_owned()
    };
    assert_eq!((header("punctual-planned-at"), header("punctual-schedule")), (at.clone(), "call".to_owned()));
    assert_eq!((header("punctual-run-type"), header("x-type")), ("planned".to_owned(), "planned".to_owned()));
    assert_eq!(header("punctual-interval-end"), at);
    assert!(request.lines().next().expect("a line").contains("%2b0"), "{request}");
    let body: Value = serde_json::from_str(request.rsplit("\r\n\r\n").next().expect("a body")).expect("JSON");
    assert_eq!((body["to"].as_str(), body["theirs"].as_str()), (Some(at.as_str()), Some("{{ name }}")));
    assert_eq!(body["from"].as_str(), Some(header("punctual-interval-start").as_str()));

    // What there is not is refused where it is written.
    let wrong = json!({ "run": { "http": { "url": "http://127.0.0.1:9/?x={{ punctual.planed_at }}" } } });
    let refused = api.put("/v1/tasks/wrong", wrong).await.refused(400, "invalid_request");
    assert_eq!(refused.str("/errors/0/pointer"), "/run/http/url");
    assert!(refused.text.contains("planed_at") && refused.text.contains("punctual.planned_at"), "{}", refused.text);
    let input = json!({ "inline": { "run": { "probe": {} } }, "input": "{{ punctual.no }}" });
    api.post("/v1/jobs", input).await.refused(400, "invalid_request");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_of_a_schedule_knows_its_planned_time_in_a_sandbox_and_by_an_agent() {
    let source = r#"
        #include <stdio.h>
        #include <stdlib.h>
        int main(int argc, char **argv) {
            FILE *out = fopen(getenv("PUNCTUAL_OUTPUT"), "w");
            fprintf(out, "planned=%s\nargument=%s\n", getenv("PUNCTUAL_PLANNED_AT"), argv[1]);
            fclose(out);
            return 0;
        }"#;
    for flags in [&[][..], &["--spawn", "process"]] {
        let home = Home::new();
        let server = home.server();
        let _worker = home.worker(&server, flags);
        let api = &Checked::new(&server).await;
        let tool = compile_c(&home, "tool", source);
        let mut push = Command::new(PUNCTUAL);
        push.args(["artifact", "create", "-o", "json", "--server", &server.url]).arg(tool);
        let pushed = push.output().expect("it runs").stdout;
        let pushed: Value = serde_json::from_slice(&pushed).expect("it is uploaded");
        let artifact = &pushed["id"];
        let run = json!({ "binary": { "artifact": artifact, "args": ["{{ punctual.planned_at }}"] } });
        let tick = json!({ "name": "tick", "inline": { "run": run }, "every": "1s", "zone": "UTC" });
        api.post("/v1/schedules", tick).await.expect(201);
        for (planned, output) in outputs(api, "tick", 1).await {
            let found = variables(output.as_str().expect("text"));
            assert_eq!((&found["planned"], &found["argument"]), (&planned, &planned), "{flags:?}");
        }
    }
}
