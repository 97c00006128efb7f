//! Definitions that are refused, each with the place of its fault.

use serde_json::{Value, json};

use crate::workflow::graph::Graph;
use crate::workflow::spec::WorkflowSpec;

fn faults(value: Value) -> Vec<(String, String)> {
    let spec: WorkflowSpec = serde_json::from_value(value).unwrap();
    let faults = Graph::of(&spec).expect_err("it is refused");
    faults.into_iter().map(|fault| (fault.place, fault.detail)).collect()
}

/// One fault: where, and a part of what.
fn refused(value: Value, place: &str, detail: &str) {
    let faults = faults(value);
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert_eq!(faults[0].0, place, "{faults:?}");
    assert!(faults[0].1.contains(detail), "{faults:?}");
}

fn node(fields: Value) -> Value {
    let mut node = json!({ "name": "n", "task": "t" });
    for (name, value) in fields.as_object().unwrap() {
        node[name] = value.clone();
    }
    node
}

/// A node `a`, and a node `n` that needs it.
fn two(fields: Value) -> Value {
    let mut second = node(json!({ "needs": ["a"] }));
    for (name, value) in fields.as_object().unwrap() {
        second[name] = value.clone();
    }
    json!({ "nodes": [{ "name": "a", "task": "t" }, second] })
}

fn chain(needs: &[(&str, &[&str])]) -> Value {
    let node = |(name, needs): &(&str, &[&str])| json!({ "name": name, "task": "t", "needs": needs });
    json!({ "nodes": needs.iter().map(node).collect::<Vec<_>>() })
}

#[test]
fn a_cycle_is_printed() {
    refused(chain(&[("x", &[]), ("a", &["c", "x"]), ("b", &["a"]), ("c", &["b"])]), "/nodes/1/needs", "a > b > c > a");
    refused(chain(&[("a", &["a"])]), "/nodes/0/needs", "a > a");
}

#[test]
fn names_and_needs_are_checked() {
    refused(chain(&[("a", &["b"])]), "/nodes/0/needs/0", "there is no node `b`");
    refused(chain(&[("a", &[]), ("a", &[])]), "/nodes/1/name", "another node is called `a`");
    refused(chain(&[("a", &[]), ("b", &["a", "a"])]), "/nodes/1/needs/1", "named twice");
    for name in ["", "a.b", "a b", "ä"] {
        refused(chain(&[(name, &[])]), "/nodes/0/name", "letters, digits");
    }
    for name in ["run", "item"] {
        refused(chain(&[(name, &[])]), "/nodes/0/name", "cannot be the name");
    }
    refused(
        json!({ "nodes": [{ "name": "a", "task": "t", "needs": ["h"] }], "on_end": [{ "name": "h", "task": "t" }] }),
        "/nodes/0/needs/0",
        "runs after all nodes",
    );
}

#[test]
fn a_node_is_one_thing() {
    refused(
        json!({ "nodes": [{ "name": "n" }] }),
        "/nodes/0",
        "exactly one of `task`, `inline`, `workflow` and `gate`",
    );
    refused(json!({ "nodes": [node(json!({ "gate": {} }))] }), "/nodes/0", "exactly one of");
    refused(json!({ "nodes": [{ "name": "n", "gate": {}, "input": {} }] }), "/nodes/0", "a gate runs nothing");
    refused(json!({ "nodes": [node(json!({}))], "on_end": [{ "name": "h" }] }), "/on_end/0", "exactly one of");
}

#[test]
fn nodes_that_could_never_start_are_refused() {
    for when in ["one_failed", "one_succeeded", "none_failed_one_succeeded"] {
        let spec = json!({ "nodes": [node(json!({ "when": when }))], "on_node_failure": "continue" });
        refused(spec, "/nodes/0/when", "never start");
    }
    refused(two(json!({ "when": "one_failed" })), "/nodes/1/when", "after a failure, nothing more");
}

#[test]
fn paths_are_checked() {
    let input = |from: &str| two(json!({ "input": { "x": { "from": from } } }));
    refused(input("gone.x"), "/nodes/1/input/x/from", "there is no node `gone`");
    refused(input("n.x"), "/nodes/1/input/x/from", "does not come before");
    refused(input("a..x"), "/nodes/1/input/x/from", "must be a path");
    refused(input(""), "/nodes/1/input/x/from", "must be a path");
    refused(input("item.x"), "/nodes/1/input/x/from", "for_each");
    refused(input(&format!("a.{}", "x".repeat(600))), "/nodes/1/input/x/from", "at most 512");
    refused(two(json!({ "input": { "a/b": {} } })), "/nodes/1/input/a~1b", "exactly one of `from` and `value`");
    refused(two(json!({ "input": { "x": { "from": "a", "value": 1 } } })), "/nodes/1/input/x", "exactly one");
    refused(two(json!({ "input": { "x": { "value": 1, "default": 2 } } })), "/nodes/1/input/x/default", "only `from`");
    let gate = json!({ "nodes": [{ "name": "g", "gate": {} }, node(json!({ "needs": ["g"], "input": { "x": { "from": "g" } } }))] });
    refused(gate, "/nodes/1/input/x/from", "has no output");
}

