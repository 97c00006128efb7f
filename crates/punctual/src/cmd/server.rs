//! `punctual server`.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};

use clap::{Args, Subcommand};
use punctual_api::Stats;
use punctual_app::WorkerProgram;
use punctual_core::Span;
use punctual_store_sqlite::DataLoss;
use serde_json::json;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::{Context, servers};
use crate::cli::given;
use crate::config::{Database, ServerSettings};
use crate::exit::{Exit, failed};
use crate::folders::make_data_dir;
use crate::output::{Format, note};
use crate::signals::{Stop, Until};
use crate::wiring::{self, ServerOptions, ServerReady};
use crate::zone::short;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct ServerArgs {
    #[command(subcommand)]
    pub(crate) verb: Option<ServerVerb>,
    #[command(flatten)]
    flags: ServerFlags,
    /// Where to listen [default: 127.0.0.1:8020]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// The URL at which peers and workers reach this server [default: http:// and the address above]
    #[arg(long, value_name = "URL")]
    advertise: Option<String>,
    /// What links in notifications begin with [default: http:// and the address above]
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,
    /// What this server does: api, scheduler or both, with commas [default: api,scheduler]
    #[arg(long, value_name = "ROLES")]
    roles: Option<String>,
    /// The folder of the embedded database [default: .punctual]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<String>,
    /// How long to wait for the PostgreSQL when it cannot be reached at the start [default: 60s]
    #[arg(long, value_name = "TIME")]
    database_wait: Option<String>,
    /// A server that is silent for so long loses its shards to the others [default: 10s]
    #[arg(long, value_name = "TIME")]
    lease_ttl: Option<String>,
    /// A server whose clock differs from the database's by more starts nothing [default: 5s]
    #[arg(long, value_name = "TIME")]
    clock_skew_max: Option<String>,
    /// End when stdin does
    #[arg(long, hide = true)]
    exit_with_stdin: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ServerVerb {
    /// List the servers of the cluster, with what each owns and does
    List(servers::ListArgs),
    /// Show the server and what it has done so far
    Status,
}

/// Flags of servers, alone or with a worker. Each is a setting; see `punctual config --help`.
#[derive(Debug, Args)]
pub(crate) struct ServerFlags {
    /// A PostgreSQL, as a URL or as key=value pairs; without a password, which belongs into
    /// PUNCTUAL_DATABASE or PGPASSWORD [default: the embedded database]
    #[arg(long, value_name = "PLACE")]
    database: Option<String>,
    /// full or normal; of the embedded database [default: full]
    #[arg(long, value_name = "MODE")]
    durability: Option<String>,
    /// Parts that the jobs are split into; fixed by the first server [default: 4, or 64 with a PostgreSQL]
    #[arg(long, value_name = "N")]
    shards: Option<String>,
    /// A planned time of a schedule that nobody decided about for so long was missed [default: 60s]
    #[arg(long, value_name = "TIME")]
    missed_after: Option<String>,
    /// How far ahead of their time jobs are read into memory [default: 30s]
    #[arg(long, value_name = "TIME")]
    look_ahead: Option<String>,
    /// Jobs that wait in memory, at most, over all shards [default: 20000]
    #[arg(long, value_name = "N")]
    window_max: Option<String>,
    /// How long finished jobs are kept [default: 7d]
    #[arg(long, value_name = "TIME")]
    retention: Option<String>,
    /// Where uploaded files are: a folder, or s3://bucket/prefix [default: storage in the data folder]
    #[arg(long, value_name = "PLACE")]
    storage: Option<String>,
    /// The largest file that may be uploaded [default: 2GiB]
    #[arg(long, value_name = "SIZE")]
    artifact_max: Option<String>,
    /// The size of one attempt's log, 64KiB to 16MiB; of a longer one, the beginning and the end are kept [default: 1MiB]
    #[arg(long, value_name = "SIZE")]
    log_limit: Option<String>,
    /// How often a worker says that it is alive [default: 5s]
    #[arg(long, value_name = "TIME")]
    heartbeat: Option<String>,
    /// A worker that is silent for so long is dead [default: 20s]
    #[arg(long, value_name = "TIME")]
    worker_dead_after: Option<String>,
    /// Start although the embedded database has lost commits that were acknowledged
    #[arg(long)]
    accept_data_loss: bool,
}

impl ServerFlags {
    /// For this start alone, so it is no setting.
    pub(crate) fn data_loss(&self) -> DataLoss {
        if self.accept_data_loss { DataLoss::Accept } else { DataLoss::Refuse }
    }

    pub(crate) fn flags(&self) -> Vec<(&'static str, String)> {
        given([
            ("database", self.database.clone()),
            ("durability", self.durability.clone()),
            ("shards", self.shards.clone()),
            ("missed_after", self.missed_after.clone()),
            ("look_ahead", self.look_ahead.clone()),
            ("window_max", self.window_max.clone()),
            ("retention", self.retention.clone()),
            ("storage", self.storage.clone()),
            ("artifact_max", self.artifact_max.clone()),
            ("log_limit", self.log_limit.clone()),
            ("heartbeat", self.heartbeat.clone()),
            ("worker_dead_after", self.worker_dead_after.clone()),
        ])
    }
}

impl ServerArgs {
    pub(crate) fn flags(&self) -> Vec<(&'static str, String)> {
        let mut flags = self.flags.flags();
        flags.extend(given([
            ("listen", self.listen.clone()),
            ("advertise", self.advertise.clone()),
            ("public_url", self.public_url.clone()),
            ("roles", self.roles.clone()),
            ("data_dir", self.data_dir.clone()),
            ("database_wait", self.database_wait.clone()),
            ("lease_ttl", self.lease_ttl.clone()),
            ("clock_skew_max", self.clock_skew_max.clone()),
        ]));
        flags
    }
}

/// Binds before anything else is done, so that a taken port costs nothing.
pub(crate) fn bind(listen: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(listen).map_err(|error| {
        let hint = match error.kind() {
            ErrorKind::AddrInUse => format!(
                "another server may be running: see `punctual doctor --server http://{listen}`, or choose another \
                 port with --listen"
            ),
            ErrorKind::PermissionDenied => "choose a port above 1023 with --listen".to_owned(),
            _ => "choose another address with --listen".to_owned(),
        };
        failed(format!("cannot listen on {listen}: {}", error.kind()), hint)
    })
}

/// The server's ready message, or the error that it ended with instead.
pub(crate) async fn until_ready(
    ready: oneshot::Receiver<ServerReady>,
    server: &mut JoinHandle<anyhow::Result<()>>,
) -> anyhow::Result<ServerReady> {
    match ready.await {
        Ok(ready) => Ok(ready),
        Err(_) => {
            server.await??;
            anyhow::bail!("the server ended before it was ready")
        }
    }
}

pub(crate) async fn run(args: ServerArgs, context: &Context) -> anyhow::Result<Exit> {
    match args.verb {
        Some(ServerVerb::List(args)) => return servers::list(args, context).await,
        Some(ServerVerb::Status) => return status(context).await,
        None => {}
    }
    context.start_logging("info")?;
    let mut settings = ServerSettings::new(&context.config)?;
    settings.data_loss = args.flags.data_loss();
    let until = if args.exit_with_stdin { Until::StdinCloses } else { Until::Signal };
    let stop = Stop::listen(until, &context.out)?;
    if settings.database == Database::Embedded {
        make_data_dir(&settings.data_dir, "--data-dir")?;
    }
    let listener = bind(settings.listen)?;
    let place = settings.database.place(&settings.data_dir);
    let (ready_sender, ready) = oneshot::channel();
    let options = ServerOptions { listener, settings, worker_program: WorkerProgram::Worker };
    let mut server = tokio::spawn(wiring::run_server(options, ready_sender, stop.requested()));
    let ready = until_ready(ready, &mut server).await?;
    announce(&ready, &place, context)?;
    server.await??;
    Ok(Exit::Ok)
}

/// One line: for people on stderr, or for programs on stdout.
fn announce(ready: &ServerReady, place: &str, context: &Context) -> anyhow::Result<()> {
    match context.out.format {
        Format::Table | Format::Name => {
            context.out.hint(&format!(
                "Listening on http://{} ({}, in {place}). Only this machine can reach it; other users need the \
                 access token.",
                ready.address, ready.store,
            ));
            Ok(())
        }
        Format::Json | Format::Jsonl => context.out.line(&ready_json(ready, place)),
    }
}

pub(crate) fn ready_json(ready: &ServerReady, place: &str) -> String {
    let url = format!("http://{}", ready.address);
    json!({ "url": url, "store": ready.store, "place": place }).to_string()
}

async fn status(context: &Context) -> anyhow::Result<Exit> {
    let client = context.client()?;
    let (node, stats) = (client.server().await?, client.stats().await?);
    match context.out.format {
        Format::Json | Format::Jsonl => context.out.json(&json!({ "server": node, "stats": stats }))?,
        Format::Name => context.out.line(&node.id.to_string())?,
        Format::Table => {
            let since = context.out.zone.show(node.started_at);
            context.out.line(&format!(
                "{}  version {}, {}, {} of {} shards, up since {since}",
                node.id, node.version, node.store, node.shards_owned, node.shards_total
            ))?;
            context.out.write(&figures(&stats)?)?;
            if stats.workers == 0 {
                note("No worker is connected. Start one: punctual worker");
            }
        }
    }
    Ok(Exit::Ok)
}

/// One line for each figure, in units that people read.
fn figures(stats: &Stats) -> anyhow::Result<String> {
    let serde_json::Value::Object(figures) = serde_json::to_value(stats)? else {
        anyhow::bail!("figures are an object");
    };
    let mut text = String::new();
    for (name, figure) in figures {
        let (name, figure) = match name.as_str() {
            "cpu_us" => ("cpu time", short(Span::from_micros(i64::try_from(stats.cpu_us)?))),
            "rss_bytes" => ("memory", format!("{:.1} MiB", stats.rss_bytes as f64 / f64::from(1 << 20))),
            name => (name, figure.to_string()),
        };
        text += &format!("  {name:<12} {figure}\n");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_and_memory_are_shown_in_units() {
        let stats = Stats { cpu_us: 83_250_000, rss_bytes: 35 << 20, ..Stats::default() };
        let text = figures(&stats).unwrap();
        assert!(text.contains("  cpu time     1m23s\n") && text.contains("  memory       35.0 MiB\n"), "{text}");
    }
}
