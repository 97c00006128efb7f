//! Builds what a worker needs to have its binaries run by agents.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use punctual_agent::{
    AgentSettings, Agents, ContainerEngine, ContainerEngineError, ContainerSettings, Containers, Environments,
    Processes, Workplace,
};
use punctual_worker::Admissions;

use crate::config::{AgentsSettings, ContainerPlace, SandboxSettings, Spawn};
use crate::exit::failed;
use crate::folders::make_private;
use crate::program_users;
use crate::wiring::safe_launcher;

/// Leads to the program that runs, also when its file was replaced since.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// For environments to be ended after their worker has left. What is left then is swept by the
/// next worker.
pub(crate) const FAREWELL_MAX: Duration = Duration::from_secs(20);

/// `None` where programs cannot be sandboxed: then the worker takes no binaries.
pub(crate) async fn build(
    settings: &AgentsSettings,
    sandbox: &SandboxSettings,
    servers: &[String],
    worker: &str,
    slots: u32,
    admissions: Arc<dyn Admissions>,
) -> anyhow::Result<Option<Agents>> {
    let told = AgentSettings {
        servers: settings.servers(servers)?,
        others: settings.others(),
        authorities: settings.authorities.clone(),
        network: sandbox.network,
        sandbox_require: match &settings.spawn {
            // A container has limits of its own, and in it there are usually no control groups to write to.
            Spawn::Container(_) if !sandbox.is_named => Vec::new(),
            _ => sandbox.required.clone(),
        },
        users: Arc::new(program_users::choose(&sandbox.users, &settings.spawn)?),
    };
    let environments: Arc<dyn Environments> = match &settings.spawn {
        Spawn::Never => return Ok(None),
        Spawn::Process => {
            // Agents shut programs in themselves; what they would miss is told once, by the worker.
            if safe_launcher(sandbox).await?.is_none() {
                return Ok(None);
            }
            let args = vec!["agent".to_owned(), "--with-worker".to_owned()];
            let processes = Processes::new(OWN_PROGRAM.into(), args, workplace(&settings.folder)?);
            Arc::new(processes.context("cannot start the thread that starts agents")?)
        }
        Spawn::Container(place) => Arc::new(containers(place, worker, workplace(&settings.folder)?).await?),
    };
    match environments.sweep().await {
        Ok(0) => {}
        Ok(ended) => tracing::info!(ended, "ended what a worker that is gone had left"),
        Err(error) => tracing::warn!(%error, "cannot look for what workers that are gone have left"),
    }
    Ok(Some(Agents::new(environments, admissions, told, slots as usize)))
}

fn workplace(folder: &Path) -> anyhow::Result<Arc<Workplace>> {
    make_private(folder, "data_dir")?;
    let opened = Workplace::open(folder).map_err(|error| {
        failed(format!("cannot use the folder {}: {error}", folder.display()), "name another one with data_dir")
    });
    Ok(Arc::new(opened?))
}

async fn containers(place: &ContainerPlace, worker: &str, workplace: Arc<Workplace>) -> anyhow::Result<Containers> {
    let ContainerPlace { socket, image, network } = place;
    let settings = ContainerSettings { image: image.clone(), network: network.clone(), worker: worker.to_owned() };
    let opened = Containers::open(ContainerEngine::new(socket), settings, workplace).await;
    opened.map_err(|error| failed(error.to_string(), engine_fix(&error)))
}

pub(crate) fn engine_fix(error: &ContainerEngineError) -> &'static str {
    match error {
        ContainerEngineError::Unreachable { .. } => {
            "start Podman's or Docker's service, or name its socket in container_socket"
        }
        ContainerEngineError::Unanswered { .. } => "see whether Podman's or Docker's service works, and its log",
        ContainerEngineError::NoSuch(_) => {
            "make the image, as docs/agents.md says, or name another one in container_image"
        }
        ContainerEngineError::Refused(_) => "see the log of the container engine",
    }
}
