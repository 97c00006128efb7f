//! The settings of servers and workers, read and checked.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::ValueEnum;
use punctual_app::{LOG_BYTES_MAX, LOG_BYTES_MIN, Roles, TaskLimits};
use punctual_core::retry::RetryPolicy;
use punctual_core::size::ByteSize;
use punctual_core::task_defaults::TaskDefaults;
use punctual_core::{ShardId, Span};
use punctual_exec::ProgramCache;
use punctual_store_sqlite::DataLoss;
use punctual_worker::{AttemptLog, SLOTS_MAX, Sending};

use super::{AgentsSettings, Config, Database, Origin, SandboxSettings, Storage, sending, storage};
use crate::exit::usage;
use crate::when::parse_span;

/// How much a commit survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Durability {
    /// A power cut.
    Full,
    /// The end of the process.
    Normal,
}

#[derive(Debug, Clone)]
pub(crate) struct ServerSettings {
    pub(crate) listen: SocketAddr,
    /// Where others reach it; `None` for the address that it listens on.
    pub(crate) advertise: Option<String>,
    /// What links for people begin with; `None` for the address that it listens on.
    pub(crate) public_url: Option<String>,
    pub(crate) roles: Roles,
    pub(crate) data_dir: PathBuf,
    pub(crate) database: Database,
    pub(crate) database_wait: Span,
    pub(crate) durability: Durability,
    /// By a flag alone: what is accepted once is not accepted for ever.
    pub(crate) data_loss: DataLoss,
    /// `None`: as many as there are, or the usual number for a new database.
    pub(crate) shards: Option<u16>,
    pub(crate) lease_ttl: Span,
    pub(crate) clock_skew_max: Span,
    pub(crate) missed_after: Span,
    pub(crate) look_ahead: Span,
    pub(crate) window_max: usize,
    pub(crate) retention: Span,
    pub(crate) storage: Storage,
    pub(crate) artifact_max: ByteSize,
    pub(crate) log_limit: ByteSize,
    pub(crate) heartbeat: Span,
    pub(crate) worker_dead_after: Span,
    pub(crate) grpc_streams_max: usize,
    pub(crate) poll_interval: Span,
    pub(crate) full_poll_interval: Span,
    pub(crate) read_batch: usize,
    pub(crate) write_batch: usize,
    pub(crate) prune_interval: Span,
    pub(crate) quarantine_after: u16,
    pub(crate) retry_after_max: Span,
    pub(crate) task_defaults: TaskDefaults,
    pub(crate) task_limits: TaskLimits,
}

#[derive(Debug, Clone)]
pub(crate) struct WorkerSettings {
    pub(crate) slots: u32,
    pub(crate) queues: Vec<String>,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) spool_dir: PathBuf,
    pub(crate) drain_timeout: Span,
    pub(crate) log_attempts: AttemptLog,
    pub(crate) allow_commands: bool,
    pub(crate) probe_effects: bool,
    pub(crate) sending: Sending,
    pub(crate) programs: ProgramCache,
    pub(crate) sandbox: SandboxSettings,
    pub(crate) agents: AgentsSettings,
}

impl ServerSettings {
    pub(crate) fn new(config: &Config) -> anyhow::Result<Self> {
        let database = database(config)?;
        let settings = Self {
            listen: config.parse("listen", listen)?,
            advertise: config.parse("advertise", advertise)?,
            public_url: config.parse("public_url", public_url)?,
            roles: config.parse("roles", roles)?,
            data_dir: config.parse("data_dir", folder)?,
            database_wait: config.parse("database_wait", |text| span(text, Span::ZERO, Span::from_secs(86_400)))?,
            durability: config.parse("durability", |text| {
                Durability::from_str(text, true).map_err(|_| format!("`{text}` is neither full nor normal"))
            })?,
            data_loss: DataLoss::Refuse,
            shards: match config.text("shards") {
                "" => None,
                _ => Some(config.parse("shards", |text| number(text, 1, u64::from(ShardId::COUNT_MAX)))? as u16),
            },
            database,
            lease_ttl: config.parse("lease_ttl", |text| span(text, Span::from_secs(1), Span::from_secs(600)))?,
            clock_skew_max: config
                .parse("clock_skew_max", |text| span(text, Span::from_millis(10), Span::from_secs(3600)))?,
            missed_after: config.parse("missed_after", |text| span(text, Span::from_secs(1), Span::from_secs(3600)))?,
            look_ahead: config.parse("look_ahead", |text| span(text, Span::from_secs(1), Span::from_secs(3600)))?,
            window_max: config.parse("window_max", |text| number(text, 100, 10_000_000))? as usize,
            retention: config.parse("retention", |text| span(text, Span::from_secs(60), Span::MAX))?,
            storage: storage::read(config)?,
            artifact_max: config.parse("artifact_max", artifact_max)?,
            log_limit: config.parse("log_limit", log_limit)?,
            heartbeat: config.parse("heartbeat", |text| span(text, Span::from_millis(100), Span::from_secs(60)))?,
            worker_dead_after: config
                .parse("worker_dead_after", |text| span(text, Span::from_millis(200), Span::from_secs(3600)))?,
            grpc_streams_max: config.parse("grpc_streams_max", |text| number(text, 1, 1_000_000))? as usize,
            poll_interval: config
                .parse("poll_interval", |text| span(text, Span::from_millis(10), Span::from_secs(60)))?,
            full_poll_interval: config
                .parse("full_poll_interval", |text| span(text, Span::from_millis(10), Span::from_secs(3600)))?,
            read_batch: config.parse("read_batch", |text| number(text, 2, 10_000))? as usize,
            write_batch: config.parse("write_batch", |text| number(text, 1, 10_000))? as usize,
            prune_interval: config
                .parse("prune_interval", |text| span(text, Span::from_secs(1), Span::from_secs(3600)))?,
            quarantine_after: config.parse("quarantine_after", |text| number(text, 1, 1000))? as u16,
            retry_after_max: config.parse("retry_after_max", |text| span(text, Span::ZERO, Span::MAX))?,
            task_defaults: TaskDefaults {
                timeout: config.parse("default_timeout", timeout)?,
                retries: config.parse("default_retries", retries)?,
            },
            task_limits: TaskLimits {
                timeout_max: config.parse("timeout_max", timeout)?,
                retries_max: config.parse("retries_max", retries)?,
            },
        };
        settings.check()?;
        Ok(settings)
    }

