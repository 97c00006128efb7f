//! The port in plain memory: sorted maps behind one lock. Slow where that is
//! simpler, deterministic, and durable in the sense that the simulator gives the
//! word: the model outlives the servers that use it.
//!
//! Every method of the port has a synchronous twin named `…_now`, for tests that
//! run without async.

mod apply;
mod archive;
mod artifacts;
mod audit;
mod authorities;
mod backfills;
mod batches;
mod cluster_secret;
mod decide;
mod enrolments;
mod faults;
mod identities;
mod jobs;
mod leases;
mod logs;
mod members;
mod namespaces;
mod notices;
mod port;
mod queues;
mod quotas;
mod reads;
mod requesters;
mod running_places;
mod schedules;
mod secrets;
mod table;
mod tasks;
mod workers;
mod workflows;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use punctual_core::attempt::AttemptRecord;
use punctual_core::batch::MemberRef;
use punctual_core::give_backs::GiveBacks;
use punctual_core::notice::Notice;
use punctual_core::running_places::Account;
use punctual_core::schedule::{OccurrenceRow, ScheduleChange, ScheduleRow, Source, StoredCalendar};
use punctual_core::shard::write::{Epoch, Start, StartsId};
use punctual_core::task::{Priority, Task};
use punctual_core::workflow::NodeRef;
use punctual_core::{
    ArtifactId, AttemptNo, BackfillId, BatchId, Counters, EnrolmentId, JobId, JobKey, JobState, JoinTokenId,
    NamespaceId, RunId, ScheduleId, ServerId, ShardId, Span, TaskId, Timestamp, WorkerId,
};
use punctual_store::{
    Ailing, AuditEnds, AuditRow, AuthorityRow, BackfillRow, BackfillRun, BatchRow, ClusterSecret, ClusterSecretState,
    DeliveryRow, DutyLease, Enrolment, IdempotencyKey, IdempotentAnswer, IdentityId, JobAction, JoinTokenRow, KeyRow,
    NamespaceRow, QueueRow, Requester, RequesterId, RerunRecord, Result, RuleRow, RunRow, SealedKey, SecretRow,
    SeenMember, SeenWorker, SessionRow, StoreError, UserRow, WorkflowRow,
};

use artifacts::StoredArtifact;
use table::Table;
pub use workflows::JobOfRun;

/// A handle; clones share one store.
#[derive(Clone)]
pub struct ModelStore {
    state: Arc<Mutex<State>>,
    shard_count: u16,
    /// What happens right before the next read of a log.
    before_log: Arc<Mutex<Option<Surprise>>>,
    /// How many times pieces of logs are refused, as if the store were away.
    refusals: Arc<AtomicUsize>,
    faults: Arc<Mutex<faults::Faults>>,
}

type Surprise = Box<dyn FnOnce() + Send>;

