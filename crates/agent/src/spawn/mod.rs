//! The worker's side: starts an agent for each attempt, and ends its environment with it.
//!
//! The agent reports to the servers itself. What this executor reports counts only where the agent
//! did not: it died, or its time is over. Of two outcomes of one attempt the servers take the
//! first, so a report that comes after the agent's changes nothing.

mod container;
mod environments;
mod last_words;
mod live;
mod process;
mod workplace;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual_core::attempt::{Details, Failure, FailureClass, Last, Outcome, Ran};
use punctual_core::run::{Binary, Run};
use punctual_exec::{
    Admission, AdmissionGrant, Admissions, AdmitError, Call, Download, ExecutionEnd, Executor, NetworkPolicy,
    ProgramUsers,
};
use punctual_sandbox::{ProgramUser, Protection};
use tokio::time::Instant;

pub use container::{ContainerEngine, ContainerEngineError, ContainerSettings, Containers};
pub use environments::{AgentEnd, AgentStart, Environment, Environments, SpawnError, StartFailure};
pub use process::Processes;
pub use workplace::Workplace;

use crate::address::{is_loopback, parse_servers};
use crate::handover::{AgentToken, Handover};
use crate::host::HostId;
use live::{EnvironmentCount, GuardedEnvironment};

/// How long an agent may take to notice that its program is gone and to report it.
const REPORT_ROOM: Duration = Duration::from_secs(10);
/// How long the environment may take to be ended by force after that.
const ENDING_ROOM: Duration = Duration::from_secs(10);

/// How long to wait for environments of ended attempts to be gone. Shorter than servers wait for an agent's first
/// message, so an attempt that finds no room is known to have run nothing.
const ROOM_LIMIT: Duration = Duration::from_secs(30);
/// The number of addresses handed to an agent in a variable. They are enough to find a server that works.
const SERVERS_MAX: usize = 16;

/// The settings that all agents of a worker share.
#[derive(Debug, Clone)]
pub struct AgentSettings {
    /// The addresses at which agents reach the servers; see [`parse_servers`].
    pub servers: Vec<String>,
    pub others: OtherServers,
    /// Certificate authorities in PEM that agents trust besides the system's.
    pub authorities: Option<String>,
    /// Whether programs that request a network get one.
    pub network: NetworkPolicy,
    /// The protections that sandboxes must have beyond [`Protection::FLOOR`].
    pub sandbox_require: Vec<Protection>,
    /// The users that programs run as.
    pub users: Arc<ProgramUsers>,
}

/// Whether agents also get the addresses of servers that the worker discovered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtherServers {
    /// Agents use only the configured addresses.
    None,
    /// Agents use the addresses at which the worker reaches the servers.
    All,
    /// Agents run in a network of their own, so addresses on the worker's loopback are left out.
    NotLoopback,
}

/// The executor that runs binaries in agents.
pub struct Agents {
    environments: Arc<dyn Environments>,
    admissions: Arc<dyn Admissions>,
    settings: AgentSettings,
    /// The maximum number of environments, one for each slot of the worker.
    slots: usize,
    report_room: Duration,
    room_limit: Duration,
    live: EnvironmentCount,
}

impl Agents {
    pub fn new(
        environments: Arc<dyn Environments>,
        admissions: Arc<dyn Admissions>,
        settings: AgentSettings,
        slots: usize,
    ) -> Self {
        let (report_room, room_limit) = (REPORT_ROOM, ROOM_LIMIT);
        Self { environments, admissions, settings, slots, report_room, room_limit, live: EnvironmentCount::default() }
    }

    /// Resolves when no environment is left. A worker that has left still ends what it ran, which takes a moment.
    pub fn all_ended(&self) -> impl Future<Output = ()> + Send + 'static {
        self.live.clone().none_left()
    }
}

