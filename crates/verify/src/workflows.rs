//! `verify workflows`: chains A > B and C > D on three servers with PostgreSQL, while a server and a worker are killed at each
//! step. The witness says what began when; the runs say which job was for which node.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use clap::Args;
use punctual_api::{RunView, WorkflowRunRequest};
use punctual_client::{Client, IfMatch};
use punctual_core::task::{Handler, Run, TaskSpec};
use punctual_core::{RunId, Span};
use serde_json::json;

use crate::cluster::{Cluster, DatabaseKind, PATIENCE, Programs, Shape, eventually};
use crate::findings::Findings;
use crate::history::RunFolder;
use crate::witness::{Ended, HANDLER, Seen, WitnessLine};

const WORKERS: usize = 2;
/// A worker that is killed is noticed after 20 s of silence, and its job is tried again.
const RUN_WITHIN: Duration = Duration::from_secs(180);
/// Each pair: the first comes before the second.
const EDGES: [(&str, &str); 2] = [("a", "b"), ("c", "d")];

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
        let shape = Shape::new(3, WORKERS, DatabaseKind::Postgres);
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
        Ok(judge(&ended, &lines))
    }
}

async fn define(client: &Client) -> anyhow::Result<()> {
    let mut task = TaskSpec::new(Run::Handler(Handler { name: HANDLER.to_owned() }));
    task.retry.max = 10;
    task.node_retry.max = 20;
    task.node_retry.initial = Span::from_millis(200);
    client.apply_task("step", &task, IfMatch::Any).await?;
    let node = |name: &str, needs: &[&str]| {
        json!({ "name": name, "task": "step", "needs": needs,
            "input": { "sleep_ms": { "value": 300 }, "fail_first": { "value": 0 } } })
    };
    let nodes = [node("a", &[]), node("b", &["a"]), node("c", &[]), node("d", &["c"])];
    client.apply_workflow("chains", &json!({ "nodes": nodes })).await?;
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

/// What every run promises: it succeeds, each of its jobs was done, none began before those that come before it had ended
/// well, and no job ran that is not of a node.
fn judge(runs: &[RunView], lines: &[WitnessLine]) -> Findings {
    let mut findings = Findings::default();
    let mut first_begin: BTreeMap<&str, i64> = BTreeMap::new();
    let mut first_ok: BTreeMap<&str, i64> = BTreeMap::new();
    for line in lines {
        let times = match line.seen {
            Seen::Begin => &mut first_begin,
            Seen::End(Ended::Ok) => &mut first_ok,
            Seen::End(Ended::Failed | Ended::Cancelled | Ended::Dropped) => continue,
        };
        let first = times.entry(&line.job).or_insert(line.at.boot_us);
        *first = line.at.boot_us.min(*first);
    }
    let mut known = BTreeSet::new();
    for run in runs {
        findings.expect(run.state == "succeeded", || format!("{} is {}: {}", run.id, run.state, run.explanation));
        let job = |name: &str| run.nodes.iter().find(|node| node.name == name).and_then(|node| node.job);
        for node in &run.nodes {
            let Some(job) = node.job.map(|job| job.to_string()) else {
                findings.add(format!("{}: the node {} had no job", run.id, node.name));
                continue;
            };
            findings.expect(first_ok.contains_key(job.as_str()), || {
                format!("{}: {job} of the node {} was never done", run.id, node.name)
            });
            known.insert(job);
        }
        for (before, after) in EDGES {
            let (Some(before), Some(after)) = (job(before), job(after)) else { continue };
            let (done, begun) =
                (first_ok.get(before.to_string().as_str()), first_begin.get(after.to_string().as_str()));
            if let (Some(done), Some(begun)) = (done, begun) {
                findings.expect(done <= begun, || {
                    format!("{}: {after} began {} us before {before} was done", run.id, done - begun)
                });
            }
        }
    }
    for job in first_begin.keys().filter(|job| !known.contains(**job)) {
        findings.add(format!("{job} ran, and is of no node: a node was released twice"));
    }
    findings
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
        judge(&[run(state)], lines).faults.len()
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
        let other = line("job_01m7et433kee4803yssgvaf2fk", 5, Seen::Begin);
        assert_eq!(faults("succeeded", &[&good[..], &[other]].concat()), 1);
    }
}
