//! `punctual bench`.

use clap::Args;

use super::Context;
use crate::bench::{Figure, Options, Workload};
use crate::config::settings;
use crate::exit::{Exit, usage};
use crate::output::{Format, note};
use crate::when::whole;

/// Measure this machine.
///
/// Each workload starts a server and a worker as processes of their own, in a temporary
/// folder that is removed at the end; or use --url. With --set database=postgres://… they use
/// a database that is made beside the named one and dropped at the end. Every acknowledged submission and every
/// completion that is counted is durable by the store's setting, which is named with each
/// figure. Latencies count from planned instants.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// What to measure; all but backlog, pinned and workflows unless told
    #[arg(value_name = "WORKLOAD")]
    workloads: Vec<Workload>,
    /// How many jobs; each workload has its own default
    #[arg(short = 'n', long, value_name = "N", value_parser = whole::<u64, 1, 9_007_199_254_740_992>)]
    jobs: Option<u64>,
    /// Measure this server, with the worker that it has. It keeps the jobs
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// How many servers; more than one need --set database=…
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u8, 1, 16>, conflicts_with = "url")]
    servers: u8,
    /// Small sizes: a look, not a result
    #[arg(long)]
    quick: bool,
    /// submit-single: let the jobs run at once
    #[arg(long)]
    due_now: bool,
    /// With TLS, an access token with each request, and a worker that joined
    #[arg(long, conflicts_with = "url")]
    tls: bool,
    /// A setting of the server and the worker, such as durability=normal; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE", conflicts_with = "url")]
    settings: Vec<String>,
}

impl BenchArgs {
    fn options(&self) -> anyhow::Result<Options> {
        let settings = self.settings.iter().map(|setting| {
            let (key, value) = setting
                .split_once('=')
                .ok_or_else(|| usage(format!("--set: `{setting}` has no value"), "write it like shards=8"))?;
            if !settings().any(|known| known.key == key) {
                return Err(usage(format!("--set: there is no setting `{key}`"), "see them with `punctual config`"));
            }
            Ok((key.to_owned(), value.to_owned()))
        });
        Ok(Options {
            url: self.url.clone(),
            // The same for every workload, so that a quick look stays quick.
            jobs: self.jobs,
            servers: usize::from(self.servers),
            quick: self.quick,
            due_now: self.due_now,
            tls: self.tls,
            settings: settings.collect::<anyhow::Result<_>>()?,
        })
    }
}

pub(crate) async fn run(args: BenchArgs, context: &Context) -> anyhow::Result<Exit> {
    let options = args.options()?;
    let workloads = if args.workloads.is_empty() { Workload::USUAL.to_vec() } else { args.workloads };
    let out = &context.out;
    let mut figures: Vec<Figure> = Vec::new();
    for workload in workloads {
        for figure in workload.run(&options).await? {
            if matches!(out.format, Format::Json | Format::Jsonl) {
                // One line each, in both: a run may take minutes, and be cut short.
                out.line(&serde_json::to_string(&figure)?)?;
            }
            figures.push(figure);
        }
    }
    if matches!(out.format, Format::Table | Format::Name) {
        out.rows(&figures, &figures)?;
        out.hint(
            "Drain counts from the spawn of the worker's process to the last durable completion; -o json has more.",
        );
    }
    if figures.iter().any(|figure| figure.steal_percent.is_some_and(|steal| steal > 2.0)) {
        note("The machine's host took more than 2 % of its time away; measure again.");
    }
    if figures.iter().any(|figure| figure.early.is_some_and(|early| early > 0)) {
        note("Jobs started early. That must never happen; please report it.");
        return Ok(Exit::Error);
    }
    Ok(Exit::Ok)
}
