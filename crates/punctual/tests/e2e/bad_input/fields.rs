//! Several mistakes in one request, and characters that make a text look like another.

use serde_json::{Value, json};

use crate::checked::plain_http;
use crate::cluster::{far_ahead, submit};
use crate::harness::Home;

async fn errors(url: &str, path: &str, body: &Value) -> (u16, Value) {
    // What has a name in its path is put there.
    let request = match path.matches('/').count() {
        2 => plain_http().post(format!("{url}{path}")),
        _ => plain_http().put(format!("{url}{path}")),
    };
    let answer = request.json(body).send().await.expect("an answer");
    let status = answer.status().as_u16();
    (status, answer.json().await.expect("JSON"))
}

/// What is wrong, as pointers and codes.
fn named(problem: &Value) -> Vec<(String, String)> {
    let text = |field: &Value, name: &str| field[name].as_str().unwrap_or_default().to_owned();
    let fields = problem["errors"].as_array().cloned().unwrap_or_default();
    fields.iter().map(|field| (text(field, "pointer"), text(field, "code"))).collect()
}

#[tokio::test]
async fn every_wrong_field_of_a_request_is_named_in_one_answer() {
    let home = Home::new();
    let server = home.server();
    for (path, body, expected) in [
        (
            "/v1/jobs",
            json!({ "task": "ping", "priority": 101, "tracing_id": "x".repeat(300) }),
            vec![("/priority", "out_of_range"), ("/tracing_id", "too_long")],
        ),
        (
            "/v1/jobs",
            json!({ "inline": { "run": { "http": { "url": "x", "timeout": 0 } }, "queue": "a b", "timeout": "40d" } }),
            vec![
                ("/inline/queue", "forbidden_character"),
                ("/inline/timeout", "out_of_range"),
                ("/inline/run/http/url", "invalid_value"),
                ("/inline/run/http/timeout", "out_of_range"),
            ],
        ),
        (
            "/v1/tasks/t",
            json!({ "run": { "probe": {} }, "timeout": [], "delivery": "maybe", "colour": 1, "queue": "" }),
            vec![
                ("/timeout", "wrong_type"),
                ("/delivery", "invalid_value"),
                ("/colour", "unknown_field"),
                ("/queue", "invalid_value"),
            ],
        ),
        (
            "/v1/schedules",
            json!({ "name": "a b", "task": "ping", "cron": "99 * * * *", "zone": "Atlantis", "max_runs": 0 }),
            vec![
                ("/name", "forbidden_character"),
                ("/zone", "invalid_value"),
                ("/cron", "invalid_value"),
                ("/max_runs", "out_of_range"),
            ],
        ),
        (
            "/v1/notifications/ops",
            json!({ "on": [], "tasks": ["a b"], "window": "1s", "email": { "to": ["ops@example.org"] } }),
            vec![("/on", "invalid_value"), ("/tasks/0", "forbidden_character"), ("/window", "out_of_range")],
        ),
        (
            "/v1/notifications/o%20ps",
            json!({ "queues": ["a b", "b", "c d"], "email": { "to": ["ops", "a b@c"] }, "templates": { "text": "{{ rule" } }),
            vec![
                ("name", "forbidden_character"),
                ("/queues/0", "forbidden_character"),
                ("/queues/2", "forbidden_character"),
                ("/templates/text", "invalid_value"),
                ("/email/to/0", "invalid_value"),
                ("/email/to/1", "invalid_value"),
            ],
        ),
        (
            "/v1/notifications/ops",
            json!({ "on": 7, "window": "25h", "email": { "to": [] } }),
            vec![("/on", "wrong_type"), ("/window", "out_of_range"), ("/email/to", "invalid_value")],
        ),
        (
            "/v1/artifacts",
            json!({ "size": 0, "sha256": "0", "name": " " }),
            vec![("/size", "out_of_range"), ("/sha256", "invalid_value"), ("/name", "invalid_value")],
        ),
        (
            "/v1/artifacts",
            json!({ "size": 0, "sha256": "0", "kind": "none", "note": 1 }),
            vec![
                ("/size", "out_of_range"),
                ("/sha256", "invalid_value"),
                ("/kind", "invalid_value"),
                ("/note", "unknown_field"),
            ],
        ),
        (
            "/v1/calendars/a%20b",
            json!({ "dates": ["2026-12-25", "2026-13-01", "soon"] }),
            vec![("name", "forbidden_character"), ("/dates/1", "invalid_value"), ("/dates/2", "invalid_value")],
        ),
        (
            "/v1/tasks/t",
            json!({ "run": { "command": { "line": "", "name": " ", "grace": "1h", "shell": "sh" } }, "retry": [3, "1s"] }),
            vec![
                ("/retry", "wrong_type"),
                ("/run/command/line", "invalid_value"),
                ("/run/command/name", "invalid_value"),
                ("/run/command/grace", "out_of_range"),
                ("/run/command/shell", "invalid_value"),
            ],
        ),
    ] {
        let (status, problem) = errors(&server.url, path, &body).await;
        let mut found = named(&problem);
        let mut expected: Vec<_> = expected.iter().map(|(at, code)| ((*at).to_owned(), (*code).to_owned())).collect();
        found.sort();
        expected.sort();
        assert_eq!((status, found), (400, expected), "{path} {problem}");
        assert_eq!(problem["code"], "invalid_request");
        assert!(problem["hint"].is_string(), "{problem}");
    }
}

