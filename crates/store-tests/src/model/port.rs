//! The async face of the model: every method calls its synchronous twin.

use async_trait::async_trait;
use bytes::Bytes;
use punctual_core::attempt::ArchivedLog;
use punctual_core::shard::event::Load;
use punctual_core::shard::write::{Epoch, SharedBatch};
use punctual_core::task::Task;
use punctual_core::{
    ArtifactId, AttemptNo, EnrolmentId, JobId, JobKey, JoinTokenId, NamespaceId, ServerId, ShardId, Span, TaskId,
    Timestamp, WorkerId,
};
use punctual_store::{
    Applied, Archived, Archiving, Arrival, Artifact, ArtifactChange, Artifacts, Audit, AuditAppended, AuditBatch,
    AuditEnds, AuditPlace, AuditRow, Authorities, AuthorityRow, ChunkMarks, ClusterSecret, ClusterSecretState,
    ClusterSecrets, CreatedArtifact, DueWindow, DutyLease, Enrolment, EnrolmentChanges, Enrolments, Filter,
    FinishedJob, FoundRow, HotJob, IdempotencyKey, Interned, JobPages, JobReads, JobRecord, JoinRequest, JoinTokenRow,
    Joined, KeptLog, LateOutcome, Lease, Leases, LoadPage, LogArchive, LogChunk, LogPiece, Logs, Member, Members,
    NewArtifact, OpenStarts, Order, Owned, Page, Position, RerunRecord, ResealedAuthority, Result, Retention,
    RootKeyId, SealedKey, SecretChange, SecretRow, Secrets, SeenMember, SeenWorker, SeenWorkers, Store, Submission,
    Submit, Submitted, TaskChange, Tasks, Transitions, WholeLog,
};

use super::ModelStore;

#[async_trait]
impl Store for ModelStore {
    fn description(&self) -> String {
        "model, in memory".to_owned()
    }
    async fn probe(&self) -> Result<()> {
        self.has_tables()
    }
}

#[async_trait]
impl Artifacts for ModelStore {
    async fn create_artifact(&self, artifact: NewArtifact) -> Result<CreatedArtifact> {
        self.create_artifact_now(artifact)
    }
    async fn artifact(&self, id: ArtifactId) -> Result<Option<Artifact>> {
        Ok(self.artifact_now(id))
    }
    async fn list_artifacts(
        &self,
        namespace: NamespaceId,
        after: Option<ArtifactId>,
        limit: usize,
    ) -> Result<Vec<Artifact>> {
        Ok(self.list_artifacts_now(namespace, after, limit))
    }
    async fn pending_artifacts(&self, after: Option<ArtifactId>, limit: usize) -> Result<Vec<Artifact>> {
        Ok(self.pending_artifacts_now(after, limit))
    }
    async fn artifact_arrived(&self, id: ArtifactId, at: Timestamp, machine: Option<String>) -> Result<Arrival> {
        self.artifact_arrived_now(id, at, machine)
    }
    async fn refuse_artifact(&self, id: ArtifactId, at: Timestamp, reason: String) -> Result<ArtifactChange> {
        self.refuse_artifact_now(id, at, reason)
    }
    async fn delete_artifact(&self, id: ArtifactId, unneeded_by: Vec<TaskId>) -> Result<ArtifactChange> {
        self.delete_artifact_now(id, &unneeded_by)
    }
    async fn prune_artifacts(&self, before: Timestamp, now: Timestamp, limit: usize) -> Result<Vec<ArtifactId>> {
        self.prune_artifacts_now(before, now, limit)
    }
}

#[async_trait]
impl Tasks for ModelStore {
    async fn create_task(&self, task: Task) -> Result<TaskChange> {
        self.create_task_now(task)
    }
    async fn update_task(&self, task: Task) -> Result<TaskChange> {
        self.update_task_now(task)
    }
    async fn delete_task(&self, id: TaskId, expected: Option<u32>) -> Result<TaskChange> {
        self.delete_task_now(id, expected)
    }
    async fn intern_tasks(&self, tasks: Vec<(Task, [u8; 32])>) -> Result<Interned> {
        self.intern_tasks_now(tasks)
    }
    async fn task_by_name(&self, namespace: NamespaceId, name: &str) -> Result<Option<Task>> {
        Ok(self.task_by_name_now(namespace, name))
    }
    async fn tasks_by_id(&self, ids: Vec<TaskId>) -> Result<Vec<Task>> {
        ids.iter().try_for_each(|id| self.is_readable(id))?;
        Ok(self.tasks_by_id_now(&ids))
    }
    async fn list_tasks(&self, namespace: NamespaceId, after: Option<String>, limit: usize) -> Result<Vec<Task>> {
        Ok(self.list_tasks_now(namespace, after.as_deref(), limit))
    }
}

