//! `punctual server`.

mod list;

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};

use clap::{Args, Subcommand};
use punctual_app::WorkerProgram;
use punctual_store_sqlite::DataLoss;
use serde_json::json;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::Context;
use crate::config::{Database, ServerFlags, ServerSettings};
use crate::exit::{Exit, failed};
use crate::folders::make_data_dir;
use crate::output::{Format, note};
use crate::signals::{Stop, Until};
use crate::view;
use crate::wiring::{self, ServerOptions, ServerReady};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct ServerArgs {
    #[command(subcommand)]
    pub(crate) verb: Option<ServerVerb>,
    #[command(flatten)]
    pub(crate) settings: ServerFlags,
    #[command(flatten)]
    start: StartFlags,
    /// End when stdin does
    #[arg(long, hide = true)]
    exit_with_stdin: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ServerVerb {
    /// List the servers of the cluster, with what each owns and does
    #[command(aliases = ["ls"])]
    List(list::ListArgs),
    /// Show the server that answers, and what it has done so far
    #[command(aliases = ["show", "status"])]
    Get,
}

/// What holds for one start of a server alone, and so is no setting.
#[derive(Debug, Args)]
pub(crate) struct StartFlags {
    /// Start although the embedded database has lost commits that were acknowledged
    #[arg(long)]
    accept_data_loss: bool,
}

impl StartFlags {
    pub(crate) fn data_loss(&self) -> DataLoss {
        if self.accept_data_loss { DataLoss::Accept } else { DataLoss::Refuse }
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
        Some(ServerVerb::List(args)) => return list::list(args, context).await,
        Some(ServerVerb::Get) => return status(context).await,
        None => {}
    }
    context.start_logging("info")?;
    let settings = ServerSettings::new(&context.config)?;
    let until = if args.exit_with_stdin { Until::StdinCloses } else { Until::Signal };
    let stop = Stop::listen(until, &context.out)?;
    if settings.database == Database::Embedded {
        make_data_dir(&settings.data_dir, "--data-dir")?;
    }
    let listener = bind(settings.listen)?;
    let place = settings.database.place(&settings.data_dir);
    let (ready_sender, ready) = oneshot::channel();
    let data_loss = args.start.data_loss();
    let options = ServerOptions { listener, settings, data_loss, worker_program: WorkerProgram::Worker };
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
            let who = if ready.address.ip().is_loopback() {
                "Only this machine can reach it; other users need a credential."
            } else {
                "Other machines can reach it; everybody there needs a credential."
            };
            context.out.hint(&format!("Listening on {} ({}, in {place}). {who}", ready.url, ready.store));
            Ok(())
        }
        Format::Json | Format::Jsonl => context.out.line(&ready_json(ready, place)),
    }
}

pub(crate) fn ready_json(ready: &ServerReady, place: &str) -> String {
    json!({ "url": ready.url, "store": ready.store, "place": place }).to_string()
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
            context.out.write(&view::figures(&stats)?)?;
            if stats.workers == 0 {
                note("No worker is connected. Start one: punctual worker");
            }
        }
    }
    Ok(Exit::Ok)
}
