//! Every way to write a definition wrongly that we could think of. Each is refused with its place, and nothing is stored.

use serde_json::{Value, json};

use super::probe;
use crate::checked::Checked;
use crate::harness::Home;

/// What is sent, and what the answer has to name: a place, or what is wrong with the whole.
type Case = (Value, &'static str);

fn a() -> Value {
    probe("a", &[], json!({}))
}

/// A workflow of `a` and of `n`, which comes after it, with these fields.
fn with(fields: &Value) -> Value {
    let mut node = probe("n", &["a"], json!({}));
    for (name, value) in fields.as_object().expect("fields") {
        node[name] = value.clone();
    }
    json!({ "nodes": [a(), node] })
}

/// A workflow of `a`, with these fields beside its nodes.
fn beside(fields: &Value) -> Value {
    let mut definition = json!({ "nodes": [a()] });
    for (name, value) in fields.as_object().expect("fields") {
        definition[name] = value.clone();
    }
    definition
}

fn nodes(nodes: &[Value]) -> Value {
    json!({ "nodes": nodes })
}

/// A node that only runs a task and comes after others.
fn after(name: &str, needs: &[&str]) -> Value {
    probe(name, needs, json!({}))
}

fn nested(depth: usize) -> Value {
    (0..depth).fold(json!({ "path": "a", "eq": 1 }), |inner, _| json!({ "not": inner }))
}

fn graphs() -> Vec<Case> {
    let many = (0..1001).map(|n| after(&format!("n{n}"), &[])).collect::<Vec<_>>();
    let all: Vec<String> = (0..150).map(|n| format!("n{n}")).collect();
    let needs: Vec<&str> = all.iter().map(String::as_str).collect();
    let dense: Vec<Value> = (0..150).map(|n| after(&all[n], &needs[..n])).collect();
    let ring = |len: usize| -> Vec<Value> {
        (0..len).map(|n| after(&format!("n{n}"), &[&format!("n{}", (n + len - 1) % len)])).collect()
    };
    vec![
        (json!({}), "nodes"),
        (nodes(&[]), "/nodes"),
        (json!({ "nodes": null }), "/nodes"),
        (json!({ "nodes": "a" }), "/nodes"),
        (json!({ "nodes": { "a": {} } }), "/nodes"),
        (json!({ "nodes": [1] }), "/nodes/0"),
        (json!({ "nodes": [null] }), "/nodes/0"),
        (json!({ "nodes": [[]] }), "/nodes/0"),
        (json!({ "nodes": [{}] }), "/nodes/0"),
        (json!([]), "object"),
        (json!("nodes"), "object"),
        (json!(7), "object"),
        (json!(null), "object"),
        (nodes(&many), "/nodes"),
        (nodes(&dense), "/nodes"),
        (nodes(&[after("a", &["a"])]), "a > a"),
        (nodes(&ring(2)), "n0 > n1 > n0"),
        (nodes(&ring(3)), "n2"),
        (nodes(&ring(500)), "cycle"),
        (nodes(&[a(), after("x", &["y", "a"]), after("y", &["x"])]), "/nodes/"),
        (nodes(&[a(), a()]), "/nodes/1/name"),
        (nodes(&[after("a", &["b"])]), "/nodes/0/needs/0"),
        (nodes(&[a(), after("b", &["a", "a"])]), "/nodes/1/needs/1"),
        (nodes(&[a(), after("b", &["A"])]), "/nodes/1/needs/0"),
        (nodes(&[a(), after("b", &[""])]), "/nodes/1/needs/0"),
        (with(&json!({ "needs": "a" })), "/nodes/1/needs"),
        (with(&json!({ "needs": [1] })), "/nodes/1/needs/0"),
        (with(&json!({ "needs": [["a"]] })), "/nodes/1/needs/0"),
        (with(&json!({ "needs": null })), "/nodes/1/needs"),
    ]
}

fn names() -> Vec<Case> {
    vec![
        (nodes(&[after("", &[])]), "/nodes/0/name"),
        (nodes(&[after("run", &[])]), "/nodes/0/name"),
        (nodes(&[after("item", &[])]), "/nodes/0/name"),
        (nodes(&[after("a b", &[])]), "/nodes/0/name"),
        (nodes(&[after("a.b", &[])]), "/nodes/0/name"),
        (nodes(&[after("a/b", &[])]), "/nodes/0/name"),
        (nodes(&[after("ä", &[])]), "/nodes/0/name"),
        (nodes(&[after("a\u{0}", &[])]), "/nodes/0/name"),
        (nodes(&[after("\u{1b}[31m", &[])]), "/nodes/0/name"),
        (nodes(&[after(&"x".repeat(65), &[])]), "/nodes/0/name"),
        (with(&json!({ "name": 1 })), "/nodes/1/name"),
        (with(&json!({ "name": null })), "/nodes/1/name"),
        (with(&json!({ "name": ["n"] })), "/nodes/1/name"),
    ]
}

fn kinds() -> Vec<Case> {
    let run = json!({ "run": { "probe": {} } });
    let inline = |fields: Value| json!({ "inline": fields });
    vec![
        (nodes(&[json!({ "name": "a" })]), "/nodes/0"),
        (with(&json!({ "task": "t" })), "/nodes/1"),
        (with(&json!({ "workflow": "w" })), "/nodes/1"),
        (with(&json!({ "gate": {} })), "/nodes/1"),
        (nodes(&[json!({ "name": "a", "task": "gone" })]), "/nodes/0/task"),
        (nodes(&[json!({ "name": "a", "task": "" })]), "/nodes/0/task"),
        (nodes(&[json!({ "name": "a", "task": "\u{0}" })]), "/nodes/0/task"),
        (nodes(&[json!({ "name": "a", "task": 1 })]), "/nodes/0/task"),
        (nodes(&[json!({ "name": "a", "workflow": "gone" })]), "/nodes/0/workflow"),
        (nodes(&[json!({ "name": "a", "workflow": "" })]), "/nodes/0"),
        (nodes(&[json!({ "name": "a", "workflow": "bad" })]), "bad > bad"),
        (nodes(&[json!({ "name": "a", "workflow": { "name": "w" } })]), "/nodes/0/workflow"),
        (with(&inline(json!({}))), "/nodes/1/inline"),
        (with(&inline(json!({ "run": {} }))), "/nodes/1/inline/run"),
        (with(&inline(json!({ "run": { "nothing": {} } }))), "/nodes/1/inline/run"),
        (with(&inline(json!({ "run": { "probe": {} }, "queue": "" }))), "/nodes/1/inline/queue"),
        (with(&inline(json!({ "run": { "probe": {} }, "queues": "a" }))), "queues"),
        (with(&inline(json!({ "run": { "probe": {} }, "timeout": "-1s" }))), "/nodes/1/inline/timeout"),
        (with(&inline(json!({ "run": { "probe": {} }, "retry": { "max": 100_000 } }))), "/nodes/1/inline/retry/max"),
        (with(&inline(json!({ "run": { "http": { "url": "gopher://x" } } }))), "/nodes/1/inline/run/http/url"),
        (with(&inline(json!("probe"))), "/nodes/1/inline"),
        (with(&json!({ "need": ["a"] })), "need"),
        (with(&json!({ "inline": run, "retries": 1000 })), "/nodes/1/retries"),
        (with(&json!({ "retries": -1 })), "/nodes/1/retries"),
        (with(&json!({ "retries": 1.5 })), "/nodes/1/retries"),
        (with(&json!({ "retries": "3" })), "/nodes/1/retries"),
        (with(&json!({ "retries": 1e30 })), "/nodes/1/retries"),
        (with(&json!({ "retries": 1, "for_each": { "from": "a" } })), "/nodes/1/retries"),
        (nodes(&[json!({ "name": "a", "gate": {}, "retries": 1 })]), "/nodes/0/retries"),
        (nodes(&[json!({ "name": "a", "gate": {}, "input": {} })]), "/nodes/0"),
        (nodes(&[json!({ "name": "a", "gate": {}, "for_each": { "from": "run" } })]), "/nodes/0"),
        (nodes(&[json!({ "name": "a", "gate": { "timeout": "PT0S" } })]), "/nodes/0/gate/timeout"),
        (nodes(&[json!({ "name": "a", "gate": { "timeout": "P91D" } })]), "/nodes/0/gate/timeout"),
        (nodes(&[json!({ "name": "a", "gate": { "timeout": "soon" } })]), "/nodes/0/gate/timeout"),
        (nodes(&[json!({ "name": "a", "gate": { "timeout": [5] } })]), "/nodes/0/gate/timeout"),
        (nodes(&[json!({ "name": "a", "gate": { "on_timeout": "wait" } })]), "/nodes/0/gate/on_timeout"),
        (nodes(&[json!({ "name": "a", "gate": { "note": "x".repeat(257) } })]), "/nodes/0/gate/note"),
        (nodes(&[json!({ "name": "a", "gate": { "who": "me" } })]), "who"),
        (nodes(&[json!({ "name": "a", "gate": true })]), "/nodes/0/gate"),
    ]
}

fn rules() -> Vec<Case> {
    vec![
        (with(&json!({ "when": "always" })), "/nodes/1/when"),
        (with(&json!({ "when": null })), "/nodes/1/when"),
        (with(&json!({ "when": ["all_done"] })), "/nodes/1/when"),
        (with(&json!({ "when": "one_failed" })), "/nodes/1/when"),
        (with(&json!({ "needs": [], "when": "one_succeeded" })), "/nodes/1/when"),
        (with(&json!({ "needs": [], "when": "none_failed_one_succeeded" })), "/nodes/1/when"),
        (beside(&json!({ "on_node_failure": "retry" })), "/on_node_failure"),
        (beside(&json!({ "timeout": "PT0S" })), "/timeout"),
        (beside(&json!({ "timeout": "P91D" })), "/timeout"),
        (beside(&json!({ "timeout": "-PT1S" })), "/timeout"),
        (beside(&json!({ "timeout": "P99999999999D" })), "/timeout"),
        (beside(&json!({ "timeout": true })), "/timeout"),
        (beside(&json!({ "timeouts": "PT1S" })), "timeouts"),
        (beside(&json!({ "on_end": {} })), "/on_end"),
        (beside(&json!({ "on_end": [{ "name": "a", "task": "t" }] })), "/on_end/0/name"),
        (beside(&json!({ "on_end": [{ "name": "e" }] })), "/on_end/0"),
        (beside(&json!({ "on_end": [{ "name": "e", "task": "gone" }] })), "/on_end/0/task"),
        (beside(&json!({ "on_end": [{ "name": "e", "gate": {} }] })), "gate"),
        (beside(&json!({ "on_failure": [{ "name": "e", "task": "t", "needs": ["a"] }] })), "needs"),
        (beside(&json!({ "on_success": vec![json!({ "name": "e", "task": "t" }); 21] })), "/on_success"),
        (
            beside(&json!({ "nodes": [a(), after("n", &["e"])], "on_end": [{ "name": "e", "task": "t" }] })),
            "/nodes/1/needs/0",
        ),
    ]
}

fn conditions() -> Vec<Case> {
    let condition = |condition: Value| with(&json!({ "if": condition }));
    let many: Vec<Value> = (0..101).map(|n| json!({ "path": "a", "eq": n })).collect();
    vec![
        (condition(json!({})), "/nodes/1/if"),
        (condition(json!(true)), "/nodes/1/if"),
        (condition(json!("a.rows > 1")), "/nodes/1/if"),
        (condition(json!([])), "/nodes/1/if"),
        (condition(json!({ "path": "a" })), "/nodes/1/if"),
        (condition(json!({ "eq": 1 })), "/nodes/1/if/path"),
        (condition(json!({ "path": 1, "eq": 1 })), "/nodes/1/if/path"),
        (condition(json!({ "path": "a", "eq": 1, "lt": 2 })), "/nodes/1/if"),
        (condition(json!({ "path": "a", "gt": 1 })), "gt"),
        (condition(json!({ "path": "a", "lt": true })), "/nodes/1/if/lt"),
        (condition(json!({ "path": "a", "lt": [1] })), "/nodes/1/if/lt"),
        (condition(json!({ "path": "a", "lt": null })), "/nodes/1/if/lt"),
        (condition(json!({ "path": "a", "in": 1 })), "/nodes/1/if/in"),
        (condition(json!({ "path": "a", "in": [] })), "/nodes/1/if/in"),
        (condition(json!({ "path": "a", "in": vec![1; 101] })), "/nodes/1/if/in"),
        (condition(json!({ "path": "a", "exists": "yes" })), "/nodes/1/if/exists"),
        (condition(json!({ "all": [] })), "/nodes/1/if/all"),
        (condition(json!({ "all": {} })), "/nodes/1/if/all"),
        (condition(json!({ "any": many })), "/nodes/1/if/any"),
        (condition(json!({ "not": [] })), "/nodes/1/if/not"),
        (condition(json!({ "not": {} })), "/nodes/1/if/not"),
        (condition(json!({ "all": [{ "path": "b", "eq": 1 }] })), "/nodes/1/if/all/0/path"),
        (condition(json!({ "all": [], "any": [] })), "/nodes/1/if"),
        (condition(json!({ "path": "a", "eq": 1, "not": {} })), "/nodes/1/if"),
        (condition(json!({ "path": "item", "eq": 1 })), "/nodes/1/if/path"),
        (condition(nested(40)), "/nodes/1/if/not"),
        (condition(nested(200)), "deep"),
    ]
}

fn paths_and_lists() -> Vec<Case> {
    let from = |path: Value| with(&json!({ "input": { "x": { "from": path } } }));
    let each = |fields: Value| with(&json!({ "for_each": fields }));
    let wide: serde_json::Map<String, Value> = (0..101).map(|n| (format!("f{n}"), json!({ "value": n }))).collect();
    let gate = json!({ "name": "g", "gate": {} });
    vec![
        (from(json!("b")), "/nodes/1/input/x/from"),
        (from(json!("n.rows")), "/nodes/1/input/x/from"),
        (from(json!("")), "/nodes/1/input/x/from"),
        (from(json!(".")), "/nodes/1/input/x/from"),
        (from(json!("a.")), "/nodes/1/input/x/from"),
        (from(json!("a..b")), "/nodes/1/input/x/from"),
        (from(json!(".a")), "/nodes/1/input/x/from"),
        (from(json!("item")), "/nodes/1/input/x/from"),
        (from(json!("$.a")), "/nodes/1/input/x/from"),
        (from(json!("{{ a }}")), "/nodes/1/input/x/from"),
        (from(json!(["a", "b"])), "/nodes/1/input/x/from"),
        (from(json!(format!("a{}", ".b".repeat(300)))), "/nodes/1/input/x/from"),
        (
            nodes(&[gate, {
                let mut n = after("n", &["g"]);
                n["input"] = json!({ "x": { "from": "g" } });
                n
            }]),
            "/nodes/1/input/x/from",
        ),
        (with(&json!({ "input": { "x": {} } })), "/nodes/1/input/x"),
        (with(&json!({ "input": { "x": 1 } })), "/nodes/1/input/x"),
        (with(&json!({ "input": { "x": { "from": "a", "value": 1 } } })), "/nodes/1/input/x"),
        (with(&json!({ "input": { "x": { "value": 1, "default": 1 } } })), "/nodes/1/input/x/default"),
        (with(&json!({ "input": { "x": { "form": "a" } } })), "form"),
        (with(&json!({ "input": { "a/b~": {} } })), "/nodes/1/input/a~1b~0"),
        (with(&json!({ "input": [] })), "/nodes/1/input"),
        (with(&json!({ "input": "run" })), "/nodes/1/input"),
        (with(&json!({ "input": wide })), "/nodes/1/input"),
        (beside(&json!({ "output": { "x": { "from": "b" } } })), "/output/x/from"),
        (beside(&json!({ "output": { "x": {} } })), "/output/x"),
        (beside(&json!({ "output": [] })), "/output"),
        (each(json!({})), "/nodes/1/for_each"),
        (each(json!([1, 2])), "/nodes/1/for_each"),
        (each(json!({ "from": [1] })), "/nodes/1/for_each/from"),
        (each(json!({ "from": "b" })), "/nodes/1/for_each/from"),
        (each(json!({ "from": "item" })), "/nodes/1/for_each/from"),
        (each(json!({ "from": "a", "max": 0 })), "/nodes/1/for_each/max"),
        (each(json!({ "from": "a", "max": 10_001 })), "/nodes/1/for_each/max"),
        (each(json!({ "from": "a", "max": -1 })), "/nodes/1/for_each/max"),
        (each(json!({ "from": "a", "max": 1e99 })), "/nodes/1/for_each/max"),
        (each(json!({ "from": "a", "at_once": 0 })), "/nodes/1/for_each/at_once"),
        (each(json!({ "from": "a", "at_once": 1001 })), "/nodes/1/for_each/at_once"),
        (each(json!({ "from": "a", "at_once": "all" })), "/nodes/1/for_each/at_once"),
        (each(json!({ "from": "a", "collect": true })), "collect"),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn every_bad_definition_is_refused_with_its_place_and_nothing_is_stored() {
    let home = Home::new();
    let server = home.server();
    let api = Checked::new(&server).await;
    let cases = [graphs(), names(), kinds(), rules(), conditions(), paths_and_lists()].concat();
    assert!(cases.len() >= 120, "{}", cases.len());
    let mut unplaced = Vec::new();
    for (definition, place) in &cases {
        let refused = api.put("/v1/workflows/bad", definition.clone()).await.refused(400, "invalid_request");
        if !refused.text.contains(place) {
            let shown: String = definition.to_string().chars().take(200).collect();
            unplaced.push(format!("{place} is not in {}\n  for {shown}", refused.text));
        }
    }
    assert!(unplaced.is_empty(), "{}", unplaced.join("\n"));
    // Larger than a request may be.
    let large = beside(&json!({ "output": { "x": { "value": "x".repeat(2 << 20) } } }));
    api.put("/v1/workflows/bad", large).await.refused(413, "payload_too_large");
    for name in ["a%20b", "%00", ".."] {
        let answer = api.put(&format!("/v1/workflows/{name}"), nodes(&[a()])).await;
        assert!((400..500).contains(&answer.status), "{name}: {}", answer.text);
    }
    assert_eq!(api.get("/v1/workflows").await.expect(200).body["workflows"], json!([]));
    api.get("/v1/workflows/bad").await.refused(404, "workflow_not_found");
}