    /// Settings that must go together.
    fn check(&self) -> anyhow::Result<()> {
        // One lost heartbeat must not cost a worker its jobs.
        if self.worker_dead_after.as_micros() < 2 * self.heartbeat.as_micros() {
            let (dead_after, heartbeat) = (self.worker_dead_after, self.heartbeat);
            return Err(usage(
                format!("worker_dead_after ({dead_after}) is less than two heartbeats of {heartbeat}"),
                "raise worker_dead_after or lower heartbeat",
            ));
        }
        let (TaskDefaults { timeout, retries }, TaskLimits { timeout_max, retries_max }) =
            (self.task_defaults, self.task_limits);
        if timeout > timeout_max {
            let message = format!("default_timeout ({timeout}) is longer than timeout_max ({timeout_max})");
            return Err(usage(message, "lower default_timeout or raise timeout_max"));
        }
        if retries > retries_max {
            let message = format!("default_retries ({retries}) is more than retries_max ({retries_max})");
            return Err(usage(message, "lower default_retries or raise retries_max"));
        }
        if self.full_poll_interval < self.poll_interval {
            let (full, part) = (self.full_poll_interval, self.poll_interval);
            let message = format!("full_poll_interval ({full}) is shorter than poll_interval ({part})");
            return Err(usage(message, "raise full_poll_interval or lower poll_interval"));
        }
        Ok(())
    }
}

impl WorkerSettings {
    pub(crate) fn new(config: &Config) -> anyhow::Result<Self> {
        let spool_dir = match config.text("spool_dir") {
            "" => config.parse("data_dir", folder)?.join("spool"),
            _ => config.parse("spool_dir", folder)?,
        };
        Ok(Self {
            slots: config.parse("slots", |text| number(text, 1, u64::from(SLOTS_MAX)))? as u32,
            queues: config.parse("queues", queues)?,
            labels: config.parse("labels", labels)?,
            spool_dir,
            drain_timeout: config.parse("drain_timeout", |text| span(text, Span::ZERO, Span::from_secs(86_400)))?,
            log_attempts: config.parse("log_attempts", log_attempts)?,
            allow_commands: config.parse("allow_commands", yes_or_no)?,
            probe_effects: config.parse("probe_effects", yes_or_no)?,
            sending: sending(config, "")?,
            programs: ProgramCache {
                folder: match config.text("cache_dir") {
                    "" => config.parse("data_dir", folder)?.join("programs"),
                    _ => config.parse("cache_dir", folder)?,
                },
                bytes_max: config.parse("cache_max", size)?,
            },
            sandbox: SandboxSettings::new(config)?,
            agents: AgentsSettings::new(config)?,
        })
    }
}

fn log_limit(text: &str) -> Result<ByteSize, String> {
    let limit = text.parse::<ByteSize>().map_err(|error| error.to_string())?;
    if !(LOG_BYTES_MIN..=LOG_BYTES_MAX).contains(&limit.get()) {
        return Err("must be from 64KiB to 16MiB".to_owned());
    }
    Ok(limit)
}

fn timeout(text: &str) -> Result<Span, String> {
    span(text, Span::from_millis(1), TaskLimits::default().timeout_max)
}

fn retries(text: &str) -> Result<u16, String> {
    Ok(number(text, 0, u64::from(RetryPolicy::MAX_MAX))? as u16)
}

fn log_attempts(text: &str) -> Result<AttemptLog, String> {
    match text {
        "limited" => Ok(AttemptLog::Limited),
        "all" => Ok(AttemptLog::All),
        "off" => Ok(AttemptLog::Off),
        _ => Err(format!("`{text}` is none of limited, all, off")),
    }
}

