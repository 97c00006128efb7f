//! The model store behind weather: its clock runs, it can be away, and single calls can be
//! held up.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use async_trait::async_trait;
use bytes::Bytes;
use punctual_core::attempt::ArchivedLog;
use punctual_core::batch::{BatchEvent, MemberRef};
use punctual_core::running_places::RunningReport;
use punctual_core::schedule::{By, OccurrenceRow, ScheduleChange, ScheduleRow, StoredCalendar};
use punctual_core::shard::event::Load;
use punctual_core::shard::write::{Epoch, SharedBatch};
use punctual_core::task::Task;
use punctual_core::workflow::{NodeRef, RunEvent};
use punctual_core::{
    ArtifactId, AttemptNo, BackfillId, BatchId, EnrolmentId, JobId, JobKey, JoinTokenId, NamespaceId, NamespaceName,
    RunId, ScheduleId, ServerId, ShardId, Span, TaskId, Timestamp, WorkerId,
};
use punctual_store::{
    Ailing, AllNamespaces, AllQueues, Applied, Archived, Archiving, Arrival, Artifact, ArtifactChange, Artifacts,
    Audit, AuditAppended, AuditBatch, AuditEnds, AuditPlace, AuditRow, Authorities, AuthorityRow, BackfillRow,
    BackfillRun, BackfillStep, Backfilled, Backfills, BatchChange, BatchFilter, BatchRow, Batches, CalendarDeletion,
    CalendarUpdate, ChunkMarks, ClusterSecret, ClusterSecretState, ClusterSecrets, Counted, CreatedArtifact,
    DeliveryRow, Dispatch, Dispatched, DueBatch, DueRun, DueWindow, DutyLease, Enrolment, EnrolmentChanges, Enrolments,
    Filter, FinishedJob, FoundRow, HotJob, IdempotencyKey, Identities, IdentityChanges, IdentityId, Interned,
    JobAction, JobPages, JobReads, JobRecord, JoinRequest, JoinTokenRow, Joined, KeptLog, KeyChange, KeyRow,
    LateOutcome, Lease, Leases, LoadPage, LoadedRow, LogArchive, LogChunk, LogPiece, Logs, Member, Members,
    NamespaceChange, NamespaceDeletion, Namespaces, NewArtifact, Notices, OccurrenceFilter, OpenStarts, Order, Owned,
    Page, Position, QueueChange, QueueRow, Queues, QuotaUse, Requester, RequesterId, Requesters, RerunRecord,
    ResealedAuthority, Result, Retention, RootKeyId, RuleChange, RuleDeletion, RuleRow, RunChange, RunFilter, RunRow,
    RunningPlaces, ScheduleFilter, Schedules, SealedKey, SecretChange, SecretRow, Secrets, SeenMember, SeenWorker,
    SeenWorkers, SessionChange, SessionRow, ShardSchedules, Spent, Stepped, Store, StoreError, Submission, Submit,
    Submitted, TaskChange, Tasks, Transitions, UserChange, UserRow, UserSessions, Uses, WaitingNotice, WholeLog,
    WorkflowRow, WorkflowStored, Workflows,
};
use punctual_store_tests::model::ModelStore;
use tokio::sync::watch;

pub(crate) const START: Timestamp = Timestamp::saturating_from_micros(1_800_000_000_000_000);

#[derive(Clone)]
pub(crate) struct Weather {
    pub(crate) model: ModelStore,
    pub(crate) begun: Instant,
    away: Arc<watch::Sender<bool>>,
    /// Calls that take effect and are not answered before this opens.
    held: Arc<Mutex<HashMap<&'static str, watch::Receiver<bool>>>>,
    reading: Arc<AtomicUsize>,
    pub(crate) reading_max: Arc<AtomicUsize>,
}

impl Weather {
    pub(crate) fn new(shards: u16) -> Self {
        Self {
            model: ModelStore::new(shards, START),
            begun: Instant::now(),
            away: Arc::new(watch::Sender::new(false)),
            held: Arc::default(),
            reading: Arc::default(),
            reading_max: Arc::default(),
        }
    }

    pub(crate) fn time(&self) -> Timestamp {
        START + Span::from_micros(i64::try_from(self.begun.elapsed().as_micros()).unwrap())
    }

    pub(crate) fn go_away(&self) {
        self.away.send_replace(true);
    }

    pub(crate) fn come_back(&self) {
        self.away.send_replace(false);
    }

    /// From now on this call takes effect and is not answered before true is sent.
    pub(crate) fn hold(&self, call: &'static str) -> watch::Sender<bool> {
        let (gate, opened) = watch::channel(false);
        self.held.lock().unwrap().insert(call, opened);
        gate
    }

