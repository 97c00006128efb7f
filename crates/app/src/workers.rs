//! What workers ask for.

use std::sync::Arc;
use std::time::Duration;

use punctual_api::{ErrorKind, limits};
use punctual_core::run::WORKFLOW;
use punctual_core::shard::event::{StreamId, WorkerSpec};
use punctual_core::{AttemptNo, JobId, ServerId, WorkerId};
use punctual_engine::{Greeting, OutgoingReceiver, WorkerInfo, WorkerSession};
use punctual_store::{LogChunk, SeenWorker};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::enrolments::enrolment_of;
use crate::logs::checked_marks;
use crate::principal::By;
use crate::principal::permission::ServeJobs;
use crate::{App, AppError, Result, validate};

/// The longest log of an attempt that is kept or read, whatever the settings say: a server takes it into memory to archive it.
pub const LOG_BYTES_MAX: u64 = 16 << 20;
/// Less would hardly hold what is said about a log that was cut.
pub const LOG_BYTES_MIN: u64 = 64 << 10;

/// A worker's stream waits so long for a store that is away. Then it is cut off, and says everything again when it
/// is back: it has what it printed until its outcome is taken.
const LOGS_TRIED_FOR: Duration = Duration::from_secs(20);
const LOGS_PAUSE: Duration = Duration::from_millis(250);

/// More slots than this are a mistake, or two workers.
pub const CREDIT_MAX: u32 = 65_536;
/// Queues and capabilities, such as handlers, that one worker may name.
const OFFERS_MAX: usize = 1024;
/// And all that it says of itself: a server keeps it in memory for each worker.
const OFFERS_BYTES_MAX: usize = 64 << 10;
/// Attempts that a worker may hold: as many as it has slots, and as many whose outcomes nobody has acknowledged yet.
const HELD_MAX: usize = 2 * CREDIT_MAX as usize + 1;
/// Workers of one server. Each costs memory and heartbeats; see docs/limits.md.
const WORKERS_MAX: usize = 20_000;

pub struct WorkerHello {
    pub worker: WorkerId,
    pub name: String,
    /// Its machine, if it said.
    pub host: Option<String>,
    pub version: String,
    pub spec: WorkerSpec,
    pub held: Vec<(JobId, AttemptNo)>,
    /// As the greeting had it.
    pub acquired: u64,
    /// The user that runs commands outside of the sandbox; empty if none does.
    pub commands_as: String,
}

/// A server that workers are told of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    pub id: ServerId,
    /// Such as `http://127.0.0.1:8020`.
    pub address: String,
}

/// The servers that are alive; it changes with them.
pub type PeerList = watch::Receiver<Arc<[Peer]>>;

impl App {
    /// The servers that workers are told of.
    pub fn announced(&self) -> PeerList {
        self.0.announced.subscribe()
    }

    /// A worker opened a stream.
    pub async fn greet_worker(&self, by: &By<ServeJobs>) -> Result<Greeting> {
        self.check_worker(by)?;
        self.know_namespaces_of(by).await;
        if !self.0.settings.roles.scheduler {
            return Err(AppError::new(ErrorKind::Unavailable, "this server does not have the role scheduler"));
        }
        Ok(self.0.engine.greeting().await?)
    }

    /// A worker answered the greeting of this connection. The stream ends at once if the greeting is out of date.
    /// Dropping the session says that the worker is away.
    pub fn connect_worker(
        &self,
        by: &By<ServeJobs>,
        stream: StreamId,
        hello: WorkerHello,
    ) -> Result<(WorkerSession, OutgoingReceiver)> {
        check(&hello)?;
        let mut hello = self.in_scope(by, hello)?;
        // Servers alone start the runs of workflows.
        hello.spec.capabilities.retain(|can| can != WORKFLOW);
        if self.0.engine.connected_len() >= WORKERS_MAX {
            let error =
                AppError::new(ErrorKind::TooManyRequests, format!("{WORKERS_MAX} workers are connected already"));
            return Err(error.hint("give each worker more slots, or add servers"));
        }
        self.worker_serves(by, hello.worker);
        let now = self.now();
        self.0.known_workers.connected(SeenWorker {
            id: hello.worker,
            name: hello.name.clone(),
            host: hello.host.clone(),
            version: hello.version.clone(),
            first_seen_at: now,
            last_seen_at: now,
            left_at: None,
        });
        let WorkerHello { worker, name, host, version, spec, held, acquired, commands_as } = hello;
        let has_certificate = enrolment_of(by.principal()).is_some();
        let info = WorkerInfo { name, host, version, spec, commands_as, has_certificate };
        Ok(self.0.engine.connect(worker, stream, info, held, acquired))
    }

