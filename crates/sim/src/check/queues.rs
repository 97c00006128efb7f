//! Nothing of a paused queue starts once the pause is in force.

use std::collections::BTreeMap;

use punctual_core::shard::write::{JobWrite, Write};
use punctual_core::{AttemptNo, JobId};

use super::schedules::is_void;
use crate::history::{Fact, History, QueueChange};
use crate::queues::QueueKey;

/// Of jobs that clients submitted. A start whose fate its owner did not know may still become durable, and is taken back: what counts
/// is that it began.
pub(super) fn nothing_starts_while_its_queue_is_paused(history: &History) -> Vec<(Option<JobId>, String)> {
    let mut queue_of: BTreeMap<JobId, QueueKey> = BTreeMap::new();
    // Whether the pause of a queue is in force.
    let mut in_force: BTreeMap<&QueueKey, bool> = BTreeMap::new();
    let mut paused_starts: BTreeMap<(JobId, AttemptNo), &QueueKey> = BTreeMap::new();
    let mut found = Vec::new();
    for (_, fact) in history.iter() {
        match fact {
            Fact::Submit { jobs, task, .. } => {
                let queue = || (task.namespace, task.spec.queue.clone());
                queue_of.extend(jobs.iter().map(|id| (*id, queue())));
            }
            Fact::Queue { queue, change } => _ = in_force.insert(queue, *change == QueueChange::InForce),
            Fact::Committed { batch, void } => {
                for write in batch.writes.iter().filter(|write| !is_void(write, void)) {
                    let Write::Job(JobWrite::Start(start)) = write else { continue };
                    let paused = queue_of.get(&start.key.id).and_then(|queue| in_force.get_key_value(queue));
                    if let Some((queue, true)) = paused {
                        paused_starts.insert((start.key.id, start.attempt), queue);
                    }
                }
            }
            Fact::Begin { id, attempt, .. } => {
                if let Some((namespace, queue)) = paused_starts.get(&(*id, *attempt)) {
                    let text = format!("attempt {attempt} was started while queue {queue} of {namespace} was paused");
                    found.push((Some(*id), text));
                }
            }
            _ => {}
        }
    }
    found
}
