//! Draws definitions, inputs and outputs. Every shape that docs/workflows.md names comes up, and what the definitions read
//! fits the outputs often enough, but not always.

use std::collections::BTreeSet;

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::rng::Rng;

/// What is to be drawn.
pub(crate) struct Drawing {
    pub(crate) nodes_max: usize,
    /// How long gates wait, and how long runs may take where they are limited, at most.
    pub(crate) gate_secs_max: i64,
    pub(crate) run_secs_max: i64,
}

const TRIGGERS: [&str; 6] =
    ["all_succeeded", "all_done", "one_failed", "none_failed", "one_succeeded", "none_failed_one_succeeded"];
pub(crate) const EVENTS: [&str; 2] = ["arrived", "confirmed"];

/// A node that was drawn, as far as those after it have to know it.
struct Drawn {
    before: BTreeSet<usize>,
    is_readable: bool,
}

pub(crate) fn draw_definition(rng: &mut Rng, drawing: &Drawing) -> Value {
    let len = rng.range(1, drawing.nodes_max as i64) as usize;
    let stops = rng.percent(35);
    let mut drawn: Vec<Drawn> = Vec::with_capacity(len);
    let mut nodes = Vec::with_capacity(len);
    for place in 0..len {
        let needs = draw_needs(rng, place);
        let before: BTreeSet<usize> =
            needs.iter().flat_map(|need| drawn[*need].before.iter().copied().chain([*need])).collect();
        let readable: Vec<usize> = before.iter().copied().filter(|place| drawn[*place].is_readable).collect();
        let mut node = draw_node(rng, drawing, &readable);
        let when = *rng.pick(&TRIGGERS);
        let asks = matches!(when, "one_failed" | "one_succeeded" | "none_failed_one_succeeded");
        let never = asks && needs.is_empty() || when == "one_failed" && stops;
        // Half of them as most people write them.
        if !never && rng.percent(50) {
            node.insert("when".to_owned(), json!(when));
        }
        if rng.percent(15) {
            node.insert("if".to_owned(), draw_condition(rng, &readable, 1));
        }
        node.insert("name".to_owned(), json!(name(place)));
        let needs: Vec<String> = needs.into_iter().map(name).collect();
        node.insert("needs".to_owned(), json!(needs));
        let is_readable = node.get("gate").is_none_or(|gate| gate.get("event").is_some());
        drawn.push(Drawn { before, is_readable });
        nodes.push(Value::Object(node));
    }
    let readable: Vec<usize> = (0..len).filter(|place| drawn[*place].is_readable).collect();
    let mut definition = Map::new();
    definition.insert("nodes".to_owned(), Value::Array(nodes));
    definition.insert("on_node_failure".to_owned(), json!(if stops { "stop" } else { "continue" }));
    for kind in ["on_failure", "on_success", "on_end"] {
        if rng.percent(25) {
            let handler = |rng: &mut Rng, number: i64| {
                let mut handler = Map::new();
                handler.insert("name".to_owned(), json!(format!("{kind}-{number}")));
                handler.insert("task".to_owned(), json!("task"));
                if rng.percent(50) {
                    handler.insert("input".to_owned(), draw_fields(rng, &readable, false));
                }
                Value::Object(handler)
            };
            let handlers: Vec<Value> = (0..rng.range(1, 2)).map(|number| handler(rng, number)).collect();
            definition.insert(kind.to_owned(), Value::Array(handlers));
        }
    }
    if rng.percent(15) {
        definition.insert("timeout".to_owned(), json!(format!("PT{}S", rng.range(10, drawing.run_secs_max))));
    }
    if rng.percent(30) {
        definition.insert("output".to_owned(), draw_fields(rng, &readable, false));
    }
    Value::Object(definition)
}

fn name(place: usize) -> String {
    format!("n{place}")
}

/// Some nodes that come before, near ones half of the time, so that graphs are deep as well as broad.
fn draw_needs(rng: &mut Rng, place: usize) -> Vec<usize> {
    let mut needs = Vec::new();
    if place == 0 {
        return needs;
    }
    for _ in 0..*rng.pick(&[0, 1, 1, 2, 3]) {
        let from = if rng.percent(50) { place.saturating_sub(4) } else { 0 };
        let need = rng.range(from as i64, place as i64 - 1) as usize;
        if !needs.contains(&need) {
            needs.push(need);
        }
    }
    needs
}