#[tokio::test]
async fn every_wrong_parameter_of_a_list_is_named_in_one_answer() {
    let home = Home::new();
    let server = home.server();
    let log = format!("/v1/jobs/{}/logs?attempt=x&offset=-1", submit(&server.client(), &far_ahead()).await);
    for (path, expected) in [
        (
            "/v1/jobs?state=gone&kind=x&queue=a%20b&limit=0&order=up&cursor=x&scheduled_from=soon&sort=1",
            vec![
                ("state", "invalid_value"),
                ("kind", "invalid_value"),
                ("queue", "forbidden_character"),
                ("limit", "out_of_range"),
                ("order", "invalid_value"),
                ("cursor", "invalid_value"),
                ("scheduled_from", "invalid_value"),
                ("sort", "unknown_field"),
            ],
        ),
        ("/v1/tasks?limit=1001&cursor=a%20b", vec![("limit", "out_of_range"), ("cursor", "invalid_value")]),
        ("/v1/artifacts?limit=x&cursor=y", vec![("limit", "wrong_type"), ("cursor", "invalid_value")]),
        (
            "/v1/schedules?limit=x&cursor=a%20b&paused=yes&prefix=%20",
            vec![
                ("limit", "wrong_type"),
                ("cursor", "invalid_value"),
                ("paused", "invalid_value"),
                ("prefix", "forbidden_character"),
            ],
        ),
        (
            "/v1/schedules/s/occurrences?verdict=x&from=soon&limit=-1",
            vec![("verdict", "invalid_value"), ("from", "invalid_value"), ("limit", "out_of_range")],
        ),
        ("/v1/schedules/s/preview?count=0&from=soon", vec![("count", "out_of_range"), ("from", "invalid_value")]),
        ("/v1/forecast?from=soon&assume=long", vec![("from", "invalid_value"), ("assume", "invalid_value")]),
        ("/v1/backfills?limit=0&cursor=x", vec![("limit", "out_of_range"), ("cursor", "invalid_value")]),
        ("/v1/deliveries?limit=0&cursor=x", vec![("limit", "out_of_range"), ("cursor", "invalid_value")]),
        (log.as_str(), vec![("attempt", "wrong_type"), ("offset", "out_of_range")]),
    ] {
        let answer = plain_http().get(format!("{}{path}", server.url)).send().await.expect("an answer");
        let status = answer.status().as_u16();
        let problem: Value = answer.json().await.expect("JSON");
        let mut found = named(&problem);
        let mut expected: Vec<_> = expected.iter().map(|(at, code)| ((*at).to_owned(), (*code).to_owned())).collect();
        found.sort();
        expected.sort();
        assert_eq!((status, found), (400, expected), "{path} {problem}");
    }
    for path in ["/v1/jobs?state=failed,lost", "/v1/jobs?state=failed&state=lost"] {
        let answer = plain_http().get(format!("{}{path}", server.url)).send().await.expect("an answer");
        assert_eq!(answer.status(), 200, "{path}");
    }
}