#[test]
fn conditions_are_checked() {
    let condition = |condition: Value| two(json!({ "if": condition }));
    let at = "/nodes/1/if";
    refused(condition(json!({})), at, "a comparison with a `path`, or exactly one of");
    refused(condition(json!({ "path": "a" })), at, "exactly one of `eq`");
    refused(condition(json!({ "path": "a", "eq": 1, "ne": 2 })), at, "exactly one of `eq`");
    refused(condition(json!({ "eq": 1 })), "/nodes/1/if/path", "needs a `path`");
    refused(condition(json!({ "path": "a", "lt": [1] })), "/nodes/1/if/lt", "a number or a text");
    refused(condition(json!({ "path": "a", "lt": null })), "/nodes/1/if/lt", "a number or a text");
    refused(condition(json!({ "path": "a", "in": [] })), "/nodes/1/if/in", "1 to 100");
    refused(condition(json!({ "all": [] })), "/nodes/1/if/all", "1 to 100");
    refused(condition(json!({ "all": [{ "path": "a", "eq": 1 }], "path": "a", "eq": 1 })), at, "exactly one of `eq`");
    refused(condition(json!({ "any": [{ "path": "gone", "eq": 1 }] })), "/nodes/1/if/any/0/path", "there is no node");
    let mut deep = json!({ "path": "a", "eq": 1 });
    for _ in 0..20 {
        deep = json!({ "not": deep });
    }
    refused(condition(deep), "/nodes/1/if/not/not/not/not/not/not/not/not/not/not", "at most 10 deep");
}

#[test]
fn limits_are_checked() {
    let many: Vec<Value> = (0..1001).map(|n| json!({ "name": format!("n{n}"), "task": "t" })).collect();
    refused(json!({ "nodes": many }), "/nodes", "1 to 1000 nodes, not 1001");
    refused(json!({ "nodes": [] }), "/nodes", "1 to 1000 nodes, not 0");
    let edges = json!({ "name": "n", "task": "t", "needs": vec!["x"; 10_001] });
    refused(json!({ "nodes": [edges] }), "/nodes", "at most 10000, not 10001");
    let one = json!([{ "name": "n", "task": "t" }]);
    for timeout in ["PT0S", "P91D"] {
        refused(json!({ "nodes": one, "timeout": timeout }), "/timeout", "more than 0 and at most");
    }
    for (field, value) in [("max", 0), ("max", 10_001), ("at_once", 0), ("at_once", 1_001)] {
        let node = node(json!({ "for_each": { "from": "run", field: value } }));
        refused(json!({ "nodes": [node] }), &format!("/nodes/0/for_each/{field}"), "must be 1 to");
    }
    refused(json!({ "nodes": [node(json!({ "retries": 101 }))] }), "/nodes/0/retries", "at most 100");
    let both = node(json!({ "retries": 1, "for_each": { "from": "run" } }));
    refused(json!({ "nodes": [both] }), "/nodes/0/retries", "single job");
    let gate = json!({ "name": "g", "gate": { "timeout": "PT0S" } });
    refused(json!({ "nodes": [gate] }), "/nodes/0/gate/timeout", "more than 0");
}

#[test]
fn all_faults_are_told_at_once() {
    let spec = json!({ "nodes": [
        { "name": "a", "task": "t", "needs": ["x"] },
        { "name": "b", "task": "t", "input": { "x": { "from": "y" } } },
    ] });
    let places: Vec<String> = faults(spec).into_iter().map(|(place, _)| place).collect();
    assert_eq!(places, ["/nodes/0/needs/0", "/nodes/1/input/x/from"]);
}

#[test]
fn fields_that_nobody_knows_are_refused() {
    for spec in [
        json!({ "nodes": [], "node": [] }),
        json!({ "nodes": [{ "name": "a", "task": "t", "need": [] }] }),
        json!({ "nodes": [{ "name": "a", "task": "t", "if": { "path": "run", "gt": 1 } }] }),
        json!({ "nodes": [{ "name": "a", "task": "t", "for_each": { "from": "run", "limit": 1 } }] }),
        json!({ "nodes": [{ "name": "a", "task": "t", "when": "always" }] }),
    ] {
        assert!(serde_json::from_value::<WorkflowSpec>(spec.clone()).is_err(), "{spec}");
    }
}
