//! Named settings, and where each value came from.
//!
//! Flags come before the environment, the environment before the file, the file
//! before the defaults. Values stay text until someone needs them, so that
//! `punctual config` shows them as they were written.

mod agents;
mod database;
mod file;
mod sandbox;
mod secrets;
mod sending;
mod storage;
mod trust;
mod typed;
mod variables;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

pub(crate) use agents::{AgentsSettings, ContainerPlace, Spawn};
pub(crate) use database::{Connection, Database};
pub(crate) use sandbox::SandboxSettings;
pub(crate) use sending::sending;
pub(crate) use storage::Storage;
pub(crate) use trust::{Untrusted, Uses};
pub(crate) use typed::{Durability, ServerSettings, WorkerSettings, yes_or_no};

pub(crate) use variables::unknown as unknown_variables;

use self::file::{Found, SettingsFile};
use self::trust::NotLocal;
use crate::exit::usage;

/// One named setting.
#[derive(Debug)]
pub(crate) struct Setting {
    pub(crate) key: &'static str,
    pub(crate) default: &'static str,
    pub(crate) help: &'static str,
}

const fn setting(key: &'static str, default: &'static str, help: &'static str) -> Setting {
    Setting { key, default, help }
}

pub(crate) const SETTINGS: [Setting; 71] = [
    setting("server", "http://127.0.0.1:8020", "the server that commands and workers talk to; several with commas"),
    setting(
        "token_file",
        "",
        "a file with the access token; empty: that of a server of the same user, if it is needed",
    ),
    setting("allow_plain_http", "false", "whether plain http:// is allowed to servers on other machines"),
    setting("output", "table", "table, json, jsonl or name"),
    setting("color", "auto", "auto, always or never"),
    setting("tz", "local", "the zone that times are shown in: local, utc or a name"),
    setting("log", "", "what is logged, such as info or punctual_engine=debug; empty: by -q and -v"),
    setting("listen", "127.0.0.1:8020", "where a server listens; port 0 takes any that is free"),
    setting("advertise", "", "the URL at which peers and workers reach a server; empty: http:// and `listen`"),
    setting("public_url", "", "what links in notifications begin with; empty: http:// and `listen`"),
    setting("roles", "api,scheduler", "what a server does: api, scheduler or both"),
    setting("data_dir", ".punctual", "the folder of the embedded database"),
    setting("database", "", "a PostgreSQL, as a URL or as key=value pairs; empty: the embedded database"),
    setting("database_wait", "60s", "how long a server that starts waits for its PostgreSQL"),
    setting(
        "durability",
        "full",
        "of the embedded database. full: commits survive a power cut; normal: the last may not",
    ),
    setting(
        "shards",
        "",
        "parts that the jobs are split into; fixed by the first server. Empty: 4, or 64 with a PostgreSQL",
    ),
    setting(
        "storage",
        "",
        "where uploaded files and logs are: a folder, or s3://bucket/prefix; empty: storage in data_dir",
    ),
    setting("storage_endpoint", "", "the address of what speaks S3; empty: AWS_ENDPOINT_URL, or Amazon's own"),
    setting("storage_region", "us-east-1", "the region of the bucket; else AWS_REGION"),
    setting("storage_key_id", "", "who may use the bucket; else AWS_ACCESS_KEY_ID"),
    setting("storage_secret", "", "the secret of that key, or @ and a file of it; else AWS_SECRET_ACCESS_KEY"),
    setting("storage_token", "", "the token of a session, or @ and a file of it; else AWS_SESSION_TOKEN"),
    setting("artifact_max", "2GiB", "the largest file that may be uploaded"),
    setting(
        "log_limit",
        "1MiB",
        "the size of one attempt's log, from 64KiB to 16MiB; of a longer one, the beginning and the end are kept",
    ),
    setting("lease_ttl", "10s", "a server that is silent for so long loses its shards to the others"),
    setting("clock_skew_max", "5s", "a server whose clock differs from the database's by more starts nothing"),
    setting("missed_after", "60s", "a planned time of a schedule that nobody decided about for so long was missed"),
    setting("look_ahead", "30s", "how far ahead of their time jobs are read into memory"),
    setting("window_max", "20000", "jobs that wait in memory, at most, over all shards"),
    setting(
        "poll_interval",
        "1s",
        "how often the look-ahead is read on from the database; new jobs are also announced",
    ),
    setting(
        "full_poll_interval",
        "10s",
        "how often the whole look-ahead is read again, for what an announcement missed",
    ),
    setting("read_batch", "1000", "jobs that one read of the look-ahead takes from the database"),
    setting("write_batch", "2000", "starts and ends of jobs that one transaction writes, at most"),
    setting("prune_interval", "60s", "how often records that are older than `retention` are removed"),
    setting("default_timeout", "20m", "the timeout of a task that sets none"),
    setting("default_retries", "3", "the retries of a task that sets none"),
    setting("timeout_max", "30d", "the longest timeout that a task may set"),
    setting("retries_max", "1000", "the most retries that a task may set"),
    setting("quarantine_after", "3", "a job is quarantined when so many workers died while they ran it"),
    setting("retry_after_max", "24h", "how long the receiver of a call can put a retry off"),
    setting("retention", "7d", "how long finished jobs are kept"),
    setting("heartbeat", "5s", "how often a worker says that it is alive"),
    setting("worker_dead_after", "20s", "a worker that is silent for so long is dead"),
    setting("grpc_streams_max", "20000", "gRPC calls of one kind that a server takes from workers and peers at a time"),
    setting("slots", "64", "jobs that a worker runs at the same time"),
    setting("queues", "default", "the queues that a worker serves, with commas"),
    setting("labels", "", "what tasks may ask of a worker, as key=value with commas"),
    setting("spool_dir", "", "where a worker keeps what it could not report yet; empty: spool in data_dir"),
    setting("cache_dir", "", "where a worker keeps the programs that it fetched; empty: programs in data_dir"),
    setting("cache_max", "4GiB", "the size of all that it keeps there; what was used longest ago goes first"),
    setting("spawn", "", "where binaries run: process or container, by an agent for each; empty: in the worker itself"),
    setting(
        "sandbox_require",
        "",
        "limits of programs that must hold, of memory, cpu and pids, or none. Without one of them a worker runs no \
         programs. Empty: all of them; in `punctual dev`: none",
    ),
    setting(
        "allow_network",
        "false",
        "whether a worker gives programs that ask for it a network: what its default route leads to, never loopback",
    ),
    setting("agent_server", "", "where agents reach the servers, if not as the worker does; https, or this machine"),
    setting("agent_ca", "", "a file of certificates in PEM that agents trust besides the system's"),
    setting("container_socket", "", "the socket of Podman or Docker; else DOCKER_HOST, or the usual place"),
    setting("container_image", "", "the image that agents run in, with this program as /punctual"),
    setting("container_network", "bridge", "the network of their containers; host: that of this machine"),
    setting("log_attempts", "limited", "the attempts that a worker logs: limited (100 lines a second), all or off"),
    setting("drain_timeout", "30s", "how long running jobs may take to end when a worker stops"),
    setting(
        "http_allow",
        "",
        "what tasks may call although it is not on the public internet: ranges and hosts with commas, such as \
         10.0.0.0/8,*.corp.example. In `punctual dev`: 127.0.0.0/8,::1",
    ),
    setting("http_deny", "", "what tasks may not call, whatever else is allowed; written like http_allow"),
    setting("webhook_keys", "", "keys that sign requests, as name=whsec_… with commas; or @ and a file of them"),
    setting(
        "slack_webhooks",
        "",
        "addresses of Slack channels, as name=https://… with commas; or @ and a file of them",
    ),
    setting("telegram_bots", "", "tokens of Telegram bots, as name=123456:… with commas; or @ and a file of them"),
    setting("telegram_api", "https://api.telegram.org", "the address of the Telegram Bot API"),
    setting(
        "smtp_url",
        "",
        "the server that mails are sent by: smtp://user@host:587 or smtps://user@host; empty: none",
    ),
    setting("smtp_password", "", "the password for the user in smtp_url; or @ and a file of it"),
    setting("smtp_from", "", "whom mails are from, such as Punctual <jobs@example.com>"),
    setting(
        "allow_commands",
        "false",
        "whether a worker runs commands on its machine, outside the sandbox: whoever can create tasks can then do \
         there what its user can",
    ),
    setting("probe_effects", "false", "whether probes may write witness files and kill the worker"),
];

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    Flag,
    Environment(String),
    File(PathBuf),
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag => f.write_str("flag"),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Default => f.write_str("default"),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Value {
    pub(crate) text: String,
    pub(crate) origin: Origin,
}