#[async_trait]
impl Executor for Agents {
    fn kind(&self) -> &'static str {
        "binary"
    }

    fn capabilities(&self) -> Vec<String> {
        // The second tells servers to expect heartbeats of agents.
        let mut capabilities = self.settings.network.capabilities();
        capabilities.push("agent".to_owned());
        capabilities
    }

    fn ends_by_itself(&self) -> bool {
        true
    }

    fn grace(&self, run: &Run) -> Duration {
        let Run::Binary(spec) = run else { return Duration::ZERO };
        self.patience(spec) + ENDING_ROOM
    }

    async fn execute(self: Arc<Self>, call: Call) -> ExecutionEnd {
        let Run::Binary(spec) = &*call.run else {
            let reason = format!("agents do not run {} tasks", call.run.kind());
            return Outcome::NotStarted { reason }.into();
        };
        if let Err(refused) = self.settings.network.check(spec) {
            return refused.into();
        }
        let user = match self.settings.users.of(call.namespace) {
            Ok(user) => user,
            Err(refused) => return refused.into(),
        };
        let host = match HostId::random() {
            Ok(host) => host,
            Err(error) => return Outcome::NotStarted { reason: format!("no randomness: {error}") }.into(),
        };
        let started = tokio::select! {
            biased;
            () = call.cancel.cancelled() => Err(Outcome::Cancelled),
            started = self.start(&call, spec, &host, user) => started,
        };
        let environment = match started {
            Ok(environment) => environment,
            Err(outcome) => return outcome.into(),
        };
        let (outcome, end) = watch(environment, &call, self.patience(spec)).await;
        let AgentEnd { exit_code, signal, .. } = end;
        let details = Details { exit_code, signal, host: Some(host.to_string()), ..Details::default() };
        ExecutionEnd { outcome, details: Some(Box::new(details)) }
    }
}

impl Agents {
    /// How long to wait for the agent after the program is told to end: the program's grace period, and some time for
    /// the report.
    fn patience(&self, spec: &Binary) -> Duration {
        spec.grace.to_std() + self.report_room
    }

    async fn start(
        &self,
        call: &Call,
        spec: &Binary,
        host: &HostId,
        user: ProgramUser,
    ) -> Result<GuardedEnvironment, Outcome> {
        // A slot is free when its attempt has ended, which may be long before a slow engine has removed the
        // environment. They must not pile up.
        let place = tokio::time::timeout(self.room_limit, self.live.place(self.slots)).await;
        let place = place.map_err(|_| Outcome::NotStarted {
            reason: format!("all {} places for environments are taken by some that are not gone yet", self.slots),
        })?;
        let admission = Admission {
            job: call.job,
            attempt: call.attempt,
            artifact: spec.artifact,
            host_id: host.to_string(),
            pod: self.environments.name(host),
        };
        let admitted = self.admissions.admit(admission).await.map_err(not_admitted)?;
        let program_bytes = admitted.download.size;
        let agent = AgentStart {
            host: host.clone(),
            job: call.job,
            attempt: call.attempt,
            variables: self.handover(call, host, user, admitted).variables(),
            limits: spec.limits,
            program_bytes,
        };
        let environments = Arc::clone(&self.environments);
        // On a task of its own: whoever stops waiting must not leave half an environment. What comes
        // of it then is dropped, and so ended.
        let started = tokio::spawn(async move {
            match environments.start(agent).await {
                Ok(environment) => Ok(GuardedEnvironment::new(environment, place)),
                Err(StartFailure { error, remains }) => {
                    drop(remains.map(|remains| GuardedEnvironment::new(remains, place)));
                    Err(error)
                }
            }
        });
        match started.await {
            Ok(Ok(environment)) => Ok(environment),
            Ok(Err(error)) => Err(not_started(&error)),
            Err(error) => Err(not_started(&SpawnError::InDoubt(error.to_string()))),
        }
    }

    fn handover(&self, call: &Call, host: &HostId, program_user: ProgramUser, admitted: AdmissionGrant) -> Handover {
        let AdmissionGrant { token, download, server, others } = admitted;
        let servers = self.settings.for_agent(&server, &others);
        Handover {
            token: AgentToken(token),
            job: call.job,
            attempt: call.attempt,
            download: as_agents_reach_it(download, &server, &servers),
            servers,
            host: host.clone(),
            tracing_id: call.tracing_id.clone(),
            authorities: self.settings.authorities.clone(),
            sandbox_require: self.settings.sandbox_require.clone(),
            program_user,
        }
    }
}