#[async_trait]
impl Submit for ModelStore {
    async fn submit(&self, submission: Submission) -> Result<Submitted> {
        self.submit_now(submission)
    }
    async fn idempotent_answer(
        &self,
        key: IdempotencyKey,
        fingerprint: [u8; 32],
        now: Timestamp,
    ) -> Result<Option<Submitted>> {
        Ok(self.idempotent_answer_now(&key, &fingerprint, now))
    }
}

#[async_trait]
impl JobReads for ModelStore {
    async fn job(&self, id: JobId) -> Result<Option<JobRecord>> {
        self.is_readable(id)?;
        Ok(self.job_now(id))
    }
    async fn namespace_of_job(&self, id: JobId) -> Result<Option<NamespaceId>> {
        Ok(self.namespace_of_job_now(id))
    }
    async fn reruns(&self, id: JobId) -> Result<Vec<RerunRecord>> {
        Ok(self.reruns_now(id))
    }
    async fn late_outcomes(&self, id: JobId, limit: usize) -> Result<Vec<LateOutcome>> {
        Ok(self.late_outcomes_now(id, limit))
    }
    async fn hot_jobs(&self, keys: Vec<JobKey>) -> Result<Vec<HotJob>> {
        keys.iter().try_for_each(|key| self.is_readable(key.id))?;
        Ok(self.hot_jobs_now(&keys))
    }
    async fn finished_jobs(&self, ids: Vec<JobId>) -> Result<Vec<FinishedJob>> {
        Ok(self.finished_jobs_now(&ids))
    }
    async fn list_jobs(&self, filter: Filter, position: Position) -> Result<JobPages> {
        let mut pages = self.list_jobs_now(&filter, position);
        pages.hot.rows.retain(|job| self.is_readable(job.key.id).is_ok());
        Ok(pages)
    }
    async fn list_due(&self, window: DueWindow, limit: usize) -> Result<Page<HotJob, JobKey>> {
        let mut page = self.list_due_now(window, limit);
        page.rows.retain(|job| self.is_readable(job.key.id).is_ok());
        Ok(page)
    }
    async fn given_back(
        &self,
        namespace: Option<NamespaceId>,
        after: Option<JobKey>,
        until: Timestamp,
        limit: usize,
    ) -> Result<Page<HotJob, JobKey>> {
        let mut page = self.given_back_now(namespace, after, until, limit);
        page.rows.retain(|job| self.is_readable(job.key.id).is_ok());
        Ok(page)
    }
}

#[async_trait]
impl Leases for ModelStore {
    async fn now(&self) -> Result<Timestamp> {
        Ok(self.current_time())
    }
    fn shard_count(&self) -> u16 {
        self.shard_count
    }
    fn generation(&self) -> u64 {
        self.state().generation
    }
    async fn acquire(&self, server: ServerId, ttl: Span, limit: usize) -> Result<Vec<Owned>> {
        self.acquire_now(server, ttl, limit)
    }
    async fn take_over(&self, server: ServerId, shards: Vec<ShardId>, ttl: Span) -> Result<Vec<Owned>> {
        self.take_over_now(server, shards, ttl)
    }
    async fn renew(&self, server: ServerId, ttl: Span) -> Result<Vec<Owned>> {
        self.renew_now(server, ttl)
    }
    async fn release(&self, server: ServerId) -> Result<()> {
        self.release_now(server)
    }
    async fn give_up(&self, server: ServerId, shards: Vec<ShardId>) -> Result<()> {
        self.give_up_now(server, &shards)
    }
    async fn leases(&self) -> Result<Vec<Lease>> {
        Ok(self.leases_now())
    }
}

#[async_trait]
impl SeenWorkers for ModelStore {
    async fn keep_workers(&self, workers: Vec<SeenWorker>) -> Result<()> {
        self.keep_workers_now(workers)
    }
    async fn workers_by_id(&self, ids: Vec<WorkerId>) -> Result<Vec<SeenWorker>> {
        Ok(self.workers_by_id_now(&ids))
    }
    async fn workers_since(&self, since: Timestamp, limit: usize) -> Result<Vec<SeenWorker>> {
        Ok(self.workers_since_now(since, limit))
    }
}