    /// Resolves when the engine has ended: nobody watches over workers here any more.
    pub async fn stopped(&self) {
        self.0.engine.ended().await;
    }

    /// False when the worker has no connection here.
    pub fn worker_alive(&self, worker: WorkerId) -> bool {
        self.0.engine.alive(worker)
    }

    /// Keeps what attempts printed, up to the limit for each and the quotas of their namespaces. While the store is away it tries again for a while.
    pub async fn append_logs(&self, mut chunks: Vec<LogChunk>) -> Result<()> {
        let limit = self.0.settings.log_limit.get();
        chunks.retain(|chunk| chunk.offset < limit && !chunk.bytes.is_empty());
        for chunk in &mut chunks {
            let room = (limit - chunk.offset) as usize;
            chunk.bytes.truncate(room.max(1));
            chunk.marks = checked_marks(chunk.offset, chunk.bytes.len(), std::mem::take(&mut chunk.marks));
        }
        if chunks.is_empty() {
            return Ok(());
        }
        let deadline = Instant::now() + LOGS_TRIED_FOR;
        loop {
            match self.keep_logs(chunks.clone()).await {
                Err(error) if is_fault_of_store(error.kind) && Instant::now() + LOGS_PAUSE < deadline => {
                    tracing::debug!(%error, "pieces of logs were not kept; trying again");
                    tokio::time::sleep(LOGS_PAUSE).await;
                }
                kept => return kept,
            }
        }
    }
}

fn is_fault_of_store(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::DatabaseUnavailable
            | ErrorKind::DiskFull
            | ErrorKind::DatabaseCorrupt
            | ErrorKind::DatabaseFileReplaced
            | ErrorKind::DatabaseReadOnly
    )
}

fn check(hello: &WorkerHello) -> Result<()> {
    validate::text("name", &hello.name, limits::LABEL_CHARS_MAX)?;
    validate::text("version", &hello.version, limits::NAME_CHARS_MAX)?;
    validate::text("commands_as", &hello.commands_as, limits::NAME_CHARS_MAX)?;
    if let Some(host) = &hello.host {
        validate::text("host", host, limits::LABEL_CHARS_MAX)?;
    }
    let spec = &hello.spec;
    if spec.credit > CREDIT_MAX {
        return Err(AppError::out_of_range("credit", format!("must be at most {CREDIT_MAX}")));
    }
    if spec.queues.len() > OFFERS_MAX || spec.capabilities.len() > OFFERS_MAX || spec.labels.len() > limits::LABELS_MAX
    {
        return Err(AppError::invalid("the worker names too many queues, capabilities or labels"));
    }
    for queue in &spec.queues {
        validate::name("queues", queue)?;
    }
    for capability in &spec.capabilities {
        validate::text("capabilities", capability, 2 * limits::NAME_CHARS_MAX)?;
    }
    let offers = spec.queues.iter().chain(&spec.capabilities).map(String::len);
    let labels = spec.labels.iter().map(|(key, value)| key.len() + value.len());
    if offers.chain(labels).sum::<usize>() > OFFERS_BYTES_MAX {
        let detail = format!("queues, capabilities and labels are more than {OFFERS_BYTES_MAX} bytes together");
        return Err(AppError::invalid(detail));
    }
    if hello.held.len() > HELD_MAX {
        return Err(AppError::too_long("held", format!("must be at most {HELD_MAX} attempts")));
    }
    for (key, value) in &spec.labels {
        validate::name("labels", key)?;
        validate::text("labels", value, limits::LABEL_CHARS_MAX)?;
    }
    Ok(())
}
