//! Definitions of tasks.

use async_trait::async_trait;
use punctual_core::TaskId;
use punctual_core::task::Task;

use crate::Result;

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
}

#[async_trait]
pub trait Tasks: Send + Sync + 'static {
    /// Stores a new named task. `NameTaken` if a live task has its name.
    async fn create_task(&self, task: Task) -> Result<TaskChange>;

    /// Replaces the spec of `task.id`, whose revision must be `task.revision - 1`.
    async fn update_task(&self, task: Task) -> Result<TaskChange>;

    /// Frees the name and hides the task. Jobs that wait keep its definition and still run.
    async fn delete_task(&self, id: TaskId) -> Result<TaskChange>;

    /// Stores nameless tasks for one-off jobs. A task whose `digest` is known already
    /// is not stored again; the answer names the task to use for each, in order. From its
    /// `created_at` on it counts as used, so retention leaves it to the jobs that follow.
    async fn intern_tasks(&self, tasks: Vec<(Task, [u8; 32])>) -> Result<Vec<TaskId>>;

    async fn task_by_name(&self, name: &str) -> Result<Option<Task>>;

    /// Also finds deleted and nameless tasks: a job may still need them. One whose definition
    /// cannot be read, such as one of a newer version, is left out and named in the log.
    async fn tasks_by_id(&self, ids: Vec<TaskId>) -> Result<Vec<Task>>;

    /// Live named tasks in order of name, after `after`; those that can be read, as above.
    async fn list_tasks(&self, after: Option<String>, limit: usize) -> Result<Vec<Task>>;
}