/// What the values are taken from; handed in, so that tests need no environment.
pub(crate) struct Sources<'a> {
    pub(crate) flags: &'a [(&'static str, String)],
    pub(crate) environment: &'a dyn Fn(&str) -> Option<String>,
    /// A file that was asked for, which must exist.
    pub(crate) file: Option<PathBuf>,
    /// What happens to a file in the current folder that somebody else could have written.
    pub(crate) untrusted: Untrusted,
}

/// Every setting with its value.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    values: BTreeMap<&'static str, Value>,
    /// The file that was read, if there was one.
    pub(crate) file: Option<PathBuf>,
    /// Why another one was not.
    pub(crate) ignored: Option<String>,
    /// What the file would have set, and cannot.
    not_local: Vec<NotLocal>,
}

impl Config {
    pub(crate) fn load(sources: &Sources<'_>) -> anyhow::Result<Self> {
        let Found { file, ignored } = file::find(sources)?;
        let (mut from_file, mut not_local) = match &file {
            Some(file) => file::read(file)?,
            None => (BTreeMap::new(), Vec::new()),
        };
        let file = file.map(SettingsFile::into_path);
        let mut values = BTreeMap::new();
        for setting in &SETTINGS {
            let variable = variable(setting.key);
            let flag = sources.flags.iter().find(|(key, _)| *key == setting.key);
            let value = if let Some((_, text)) = flag {
                Value { text: text.clone(), origin: Origin::Flag }
            } else if let Some(text) = (sources.environment)(&variable).filter(|text| !is_of_a_job(setting.key, text)) {
                Value { text, origin: Origin::Environment(variable) }
            } else if let (Some(text), Some(path)) = (from_file.remove(setting.key), &file) {
                Value { text, origin: Origin::File(path.clone()) }
            } else if let Some((name, text)) = also(setting.key, sources) {
                Value { text, origin: Origin::Environment(name.to_owned()) }
            } else {
                Value { text: setting.default.to_owned(), origin: Origin::Default }
            };
            // Whoever says it elsewhere would not have gone by the file.
            not_local.retain(|found| {
                found.key != setting.key || !matches!(value.origin, Origin::Flag | Origin::Environment(_))
            });
            values.insert(setting.key, value);
        }
        Ok(Self { values, file, ignored, not_local })
    }

