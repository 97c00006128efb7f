//! What a container is made with.
//!
//! The agent is as little as can be: nobody's user, no capabilities, no way to new privileges, a root that
//! cannot be written to. It still has to build the sandbox around the program, so the calls that make
//! namespaces and mounts must be open to it: the container's own filter of system calls and
//! its AppArmor profile are off. The program inside never has them: the sandbox's filter is stricter than the
//! one that was turned off.

use serde_json::{Value, json};

use super::super::environments::AgentStart;
use super::super::workplace::Workplace;
use super::ContainerSettings;
use super::engine::Dialect;

pub(super) const WORKER: &str = "punctual.worker";
/// The label that names a worker's run, and the id of the workplace whose lock shows whether that run is alive.
pub(super) const RUN: &str = "punctual.run";
pub(super) const WORKPLACE: &str = "punctual.workplace";

/// Memory for the agent and its launcher, besides the program's.
const MEMORY_ROOM: u64 = 96 << 20;
const CPU_ROOM: f64 = 0.25;
/// The kernel's period, in microseconds, in which shares of processors are counted.
const CPU_PERIOD: u32 = 100_000;
const PIDS_ROOM: u32 = 32;
const OPEN_FILES: u32 = 1024;
/// Podman's service limits itself to this number of processes, and cannot grant more where it lacks the capability.
const USER_PROCESSES_MAX: u64 = 32 << 10;
/// The size of a container's log. An agent writes only its last words there.
const LOG_SIZE: &str = "1m";
/// The user nobody, with the same id on every machine.
const NOBODY: &str = "65534:65534";

pub(super) fn container(
    agent: &AgentStart,
    settings: &ContainerSettings,
    workplace: &Workplace,
    dialect: Dialect,
) -> Value {
    let limits = &agent.limits;
    let open_files = limits.open_files.max(OPEN_FILES);
    let mut rlimits = vec![json!({ "Name": "nofile", "Soft": open_files, "Hard": open_files })];
    let mut security = vec!["no-new-privileges", "seccomp=unconfined", "apparmor=unconfined"];
    if dialect == Dialect::Podman {
        // What the lists of paths below say to Docker.
        security.push("unmask=ALL");
        // Podman would set a limit of a million, which it may not be allowed to, and start nothing. The kernel counts the
        // processes of all containers for it, as they are of one user, so it is as high as it can be: what limits
        // a container is `PidsLimit`. Docker sets none.
        let most = most_processes();
        rlimits.push(json!({ "Name": "nproc", "Soft": most, "Hard": most }));
    }
    // The file is in /tmp, which is memory, and a second time where it is executed from.
    let program = agent.program_bytes.saturating_mul(2);
    let memory = limits.memory.get().saturating_add(program).saturating_add(MEMORY_ROOM);
    let variables: Vec<String> = agent.variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let processes = limits.pids.saturating_add(PIDS_ROOM);
    json!({
        "Image": settings.image,
        "Entrypoint": ["/punctual"],
        "Cmd": ["agent"],
        "Env": variables,
        "User": NOBODY,
        "WorkingDir": "/tmp",
        "Labels": {
            WORKER: settings.worker,
            RUN: workplace.run(),
            WORKPLACE: workplace.id(),
            "punctual.job": agent.job.to_string(),
            "punctual.attempt": agent.attempt.0.to_string(),
            "punctual.host": agent.host.as_str(),
        },
        "HostConfig": {
            "NetworkMode": settings.network,
            "Memory": memory,
            // Equal to the memory limit, so that there is no swap.
            "MemorySwap": memory,
            // Not `NanoCpus`: Docker refuses more of those than the machine has.
            "CpuPeriod": CPU_PERIOD,
            "CpuQuota": ((limits.cpu + CPU_ROOM) * f64::from(CPU_PERIOD)) as u64,
            "PidsLimit": processes,
            "CapDrop": ["ALL"],
            "SecurityOpt": security,
            // Nobody without capabilities can read or write what is masked there, and under a mask the
            // sandbox could give the program no /proc of its own.
            "MaskedPaths": [],
            "ReadonlyPaths": [],
            "ReadonlyRootfs": true,
            // Programs above a size are executed from there.
            "Tmpfs": { "/tmp": format!("rw,exec,nosuid,nodev,mode=1777,size={}", program + (16 << 20)) },
            "Ulimits": rlimits,
            // Podman knows its own kind by this name too.
            "LogConfig": { "Type": "json-file", "Config": { "max-size": LOG_SIZE } },
        },
    })
}

/// The largest number of processes that the engine can grant: it is on this machine, and usually has the same limit.
fn most_processes() -> u64 {
    let own = rustix::process::getrlimit(rustix::process::Resource::Nproc);
    own.maximum.unwrap_or(USER_PROCESSES_MAX).min(USER_PROCESSES_MAX)
}

#[cfg(test)]
mod tests {
    use punctual_core::attempt::AttemptNo;
    use punctual_core::id::JobId;
    use punctual_core::run::Limits;
    use punctual_core::size::ByteSize;
    use punctual_core::{ShardId, Timestamp};

    use super::*;
    use crate::host::HostId;

    #[test]
    fn a_container_has_room_for_its_agent_and_no_more_rights_than_that_needs() {
        let folder = tempfile::tempdir().unwrap();
        let workplace = Workplace::open(folder.path()).unwrap();
        let agent = AgentStart {
            host: HostId::parse("host-1").unwrap(),
            job: JobId::new(Timestamp::EPOCH, ShardId(0), 1),
            attempt: AttemptNo(2),
            variables: vec![("PUNCTUAL_AGENT_TOKEN", "t0ken".to_owned())],
            limits: Limits { memory: ByteSize::mib(100), cpu: 1.5, pids: 8, ..Limits::default() },
            program_bytes: 1 << 20,
        };
        let settings =
            ContainerSettings { image: "image".to_owned(), network: "bridge".to_owned(), worker: "w".to_owned() };
        let made = container(&agent, &settings, &workplace, Dialect::Docker);
        let host = &made["HostConfig"];
        assert_eq!((made["User"].as_str(), &made["Env"]), (Some(NOBODY), &json!(["PUNCTUAL_AGENT_TOKEN=t0ken"])));
        assert_eq!(host["Memory"].as_u64(), Some((100 + 2 + 96) << 20));
        assert_eq!(host["Memory"], host["MemorySwap"]);
        assert_eq!((host["CpuQuota"].as_u64(), host["CpuPeriod"].as_u64()), (Some(175_000), Some(100_000)));
        assert_eq!(host["PidsLimit"].as_u64(), Some(40));
        assert_eq!(host["LogConfig"]["Config"], json!({ "max-size": "1m" }));
        assert_eq!((&host["CapDrop"], &host["ReadonlyRootfs"]), (&json!(["ALL"]), &json!(true)));
        assert!(!host["SecurityOpt"].to_string().contains("unmask"), "Docker does not know the word");
        assert!(!host["Ulimits"].to_string().contains("nproc"), "it would hold for all containers together");
        assert_eq!(made["Labels"]["punctual.host"], "host-1");
        assert_eq!(made["Labels"]["punctual.workplace"], workplace.id());
        let podman = container(&agent, &settings, &workplace, Dialect::Podman).to_string();
        assert!(podman.contains("unmask=ALL") && podman.contains("nproc"), "{podman}");
    }
}
