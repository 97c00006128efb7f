//! Where agents run. Processes and containers are here; what else can start a program with a few
//! variables, such as Kubernetes, implements the same two traits.
//!
//! An implementation keeps to this:
//! - **Fresh.** An environment is made for one agent and never used again. The agent finds its
//!   variables, an empty folder that it may write to as its current one, and nothing else of
//!   the worker's: not its environment, its files or its descriptors.
//! - **Ended completely.** When [`Environment::end`] returns, nothing of it runs and nothing of it is left on
//!   the disk. That must work on an agent that is stopped or does not listen. A container ends with all that is
//!   in it, whatever the agent did. Of processes less holds: the program is in a pid namespace of
//!   its own and ends with the launcher of its sandbox, which ends with the agent. An agent that was taken over
//!   could leave a child of the worker's user behind.
//! - **Swept.** What a worker that was killed could not end is ended by the next one that starts in
//!   its place, in [`Environments::sweep`], which leaves alone what belongs to the living.

use async_trait::async_trait;
use punctual_core::attempt::AttemptNo;
use punctual_core::id::JobId;
use punctual_core::run::Limits;

use crate::host::HostId;

/// One agent to start.
#[derive(Clone)]
pub struct AgentStart {
    pub host: HostId,
    pub job: JobId,
    pub attempt: AttemptNo,
    /// The variables of the agent's environment. They hold secrets.
    pub variables: Vec<(&'static str, String)>,
    /// The limits of the program; the agent needs some memory besides.
    pub limits: Limits,
    pub program_bytes: u64,
}

#[async_trait]
pub trait Environments: Send + Sync + 'static {
    /// The name that the environment of this host has where it runs.
    fn name(&self, host: &HostId) -> String;

    /// Starts an agent. Returns when it runs, and must not be dropped before.
    async fn start(&self, agent: AgentStart) -> Result<Box<dyn Environment>, StartFailure>;

    /// Ends the environments that dead workers left behind. Returns their number.
    async fn sweep(&self) -> Result<usize, SpawnError>;
}

#[async_trait]
pub trait Environment: Send {
    /// Waits until the agent has ended, for whatever reason. May be dropped and called again.
    async fn ended(&mut self) -> AgentEnd;

    /// Ends the environment by force. Returns when it is gone.
    async fn end(self: Box<Self>);
}

/// How an agent ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AgentEnd {
    /// The exit code. Neither the code nor the signal is known if the environment vanished.
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    /// The last lines that the agent wrote to stderr.
    pub last_words: String,
}

/// A failed start of an agent.
pub struct StartFailure {
    pub error: SpawnError,
    /// What may be left of the environment and has to be ended.
    pub remains: Option<Box<dyn Environment>>,
}

impl From<SpawnError> for StartFailure {
    fn from(error: SpawnError) -> Self {
        Self { error, remains: None }
    }
}

/// Why no agent could be started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpawnError {
    /// The agent was not started; nothing has run.
    #[error("cannot start an agent: {0}")]
    NotStarted(String),
    /// The start was requested and not confirmed: the agent may run, or have run.
    #[error("it is not known whether an agent was started: {0}")]
    InDoubt(String),
}