    fn enter(&self) -> Result<()> {
        if *self.away.borrow() {
            return Err(StoreError::Unavailable("it is away".to_owned()));
        }
        self.model.set_now(self.time());
        Ok(())
    }

    async fn leave(&self, call: &'static str) {
        let gate = self.held.lock().unwrap().get(call).cloned();
        if let Some(mut gate) = gate {
            let _ = gate.wait_for(|is_open| *is_open).await;
        }
    }
}

#[async_trait]
impl Store for Weather {
    fn description(&self) -> String {
        "model, in weather".to_owned()
    }
    async fn probe(&self) -> Result<()> {
        self.enter()
    }
}

macro_rules! under_weather {
    ($($port:ident { $($name:ident($($arg:ident: $type:ty),*) -> $answer:ty;)* $({ $($more:tt)* })? })*) => {$(
        #[async_trait]
        impl $port for Weather {
            $(async fn $name(&self, $($arg: $type),*) -> Result<$answer> {
                self.enter()?;
                let answer = $port::$name(&self.model, $($arg),*).await;
                self.leave(stringify!($name)).await;
                answer
            })*
            $($($more)*)?
        }
    )*};
}

under_weather! {
    Artifacts {
        create_artifact(artifact: NewArtifact) -> CreatedArtifact;
        artifact(id: ArtifactId) -> Option<Artifact>;
        list_artifacts(namespace: NamespaceId, after: Option<ArtifactId>, limit: usize) -> Vec<Artifact>;
        pending_artifacts(after: Option<ArtifactId>, limit: usize) -> Vec<Artifact>;
        artifact_arrived(id: ArtifactId, at: Timestamp, machine: Option<String>) -> Arrival;
        refuse_artifact(id: ArtifactId, at: Timestamp, reason: String) -> ArtifactChange;
        delete_artifact(id: ArtifactId, unneeded_by: Vec<TaskId>) -> ArtifactChange;
        prune_artifacts(before: Timestamp, now: Timestamp, limit: usize) -> Vec<ArtifactId>;
    }
    Namespaces {
        create_namespace(name: NamespaceName, spec: String, by: By) -> NamespaceChange;
        update_namespace(id: NamespaceId, expected: u32, spec: String, by: By) -> NamespaceChange;
        delete_namespace(id: NamespaceId, expected: Option<u32>, by: By) -> NamespaceDeletion;
        namespaces() -> AllNamespaces;
        namespaces_revision() -> u64;
    }
    Tasks {
        create_task(task: Task) -> TaskChange;
        update_task(task: Task) -> TaskChange;
        delete_task(id: TaskId, expected: Option<u32>) -> TaskChange;
        intern_tasks(tasks: Vec<(Task, [u8; 32])>) -> Interned;
        tasks_by_id(ids: Vec<TaskId>) -> Vec<Task>;
        list_tasks(namespace: NamespaceId, after: Option<String>, limit: usize) -> Vec<Task>;
        {
            async fn task_by_name(&self, namespace: NamespaceId, name: &str) -> Result<Option<Task>> {
                self.enter()?;
                self.model.task_by_name(namespace, name).await
            }
        }
    }
    Backfills {
        add_backfill(row: BackfillRow) -> bool;
        backfill(id: BackfillId) -> Option<BackfillRow>;
        list_backfills(
            namespace: NamespaceId, schedule: Option<ScheduleId>, before: Option<BackfillId>, limit: usize
        ) -> Vec<BackfillRow>;
        running_backfills() -> Vec<BackfillRow>;
        step_backfill(step: BackfillStep) -> Stepped;
        open_runs(id: BackfillId, limit: usize) -> Vec<BackfillRun>;
        backfill_runs(id: BackfillId, after: Option<Timestamp>, limit: usize) -> Vec<BackfillRun>;
        backfilled(
            schedule: ScheduleId, from: Timestamp, until: Timestamp, limit: usize
        ) -> Vec<Backfilled>;
    }
    Workflows {
        put_workflow(row: WorkflowRow) -> WorkflowStored;
        workflow(namespace: NamespaceId, name: &str, version: Option<u32>) -> Option<WorkflowRow>;
        list_workflows(namespace: NamespaceId, after: Option<String>, limit: usize) -> Vec<WorkflowRow>;
        start_run(row: RunRow) -> RunChange;
        change_run(id: RunId, event: RunEvent, now: Timestamp) -> Option<RunChange>;
        run(id: RunId) -> Option<RunRow>;
        run_in(namespace: NamespaceId, id: RunId) -> Option<RunRow>;
        list_runs(filter: RunFilter) -> Vec<RunRow>;
        due_runs(now: Timestamp, after: Option<DueRun>, limit: usize) -> Vec<DueRun>;
        node_of_job(job: JobId) -> Option<NodeRef>;
    }
    Batches {
        change_batch(id: BatchId, event: BatchEvent, now: Timestamp) -> Option<BatchChange>;
        batch(id: BatchId) -> Option<BatchRow>;
        batch_in(namespace: NamespaceId, id: BatchId) -> Option<BatchRow>;
        list_batches(filter: BatchFilter) -> Vec<BatchRow>;
        due_batches(now: Timestamp, after: Option<DueBatch>, limit: usize) -> Vec<DueBatch>;
        member_of_job(job: JobId) -> Option<MemberRef>;
    }
    Notices {
        put_rule(row: RuleRow, expected: Option<u32>) -> RuleChange;
        rules(namespace: Option<NamespaceId>) -> Vec<RuleRow>;
        waiting_notices(limit: usize) -> Vec<WaitingNotice>;
        dispatch(dispatch: Dispatch) -> Dispatched;
        ailing_of(tasks: Vec<TaskId>) -> Vec<Ailing>;
        ailing(namespace: Option<NamespaceId>, limit: usize) -> Vec<Ailing>;
        deliveries(
            namespace: NamespaceId, rule: Option<String>, before: Option<(Timestamp, JobId)>, limit: usize
        ) -> Vec<DeliveryRow>;
        {
            async fn delete_rule(
                &self,
                namespace: NamespaceId,
                name: &str,
                expected: Option<u32>,
            ) -> Result<RuleDeletion> {
                self.enter()?;
                self.model.delete_rule(namespace, name, expected).await
            }
            async fn rule(&self, namespace: NamespaceId, name: &str) -> Result<Option<RuleRow>> {
                self.enter()?;
                self.model.rule(namespace, name).await
            }
        }
    }
    Schedules {
        shard_schedules(shard: ShardId) -> ShardSchedules;
        watermarks() -> Vec<(ShardId, Timestamp)>;
        load_schedules(shard: ShardId, after: Option<ScheduleId>, limit: usize) -> Vec<LoadedRow>;
        schedule(id: ScheduleId) -> Option<ScheduleRow>;
        schedule_ids(namespace: NamespaceId, names: Vec<String>) -> Vec<(String, ScheduleId)>;
        list_schedules(
            filter: ScheduleFilter, after: Option<String>, limit: usize
        ) -> (Vec<ScheduleRow>, Option<String>);
        schedules_of_task(task: TaskId, limit: usize) -> Vec<String>;
        schedule_changes(id: ScheduleId, limit: usize) -> Vec<ScheduleChange>;
        occurrences(
            schedule: ScheduleId, filter: OccurrenceFilter, after: Option<Timestamp>, order: Order, limit: usize
        ) -> (Vec<OccurrenceRow>, Option<Timestamp>);
        put_calendar(calendar: StoredCalendar, expected: Option<u32>) -> CalendarUpdate;
        calendars(namespace: Option<NamespaceId>) -> Vec<StoredCalendar>;
        calendars_revision() -> u32;
        schedules_with_calendars(
            names: Vec<(NamespaceId, String)>, after: Option<ScheduleId>, limit: usize
        ) -> Vec<LoadedRow>;
        {
            async fn delete_calendar(
                &self,
                namespace: NamespaceId,
                name: &str,
                expected: Option<u32>,
            ) -> Result<CalendarDeletion> {
                self.enter()?;
                self.model.delete_calendar(namespace, name, expected).await
            }
            async fn calendar(&self, namespace: NamespaceId, name: &str) -> Result<Option<StoredCalendar>> {
                self.enter()?;
                self.model.calendar(namespace, name).await
            }
        }
    }
    Submit {
        submit(submission: Submission) -> Submitted;
        idempotent_answer(key: IdempotencyKey, fingerprint: [u8; 32], now: Timestamp) -> Option<Submitted>;
    }
    Requesters {
        requester_id(requester: Requester) -> RequesterId;
        requesters(ids: Vec<RequesterId>) -> Vec<(RequesterId, Requester)>;
        keep_job_action(action: JobAction) -> ();
        job_actions(job: JobId) -> Vec<JobAction>;
    }
    JobReads {
        job(id: JobId) -> Option<JobRecord>;
        namespace_of_job(id: JobId) -> Option<NamespaceId>;
        reruns(id: JobId) -> Vec<RerunRecord>;
        late_outcomes(id: JobId, limit: usize) -> Vec<LateOutcome>;
        hot_jobs(keys: Vec<JobKey>) -> Vec<HotJob>;
        finished_jobs(ids: Vec<JobId>) -> Vec<FinishedJob>;
        list_jobs(filter: Filter, position: Position) -> JobPages;
        given_back(
            namespace: Option<NamespaceId>, after: Option<JobKey>, until: Timestamp, limit: usize
        ) -> Page<HotJob, JobKey>;
        list_due(window: DueWindow, limit: usize) -> Page<HotJob, JobKey>;
    }
    Leases {
        now() -> Timestamp;
        acquire(server: ServerId, ttl: Span, limit: usize) -> Vec<Owned>;
        take_over(server: ServerId, shards: Vec<ShardId>, ttl: Span) -> Vec<Owned>;
        renew(server: ServerId, ttl: Span) -> Vec<Owned>;
        release(server: ServerId) -> ();
        give_up(server: ServerId, shards: Vec<ShardId>) -> ();
        leases() -> Vec<Lease>;
        {
            fn shard_count(&self) -> u16 {
                self.model.shard_count()
            }
            fn generation(&self) -> u64 {
                self.model.generation()
            }
        }
    }
    Audit {
        audit_ends() -> AuditEnds;
        append_audit(batch: AuditBatch) -> AuditAppended;
        audit_rows(from: Option<u64>, order: Order, limit: usize) -> Vec<AuditRow>;
        trim_audit(base: AuditPlace) -> usize;
    }
    SeenWorkers {
        keep_workers(workers: Vec<SeenWorker>) -> ();
        workers_by_id(ids: Vec<WorkerId>) -> Vec<SeenWorker>;
        workers_since(since: Timestamp, limit: usize) -> Vec<SeenWorker>;
    }
    Enrolments {
        add_join_token(token: JoinTokenRow) -> bool;
        join_tokens() -> Vec<JoinTokenRow>;
        join_token(id: JoinTokenId) -> Option<JoinTokenRow>;
        revoke_join_token(id: JoinTokenId, at: Timestamp) -> bool;
        enrol(request: JoinRequest) -> Joined;
        renew_enrolment(id: EnrolmentId, now: Timestamp, expires_at: Timestamp) -> Option<Enrolment>;
        set_worker_namespaces(id: EnrolmentId, namespaces: Vec<String>) -> Option<Enrolment>;
        set_token_namespaces(id: JoinTokenId, namespaces: Vec<String>) -> Option<JoinTokenRow>;
        revoke_enrolment(id: EnrolmentId, at: Timestamp) -> bool;
        enrolments_changed(after: u64, limit: usize) -> EnrolmentChanges;
    }
    Members {
        beat(member: Member) -> ();
        members() -> Vec<SeenMember>;
        leave(server: ServerId) -> ();
        forget_members(before: Timestamp) -> usize;
        drop_duties(server: ServerId) -> ();
        duties() -> Vec<DutyLease>;
        {
            async fn hold_duty(&self, server: ServerId, duty: &str, ttl: Span) -> Result<Option<Epoch>> {
                self.enter()?;
                self.model.hold_duty(server, duty, ttl).await
            }
        }
    }
    Authorities {
        authorities() -> Vec<AuthorityRow>;
        add_authority(row: AuthorityRow, retire_others: Timestamp) -> bool;
    }
ClusterSecrets {
        cluster_secret() -> ClusterSecretState;
        sign_with_next_secret(known: u64, now: Timestamp) -> bool;
        retire_cluster_secret(known: u64, secret: SealedKey, authorities: Vec<ResealedAuthority>, now: Timestamp) -> bool;
        confirm_cluster_secret(server: ServerId, revision: u64, now: Timestamp) -> ();
        {
            async fn announce_cluster_secret(
                &self,
                known: u64,
                next: SealedKey,
                cluster: &str,
                overlap: Span,
                now: Timestamp,
            ) -> Result<bool> {
                self.enter()?;
                self.model.announce_cluster_secret(known, next, cluster, overlap, now).await
            }
        }
    }
    Secrets {
        plain_cluster_secret() -> Option<ClusterSecret>;
        sealed_keys() -> Vec<SealedKey>;
        keep_sealed_key(key: SealedKey) -> SealedKey;
        rewrap_keys(former: RootKeyId, keys: Vec<SealedKey>) -> bool;
        scrub_sealed_keys(done: Option<u64>) -> u64;
        put_secret(row: SecretRow) -> SecretChange;
        {
            async fn drop_sealed_key(&self, label: &str) -> Result<bool> {
                self.enter()?;
                self.model.drop_sealed_key(label).await
            }
            async fn delete_secret(&self, namespace: NamespaceId, name: &str) -> Result<bool> {
                self.enter()?;
                self.model.delete_secret(namespace, name).await
            }
            async fn secrets_by_name(&self, namespace: NamespaceId, names: Vec<String>) -> Result<Vec<SecretRow>> {
                self.enter()?;
                self.model.secrets_by_name(namespace, names).await
            }
            async fn secrets(&self, namespace: NamespaceId) -> Result<Vec<SecretRow>> {
                self.enter()?;
                self.model.secrets(namespace).await
            }
            async fn tasks_with_secret(
                &self,
                namespace: NamespaceId,
                name: &str,
                now: Timestamp,
                limit: usize,
            ) -> Result<Vec<String>> {
                self.enter()?;
                self.model.tasks_with_secret(namespace, name, now, limit).await
            }
            async fn secret_uses(&self, namespace: NamespaceId) -> Result<Vec<(String, u64)>> {
                self.enter()?;
                self.model.secret_uses(namespace).await
            }
        }
    }
    Transitions {
        apply(batch: SharedBatch) -> Applied;
        load(load: Load) -> LoadPage;
        find(id: JobId) -> FoundRow;
        inputs(keys: Vec<JobKey>) -> Vec<Option<Bytes>>;
        {
            async fn open_starts(&self, shard: ShardId) -> Result<OpenStarts> {
                self.enter()?;
                let reading = self.reading.fetch_add(1, Ordering::Relaxed) + 1;
                self.reading_max.fetch_max(reading, Ordering::Relaxed);
                // Everybody who reads at the same time gets to this point.
                for _ in 0..20 {
                    tokio::task::yield_now().await;
                }
                let open = self.model.open_starts(shard).await;
                self.reading.fetch_sub(1, Ordering::Relaxed);
                open
            }
        }
    }
    Queues {
        put_queue(row: QueueRow) -> QueueChange;
        queues() -> AllQueues;
        queues_revision() -> u64;
        queue_names(namespace: NamespaceId, after: &str, limit: usize) -> Vec<String>;
    }
    QuotaUse {
        used(namespace: NamespaceId, what: Counted, most: u64) -> u64;
        spend(namespace: NamespaceId, cost: Span, now: Timestamp) -> Spent;
    }
    RunningPlaces {
        exchange_places(
            server: ServerId, seq: u64, report: RunningReport, now: Timestamp
        ) -> Option<Vec<(NamespaceId, u64)>>;
        running_attempts(namespace: NamespaceId) -> u64;
    }
    Logs {
        append_logs(chunks: Vec<LogChunk>) -> ();
        read_log(job: JobId, attempt: AttemptNo, offset: u64, limit: usize) -> LogPiece;
        log_marks(job: JobId, attempt: AttemptNo, from: u64, to: u64) -> Vec<ChunkMarks>;
        log_end(job: JobId, attempt: AttemptNo) -> u64;
    }
    LogArchive {
        kept_logs(after: Option<(JobId, AttemptNo)>, limit: usize) -> Vec<KeptLog>;
        assemble_log(job: JobId, attempt: AttemptNo, base: Bytes, limit: usize) -> WholeLog;
        archive_logs(logs: Vec<Archiving>) -> Vec<Archived>;
        archived_log(job: JobId, attempt: AttemptNo) -> Option<ArchivedLog>;
        forget_pieces(job: JobId) -> ();
        dropped_logs(limit: usize) -> Vec<String>;
        forget_dropped_logs(paths: Vec<String>) -> ();
    }
    Identities {
        identities_revision() -> u64;
        identities_since(revision: u64) -> IdentityChanges;
        add_key(key: KeyRow, replaces: Option<(IdentityId, Timestamp)>) -> KeyChange;
        revoke_key(id: IdentityId, revoked: By) -> bool;
        add_user(user: UserRow) -> UserChange;
        change_user(user: UserRow, sessions: UserSessions) -> UserChange;
        add_session(session: SessionRow, user_revision: u32) -> SessionChange;
        end_session(id: IdentityId, at: Timestamp) -> bool;
        note_uses(uses: Uses) -> ();
        prune_identities(before: Timestamp) -> usize;
    }
    Retention {
        prune(before: Timestamp, now: Timestamp, limit: usize) -> usize;
        prune_jobs_of(namespace: NamespaceId, before: Timestamp, limit: usize) -> usize;
    }
}
