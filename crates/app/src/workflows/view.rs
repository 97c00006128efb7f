//! Runs for people.

use punctual_api::{DoneBy, ErrorKind, ItemsView, NodeView, RunList, RunQuery, RunSummary, RunView};
use punctual_core::workflow::{
    FanState, Graph, GraphNode, HandlerKind, ItemStatus, NodeKind, NodeState, Note, WorkflowSpec,
};
use punctual_core::{NamespaceId, RunId};
use punctual_store::{RunFilter, RunRow};
use serde_json::value::RawValue;

use super::apply::{done, read_spec};
use crate::parameters::{bad_cursor, page};
use crate::principal::By;
use crate::principal::permission::ViewJobs;
use crate::{App, AppError, Result, cut, validate};

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
        let row = self.0.store.run(id).await?.filter(|row| row.namespace == namespace);
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
    let nodes = graph.nodes.iter().zip(&row.state.nodes).map(|(node, state)| view(&graph, node, state)).collect();
    Ok(RunView {
        id: row.id,
        workflow: row.workflow.clone(),
        version: row.version,
        state: row.status.as_str().to_owned(),
        created: done(&row.made),
        deadline: row.state.deadline,
        timed_out: row.state.timed_out,
        ended_at: row.state.ended_at,
        cancelled: row.state.cancelled.as_ref().map(note),
        input: input.and_then(|input| RawValue::from_string(input.to_owned()).ok()),
        nodes,
    })
}

fn note(note: &Note) -> DoneBy {
    DoneBy { at: note.at, who: note.by.clone() }
}

fn view(graph: &Graph, node: &GraphNode, state: &NodeState) -> NodeView {
    let kind = match node.kind {
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
