//! The builder of a worker. The real clock and randomness enter here.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use punctual_core::id::WorkerId;
use punctual_exec::{
    Admissions, Downloads, Executor, Executors, HandlerResult, Handlers, JobContext, Prober, Sending, clock,
};
use punctual_pki::{ClientTls, JoinToken};
use punctual_proto::MESSAGE_BYTES_MAX;
use punctual_proto::identity::WorkerSecret;

use crate::asker::Asker;
use crate::backoff::Backoff;
use crate::credentials::{Credentials, PlainHttp};
use crate::enrolment::{Enrolment, WorkerCertificate};
use crate::error::WorkerError;
use crate::held::UNACKED_LEN_MAX;
use crate::journal::AttemptLog;
use crate::run;
use crate::status::WorkerStatus;

/// Suits handlers that mostly wait for I/O. Use fewer slots for handlers that keep a core busy.
const SLOTS_DEFAULT: u32 = 64;

/// The largest number of slots of one worker. No server grants more credit.
pub const SLOTS_MAX: u32 = 65_536;

/// The bytes that one held attempt takes in a hello.
const HELD_BYTES: usize = 22;
const _: () = assert!(
    (SLOTS_MAX as usize + UNACKED_LEN_MAX) * HELD_BYTES < MESSAGE_BYTES_MAX,
    "a hello lists all that is held, in one message"
);

/// Enough that a server which stops leaves its workers busy, and few enough that a server of a large cluster has a fraction
/// of all workers.
pub const SERVERS_MAX_DEFAULT: u32 = 5;

const DRAIN_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);
const CANCEL_GRACE_DEFAULT: Duration = Duration::from_secs(5);

/// A worker that has not started yet.
pub struct Worker {
    pub(crate) servers: Vec<String>,
    pub(crate) servers_max: u32,
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
    pub(crate) enrolment: Option<Enrolment>,
    pub(crate) certificate: Option<WorkerCertificate>,
    handlers: Handlers,
    prober: Prober,
    sending: Sending,
}

impl Worker {
    /// Works for the server at `url`, such as `http://127.0.0.1:8020`, and for all servers of its cluster.
    pub fn connect(url: impl Into<String>) -> Self {
        Self::connect_any([url])
    }

