//! `verify workflows`: chains A > B and C > D on three servers with PostgreSQL, while a server and a worker are killed at each
//! step. The witness says what began when; the runs say which job was for which node.

use std::collections::BTreeSet;
use std::time::Duration;

use clap::Args;
use punctual_api::{NodeView, RunView, WorkflowRunRequest};
use punctual_client::{Client, IfMatch};
use punctual_core::task::{Handler, Run, TaskSpec};
use punctual_core::{RunId, Span, Timestamp};
use punctual_promises::workflows::{
    Definition, JobEnd, NodeJob, Observed, Released, RunAtEnd, RunLine, RunStep, StepAnswer, WorkflowRun,
    check_workflow_runs,
};
use serde_json::{Value, json};

use crate::cluster::{Cluster, DatabaseKind, PATIENCE, Programs, Shape, eventually};
use crate::findings::Findings;
use crate::history::RunFolder;
use crate::witness::{Ended, HANDLER, Seen, WitnessLine};

const WORKERS: usize = 2;
/// More than there are retries.
const NEVER: &str = "1000";
/// A worker that is killed is noticed after 20 s of silence, and its job is tried again.
const RUN_WITHIN: Duration = Duration::from_secs(180);

#[derive(Debug, Clone, Args)]
pub struct Workflows {
    /// How many runs, one after the other
    #[arg(long, default_value_t = 20)]
    pub runs: usize,
    /// How many runs at the same time
    #[arg(long, default_value_t = 10)]
    pub at_once: usize,
    #[arg(long, default_value_t = 1)]
    pub rounds: u32,
}

impl Workflows {
    /// One round in `folder`. An error is a fault of the machine, not of the system.
    pub async fn round(&self, folder: &RunFolder) -> anyhow::Result<Findings> {
        let mut shape = Shape::new(3, WORKERS, DatabaseKind::Postgres);
        // A job is not to blame for the workers that are killed here; by default its third ends it as quarantined.
        shape.settings.push(("PUNCTUAL_QUARANTINE_AFTER", NEVER.to_owned()));
        let mut cluster = Cluster::start(shape, folder.clone(), Programs::find()?).await?;
        define(&cluster.clients()?[0]).await?;
        let mut ended = Vec::new();
        let mut kills = 0;
        while ended.len() < self.runs {
            let clients = cluster.clients()?;
            let mut started = Vec::new();
            for place in 0..self.at_once.min(self.runs - ended.len()) {
                let request = WorkflowRunRequest::default();
                started.push(clients[place % clients.len()].start_run("chains", &request).await?.id);
            }
            kills += strike_at_each_step(&mut cluster, started.len(), kills).await?;
            for id in started {
                ended.push(wait_for(&cluster, id).await?);
            }
        }
        let lines = folder.witness_lines()?;
        eprintln!(
            "  {} runs, {kills} servers and workers killed, {} starts of jobs",
            ended.len(),
            begins(&lines).count()
        );
        cluster.stop().await?;
        Ok(judge(&definition(), &ended, &lines))
    }
}

/// Chains A > B and C > D.
fn definition() -> Value {
    let node = |name: &str, needs: &[&str]| {
        json!({ "name": name, "task": "step", "needs": needs,
            "input": { "sleep_ms": { "value": 300 }, "fail_first": { "value": 0 } } })
    };
    json!({ "nodes": [node("a", &[]), node("b", &["a"]), node("c", &[]), node("d", &["c"])] })
}

async fn define(client: &Client) -> anyhow::Result<()> {
    let mut task = TaskSpec::new(Run::Handler(Handler { name: HANDLER.to_owned() }));
    task.retry.max = 10;
    task.node_retry.max = 20;
    task.node_retry.initial = Span::from_millis(200);
    client.apply_task("step", &task, IfMatch::Any).await?;
    client.apply_workflow("chains", &definition()).await?;
    Ok(())
}

/// Kills a server and a worker when the first jobs have begun, and when the next ones have. Answers how many it killed.
async fn strike_at_each_step(cluster: &mut Cluster, runs: usize, turn: usize) -> anyhow::Result<usize> {
    let before = begins(&cluster.folder.witness_lines()?).count();
    let mut kills = 0;
    for step in [1, runs, 2 * runs, 3 * runs] {
        let folder = cluster.folder.clone();
        let reached = async || folder.witness_lines().is_ok_and(|lines| begins(&lines).count() >= before + step);
        eventually("the next step to begin", RUN_WITHIN, reached).await?;
        let server = (turn + kills) % cluster.servers.len();
        cluster.servers[server].kill();
        let worker = cluster.workers.len() - 1 - (turn + kills) % WORKERS;
        cluster.workers[worker].process.kill();
        kills += 2;
        cluster.start_server(server).await?;
        cluster.workers.remove(worker);
        cluster.add_worker()?;
    }
    Ok(kills)
}

async fn wait_for(cluster: &Cluster, id: RunId) -> anyhow::Result<RunView> {
    let mut last = None;
    let limit = RUN_WITHIN + PATIENCE;
    eventually(&format!("{id} to end"), limit, async || {
        for client in cluster.clients().unwrap_or_default() {
            if let Ok(run) = client.workflow_run(id).await {
                let has_ended = run.state != "running";
                last = Some(run);
                return has_ended;
            }
        }
        false
    })
    .await?;
    last.ok_or_else(|| anyhow::anyhow!("{id} was not read"))
}

fn begins(lines: &[WitnessLine]) -> impl Iterator<Item = &WitnessLine> {
    lines.iter().filter(|line| line.seen == Seen::Begin)
}

