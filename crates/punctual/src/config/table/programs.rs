//! Settings of the programs that a worker runs: where they are kept, the sandbox, and agents.

use std::path::PathBuf;

use punctual_agent::parse_servers;
use punctual_core::size::ByteSize;
use punctual_exec::UserRange;
use punctual_sandbox::Protection;

use super::{WORKER, WORKER_AND_DEV, WORKERS};
use crate::config::agents::{SpawnMode, authorities, socket};
use crate::config::kind::{folder, one_of, parsed, size, text, yes_or_no};
use crate::config::sandbox::{limits, users};
use crate::config::setting::{setting, settings, unset};

settings! {
    read by WORKERS;

    Workers {
        spool_dir: Option<PathBuf> = folder().or_none(),
            unset("the folder `spool` in `data_dir`", "Where a worker keeps outcomes that it could not report yet")
                .flag(WORKER_AND_DEV, "DIR").local_if_inside();
        identity_dir: Option<PathBuf> = folder().or_none(),
            unset("the folder `identity` in `data_dir`", "Where a worker that joined keeps its key and its certificate")
                .flag(WORKER, "DIR");
        cache_dir: Option<PathBuf> = folder().or_none(),
            unset("the folder `programs` in `data_dir`", "Where a worker keeps the programs that it downloaded")
                .flag(WORKER_AND_DEV, "DIR").local_if_inside();
        cache_max: ByteSize = size(ByteSize::bytes(0), ByteSize::bytes(u64::MAX)).described("a size"),
            setting("4GiB", "The size of `cache_dir`; the least recently used programs are removed first").local();
    }
    Permissions {
        sandbox_require: Option<Vec<Protection>> = parsed(limits).described("memory, cpu, pids; or none").or_none(),
            unset(
                "all of them",
                "Limits of programs that must hold: memory, cpu, pids, or none. A worker that cannot enforce one of \
                 them runs no programs",
            )
            .in_dev("none").flag(WORKER_AND_DEV, "LIMITS");
        allow_network: bool = yes_or_no(),
            setting(
                "false",
                "Give programs that ask for it a network: what the machine's default route leads to, never loopback",
            )
            .switch(WORKER_AND_DEV);
        program_users: UserRange = parsed(users).described("FIRST-LAST"),
            setting(
                "1900000000-2099999999",
                "The users of this machine that programs run as, if the worker is root: each namespace has one of its own",
            )
            .flag(WORKER_AND_DEV, "RANGE");
        allow_shared_user: Option<bool> = yes_or_no().or_none(),
            unset(
                "false",
                "Let a worker that is not root run programs of several namespaces, all of them as its own user",
            )
            .in_dev("true").switch(WORKER_AND_DEV);
    }
    Agents {
        spawn: Option<SpawnMode> = one_of(&[
            ("process", SpawnMode::Process), ("container", SpawnMode::Container),
        ])
        .or_none(),
            unset("in the worker itself", "Run each binary by an agent of its own: as a process, or in a container")
                .flag(WORKER_AND_DEV, "WHERE");
        agent_server: Option<Vec<String>> = parsed(parse_servers).or_none(),
            unset("as the worker does", "Where agents reach the servers; https, or this machine")
                .flag(WORKER_AND_DEV, "URLS");
        agent_ca: Option<String> = parsed(authorities).or_none(),
            unset("", "A file of certificates in PEM that agents trust besides the system's");
        container_socket: PathBuf = parsed(socket),
            unset("the usual place", "The socket of Podman or Docker").or_variable("DOCKER_HOST");
        container_image: String = text(),
            unset("", "The image that agents run in, with this program as /punctual")
                .flag(WORKER_AND_DEV, "IMAGE");
        container_network: String = text(),
            setting("bridge", "The network of the containers; host: that of this machine")
                .flag(WORKER_AND_DEV, "NETWORK");
    }
}
