//! How a worker is put together. The real clock and randomness enter here.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use punctual_core::id::WorkerId;
use punctual_exec::{
    Admissions, Downloads, Executor, Executors, HandlerResult, Handlers, JobContext, Prober, Sending, clock,
};
use punctual_proto::MESSAGE_BYTES_MAX;
use punctual_proto::identity::WorkerSecret;

use crate::asker::Asker;
use crate::credentials::{Credentials, PlainHttp};
use crate::error::WorkerError;
use crate::journal::AttemptLog;
use crate::ledger::UNACKED_LEN_MAX;
use crate::run;
use crate::status::WorkerStatus;

/// For calls that mostly wait. Say less for handlers that keep a core busy.
const SLOTS_DEFAULT: u32 = 64;

/// The slots of one worker. No server gives more credit.
pub const SLOTS_MAX: u32 = 65_536;

/// What an attempt takes in the list of a hello.
const HELD_BYTES: usize = 22;
const _: () = assert!(
    (SLOTS_MAX as usize + UNACKED_LEN_MAX) * HELD_BYTES < MESSAGE_BYTES_MAX,
    "a hello lists all that is held, in one message"
);

const DRAIN_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);
const CANCEL_GRACE_DEFAULT: Duration = Duration::from_secs(5);

/// A worker that has not started yet.
pub struct Worker {
    pub(crate) servers: Vec<String>,
    pub(crate) name: Option<String>,
    pub(crate) slots: u32,
    pub(crate) queues: Vec<String>,
    pub(crate) labels: HashMap<String, String>,
    pub(crate) executors: Executors,
    pub(crate) spool_dir: Option<PathBuf>,
    pub(crate) drain_timeout: Duration,
    pub(crate) cancel_grace: Duration,
    pub(crate) attempt_log: AttemptLog,
    pub(crate) status: WorkerStatus,
    pub(crate) asker: Asker,
    pub(crate) credentials: Credentials,
    handlers: Handlers,
    prober: Prober,
    sending: Sending,
}

impl Worker {
    /// Works for the server at `url`, such as `http://127.0.0.1:8020`, and for all that it
    /// tells of.
    pub fn connect(url: impl Into<String>) -> Self {
        Self::connect_any([url])
    }

