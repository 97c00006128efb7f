//! What a worker hands to the agent that it starts: variables of its environment. The agent gets nothing else from the
//! worker.

use std::fmt;

use punctual_core::attempt::AttemptNo;
use punctual_core::hex;
use punctual_core::id::JobId;
use punctual_exec::Download;
use punctual_sandbox::{ProgramUser, Protection};

use crate::address::parse_servers;
use crate::host::HostId;

const SERVER: &str = "PUNCTUAL_AGENT_SERVER";
const TOKEN: &str = "PUNCTUAL_AGENT_TOKEN";
const JOB: &str = "PUNCTUAL_AGENT_JOB";
const ATTEMPT: &str = "PUNCTUAL_AGENT_ATTEMPT";
const DOWNLOAD_URL: &str = "PUNCTUAL_AGENT_DOWNLOAD_URL";
const FILE_SIZE: &str = "PUNCTUAL_AGENT_FILE_SIZE";
const FILE_SHA256: &str = "PUNCTUAL_AGENT_FILE_SHA256";
const HOST_ID: &str = "PUNCTUAL_HOST_ID";
const TRACING_ID: &str = "PUNCTUAL_TRACING_ID";
/// Set only if the worker names certificate authorities for the agent to trust besides the system's.
const AUTHORITIES: &str = "PUNCTUAL_AGENT_CA_PEM";
/// Set only if the worker requires protections of the sandbox.
const SANDBOX_REQUIRE: &str = "PUNCTUAL_AGENT_SANDBOX_REQUIRE";
/// Set only if the worker chose a user of the machine for the program.
const PROGRAM_USER: &str = "PUNCTUAL_AGENT_PROGRAM_USER";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handover {
    /// The addresses of the servers. Never empty. Each uses TLS or is on this machine.
    pub servers: Vec<String>,
    pub token: AgentToken,
    pub job: JobId,
    pub attempt: AttemptNo,
    pub download: Download,
    pub host: HostId,
    pub tracing_id: Option<String>,
    /// Certificate authorities in PEM.
    pub authorities: Option<String>,
    /// The protections without which the agent runs nothing.
    pub sandbox_require: Vec<Protection>,
    /// The user that the program runs as.
    pub program_user: ProgramUser,
}

/// The agent's token for its attempt. Never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct AgentToken(pub String);

impl fmt::Debug for AgentToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Names the variable that is wrong, and never its content.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadHandover {
    #[error("{0} is not set")]
    Missing(&'static str),
    #[error("{variable}: {reason}")]
    Wrong { variable: &'static str, reason: String },
}

impl Handover {
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        let mut variables = vec![
            (SERVER, self.servers.join(",")),
            (TOKEN, self.token.0.clone()),
            (JOB, self.job.to_string()),
            (ATTEMPT, self.attempt.0.to_string()),
            (DOWNLOAD_URL, self.download.url.clone()),
            (FILE_SIZE, self.download.size.to_string()),
            (FILE_SHA256, hex::encode(self.download.sha256)),
            (HOST_ID, self.host.to_string()),
        ];
        variables.extend(self.tracing_id.clone().map(|id| (TRACING_ID, id)));
        variables.extend(self.authorities.clone().map(|pem| (AUTHORITIES, pem)));
        if !self.sandbox_require.is_empty() {
            let names: Vec<&str> = self.sandbox_require.iter().map(|protection| protection.name()).collect();
            variables.push((SANDBOX_REQUIRE, names.join(",")));
        }
        if let ProgramUser::Number(number) = self.program_user {
            variables.push((PROGRAM_USER, number.to_string()));
        }
        variables
    }

    /// Reads the handover. `lookup` returns the value of a variable.
    pub fn read(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, BadHandover> {
        let filled = |name: &str| lookup(name).filter(|value| !value.is_empty());
        let value = |name: &'static str| filled(name).ok_or(BadHandover::Missing(name));
        let servers = parse_servers(&value(SERVER)?).map_err(|reason| wrong(SERVER, reason))?;
        let job = value(JOB)?.parse().map_err(|_| wrong(JOB, "it is not the id of a job"))?;
        let attempt = value(ATTEMPT)?.parse().map_err(|_| wrong(ATTEMPT, "it is not a number"))?;
        let size = value(FILE_SIZE)?.parse().map_err(|_| wrong(FILE_SIZE, "it is not a number of bytes"))?;
        let sha256 = hex::decode(&value(FILE_SHA256)?).ok_or_else(|| wrong(FILE_SHA256, "it is not 64 hex digits"))?;
        let host = HostId::parse(&value(HOST_ID)?)
            .ok_or_else(|| wrong(HOST_ID, "it is not at most 64 letters, digits and dashes"))?;
        let required = filled(SANDBOX_REQUIRE).unwrap_or_default();
        let required = required.split(',').filter(|name| !name.is_empty()).map(Protection::from_name);
        let sandbox_require = required
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| wrong(SANDBOX_REQUIRE, "it names a protection that this agent does not know"))?;
        let program_user = match filled(PROGRAM_USER) {
            Some(number) => ProgramUser::Number(number.parse().map_err(|_| wrong(PROGRAM_USER, "it is not a number"))?),
            None => ProgramUser::Usual,
        };
        Ok(Self {
            servers,
            token: AgentToken(value(TOKEN)?),
            job,
            attempt: AttemptNo(attempt),
            download: Download { url: value(DOWNLOAD_URL)?, size, sha256 },
            host,
            tracing_id: filled(TRACING_ID),
            authorities: filled(AUTHORITIES),
            sandbox_require,
            program_user,
        })
    }
}

fn wrong(variable: &'static str, reason: impl Into<String>) -> BadHandover {
    BadHandover::Wrong { variable, reason: reason.into() }
}

#[cfg(test)]
mod tests {
    use punctual_core::{ShardId, Timestamp};

