//! Runs for people.

use std::collections::BTreeMap;

use punctual_api::{DoneBy, ErrorKind, ItemsView, NodeView, RunList, RunQuery, RunSummary, RunView};
use punctual_core::access::Right;
use punctual_core::workflow::{
    FanState, Graph, GraphNode, HandlerKind, ItemStatus, NodeKind, NodeState, NodeStatus, Note, RunState, RunStatus,
    WorkflowSpec,
};
use punctual_core::{JobId, JobState, NamespaceId, RunId};
use punctual_store::{RunFilter, RunRow};
use serde_json::value::RawValue;

use super::apply::{done, read_spec};
use crate::parameters::{bad_cursor, page};
use crate::principal::permission::ViewJobs;
use crate::principal::{By, Permission};
use crate::{App, AppError, Result, cut, validate};

/// Nodes that one line names.
pub(super) const NAMED_MAX: usize = 5;

impl App {
    pub async fn run(&self, by: &By<ViewJobs>, id: RunId) -> Result<RunView> {
        let row = self.read_run(by.namespace(), id).await?;
        Ok(cut::run(by, self.run_view(&row, Quotes::of(by)).await?))
    }

    pub(super) async fn run_view(&self, row: &RunRow, quotes: Quotes) -> Result<RunView> {
        let workflow = self.read_workflow(row.namespace, &row.workflow, Some(row.version)).await?;
        run(row, &read_spec(&workflow)?, &self.jobs_told(row, quotes).await)
    }

    /// What some jobs of the run that failed or wait say of themselves.
    async fn jobs_told(&self, row: &RunRow, quotes: Quotes) -> BTreeMap<JobId, String> {
        let mut told = BTreeMap::new();
        let jobs: Vec<JobId> = row.state.nodes.iter().filter_map(asked).take(NAMED_MAX).collect();
        for id in jobs {
            // Not knowing it hides nothing else.
            let Ok(job) = self.read_job(row.namespace, id).await else { continue };
            let has_quotes = !job.attempts.is_empty() || job.finished_at.is_some();
            if has_quotes && quotes == Quotes::Hidden {
                continue;
            }
            let waits = || {
                let again = job.attempts.last().filter(|_| job.due_at > self.now())?;
                let reason = again.reason.as_deref().unwrap_or("no reason was given");
                Some(format!("it is tried again at {}, because attempt {} failed: {reason}", job.due_at, again.attempt))
            };
            let text = match JobState::parse(&job.state) {
                Some(JobState::Scheduled) => job.waiting_for.clone().or_else(waits),
                Some(state) if state.is_final() => job.reason.clone(),
                Some(_) | None => None,
            };
            told.extend(text.map(|text| (id, text)));
        }
        told
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

/// Whether a view quotes why jobs failed, and with that what programs printed and servers answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quotes {
    Shown,
    Hidden,
}

impl Quotes {
    pub(super) fn of<R: Permission>(by: &By<R>) -> Self {
        if by.may(Right::ViewOutputs) { Self::Shown } else { Self::Hidden }
    }
}

/// The job that says why a node failed or waits.
fn asked(node: &NodeState) -> Option<JobId> {
    match (node.status, node.fan.as_deref()) {
        (NodeStatus::Active, None) => node.job,
        (NodeStatus::Failed, None) if node.reason.is_none() => node.job,
        (NodeStatus::Failed, Some(fan)) if node.reason.is_none() => fan.failed.values().next().copied(),
        _ => None,
    }
}

/// `told`: what jobs of the run say of themselves.
pub(super) fn run(row: &RunRow, spec: &WorkflowSpec, told: &BTreeMap<JobId, String>) -> Result<RunView> {
    let graph = Graph::of(spec).map_err(|faults| {
        let detail = format!("version {} of the workflow {} is not valid for this server", row.version, row.workflow);
        AppError::new(ErrorKind::Internal, detail).because(format!("{faults:?}"))
    })?;
    let input = row.input.as_deref().and_then(|input| std::str::from_utf8(input).ok());
    let both = graph.nodes.iter().zip(&row.state.nodes).enumerate();
    let nodes = both.map(|(place, (node, state))| {
        let said = asked(state).and_then(|job| told.get(&job));
        let note = spec.nodes.get(place).and_then(|node| node.gate.as_ref()?.note.clone());
        NodeView { note, ..view(&graph, &row.state, node, state, said) }
    });
    let nodes: Vec<NodeView> = nodes.collect();
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
        explanation: explanation(row, &graph, &nodes),
        ended_at: row.state.ended_at,
        cancelled: row.state.cancelled.as_ref().map(note),
        input: input.and_then(|input| RawValue::from_string(input.to_owned()).ok()),
        nodes,
    })
}

