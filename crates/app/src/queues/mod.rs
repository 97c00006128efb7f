//! Queues: what waits and runs in them, and what people decide about them.
//!
//! A queue is a name in tasks. Whoever pauses or describes one gives it a row in the store; `engine::queue_states` tells the owners of
//! shards. What waits and runs is asked of these owners, who have it in memory: no table is read for it.

mod confirm;
mod defaults;
mod loads;

use std::collections::BTreeSet;
use std::sync::Arc;

use punctual_api::{
    DoneBy, ErrorKind, NoteRequest, QueueDefaults, QueueList, QueueQuery, QueueRequest, QueueView, limits,
};
use punctual_core::namespace::NamespaceId;
use punctual_core::queue::{QueueLoad, QueueState};
use punctual_core::schedule::By as ChangedBy;
use punctual_core::task::Task;
use punctual_store::{QueueChange, QueueRow, QueuesFull, queues_max};
use serde::{Deserialize, Serialize};

pub use defaults::GivenPolicies;

use self::loads::Loads;
use crate::principal::By;
use crate::principal::permission::{ControlJobs, EditTasks, ViewJobs};
use crate::{App, AppError, Checked, Faults, Precondition, Result, parameters, validate};

const WHAT: &str = "queue";
/// How often a change is tried again that others came before.
const TRIES_MAX: usize = 8;

/// What people write down about a queue, as the store keeps it. Fields of a newer version are lost when an older one changes it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Spec {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(default, skip_serializing_if = "QueueDefaults::is_empty")]
    defaults: QueueDefaults,
}

impl Spec {
    fn read(row: &QueueRow) -> Self {
        serde_json::from_str(&row.spec).unwrap_or_else(|error| {
            tracing::warn!(queue = row.name, %error, "what is written about a queue cannot be read");
            Self::default()
        })
    }

    fn to_text(&self) -> String {
        serde_json::to_string(self).expect("texts are JSON")
    }
}

impl App {
    /// Queues in order of name, with what waits and runs in them.
    pub async fn list_queues(&self, by: &By<ViewJobs>, query: &QueueQuery) -> Result<QueueList> {
        let (limit, cursor) = read_page(query)?;
        let namespace = by.namespace();
        self.0.engine.refresh_queues().await?;
        let loads = self.queue_loads(namespace).await;
        let (names, next_cursor) = self.queue_names(namespace, &cursor.unwrap_or_default(), limit, &loads).await?;
        let known = self.0.engine.queues();
        let view = |name: &String| self.queue_view(namespace, name, known.get(namespace, name), &loads);
        Ok(QueueList { queues: names.iter().map(view).collect(), next_cursor })
    }

    /// The queues after a name, and after which to go on.
    async fn queue_names(
        &self,
        namespace: NamespaceId,
        after: &str,
        limit: usize,
        loads: &Loads,
    ) -> Result<(Vec<String>, Option<String>)> {
        let of_tasks = self.0.store.queue_names(namespace, after, limit + 1).await?;
        let known = self.0.engine.queues();
        let described = known.of(namespace).map(|row| row.name.clone());
        let of_jobs = loads.by_queue.keys().cloned();
        let others = described.chain(of_jobs).chain(loads.named_by_workers.iter().cloned());
        let names: BTreeSet<String> = others.filter(|name| name.as_str() > after).chain(of_tasks).collect();
        let has_more = names.len() > limit;
        let names: Vec<String> = names.into_iter().take(limit).collect();
        let next = names.last().filter(|_| has_more).map(|name| parameters::write_name_cursor(name));
        Ok((names, next))
    }

    /// One queue. One that nothing names is not there.
    pub async fn queue(&self, by: &By<ViewJobs>, name: &str) -> Result<QueueView> {
        validate::name("name", name)?;
        let namespace = by.namespace();
        self.0.engine.refresh_queues().await?;
        let loads = self.queue_loads(namespace).await;
        let known = self.0.engine.queues();
        let row = known.get(namespace, name);
        if row.is_none() && !self.is_named(namespace, name, &loads).await? {
            return Err(not_found(name));
        }
        Ok(self.queue_view(namespace, name, row, &loads))
    }

    /// Whether a task, a job or a worker names the queue.
    async fn is_named(&self, namespace: NamespaceId, name: &str, loads: &Loads) -> Result<bool> {
        if loads.by_queue.contains_key(name) || loads.named_by_workers.contains(name) {
            return Ok(true);
        }
        let before = before(name);
        Ok(self.0.store.queue_names(namespace, &before, 1).await?.first().is_some_and(|first| first == name))
    }

