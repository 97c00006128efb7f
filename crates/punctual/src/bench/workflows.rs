//! workflows: how much a run costs beside plain jobs, how long a wide fan-out takes, and what waiting runs cost in memory.
//! Plain jobs and diamonds are drained in turns, each on a server of its own, so that both meet the same machine.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use futures_util::future::try_join_all;
use punctual_api::{Job, NodeView, RunView};
use punctual_core::RunId;
use serde_json::{Value, json};

use super::arena::{Arena, NOOP};
use super::figure::{Figure, Latencies};
use super::wire::Connection;
use super::{Options, bar, drain};

const DIAMOND: &str = "bench-diamond";
const DIAMOND_NODES: u64 = 4;
const FAN_OUT: &str = "bench-fan-out";
const WAITING: &str = "bench-waiting";
/// Of the tasks of which no worker runs any.
const NOBODYS_QUEUE: &str = "bench-nobody";

/// Runs are started one to a request; so many clients share the commits.
const CLIENTS: u64 = 64;
/// Jobs of the fan-out that may be under way at once: as many as a definition may ask for.
const AT_ONCE: u64 = 1_000;
const RUN_LIMIT: Duration = Duration::from_secs(300);
const POLL: Duration = Duration::from_millis(20);

struct Sizes {
    /// Of each drain.
    jobs: u64,
    rounds: usize,
    elements: u64,
    fan_outs: usize,
    waiting: u64,
}

impl Sizes {
    fn of(options: &Options) -> Self {
        let usual = if options.quick { 8_000 } else { 100_000 };
        let jobs = options.jobs_or(usual).next_multiple_of(DIAMOND_NODES);
        let (rounds, fan_outs) = if options.quick { (1, 1) } else { (3, 5) };
        Self { jobs, rounds, elements: jobs.min(10_000), fan_outs, waiting: jobs }
    }
}

pub(crate) async fn run(options: &Options) -> anyhow::Result<Vec<Figure>> {
    if options.url.is_some() {
        bail!("workflows measures servers of its own: leave out --url");
    }
    let sizes = Sizes::of(options);
    let (mut plain, mut diamonds) = (Vec::new(), Vec::new());
    for _ in 0..sizes.rounds {
        let mut arena = Arena::start(options).await?;
        plain.push(drain::in_arena(&mut arena, "workflows/plain", sizes.jobs).await?);
        arena.stop().await?;
        let mut arena = Arena::start(options).await?;
        diamonds.push(drain_diamonds(&mut arena, sizes.jobs).await?);
        arena.stop().await?;
    }
    let (plain, diamonds) = (median(plain)?, median(diamonds)?);
    let ratio = diamonds.per_second.unwrap_or_default() / plain.per_second.unwrap_or(f64::NAN);
    let runs = diamonds.per_second.unwrap_or_default() / DIAMOND_NODES as f64;
    let diamonds = diamonds.with("runs_per_second", runs).with("ratio_to_plain", ratio);
    let fan_out = fan_outs(options, &sizes).await?;
    let waiting = waiting(options, sizes.waiting).await?;
    Ok(vec![plain, diamonds, fan_out, waiting])
}

/// The figure whose rate is in the middle.
fn median(mut figures: Vec<Figure>) -> anyhow::Result<Figure> {
    let rate = |figure: &Figure| figure.per_second.unwrap_or_default();
    figures.sort_by(|one, other| rate(one).total_cmp(&rate(other)));
    let rounds = figures.len();
    ensure!(rounds > 0, "there is a round");
    let (least, most) = (rate(&figures[0]), rate(&figures[rounds - 1]));
    let middle = figures.swap_remove(rounds / 2);
    Ok(middle.with("rounds", rounds as f64).with("per_second_least", least).with("per_second_most", most))
}

/// `b` and `c` follow `a`, and `d` follows both.
async fn drain_diamonds(arena: &mut Arena, jobs: u64) -> anyhow::Result<Figure> {
    let node = |name: &str, needs: &[&str]| json!({ "name": name, "task": NOOP, "needs": needs });
    let nodes = [node("a", &[]), node("b", &["a"]), node("c", &["a"]), node("d", &["b", "c"])];
    apply(arena, DIAMOND, &json!({ "nodes": nodes })).await?;
    let runs = jobs / DIAMOND_NODES;
    let before = arena.stats().await?;
    let mark = arena.mark().await?;
    start_runs(arena, "workflows/start", DIAMOND, runs).await?;
    let starts_per_second = runs as f64 / mark.elapsed().as_secs_f64();
    let figure = drain::with_worker(arena, "workflows/diamonds", &before, jobs).await?;
    Ok(figure.with("starts_per_second", starts_per_second))
}

