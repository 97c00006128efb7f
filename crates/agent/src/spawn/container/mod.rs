//! Agents in containers, through the API that Docker and Podman share.

mod engine;
mod spec;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

pub use engine::{ContainerEngine, ContainerEngineError};
use engine::{Dialect, Removal};

use super::environments::{AgentEnd, AgentStart, Environment, Environments, SpawnError, StartFailure};
use super::last_words::LastWords;
use super::workplace::Workplace;
use crate::host::HostId;

/// How long to wait after the engine could not be reached.
const AGAIN: Duration = Duration::from_millis(500);
/// The longest wait between two tries to remove a container.
const AGAIN_MAX: Duration = Duration::from_secs(5);
/// How long a container may still appear after the engine did not answer the request to create it. Twice the time limit
/// of a call.
const APPEARS_WITHIN: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerSettings {
    /// An image that has this program as `/punctual`.
    pub image: String,
    pub network: String,
    /// The display name of the worker.
    pub worker: String,
}

pub struct Containers {
    engine: ContainerEngine,
    dialect: Dialect,
    settings: ContainerSettings,
    workplace: Arc<Workplace>,
}

impl Containers {
    /// Checks that the engine answers and has the image, before the worker takes any work.
    pub async fn open(
        engine: ContainerEngine,
        settings: ContainerSettings,
        workplace: Arc<Workplace>,
    ) -> Result<Self, ContainerEngineError> {
        engine.check(&settings.image).await?;
        let dialect = engine.dialect().await?;
        Ok(Self { engine, dialect, settings, workplace })
    }
}

#[async_trait]
impl Environments for Containers {
    fn name(&self, host: &HostId) -> String {
        format!("punctual-{host}")
    }

    async fn start(&self, agent: AgentStart) -> Result<Box<dyn Environment>, StartFailure> {
        let name = self.name(&agent.host);
        let body = spec::container(&agent, &self.settings, &self.workplace, self.dialect);
        let mut container = Box::new(Container { engine: self.engine.clone(), name, appears_until: None });
        if let Err(error) = self.engine.create(&container.name, &body).await {
            let unmade = SpawnError::NotStarted(error.to_string());
            let remains = match error {
                ContainerEngineError::Unreachable { .. } => return Err(unmade.into()),
                ContainerEngineError::Unanswered { .. } => {
                    container.appears_until = Some(Instant::now() + APPEARS_WITHIN);
                    container
                }
                // It should not be there, which is looked at once.
                ContainerEngineError::Refused(_) | ContainerEngineError::NoSuch(_) => container,
            };
            return Err(StartFailure { error: unmade, remains: Some(remains) });
        }
        match self.engine.start(&container.name).await {
            Ok(()) => Ok(container),
            Err(error) => Err(StartFailure { error: not_started(&error), remains: Some(container) }),
        }
    }

    async fn sweep(&self) -> Result<usize, SpawnError> {
        let failed = |error: ContainerEngineError| SpawnError::NotStarted(error.to_string());
        let ours = self.workplace.id();
        let mut ended = 0;
        for left in self.engine.list(&[(spec::WORKPLACE, ours.to_owned())]).await.map_err(failed)? {
            // Of runs in other places nothing is known here.
            let is_ours = left.labels.get(spec::WORKPLACE).is_some_and(|place| place == ours);
            let run = left.labels.get(spec::RUN).filter(|_| is_ours);
            if run.is_some_and(|run| self.workplace.is_gone(run)) {
                self.engine.remove(&left.id).await.map_err(failed)?;
                ended += 1;
            }
        }
        Ok(ended)
    }
}

/// Whether anything may have run. A start that was refused or never requested ran nothing; a start without an answer is
/// in doubt.
fn not_started(error: &ContainerEngineError) -> SpawnError {
    match error {
        ContainerEngineError::Refused(_)
        | ContainerEngineError::NoSuch(_)
        | ContainerEngineError::Unreachable { .. } => SpawnError::NotStarted(error.to_string()),
        ContainerEngineError::Unanswered { .. } => SpawnError::InDoubt(error.to_string()),
    }
}

struct Container {
    engine: ContainerEngine,
    name: String,
    /// Set if it is unknown whether the container was created: until then it may still appear.
    appears_until: Option<Instant>,
}

#[async_trait]
impl Environment for Container {
    async fn ended(&mut self) -> AgentEnd {
        let exit_code = loop {
            match self.engine.wait(&self.name).await {
                Ok(code) => break Some(code),
                Err(ContainerEngineError::NoSuch(_)) => return AgentEnd::default(),
                // It may run on all the same. A worker cannot know; its server does, by the heartbeat.
                Err(error) => {
                    tracing::debug!(container = self.name, %error, "cannot wait for a container");
                    tokio::time::sleep(AGAIN).await;
                }
            }
        };
        let mut words = LastWords::default();
        if let Ok(text) = self.engine.last_words(&self.name).await {
            words.add(&text);
        }
        AgentEnd { exit_code, signal: None, last_words: words.text() }
    }

    /// Removes the container, retrying as long as it takes. If the worker ends before, the next one sweeps.
    async fn end(self: Box<Self>) {
        let mut pause = AGAIN;
        loop {
            match self.engine.remove(&self.name).await {
                Ok(Removal::Removed) => return,
                Ok(Removal::NotThere) if self.appears_until.is_none_or(|until| Instant::now() >= until) => return,
                Ok(Removal::NotThere) => {}
                Err(error) if pause == AGAIN_MAX => {
                    tracing::warn!(container = self.name, %error, "cannot remove a container yet");
                }
                Err(error) => tracing::debug!(container = self.name, %error, "cannot remove a container yet"),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(AGAIN_MAX);
        }
    }
}
