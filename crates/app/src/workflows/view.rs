//! Runs for people.

use punctual_api::{DoneBy, ErrorKind, ItemsView, NodeView, RunList, RunQuery, RunSummary, RunView};
use punctual_core::workflow::{
    FanState, Graph, GraphNode, HandlerKind, ItemStatus, NodeKind, NodeState, NodeStatus, Note, RunState, RunStatus,
    WorkflowSpec,
};
use punctual_core::{NamespaceId, RunId};
use punctual_store::{RunFilter, RunRow};
use serde_json::value::RawValue;

use super::apply::{done, read_spec};
use crate::parameters::{bad_cursor, page};
use crate::principal::By;
use crate::principal::permission::ViewJobs;
use crate::{App, AppError, Result, cut, validate};

/// Nodes that one line names.
pub(super) const NAMED_MAX: usize = 5;

impl App {
    pub async fn run(&self, by: &By<ViewJobs>, id: RunId) -> Result<RunView> {
        let row = self.read_run(by.namespace(), id).await?;
        Ok(cut::run(by, self.run_view(&row).await?))
    }

    pub(super) async fn run_view(&self, row: &RunRow) -> Result<RunView> {
        let workflow = self.read_workflow(row.namespace, &row.workflow, Some(row.version)).await?;
        run(row, &read_spec(&workflow)?)
    }

    pub async fn list_runs(&self, by: &By<ViewJobs>, query: RunQuery) -> Result<RunList> {
        let read = |text: &str| text.parse::<RunId>().map_err(|_| bad_cursor());
        let (limit, before) = page(query.limit.as_deref(), query.cursor.as_deref(), read)?;
        if let Some(workflow) = &query.workflow {
            validate::name("workflow", workflow)?;
        }
        let filter = RunFilter { namespace: by.namespace(), workflow: query.workflow, before, limit };
        let rows = self.0.store.list_runs(filter).await?;
        let next_cursor = rows.last().filter(|_| rows.len() == limit).map(|last| last.id.to_string());
        Ok(RunList { runs: rows.iter().map(summary).collect(), next_cursor })
    }

    pub(super) async fn read_run(&self, namespace: NamespaceId, id: RunId) -> Result<RunRow> {
        let row = self.0.store.run_in(namespace, id).await?;
        row.ok_or_else(|| AppError::new(ErrorKind::RunNotFound, format!("there is no run {id}")))
    }
}

fn summary(row: &RunRow) -> RunSummary {
    RunSummary {
        id: row.id,
        workflow: row.workflow.clone(),
        version: row.version,
        state: row.status.as_str().to_owned(),
        created: done(&row.made),
        ended_at: row.state.ended_at,
        nodes_ended: row.state.nodes.iter().filter(|node| node.status.is_final()).count() as u32,
        nodes: row.state.nodes.len() as u32,
    }
}

pub(super) fn run(row: &RunRow, spec: &WorkflowSpec) -> Result<RunView> {
    let graph = Graph::of(spec).map_err(|faults| {
        let detail = format!("version {} of the workflow {} is not valid for this server", row.version, row.workflow);
        AppError::new(ErrorKind::Internal, detail).because(format!("{faults:?}"))
    })?;
    let input = row.input.as_deref().and_then(|input| std::str::from_utf8(input).ok());
    let nodes =
        graph.nodes.iter().zip(&row.state.nodes).map(|(node, state)| view(&graph, &row.state, node, state)).collect();
    Ok(RunView {
        id: row.id,
        workflow: row.workflow.clone(),
        version: row.version,
        state: row.status.as_str().to_owned(),
        created: done(&row.made),
        deadline: row.state.deadline,
        timed_out: row.state.timed_out,
        job: row.state.job.map(|job| job.job),
        output: row.state.output.clone(),
        reason: row.state.broken.clone(),
        explanation: explanation(row, &graph),
        ended_at: row.state.ended_at,
        cancelled: row.state.cancelled.as_ref().map(note),
        input: input.and_then(|input| RawValue::from_string(input.to_owned()).ok()),
        nodes,
    })
}

