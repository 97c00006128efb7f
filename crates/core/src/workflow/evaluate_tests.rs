//! What follows from single events.

use serde_json::{Value, json};

use super::evaluate::{GateVerdict, Refusal, RunEvent};
use super::spec::WorkflowSpec;
use super::state::{NodeStatus, RunStatus};
use super::testing::Player;
use crate::lifecycle::JobState;
use crate::time::Span;

fn spec(value: Value) -> WorkflowSpec {
    serde_json::from_value(value).unwrap()
}

/// Nodes of the same task, each with its other fields.
fn nodes(nodes: Value) -> WorkflowSpec {
    let nodes: Vec<Value> = nodes
        .as_array()
        .unwrap()
        .iter()
        .map(|node| {
            let mut node = node.clone();
            if node.get("gate").is_none() {
                node["task"] = json!("task");
            }
            node
        })
        .collect();
    spec(json!({ "nodes": nodes }))
}

#[test]
fn a_chain_runs_in_order_and_each_output_reaches_the_next_input() {
    let chain = nodes(json!([
        { "name": "c", "needs": ["b"], "input": { "all": { "from": "b" }, "day": { "from": "run.day" } } },
        { "name": "a" },
        { "name": "b", "needs": ["a"], "input": { "first": { "from": "a.rows.0" }, "mode": { "value": "fast" } } },
    ]));
    let mut run = Player::begin_with(&chain, json!({ "day": "2026-12-24" }));
    assert_eq!(run.active(), ["a"]);
    assert_eq!(run.input_of("a", 0), json!({ "day": "2026-12-24" }), "the input of the run");
    run.succeeds_with("a", r#"{"rows":[7,8]}"#);
    assert_eq!(run.input_of("b", 0), json!({ "first": 7, "mode": "fast" }));
    run.succeeds_with("b", "plain text");
    assert_eq!(run.input_of("c", 0), json!({ "all": "plain text", "day": "2026-12-24" }));
    run.ended("c", true);
    assert_eq!(run.status(), RunStatus::Succeeded);
}

#[test]
fn what_comes_before_and_after_a_node_is_known_through_others() {
    let graph = nodes(json!([
        { "name": "d", "needs": ["b"] },
        { "name": "a" },
        { "name": "b", "needs": ["a"] },
        { "name": "c", "needs": ["b"] },
        { "name": "alone" },
    ]));
    let graph = super::Graph::of(&graph).unwrap();
    let names = |nodes: Vec<u16>| nodes.iter().map(|&n| graph.nodes[usize::from(n)].name.clone()).collect::<Vec<_>>();
    let of = |name: &str| {
        (names(graph.before(graph.number(name).unwrap())), names(graph.after(graph.number(name).unwrap())))
    };
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(of("c"), (owned(&["a", "b"]), owned(&[])));
    assert_eq!(of("a"), (owned(&[]), owned(&["b", "d", "c"])));
    assert_eq!(of("alone"), (owned(&[]), owned(&[])));
}

#[test]
fn a_path_to_nowhere_fails_the_node_unless_it_has_a_default() {
    let graph = nodes(json!([
        { "name": "a" },
        { "name": "b", "needs": ["a"], "input": { "x": { "from": "a.gone", "default": 5 } } },
        { "name": "c", "needs": ["b"], "input": { "x": { "from": "a.gone" } } },
    ]));
    let mut run = Player::begin(&graph);
    run.succeeds_with("a", "{}");
    assert_eq!(run.input_of("b", 0), json!({ "x": 5 }));
    run.ended("b", true);
    assert_eq!(run.node("c").reason.as_deref(), Some("input `x`: there is nothing at `a.gone`"));
    assert_eq!(run.status(), RunStatus::Failed);
}

#[test]
fn a_condition_that_does_not_hold_skips_the_node() {
    let graph = nodes(json!([
        { "name": "a" },
        { "name": "big", "needs": ["a"], "if": { "not": { "path": "a.rows", "lt": 100 } } },
        { "name": "small", "needs": ["a"], "if": { "all": [{ "path": "a.rows", "lt": 100 }, { "path": "a.rows", "exists": true }] } },
        { "name": "then", "needs": ["big", "small"], "when": "none_failed_one_succeeded" },
    ]));
    let mut run = Player::begin(&graph);
    run.succeeds_with("a", r#"{"rows":99}"#);
    assert_eq!(run.active(), ["small"]);
    assert_eq!(run.node("big").status, NodeStatus::Skipped);
    run.ended("small", true);
    assert_eq!(run.active(), ["then"]);
}

#[test]
fn a_failure_stops_the_rest_and_the_handlers_run() {
    let mut graph = nodes(json!([{ "name": "a" }, { "name": "b" }, { "name": "c", "needs": ["a", "b"] }]));
    let handlers = |name: &str| serde_json::from_value(json!([{ "name": name, "task": "task" }])).unwrap();
    graph.on_failure = handlers("alarm");
    graph.on_success = handlers("celebrate");
    graph.on_end = handlers("clean");
    let mut run = Player::begin(&graph);
    run.ended("a", false);
    assert_eq!(run.active(), ["b"], "what runs goes on");
    run.ended("b", true);
    assert_eq!(
        (run.node("c").status, run.active()),
        (NodeStatus::NotRun, vec!["alarm".to_owned(), "clean".to_owned()])
    );
    assert_eq!(run.status(), RunStatus::Running);
    run.ended("alarm", false);
    run.ended("clean", true);
    assert_eq!(run.status(), RunStatus::Failed);
}

#[test]
fn a_gate_waits_for_a_decision_and_remembers_who_made_it() {
    let graph = nodes(json!([{ "name": "ok", "gate": {} }, { "name": "b", "needs": ["ok"] }]));
    let mut run = Player::begin(&graph);
    assert_eq!(run.node("ok").status, NodeStatus::Open);
    assert_eq!(run.decide("ok", GateVerdict::Approved), None);
    assert_eq!(run.node("ok").decided.as_ref().unwrap().by, "ann");
    assert_eq!(run.active(), ["b"]);
    assert_eq!(run.decide("ok", GateVerdict::Rejected), Some(Refusal::NotOpen));
    let mut rejected = Player::begin(&graph);
    rejected.decide("ok", GateVerdict::Rejected);
    assert_eq!(rejected.status(), RunStatus::Failed);
}

#[test]
fn a_gate_that_nobody_decides_means_what_it_says() {
    for (on_timeout, status) in
        [("fail", NodeStatus::Failed), ("approve", NodeStatus::Succeeded), ("skip", NodeStatus::Skipped)]
    {
        let graph = nodes(json!([{ "name": "ok", "gate": { "timeout": "PT1H", "on_timeout": on_timeout } }]));
        let mut run = Player::begin(&graph);
        assert_eq!(run.step.as_ref().unwrap().wake_at, Some(run.now + Span::from_secs(3600)));
        run.passes(Span::from_secs(3599));
        assert_eq!(run.node("ok").status, NodeStatus::Open);
        run.passes(Span::from_secs(1));
        assert_eq!(run.node("ok").status, status);
    }
}

#[test]
fn a_run_that_takes_too_long_cancels_its_jobs_and_fails() {
    let mut graph = nodes(json!([{ "name": "a" }, { "name": "b", "needs": ["a"] }]));
    graph.timeout = Span::from_secs(60);
    let mut run = Player::begin(&graph);
    run.passes(Span::from_secs(60));
    assert_eq!(run.step.as_ref().unwrap().cancels, [run.released[0].1]);
    run.item_ended("a", 0, JobState::Cancelled, "");
    assert_eq!((run.status(), run.state.timed_out), (RunStatus::Failed, true));
}

#[test]
fn a_cancelled_run_releases_nothing_more() {
    let mut run = Player::begin(&nodes(json!([{ "name": "a" }, { "name": "b", "needs": ["a"], "when": "all_done" }])));
    run.cancel();
    assert_eq!(run.step.as_ref().unwrap().cancels.len(), 1);
    run.item_ended("a", 0, JobState::Deleted, "");
    assert_eq!((run.status(), run.released.len()), (RunStatus::Cancelled, 1));
    assert_eq!(run.play(RunEvent::Cancel { by: "ann".to_owned() }), Some(Refusal::Ended));
}

#[test]
fn a_list_fans_out_so_many_at_once_and_its_outputs_are_collected_in_order() {
    let graph = nodes(json!([
        { "name": "a" },
        { "name": "each", "needs": ["a"], "for_each": { "from": "a.files", "at_once": 2 },
          "input": { "file": { "from": "item.name" } } },
        { "name": "join", "needs": ["each"], "input": { "all": { "from": "each" } } },
    ]));
    let mut run = Player::begin(&graph);
    run.succeeds_with("a", r#"{"files":[{"name":"x"},{"name":"y"},{"name":"z"}]}"#);
    assert_eq!(run.released.len(), 3, "a, and two of three");
    assert_eq!(run.input_of("each", 1), json!({ "file": "y" }));
    run.item_ended("each", 1, JobState::Succeeded, "2");
    assert_eq!(run.input_of("each", 2), json!({ "file": "z" }));
    run.repeat();
    run.item_ended("each", 2, JobState::Succeeded, "3");
    run.item_ended("each", 0, JobState::Succeeded, "1");
    assert_eq!(run.input_of("join", 0), json!({ "all": [1, 2, 3] }));
}

#[test]
fn a_list_that_is_none_or_too_long_fails_the_node_and_an_empty_one_succeeds() {
    let graph = nodes(json!([
        { "name": "each", "for_each": { "from": "run.list", "max": 2 } },
        { "name": "join", "needs": ["each"], "input": { "all": { "from": "each" } } },
    ]));
    for (list, reason) in [
        (json!([1, 2, 3]), "for_each: `run.list` has 3 elements, and `max` is 2"),
        (json!("text"), "for_each: `run.list` is not a list"),
    ] {
        let run = Player::begin_with(&graph, json!({ "list": list }));
        assert_eq!(run.node("each").reason.as_deref(), Some(reason));
    }
    let run = Player::begin_with(&graph, json!({ "list": [] }));
    assert_eq!(run.input_of("join", 0), json!({ "all": [] }));
}

#[test]
fn what_failed_of_a_list_begins_again_when_the_run_is_resumed() {
    let graph = nodes(json!([{ "name": "each", "for_each": { "from": "run", "at_once": 3 } }]));
    let mut run = Player::begin_with(&graph, json!(["x", "y", "z"]));
    run.item_ended("each", 0, JobState::Succeeded, "1");
    run.item_ended("each", 1, JobState::Failed, "");
    run.item_ended("each", 2, JobState::Succeeded, "3");
    assert_eq!(run.node("each").reason.as_deref(), Some("1 of 3 jobs did not succeed"));
    run.resume();
    assert_eq!(run.released.len(), 4);
    assert_eq!((run.released[3].0.item, run.released[3].0.round), (1, 1));
    run.item_ended("each", 1, JobState::Succeeded, "2");
    assert_eq!(run.status(), RunStatus::Succeeded);
}

#[test]
fn the_end_of_a_job_of_an_earlier_round_changes_nothing() {
    let mut run = Player::begin(&nodes(json!([{ "name": "a", "retries": 1 }])));
    let first = run.released[0].0;
    run.ended("a", false);
    assert_eq!(run.released.len(), 2, "another round");
    run.play(RunEvent::Ended { node: first, state: JobState::Failed, output: None });
    assert_eq!(run.active(), ["a"]);
    run.ended("a", true);
    assert_eq!(run.status(), RunStatus::Succeeded);
}

#[test]
fn a_run_goes_on_without_the_node_that_failed() {
    let graph = nodes(json!([{ "name": "a" }, { "name": "b", "needs": ["a"], "when": "none_failed" }]));
    let mut run = Player::begin(&graph);
    run.ended("a", false);
    assert_eq!(run.status(), RunStatus::Failed);
    assert_eq!(run.play(RunEvent::Resume { skip: vec![9] }), Some(Refusal::NotSkippable));
    assert_eq!(run.play(RunEvent::Resume { skip: vec![0] }), None);
    assert_eq!(run.active(), ["b"]);
    run.ended("b", true);
    assert_eq!(run.status(), RunStatus::Succeeded);
    assert_eq!(run.play(RunEvent::Resume { skip: Vec::new() }), Some(Refusal::NotResumable));
}

#[test]
fn a_waiting_node_can_be_skipped_and_a_running_one_cannot() {
    let graph = nodes(json!([{ "name": "a" }, { "name": "b", "needs": ["a"] }]));
    let mut run = Player::begin(&graph);
    let skip = |node| RunEvent::Skip { node, by: "ann".to_owned() };
    assert_eq!(run.play(skip(0)), Some(Refusal::NotSkippable));
    assert_eq!(run.play(skip(1)), None);
    run.ended("a", true);
    assert_eq!(run.status(), RunStatus::Succeeded);
}

#[test]
fn an_output_that_is_too_long_is_not_there_for_others() {
    let graph = nodes(json!([{ "name": "a" }, { "name": "b", "needs": ["a"], "input": { "x": { "from": "a" } } }]));
    let mut run = Player::begin(&graph);
    run.succeeds_with("a", &format!("\"{}\"", "x".repeat(super::OUTPUT_KEPT_MAX)));
    assert!(run.node("a").output_too_long);
    assert_eq!(run.node("b").status, NodeStatus::Failed);
}
