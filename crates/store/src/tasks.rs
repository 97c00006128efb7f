//! Definitions of tasks.

use async_trait::async_trait;
use punctual_core::task::Task;
use punctual_core::{ArtifactId, NamespaceId, TaskId};

use crate::{Result, Unfit};

/// What became of a change to a task.
#[derive(Debug, Clone, PartialEq)]
pub enum TaskChange {
    Done,
    /// Another task has this name.
    NameTaken,
    /// No such task, or it was deleted.
    Absent,
    /// The task has this revision, not the one that the change was based on.
    Conflict {
        revision: u32,
    },
    /// The task cannot refer to this artifact. Nothing was stored.
    Unfit(ArtifactId, Unfit),
}

/// What became of nameless tasks.
#[derive(Debug, Clone, PartialEq)]
pub enum Interned {
    /// The task to use for each, in order.
    Done(Vec<TaskId>),
    /// One of them cannot refer to this artifact. None was stored.
    Unfit(ArtifactId, Unfit),
}

impl Interned {
    /// For tasks that refer to no artifact.
    ///
    /// # Panics
    /// If one of them did.
    pub fn ids(self) -> Vec<TaskId> {
        match self {
            Self::Done(ids) => ids,
            Self::Unfit(artifact, unfit) => panic!("{artifact} cannot be used: {unfit:?}"),
        }
    }
}

/// A task that is stored, be it created, updated or interned, waits for its artifact if that is
/// pending; `waits_for` of the argument says nothing. The artifact's row is locked meanwhile, so
/// that an arrival at the same moment is seen here, or sees the task.
#[async_trait]
pub trait Tasks: Send + Sync + 'static {
    /// Stores a new named task. `NameTaken` if a live task of its namespace has its name.
    async fn create_task(&self, task: Task) -> Result<TaskChange>;

    /// Replaces the spec of `task.id`, whose revision must be `task.revision - 1`.
    async fn update_task(&self, task: Task) -> Result<TaskChange>;

    /// Frees the name and hides the task. Jobs that wait keep its definition and still run. `expected` is the revision
    /// that the task must have; `None`: whatever it has.
    async fn delete_task(&self, id: TaskId, expected: Option<u32>) -> Result<TaskChange>;

    /// Stores nameless tasks for one-off jobs. A task whose `digest` is known already
    /// in its namespace is not stored again; the answer names the task to use for each, in order. From its
    /// `created_at` on it counts as used, so retention leaves it to the jobs that follow.
    async fn intern_tasks(&self, tasks: Vec<(Task, [u8; 32])>) -> Result<Interned>;

    async fn task_by_name(&self, namespace: NamespaceId, name: &str) -> Result<Option<Task>>;

    /// Also finds deleted and nameless tasks: a job may still need them. One whose definition
    /// cannot be read, such as one of a newer version, is left out and named in the log.
    async fn tasks_by_id(&self, ids: Vec<TaskId>) -> Result<Vec<Task>>;

    /// Live named tasks of a namespace in order of name, after `after`; those that can be read, as above.
    async fn list_tasks(&self, namespace: NamespaceId, after: Option<String>, limit: usize) -> Result<Vec<Task>>;
}