    /// Describes a queue and sets its defaults, which replace those it had.
    pub async fn put_queue(
        &self,
        by: &By<EditTasks>,
        name: &str,
        request: QueueRequest,
        when: Precondition,
    ) -> Result<QueueView> {
        let mut faults = Faults::default();
        faults.check(validate::name("name", name));
        faults.check(request.check());
        faults.check(self.check_queue_defaults(&request.defaults));
        faults.finish()?;
        let description = request.description.filter(|text| !text.is_empty());
        let spec = Spec { description, defaults: request.defaults };
        let namespace = by.namespace();
        let row = self
            .change_queue(namespace, name, |known| {
                when.check(WHAT, name, known.map(|row| row.revision))?;
                by.was(described(known));
                Ok(Some(QueueRow { spec: spec.to_text(), ..new_row(known, namespace, name, &self.changed(by.who())) }))
            })
            .await?;
        let loads = self.queue_loads(namespace).await;
        Ok(self.queue_view(namespace, name, row.as_ref(), &loads))
    }

    /// Jobs of the queue do not start any more; what runs goes on.
    pub async fn pause_queue(&self, by: &By<ControlJobs>, name: &str, request: NoteRequest) -> Result<QueueView> {
        self.set_queue(by, name, QueueState::Paused, request).await
    }

    /// Jobs of the queue start and are accepted again.
    pub async fn resume_queue(&self, by: &By<ControlJobs>, name: &str, request: NoteRequest) -> Result<QueueView> {
        self.set_queue(by, name, QueueState::Active, request).await
    }

    /// Nobody can submit jobs to the queue any more; those that wait start.
    pub async fn drain_queue(&self, by: &By<ControlJobs>, name: &str, request: NoteRequest) -> Result<QueueView> {
        self.set_queue(by, name, QueueState::Draining, request).await
    }

    async fn set_queue(
        &self,
        by: &By<ControlJobs>,
        name: &str,
        state: QueueState,
        request: NoteRequest,
    ) -> Result<QueueView> {
        validate::name("name", name)?;
        let note = check_note(request)?;
        let namespace = by.namespace();
        self.0.engine.refresh_queues().await?;
        let loads = self.queue_loads(namespace).await;
        let has_row = self.0.engine.queues().get(namespace, name).is_some();
        if !has_row && !self.is_named(namespace, name, &loads).await? {
            return Err(not_found(name));
        }
        let row = self
            .change_queue(namespace, name, |known| {
                by.was(described(known));
                let is_as_wanted = |row: &QueueRow| row.state == state && (note.is_none() || row.note == note);
                if known.is_some_and(is_as_wanted) || (known.is_none() && state == QueueState::Active) {
                    // Whoever pauses twice has paused once.
                    return Ok(None);
                }
                let changed = self.changed(by.who());
                let row = new_row(known, namespace, name, &changed);
                Ok(Some(QueueRow { state, state_by: changed, note: note.clone(), ..row }))
            })
            .await?;
        let unconfirmed_servers = self.confirm_queues().await;
        let loads = self.queue_loads(namespace).await;
        Ok(QueueView { unconfirmed_servers, ..self.queue_view(namespace, name, row.as_ref(), &loads) })
    }

    /// Stores what `change` makes of a queue, again if others came before. `None`: it stays as it is. Answers the row, if the queue
    /// has one.
    async fn change_queue(
        &self,
        namespace: NamespaceId,
        name: &str,
        change: impl Fn(Option<&QueueRow>) -> Result<Option<QueueRow>>,
    ) -> Result<Option<QueueRow>> {
        for _ in 0..TRIES_MAX {
            self.0.engine.refresh_queues().await?;
            let known = self.0.engine.queues().get(namespace, name).cloned();
            let Some(row) = change(known.as_ref())? else { return Ok(known) };
            match self.0.store.put_queue(row.clone()).await? {
                QueueChange::Done => return Ok(Some(row)),
                QueueChange::Conflict { .. } => {}
                QueueChange::Full(full) => return Err(too_many(full, row.state)),
            }
        }
        let detail = format!("the queue {name} is being changed by many at once");
        Err(AppError::new(ErrorKind::Unavailable, detail).hint("try again"))
    }

    fn changed(&self, who: &str) -> ChangedBy {
        ChangedBy { at: self.now(), who: who.to_owned() }
    }

    /// Refuses a submission if the queue of one of its tasks drains.
    pub(crate) fn check_queues_open(&self, tasks: &[Arc<Task>]) -> Result<()> {
        let known = self.0.engine.queues();
        if !known.has_draining() {
            return Ok(());
        }
        let row = |task: &Arc<Task>| known.get(task.namespace, &task.spec.queue);
        let draining = tasks.iter().filter_map(row).find(|row| row.state == QueueState::Draining);
        draining.map_or(Ok(()), |row| {
            let detail = format!("queue {} is draining {}", row.name, row.since());
            let hint =
                format!("submit to another queue, or let it accept jobs with POST /v1/queues/{}/resume", row.name);
            Err(AppError::new(ErrorKind::QueueDraining, detail).hint(hint))
        })
    }

