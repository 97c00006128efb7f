//! Draws graphs: for a terminal, as DOT for Graphviz, as Mermaid for Markdown.

use std::fmt::Write as _;

use crate::output::Output;

/// A node as it is drawn.
pub(super) struct Drawn {
    pub(super) name: String,
    /// `task`, `gate`, or when it runs after the others.
    pub(super) kind: String,
    pub(super) needs: Vec<String>,
    /// Of a run.
    pub(super) state: Option<String>,
    /// What else is worth a word, such as a condition.
    pub(super) notes: Vec<String>,
}

/// Each node below all that it needs, one step further in than the deepest of them.
pub(super) fn text(nodes: &[Drawn], out: &Output) -> String {
    let order = order(nodes);
    let mut depths: Vec<(&str, usize)> = Vec::new();
    let mut text = String::new();
    for node in order {
        let depth_of = |need: &String| depths.iter().find(|(name, _)| name == need).map_or(0, |(_, depth)| depth + 1);
        let depth = node.needs.iter().map(depth_of).max().unwrap_or(0);
        depths.push((&node.name, depth));
        let _ = write!(text, "{}{}", "  ".repeat(depth + 1), node.name);
        if let Some(state) = &node.state {
            let _ = write!(text, "  {}", out.state_text(state));
        }
        if !node.needs.is_empty() {
            let _ = write!(text, "  after {}", node.needs.join(", "));
        }
        if node.kind != "task" {
            let _ = write!(text, "  [{}]", node.kind);
        }
        for note in &node.notes {
            let _ = write!(text, "  ({note})");
        }
        text.push('\n');
    }
    text
}

pub(super) fn dot(title: &str, nodes: &[Drawn]) -> String {
    let mut text = format!("digraph \"{title}\" {{\n  rankdir=LR;\n  node [shape=box];\n");
    for node in order(nodes) {
        let shape = if node.kind == "gate" { ", shape=diamond" } else { "" };
        let fill = color(node).map(|color| format!(", style=filled, fillcolor=\"{color}\"")).unwrap_or_default();
        let label = label(node, "\\n");
        let _ = writeln!(text, "  \"{}\" [label=\"{label}\"{shape}{fill}];", node.name);
    }
    for node in order(nodes) {
        for need in &node.needs {
            let _ = writeln!(text, "  \"{need}\" -> \"{}\";", node.name);
        }
    }
    text + "}\n"
}

pub(super) fn mermaid(nodes: &[Drawn]) -> String {
    let mut text = "flowchart LR\n".to_owned();
    for node in order(nodes) {
        let label = label(node, "<br/>");
        let (open, close) = if node.kind == "gate" { ("{\"", "\"}") } else { ("[\"", "\"]") };
        let _ = writeln!(text, "    n_{}{open}{label}{close}", id(&node.name));
    }
    for node in order(nodes) {
        for need in &node.needs {
            let _ = writeln!(text, "    n_{} --> n_{}", id(need), id(&node.name));
        }
    }
    for node in order(nodes) {
        if let Some(color) = color(node) {
            let _ = writeln!(text, "    style n_{} fill:{color},color:#000", id(&node.name));
        }
    }
    text
}

/// Light, so that black text can be read on it. What has not begun has none.
fn color(node: &Drawn) -> Option<&'static str> {
    match node.state.as_deref()? {
        "succeeded" => Some("#b7e1b0"),
        "failed" | "upstream_failed" => Some("#f4b6b0"),
        "active" => Some("#b3d4f5"),
        "open" => Some("#f7e3a1"),
        "skipped" | "cancelled" | "not_run" => Some("#dddddd"),
        _ => None,
    }
}

/// Mermaid reads a dash in an id as a part of an arrow.
fn id(name: &str) -> String {
    name.replace('-', "_d_")
}

fn label(node: &Drawn, line_break: &str) -> String {
    let kind = (node.kind != "task").then(|| node.kind.clone());
    let lines = [Some(node.name.clone()), kind, node.state.clone()].into_iter().flatten();
    lines.collect::<Vec<_>>().join(line_break)
}

/// Nodes after those that they need; otherwise as they stand.
fn order(nodes: &[Drawn]) -> Vec<&Drawn> {
    let mut order: Vec<&Drawn> = Vec::with_capacity(nodes.len());
    let mut left: Vec<&Drawn> = nodes.iter().collect();
    while !left.is_empty() {
        let is_ready = |node: &&Drawn| node.needs.iter().all(|need| order.iter().any(|done| done.name == *need));
        let (ready, rest): (Vec<&Drawn>, Vec<&Drawn>) = left.iter().copied().partition(is_ready);
        if ready.is_empty() {
            // A server does not store such a graph.
            order.extend(rest);
            break;
        }
        order.extend(ready);
        left = rest;
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes() -> Vec<Drawn> {
        let node = |name: &str, kind: &str, needs: &[&str]| Drawn {
            name: name.to_owned(),
            kind: kind.to_owned(),
            needs: needs.iter().map(|need| (*need).to_owned()).collect(),
            state: None,
            notes: Vec::new(),
        };
        vec![node("load-it", "task", &["ok"]), node("ok", "gate", &["get"]), node("get", "task", &[])]
    }

    #[test]
    fn graphs_are_drawn_for_graphviz_and_for_markdown() {
        let dot = dot("etl", &nodes());
        assert!(dot.contains("\"ok\" [label=\"ok\\ngate\", shape=diamond];\n"), "{dot}");
        assert!(dot.contains("  \"get\" -> \"ok\";\n  \"ok\" -> \"load-it\";\n"), "{dot}");
        let mermaid = mermaid(&nodes());
        let expected = "flowchart LR\n    n_get[\"get\"]\n    n_ok{\"ok<br/>gate\"}\n    n_load_d_it[\"load-it\"]\n    \
                        n_get --> n_ok\n    n_ok --> n_load_d_it\n";
        assert_eq!(mermaid, expected);
    }

    #[test]
    fn nodes_of_a_run_have_the_color_of_their_state() {
        let states = ["waiting", "open", "succeeded"];
        let with_state = |(node, state): (Drawn, &str)| Drawn { state: Some(state.to_owned()), ..node };
        let nodes: Vec<Drawn> = nodes().into_iter().zip(states).map(with_state).collect();
        let mermaid = mermaid(&nodes);
        assert!(mermaid.ends_with("    style n_get fill:#b7e1b0,color:#000\n    style n_ok fill:#f7e3a1,color:#000\n"));
        assert!(!mermaid.contains("style n_load_d_it"), "{mermaid}");
        assert!(dot("etl", &nodes).contains("[label=\"get\\nsucceeded\", style=filled, fillcolor=\"#b7e1b0\"];"));
    }
}
