//! Defining tasks and finding them.

use std::collections::HashMap;
use std::sync::{Arc, RwLock};

use futures_util::future::join_all;
use punctual_api::{ErrorKind, TaskList, TaskQuery, TaskRequest, TaskView, limits};
use punctual_core::namespace::NamespaceId;
use punctual_core::task::{Task, TaskSpec};
use punctual_core::{Span, TaskId, Timestamp};
use punctual_store::TaskChange;

use crate::principal::By;
use crate::principal::permission::{EditTasks, ViewTasks};
use crate::route::LOOK_LIMIT;
use crate::secrets::plain_credentials;
use crate::{App, AppError, Checked, Faults, Precondition, Result, artifacts, cut, parameters, task_rights, validate};

/// Another server may have changed a task: what is known of a name is believed for this long.
const NAME_BELIEVED: Span = Span::from_secs(1);

/// Definitions that are read again in one query.
const REFRESH_BATCH: usize = 500;

/// Schedules that are named when a task cannot be deleted because of them.
const SCHEDULES_SHOWN_MAX: usize = 10;

/// What an error about a task calls it.
const WHAT: &str = "task";

/// Beyond this the cache starts anew.
const NAMES_MAX: usize = 10_000;

#[derive(Default)]
pub(crate) struct NameCache(RwLock<HashMap<TaskKey, (Arc<Task>, Timestamp)>>);

/// Where a task is, and what it is called there.
type TaskKey = (NamespaceId, String);

impl NameCache {
    fn get(&self, namespace: NamespaceId, name: &str, now: Timestamp) -> Option<Arc<Task>> {
        let names = self.0.read().expect("no panic while the lock is held");
        let (task, read_at) = names.get(&(namespace, name.to_owned()))?;
        // Read in the future: the clock went back.
        let is_believed = *read_at <= now && now.since(*read_at) <= NAME_BELIEVED;
        is_believed.then(|| Arc::clone(task))
    }

    fn put(&self, task: &Arc<Task>, now: Timestamp) {
        let Some(name) = task.name.clone() else { return };
        let mut names = self.0.write().expect("no panic while the lock is held");
        if names.len() >= NAMES_MAX {
            names.clear();
        }
        names.insert((task.namespace, name), (Arc::clone(task), now));
    }

    pub(crate) fn forget(&self, namespace: NamespaceId, name: &str) {
        self.0.write().expect("no panic while the lock is held").remove(&(namespace, name.to_owned()));
    }
}

/// Whether a definition was new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Defined {
    Created,
    Updated,
}

impl App {
    /// Defines a task that must not exist yet.
    pub async fn create_task(&self, by: &By<EditTasks>, name: String, spec: TaskSpec) -> Result<TaskView> {
        let request = TaskRequest { name, spec };
        request.check()?;
        let TaskRequest { name, spec } = request;
        self.check_limits(&spec).map_err(|error| error.under("/spec"))?;
        task_rights::check(by, &spec)?;
        by.changes(&name);
        self.check_secrets(by.namespace(), &spec, "/spec").await?;
        let task = made_by(by, self.new_task(by.namespace(), Some(name.clone()), spec));
        match self.0.store.create_task(task.clone()).await? {
            TaskChange::Done => Ok(view(&*self.adopt_task(task).await?)),
            TaskChange::Unfit(artifact, unfit) => {
                let pointer = format!("/spec{}", artifacts::pointer(&task.spec.run, artifact));
                Err(artifacts::unfit(artifact, unfit).pointing(&pointer))
            }
            TaskChange::NameTaken | TaskChange::Absent | TaskChange::Conflict { .. } => {
                Err(AppError::new(ErrorKind::TaskExists, format!("there is a task named {name}"))
                    .hint(format!("change it with PUT /v1/tasks/{name}")))
            }
        }
    }

