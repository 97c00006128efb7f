//! The port: what must be durable, and what a crash before and after each call
//! means. `store-sqlite` says how; `store-tests` holds every store to it.
//!
//! Two rules hold for every method that writes. A crash before it returns leaves
//! all of it or none of it. Once it has returned `Ok`, it survives the loss of
//! the process and of power.

mod archive;
mod artifacts;
mod audit;
mod authorities;
mod backfills;
mod batches;
mod cluster_secret;
pub mod codes;
pub mod columns;
mod enrolments;
mod error;
mod identities;
mod jobs;
mod leases;
mod logs;
mod members;
mod migrations;
mod namespaces;
mod notices;
mod queues;
mod quotas;
mod requesters;
mod running_places;
mod schedules;
mod secrets;
mod tasks;
mod throttle;
mod transitions;
mod workers;
mod workflows;

use std::path::PathBuf;

use async_trait::async_trait;

pub use archive::{Archived, Archiving, Assembly, EndedLog, KeptLog, LogArchive, WholeLog};
pub use artifacts::{
    Arrival, Artifact, ArtifactChange, ArtifactKind, ArtifactState, Artifacts, CreatedArtifact, NewArtifact, Unfit,
    Waits,
};
pub use audit::{AUDIT_ROWS_MAX, Audit, AuditAppended, AuditBatch, AuditEnds, AuditPlace, AuditRow};
pub use authorities::{Authorities, AuthorityRow};
pub use backfills::{
    BACKFILLS_MAX, BACKFILLS_OF_ALL_MAX, BackfillProgress, BackfillRow, BackfillRun, BackfillState, BackfillStep,
    Backfilled, Backfills, Stepped,
};
pub use batches::{BatchChange, BatchChanges, BatchFilter, BatchRow, Batches, Compensation, DueBatch, batch_ends};
pub use cluster_secret::{
    ClusterSecretState, ClusterSecrets, Confirmation, NEXT_CLUSTER_SECRET, ResealedAuthority, SecretStage,
};
pub use enrolments::{
    ENDED_KEPT_FOR, ENDED_REMOVED_MAX, ENROLMENTS_MAX, Enrolment, EnrolmentChanges, Enrolments, JOIN_TOKENS_MAX,
    JoinRefusal, JoinRequest, JoinTokenRow, Joined,
};
pub use error::{StoreError, StoreFault};
pub use identities::{
    Identities, IdentityChanges, IdentityId, KEYS_MAX, KeyChange, KeyRow, OpenIdSubject, PasswordHash, SESSIONS_MAX,
    SESSIONS_OF_USER_MAX, SecretDigest, SessionChange, SessionRow, USERS_MAX, UserChange, UserRow, UserSessions, Uses,
};
pub use jobs::{
    DueWindow, Filter, FinishedJob, HotJob, IdempotencyKey, IdempotentAnswer, JobPages, JobReads, JobRecord,
    LateOutcome, Maker, MakerFields, NewJob, Order, Page, Position, RerunRecord, SUBMIT_MAX, Submission, Submit,
    Submitted, Tables, UNREADABLE_NAMED_MAX,
};
pub use leases::{Lease, Leases, Owned};
pub use logs::{ChunkMarks, LogChunk, LogPiece, Logs, Retention, TASK_USE_STEP, tasks_used_since, without_overlap};
pub use members::{ClusterSecret, DutyLease, Member, MemberStatus, Members, SeenMember};
pub use migrations::{
    AppliedMigration, Migration, MigrationState, MigrationStatus, migration_status, missing_migrations,
};
pub use namespaces::{
    AllNamespaces, DELETED_NAMESPACES_MAX, NAMESPACES_MAX, NamespaceChange, NamespaceContent, NamespaceDeletion,
    NamespaceRow, Namespaces,
};
pub use notices::{
    Ailing, DeliveryRow, Dispatch, Dispatched, Notices, RULES_MAX, RULES_OF_ALL_MAX, RuleChange, RuleDeletion, RuleRow,
    RuleUpdate, WaitingNotice,
};
pub use queues::{
    AllQueues, QUEUES_MAX, QUEUES_OF_ALL_MAX, QueueChange, QueueRow, Queues, QueuesFull, STOPPED_QUEUES_FACTOR,
    queues_max,
};
pub use quotas::{Counted, QuotaUse, RATE_BURST, Spent};
pub use requesters::{JOB_ACTIONS_MAX, JobAction, JobActionKind, REQUESTERS_MAX, Requester, RequesterId, Requesters};
pub use running_places::{RunningPlaces, shards_from_bytes, shards_to_bytes};
pub use schedules::{
    CalendarDeletion, CalendarUpdate, LoadedRow, OccurrenceFilter, ScheduleFilter, Schedules, ShardSchedules,
};
pub use secrets::{
    CLUSTER_SECRET, RootKeyId, SECRETS_MAX, SealedKey, SecretChange, SecretRow, Secrets, data_key_label,
};
pub use tasks::{Interned, TaskChange, Tasks};
pub use throttle::Throttle;
pub use transitions::{Applied, FoundRow, LoadPage, OpenStarts, RunSteps, Transitions};
pub use workers::{SeenWorker, SeenWorkers};
pub use workflows::{
    DueRun, Graphs, OpenRun, RunChange, RunFilter, RunRow, RunStep, VERSIONS_MAX, WORKFLOWS_MAX, WorkflowRow,
    WorkflowStored, Workflows, run_ends, tasks_from_bytes, tasks_to_bytes,
};

pub type Result<T> = std::result::Result<T, StoreError>;

/// Everything the engine and the app need.
#[async_trait]
pub trait Store:
    Artifacts
    + Namespaces
    + Queues
    + QuotaUse
    + RunningPlaces
    + Tasks
    + Schedules
    + Backfills
    + Workflows
    + Batches
    + Notices
    + Identities
    + Submit
    + JobReads
    + Requesters
    + Leases
    + Members
    + Audit
    + Authorities
    + Secrets
    + ClusterSecrets
    + SeenWorkers
    + Enrolments
    + Transitions
    + Logs
    + LogArchive
    + Retention
{
    /// For people: the kind of store and how it writes, such as `sqlite, synchronous=FULL`.
    fn description(&self) -> String;

    /// The file of a store that is one, on the machine of the server.
    fn location(&self) -> Option<PathBuf> {
        None
    }

    /// Commits a write that changes nothing anybody reads, the way every other write is committed. `Ok` means that a
    /// write succeeded just now. A crash before or after it means nothing.
    async fn probe(&self) -> Result<()>;
}