#[async_trait]
impl Enrolments for ModelStore {
    async fn add_join_token(&self, token: JoinTokenRow) -> Result<bool> {
        self.add_join_token_now(token)
    }
    async fn join_tokens(&self) -> Result<Vec<JoinTokenRow>> {
        Ok(self.join_tokens_now())
    }
    async fn join_token(&self, id: JoinTokenId) -> Result<Option<JoinTokenRow>> {
        Ok(self.join_token_now(id))
    }
    async fn revoke_join_token(&self, id: JoinTokenId, at: Timestamp) -> Result<bool> {
        self.revoke_join_token_now(id, at)
    }
    async fn enrol(&self, request: JoinRequest) -> Result<Joined> {
        self.enrol_now(request)
    }
    async fn renew_enrolment(
        &self,
        id: EnrolmentId,
        now: Timestamp,
        expires_at: Timestamp,
    ) -> Result<Option<Enrolment>> {
        self.renew_enrolment_now(id, now, expires_at)
    }
    async fn revoke_enrolment(&self, id: EnrolmentId, at: Timestamp) -> Result<bool> {
        self.revoke_enrolment_now(id, at)
    }
    async fn set_worker_namespaces(&self, id: EnrolmentId, namespaces: Vec<String>) -> Result<Option<Enrolment>> {
        self.set_worker_namespaces_now(id, namespaces)
    }
    async fn set_token_namespaces(&self, id: JoinTokenId, namespaces: Vec<String>) -> Result<Option<JoinTokenRow>> {
        self.set_token_namespaces_now(id, namespaces)
    }
    async fn enrolments_changed(&self, after: u64, limit: usize) -> Result<EnrolmentChanges> {
        Ok(self.enrolments_changed_now(after, limit))
    }
}

#[async_trait]
impl Audit for ModelStore {
    async fn audit_ends(&self) -> Result<AuditEnds> {
        Ok(self.audit_ends_now())
    }
    async fn append_audit(&self, batch: AuditBatch) -> Result<AuditAppended> {
        self.append_audit_now(batch)
    }
    async fn audit_rows(&self, from: Option<u64>, order: Order, limit: usize) -> Result<Vec<AuditRow>> {
        Ok(self.audit_rows_now(from, order, limit))
    }
    async fn trim_audit(&self, base: AuditPlace) -> Result<usize> {
        self.trim_audit_now(base)
    }
}

#[async_trait]
impl Members for ModelStore {
    async fn beat(&self, member: Member) -> Result<()> {
        self.beat_now(member)
    }
    async fn members(&self) -> Result<Vec<SeenMember>> {
        Ok(self.members_now())
    }
    async fn leave(&self, server: ServerId) -> Result<()> {
        self.leave_now(server)
    }
    async fn forget_members(&self, before: Timestamp) -> Result<usize> {
        self.forget_members_now(before)
    }
    async fn hold_duty(&self, server: ServerId, duty: &str, ttl: Span) -> Result<Option<Epoch>> {
        self.hold_duty_now(server, duty, ttl)
    }
    async fn drop_duties(&self, server: ServerId) -> Result<()> {
        self.drop_duties_now(server)
    }
    async fn duties(&self) -> Result<Vec<DutyLease>> {
        Ok(self.duties_now())
    }
}