/// From the end of the node that returns a list to the start of the job that is given the results of all its elements.
async fn fan_outs(options: &Options, sizes: &Sizes) -> anyhow::Result<Figure> {
    let mut arena = Arena::start(options).await?;
    let list: Vec<u64> = (0..sizes.elements).collect();
    let probe = |output: Value| json!({ "run": { "probe": { "output": output.to_string() } } });
    let nodes = [
        json!({ "name": "list", "inline": probe(json!(list)) }),
        json!({ "name": "map", "needs": ["list"], "inline": probe(json!(1)),
                "for_each": { "from": "list", "at_once": AT_ONCE.min(sizes.elements) } }),
        json!({ "name": "join", "needs": ["map"], "task": NOOP, "input": { "results": { "from": "map" } } }),
    ];
    apply(&arena, FAN_OUT, &json!({ "nodes": nodes })).await?;
    arena.start_worker()?;
    arena.worker_connected().await?;
    let mut connection = arena.connect(0).await?;
    let progress = bar("workflows/fan-out", sizes.fan_outs as u64);
    let mark = arena.mark().await?;
    let mut latencies = Latencies::new();
    for _ in 0..sizes.fan_outs {
        let id = start_run(&mut connection, FAN_OUT).await?;
        latencies.record_us(fan_out_us(&mut connection, id).await?);
        progress.inc(1);
    }
    progress.finish_and_clear();
    let jobs = sizes.fan_outs as u64 * (sizes.elements + 2);
    let figure = arena.figure("workflows/fan-out", &mark, mark.elapsed(), jobs).await?;
    arena.stop().await?;
    Ok(figure.with_latencies(&latencies).with("elements", sizes.elements as f64).with("at_once", AT_ONCE as f64))
}

async fn fan_out_us(connection: &mut Connection, id: RunId) -> anyhow::Result<u64> {
    let run = ended(connection, id).await?;
    let node = |name: &str| -> anyhow::Result<&NodeView> {
        run.nodes.iter().find(|node| node.name == name).with_context(|| format!("{id} has no node {name}"))
    };
    let from = node("list")?.ended_at.context("a node that succeeded has ended")?;
    let join = node("join")?.job.context("a node that succeeded had a job")?;
    let job: Job = serde_json::from_slice(connection.get(&format!("/v1/jobs/{join}")).await?)?;
    let started = job.attempts.first().context("a job that succeeded was started")?.started_at;
    Ok(started.since(from).as_micros().unsigned_abs())
}

async fn ended(connection: &mut Connection, id: RunId) -> anyhow::Result<RunView> {
    let begun = Instant::now();
    loop {
        let run: RunView = serde_json::from_slice(connection.get(&format!("/v1/runs/{id}")).await?)?;
        match run.state.as_str() {
            "succeeded" => return Ok(run),
            "running" if begun.elapsed() < RUN_LIMIT => tokio::time::sleep(POLL).await,
            state => bail!("{id} is {state} after {:?}: {}", begun.elapsed(), run.explanation),
        }
    }
}

/// Runs whose first job no worker runs. Only as many of their jobs as the window holds are in memory.
async fn waiting(options: &Options, runs: u64) -> anyhow::Result<Figure> {
    let arena = Arena::start(options).await?;
    let nobodys = json!({ "queue": NOBODYS_QUEUE, "run": { "probe": {} } });
    let nodes = [
        json!({ "name": "first", "inline": nobodys }),
        json!({ "name": "gate", "needs": ["first"], "gate": {} }),
        json!({ "name": "last", "needs": ["gate"], "task": NOOP }),
    ];
    apply(&arena, WAITING, &json!({ "nodes": nodes })).await?;
    let half = runs / 2;
    start_runs(&arena, "workflows/waiting", WAITING, half).await?;
    let rss_at_half = arena.rss_mib(&arena.stats().await?);
    let mark = arena.mark().await?;
    start_runs(&arena, "workflows/waiting", WAITING, runs - half).await?;
    let elapsed = mark.elapsed();
    let figure = arena.figure("workflows/waiting", &mark, elapsed, runs - half).await?;
    let stats = arena.stats().await?;
    arena.stop().await?;
    let figure = figure.with("runs_waiting", runs as f64).with("jobs_in_memory", (stats.ready + stats.waiting) as f64);
    Ok(match rss_at_half {
        Some(rss) => figure.with("rss_mib_at_half", rss),
        None => figure,
    })
}

async fn apply(arena: &Arena, name: &str, spec: &Value) -> anyhow::Result<()> {
    let mut connection = arena.connect(0).await?;
    connection.put(&format!("/v1/workflows/{name}"), &spec.to_string()).await?;
    Ok(())
}

async fn start_run(connection: &mut Connection, workflow: &str) -> anyhow::Result<RunId> {
    let run: RunView = serde_json::from_slice(connection.post(&format!("/v1/workflows/{workflow}/runs"), "{}").await?)?;
    Ok(run.id)
}

async fn start_runs(arena: &Arena, title: &str, workflow: &str, runs: u64) -> anyhow::Result<()> {
    let progress = bar(&format!("{title}: starting"), runs);
    let path = format!("/v1/workflows/{workflow}/runs");
    let next = AtomicU64::new(0);
    let client = async |place: u64| -> anyhow::Result<()> {
        let mut connection = arena.connect(place as usize).await?;
        while next.fetch_add(1, Ordering::Relaxed) < runs {
            connection.post(&path, "{}").await?;
            progress.inc(1);
        }
        Ok(())
    };
    try_join_all((0..CLIENTS.min(runs)).map(client)).await?;
    progress.finish_and_clear();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drain_of_diamonds_has_whole_diamonds_and_as_many_jobs_as_the_plain_one() {
        let options = Options {
            url: None,
            jobs: Some(1_001),
            servers: 1,
            quick: false,
            due_now: false,
            tls: false,
            settings: Vec::new(),
        };
        assert_eq!((Sizes::of(&options).jobs, Sizes::of(&options).elements), (1_004, 1_004));
        let full = Sizes::of(&Options { jobs: None, ..options });
        assert_eq!((full.jobs, full.elements, full.waiting), (100_000, 10_000, 100_000));
    }
}
