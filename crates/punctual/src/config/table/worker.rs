//! Settings of workers: queues, slots and connections. Programs, the sandbox and agents are in `programs.rs`, calls and messages in
//! `messages.rs`, flags of every command in `client.rs`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use punctual_core::Span;
use punctual_exec::ProgramCache;
use punctual_worker::{AttemptLog, SLOTS_MAX, Sending};

use super::{WORKER, WORKER_AND_DEV, WORKERS};
use crate::config::kind::{number, one_of, parsed, span, text, yes_or_no};
use crate::config::setting::{setting, settings, unset};
use crate::config::{AgentsSettings, SandboxSettings, sending, worker};

settings! {
    read by WORKERS;

    /// The settings of a worker, read and checked.
    struct WorkerSettings;

    composed {
        spool_dir: PathBuf = worker::spool_folder;
        identity_dir: PathBuf = worker::identity_folder;
        programs: ProgramCache = worker::program_cache;
        sandbox: SandboxSettings = SandboxSettings::new;
        agents: AgentsSettings = AgentsSettings::new;
        sending: Sending = sending::read;
    }

    Workers {
        slots: u32 = number(1, SLOTS_MAX.into()),
            setting("64", "Number of jobs that run at the same time").flag(WORKER_AND_DEV, "N").local();
        queues: Vec<String> = parsed(worker::queues),
            setting("default", "The queues to serve, separated by commas").flag(WORKER_AND_DEV, "NAMES").local();
        labels: BTreeMap<String, String> = parsed(worker::labels).described("key=value,…"),
            unset("", "What tasks can require of a worker, as key=value separated by commas").flag(WORKER_AND_DEV, "LABELS").local();
        worker_servers: u32 = number(0, 256),
            setting("5", "The number of servers that the worker connects to in a larger cluster; 0 for all")
                .flag(WORKER, "N").local();
        join: Option<String> = text().or_none(),
            unset("", "A file with a join token, for a worker on another host than the servers; needed once")
                .flag(WORKER, "FILE");
        drain_timeout: Span = span(Span::ZERO, Span::from_secs(86_400)),
            setting("30s", "How long running jobs may take to end when the worker stops").flag(WORKER_AND_DEV, "TIME").local();
        log_attempts: AttemptLog = one_of(&[
            ("limited", AttemptLog::Limited), ("all", AttemptLog::All), ("off", AttemptLog::Off),
        ]),
            setting("limited", "The attempts to log: limited (up to 100 lines a second), all or off")
                .flag(WORKER_AND_DEV, "WHICH").local();
    }
    Permissions {
        allow_commands: bool = yes_or_no(),
            setting(
                "false",
                "Run commands on this machine, outside the sandbox: everyone who can create tasks can then do here \
                 what the worker's user can",
            )
            .switch(WORKER_AND_DEV);
        probe_effects: bool = yes_or_no(),
            setting("false", "Let probes write witness files and kill the worker, for tests")
                .switch(WORKER_AND_DEV);
    }
}
