//! Removing an artifact on request. It goes unless something may still run it: a task with a name, a schedule, or a job that has
//! not finished. One-off and deleted tasks stay on record with their jobs and keep nothing by themselves.

use punctual_api::ErrorKind;
use punctual_core::namespace::NamespaceId;
use punctual_core::{ArtifactId, JobId, TaskId};
use punctual_store::{ArtifactChange, Filter, Order, Position, Tables};

use super::not_found;
use crate::principal::By;
use crate::principal::permission::EditArtifacts;
use crate::{App, AppError, Result};

/// One-off and deleted tasks that refer to one file and are looked at for one request.
const TASKS_MAX: usize = 100;

/// Parts of the list of unfinished jobs that are looked at for one request; a part has up to 10,000 jobs.
const PARTS_MAX: usize = 200;

/// Why an artifact stays.
enum Needed {
    ByTask(String),
    BySchedule(String),
    ByJob(JobId),
    /// So many jobs wait that nobody can say.
    Perhaps,
}

impl App {
    pub async fn delete_artifact(&self, by: &By<EditArtifacts>, id: ArtifactId) -> Result<()> {
        self.own_artifact(by, id).await?;
        let mut unneeded_by: Vec<TaskId> = Vec::new();
        let mut parts = PARTS_MAX;
        loop {
            match self.0.store.delete_artifact(id, unneeded_by.clone()).await? {
                ArtifactChange::Done => {
                    self.remove_files(id).await;
                    return Ok(());
                }
                ArtifactChange::Absent | ArtifactChange::NotPending => return Err(not_found(id)),
                ArtifactChange::InUse { .. } if unneeded_by.len() >= TASKS_MAX => {
                    return Err(in_use(id, &Needed::Perhaps));
                }
                ArtifactChange::InUse { task, name } => {
                    match self.need_of(by.namespace(), task, name, &mut parts).await? {
                        Some(needed) => return Err(in_use(id, &needed)),
                        None => unneeded_by.push(task),
                    }
                }
            }
        }
    }

    /// What may still run a task.
    async fn need_of(
        &self,
        namespace: NamespaceId,
        task: TaskId,
        name: Option<String>,
        parts: &mut usize,
    ) -> Result<Option<Needed>> {
        if let Some(name) = name {
            // One that was deleted keeps its name on record, and another may have it by now.
            let known = self.0.store.task_by_name(namespace, &name).await?;
            if known.is_some_and(|known| known.id == task) {
                return Ok(Some(Needed::ByTask(name)));
            }
        }
        if let Some(schedule) = self.0.store.schedules_of_task(task, 1).await?.into_iter().next() {
            return Ok(Some(Needed::BySchedule(schedule)));
        }
        self.unfinished_of(task, parts).await
    }

    /// A job of the task that waits or runs. Nobody keeps a list of those by task, so all are looked through.
    async fn unfinished_of(&self, task: TaskId, parts: &mut usize) -> Result<Option<Needed>> {
        let filter = Filter { tables: Tables::Hot, task: Some(task), ..Filter::default() };
        let mut after = None;
        while *parts > 0 {
            *parts -= 1;
            let position = Position { after, order: Order::Ascending, limit: 1 };
            let page = self.0.store.list_jobs(filter.clone(), position).await?.hot;
            if let Some(job) = page.rows.first() {
                return Ok(Some(Needed::ByJob(job.key.id)));
            }
            after = page.next;
            if after.is_none() {
                return Ok(None);
            }
        }
        Ok(Some(Needed::Perhaps))
    }
}

fn in_use(id: ArtifactId, needed: &Needed) -> AppError {
    let (by, hint) = match needed {
        Needed::ByTask(name) => (format!("the task {name} refers to {id}"), "change or delete the task first"),
        Needed::BySchedule(name) => (format!("the schedule {name} runs {id}"), "change or delete the schedule first"),
        Needed::ByJob(job) => (format!("{job} has not finished and needs {id}"), "wait for the job, or cancel it"),
        Needed::Perhaps => (
            format!("too many jobs and tasks would have to be looked at to know that nothing needs {id}"),
            "try again when fewer jobs wait; the retention removes it when nothing refers to it",
        ),
    };
    AppError::new(ErrorKind::ArtifactInUse, by).hint(hint)
}
