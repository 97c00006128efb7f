//! Every use case, once: what a person or a program can do with Punctual.
//!
//! REST, gRPC, the dashboard and the command line parse, call one method here, and
//! map the answer. Input is checked here and nowhere else.

mod access;
mod agents;
mod artifacts;
mod attempt_tokens;
mod audit;
mod authority;
mod backfills;
mod batches;
mod cluster;
mod cluster_keys;
mod cursor;
mod cut;
mod data_keys;
mod definition;
mod elf;
mod enrolments;
mod error;
mod explain;
mod facts;
mod faults;
mod forecast;
mod grants;
mod hints;
mod identities;
mod jobs;
mod known_workers;
mod list;
pub mod logs;
mod namespaces;
mod nodes;
mod notify;
pub mod parameters;
mod peer_key;
mod peers;
mod placement;
mod precondition;
mod principal;
mod queues;
mod quotas;
pub mod rates;
mod reach;
mod ready;
mod recheck;
mod replays;
mod requesters;
mod route;
mod schedules;
mod seal;
mod sealing;
mod secrets;
mod servers;
mod shard_workers;
mod submit;
mod submitted;
mod task_rights;
mod tasks;
mod title;
mod validate;
mod wait;
mod watch;
mod worker_requests;
mod workers;
mod workflows;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64};

use punctual_blobs::Blobs;
use punctual_core::size::ByteSize;
use punctual_core::{ArtifactId, ScheduleId, Span, Timestamp};
use punctual_engine::{Clock, Engine, SCHEDULER};
use punctual_store::Store;

pub use access::{AccessToken, SocketUser};
pub use agents::{Admission, Claims, Newcomer};
pub use artifacts::{Download, Sent, UPLOAD_WITHIN};
pub use attempt_tokens::{ATTEMPT_TOKEN_BYTES, AttemptTokens};
pub use audit::{AuditEvent, AuditFault, AuditVerified, AuditVerifier};
pub use authority::{AUTHORITY_SETTLES, AuthorityError, KnownAuthorities, OVERLAP_DEFAULT, OVERLAP_MAX, OVERLAP_MIN};
pub use backfills::{AbortedJobs, BackfillAdvance, Backfilling};
pub use batches::BatchKeeper;
pub use cluster_keys::{ClusterKeys, KeySet, OpenedSecrets, SECRET_OVERLAP_DEFAULT};
pub use data_keys::VaultKeys;
pub use enrolments::{CERTIFICATE_LIFETIME, IssuedCertificate, JoiningWorker};
pub use error::AppError;
pub use faults::{Checked, Faults};
pub use identities::{BegunLogin, DevicePolled, FinishedLogin, GroupRules, OpenIdParts};
pub use jobs::WaitFor;
pub use known_workers::Parting;
pub use logs::{AttemptNumbers, LinesView, LogSize, LogView};
pub use namespaces::Namespace;
pub use notify::{PutRule, Reports, Round};
pub use peer_key::{BodyDigest, PEER_HEADER, Question};
pub use peers::{Heard, PeerChanges, PeerError, Peers, Pulse, WorkersThere};
pub use precondition::Precondition;
pub use principal::{By, ChangeNotes, Permission, Principal, PrincipalKind, Transport, permission};
pub use punctual_openid::Answer as ProviderAnswer;
pub use punctual_store::Throttle;
pub use queues::GivenPolicies;
pub use replays::{Replays, StaleQuestion};
pub use schedules::{Put, RequestZone};
pub use seal::{RootKey, RootKeySource, RootKeys, UnlockError, Unlocked, unlock};
pub use sealing::{Entropy, NoRandomness};
pub use secrets::{AttemptSecrets, VaultParts};
pub use submit::{KeyedRequest, SubmittedAnswer};
pub use tasks::Defined;
pub use validate::check_mail_to;
pub use watch::Changes;
pub use worker_requests::{InvitedWorkers, POOLS_ASKED_MAX, WORKERS_ASKED_MAX, WorkerRequest};
pub use workers::{CREDIT_MAX, LOG_BYTES_MAX, LOG_BYTES_MIN, Peer, PeerList, WorkerHello};
pub use workflows::Conductor;

use crate::agents::{Agents, SharedLeases};
use crate::artifacts::Handling;
use crate::audit::AuditLog;
use crate::cluster::Cluster;
use crate::identities::Identities;
use crate::ready::Readiness;
use crate::secrets::Vault;
use crate::tasks::NameCache;
use crate::watch::Watching;