/// Why a run is in its state, and what it waits for.
fn explanation(row: &RunRow, graph: &Graph, views: &[NodeView]) -> String {
    let state = &row.state;
    let nodes = || graph.nodes.iter().zip(&state.nodes).zip(views);
    match row.status {
        RunStatus::Running => {
            let mut waits: Vec<String> =
                nodes().filter_map(|((node, state), view)| what_runs(node, state, view)).collect();
            let more = waits.len().saturating_sub(NAMED_MAX);
            waits.truncate(NAMED_MAX);
            if more > 0 {
                waits.push(format!("{more} more"));
            }
            let ends = if state.cancelled.is_some() || state.timed_out { "It is ending. " } else { "" };
            let gate = nodes().find(|((node, state), _)| state.status == NodeStatus::Open && node.event.is_none());
            let decide = gate.map(|((gate, _), _)| {
                format!(
                    " Decide with `punctual workflow approve {} {}`, or reject it with --reject.",
                    row.id, gate.name
                )
            });
            format!("{ends}It waits for {}.{}", waits.join(", "), decide.unwrap_or_default())
        }
        RunStatus::Succeeded => "All its nodes have ended, and none failed.".to_owned(),
        RunStatus::Cancelled => "It was cancelled.".to_owned(),
        RunStatus::Failed => {
            let failed = nodes().find(|((_, node), _)| node.status == NodeStatus::Failed);
            let because = match (&state.broken, failed) {
                (Some(reason), _) => format!("It failed: {reason}."),
                (None, _) if state.timed_out => "It failed because its time was over.".to_owned(),
                (None, Some(((node, _), NodeView { reason: Some(reason), .. }))) => {
                    format!("It failed because `{}` failed: {}.", node.name, reason.trim_end_matches('.'))
                }
                (None, Some(((node, _), _))) => format!("It failed because `{}` failed.", node.name),
                (None, None) => "It failed because a node was cancelled.".to_owned(),
            };
            // The run of a job has ended with it, and a retry of the job begins another one.
            let resume = match state.job {
                None => format!(" Let it go on with `punctual workflow resume {}`: what succeeded stays.", row.id),
                Some(_) => String::new(),
            };
            because + &resume
        }
    }
}

/// A node that has begun and not ended.
fn what_runs(node: &GraphNode, state: &NodeState, view: &NodeView) -> Option<String> {
    let why = view.waiting_for.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
    let job = || state.job.map(|job| format!(" ({job}{why})")).unwrap_or_default();
    match (state.status, state.fan.as_deref()) {
        (NodeStatus::Active, Some(fan)) => {
            let done = fan.count(ItemStatus::Succeeded) + fan.count(ItemStatus::Failed);
            Some(format!("`{}` ({done} of {} jobs have ended)", node.name, fan.len()))
        }
        (NodeStatus::Active, None) => Some(format!("`{}`{}", node.name, job())),
        (NodeStatus::Open, _) => Some(match &node.event {
            Some(event) => format!("the event `{event}` (`{}`)", node.name),
            None => {
                let note = view.note.as_ref().map(|note| format!(" ({note})")).unwrap_or_default();
                format!("a decision about `{}`{note}", node.name)
            }
        }),
        _ => None,
    }
}

