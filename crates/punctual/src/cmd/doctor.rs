//! `punctual doctor`: checks, each with its reason and its cure.

mod cluster_secret;
mod commands;
mod containers;
mod data;
mod database;
mod sandbox;
mod tls;
mod waiting;
mod zones;

use clap::Args;
use comfy_table::Cell;
use punctual_api::{ErrorKind, Node, WorkerView};
use punctual_core::{Span, Timestamp};
use serde::Serialize;

use super::Context;
use crate::clock::now;
use crate::config::{Database, ServerSettings};
use crate::exit::{Exit, Report};
use crate::output::{Format, Output, Row};
use crate::table::Yield;
use crate::zone::short;

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
enum Verdict {
    Pass,
    /// It cannot be looked at from here.
    Skip,
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
    fn skip(name: &'static str, reason: impl Into<String>) -> Self {
        Self { verdict: Verdict::Skip, name, reason: reason.into(), fix: None }
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
            Verdict::Skip => "SKIP",
            Verdict::Warn => "WARN",
            Verdict::Fail => "FAIL",
        };
        let fix = self.fix.as_deref().map(|fix| format!(". Fix: {fix}")).unwrap_or_default();
        vec![Cell::new(verdict), Cell::new(self.name), Cell::new(format!("{}{fix}", self.reason))]
    }
}

pub(crate) async fn run(_: DoctorArgs, context: &Context) -> anyhow::Result<Exit> {
    let mut checks = Vec::new();
    let answered = with_server(context, &mut checks).await;
    let settings = ServerSettings::new(&context.config);
    if let Ok(settings) = &settings {
        checks.extend(tls::of_settings(context, settings).await);
    }
    match settings {
        Ok(ServerSettings { database: Database::Postgres(connection), clock_skew_max, .. }) => {
            checks.extend(database::checks(&connection, clock_skew_max).await);
        }
        Ok(settings) => checks.extend(data::checks(&settings.data_dir, answered.node.as_ref(), &context.out).await),
        Err(error) => {
            checks.push(Check::fail("settings", error.to_string(), "correct the setting; see `punctual config`"));
        }
    }
    checks.push(open_files(&std::fs::read_to_string("/proc/self/limits").unwrap_or_default()));
    checks.push(sandbox::check(&context.config).await);
    checks.extend(containers::check(&context.config).await);
    checks.extend(commands::check(&context.config, answered.workers.as_deref()));
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

/// What the server said of itself and of its workers, if it did.
#[derive(Default)]
struct Answered {
    node: Option<Node>,
    workers: Option<Vec<WorkerView>>,
}

async fn with_server(context: &Context, checks: &mut Vec<Check>) -> Answered {
    let mut answered = Answered::default();
    let client = match context.client() {
        Ok(client) => client,
        Err(error) => {
            checks.push(Check::fail("server", format!("{error:#}"), "correct --server"));
            return answered;
        }
    };
    let before = now();
    let node = match client.server().await {
        Ok(node) => node,
        Err(error) => {
            let report = Report::new(&error.into());
            checks.push(Check::fail("server", report.message, &report.hint));
            return answered;
        }
    };
    checks.push(Check::pass("server", format!("{} answers", client.url())));
    checks.push(version(&node.version));
    checks.push(clock(before, node.now, now()));
    checks.extend(tls::of_server(context, &client).await);
    let not_ready = client.ready().await.err().map(|error| Report::new(&error.into()));
    checks.push(ready(not_ready.as_ref()));
    checks.push(store(&node, not_ready.as_ref()));
    checks.push(cluster_secret::check(&client, node.now).await);
    answered.node = Some(node);
    match client.workers().await {
        Ok(list) => {
            checks.push(workers(&list.workers));
            answered.workers = Some(list.workers);
        }
        Err(error) => checks.push(Check::fail("workers", error.to_string(), "see the server's log")),
    }
    checks.push(waiting::check(&client, context.namespaces().is_ok_and(|names| !names.is_empty())).await);
    answered
}

/// What the server says about itself when somebody wants to write.
fn ready(not_ready: Option<&Report>) -> Check {
    const NAME: &str = "ready";
    match not_ready {
        None => Check::pass(NAME, "the server writes to its database"),
        Some(report) => Check::fail(NAME, format!("{} ({})", report.message, report.code), &report.hint),
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

/// What the server says of its store is what it knew when that answered last.
fn store(node: &Node, not_ready: Option<&Report>) -> Check {
    let said = node.store.to_lowercase();
    if let Some(report) = not_ready.filter(|report| is_of_store(&report.code)) {
        return Check::fail("store", format!("{}: {}", node.store, report.message), &report.hint);
    }
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

fn is_of_store(code: &str) -> bool {
    let kinds = [
        ErrorKind::DatabaseUnavailable,
        ErrorKind::DatabaseCorrupt,
        ErrorKind::DatabaseFileReplaced,
        ErrorKind::DatabaseReadOnly,
        ErrorKind::DiskFull,
    ];
    kinds.into_iter().any(|kind| kind.code() == code)
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