fn draw_node(rng: &mut Rng, drawing: &Drawing, readable: &[usize]) -> Map<String, Value> {
    let mut node = Map::new();
    if rng.percent(10) {
        let mut gate = Map::new();
        if rng.percent(40) {
            gate.insert("event".to_owned(), json!(*rng.pick(&EVENTS)));
        }
        if rng.percent(60) {
            gate.insert("timeout".to_owned(), json!(format!("PT{}S", rng.range(1, drawing.gate_secs_max))));
            gate.insert("on_timeout".to_owned(), json!(*rng.pick(&["fail", "approve", "skip"])));
        }
        node.insert("gate".to_owned(), Value::Object(gate));
        return node;
    }
    node.insert("task".to_owned(), json!("task"));
    let fans_out = rng.percent(20);
    if fans_out {
        let from = match rng.pick_or_none(readable) {
            Some(&place) if rng.percent(50) => format!("{}{}", name(place), rng.pick(&["", ".list", ".list", ".list"])),
            _ => (*rng.pick(&["run.list", "run.list", "run.list", "run"])).to_owned(),
        };
        let max = *rng.pick(&[2, 10_000, 10_000, 10_000]);
        let at_once = *rng.pick(&[1, 2, 3, 100]);
        node.insert("for_each".to_owned(), json!({ "from": from, "max": max, "at_once": at_once }));
    } else if rng.percent(25) {
        node.insert("retries".to_owned(), json!(rng.range(1, 3)));
    }
    if rng.percent(50) {
        node.insert("input".to_owned(), draw_fields(rng, readable, fans_out));
    }
    node
}

fn draw_path(rng: &mut Rng, readable: &[usize]) -> String {
    match rng.pick_or_none(readable) {
        Some(&place) if rng.percent(75) => {
            format!("{}{}", name(place), rng.pick(&["", ".n", ".n", ".text", ".list", ".list.1", ".0", ".no.where"]))
        }
        _ => format!("run{}", rng.pick(&["", ".n", ".text", ".list", ".list.0", ".no.where"])),
    }
}

fn draw_fields(rng: &mut Rng, readable: &[usize], has_item: bool) -> Value {
    let mut fields = Map::new();
    for field in ["a", "b", "c"] {
        let source = match rng.below(10) {
            0..3 => continue,
            3 => json!({ "value": draw_value(rng) }),
            4 if has_item => json!({ "from": "item" }),
            // Most of them are found or have a default, or few nodes would ever run.
            _ if rng.percent(8) => json!({ "from": draw_path(rng, readable) }),
            _ => json!({ "from": draw_path(rng, readable), "default": draw_value(rng) }),
        };
        fields.insert(field.to_owned(), source);
    }
    Value::Object(fields)
}

fn draw_condition(rng: &mut Rng, readable: &[usize], depth: u32) -> Value {
    let path = draw_path(rng, readable);
    match rng.below(if depth < 3 { 9 } else { 6 }) {
        0 => json!({ "path": path, "eq": draw_value(rng) }),
        1 | 2 => json!({ "path": path, "ne": draw_value(rng) }),
        3 => json!({ "path": path, "lt": *rng.pick(&[json!(3), json!(2.5), json!("b")]) }),
        4 => json!({ "path": path, "in": [draw_value(rng), draw_value(rng)] }),
        5 => json!({ "path": path, "exists": rng.percent(50) }),
        6 => json!({ "all": draw_conditions(rng, readable, depth) }),
        7 => json!({ "any": draw_conditions(rng, readable, depth) }),
        _ => json!({ "not": draw_condition(rng, readable, depth + 1) }),
    }
}

fn draw_conditions(rng: &mut Rng, readable: &[usize], depth: u32) -> Vec<Value> {
    (0..rng.range(1, 3)).map(|_| draw_condition(rng, readable, depth + 1)).collect()
}

fn draw_value(rng: &mut Rng) -> Value {
    match rng.below(6) {
        0 => Value::Null,
        1 => json!(rng.range(0, 4)),
        2 => json!(rng.range(0, 4) as f64),
        3 => json!(*rng.pick(&["a", "b", "c"])),
        4 => json!(rng.percent(50)),
        _ => json!([rng.range(0, 4)]),
    }
}

fn draw_object(rng: &mut Rng) -> Value {
    let list: Vec<Value> = (0..rng.range(0, 6)).map(|_| draw_value(rng)).collect();
    json!({ "n": rng.range(0, 4), "text": *rng.pick(&["a", "b", "c"]), "list": list })
}

pub(crate) fn draw_input(rng: &mut Rng) -> Option<Bytes> {
    let input = match rng.below(10) {
        0 => return None,
        1 => json!([1, "b", null]),
        _ => draw_object(rng),
    };
    Some(Bytes::from(input.to_string()))
}

/// What a job that succeeds says.
pub(crate) fn draw_output(rng: &mut Rng) -> Option<Bytes> {
    Some(match rng.below(200) {
        0..20 => return None,
        20..30 => Bytes::from_static(b"done {it is no JSON"),
        30..35 => Bytes::from_static(b"null"),
        35..60 => Bytes::from(json!([rng.range(0, 4), "b", rng.range(0, 4)]).to_string()),
        // More than other nodes are shown.
        60 => Bytes::from(format!("\"{}\"", "x".repeat(70_000))),
        _ => Bytes::from(draw_object(rng).to_string()),
    })
}
