//! Runs binaries by agents: each attempt in an environment that was made for it alone, by a
//! process that holds nothing but the right to that attempt.
//!
//! There are two sides. [`Agents`] is the worker's: an executor that asks a server to admit an
//! agent, starts it in a fresh environment, and ends that environment by force when the attempt is
//! over. [`run`] is the agent's: it speaks HTTP to the servers, runs the program in the sandbox,
//! and reports by itself. They share the [`Handover`], a few variables of the environment, and
//! nothing else.
//!
//! An agent is not trusted. Whatever it says is held by its token to its own attempt; that is
//! decided by the servers, not here.

mod address;
mod handover;
mod host;
mod run;
mod spawn;

pub use address::{is_loopback, parse_servers};
pub use handover::{AgentToken, BadHandover, Handover};
pub use host::HostId;
pub use run::{AgentError, Tie, guard_this_process, run};
pub use spawn::{
    AgentEnd, AgentSettings, AgentStart, Agents, ContainerEngine, ContainerEngineError, ContainerSettings, Containers,
    Environment, Environments, OtherServers, Processes, SpawnError, StartFailure, Workplace,
};