/// What a node waits for that has not begun, or that is a gate; why its job waits, if it has `said` so.
fn waiting_for(
    graph: &Graph,
    node: &GraphNode,
    run: &RunState,
    state: &NodeState,
    said: Option<&String>,
) -> Option<String> {
    match state.status {
        NodeStatus::Active => said.cloned(),
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

fn view(graph: &Graph, run: &RunState, node: &GraphNode, state: &NodeState, said: Option<&String>) -> NodeView {
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
        reason: state.reason.clone().or_else(|| said.filter(|_| state.status == NodeStatus::Failed).cloned()),
        note: None,
        waiting_for: waiting_for(graph, node, run, state, said),
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

#[cfg(test)]
mod tests {
    use punctual_core::schedule::By as MadeBy;
    use punctual_core::{ShardId, Timestamp};
    use serde_json::json;

    use super::*;

    const AT: Timestamp = Timestamp::EPOCH;

    fn job() -> JobId {
        JobId::new(AT, ShardId(0), 7)
    }

    /// A run of `a` and then the gate `ok`, whose nodes have these states.
    fn view(status: RunStatus, states: [NodeStatus; 2]) -> RunView {
        let spec = json!({ "nodes": [
            { "name": "a", "task": "t" },
            { "name": "ok", "needs": ["a"], "gate": { "note": "Is invoice 7 ok?" } },
        ] });
        let mut state = RunState::new(2, AT);
        for (node, status) in state.nodes.iter_mut().zip(states) {
            node.status = status;
        }
        state.nodes[0].job = Some(job());
        let row = RunRow {
            id: RunId::new(AT, ShardId(0), 1),
            namespace: NamespaceId::DEFAULT,
            workflow: "w".to_owned(),
            version: 1,
            made: MadeBy { at: AT, who: "local".to_owned() },
            input: None,
            tasks: vec![None, None],
            state,
            status,
        };
        let told = [(job(), "queue mail is paused since noon by ana".to_owned())].into();
        run(&row, &serde_json::from_value(spec).unwrap(), &told).unwrap()
    }

    #[test]
    fn a_run_that_failed_says_why_its_job_did_and_how_it_can_go_on() {
        let failed = view(RunStatus::Failed, [NodeStatus::Failed, NodeStatus::NotRun]);
        let id = failed.id;
        assert_eq!(
            failed.explanation,
            format!(
                "It failed because `a` failed: queue mail is paused since noon by ana. Let it go on with `punctual workflow \
                 resume {id}`: what succeeded stays."
            )
        );
        assert_eq!(failed.nodes[0].reason.as_deref(), Some("queue mail is paused since noon by ana"));
    }

    #[test]
    fn a_node_whose_job_waits_says_what_the_job_waits_for() {
        let running = view(RunStatus::Running, [NodeStatus::Active, NodeStatus::Waiting]);
        let waits = format!("It waits for `a` ({}: queue mail is paused since noon by ana).", job());
        assert_eq!(running.explanation, waits);
        assert_eq!(running.nodes[0].waiting_for.as_deref(), Some("queue mail is paused since noon by ana"));
        assert_eq!(running.nodes[1].waiting_for.as_deref(), Some("`a`"));
    }

    #[test]
    fn a_gate_shows_what_is_to_be_decided_and_how() {
        let open = view(RunStatus::Running, [NodeStatus::Succeeded, NodeStatus::Open]);
        assert_eq!(open.nodes[1].note.as_deref(), Some("Is invoice 7 ok?"));
        let id = open.id;
        assert_eq!(
            open.explanation,
            format!(
                "It waits for a decision about `ok` (Is invoice 7 ok?). Decide with `punctual workflow approve {id} ok`, or \
                 reject it with --reject."
            )
        );
    }
}