impl AgentSettings {
    /// The addresses for an agent, starting with the server that admitted it, because that one works. The configured
    /// servers may be down.
    fn for_agent(&self, admitted_by: &str, others: &[String]) -> Vec<String> {
        let mut servers: Vec<String> = Vec::new();
        let found = std::iter::once(admitted_by).chain(others.iter().map(String::as_str));
        let found = found.filter_map(|server| self.as_agents_may(server));
        let named = self.servers.iter().cloned();
        // Room is left for one that was named: people keep that one reachable.
        for server in found.take(SERVERS_MAX - 1).chain(named) {
            if servers.len() < SERVERS_MAX && !servers.contains(&server) {
                servers.push(server);
            }
        }
        servers
    }

    /// Leaves out addresses without TLS, because agents would refuse the whole list with one of them in it.
    fn as_agents_may(&self, server: &str) -> Option<String> {
        let server = parse_servers(server).ok()?.pop()?;
        match self.others {
            OtherServers::None => None,
            OtherServers::All => Some(server),
            OtherServers::NotLoopback => Some(server).filter(|server| !is_loopback(server)),
        }
    }
}

/// Replaces the worker's address of a server by the agents' address, for a server that keeps files itself.
fn as_agents_reach_it(mut download: Download, server: &str, servers: &[String]) -> Download {
    let Some(first) = servers.first().filter(|_| !servers.iter().any(|known| known == server)) else {
        return download;
    };
    if let Some(path) = download.url.strip_prefix(server).filter(|path| path.starts_with('/')) {
        download.url = format!("{first}{path}");
    }
    download
}

async fn watch(mut environment: GuardedEnvironment, call: &Call, patience: Duration) -> (Outcome, AgentEnd) {
    let cancelled = async {
        // The agent hears of it by its heartbeat.
        call.cancel.cancelled().await;
        tokio::time::sleep(patience).await;
    };
    let time_over = async {
        match call.deadline.and_then(|deadline: Instant| deadline.checked_add(patience)) {
            Some(end) => tokio::time::sleep_until(end).await,
            None => std::future::pending().await,
        }
    };
    let outcome = tokio::select! {
        biased;
        end = environment.ended() => return (without_report(&end), end),
        () = cancelled => Outcome::Cancelled,
        () = time_over => {
            let reason = "timeout: it did not end in time, and neither did its agent".to_owned();
            Outcome::Failed(Failure { class: FailureClass::Timeout, ran: Ran::Unknown, ..Failure::new(reason) })
        }
    };
    environment.end().await;
    (outcome, AgentEnd::default())
}

/// The outcome of an agent that ended. It counts only if the agent did not report; then it is unknown how far the
/// program came.
fn without_report(end: &AgentEnd) -> Outcome {
    let how = match (end.exit_code, end.signal) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "its environment is gone".to_owned(),
    };
    let words = if end.last_words.is_empty() { String::new() } else { format!(": {}", end.last_words) };
    let reason = format!("the agent ended without a report ({how}){words}");
    Outcome::Failed(Failure { class: FailureClass::Environment, ran: Ran::Unknown, ..Failure::new(reason) })
}

fn not_started(error: &SpawnError) -> Outcome {
    let reason = error.to_string();
    match error {
        SpawnError::NotStarted(_) => Outcome::NotStarted { reason },
        // As of an agent that ended without a report.
        SpawnError::InDoubt(_) => {
            Outcome::Failed(Failure { class: FailureClass::Environment, ran: Ran::Unknown, ..Failure::new(reason) })
        }
    }
}

fn not_admitted(error: AdmitError) -> Outcome {
    let reason = error.to_string();
    match error {
        AdmitError::Unavailable(_) => Outcome::NotStarted { reason },
        AdmitError::Refused(_) => Outcome::Failed(Failure {
            class: FailureClass::Environment,
            last: Last::Yes,
            ran: Ran::No,
            ..Failure::new(reason)
        }),
    }
}

#[cfg(test)]
mod tests;
