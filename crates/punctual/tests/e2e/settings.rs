//! The numbers of the mission are settings: batch sizes, intervals, defaults and caps (A4, A13).

use serde_json::json;

use crate::checked::Checked;
use crate::harness::{Home, PUNCTUAL};

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_the_numbers_of_the_design_works() {
    let home = Home::new();
    // 20 at a time, and polled often.
    let settings = [
        ("PUNCTUAL_READ_BATCH", "20"),
        ("PUNCTUAL_WRITE_BATCH", "20"),
        ("PUNCTUAL_POLL_INTERVAL", "100ms"),
        ("PUNCTUAL_FULL_POLL_INTERVAL", "500ms"),
        ("PUNCTUAL_WINDOW_MAX", "100"),
    ];
    let server = home.server_with("127.0.0.1:0", &[], &settings);
    let api = Checked::new(&server).await;
    let jobs: Vec<_> = (0..300).map(|_| json!({ "inline": { "run": { "probe": {} } } })).collect();
    let bulk = api.post("/v1/jobs/bulk", json!({ "jobs": jobs })).await.expect(201);
    let _worker = home.worker(&server, &[]);
    for id in bulk.body["ids"].as_array().expect("ids") {
        let job = api.finished(id.as_str().expect("an id")).await;
        assert_eq!(job.body["state"], "succeeded", "{}", job.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn defaults_and_caps_of_tasks_are_settings() {
    let home = Home::new();
    let settings = [
        ("PUNCTUAL_DEFAULT_TIMEOUT", "5m"),
        ("PUNCTUAL_DEFAULT_RETRIES", "1"),
        ("PUNCTUAL_TIMEOUT_MAX", "20m"),
        ("PUNCTUAL_RETRIES_MAX", "3"),
    ];
    let server = home.server_with("127.0.0.1:0", &[], &settings);
    let api = Checked::new(&server).await;
    let spec = |more: serde_json::Value| {
        let mut spec = json!({ "run": { "probe": {} } });
        for (name, value) in more.as_object().expect("an object") {
            spec[name] = value.clone();
        }
        spec
    };
    let task = api.put("/v1/tasks/usual", spec(json!({}))).await.expect(201);
    assert_eq!((&task.body["spec"]["timeout"], &task.body["spec"]["retry"]["max"]), (&json!("PT5M"), &json!(1)));
    let own = spec(json!({ "timeout": "10m", "retry": { "max": 2 } }));
    let task = api.put("/v1/tasks/own", own).await.expect(201);
    assert_eq!((&task.body["spec"]["timeout"], &task.body["spec"]["retry"]["max"]), (&json!("PT10M"), &json!(2)));
    // What nobody wrote is for the server to decide, also from the command line.
    let cli = |args: &[&str]| {
        let output = std::process::Command::new(PUNCTUAL).args(args).args(["--server", &server.url]).output();
        output.expect("it runs")
    };
    assert!(cli(&["task", "apply", "by-flags", "--probe", "{}", "--timeout", "20m"]).status.success());
    let task = api.get("/v1/tasks/by-flags").await.expect(200);
    assert_eq!((&task.body["spec"]["timeout"], &task.body["spec"]["retry"]["max"]), (&json!("PT20M"), &json!(1)));
    let submitted = cli(&["run", "--probe", "{}", "--in", "1h", "-o", "name"]);
    let id = String::from_utf8_lossy(&submitted.stdout).trim().to_owned();
    let job = api.get(&format!("/v1/jobs/{id}")).await.expect(200);
    assert_eq!(job.body["definition"]["spec"]["timeout"], "PT5M", "{}", job.text);

    let greedy = spec(json!({ "timeout": "21m", "retry": { "max": 4 } }));
    for (path, body, under) in [
        ("/v1/jobs", json!({ "inline": greedy }), "/inline"),
        ("/v1/tasks", json!({ "name": "t", "spec": greedy }), "/spec"),
        ("/v1/schedules", json!({ "name": "s", "daily": "09:00", "inline": greedy }), "/inline"),
    ] {
        let refused = api.post(path, body).await.refused(400, "invalid_request");
        let fields: Vec<_> = refused.body["errors"].as_array().expect("fields").iter().collect();
        let named = |pointer: &str| fields.iter().any(|field| field["pointer"] == format!("{under}{pointer}"));
        assert!(named("/retry/max") && named("/timeout"), "{}", refused.text);
    }
    // A rule's own deliveries are not the user's tasks.
    let rule = json!({ "on": ["failed"], "webhook": { "url": "http://127.0.0.1:9/" } });
    api.put("/v1/notifications/ops", rule).await.expect(201);
}

#[test]
fn settings_are_shown_and_those_that_make_no_sense_are_refused() {
    let config = |variables: &[(&str, &str)], args: &[&str]| {
        let output = std::process::Command::new(PUNCTUAL)
            .arg("config")
            .args(args)
            .envs(variables.iter().copied())
            .current_dir(std::env::temp_dir())
            .output()
            .expect("it runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, shown, _) = config(&[("PUNCTUAL_READ_BATCH", "20")], &["read_batch"]);
    assert!(code == Some(0) && shown.contains("20") && shown.contains("PUNCTUAL_READ_BATCH"), "{shown}");
    for (name, value, word) in [
        ("PUNCTUAL_READ_BATCH", "0", "read_batch"),
        ("PUNCTUAL_WRITE_BATCH", "many", "write_batch"),
        ("PUNCTUAL_POLL_INTERVAL", "0s", "poll_interval"),
        ("PUNCTUAL_POLL_INTERVAL", "20s", "full_poll_interval"),
        ("PUNCTUAL_DEFAULT_TIMEOUT", "0s", "default_timeout"),
        ("PUNCTUAL_DEFAULT_RETRIES", "-1", "default_retries"),
        ("PUNCTUAL_RETRIES_MAX", "2", "default_retries (3) is more than retries_max (2)"),
        ("PUNCTUAL_TIMEOUT_MAX", "1m", "default_timeout (20m) is longer than timeout_max (1m)"),
        ("PUNCTUAL_QUARANTINE_AFTER", "0", "quarantine_after"),
        ("PUNCTUAL_PRUNE_INTERVAL", "1d", "prune_interval"),
        ("PUNCTUAL_GRPC_STREAMS_MAX", "0", "grpc_streams_max"),
    ] {
        let (code, _, said) = config(&[(name, value)], &[]);
        assert!(code == Some(2) && said.contains(word), "{name}={value}: {code:?} {said}");
    }
}