/// Everything the model holds; a clone of it is a snapshot.
#[derive(Debug, Clone)]
pub struct State {
    now: Timestamp,
    /// How many times it went back in time.
    generation: u64,
    whole_since: Epoch,
    shards: Table<ShardId, Shard>,
    artifacts: Table<ArtifactId, StoredArtifact>,
    tasks: Table<TaskId, StoredTask>,
    hot: Table<(ShardId, JobKey), Hot>,
    /// Where each hot job is.
    due_at: Table<JobId, Timestamp>,
    finished: Table<JobId, Finished>,
    attempts: Table<(JobId, AttemptNo), AttemptRecord>,
    starts: Table<StartsId, (ServerId, Vec<Start>)>,
    cancel_requests: Table<JobId, ()>,
    stale: Table<(JobId, AttemptNo, WorkerId), (Timestamp, String)>,
    /// Numbered, since two may have the same time.
    reruns: Table<(JobId, u64), RerunRecord>,
    requesters: Table<RequesterId, Requester>,
    job_actions: Table<(JobId, Timestamp), JobAction>,
    logs: Table<(JobId, AttemptNo, u64), Bytes>,
    /// Left behind when the chunk goes: none is read without it.
    log_marks: Table<(JobId, AttemptNo, u64), Bytes>,
    dropped_logs: Table<String, ()>,
    answers: Table<IdempotencyKey, IdempotentAnswer>,
    schedules: Table<ScheduleId, ScheduleRow>,
    schedule_names: Table<(NamespaceId, String), ScheduleId>,
    /// Numbered, since two may have the same time.
    schedule_changes: Table<(ScheduleId, u64), ScheduleChange>,
    occurrences: Table<(ScheduleId, Timestamp), OccurrenceRow>,
    calendars: Table<(NamespaceId, String), StoredCalendar>,
    /// The largest that any calendar ever had, also one that is gone.
    last_revision: Table<(), u32>,
    /// Those that wait, by their numbers.
    notices: Table<i64, Notice>,
    /// The largest that any notice ever had, also one that is gone.
    last_notice: Table<(), i64>,
    rules: Table<(NamespaceId, String), RuleRow>,
    /// Each with the namespace that its task had when it was put.
    ailing: Table<TaskId, (NamespaceId, Ailing)>,
    deliveries: Table<(Timestamp, JobId), DeliveryRow>,
    backfills: Table<BackfillId, BackfillRow>,
    backfill_runs: Table<(BackfillId, Timestamp), BackfillRun>,
    workflows: Table<(NamespaceId, String, u32), WorkflowRow>,
    batches: Table<BatchId, (BatchRow, Option<Timestamp>)>,
    /// Each with when it is to be looked at.
    runs: Table<RunId, (RunRow, Option<Timestamp>)>,
    run_outputs: Table<(RunId, u16, u32), Bytes>,
    members: Table<ServerId, SeenMember>,
    authorities: Table<u32, AuthorityRow>,
    workers: Table<WorkerId, SeenWorker>,
    join_tokens: Table<JoinTokenId, JoinTokenRow>,
    enrolments: Table<EnrolmentId, Enrolment>,
    enrolment_revision: Table<(), u64>,
    duties: Table<String, DutyLease>,
    /// As versions before root keys stored it.
    plain_secret: Table<(), ClusterSecret>,
    /// Each with the number of its last change.
    keys: Table<IdentityId, (u64, KeyRow)>,
    users: Table<IdentityId, (u64, UserRow)>,
    sessions: Table<IdentityId, (u64, SessionRow)>,
    identities_revision: Table<(), u64>,
    audit: Table<u64, AuditRow>,
    audit_ends: Table<(), AuditEnds>,
    sealed_keys: Table<String, SealedKey>,
    cluster_secret: Table<(), ClusterSecretState>,
    secrets: Table<(NamespaceId, String), SecretRow>,
    namespaces: Table<NamespaceId, NamespaceRow>,
    /// The revision of all changes, and the last number that was given.
    namespace_counter: Table<(), (u64, u32)>,
    /// Until when each has paid for its submissions.
    paid_until: Table<NamespaceId, Timestamp>,
    /// The number of each server's last report, and its shards.
    running_servers: Table<ServerId, (u64, Vec<(ShardId, Epoch)>)>,
    running_places: Table<(NamespaceId, ServerId), Account>,
    queues: Table<(NamespaceId, String), QueueRow>,
    queues_revision: Table<(), u64>,
}

#[derive(Debug, Clone, Default)]
struct Shard {
    epoch: Epoch,
    owner: Option<ServerId>,
    lease_until: Timestamp,
    /// All planned times up to here have their verdicts.
    watermark: Timestamp,
}

#[derive(Debug, Clone)]
struct StoredTask {
    task: Task,
    deleted: bool,
    digest: Option<[u8; 32]>,
    used_until: Timestamp,
}

#[derive(Debug, Clone)]
struct Hot {
    task: TaskId,
    priority: Priority,
    counters: Counters,
    submitted_at: Timestamp,
    tracing_id: Option<String>,
    source: Option<Source>,
    requester: Option<RequesterId>,
    node: Option<NodeRef>,
    member: Option<MemberRef>,
    give_backs: Option<Box<GiveBacks>>,
    input: Option<Bytes>,
}

#[derive(Debug, Clone)]
struct Finished {
    hot: Hot,
    state: JobState,
    finished_at: Timestamp,
    due_at: Timestamp,
    reason: Option<String>,
    output: Option<Bytes>,
    attempt: Option<AttemptRecord>,
}