    /// Works for the servers at these addresses, and for all servers of their cluster.
    pub fn connect_any(urls: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            servers: urls.into_iter().map(Into::into).collect(),
            servers_max: SERVERS_MAX_DEFAULT,
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
            enrolment: None,
            certificate: None,
            handlers: Handlers::default(),
            prober: Prober::harmless(),
            sending: Sending::default(),
        }
    }

    /// Adds the address of a server. One server that can be reached is enough to discover the others. The slots are
    /// divided among the servers that it is connected to and move to where jobs wait.
    #[must_use]
    pub fn server(mut self, url: impl Into<String>) -> Self {
        self.servers.push(url.into());
        self
    }

    /// How many servers the worker connects to, of those that there are (default: 5; 0 for all). It also connects to others
    /// for as long as they have jobs that no worker of theirs can run.
    #[must_use]
    pub fn servers_max(mut self, count: u32) -> Self {
        self.servers_max = count;
        self
    }

    /// Sets the source of the access token: `token` is called with the address of a server for each connection to it. A
    /// worker that runs as the server's own user on the same machine needs no token.
    #[must_use]
    pub fn token(mut self, token: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        self.credentials.token = Arc::new(token);
        self
    }

    /// Sets a check of servers: `reason` is called with each address before and after the worker connects to it, and returns
    /// why the worker must not use it. A worker runs what it is sent, so it must not accept work from another program
    /// that listens at the address while the server is down.
    #[must_use]
    pub fn distrust(mut self, reason: impl Fn(SocketAddr) -> Option<String> + Send + Sync + 'static) -> Self {
        self.credentials.distrust = Arc::new(reason);
        self
    }

    /// Sets whom to trust over TLS: `source` is called for each connection, so that renewed files count (default: the authorities
    /// of the system).
    #[must_use]
    pub fn tls(mut self, source: impl Fn() -> Result<ClientTls, String> + Send + Sync + 'static) -> Self {
        self.credentials.tls = Arc::new(source);
        self
    }

    /// Whether to connect to other machines without TLS (default: no).
    #[must_use]
    pub fn plain_http(mut self, plain_http: PlainHttp) -> Self {
        self.credentials.plain_http = plain_http;
        self
    }

    /// For a worker on another host than the servers: it joins the cluster with a token that an administrator made, and keeps
    /// its key and certificate in this folder, which it makes. What it may do is what the token says. The token is used once;
    /// later starts need the folder alone.
    #[must_use]
    pub fn join(mut self, folder: impl Into<PathBuf>, token: Option<JoinToken>) -> Self {
        self.enrolment = Some(Enrolment { folder: folder.into(), token, queues: Vec::new() });
        self
    }

    /// Gets the certificate that [`Self::join`] asks for, if the worker does not have it yet: waits until a server can be
    /// reached, and fails if the servers refuse the token. A run does this by itself; a caller that has to know the authorities
    /// of the cluster before calls it first. Answers their certificates as PEM, or `None` for a worker that does not join.
    pub async fn enrol(&mut self) -> Result<Option<String>, WorkerError> {
        if let Some(enrolment) = self.enrolment.take() {
            let name = self.name.clone().unwrap_or_else(run::host_name);
            let servers: Vec<String> = self.servers.iter().map(|url| url.trim_end_matches('/').to_owned()).collect();
            let enrolment = Enrolment { queues: self.queues.clone(), ..enrolment };
            let certificate = enrolment.open(&servers, &name, Backoff::new(system_random()?)).await?;
            let tls = certificate.tls();
            self.credentials.tls = Arc::new(move || Ok(tls.clone()));
            // The certificate says who the worker is; a token of somebody else must not.
            self.credentials.token = Arc::new(|_| None);
            self.certificate = Some(certificate);
        }
        Ok(self.certificate.as_ref().map(WorkerCertificate::authorities_pem))
    }

    /// The display name of the worker (default: the host name).
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// How many attempts run at the same time (default: 64).
    #[must_use]
    pub fn slots(mut self, slots: u32) -> Self {
        self.slots = slots;
        self
    }

    /// Adds a queue to serve. A worker without any serves `default`.
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

    /// Adds a label. Tasks that require it may run on this worker.
    #[must_use]
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// Runs `handler` for tasks of kind `handler` with this name. Its return value becomes the job's output; an error
    /// fails the attempt.
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

    /// Configures what the standard executors may call, and with which keys (default: only the public internet).
    #[must_use]
    pub fn sending(mut self, sending: Sending) -> Self {
        // Kept as well, so that it does not matter which of the two is said first.
        for executor in sending.executors() {
            self.executors.add(executor);
        }
        self.sending = sending;
        self
    }

    /// Allows probes all their effects: they append to any file that the worker may write, and kill the worker. Use it
    /// only to test Punctual itself, where everyone who may submit a job is trusted.
    #[must_use]
    pub fn probe_effects(mut self) -> Self {
        // Kept as well, so that it does not matter which of the two is said first.
        self.prober = Prober::with_effects();
        let prober = self.prober;
        self.executor(prober)
    }

    /// Keeps outcomes in this folder while no server can be reached, so that they survive a crash of the worker.
    /// Several workers may share a folder. Without a folder, outcomes are kept in memory only.
    #[must_use]
    pub fn spool_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.spool_dir = Some(dir.into());
        self
    }

    /// How long a worker that shuts down waits for its running attempts (default: 30 s).
    #[must_use]
    pub fn drain_timeout(mut self, limit: Duration) -> Self {
        self.drain_timeout = limit;
        self
    }

    /// How long a cancelled handler may take to return before it is dropped (default: 5 s).
    #[must_use]
    pub fn cancel_grace(mut self, limit: Duration) -> Self {
        self.cancel_grace = limit;
        self
    }

    /// Which attempts are logged at level info (default: up to 100 lines a second).
    #[must_use]
    pub fn log_attempts(mut self, which: AttemptLog) -> Self {
        self.attempt_log = which;
        self
    }

    /// A handle that shows what the worker does, before and while it runs.
    pub fn status(&self) -> WorkerStatus {
        self.status.clone()
    }

    /// The port through which an executor finds the files of its attempts. It answers once the worker runs.
    pub fn downloads(&self) -> Arc<dyn Downloads> {
        Arc::new(self.asker.clone())
    }

    /// The port through which an executor admits agents for its attempts. It answers once the worker runs.
    pub fn admissions(&self) -> Arc<dyn Admissions> {
        Arc::new(self.asker.clone())
    }

    /// Runs the worker until the process ends.
    pub async fn run(self) -> Result<(), WorkerError> {
        self.run_until(std::future::pending()).await
    }

    /// Runs the worker until `shutdown` completes. Then it takes no more work, finishes its attempts, and returns.
    pub async fn run_until(mut self, shutdown: impl Future<Output = ()>) -> Result<(), WorkerError> {
        if !self.handlers.is_empty() {
            self.executors.add(Arc::new(std::mem::take(&mut self.handlers)));
        }
        // One with an enrolment serves all queues that it may.
        if self.queues.is_empty() && self.enrolment.is_none() && self.certificate.is_none() {
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
        tokio::pin!(shutdown);
        tokio::select! {
            enrolled = self.enrol() => drop(enrolled?),
            () = &mut shutdown => return Ok(()),
        }
        let secret = system_secret()?;
        let id = secret.worker_id(clock::now());
        let seed = system_random()?;
        run::run(self, Identity { id, secret }, seed, shutdown).await
    }
}

/// The id of a worker and the secret that proves it.
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
