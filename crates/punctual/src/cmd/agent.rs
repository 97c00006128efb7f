//! `punctual agent`: runs one attempt for a worker that started it with `--spawn`. People do not
//! call it.

use clap::Args;
use punctual_agent::{Handover, Tie};

use super::Context;
use crate::exit::{Exit, usage};
use crate::wiring::sandbox_options;

#[derive(Debug, Args)]
pub(crate) struct AgentArgs {
    /// End with the worker that holds the other end of stdin
    #[arg(long, hide = true)]
    with_worker: bool,
}

impl AgentArgs {
    pub(crate) fn tie(&self) -> Tie {
        if self.with_worker { Tie::Worker } else { Tie::Environment }
    }
}

pub(crate) async fn run(_: AgentArgs, context: &Context) -> anyhow::Result<Exit> {
    context.start_logging("warn")?;
    let handover = Handover::read(|name| std::env::var(name).ok())
        .map_err(|error| usage(error.to_string(), "a worker starts agents: see `punctual worker --spawn`"))?;
    punctual_agent::run(handover, sandbox_options(Vec::new())?).await?;
    Ok(Exit::Ok)
}