#[async_trait]
impl Secrets for ModelStore {
    async fn plain_cluster_secret(&self) -> Result<Option<ClusterSecret>> {
        Ok(self.plain_cluster_secret_now())
    }
    async fn sealed_keys(&self) -> Result<Vec<SealedKey>> {
        Ok(self.sealed_keys_now())
    }
    async fn keep_sealed_key(&self, key: SealedKey) -> Result<SealedKey> {
        self.keep_sealed_key_now(key)
    }
    async fn drop_sealed_key(&self, label: &str) -> Result<bool> {
        self.drop_sealed_key_now(label)
    }
    async fn scrub_sealed_keys(&self, done: Option<u64>) -> Result<u64> {
        Ok(done.unwrap_or_default())
    }
    async fn rewrap_keys(&self, former: RootKeyId, keys: Vec<SealedKey>) -> Result<bool> {
        self.rewrap_keys_now(former, keys)
    }
    async fn put_secret(&self, row: SecretRow) -> Result<SecretChange> {
        self.put_secret_now(row)
    }
    async fn delete_secret(&self, namespace: NamespaceId, name: &str) -> Result<bool> {
        self.delete_secret_now(namespace, name)
    }
    async fn secrets_by_name(&self, namespace: NamespaceId, names: Vec<String>) -> Result<Vec<SecretRow>> {
        Ok(self.secrets_by_name_now(namespace, &names))
    }
    async fn secrets(&self, namespace: NamespaceId) -> Result<Vec<SecretRow>> {
        Ok(self.secrets_now(namespace))
    }
    async fn tasks_with_secret(
        &self,
        namespace: NamespaceId,
        name: &str,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<String>> {
        Ok(self.tasks_with_secret_now(namespace, name, now, limit))
    }
    async fn secret_uses(&self, namespace: NamespaceId) -> Result<Vec<(String, u64)>> {
        Ok(self.secret_uses_now(namespace))
    }
}

#[async_trait]
impl ClusterSecrets for ModelStore {
    async fn cluster_secret(&self) -> Result<ClusterSecretState> {
        Ok(self.cluster_secret_now())
    }
    async fn announce_cluster_secret(
        &self,
        known: u64,
        next: SealedKey,
        cluster: &str,
        overlap: Span,
        now: Timestamp,
    ) -> Result<bool> {
        self.announce_cluster_secret_now(known, next, cluster, overlap, now)
    }
    async fn sign_with_next_secret(&self, known: u64, now: Timestamp) -> Result<bool> {
        self.sign_with_next_secret_now(known, now)
    }
    async fn retire_cluster_secret(
        &self,
        known: u64,
        secret: SealedKey,
        authorities: Vec<ResealedAuthority>,
        now: Timestamp,
    ) -> Result<bool> {
        self.retire_cluster_secret_now(known, secret, &authorities, now)
    }
    async fn confirm_cluster_secret(&self, server: ServerId, revision: u64, now: Timestamp) -> Result<()> {
        self.confirm_cluster_secret_now(server, revision, now)
    }
}

#[async_trait]
impl Authorities for ModelStore {
    async fn authorities(&self) -> Result<Vec<AuthorityRow>> {
        Ok(self.authorities_now())
    }
    async fn add_authority(&self, row: AuthorityRow, retire_others: Timestamp) -> Result<bool> {
        self.add_authority_now(row, retire_others)
    }
}

#[async_trait]
impl Transitions for ModelStore {
    async fn apply(&self, batch: SharedBatch) -> Result<Applied> {
        self.apply_now(&batch)
    }
    async fn load(&self, load: Load) -> Result<LoadPage> {
        Ok(self.load_now(&load))
    }
    async fn find(&self, id: JobId) -> Result<FoundRow> {
        Ok(self.find_now(id))
    }
    async fn inputs(&self, keys: Vec<JobKey>) -> Result<Vec<Option<Bytes>>> {
        Ok(self.inputs_now(&keys))
    }
    async fn open_starts(&self, shard: ShardId) -> Result<OpenStarts> {
        Ok(self.open_starts_now(shard))
    }
}

#[async_trait]
impl Logs for ModelStore {
    async fn append_logs(&self, chunks: Vec<LogChunk>) -> Result<()> {
        self.takes_logs()?;
        self.append_logs_now(chunks)
    }
    async fn read_log(&self, job: JobId, attempt: AttemptNo, offset: u64, limit: usize) -> Result<LogPiece> {
        self.surprise();
        Ok(self.read_log_now(job, attempt, offset, limit))
    }
    async fn log_marks(&self, job: JobId, attempt: AttemptNo, from: u64, to: u64) -> Result<Vec<ChunkMarks>> {
        Ok(self.log_marks_now(job, attempt, from, to))
    }
    async fn log_end(&self, job: JobId, attempt: AttemptNo) -> Result<u64> {
        Ok(self.log_end_now(job, attempt))
    }
}

#[async_trait]
impl LogArchive for ModelStore {
    async fn kept_logs(&self, after: Option<(JobId, AttemptNo)>, limit: usize) -> Result<Vec<KeptLog>> {
        Ok(self.kept_logs_now(after, limit))
    }
    async fn assemble_log(&self, job: JobId, attempt: AttemptNo, base: Bytes, limit: usize) -> Result<WholeLog> {
        self.surprise();
        Ok(self.assemble_log_now(job, attempt, &base, limit))
    }
    async fn archive_logs(&self, logs: Vec<Archiving>) -> Result<Vec<Archived>> {
        self.archive_logs_now(&logs)
    }
    async fn archived_log(&self, job: JobId, attempt: AttemptNo) -> Result<Option<ArchivedLog>> {
        Ok(self.archived_log_now(job, attempt))
    }
    async fn forget_pieces(&self, job: JobId) -> Result<()> {
        self.forget_pieces_now(job)
    }
    async fn dropped_logs(&self, limit: usize) -> Result<Vec<String>> {
        Ok(self.dropped_logs_now(limit))
    }
    async fn forget_dropped_logs(&self, paths: Vec<String>) -> Result<()> {
        self.forget_dropped_logs_now(&paths)
    }
}

#[async_trait]
impl Retention for ModelStore {
    async fn prune(&self, before: Timestamp, now: Timestamp, limit: usize) -> Result<usize> {
        self.prune_now(before, now, limit)
    }
    async fn prune_jobs_of(&self, namespace: NamespaceId, before: Timestamp, limit: usize) -> Result<usize> {
        self.prune_jobs_of_now(namespace, before, limit)
    }
}