/// Why a run is in its state, and what it waits for.
fn explanation(row: &RunRow, graph: &Graph) -> String {
    let state = &row.state;
    let nodes = || graph.nodes.iter().zip(&state.nodes);
    match row.status {
        RunStatus::Running => {
            let mut waits: Vec<String> = nodes().filter_map(|(node, state)| what_runs(node, state)).collect();
            let more = waits.len().saturating_sub(NAMED_MAX);
            waits.truncate(NAMED_MAX);
            if more > 0 {
                waits.push(format!("{more} more"));
            }
            let ends = if state.cancelled.is_some() || state.timed_out { "It is ending. " } else { "" };
            format!("{ends}It waits for {}.", waits.join(", "))
        }
        RunStatus::Succeeded => "All its nodes have ended, and none failed.".to_owned(),
        RunStatus::Cancelled => "It was cancelled.".to_owned(),
        RunStatus::Failed => {
            let failed = nodes().find(|(_, node)| node.status == NodeStatus::Failed);
            match (&state.broken, failed) {
                (Some(reason), _) => format!("It failed: {reason}."),
                (None, _) if state.timed_out => "It failed because its time was over.".to_owned(),
                (None, Some((node, NodeState { reason: Some(reason), .. }))) => {
                    format!("It failed because `{}` failed: {reason}.", node.name)
                }
                (None, Some((node, _))) => format!("It failed because `{}` failed.", node.name),
                (None, None) => "It failed because a node was cancelled.".to_owned(),
            }
        }
    }
}

/// A node that has begun and not ended.
fn what_runs(node: &GraphNode, state: &NodeState) -> Option<String> {
    let job = || state.job.map(|job| format!(" ({job})")).unwrap_or_default();
    match (state.status, state.fan.as_deref()) {
        (NodeStatus::Active, Some(fan)) => {
            let done = fan.count(ItemStatus::Succeeded) + fan.count(ItemStatus::Failed);
            Some(format!("`{}` ({done} of {} jobs have ended)", node.name, fan.len()))
        }
        (NodeStatus::Active, None) => Some(format!("`{}`{}", node.name, job())),
        (NodeStatus::Open, _) => Some(match &node.event {
            Some(event) => format!("the event `{event}` (`{}`)", node.name),
            None => format!("a decision about `{}`", node.name),
        }),
        _ => None,
    }
}

/// What a node waits for that has not begun, or that is a gate.
fn waiting_for(graph: &Graph, node: &GraphNode, run: &RunState, state: &NodeState) -> Option<String> {
    match state.status {
        NodeStatus::Open => Some(match &node.event {
            Some(event) => format!("the event `{event}`"),
            None => "a decision".to_owned(),
        }),
        NodeStatus::Waiting if node.is_handler() => Some("the end of all nodes".to_owned()),
        NodeStatus::Waiting => {
            let open = node.needs.iter().filter(|&&need| !run.nodes[usize::from(need)].status.is_final());
            let names: Vec<String> = open.map(|&need| format!("`{}`", graph.nodes[usize::from(need)].name)).collect();
            (!names.is_empty()).then(|| names.join(", "))
        }
        _ => None,
    }
}

fn note(note: &Note) -> DoneBy {
    DoneBy { at: note.at, who: note.by.clone() }
}

fn view(graph: &Graph, run: &RunState, node: &GraphNode, state: &NodeState) -> NodeView {
    let kind = match node.kind {
        NodeKind::Work if node.runs_workflow => "workflow",
        NodeKind::Work => "task",
        NodeKind::Gate { .. } => "gate",
        NodeKind::Handler(HandlerKind::Failure) => "on_failure",
        NodeKind::Handler(HandlerKind::Success) => "on_success",
        NodeKind::Handler(HandlerKind::End) => "on_end",
    };
    NodeView {
        name: node.name.clone(),
        kind: kind.to_owned(),
        needs: node.needs.iter().map(|&need| graph.nodes[usize::from(need)].name.clone()).collect(),
        state: state.status.as_str().to_owned(),
        job: state.job,
        round: state.round,
        released_at: state.released_at,
        ended_at: state.ended_at,
        reason: state.reason.clone(),
        waiting_for: waiting_for(graph, node, run, state),
        decided: state.decided.as_ref().map(note),
        output_too_long: state.output_too_long,
        items: state.fan.as_deref().map(items),
    }
}

fn items(fan: &FanState) -> ItemsView {
    let count = |status| fan.count(status) as u32;
    ItemsView {
        total: fan.len() as u32,
        waiting: count(ItemStatus::Waiting),
        active: count(ItemStatus::Active),
        succeeded: count(ItemStatus::Succeeded),
        failed: count(ItemStatus::Failed),
        failed_jobs: fan.failed.values().copied().collect(),
    }
}
