//! What changed between two versions of a workflow. Nodes are compared by their names, wherever they stand in the file.

use clap::Args;
use punctual_api::WorkflowView;
use punctual_client::Client;
use serde::Serialize;
use serde_json::{Map, Value};

use super::named;
use crate::exit::usage;
use crate::output::{Format, Output};
use crate::view::one_line;
use crate::when::whole;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    punctual workflow diff nightly          # what the newest version changed\n  \
    punctual workflow diff nightly 3 7")]
pub(crate) struct DiffArgs {
    /// The workflow's name
    #[arg(value_name = "NAME")]
    name: String,
    /// The version to begin with [default: the one before the other]
    #[arg(value_name = "V1", value_parser = whole::<u32, 1, 2_147_483_647>)]
    before: Option<u32>,
    /// The version to compare it with [default: the newest]
    #[arg(value_name = "V2", value_parser = whole::<u32, 1, 2_147_483_647>)]
    after: Option<u32>,
}

/// Something that one of two versions has and the other has not, or has differently.
#[derive(Debug, PartialEq, Serialize)]
struct Difference {
    /// Such as `load.input.rows.from`: the name of a node and the way to a field, or the way to a field beside the nodes.
    at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<Value>,
}

#[derive(Serialize)]
struct Compared<'a> {
    name: &'a str,
    before: u32,
    after: u32,
    differences: &'a [Difference],
}

pub(super) async fn run(args: &DiffArgs, client: &Client, out: &Output) -> anyhow::Result<()> {
    let after = client.workflow(&args.name, args.after).await.map_err(named)?;
    let before = match args.before {
        Some(version) => version,
        None if after.version > 1 => after.version - 1,
        None => {
            let hint = "apply another version, or name two";
            return Err(usage(format!("version 1 of {} has none before it", args.name), hint));
        }
    };
    let before = client.workflow(&args.name, Some(before)).await.map_err(named)?;
    let differences = between(&before, &after)?;
    let compared =
        Compared { name: &args.name, before: before.version, after: after.version, differences: &differences };
    match out.format {
        Format::Json | Format::Jsonl => return out.json(&compared),
        Format::Name => return differences.iter().try_for_each(|one| out.line(&one_line(&one.at))),
        Format::Table => {}
    }
    out.line(&format!("{} version {} to version {}", args.name, before.version, after.version))?;
    if differences.is_empty() {
        return out.line("  the same");
    }
    differences.iter().try_for_each(|one| out.line(&format!("  {}", line(one))))
}

fn line(one: &Difference) -> String {
    let shown = |value: &Value| one_line(&value.to_string());
    let at = one_line(&one.at);
    match (&one.before, &one.after) {
        (None, Some(after)) => format!("+ {at}: {}", shown(after)),
        (Some(before), None) => format!("- {at}: {}", shown(before)),
        (Some(before), Some(after)) => format!("~ {at}: {} -> {}", shown(before), shown(after)),
        (None, None) => at,
    }
}

fn between(before: &WorkflowView, after: &WorkflowView) -> anyhow::Result<Vec<Difference>> {
    let (before, after) = (by_name(serde_json::to_value(&before.spec)?), by_name(serde_json::to_value(&after.spec)?));
    let mut found = Vec::new();
    compare("", Some(&before), Some(&after), &mut found);
    Ok(found)
}

/// The definition with its nodes, and what runs after them, as one object each, by name.
fn by_name(mut spec: Value) -> Value {
    let Value::Object(fields) = &mut spec else { return spec };
    let mut named = Map::new();
    for list in ["nodes", "on_failure", "on_success", "on_end"] {
        let Some(Value::Array(nodes)) = fields.remove(list) else { continue };
        for mut node in nodes {
            let Some(Value::String(name)) = node.as_object_mut().and_then(|node| node.remove("name")) else { continue };
            if let (Value::Object(node), true) = (&mut node, list != "nodes") {
                node.insert("runs".to_owned(), Value::from(list));
            }
            named.insert(name, node);
        }
    }
    // A node has no dot in its name, so that it is not taken for a field.
    for (name, value) in std::mem::take(fields) {
        named.insert(format!(".{name}"), value);
    }
    Value::Object(named)
}

fn compare(at: &str, before: Option<&Value>, after: Option<&Value>, found: &mut Vec<Difference>) {
    match (before, after) {
        (Some(before), Some(after)) if before == after => {}
        (Some(Value::Object(one)), Some(Value::Object(other))) => {
            let mut names: Vec<&String> = one.keys().chain(other.keys()).collect();
            names.sort_unstable();
            names.dedup();
            for name in names {
                let place =
                    if at.is_empty() { name.trim_start_matches('.').to_owned() } else { format!("{at}.{name}") };
                compare(&place, one.get(name), other.get(name), found);
            }
        }
        (before, after) => {
            found.push(Difference { at: at.to_owned(), before: before.cloned(), after: after.cloned() });
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn lines(before: Value, after: Value) -> Vec<String> {
        let mut found = Vec::new();
        compare("", Some(&by_name(before)), Some(&by_name(after)), &mut found);
        found.iter().map(line).collect()
    }

    #[test]
    fn nodes_are_compared_by_name_and_fields_by_their_way() {
        let before = json!({ "timeout": "P7D", "nodes": [
            { "name": "a", "task": "x" },
            { "name": "b", "task": "y", "input": { "rows": { "from": "a.rows" } } },
            { "name": "gone", "task": "z" },
        ] });
        let after = json!({ "timeout": "P1D", "nodes": [
            { "name": "b", "task": "y", "input": { "rows": { "from": "a.all" } }, "retries": 2 },
            { "name": "a", "task": "x" },
        ], "on_end": [{ "name": "alarm", "task": "t" }] });
        assert_eq!(
            lines(before.clone(), after),
            [
                "~ timeout: \"P7D\" -> \"P1D\"",
                "+ alarm: {\"runs\":\"on_end\",\"task\":\"t\"}",
                "~ b.input.rows.from: \"a.rows\" -> \"a.all\"",
                "+ b.retries: 2",
                "- gone: {\"task\":\"z\"}",
            ]
        );
        assert!(lines(before.clone(), before).is_empty());
    }
}