fn size(text: &str) -> Result<u64, String> {
    text.parse::<ByteSize>().map(ByteSize::get).map_err(|error| error.to_string())
}

fn roles(text: &str) -> Result<Roles, String> {
    let mut roles = Roles { api: false, scheduler: false };
    for word in text.split(',').map(str::trim) {
        match word {
            "api" => roles.api = true,
            "scheduler" => roles.scheduler = true,
            _ => return Err(format!("`{word}` is neither api nor scheduler")),
        }
    }
    Ok(roles)
}

fn database(config: &Config) -> anyhow::Result<Database> {
    let database = config.parse("database", Database::parse)?;
    // Everyone on a machine can read the command lines of its processes.
    if config.value("database").origin == Origin::Flag && database.has_password() {
        return Err(usage(
            "--database: a password on the command line can be read by everyone on this machine",
            "pass it in PUNCTUAL_DATABASE, in a settings file, or in PGPASSWORD",
        ));
    }
    Ok(database)
}

/// Reads where others reach this server. They are on this machine, as it listens nowhere else.
fn advertise(text: &str) -> Result<Option<String>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let refused = || format!("`{text}` is not an address, such as http://127.0.0.1:8020");
    let rest = text.strip_prefix("http://").ok_or_else(refused)?;
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let is_host = |rest: &str| !rest.is_empty() && !rest.contains(['/', '?', '#', '@', ' ', ',']);
    if !is_host(rest) {
        return Err(refused());
    }
    Ok(Some(format!("http://{rest}")))
}

/// Reads where people reach the servers, such as through a proxy of theirs; with a path, if there is one.
fn public_url(text: &str) -> Result<Option<String>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let refused = || format!("`{text}` is not an address, such as https://punctual.example.com");
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")).ok_or_else(refused)?;
    let is_plain = |c: char| !c.is_control() && !c.is_whitespace() && !"?#@,<>\"".contains(c);
    if rest.is_empty() || rest.starts_with('/') || text.len() > 512 || !rest.chars().all(is_plain) {
        return Err(refused());
    }
    Ok(Some(text.trim_end_matches('/').to_owned()))
}

pub(crate) fn yes_or_no(text: &str) -> Result<bool, String> {
    text.parse().map_err(|_| format!("`{text}` is neither true nor false"))
}

/// Reads an address. Anything but this machine is refused: there is no login yet,
/// and whoever can reach the port can run tasks.
fn listen(text: &str) -> Result<SocketAddr, String> {
    let text = match text.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => text.to_owned(),
    };
    let address = text.parse().map_err(|_| format!("`{text}` is not an address, such as 127.0.0.1:8020"))?;
    loopback(address)
}

pub(crate) fn loopback(address: SocketAddr) -> Result<SocketAddr, String> {
    if address.ip().is_loopback() {
        return Ok(address);
    }
    Err(format!(
        "{address} can be reached from other machines, and there is no authentication yet: anyone there could \
         run tasks here. Listen on 127.0.0.1 and use an SSH tunnel or a proxy that authenticates"
    ))
}

/// Larger files are refused by S3 in one piece.
const ARTIFACT_MAX: ByteSize = ByteSize::mib(5 << 10);

fn artifact_max(text: &str) -> Result<ByteSize, String> {
    let size: ByteSize = text.parse().map_err(|error: punctual_core::size::BadSize| error.to_string())?;
    if size == ByteSize::bytes(0) || size > ARTIFACT_MAX {
        return Err(format!("{text} is not more than 0 and at most {ARTIFACT_MAX}"));
    }
    Ok(size)
}

pub(super) fn folder(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() {
        return Err("a folder needs a name".to_owned());
    }
    Ok(PathBuf::from(text))
}

fn number(text: &str, min: u64, max: u64) -> Result<u64, String> {
    let number = text.trim().replace('_', "").parse().ok().filter(|number| (min..=max).contains(number));
    number.ok_or_else(|| format!("`{text}` is not a number from {min} to {max}"))
}

fn span(text: &str, min: Span, max: Span) -> Result<Span, String> {
    let span = parse_span(text)?;
    if !(min..=max).contains(&span) {
        return Err(format!("{text} is not between {min} and {max}"));
    }
    Ok(span)
}

fn queues(text: &str) -> Result<Vec<String>, String> {
    let queues: Vec<_> = text.split(',').map(|queue| queue.trim().to_owned()).collect();
    if queues.iter().any(String::is_empty) {
        return Err("a queue needs a name".to_owned());
    }
    Ok(queues)
}

/// Reads `zone=eu,disk=ssd`.
pub(crate) fn labels(text: &str) -> Result<BTreeMap<String, String>, String> {
    let pairs = text.split(',').filter(|pair| !pair.trim().is_empty());
    pairs
        .map(|pair| match pair.trim().split_once('=') {
            Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
            _ => Err(format!("`{pair}` is not a label, such as zone=eu")),
        })
        .collect()
}