    /// Defines a task, or changes the one that has this name.
    pub async fn put_task(
        &self,
        by: &By<EditTasks>,
        name: String,
        spec: TaskSpec,
        when: Precondition,
    ) -> Result<(TaskView, Defined)> {
        let mut faults = Faults::default();
        faults.check(validate::name("name", &name));
        faults.check(validate::spec(&spec).and_then(|()| self.check_limits(&spec)));
        faults.finish()?;
        task_rights::check(by, &spec)?;
        self.check_secrets(by.namespace(), &spec, "").await?;
        // Someone else may create, change or delete it between the look and the change.
        for _ in 0..8 {
            let Some(known) = self.0.store.task_by_name(by.namespace(), &name).await? else {
                when.check(WHAT, &name, None)?;
                let task = made_by(by, self.new_task(by.namespace(), Some(name.clone()), spec.clone()));
                match self.0.store.create_task(task.clone()).await? {
                    TaskChange::Done => return Ok((view(&*self.adopt_task(task).await?), Defined::Created)),
                    TaskChange::Unfit(artifact, unfit) => {
                        let pointer = artifacts::pointer(&spec.run, artifact);
                        return Err(artifacts::unfit(artifact, unfit).pointing(&pointer));
                    }
                    TaskChange::NameTaken | TaskChange::Absent | TaskChange::Conflict { .. } => continue,
                }
            };
            when.check(WHAT, &name, Some(known.revision))?;
            by.was(described(&known));
            let (revision, changed_by) = (known.revision + 1, Some(by.who().into()));
            let task = Task { revision, updated_at: self.now(), spec: spec.clone(), changed_by, ..known };
            match self.0.store.update_task(task.clone()).await? {
                TaskChange::Done => {
                    let task = self.adopt_task(task).await?;
                    self.0.engine.task_changed(Arc::clone(&task));
                    self.tell_task_changed(task.id, task.namespace, &name).await;
                    return Ok((view(&task), Defined::Updated));
                }
                TaskChange::Unfit(artifact, unfit) => {
                    let pointer = artifacts::pointer(&spec.run, artifact);
                    return Err(artifacts::unfit(artifact, unfit).pointing(&pointer));
                }
                TaskChange::NameTaken | TaskChange::Absent | TaskChange::Conflict { .. } => {}
            }
        }
        Err(AppError::new(ErrorKind::Unavailable, format!("{name} is being changed by many at once")).hint("try again"))
    }

    /// Whether a definition that is right asks for no more than this server grants.
    pub(crate) fn check_limits(&self, spec: &TaskSpec) -> Result<()> {
        validate::within(spec, self.0.settings.task_limits)
    }

    pub async fn task(&self, by: &By<ViewTasks>, name: &str) -> Result<TaskView> {
        validate::name("name", name)?;
        Ok(cut::task(by, view(&*self.task_named(by.namespace(), name).await?)))
    }

    pub async fn delete_task(&self, by: &By<EditTasks>, name: &str, when: Precondition) -> Result<()> {
        validate::name("name", name)?;
        let task = self.read_task(by.namespace(), name).await?;
        when.check(WHAT, name, Some(task.revision))?;
        by.was(described(&task));
        let schedules = self.0.store.schedules_of_task(task.id, SCHEDULES_SHOWN_MAX).await?;
        if !schedules.is_empty() {
            let detail = format!("schedules refer to {name}: {}", schedules.join(", "));
            let error = AppError::new(ErrorKind::TaskInUse, detail);
            return Err(error.hint("delete them first, or have them run another task"));
        }
        match self.0.store.delete_task(task.id, when.revision()).await? {
            TaskChange::Done => {
                self.0.names.forget(task.namespace, name);
                self.tell_task_changed(task.id, task.namespace, name).await;
                Ok(())
            }
            TaskChange::Conflict { revision } => Err(when.refusal(WHAT, name, Some(revision))),
            TaskChange::NameTaken | TaskChange::Absent | TaskChange::Unfit(..) => Err(not_found(name)),
        }
    }

    pub async fn list_tasks(&self, by: &By<ViewTasks>, query: &TaskQuery) -> Result<TaskList> {
        let (limit, cursor) = read_page(query)?;
        let tasks = self.0.store.list_tasks(by.namespace(), cursor, limit).await?;
        let next_cursor = if tasks.len() < limit { None } else { tasks.last().and_then(|task| task.name.as_deref()) };
        let next_cursor = next_cursor.map(parameters::write_name_cursor);
        Ok(TaskList { tasks: tasks.iter().map(|task| cut::task(by, view(task))).collect(), next_cursor })
    }

    /// The task of this name in a namespace, as it was at most a second ago.
    pub(crate) async fn task_named(&self, namespace: NamespaceId, name: &str) -> Result<Arc<Task>> {
        if let Some(task) = self.0.names.get(namespace, name, self.now()) {
            return Ok(task);
        }
        let task = Arc::new(self.read_task(namespace, name).await?);
        self.0.names.put(&task, self.now());
        Ok(task)
    }

    async fn read_task(&self, namespace: NamespaceId, name: &str) -> Result<Task> {
        self.0.store.task_by_name(namespace, name).await?.ok_or_else(|| not_found(name))
    }

    /// Definitions by id, also of deleted and one-off tasks.
    pub(crate) async fn tasks_by_id(&self, ids: impl Iterator<Item = TaskId>) -> Result<HashMap<TaskId, Arc<Task>>> {
        let mut tasks = HashMap::new();
        let mut missing = Vec::new();
        for id in ids {
            match self.0.engine.cached_task(id) {
                Some(task) => {
                    tasks.insert(id, task);
                }
                None => missing.push(id),
            }
        }
        missing.sort_unstable();
        missing.dedup();
        if !missing.is_empty() {
            let read = self.0.store.tasks_by_id(missing).await?;
            tasks.extend(read.into_iter().map(|task| (task.id, Arc::new(task))));
        }
        Ok(tasks)
    }