/// Judges the runs by the promises that the simulator judges its own by, as far as a witness and the runs' views show them: each
/// node has one job, which begins when those before it are done, and all of them succeed. Beyond them, no job ran that is of no
/// node.
fn judge(definition: &Value, runs: &[RunView], lines: &[WitnessLine]) -> Findings {
    let mut findings = Findings::default();
    let histories: Vec<WorkflowRun> = runs.iter().map(|run| history(definition, run, lines)).collect();
    for found in check_workflow_runs(&histories) {
        let subject = found.subject.unwrap_or_default();
        let explanation = runs.iter().find(|run| run.id.to_string() == subject).map(|run| &run.explanation);
        findings.add(format!("{subject}: {}: {} ({})", found.promise, found.text, explanation.map_or("", |text| text)));
    }
    let known: BTreeSet<String> =
        runs.iter().flat_map(|run| &run.nodes).filter_map(|node| node.job).map(|job| job.to_string()).collect();
    let ran: BTreeSet<&str> = begins(lines).map(|line| line.job.as_str()).collect();
    for job in ran.into_iter().filter(|job| !known.contains(*job)) {
        findings.add(format!("{job} ran, and is of no node: a node was released twice"));
    }
    findings
}

fn history(definition: &Value, run: &RunView, lines: &[WitnessLine]) -> WorkflowRun {
    let names: Vec<&str> =
        definition["nodes"].as_array().into_iter().flatten().filter_map(|node| node["name"].as_str()).collect();
    let views: Vec<_> = names.iter().map(|name| run.nodes.iter().find(|node| node.name == *name)).collect();
    let job = |(node, view): (usize, &Option<&NodeView>)| {
        let job = view.and_then(|view| view.job)?.to_string();
        Some(NodeJob { job, node, element: 0, input: None })
    };
    let jobs: Vec<NodeJob> = views.iter().enumerate().filter_map(job).collect();
    let mut seen: Vec<&WitnessLine> = lines.iter().filter(|line| jobs.iter().any(|job| job.job == line.job)).collect();
    // What ended and what began at the same moment happened in this order.
    seen.sort_by_key(|line| (line.at.boot_us, line.seen == Seen::Begin));
    let step = |at: i64, what: Vec<Observed>| {
        let at = Timestamp::saturating_from_micros(at);
        RunLine::Step(RunStep { at, what, answer: StepAnswer::Done, released: Released::Unseen })
    };
    let first = seen.first().map_or(0, |line| line.at.boot_us);
    let line = |line: &&WitnessLine| match line.seen {
        Seen::Begin => Some(RunLine::Began { job: line.job.clone() }),
        Seen::End(Ended::Ok) => {
            let ended = Observed::Ended { job: line.job.clone(), end: JobEnd::Succeeded, output: None };
            Some(step(line.at.boot_us, vec![ended]))
        }
        // The job is tried again.
        Seen::End(Ended::Failed | Ended::Cancelled | Ended::Dropped) => None,
    };
    WorkflowRun {
        name: run.id.to_string(),
        definition: Definition::read(&definition.to_string()).expect("it is the definition of this test"),
        input: Value::Null,
        lines: [step(first, Vec::new())].into_iter().chain(seen.iter().filter_map(line)).collect(),
        at_end: RunAtEnd {
            status: Some(run.state.clone()),
            nodes: views.iter().map(|view| view.map_or("missing", |view| &view.state).to_owned()).collect(),
            jobs,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Moment;

    const A: &str = "job_01m7et433kee4803yssgvaf2fh";
    const B: &str = "job_01m7et433kee4803yssgvaf2fj";

    fn line(job: &str, at: i64, seen: Seen) -> WitnessLine {
        WitnessLine { job: job.to_owned(), attempt: 1, pid: 1, at: Moment { boot_us: at, real_us: at }, seen }
    }

    fn run(state: &str) -> RunView {
        let node = |name: &str, job: &str| json!({ "name": name, "kind": "task", "needs": [], "state": "succeeded", "job": job });
        serde_json::from_value(json!({
            "id": "run_01m7et433kee4803yssgvaf2fh", "workflow": "chains", "version": 1, "state": state,
            "created": { "at": "2026-12-24T18:00:00Z", "who": "me" }, "deadline": "2026-12-24T18:00:00Z",
            "timed_out": false, "nodes": [node("a", A), node("b", B)],
        }))
        .expect("a run")
    }

    fn faults(state: &str, lines: &[WitnessLine]) -> usize {
        let chain =
            json!({ "nodes": [{ "name": "a", "task": "step" }, { "name": "b", "task": "step", "needs": ["a"] }] });
        judge(&chain, &[run(state)], lines).faults.len()
    }

    #[test]
    fn what_is_out_of_order_twice_or_missing_is_found() {
        let ok = Seen::End(Ended::Ok);
        let good =
            [line(A, 1, Seen::Begin), line(A, 2, ok), line(B, 2, Seen::Begin), line(B, 3, ok), line(B, 9, Seen::Begin)];
        assert_eq!(faults("succeeded", &good), 0);
        assert_eq!(faults("failed", &good), 1);
        assert_eq!(faults("succeeded", &good[..3]), 1, "the second was never done");
        let early = [line(A, 1, Seen::Begin), line(B, 1, Seen::Begin), line(A, 2, ok), line(B, 3, ok)];
        assert_eq!(faults("succeeded", &early), 1);
        assert_eq!(faults("succeeded", &good[..2]), 1, "the second never began");
        let other = line("job_01m7et433kee4803yssgvaf2fk", 5, Seen::Begin);
        assert_eq!(faults("succeeded", &[&good[..], &[other]].concat()), 1);
    }
}
