//! `punctual doctor`: checks, each with its reason and its cure.

mod commands;
mod containers;
mod database;
mod sandbox;
mod zones;

use std::path::Path;

use clap::Args;
use comfy_table::Cell;
use punctual_api::{JobSummary, ListQuery, Node, WorkerView};
use punctual_client::Client;
use punctual_core::{JobState, Span, Timestamp};
use serde::Serialize;

use super::Context;
use crate::config::{Database, ServerSettings};
use crate::exit::{Exit, Report};
use crate::output::{Format, Output, Row};
use crate::table::Yield;
use crate::world::now;
use crate::zone::short;

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
enum Verdict {
    Pass,
    Warn,
    Fail,
}

#[derive(Debug, PartialEq, Serialize)]
struct Check {
    verdict: Verdict,
    name: &'static str,
    reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
}

impl Check {
    fn pass(name: &'static str, reason: impl Into<String>) -> Self {
        Self { verdict: Verdict::Pass, name, reason: reason.into(), fix: None }
    }
    fn warn(name: &'static str, reason: impl Into<String>, fix: &str) -> Self {
        Self { verdict: Verdict::Warn, name, reason: reason.into(), fix: Some(fix.to_owned()) }
    }
    fn fail(name: &'static str, reason: impl Into<String>, fix: &str) -> Self {
        Self { verdict: Verdict::Fail, name, reason: reason.into(), fix: Some(fix.to_owned()) }
    }
}

impl Row for Check {
    const HEADER: &'static [&'static str] = &["", "CHECK", "RESULT"];
    const YIELDS: &'static [Yield] = &[Yield::Fold("RESULT", 20)];

    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn cells(&self, _: &Output) -> Vec<Cell> {
        let verdict = match self.verdict {
            Verdict::Pass => "PASS",
            Verdict::Warn => "WARN",
            Verdict::Fail => "FAIL",
        };
        let fix = self.fix.as_deref().map(|fix| format!(". Fix: {fix}")).unwrap_or_default();
        vec![Cell::new(verdict), Cell::new(self.name), Cell::new(format!("{}{fix}", self.reason))]
    }
}

pub(crate) async fn run(_: DoctorArgs, context: &Context) -> anyhow::Result<Exit> {
    let mut checks = Vec::new();
    with_server(context, &mut checks).await;
    match ServerSettings::new(&context.config) {
        Ok(ServerSettings { database: Database::Postgres(connection), clock_skew_max, .. }) => {
            checks.extend(database::checks(&connection, clock_skew_max).await);
        }
        Ok(settings) => checks.push(data_dir(&settings.data_dir)),
        Err(error) => {
            checks.push(Check::fail("settings", error.to_string(), "correct the setting; see `punctual config`"));
        }
    }
    checks.push(open_files(&std::fs::read_to_string("/proc/self/limits").unwrap_or_default()));
    checks.push(sandbox::check().await);
    checks.extend(containers::check(&context.config).await);
    checks.extend(commands::check(&context.config));
    checks.push(zones::check(context).await);
    let out = &context.out;
    out.rows(&checks, &checks)?;
    let failed = checks.iter().filter(|check| check.verdict == Verdict::Fail).count();
    if failed > 0 {
        if out.format == Format::Table {
            out.hint(&format!("{failed} of {} checks failed.", checks.len()));
        }
        return Ok(Exit::Error);
    }
    Ok(Exit::Ok)
}

async fn with_server(context: &Context, checks: &mut Vec<Check>) {
    let client = match context.client() {
        Ok(client) => client,
        Err(error) => return checks.push(Check::fail("server", format!("{error:#}"), "correct --server")),
    };
    let before = now();
    let node = match client.server().await {
        Ok(node) => node,
        Err(error) => {
            let report = Report::new(&error.into());
            return checks.push(Check::fail("server", report.message, &report.hint));
        }
    };
    checks.push(Check::pass("server", format!("{} answers", client.url())));
    checks.push(version(&node.version));
    checks.push(clock(before, node.now, now()));
    checks.push(store(&node));
    match client.workers().await {
        Ok(list) => {
            checks.push(workers(&list.workers));
            checks.push(queues(&client, &list.workers).await);
        }
        Err(error) => checks.push(Check::fail("workers", error.to_string(), "see the server's log")),
    }
}

fn version(server: &str) -> Check {
    let ours = env!("CARGO_PKG_VERSION");
    if server == ours {
        return Check::pass("version", format!("server and command line are {ours}"));
    }
    Check::warn("version", format!("the server is {server}, the command line {ours}"), "install the same version")
}

/// More than this between machines confuses people who compare times.
const SKEW_WARN: Span = Span::from_secs(1);

/// The server read its clock between `before` and `after` of ours.
fn clock(before: Timestamp, server: Timestamp, after: Timestamp) -> Check {
    let skew = before.since(server).max(server.since(after));
    if skew <= SKEW_WARN {
        return Check::pass("clock", format!("within {} of the server's", short(skew.max(after.since(before)))));
    }
    Check::warn(
        "clock",
        format!("this machine and the server differ by {}", short(skew)),
        "synchronise both with NTP; jobs follow the server's clock",
    )
}