pub type Result<T> = std::result::Result<T, AppError>;

/// Where randomness comes from. The real one enters where the binary builds the app.
pub type Random = Arc<dyn Fn() -> u64 + Send + Sync>;

#[derive(Clone)]
pub struct App(Arc<Inner>);

struct Inner {
    store: Arc<dyn Store>,
    engine: Engine,
    cluster: Cluster,
    peers: Arc<dyn Peers>,
    keys: ClusterKeys,
    /// Taken while the keys are replaced.
    key_changes: tokio::sync::Mutex<()>,
    /// When the store was asked last which secrets count, in microseconds.
    keys_read_at: AtomicI64,
    /// Questions of peers that were answered.
    replays: replays::Replays,
    /// Workers on other hosts.
    enrolments: enrolments::EnrolmentTable,
    enrolments_recheck: recheck::Recheck,
    namespaces: namespaces::NamespaceTable,
    quotas: quotas::QuotaTable,
    log_extents: quotas::LogExtents,
    own_jobs: namespaces::OwnJobs,
    identities: Arc<Identities>,
    identities_recheck: recheck::Recheck,
    audit: AuditLog,
    vault: Vault,
    root_keys: Arc<dyn RootKeySource>,
    agents: Agents,
    leases: SharedLeases,
    clock: Clock,
    random: Random,
    names: NameCache,
    requesters: requesters::RequesterNumbers,
    /// Of schedules and programs, for titles.
    schedule_names: title::Names<ScheduleId>,
    programs: title::Names<ArtifactId>,
    workers_seen: placement::Seen,
    worker_requests: worker_requests::WorkerRequests,
    known_workers: known_workers::KnownWorkers,
    blobs: Blobs,
    handling: Handling,
    watching: Watching,
    readiness: Readiness,
    submitted: AtomicU64,
    /// One forecast at a time: each takes a core for a while.
    forecasts: tokio::sync::Semaphore,
    /// A few looks at what is overdue at a time: each may read thousands of rows.
    overdue_looks: tokio::sync::Semaphore,
    /// Somebody made or aborted a backfill at this server.
    backfill_requested: Arc<tokio::sync::Notify>,
    shard_turn: AtomicU64,
    started_at: Timestamp,
    settings: Settings,
    /// The servers that workers are told of.
    announced: tokio::sync::watch::Sender<Arc<[Peer]>>,
}

#[derive(Debug, Clone)]
pub struct Settings {
    /// Workers are told when they connect.
    pub heartbeat: Span,
    pub worker_dead_after: Span,
    /// What people start to have one more worker, or one that can do more.
    pub worker_program: WorkerProgram,
    /// A server that was silent for this long is not asked.
    pub lease_ttl: Span,
    pub roles: Roles,
    /// The largest file that may be uploaded.
    pub artifact_max: ByteSize,
    /// Artifacts that no task has needed for this long are removed.
    pub retention: Span,
    /// Lines of the audit log are kept for this long.
    pub audit_retention: Span,
    /// Where people reach the servers: links in notifications begin with it.
    pub public_url: String,
    /// A planned time that no server has handled for this long was missed; schedules may say otherwise.
    pub missed_after: Span,
    /// What is kept of the log of one attempt; workers are told.
    pub log_limit: ByteSize,
    /// How many requests a second each key, person and worker may send. 0 is no limit.
    pub request_rate: u32,
    pub task_limits: TaskLimits,
    /// Where the access token is, for the errors of those who lack it.
    pub token_file: Option<PathBuf>,
}

/// What the definition of a task may ask for on this server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskLimits {
    pub retries_max: u16,
    pub timeout_max: Span,
}

impl Default for TaskLimits {
    fn default() -> Self {
        Self { retries_max: punctual_core::retry::RetryPolicy::MAX_MAX, timeout_max: Span::from_secs(30 * 86_400) }
    }
}

/// How this installation's workers are started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerProgram {
    /// `punctual worker`, beside the servers.
    Worker,
    /// `punctual dev`, which is the server and the worker.
    Dev,
}

/// From the moment at which a planned time was missed, until its owner has said so: others may have to take the shard over
/// first.
const DECISION_MARGIN: Span = Span::from_secs(60);
/// However soon a time is missed.
const DECIDED_WITHIN_MIN: Span = Span::from_secs(120);

impl Settings {
    /// A planned time without a verdict for this long has nobody who decides about it. Before, it may still run.
    fn decided_within(&self) -> Span {
        decided_within(self.missed_after)
    }

