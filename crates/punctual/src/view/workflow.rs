//! What workflows and their runs look like in tables and in detail.

use comfy_table::Cell;
use punctual_api::{NodeView, RunSummary, RunView, WorkflowSummary, WorkflowView};

use super::{Detail, one_line};
use crate::output::{Format, Output, Row};
use crate::table::Yield;

impl Row for WorkflowSummary {
    const HEADER: &'static [&'static str] = &["NAME", "VERSION", "NODES", "CREATED", "BY"];
    const YIELDS: &'static [Yield] =
        &[Yield::ShortTimes, Yield::Drop("BY"), Yield::Drop("CREATED"), Yield::Cut("NAME", 20)];

    fn name(&self) -> String {
        self.name.clone()
    }

    fn cells(&self, out: &Output) -> Vec<Cell> {
        vec![
            Cell::new(&self.name),
            Cell::new(self.version),
            Cell::new(self.nodes),
            Cell::new(out.time(self.created.at)),
            Cell::new(&self.created.who),
        ]
    }
}

impl Row for RunSummary {
    const HEADER: &'static [&'static str] = &["ID", "WORKFLOW", "VERSION", "STATE", "NODES", "CREATED", "BY"];
    const YIELDS: &'static [Yield] = &[
        Yield::ShortTimes,
        Yield::Drop("BY"),
        Yield::Drop("VERSION"),
        Yield::Drop("CREATED"),
        Yield::Cut("WORKFLOW", 12),
        Yield::Drop("NODES"),
    ];

    fn name(&self) -> String {
        self.id.to_string()
    }

    fn cells(&self, out: &Output) -> Vec<Cell> {
        vec![
            Cell::new(self.id),
            Cell::new(&self.workflow),
            Cell::new(self.version),
            out.state(&self.state),
            Cell::new(format!("{} of {}", self.nodes_ended, self.nodes)),
            Cell::new(out.time(self.created.at)),
            Cell::new(&self.created.who),
        ]
    }
}

impl Row for NodeView {
    const HEADER: &'static [&'static str] = &["NODE", "STATE", "JOB", "AFTER", "NOTE"];
    const YIELDS: &'static [Yield] = &[Yield::Drop("AFTER"), Yield::Cut("NODE", 16), Yield::Drop("JOB")];

    fn name(&self) -> String {
        self.name.clone()
    }

    fn cells(&self, out: &Output) -> Vec<Cell> {
        vec![
            Cell::new(&self.name),
            out.state(&self.state),
            Cell::new(self.job.map_or_else(|| "-".to_owned(), |job| job.to_string())),
            Cell::new(if self.needs.is_empty() { "-".to_owned() } else { self.needs.join(", ") }),
            Cell::new(out.zone.localize(&note(self))),
        ]
    }
}

/// What is worth saying of a node besides its state.
fn note(node: &NodeView) -> String {
    let kind = (node.kind != "task").then(|| node.kind.clone());
    let items = node.items.as_ref().map(|items| {
        let failed = if items.failed > 0 { format!(", {} failed", items.failed) } else { String::new() };
        format!("{} of {} succeeded{failed}", items.succeeded, items.total)
    });
    let decided = node.decided.as_ref().map(|decided| format!("by {}", one_line(&decided.who)));
    let round = match node.round {
        0 => None,
        1 => Some("started once before".to_owned()),
        more => Some(format!("started {more} times before")),
    };
    let asked = node.note.as_deref().map(one_line);
    let too_long = node.output_too_long.then(|| "its output is too long for other nodes".to_owned());
    let reason = node.reason.as_deref().map(one_line);
    let waits = waits(node);
    [kind, asked, items, decided, round, too_long, reason, waits].into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// What a node waits for. Of one that is active, its job says why it waits.
pub(crate) fn waits(node: &NodeView) -> Option<String> {
    let what = one_line(node.waiting_for.as_deref()?);
    Some(if node.state == "active" { format!("waits: {what}") } else { format!("waits for {what}") })
}

pub(crate) fn run(run: &RunView, out: &Output) -> anyhow::Result<()> {
    match out.format {
        Format::Json | Format::Jsonl => return out.json(run),
        Format::Name => return out.line(&run.id.to_string()),
        Format::Table => {}
    }
    let mut text = Detail::new(&format!("{}  {}", run.id, out.state_text(&run.state)), 9);
    text.line("workflow", format!("{} version {}", run.workflow, run.version));
    text.line("created", format!("{} by {}", out.zone.show(run.created.at), one_line(&run.created.who)));
    if let Some(cancelled) = &run.cancelled {
        text.line("cancelled", format!("{} by {}", out.zone.show(cancelled.at), one_line(&cancelled.who)));
    }
    match run.ended_at {
        Some(at) => text.line("ended", out.zone.show(at)),
        None => text.line("deadline", out.zone.show(run.deadline)),
    }
    if let Some(reason) = &run.reason {
        text.line("reason", one_line(reason));
    }
    if run.timed_out {
        text.line("timed out", "its time was over before its nodes had ended");
    }
    if let Some(input) = &run.input {
        text.line("input", one_line(input.get()));
    }
    if let Some(output) = &run.output {
        text.line("output", one_line(&output.to_string()));
    }
    if let Some(job) = run.job {
        text.line("job", job);
    }
    out.write(&text.text)?;
    out.rows(&run.nodes, run)
}

pub(crate) fn definition(workflow: &WorkflowView, out: &Output) -> anyhow::Result<()> {
    match out.format {
        Format::Json | Format::Jsonl => return out.json(workflow),
        Format::Name => return out.line(&workflow.name),
        Format::Table => {}
    }
    let mut text = Detail::new(&format!("{}  version {}", workflow.name, workflow.version), 8);
    text.line("created", format!("{} by {}", out.zone.show(workflow.created.at), one_line(&workflow.created.who)));
    text.block("definition", &serde_json::to_string_pretty(&workflow.spec)?);
    out.write(&text.text)
}
