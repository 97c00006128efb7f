//! Definitions and requests that are refused, with the place of the fault, and of which nothing is stored.

use serde_json::{Value, json};

use super::commands::punctual;
use super::{apply, probe, start};
use crate::checked::Checked;
use crate::harness::Home;

fn with(fields: Value) -> Value {
    let mut node = probe("n", &["a"], json!({}));
    for (name, value) in fields.as_object().expect("fields") {
        node[name] = value.clone();
    }
    json!({ "nodes": [probe("a", &[], json!({})), node] })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_definition_names_its_fault_and_leaves_nothing() {
    let home = Home::new();
    let server = home.server();
    let api = Checked::new(&server).await;
    let mut deep = json!({ "path": "a", "eq": 1 });
    for _ in 0..40 {
        deep = json!({ "not": deep });
    }
    for (definition, place) in [
        (
            json!({ "nodes": [probe("a", &["c"], json!({})), probe("b", &["a"], json!({})), probe("c", &["b"], json!({}))] }),
            "a > b > c > a",
        ),
        (json!({ "nodes": [] }), "/nodes"),
        (json!({ "nodes": [probe("a", &["b"], json!({}))] }), "/nodes/0/needs/0"),
        (json!({ "nodes": [probe("a", &[], json!({})), probe("a", &[], json!({}))] }), "/nodes/1/name"),
        (json!({ "nodes": [probe("run", &[], json!({}))] }), "/nodes/0/name"),
        (json!({ "nodes": [{ "name": "a", "task": "gone" }] }), "/nodes/0/task"),
        (json!({ "nodes": [{ "name": "a" }] }), "/nodes/0"),
        (
            json!({ "nodes": [{ "name": "a", "inline": { "run": { "probe": {} }, "queue": "" } }] }),
            "/nodes/0/inline/queue",
        ),
        (with(json!({ "when": "one_failed" })), "/nodes/1/when"),
        (with(json!({ "input": { "x": { "from": "b" } } })), "/nodes/1/input/x/from"),
        (with(json!({ "if": { "path": "a", "eq": 1, "lt": 2 } })), "/nodes/1/if"),
        (with(json!({ "if": deep })), "/nodes/1/if/not"),
        (with(json!({ "for_each": { "from": "a", "max": 10_001 } })), "/nodes/1/for_each/max"),
        (with(json!({ "retries": 1000 })), "/nodes/1/retries"),
        (json!({ "nodes": [probe("a", &[], json!({}))], "timeout": "PT0S" }), "/timeout"),
        (json!({ "nodes": [probe("a", &[], json!({}))], "on_end": [{ "name": "a", "task": "t" }] }), "/on_end/0/name"),
    ] {
        let refused = api.put("/v1/workflows/bad", definition).await.refused(400, "invalid_request");
        assert!(refused.text.contains(place), "{place} is not in {}", refused.text);
    }
    for (definition, field) in [
        (json!({ "nodes": [{ "name": "a", "need": [] }] }), "need"),
        (json!({ "nodes": "a" }), "/nodes"),
        (json!({ "nodes": [{ "name": "a", "when": "always" }] }), "when"),
        (json!({ "nodes": [{ "name": "a", "gate": { "timeout": "soon" } }] }), "timeout"),
        (json!([]), ""),
    ] {
        let refused = api.put("/v1/workflows/bad", definition).await.refused(400, "invalid_request");
        assert!(refused.text.contains(field), "{field} is not in {}", refused.text);
    }
    api.get("/v1/workflows/bad").await.refused(404, "workflow_not_found");
    assert_eq!(api.get("/v1/workflows").await.expect(200).body["workflows"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_about_runs_that_do_not_fit_are_refused() {
    let home = Home::new();
    let server = home.server();
    let api = Checked::new(&server).await;
    let definition =
        json!({ "nodes": [probe("a", &[], json!({})), json!({ "name": "ok", "gate": {}, "needs": ["a"] })] });
    apply(&api, "flow", definition.clone()).await;
    let same = api.put("/v1/workflows/flow", definition).await.expect(200);
    assert_eq!((&same.body["version"], &same.body["is_new"]), (&json!(1), &json!(false)));
    let run = start(&api, "flow", json!({})).await;
    let none = "run_01m7et433kee4803yssgvaf2fh";
    for (path, body, status, code) in [
        ("/v1/workflows/gone/runs".to_owned(), json!({}), 404, "workflow_not_found"),
        ("/v1/workflows/flow/runs".to_owned(), json!({ "version": 2 }), 404, "workflow_not_found"),
        (format!("/v1/runs/{none}/cancel"), json!({}), 404, "run_not_found"),
        (format!("/v1/runs/{none}/rerun"), json!({}), 404, "run_not_found"),
        ("/v1/runs/job_01m7et433kee4803yssgvaf2fh/cancel".to_owned(), json!({}), 400, "invalid_request"),
        (format!("/v1/runs/{run}/decide"), json!({ "node": "ok", "decision": "approve" }), 409, "run_refused"),
        (format!("/v1/runs/{run}/decide"), json!({ "node": "x", "decision": "approve" }), 400, "invalid_request"),
        (format!("/v1/runs/{run}/decide"), json!({ "node": "ok", "decision": "maybe" }), 400, "invalid_request"),
        (format!("/v1/runs/{run}/skip"), json!({ "node": "a" }), 409, "run_refused"),
        (format!("/v1/runs/{run}/resume"), json!({}), 409, "run_refused"),
        (format!("/v1/runs/{run}/resume"), json!({ "skip": ["x"] }), 400, "invalid_request"),
    ] {
        api.post(&path, body).await.refused(status, code);
    }
    for path in ["/v1/runs?cursor=x", "/v1/runs?limit=0", "/v1/workflows?limit=0", "/v1/workflows/flow?version=x"] {
        api.get(path).await.refused(400, "invalid_request");
    }
}

/// What the command line reads is YAML, which can be made to grow, to nest and to repeat itself.
#[tokio::test(flavor = "multi_thread")]
async fn yaml_bombs_are_refused_with_their_line_and_nothing_is_stored() {
    let home = Home::new();
    let server = home.server();
    let api = Checked::new(&server).await;
    let laughs: String = (1..10).fold("l0: &l0 [ha, ha, ha, ha]\n".to_owned(), |text, n| {
        let before = n - 1;
        text + &format!("l{n}: &l{n} [*l{before}, *l{before}, *l{before}, *l{before}]\n")
    });
    let indented: String = (0..200).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
    let path = json!({ "nodes": [probe("a", &[], json!({}))], "output": { "x": { "value": "x".repeat(1 << 20) } } });
    for (text, reason) in [
        (laughs, "line 1: anchors (`&name`) are not supported"),
        ("nodes: *n\n".to_owned(), "line 1: "),
        ("nodes:\n  - <<: *base\n    name: a\n".to_owned(), "line 2: "),
        ("nodes: !!python/object/apply:os.system [ls]\n".to_owned(), "line 1: tags (`!name`) are not supported"),
        ("[".repeat(100_000), "line 1: it is nested more than 64 deep"),
        ("{a: ".repeat(100_000), "line 1: it is nested more than 64 deep"),
        (indented, "line 65: it is nested more than 64 deep"),
        ("- ".repeat(100_000), "line 1: it is nested more than 64 deep"),
        (path.to_string(), "may have 1048576"),
        (" ".repeat(2 << 20), "may have 1048576"),
        ("nodes: []\n---\nnodes: []\n".to_owned(), "line 2: a file has one definition"),
        ("nodes: []\nnodes: []\n".to_owned(), "line 2: `nodes` is there twice"),
        (String::new(), "it is empty"),
    ] {
        std::fs::write(home.file("bomb.yaml"), &text).expect("the file is written");
        let (code, _, said) = punctual(&server, &["apply", "bad", home.file("bomb.yaml").to_str().expect("UTF-8")]);
        let begin: String = text.chars().take(40).collect();
        assert!(code == 2 && said.contains(reason), "{begin}: {code} {said}");
    }
    assert_eq!(api.get("/v1/workflows").await.expect(200).body["workflows"], json!([]));
}