#[tokio::test]
async fn one_kind_of_fault_has_one_code() {
    let home = Home::new();
    let server = home.server();
    let task = |name: &str, value: Value| {
        let mut task = json!({ "run": { "probe": {} } });
        task[name] = value;
        ("/v1/tasks/t", task)
    };
    let run = |kind: &str, fields: Value| ("/v1/tasks/t", json!({ "run": { kind: fields } }));
    let rule = |name: &str, value: Value| {
        ("/v1/notifications/n", json!({ "webhook": { "url": "https://example.com" }, name: value }))
    };
    let schedule =
        |name: &str, value: Value| ("/v1/schedules", json!({ "task": "t", "cron": "0 9 * * *", name: value }));
    let labels: Value = (0..65).map(|n| (format!("l{n}"), json!("x"))).collect::<serde_json::Map<_, _>>().into();
    let deep = serde_json::from_str::<Value>(&("[".repeat(65) + &"]".repeat(65))).expect("JSON");
    let address = "https://example.com";
    for ((path, body), pointer, code) in [
        (task("timeout", json!("40d")), "/timeout", "out_of_range"),
        (task("timeout", json!(-1)), "/timeout", "out_of_range"),
        (task("timeout", json!("4000d")), "/timeout", "out_of_range"),
        (task("priority", json!(101)), "/priority", "out_of_range"),
        (task("priority", json!(1000)), "/priority", "out_of_range"),
        (task("retry", json!({ "factor": 1000 })), "/retry", "out_of_range"),
        (run("http", json!({ "url": address, "expect_status": [99] })), "/run/http/expect_status", "out_of_range"),
        (run("command", json!({ "line": "ls", "grace": "1h" })), "/run/command/grace", "out_of_range"),
        (rule("window", json!("25h")), "/window", "out_of_range"),
        (rule("late_after", json!("8d")), "/late_after", "out_of_range"),
        (schedule("jitter", json!("2d")), "/jitter", "out_of_range"),
        (schedule("missed_after", json!("2h")), "/missed_after", "out_of_range"),
        (schedule("catch_up", json!({ "mode": "all", "max": 0 })), "/catch_up/max", "out_of_range"),
        (("/v1/artifacts", json!({ "size": 0, "sha256": "0".repeat(64) })), "/size", "out_of_range"),
        (("/v1/jobs", json!({ "task": "t", "run_at": "1969-01-01T00:00:00Z" })), "/run_at", "out_of_range"),
        (task("labels", labels), "/labels", "too_long"),
        (
            run("http", json!({ "url": address, "expect_status": vec![200; 101] })),
            "/run/http/expect_status",
            "too_long",
        ),
        (run("http", json!({ "url": format!("{address}/{}", "x".repeat(3000)) })), "/run/http/url", "too_long"),
        (run("command", json!({ "line": "x".repeat(40_000) })), "/run/command/line", "too_long"),
        (rule("tasks", json!(vec!["t"; 101])), "/tasks", "too_long"),
        (("/v1/calendars/c", json!({ "dates": vec!["2026-12-25"; 10_001] })), "/dates", "too_long"),
        (("/v1/jobs", json!({ "task": "t", "input": deep })), "/input", "too_long"),
        (("/v1/jobs", json!({ "task": "t", "input": "x".repeat(257 << 10) })), "/input", "too_long"),
        (run("http", json!({ "url": "https://example.com/\n" })), "/run/http/url", "forbidden_character"),
        (run("command", json!({ "line": "a\u{0}" })), "/run/command/line", "forbidden_character"),
    ] {
        let (status, problem) = errors(&server.url, path, &body).await;
        let expected = vec![(pointer.to_owned(), code.to_owned())];
        assert_eq!((status, named(&problem)), (400, expected), "{path} {problem}");
    }
}

#[tokio::test]
async fn durations_are_numbers_texts_or_iso_8601_and_have_one_form() {
    let home = Home::new();
    let server = home.server();
    for (written, shown) in
        [(json!(90), "PT1M30S"), (json!(1.5), "PT1.5S"), (json!("PT1M30S"), "PT1M30S"), (json!("90s"), "PT1M30S")]
    {
        let body = json!({ "run": { "probe": {} }, "timeout": written });
        let answer =
            plain_http().put(format!("{}/v1/tasks/t", server.url)).json(&body).send().await.expect("an answer");
        let task: Value = answer.json().await.expect("JSON");
        assert_eq!(task["spec"]["timeout"], shown, "{written}: {task}");
    }
}

#[tokio::test]
async fn characters_that_mislead_are_refused_by_name() {
    let home = Home::new();
    let server = home.server();
    for (text, name) in [
        ("order\u{202e}7", "U+202E (right-to-left override)"),
        ("order\u{200b}7", "U+200B (zero width space)"),
        ("order\u{2066}7", "U+2066 (left-to-right isolate)"),
        ("order\u{1b}[2J", "U+001B (escape)"),
        ("order\u{9b}7", "U+009B (a control character)"),
        ("order\u{2028}7", "U+2028 (line separator)"),
        ("order\u{e0041}", "U+E0041 (an invisible character)"),
        ("\u{2800}", "U+2800 (braille pattern blank)"),
        ("order\u{2800}7", "U+2800 (braille pattern blank)"),
    ] {
        let job = json!({ "inline": { "run": { "probe": {} } }, "tracing_id": text });
        let label = json!({ "inline": { "run": { "probe": {} }, "labels": { "zone": text } } });
        let file = json!({ "size": 5, "sha256": "0".repeat(64), "name": text });
        for (path, body) in [("/v1/jobs", job), ("/v1/jobs", label), ("/v1/artifacts", file)] {
            let (status, problem) = errors(&server.url, path, &body).await;
            let said = problem["detail"].as_str().unwrap_or_default();
            assert!(status == 400 && said.contains(name), "{path} {text:?}: {problem}");
            assert_eq!(problem["errors"][0]["code"], "forbidden_character", "{problem}");
        }
        let (status, problem) = errors(&server.url, "/v1/tasks", &json!({ "name": text, "spec": {} })).await;
        assert!(status == 400, "{problem}");
    }
    // Letters of any script, and emoji.
    for text in ["Bestellung-ä", "注文7", "הזמנה", "❤\u{fe0f}"] {
        let job = json!({ "inline": { "run": { "probe": {} } }, "tracing_id": text });
        assert_eq!(errors(&server.url, "/v1/jobs", &job).await.0, 201, "{text}");
    }
}
