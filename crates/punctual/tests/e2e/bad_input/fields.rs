//! Several mistakes in one request, and characters that make a text look like another.

use serde_json::{Value, json};

use crate::checked::plain_http;
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
async fn durations_are_numbers_texts_or_iso_8601_and_have_one_form() {
    let home = Home::new();
    let server = home.server();
    for (written, shown) in
        [(json!(90), "1m 30s"), (json!(1.5), "1s 500ms"), (json!("PT1M30S"), "1m 30s"), (json!("90s"), "1m 30s")]
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
