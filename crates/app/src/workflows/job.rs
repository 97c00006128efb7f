//! What comes before and after a job of a run.

use punctual_api::{Job, JobInRun, RelatedNode};
use punctual_core::workflow::{Graph, NodeState};
use punctual_core::{NamespaceId, RunId};

use super::apply::read_spec;
use crate::{App, Result};

impl App {
    /// The job, with its place in its run. Jobs of runs carry the id of the run as their tracing id, so that nothing is looked up
    /// for others.
    pub(crate) async fn with_run(&self, namespace: NamespaceId, job: Job) -> Result<Job> {
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
        Ok(Job { workflow: Some(Box::new(place)), ..job })
    }
}

fn related(graph: &Graph, number: u16, state: &NodeState) -> RelatedNode {
    let node = graph.nodes[usize::from(number)].name.clone();
    RelatedNode { node, state: state.status.as_str().to_owned(), job: state.job }
}
