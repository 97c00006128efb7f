//! Whether the connected workers have enough slots for all members of a batch at once, busy slots included.
//!
//! For each kind of member alone, and for all of them together. Members of several kinds that share workers may still lack slots;
//! the owner of the shard, which places each member, never starts them then.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use punctual_api::ErrorKind;
use punctual_core::batch::{Contract, Unplaceable};
use punctual_core::shard::event::WorkerSpec;
use punctual_core::task::{Run, Task, TaskSpec, default_queue};
use punctual_core::{NamespaceId, WorkerId};
use punctual_store::BatchRow;

use crate::placement::can_run;
use crate::{App, AppError, Result};

/// A slot that a worker takes from one server and gives to another is counted at neither for a moment. Nothing is refused by one look.
const LOOKS: usize = 2;
const BETWEEN_LOOKS: Duration = Duration::from_millis(500);

/// What a worker must offer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SlotKind {
    queue: String,
    capability: String,
    labels: BTreeMap<String, String>,
}

impl SlotKind {
    pub(super) fn of(spec: &TaskSpec) -> Self {
        Self { queue: spec.queue.clone(), capability: spec.run.capability(), labels: spec.labels.clone() }
    }

    /// Such as ` of queue render with label gpu=yes`.
    fn described(&self) -> String {
        let mut text = String::new();
        if self.queue != default_queue() {
            text += &format!(" of queue {}", self.queue);
        }
        let labels: Vec<String> = self.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        match &labels[..] {
            [] => {}
            [label] => text += &format!(" with label {label}"),
            labels => text += &format!(" with labels {}", labels.join(",")),
        }
        text
    }
}

/// A connected worker, with its slots.
type Slots = HashMap<WorkerId, (WorkerSpec, usize)>;

impl App {
    /// Refuses a gang that the present workers cannot start, if it is to fail then.
    pub(super) async fn check_placeable(&self, tasks: &[Arc<Task>], contract: &Contract) -> Result<()> {
        if contract.unplaceable == Unplaceable::Wait {
            return Ok(());
        }
        let Some(namespace) = tasks.first().map(|task| task.namespace) else { return Ok(()) };
        let mut lack = None;
        for look in 0..LOOKS {
            if look > 0 {
                tokio::time::sleep(BETWEEN_LOOKS).await;
            }
            lack = self.slots_lacking(namespace, tasks.iter().map(|task| &task.spec)).await;
            if lack.is_none() {
                return Ok(());
            }
        }
        let Some(lack) = lack else { return Ok(()) };
        let error = AppError::new(ErrorKind::BatchUnplaceable, format!("the batch {lack}"));
        Err(error.hint("start more workers, or let the batch wait for them with `unplaceable: wait`"))
    }

    /// Which slots do not exist that the members of a batch need at once. `None`: there are enough, or not all servers answered.
    pub(super) async fn batch_lacks(&self, row: &BatchRow) -> Result<Option<String>> {
        let tasks = self.tasks_by_id(row.tasks.iter().map(|(task, _)| *task)).await?;
        let task = |at: u16| row.tasks.get(usize::from(at)).and_then(|(id, _)| tasks.get(id));
        let specs = row.members.iter().filter_map(|member| Some(&task(member.task)?.spec));
        Ok(self.slots_lacking(row.namespace, specs).await)
    }

    /// The same, if it is so again a moment later: for what cannot be taken back.
    pub(super) async fn batch_surely_lacks(&self, row: &BatchRow) -> Result<Option<String>> {
        for _ in 1..LOOKS {
            if self.batch_lacks(row).await?.is_none() {
                return Ok(None);
            }
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
        self.batch_lacks(row).await
    }

    async fn slots_lacking<'a>(
        &self,
        namespace: NamespaceId,
        specs: impl Iterator<Item = &'a TaskSpec>,
    ) -> Option<String> {
        let mut needs: BTreeMap<SlotKind, (&TaskSpec, usize)> = BTreeMap::new();
        // Servers start the runs of workflows.
        for spec in specs.filter(|spec| !matches!(spec.run, Run::Workflow(_))) {
            needs.entry(SlotKind::of(spec)).or_insert((spec, 0)).1 += 1;
        }
        let slots = self.slots_of(namespace).await?;
        let existing = |fits: &dyn Fn(&WorkerSpec) -> bool| -> usize {
            slots.values().filter(|(spec, _)| fits(spec)).map(|(_, slots)| slots).sum()
        };
        for (kind, (spec, needed)) in &needs {
            let exist = existing(&|worker| can_run(spec, worker));
            if *needed > exist {
                return Some(format!("needs {}{} at once, {}", count(*needed), kind.described(), exists(exist)));
            }
        }
        let needed: usize = needs.values().map(|(_, needed)| needed).sum();
        let exist = existing(&|worker| needs.values().any(|(spec, _)| can_run(spec, worker)));
        (needed > exist).then(|| format!("needs {} at once, {}", count(needed), exists(exist)))
    }

    /// The slots of the workers that serve a namespace. Each server knows the part that a worker gives it.
    async fn slots_of(&self, namespace: NamespaceId) -> Option<Slots> {
        let places = self.0.cluster.schedulers();
        let mut slots = Slots::new();
        for there in join_all(places.iter().map(|place| self.workers_at(place))).await {
            for (status, info) in there?.known {
                if status.is_connected && info.spec.namespaces.serves(namespace) {
                    let part = status.credit.max(status.running) as usize;
                    slots.entry(status.id).or_insert((info.spec, 0)).1 += part;
                }
            }
        }
        Some(slots)
    }
}

fn count(slots: usize) -> String {
    if slots == 1 { "1 slot".to_owned() } else { format!("{slots} slots") }
}

fn exists(slots: usize) -> String {
    match slots {
        0 => "none exists".to_owned(),
        1 => "1 exists".to_owned(),
        slots => format!("{slots} exist"),
    }
}
