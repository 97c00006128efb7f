//! What comes before and after a job of a run.

use punctual_api::{Job, JobInRun, RelatedNode};
use punctual_core::run::Run;
use punctual_core::workflow::{Graph, NodeState, NodeStatus, RunStatus};
use punctual_core::{NamespaceId, RunId};

use super::apply::read_spec;
use super::view::{NAMED_MAX, Quotes};
use crate::{App, Result};

impl App {
    /// A job that runs a workflow, with its run.
    async fn with_own_run(&self, job: Job) -> Result<Job> {
        let is_workflow = job.definition.as_ref().is_some_and(|of| matches!(of.spec.run, Run::Workflow(_)));
        if !is_workflow || job.attempt_count == 0 {
            return Ok(job);
        }
        let Some(run) = self.0.store.run(RunId::of_attempt(job.id, job.attempt_count)).await? else { return Ok(job) };
        let mut job = Job { run: Some(run.id), ..job };
        if run.status == RunStatus::Running {
            let view = self.run_view(&run, Quotes::Shown).await?;
            job.explanation =
                format!("It runs {}, version {} of {}. {}", run.id, run.version, run.workflow, view.explanation);
        }
        Ok(job)
    }

    /// The job, with its place in its run. Jobs of runs carry the id of the run as their tracing id, so that nothing is looked up
    /// for others.
    pub(crate) async fn with_run(&self, namespace: NamespaceId, job: Job) -> Result<Job> {
        let job = self.with_own_run(job).await?;
        let is_of_run = job.tracing_id.as_deref().is_some_and(|id| id.parse::<RunId>().is_ok());
        if !is_of_run {
            return Ok(job);
        }
        let Some(node) = self.0.store.node_of_job(job.id).await? else { return Ok(job) };
        let Some(run) = self.0.store.run(node.run).await?.filter(|run| run.namespace == namespace) else {
            return Ok(job);
        };
        let workflow = self.read_workflow(namespace, &run.workflow, Some(run.version)).await?;
        let Ok(graph) = Graph::of(&read_spec(&workflow)?) else { return Ok(job) };
        let Some(state) = run.state.nodes.get(usize::from(node.node)) else { return Ok(job) };
        let related = |number: u16| related(&graph, number, &run.state.nodes[usize::from(number)]);
        let place = JobInRun {
            run: run.id,
            workflow: run.workflow.clone(),
            version: run.version,
            node: graph.nodes[usize::from(node.node)].name.clone(),
            item: state.fan.as_ref().map(|_| node.item),
            before: graph.before(node.node).into_iter().map(related).collect(),
            after: graph.after(node.node).into_iter().map(related).collect(),
        };
        let explanation = format!("{} {}", job.explanation, explanation(&place));
        Ok(Job { workflow: Some(Box::new(place)), explanation, ..job })
    }
}

/// Which node the job is for, and which nodes wait for it.
fn explanation(place: &JobInRun) -> String {
    let waits = |node: &&RelatedNode| node.state == NodeStatus::Waiting.as_str();
    let mut waiting: Vec<String> = place.after.iter().filter(waits).map(|node| format!("`{}`", node.node)).collect();
    let more = waiting.len().saturating_sub(NAMED_MAX);
    waiting.truncate(NAMED_MAX);
    if more > 0 {
        waiting.push(format!("{more} more"));
    }
    let wait = match &waiting[..] {
        [] => String::new(),
        [_] if more == 0 => format!("; {} waits for it", waiting.join(", ")),
        _ => format!("; {} wait for it", waiting.join(", ")),
    };
    format!("It is for the node `{}` of {}{wait}.", place.node, place.run)
}

fn related(graph: &Graph, number: u16, state: &NodeState) -> RelatedNode {
    let node = graph.nodes[usize::from(number)].name.clone();
    RelatedNode { node, state: state.status.as_str().to_owned(), job: state.job }
}
