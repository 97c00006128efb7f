//! `verify worker`: a worker with the witness as its only handler.

use std::io::Read;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use punctual_worker::Worker;

use crate::witness::{HANDLER, Witness};

#[derive(Debug, Args)]
pub struct WorkerArgs {
    /// Addresses of servers, with commas
    #[arg(long, env = "PUNCTUAL_SERVER", value_delimiter = ',', required = true)]
    servers: Vec<String>,
    /// With which it joins, where it has to
    #[arg(long, env = "PUNCTUAL_JOIN_TOKEN", hide_env_values = true)]
    join_token: Option<String>,
    #[arg(long, env = "PUNCTUAL_IDENTITY_DIR")]
    identity_dir: Option<PathBuf>,
    #[arg(long)]
    name: String,
    #[arg(long)]
    slots: u32,
    /// The file that the witness appends to
    #[arg(long)]
    witness: PathBuf,
    #[arg(long)]
    spool_dir: PathBuf,
}

/// Works until stdin ends.
pub async fn run(args: WorkerArgs) -> anyhow::Result<()> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).init();
    let witness = Witness::open(&args.witness).context("cannot open the witness file")?;
    let (first, others) = args.servers.split_first().context("no server is named")?;
    let mut worker = Worker::connect(first).name(args.name).slots(args.slots).spool_dir(args.spool_dir);
    for server in others {
        worker = worker.server(server);
    }
    if let Some(folder) = args.identity_dir {
        worker = worker.join(folder, args.join_token.map(|token| token.parse()).transpose()?);
    }
    let worker = worker.handler(HANDLER, move |job| witness.clone().run(job));
    Ok(worker.run_until(stdin_closed()).await?)
}

pub(crate) async fn stdin_closed() {
    let (sender, closed) = tokio::sync::oneshot::channel();
    // A thread of its own: a read of stdin cannot be called off.
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        let _ = sender.send(());
    });
    let _ = closed.await;
}