    /// [`Self::decided_within`] of a schedule, which may give up its planned times later than servers do.
    fn decided_within_of(&self, schedule: Option<Span>) -> Span {
        decided_within(schedule.map_or(self.missed_after, |own| own.max(self.missed_after)))
    }
}

fn decided_within(missed_after: Span) -> Span {
    let missed = Timestamp::EPOCH + missed_after + DECISION_MARGIN;
    missed.since(Timestamp::EPOCH).max(DECIDED_WITHIN_MIN)
}

/// What a server does. A cluster may split the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Roles {
    /// Takes requests.
    pub api: bool,
    /// Owns shards, and takes workers.
    pub scheduler: bool,
}

impl Roles {
    pub fn names(self) -> Vec<String> {
        let names = [("api", self.api), (SCHEDULER, self.scheduler)];
        names.into_iter().filter(|(_, has)| *has).map(|(name, _)| name.to_owned()).collect()
    }
}

/// What an app is made of.
pub struct Parts {
    pub store: Arc<dyn Store>,
    pub engine: Engine,
    /// The store's, as the engine reads it.
    pub clock: Clock,
    pub random: Random,
    pub peers: Arc<dyn Peers>,
    /// What is derived from the cluster's secret.
    pub keys: ClusterKeys,
    /// What secrets are sealed with.
    pub vault: VaultParts,
    /// Where uploaded files are.
    pub blobs: Blobs,
    pub settings: Settings,
}

impl App {
    /// Starts nothing: what happens by itself is in the crate `duties`.
    pub fn new(parts: Parts) -> Self {
        let Parts { store, engine, clock, random, peers, keys, vault, blobs, settings } = parts;
        let (signing, other) = keys.now().url_keys();
        blobs.use_url_keys(signing, other);
        let VaultParts { key: vault_key, entropy, root_keys } = vault;
        let inner = Arc::new(Inner {
            cluster: Cluster::new(engine.clone(), settings.lease_ttl),
            store,
            engine,
            peers,
            identities: Arc::new(Identities::new(entropy.clone())),
            identities_recheck: recheck::Recheck::default(),
            audit: AuditLog::new(),
            vault: Vault::new(vault_key, entropy),
            root_keys,
            agents: Agents::default(),
            leases: SharedLeases::default(),
            keys,
            key_changes: tokio::sync::Mutex::default(),
            keys_read_at: AtomicI64::new(clock().as_micros()),
            replays: replays::Replays::default(),
            enrolments: enrolments::EnrolmentTable::default(),
            enrolments_recheck: recheck::Recheck::default(),
            namespaces: namespaces::NamespaceTable::default(),
            quotas: quotas::QuotaTable::default(),
            log_extents: quotas::LogExtents::default(),
            own_jobs: namespaces::OwnJobs::default(),
            started_at: clock(),
            clock,
            random,
            names: NameCache::default(),
            requesters: requesters::RequesterNumbers::default(),
            schedule_names: title::Names::default(),
            programs: title::Names::default(),
            workers_seen: placement::Seen::default(),
            worker_requests: worker_requests::WorkerRequests::default(),
            known_workers: known_workers::KnownWorkers::default(),
            blobs,
            handling: Handling::default(),
            watching: Watching::default(),
            readiness: Readiness::default(),
            submitted: AtomicU64::new(0),
            forecasts: tokio::sync::Semaphore::new(1),
            overdue_looks: tokio::sync::Semaphore::new(4),
            backfill_requested: Arc::default(),
            shard_turn: AtomicU64::new(0),
            settings,
            announced: tokio::sync::watch::Sender::new(Arc::default()),
        });
        Self(inner)
    }

    pub fn now(&self) -> Timestamp {
        (self.0.clock)()
    }

    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// What is derived from the cluster's secret.
    pub fn cluster_keys(&self) -> &ClusterKeys {
        &self.0.keys
    }

    /// Whether a question whose proof is valid is fresh. It is fresh once.
    pub fn is_fresh(&self, question: Question) -> std::result::Result<(), StaleQuestion> {
        self.0.replays.check(question, self.now())
    }

    /// What proves that an attempt was assigned to whoever speaks about it.
    pub fn attempt_tokens(&self) -> Arc<AttemptTokens> {
        self.0.keys.attempt_tokens()
    }

    pub fn random(&self) -> u64 {
        (self.0.random)()
    }
}