    /// Refuses a command that would go by what the file in the current folder cannot set. Of the rest, people are warned.
    pub(crate) fn check_local(&self, uses: Uses) -> anyhow::Result<Vec<String>> {
        trust::check(&self.not_local, uses)?;
        Ok(trust::warnings(&self.not_local, uses))
    }

    /// A value as it may be shown: without its password.
    pub(crate) fn shown(&self, key: &str) -> String {
        match key {
            "database" | "smtp_url" => database::masked(self.text(key)),
            "smtp_password" | "webhook_keys" | "slack_webhooks" | "telegram_bots" | "storage_secret"
            | "storage_token" => secrets::masked(self.text(key)),
            _ => self.text(key).to_owned(),
        }
    }

    /// Panics on a key that is not in [`SETTINGS`]: that is our own mistake.
    pub(crate) fn value(&self, key: &str) -> &Value {
        &self.values[key]
    }

    pub(crate) fn text(&self, key: &str) -> &str {
        &self.value(key).text
    }

    /// Reads a value, or says which setting is wrong and where it was written.
    pub(crate) fn parse<T>(&self, key: &str, parse: impl Fn(&str) -> Result<T, String>) -> anyhow::Result<T> {
        let Value { text, origin } = self.value(key);
        parse(text).map_err(|reason| {
            let at = match origin {
                Origin::Flag => format!("--{}", key.replace('_', "-")),
                origin => format!("setting {key} ({origin})"),
            };
            usage(format!("{at}: {reason}"), "see `punctual config --help` for every setting and its default")
        })
    }
}

/// What the environment has under a name that other programs use too.
fn also(key: &str, sources: &Sources<'_>) -> Option<(&'static str, String)> {
    let (_, name) = storage::ALSO.iter().chain(&agents::ALSO).find(|(known, _)| *known == key)?;
    Some((name, (sources.environment)(name)?))
}

/// Inside a job, `PUNCTUAL_OUTPUT` is the file for its output.
fn is_of_a_job(key: &str, text: &str) -> bool {
    key == "output" && text.starts_with('/')
}

/// The environment's name for a setting.
pub(crate) fn variable(key: &str) -> String {
    format!("PUNCTUAL_{}", key.to_ascii_uppercase())
}

/// All settings with their defaults, for `punctual config --help`.
pub(crate) fn help() -> String {
    let mut text = String::from(
        "Settings come from flags (--data-dir), then the environment (PUNCTUAL_DATA_DIR), then a file \
         (./punctual.toml, else $XDG_CONFIG_HOME/punctual/config.toml; --config names another), then the \
         defaults. The file in the current folder cannot set servers, permissions or \
         credentials.\n\nSettings:\n",
    );
    for Setting { key, default, help } in &SETTINGS {
        let default = if default.is_empty() { String::new() } else { format!(" [default: {default}]") };
        text += &format!("  {key:<18} {help}{default}\n");
    }
    text
}

#[cfg(test)]
mod tests;
