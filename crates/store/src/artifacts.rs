//! Uploaded files: what is known of each. The bytes themselves are in object storage.
//!
//! A row comes before its file and goes before it, so a file without a row belongs to nobody
//! and can be removed. A task that refers to an artifact keeps it.

use async_trait::async_trait;
use punctual_core::namespace::NamespaceId;
use punctual_core::task::Task;
use punctual_core::{ArtifactId, TaskId, Timestamp};

use crate::Result;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    pub id: ArtifactId,
    pub namespace: NamespaceId,
    /// A description for people.
    pub name: Option<String>,
    pub size: u64,
    pub sha256: [u8; 32],
    pub kind: ArtifactKind,
    pub state: ArtifactState,
    pub created_at: Timestamp,
}

/// What a file is for. Numbers are those in stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ArtifactKind {
    /// A program: what it must be is checked when it arrives.
    Binary = 1,
    /// Anything that a task reads.
    File = 2,
}

impl ArtifactKind {
    pub fn from_number(number: i64) -> Option<Self> {
        [Self::Binary, Self::File].into_iter().find(|kind| i64::from(*kind as u8) == number)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArtifactState {
    /// The file has not arrived. It may be uploaded until then.
    Pending { until: Timestamp },
    /// The file is there and is what was declared. `machine` is the kind of processor that runs
    /// it, where it is a program.
    Ready { at: Timestamp, machine: Option<String> },
    /// Something arrived that cannot be used, and was removed.
    Refused { at: Timestamp, reason: String },
}

/// A file that is about to be uploaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewArtifact {
    pub id: ArtifactId,
    pub namespace: NamespaceId,
    pub name: Option<String>,
    pub size: u64,
    pub sha256: [u8; 32],
    pub kind: ArtifactKind,
    pub created_at: Timestamp,
    pub until: Timestamp,
    /// The bytes that the artifacts of the namespace may have with it, if that is limited.
    pub bytes_max: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CreatedArtifact {
    New(Artifact),
    /// One of the namespace with the same size, digest and kind was there: ready, or pending and now for longer.
    Known(Artifact),
    /// The artifacts of the namespace would have more than `bytes_max`; they have so many without it.
    Full {
        bytes: u64,
    },
}

/// What became of a file that arrived.
#[derive(Debug, Clone, PartialEq)]
pub enum Arrival {
    /// It is ready. These tasks waited for it; they have a new revision.
    Done(Vec<Task>),
    Refused {
        reason: String,
    },
    Absent,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArtifactChange {
    Done,
    Absent,
    /// It is ready, or was refused before.
    NotPending,
    /// This task refers to it.
    InUse {
        task: TaskId,
        name: Option<String>,
    },
}

/// Why a task cannot refer to an artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unfit {
    Unknown,
    Refused {
        reason: String,
    },
    /// A file that a task reads must be there when the task is defined.
    NotArrived,
    /// It was declared as a file, and the task is to run it.
    NotAProgram,
}

impl Unfit {
    /// Whether a task can run an artifact, and whether it has to wait for it. One of another namespace is unknown.
    pub fn of_program(task: &Task, artifact: Option<&Artifact>) -> std::result::Result<Waits, Self> {
        let own = artifact.filter(|artifact| artifact.namespace == task.namespace);
        match own.map(|artifact| (&artifact.state, artifact.kind)) {
            Some((_, ArtifactKind::File)) => Err(Self::NotAProgram),
            Some((ArtifactState::Ready { .. }, ArtifactKind::Binary)) => Ok(Waits::No),
            Some((ArtifactState::Pending { .. }, ArtifactKind::Binary)) => Ok(Waits::Yes),
            Some((ArtifactState::Refused { reason, .. }, _)) => Err(Self::Refused { reason: reason.clone() }),
            None => Err(Self::Unknown),
        }
    }

    /// Whether a task can read an artifact. One of another namespace is unknown.
    pub fn of_file(task: &Task, artifact: Option<&Artifact>) -> std::result::Result<(), Self> {
        let own = artifact.filter(|artifact| artifact.namespace == task.namespace);
        match own.map(|artifact| &artifact.state) {
            Some(ArtifactState::Ready { .. }) => Ok(()),
            Some(ArtifactState::Pending { .. }) => Err(Self::NotArrived),
            Some(ArtifactState::Refused { reason, .. }) => Err(Self::Refused { reason: reason.clone() }),
            None => Err(Self::Unknown),
        }
    }
}

/// Whether a task waits for its program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waits {
    No,
    Yes,
}

#[async_trait]
pub trait Artifacts: Send + Sync + 'static {
    /// Stores a pending artifact, unless one of the same namespace, size, digest and kind is there that was not
    /// refused: then that one counts as used now, and may be uploaded until `until` if it is
    /// still pending. `bytes_max` is for new ones; it holds exactly, whoever else declares artifacts at the same moment.
    ///
    /// Crash after: a row whose time runs out, and which is then removed.
    async fn create_artifact(&self, artifact: NewArtifact) -> Result<CreatedArtifact>;

    async fn artifact(&self, id: ArtifactId) -> Result<Option<Artifact>>;

    /// Those of a namespace, the newest first, before `after`.
    async fn list_artifacts(
        &self,
        namespace: NamespaceId,
        after: Option<ArtifactId>,
        limit: usize,
    ) -> Result<Vec<Artifact>>;

    /// Those of all namespaces whose file has not arrived, also if their time is over; the oldest first, after `after`.
    async fn pending_artifacts(&self, after: Option<ArtifactId>, limit: usize) -> Result<Vec<Artifact>>;

    /// The file of a pending artifact is there and was checked. In the same transaction every
    /// task that waits for it stops doing so, under a new revision. Said again, it changes
    /// nothing and names no tasks.
    ///
    /// Crash before: it is pending, and whoever looks next finds the file. Crash after, before
    /// the tasks are passed on: their owners read them again a little later.
    async fn artifact_arrived(&self, id: ArtifactId, at: Timestamp, machine: Option<String>) -> Result<Arrival>;

    /// What arrived cannot be used. Tasks that wait for it go on waiting until they are changed.
    ///
    /// Crash before its file is removed: the file is found again, as one that nobody needs.
    async fn refuse_artifact(&self, id: ArtifactId, at: Timestamp, reason: String) -> Result<ArtifactChange>;

    /// Removes an artifact that no task refers to but those of `unneeded_by`, of which the caller knows that they run no more:
    /// deleted or nameless ones, which nothing else refers to. Any other is named. A task that is stored at the same moment
    /// either keeps it or is refused.
    async fn delete_artifact(&self, id: ArtifactId, unneeded_by: Vec<TaskId>) -> Result<ArtifactChange>;

    /// Removes up to `limit` artifacts that no task refers to: those that were last used before
    /// `before` (made, asked for, arrived, or let go of by a task that was changed), and pending
    /// ones whose time was over by `now`. The answer is whose files have to be removed.
    ///
    /// Crash after, before the files are removed: they are found again, as above.
    async fn prune_artifacts(&self, before: Timestamp, now: Timestamp, limit: usize) -> Result<Vec<ArtifactId>>;
}