    /// Works for the servers at these addresses, and for all that they tell of.
    pub fn connect_any(urls: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            servers: urls.into_iter().map(Into::into).collect(),
            name: None,
            slots: SLOTS_DEFAULT,
            queues: Vec::new(),
            labels: HashMap::new(),
            executors: Executors::default(),
            spool_dir: None,
            drain_timeout: DRAIN_TIMEOUT_DEFAULT,
            cancel_grace: CANCEL_GRACE_DEFAULT,
            attempt_log: AttemptLog::default(),
            status: WorkerStatus::default(),
            asker: Asker::default(),
            credentials: Credentials::default(),
            handlers: Handlers::default(),
            prober: Prober::harmless(),
            sending: Sending::default(),
        }
    }

    /// Works for one more server; one that can be reached is enough to hear of the others.
    /// The slots are divided among all, and go to where work waits.
    #[must_use]
    pub fn server(mut self, url: impl Into<String>) -> Self {
        self.servers.push(url.into());
        self
    }

    /// Where the access token comes from: `token` is called with the address of a server for each connection to it. A worker of
    /// the server's own user on the same machine needs none.
    #[must_use]
    pub fn token(mut self, token: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        self.credentials.token = Arc::new(token);
        self
    }

    /// Which servers not to speak to: `reason` is called with the address of a server for each connection to it. A worker runs
    /// what it is sent, so it must not take it from whoever listens at the address while the server is down.
    #[must_use]
    pub fn distrust(mut self, reason: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        self.credentials.distrust = Arc::new(reason);
        self
    }

    /// Whether other machines are spoken to without TLS; not if nothing is said.
    #[must_use]
    pub fn plain_http(mut self, plain_http: PlainHttp) -> Self {
        self.credentials.plain_http = plain_http;
        self
    }

    /// What people see; the host's name if nothing is said.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// How many attempts run at the same time; 64 if nothing is said.
    #[must_use]
    pub fn slots(mut self, slots: u32) -> Self {
        self.slots = slots;
        self
    }

    /// Serves this queue too; only `default` if none is named.
    #[must_use]
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.queues.push(queue.into());
        self
    }

    #[must_use]
    pub fn queues(mut self, queues: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.queues.extend(queues.into_iter().map(Into::into));
        self
    }

    /// A task that asks for this label may be given to this worker.
    #[must_use]
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// Runs `handler` for tasks of kind `handler` with this name. The answer becomes the
    /// job's output; an error is a failed attempt.
    #[must_use]
    pub fn handler<H, F>(mut self, name: impl Into<String>, handler: H) -> Self
    where
        H: Fn(JobContext) -> F + Send + Sync + 'static,
        F: Future<Output = HandlerResult> + Send + 'static,
    {
        self.handlers.add(name, handler);
        self
    }

    /// Adds an executor; it replaces an earlier one of its kind.
    #[must_use]
    pub fn executor(mut self, executor: impl Executor) -> Self {
        self.executors.add(Arc::new(executor));
        self
    }

    /// Runs the kinds of tasks that need no code of yours: HTTP calls, messages to Slack, mails if
    /// [`Self::sending`] names a server for them, and probes without effects.
    #[must_use]
    pub fn standard_executors(mut self) -> Self {
        for executor in self.sending.executors() {
            self.executors.add(executor);
        }
        let prober = self.prober;
        self.executor(prober)
    }

    /// What the standard executors may call, and with which keys. Only the public internet if
    /// nothing is said.
    #[must_use]
    pub fn sending(mut self, sending: Sending) -> Self {
        // Kept as well, so that it does not matter which of the two is said first.
        for executor in sending.executors() {
            self.executors.add(executor);
        }
        self.sending = sending;
        self
    }

    /// Runs probes with all they ask for: they append to any file that the worker may write,
    /// and kill it. For tests of the system itself, where everyone who may submit a job is
    /// trusted with that.
    #[must_use]
    pub fn probe_effects(mut self) -> Self {
        // Kept as well, so that it does not matter which of the two is said first.
        self.prober = Prober::with_effects();
        let prober = self.prober;
        self.executor(prober)
    }

    /// Keeps outcomes in this folder while no server can be reached, so that they survive
    /// the worker. Several workers may share a folder. Without one they are in memory only.
    #[must_use]
    pub fn spool_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.spool_dir = Some(dir.into());
        self
    }

    /// How long a worker that was asked to leave waits for what it runs; 30 s if nothing is said.
    #[must_use]
    pub fn drain_timeout(mut self, limit: Duration) -> Self {
        self.drain_timeout = limit;
        self
    }

    /// How long a cancelled handler may take to end by itself before it is dropped; 5 s if
    /// nothing is said.
    #[must_use]
    pub fn cancel_grace(mut self, limit: Duration) -> Self {
        self.cancel_grace = limit;
        self
    }

    /// Which attempts are logged, at level info; up to 100 lines a second by default.
    #[must_use]
    pub fn log_attempts(mut self, which: AttemptLog) -> Self {
        self.attempt_log = which;
        self
    }

    /// A look at the worker, before and while it runs.
    pub fn status(&self) -> WorkerStatus {
        self.status.clone()
    }

    /// For an executor that has to fetch the files of its attempts. Answers once the worker runs.
    pub fn downloads(&self) -> Arc<dyn Downloads> {
        Arc::new(self.asker.clone())
    }

    /// For an executor that has agents run its attempts. Answers once the worker runs.
    pub fn admissions(&self) -> Arc<dyn Admissions> {
        Arc::new(self.asker.clone())
    }

    /// Works until the process ends.
    pub async fn run(self) -> Result<(), WorkerError> {
        self.run_until(std::future::pending()).await
    }

    /// Works until `shutdown` ends, then takes no more work, finishes what it has, and leaves.
    pub async fn run_until(mut self, shutdown: impl Future<Output = ()>) -> Result<(), WorkerError> {
        if !self.handlers.is_empty() {
            self.executors.add(Arc::new(std::mem::take(&mut self.handlers)));
        }
        if self.queues.is_empty() {
            self.queues.push("default".to_owned());
        }
        if self.executors.is_empty() {
            return Err(WorkerError::NothingToRun);
        }
        if self.servers.is_empty() {
            return Err(WorkerError::BadServer(String::new()));
        }
        if self.slots == 0 || self.slots > SLOTS_MAX {
            return Err(WorkerError::BadSlots { max: SLOTS_MAX });
        }
        let secret = system_secret()?;
        let id = secret.worker_id(clock::now());
        let seed = system_random()?;
        run::run(self, Identity { id, secret }, seed, shutdown).await
    }
}

/// Who a worker is, and what proves it.
pub(crate) struct Identity {
    pub(crate) id: WorkerId,
    pub(crate) secret: WorkerSecret,
}

fn system_secret() -> Result<WorkerSecret, WorkerError> {
    let mut random = [0; 32];
    let filled = getrandom::fill(&mut random);
    filled.map_err(|error| WorkerError::Randomness(io::Error::other(error.to_string())))?;
    Ok(WorkerSecret::new(random))
}

fn system_random() -> Result<u64, WorkerError> {
    getrandom::u64().map_err(|error| WorkerError::Randomness(io::Error::other(error.to_string())))
}
