//! Agents in containers, by the interface that Docker and Podman share.

mod engine;
mod spec;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use engine::{Dialect, Removal};
pub use engine::{Engine, EngineError};

use super::environments::{AgentEnd, AgentStart, Environment, Environments, SpawnError, Unstarted};
use super::last_words::LastWords;
use super::workplace::Workplace;
use crate::host::HostId;

/// Until the engine is asked again after it could not be reached.
const AGAIN: Duration = Duration::from_millis(500);
/// Between two tries to remove a container, once they have failed for some time.
const AGAIN_MAX: Duration = Duration::from_secs(5);
/// An engine that was asked for a container and did not answer may still make it. Twice its time to answer.
const APPEARS_WITHIN: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerSettings {
    /// One that has this program as `/punctual`.
    pub image: String,
    pub network: String,
    /// The worker's name, for people.
    pub worker: String,
}

pub struct Containers {
    engine: Engine,
    dialect: Dialect,
    settings: ContainerSettings,
    workplace: Arc<Workplace>,
}

impl Containers {
    /// Finds out whether the engine answers and has the image, before the worker takes any work.
    pub async fn open(
        engine: Engine,
        settings: ContainerSettings,
        workplace: Arc<Workplace>,
    ) -> Result<Self, EngineError> {
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

    async fn start(&self, agent: AgentStart) -> Result<Box<dyn Environment>, Unstarted> {
        let name = self.name(&agent.host);
        let body = spec::container(&agent, &self.settings, &self.workplace, self.dialect);
        let mut container = Box::new(Container { engine: self.engine.clone(), name, appears_until: None });
        if let Err(error) = self.engine.create(&container.name, &body).await {
            let unmade = SpawnError::NotStarted(error.to_string());
            let remains = match error {
                EngineError::Unreachable { .. } => return Err(unmade.into()),
                EngineError::Unanswered { .. } => {
                    container.appears_until = Some(Instant::now() + APPEARS_WITHIN);
                    container
                }
                // It should not be there, which is looked at once.
                EngineError::Refused(_) | EngineError::NoSuch(_) => container,
            };
            return Err(Unstarted { error: unmade, remains: Some(remains) });
        }
        match self.engine.start(&container.name).await {
            Ok(()) => Ok(container),
            Err(error) => Err(Unstarted { error: not_started(&error), remains: Some(container) }),
        }
    }

    async fn sweep(&self) -> Result<usize, SpawnError> {
        let failed = |error: EngineError| SpawnError::NotStarted(error.to_string());
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

/// A start that was refused, or never asked for, ran nothing. Of one without an answer that is not known.
fn not_started(error: &EngineError) -> SpawnError {
    match error {
        EngineError::Refused(_) | EngineError::NoSuch(_) | EngineError::Unreachable { .. } => {
            SpawnError::NotStarted(error.to_string())
        }
        EngineError::Unanswered { .. } => SpawnError::InDoubt(error.to_string()),
    }
}

struct Container {
    engine: Engine,
    name: String,
    /// It is not known whether it was made: until then it may come to be.
    appears_until: Option<Instant>,
}

#[async_trait]
impl Environment for Container {
    async fn ended(&mut self) -> AgentEnd {
        let exit_code = loop {
            match self.engine.wait(&self.name).await {
                Ok(code) => break Some(code),
                Err(EngineError::NoSuch(_)) => return AgentEnd::default(),
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

    /// As long as it takes. If the worker ends before, the next one sweeps.
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