    pub(crate) fn new_task(&self, namespace: NamespaceId, name: Option<String>, spec: TaskSpec) -> Task {
        let now = self.now();
        Task {
            id: TaskId::new(now, self.random()),
            namespace,
            name,
            revision: 1,
            created_at: now,
            updated_at: now,
            spec,
            waits_for: None,
            created_by: None,
            changed_by: None,
        }
    }

    /// Tells the other servers. One that does not hear of it finds out by itself a little later.
    pub(crate) async fn tell_task_changed(&self, id: TaskId, namespace: NamespaceId, name: &str) {
        let peers = self.0.cluster.peers();
        let told = peers.iter().map(async |peer| {
            if let Err(error) = self.0.peers.task_changed(peer, id, namespace, name).await {
                tracing::debug!(%error, "a peer was not told of a changed task");
            }
        });
        let _ = tokio::time::timeout(LOOK_LIMIT, join_all(told)).await;
    }

    /// A peer changed or deleted a task.
    pub async fn peer_task_changed(&self, id: TaskId, namespace: NamespaceId, name: &str) -> Result<()> {
        self.0.names.forget(namespace, name);
        for task in self.0.store.tasks_by_id(vec![id]).await? {
            self.0.engine.task_changed(Arc::new(task));
        }
        Ok(())
    }

    /// Reads again what may have been changed at another server without our having heard of it:
    /// named tasks, and those whose file may have arrived.
    pub async fn refresh_tasks(&self) -> Result<()> {
        let mut known = self.0.engine.tasks_that_wait().await?;
        if !self.0.cluster.peers().is_empty() {
            known.extend(self.0.engine.cached_named_tasks());
        }
        // Of two revisions that are known here, the older one is to be replaced.
        known.sort_unstable();
        known.dedup_by_key(|(id, _)| *id);
        for part in known.chunks(REFRESH_BATCH) {
            let revisions: HashMap<TaskId, u32> = part.iter().copied().collect();
            for task in self.0.store.tasks_by_id(revisions.keys().copied().collect()).await? {
                if revisions.get(&task.id).is_some_and(|known| *known < task.revision) {
                    self.0.engine.task_changed(Arc::new(task));
                }
            }
        }
        Ok(())
    }

    /// The task as it was stored: only the store knows whether it waits for its file.
    async fn adopt_task(&self, task: Task) -> Result<Arc<Task>> {
        let stored = match task.spec.run.artifact() {
            Some(_) => self.0.store.tasks_by_id(vec![task.id]).await?.pop(),
            None => None,
        };
        let task = Arc::new(stored.unwrap_or(task));
        self.0.names.put(&task, self.now());
        Ok(task)
    }
}

impl Checked for TaskRequest {
    fn check(&self) -> Result<()> {
        let mut faults = Faults::default();
        faults.check(validate::name("/name", &self.name));
        faults.check(validate::spec(&self.spec).map_err(|error| error.under("/spec")));
        faults.finish()
    }
}

impl Checked for TaskSpec {
    fn check(&self) -> Result<()> {
        validate::spec(self)
    }
}

fn read_page(query: &TaskQuery) -> Result<(usize, Option<String>)> {
    parameters::page(query.limit.as_deref(), query.cursor.as_deref(), parameters::name_cursor)
}

impl Checked for TaskQuery {
    fn check(&self) -> Result<()> {
        read_page(self).map(drop)
    }
}

/// For the audit log: the definition itself may hold secrets.
fn described(task: &Task) -> String {
    format!("revision {}, {}, queue {}", task.revision, task.spec.run.kind(), task.spec.queue)
}

fn made_by(by: &By<EditTasks>, task: Task) -> Task {
    Task { created_by: Some(by.who().into()), changed_by: Some(by.who().into()), ..task }
}

fn not_found(name: &str) -> AppError {
    let shown: String = name.chars().take(limits::NAME_CHARS_MAX).collect();
    AppError::new(ErrorKind::TaskNotFound, format!("there is no task named {shown}"))
        .hint("GET /v1/tasks lists them; PUT /v1/tasks/{name} defines one")
}

fn view(task: &Task) -> TaskView {
    TaskView {
        id: task.id,
        name: task.name.clone().unwrap_or_default(),
        revision: task.revision,
        created_at: task.created_at,
        updated_at: task.updated_at,
        created_by: task.created_by.as_deref().map(str::to_owned),
        changed_by: task.changed_by.as_deref().map(str::to_owned),
        spec: task.spec.clone(),
        waits_for: task.waits_for,
        warnings: plain_credentials(&task.spec),
    }
}
