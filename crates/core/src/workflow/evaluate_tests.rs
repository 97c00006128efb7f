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
fn an_element_that_has_ended_and_runs_again_does_not_change_the_results() {
    let graph = nodes(json!([
        { "name": "each", "for_each": { "from": "run" } },
        { "name": "join", "needs": ["each"], "input": { "all": { "from": "each" } } },
    ]));
    let mut run = Player::begin_with(&graph, json!(["x", "y"]));
    run.item_ended("each", 0, JobState::Succeeded, "1");
    run.item_ended("each", 0, JobState::Succeeded, "7");
    run.item_ended("each", 1, JobState::Succeeded, "2");
    assert_eq!(run.input_of("join", 0), json!({ "all": [1, 2] }));
}

#[test]
fn a_resume_neither_uses_retries_nor_gives_new_ones() {
    let graph = nodes(json!([{ "name": "a" }, { "name": "b", "needs": ["a"], "retries": 1 }]));
    let mut run = Player::begin(&graph);
    run.ended("a", false);
    assert_eq!(run.node("b").status, NodeStatus::NotRun);
    run.resume();
    run.ended("a", true);
    run.ended("b", false);
    assert_eq!(run.node("b").status, NodeStatus::Active, "its first failure");
    run.ended("b", false);
    assert_eq!(run.status(), RunStatus::Failed);
    run.resume();
    run.ended("b", false);
    assert_eq!(run.status(), RunStatus::Failed, "its retry was used before");
}

#[test]
fn a_node_that_was_never_started_begins_no_other_round_when_the_run_is_resumed() {
    let graph = nodes(json!([{ "name": "a" }, { "name": "b", "needs": ["a"] }]));
    let mut run = Player::begin(&graph);
    run.ended("a", false);
    run.resume();
    assert_eq!((run.node("a").round, run.node("b").round), (1, 0));
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

fn with_output(nodes: WorkflowSpec, output: Value) -> WorkflowSpec {
    WorkflowSpec { output: Some(serde_json::from_value(output).unwrap()), ..nodes }
}

#[test]
fn a_run_returns_what_its_definition_says() {
    let graph = nodes(json!([{ "name": "a" }, { "name": "b", "needs": ["a"] }]));
    let output = json!({ "rows": { "from": "a.rows" }, "day": { "from": "run.day" }, "kind": { "value": 1 } });
    let mut run = Player::begin_with(&with_output(graph, output), json!({ "day": 7 }));
    run.succeeds_with("a", r#"{"rows":[1,2]}"#);
    assert_eq!(run.state.output, None, "not before its nodes have ended");
    run.succeeds_with("b", "{}");
    assert_eq!(run.status(), RunStatus::Succeeded);
    assert_eq!(run.state.output, Some(json!({ "rows": [1, 2], "day": 7, "kind": 1 })));
}

#[test]
fn a_run_fails_that_cannot_return_what_it_should() {
    let graph = || nodes(json!([{ "name": "a" }]));
    let alarm = vec![serde_json::from_value(json!({ "name": "alarm", "task": "task" })).unwrap()];
    let nowhere = with_output(graph(), json!({ "x": { "from": "a.gone" } }));
    let mut run = Player::begin(&WorkflowSpec { on_failure: alarm, ..nowhere });
    run.succeeds_with("a", "{}");
    assert_eq!(run.node("alarm").status, NodeStatus::Active, "it is a failure like others");
    run.ended("alarm", true);
    assert_eq!(run.status(), RunStatus::Failed);
    assert_eq!(run.state.broken.as_deref(), Some("output: `x`: there is nothing at `a.gone`"));
    run.resume();
    assert_eq!(
        (run.state.broken.as_deref(), run.status()),
        (Some("output: `x`: there is nothing at `a.gone`"), RunStatus::Running)
    );
    let twice = json!({ "x": { "from": "a" }, "y": { "from": "a" } });
    let mut run = Player::begin(&with_output(graph(), twice));
    run.succeeds_with("a", &"x".repeat(40_000));
    assert_eq!((run.status(), &run.state.output), (RunStatus::Failed, &None));
    assert!(run.state.broken.as_ref().unwrap().contains("too large"), "{:?}", run.state.broken);
}

#[test]
fn an_event_ends_the_gates_that_wait_for_it_and_brings_their_output() {
    let graph = nodes(json!([
        { "name": "first", "gate": { "event": "uploaded" } },
        { "name": "second", "gate": { "event": "uploaded" }, "needs": ["first"] },
        { "name": "load", "needs": ["second"], "input": { "path": { "from": "first.path" } } },
    ]));
    let mut run = Player::begin(&graph);
    let event = |name: &str, payload: Option<&'static str>| RunEvent::Arrived {
        event: name.to_owned(),
        payload: payload.map(|payload| bytes::Bytes::from_static(payload.as_bytes())),
        by: "ann".to_owned(),
    };
    assert_eq!(run.play(event("other", None)), Some(Refusal::NoSuchEvent));
    assert_eq!(run.play(event("uploaded", Some(r#"{"path":"in/7"}"#))), None);
    assert_eq!((run.node("first").status, run.node("second").status), (NodeStatus::Succeeded, NodeStatus::Open));
    assert_eq!(run.play(event("uploaded", None)), None);
    assert_eq!(run.input_of("load", 0), json!({ "path": "in/7" }));
    run.ended("load", true);
    assert_eq!(run.play(event("uploaded", None)), Some(Refusal::NoSuchEvent));
}

#[test]
fn a_step_releases_no_more_than_a_store_takes_at_once() {
    let graph = nodes(json!([{ "name": "each", "for_each": { "from": "run", "at_once": 1000 } }]));
    let list: Vec<String> = (0..100).map(|_| "x".repeat(100_000)).collect();
    let mut run = Player::begin_with(&graph, json!(list));
    let first = run.released.len();
    assert!(first > 0 && first * 100_000 < 9_000_000, "{first}");
    let mut ended = 0;
    while run.status() == RunStatus::Running {
        run.item_ended("each", ended, JobState::Succeeded, "1");
        ended += 1;
    }
    assert_eq!((ended, run.status()), (100, RunStatus::Succeeded));
    assert!(run.is_every_job_released_once());
}

#[test]
fn the_job_of_a_run_hears_of_its_end_once() {
    use super::state::{RunJob, RunState};
    let mut run = Player::begin(&nodes(json!([{ "name": "a" }])));
    let job = crate::id::JobId::new(run.now, crate::id::ShardId(3), 1);
    run.state = RunState { job: Some(RunJob { job, attempt: 1, is_reported: false }), ..run.state.clone() };
    run.ended("a", true);
    assert!(run.state.awaits_report());
    assert_eq!(run.step.as_ref().unwrap().wake_at, Some(run.now), "its owner looks at it until then");
    run.play(RunEvent::Reported);
    assert_eq!((run.state.awaits_report(), run.step.as_ref().unwrap().wake_at), (false, None));
}