impl ModelStore {
    pub fn new(shard_count: u16, now: Timestamp) -> Self {
        let mut shards = Table::default();
        for shard in 0..shard_count {
            shards.put(ShardId(shard), Shard::default());
        }
        shards.keep();
        let mut state = State {
            now,
            generation: 0,
            whole_since: Epoch::default(),
            shards,
            artifacts: Table::default(),
            tasks: Table::default(),
            hot: Table::default(),
            due_at: Table::default(),
            finished: Table::default(),
            attempts: Table::default(),
            starts: Table::default(),
            cancel_requests: Table::default(),
            stale: Table::default(),
            reruns: Table::default(),
            requesters: Table::default(),
            job_actions: Table::default(),
            logs: Table::default(),
            log_marks: Table::default(),
            dropped_logs: Table::default(),
            answers: Table::default(),
            schedules: Table::default(),
            schedule_names: Table::default(),
            schedule_changes: Table::default(),
            occurrences: Table::default(),
            calendars: Table::default(),
            last_revision: Table::default(),
            notices: Table::default(),
            last_notice: Table::default(),
            rules: Table::default(),
            ailing: Table::default(),
            deliveries: Table::default(),
            backfills: Table::default(),
            backfill_runs: Table::default(),
            workflows: Table::default(),
            batches: Table::default(),
            runs: Table::default(),
            run_outputs: Table::default(),
            members: Table::default(),
            authorities: Table::default(),
            workers: Table::default(),
            join_tokens: Table::default(),
            enrolments: Table::default(),
            enrolment_revision: Table::default(),
            duties: Table::default(),
            plain_secret: Table::default(),
            keys: Table::default(),
            users: Table::default(),
            sessions: Table::default(),
            identities_revision: Table::default(),
            audit: Table::default(),
            audit_ends: Table::default(),
            sealed_keys: Table::default(),
            cluster_secret: Table::default(),
            secrets: Table::default(),
            namespaces: Table::default(),
            namespace_counter: Table::default(),
            paid_until: Table::default(),
            running_servers: Table::default(),
            running_places: Table::default(),
            queues: Table::default(),
            queues_revision: Table::default(),
        };
        state.begin_namespaces();
        Self {
            state: Arc::new(Mutex::new(state)),
            shard_count,
            before_log: Arc::default(),
            refusals: Arc::default(),
            faults: Arc::default(),
        }
    }

    /// Does this once, right before the pieces of a log are read next: what a reader has to expect.
    pub fn before_log(&self, surprise: impl FnOnce() + Send + 'static) {
        *self.before_log.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(surprise));
    }

    /// Takes pieces of logs only after it was asked so many times.
    pub fn refuse_logs(&self, times: usize) {
        self.refusals.store(times, Ordering::Relaxed);
    }

    fn takes_logs(&self) -> Result<()> {
        let left = self.refusals.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        match left {
            Ok(_) => Err(StoreError::Unavailable("as the test wants it".to_owned())),
            Err(_) => Ok(()),
        }
    }

    fn surprise(&self) {
        let surprise = self.before_log.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(surprise) = surprise {
            surprise();
        }
    }

    pub fn set_now(&self, now: Timestamp) {
        self.state().now = now;
    }

    pub fn advance(&self, span: Span) {
        let mut state = self.state();
        state.now = state.now + span;
    }

    pub fn snapshot(&self) -> State {
        self.state().clone()
    }

    pub fn restore(&self, snapshot: State) {
        *self.state() = snapshot;
    }

    /// The database goes back to how it was, as after the failover to a standby that lags: the clock stays, and all epochs
    /// rise above any that was given.
    pub fn go_back_to(&self, snapshot: State) {
        let mut state = self.state();
        let (now, generation) = (state.now, state.generation + 1);
        *state = State { now, generation, whole_since: Epoch(generation << 20), ..snapshot };
        let shards: Vec<_> = state.shards.iter().map(|(id, shard)| (*id, shard.clone())).collect();
        for (id, shard) in shards {
            let epoch = Epoch((shard.epoch.0 + 1).max(generation << 20));
            state.shards.put(id, Shard { epoch, ..shard });
        }
        state.shards.keep();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A test that panicked is about to fail; others may still look.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// What `change` does is kept if it returns `Ok`, and undone if not.
    fn all_or_nothing<T>(&mut self, change: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let result = change(self);
        macro_rules! end {
            ($($table:ident),*) => {
                $(if result.is_ok() { self.$table.keep() } else { self.$table.go_back() })*
            };
        }
        end!(
            shards,
            artifacts,
            tasks,
            hot,
            due_at,
            finished,
            attempts,
            starts,
            cancel_requests,
            stale,
            reruns,
            requesters,
            job_actions,
            logs,
            dropped_logs,
            answers,
            schedules,
            schedule_names,
            schedule_changes,
            occurrences,
            calendars,
            last_revision,
            notices,
            last_notice,
            rules,
            ailing,
            deliveries,
            backfills,
            backfill_runs,
            workflows,
            batches,
            runs,
            run_outputs,
            members,
            authorities,
            workers,
            join_tokens,
            enrolments,
            enrolment_revision,
            duties,
            plain_secret,
            sealed_keys,
            cluster_secret,
            secrets,
            namespaces,
            namespace_counter,
            paid_until,
            running_servers,
            running_places,
            queues,
            queues_revision,
            keys,
            users,
            sessions,
            identities_revision,
            audit,
            audit_ends
        );
        result
    }
}

fn inconsistent(text: impl Into<String>) -> StoreError {
    StoreError::Inconsistent(text.into())
}