fn store(node: &Node) -> Check {
    let said = node.store.to_lowercase();
    let shards = format!("{} of {} shards", node.shards_owned, node.shards_total);
    if node.shards_owned == 0 && node.roles.iter().any(|role| role == "scheduler") {
        return Check::fail("store", format!("{}, {shards}", node.store), "see the server's log: it owns no jobs");
    }
    if said.contains("normal") || said.contains("off") {
        return Check::warn(
            "store",
            format!("{}, {shards}: a power cut may undo the last commits", node.store),
            database::durability_fix(&node.store),
        );
    }
    Check::pass("store", format!("{}, {shards}", node.store))
}

fn workers(workers: &[WorkerView]) -> Check {
    let connected: Vec<_> = workers.iter().filter(|worker| worker.state == "connected").collect();
    if connected.is_empty() {
        return Check::fail("workers", "none is connected: no job can run", "start one with `punctual worker`");
    }
    let slots: u32 = connected.iter().map(|worker| worker.slots).sum();
    let reason = format!("{} connected, {slots} slots", connected.len());
    let silent = workers.iter().filter(|worker| worker.state == "silent").count();
    if silent > 0 {
        return Check::warn("workers", format!("{reason}, {silent} silent"), "look at those machines");
    }
    Check::pass("workers", reason)
}

async fn queues(client: &Client, workers: &[WorkerView]) -> Check {
    let now = now();
    let query = ListQuery {
        state: Some(JobState::Scheduled.as_str().to_owned()),
        scheduled_before: Some(now.to_string()),
        order: Some("asc".to_owned()),
        ..ListQuery::default()
    };
    match client.first_jobs(&query, DUE_EXAMINED).await {
        Ok(mut listed) => {
            // The others wait for another attempt.
            listed.list.jobs.retain(|job| job.due_at <= now);
            unserved(&listed.list.jobs, workers)
        }
        Err(error) => Check::warn("queues", format!("cannot list jobs: {error}"), "see the server's log"),
    }
}

/// The oldest jobs that are due tell enough: a queue without a worker grows old.
const DUE_EXAMINED: usize = 1000;

fn unserved(due: &[JobSummary], workers: &[WorkerView]) -> Check {
    let served = |queue: &str| workers.iter().any(|worker| worker.queues.iter().any(|name| name == queue));
    let mut names: Vec<_> = due.iter().map(|job| job.task.queue.as_str()).filter(|queue| !served(queue)).collect();
    names.sort_unstable();
    names.dedup();
    if names.is_empty() {
        return Check::pass("queues", format!("every queue with due jobs has a worker ({} due)", due.len()));
    }
    let names = names.join(",");
    Check::warn(
        "queues",
        format!("jobs wait in queues that no worker serves: {names}"),
        &format!("start one with `punctual worker --queues {names}`"),
    )
}

/// Less than this and a busy server may stop within the hour.
const DISK_WARN_BYTES: u64 = 1 << 30;

fn data_dir(path: &Path) -> Check {
    const NAME: &str = "data folder";
    const FIX: &str = "name another folder with --data-dir";
    // Before the first start there is only a place for it.
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let Some(place) = absolute.ancestors().find(|dir| dir.is_dir()) else {
        return Check::fail(NAME, format!("{} cannot be made", path.display()), FIX);
    };
    if let Err(error) = tempfile::tempfile_in(place) {
        return Check::fail(NAME, format!("{} is not writable: {error}", place.display()), FIX);
    }
    let free = match rustix::fs::statvfs(place) {
        Ok(stat) => stat.f_bavail.saturating_mul(stat.f_frsize),
        Err(error) => return Check::warn(NAME, format!("cannot tell the free space: {error}"), FIX),
    };
    let gib = free as f64 / f64::from(1 << 30);
    let reason = format!("{} is writable, {gib:.1} GiB free", path.display());
    if free < DISK_WARN_BYTES {
        return Check::warn(NAME, reason, "make room, or shorten `retention`");
    }
    Check::pass(NAME, reason)
}

/// Each connection takes one, and each running HTTP call.
const OPEN_FILES_WARN: u64 = 4096;

fn open_files(limits: &str) -> Check {
    const NAME: &str = "open files";
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let Some(limit) = line.and_then(|line| line.split_whitespace().next()) else {
        return Check::warn(NAME, "cannot read the limit", "see `ulimit -n`");
    };
    match limit.parse::<u64>() {
        Ok(limit) if limit < OPEN_FILES_WARN => {
            Check::warn(NAME, format!("at most {limit}"), "raise it with `ulimit -n 65536` or LimitNOFILE")
        }
        _ => Check::pass(NAME, format!("at most {limit}")),
    }
}

#[cfg(test)]
mod tests;