    /// Why a due job of the task waits, if that is because its queue is paused.
    pub(crate) fn queue_paused(&self, task: &Task) -> Option<String> {
        let known = self.0.engine.queues();
        let paused = known.get(task.namespace, &task.spec.queue).filter(|row| row.state == QueueState::Paused)?;
        Some(format!("queue {} is paused {}", paused.name, paused.since()))
    }

    fn queue_view(&self, namespace: NamespaceId, name: &str, row: Option<&QueueRow>, loads: &Loads) -> QueueView {
        let empty = QueueLoad::new(namespace, name.to_owned());
        let load = loads.by_queue.get(name).unwrap_or(&empty);
        let spec = row.map(Spec::read).unwrap_or_default();
        let done_by = |by: &ChangedBy| DoneBy { at: by.at, who: by.who.clone() };
        QueueView {
            name: name.to_owned(),
            state: row.map_or(QueueState::Active, |row| row.state).as_str().to_owned(),
            state_changed: row.filter(|row| was_set(row)).map(|row| done_by(&row.state_by)),
            note: row.and_then(|row| row.note.clone()),
            description: spec.description,
            defaults: spec.defaults,
            revision: row.map_or(0, |row| row.revision),
            changed: row.map(|row| done_by(&row.changed)),
            waiting: load.waiting,
            has_more_waiting: load.has_more,
            waiting_since: load.waiting_since,
            running: load.running,
            is_served: loads.served.contains(name),
            uncertain: loads.is_uncertain,
            unconfirmed_servers: Vec::new(),
        }
    }
}

/// The row of a queue that is about to be changed.
fn new_row(known: Option<&QueueRow>, namespace: NamespaceId, name: &str, changed: &ChangedBy) -> QueueRow {
    match known {
        Some(row) => QueueRow { revision: row.revision + 1, changed: changed.clone(), ..row.clone() },
        None => QueueRow {
            namespace,
            name: name.to_owned(),
            revision: 1,
            state: QueueState::Active,
            state_by: ChangedBy { at: punctual_core::Timestamp::EPOCH, who: String::new() },
            note: None,
            changed: changed.clone(),
            spec: Spec::default().to_text(),
        },
    }
}

/// Whether somebody ever paused, drained or resumed it.
fn was_set(row: &QueueRow) -> bool {
    !row.state_by.who.is_empty()
}

/// For the audit log.
fn described(known: Option<&QueueRow>) -> String {
    known.map_or_else(|| "active, never changed".to_owned(), |row| format!("{}, revision {}", row.state, row.revision))
}

/// A text that sorts before the name, and after every other name that sorts before it.
fn before(name: &str) -> String {
    let mut before = name.to_owned();
    // Names have ASCII characters of 0x2d and above alone, and none of them ends in 0x7f.
    if let Some(last) = before.pop() {
        before.push((last as u8 - 1) as char);
        before.push('\x7f');
    }
    before
}

fn check_note(request: NoteRequest) -> Result<Option<String>> {
    if let Some(note) = &request.note {
        validate::argument("/note", note, limits::NOTE_CHARS_MAX)?;
    }
    Ok(request.note.filter(|note| !note.is_empty()))
}

fn too_many(full: QueuesFull, state: QueueState) -> AppError {
    let (own, all) = queues_max(state);
    let (limit, place) = match full {
        QueuesFull::Namespace => (own, "the namespace"),
        QueuesFull::Cluster => (all, "the cluster"),
    };
    let detail = format!("{limit} queues of {place} were paused or described, the limit");
    AppError::new(ErrorKind::TooManyQueues, detail)
        .hint("use fewer queues; labels of workers can tell jobs of one queue apart")
}

fn not_found(name: &str) -> AppError {
    let detail = format!("there is no queue named {name}: no task, job or worker names it");
    let hint = "GET /v1/queues lists those that there are; PUT /v1/queues/{name} describes one before it is used";
    AppError::new(ErrorKind::QueueNotFound, detail).hint(hint)
}

fn read_page(query: &QueueQuery) -> Result<(usize, Option<String>)> {
    parameters::page(query.limit.as_deref(), query.cursor.as_deref(), parameters::name_cursor)
}

impl Checked for QueueQuery {
    fn check(&self) -> Result<()> {
        read_page(self).map(drop)
    }
}

impl Checked for QueueRequest {
    fn check(&self) -> Result<()> {
        let description = self.description.as_ref();
        description.map_or(Ok(()), |text| validate::text("/description", text, limits::NAMESPACE_DESCRIPTION_CHARS_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_first_after_the_text_before_it() {
        let names = ["a", "a-", "a.b", "a0", "aZ", "a_", "az", "b", "b-b", "Z", "0"];
        for name in names {
            let before = before(name);
            assert!(before.as_str() < name, "{name}");
            let others = names.iter().filter(|other| **other > before.as_str() && **other < name);
            assert_eq!(others.count(), 0, "{name}");
        }
    }
}