    use super::*;

    fn handover() -> Handover {
        Handover {
            servers: vec!["http://127.0.0.1:8020".to_owned(), "https://b.example".to_owned()],
            token: AgentToken("t0ken".to_owned()),
            job: JobId::new(Timestamp::EPOCH, ShardId(3), 9),
            attempt: AttemptNo(2),
            download: Download { url: "http://127.0.0.1:1/s3cret".to_owned(), size: 7, sha256: [0xab; 32] },
            host: HostId::parse("host-1").unwrap(),
            tracing_id: Some("order 17".to_owned()),
            authorities: None,
            sandbox_require: vec![Protection::MemoryLimit, Protection::PidsLimit],
            program_user: ProgramUser::Number(1_900_000_007),
        }
    }

    fn read(variables: &[(&'static str, String)]) -> Result<Handover, BadHandover> {
        Handover::read(|name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone()))
    }

    #[test]
    fn what_a_worker_hands_over_is_what_the_agent_reads() {
        let whole = handover();
        assert_eq!(read(&whole.variables()), Ok(whole.clone()));
        let authorities = Some("PEM".to_owned());
        let program_user = ProgramUser::Usual;
        let least = Handover { tracing_id: None, authorities, sandbox_require: Vec::new(), program_user, ..whole };
        assert_eq!(read(&least.variables()), Ok(least));
    }

    #[test]
    fn a_variable_that_is_missing_or_wrong_is_named() {
        let whole = handover().variables();
        for (place, (name, _)) in whole.iter().enumerate() {
            let mut without = whole.clone();
            without.remove(place);
            let read = read(&without);
            assert!(
                [TRACING_ID, SANDBOX_REQUIRE, PROGRAM_USER].contains(name) || read == Err(BadHandover::Missing(name)),
                "{name}: {read:?}"
            );
        }
        for name in [SERVER, JOB, ATTEMPT, FILE_SIZE, FILE_SHA256, HOST_ID, SANDBOX_REQUIRE, PROGRAM_USER] {
            let mut broken = whole.clone();
            broken.retain(|(known, _)| *known != name);
            broken.push((name, "no/thing".to_owned()));
            let refused = read(&broken).unwrap_err().to_string();
            assert!(refused.starts_with(name), "{refused}");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        let shown = format!("{:?}", handover());
        assert!(!shown.contains("t0ken") && !shown.contains("s3cret"), "{shown}");
    }
}
