//! Lanes: connections on which batches follow each other in the order of the calls. A batch of
//! one lane goes to it; one that touches shards of several waits until all have come to it.
//!
//! When a connection breaks, nobody knows what became of the batches on it. All that are
//! queued fail, and so does every later one under the same epochs: the owner has to take its
//! shards anew before it writes again, or a batch could be applied without those before it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use punctual_core::shard::write::{Batch, Epoch, JobWrite, ScheduleWrite, Settle, SharedBatch};
use punctual_core::{ShardId, Timestamp};
use punctual_store::{Applied, Result, StoreError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::JoinHandle;

use super::lane::Lane;
use crate::codec::Uuid;
use crate::link::{Link, Pool};
use crate::memory::Memory;
use crate::nodes::Numbers;

/// What waits beyond this waits in its caller.
const QUEUED_MAX: usize = 256;

/// What lanes work with.
pub(crate) struct Applying {
    pub(crate) links: Vec<Link>,
    pub(crate) maintenance: Arc<Pool>,
    pub(crate) memory: Memory,
}

pub(super) struct Common {
    maintenance: Arc<Pool>,
    memory: Memory,
    /// Up to these epochs it is not known what was applied.
    doubt: Mutex<HashMap<ShardId, Epoch>>,
}

pub(super) struct Call {
    pub(super) batch: SharedBatch,
    reply: oneshot::Sender<Result<Applied>>,
    /// Of a batch for several lanes: the others come to it and wait until it is done.
    pub(super) arrived: Vec<oneshot::Receiver<()>>,
    _release: Vec<oneshot::Sender<()>>,
    _permit: OwnedSemaphorePermit,
}

pub(super) enum Message {
    Apply(Call),
    /// Another lane has a batch that also belongs here.
    Wait {
        arrived: oneshot::Sender<()>,
        release: oneshot::Receiver<()>,
    },
}

pub(crate) struct Lanes {
    /// Locked while a call is put into the queues, so that all have the same order.
    inboxes: Mutex<Option<Vec<mpsc::UnboundedSender<Message>>>>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
    room: Arc<Semaphore>,
}

impl Lanes {
    pub(crate) fn start(with: Applying) -> Self {
        let Applying { links, maintenance, memory } = with;
        let common = Arc::new(Common { maintenance, memory, doubt: Mutex::default() });
        let mut inboxes = Vec::new();
        let mut tasks = Vec::new();
        for link in links {
            let (inbox, messages) = mpsc::unbounded_channel();
            let lane = Lane::new(common.clone(), link, messages);
            inboxes.push(inbox);
            tasks.push(tokio::spawn(lane.run()));
        }
        let room = Arc::new(Semaphore::new(QUEUED_MAX));
        Self { inboxes: Mutex::new(Some(inboxes)), tasks: Mutex::new(tasks), room }
    }

    pub(crate) async fn apply(&self, batch: SharedBatch) -> Result<Applied> {
        // Without a wait while there is room: what waits may be woken in another order.
        let permit = match self.room.clone().try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => self.room.clone().acquire_owned().await.map_err(|_| StoreError::Closed)?,
        };
        let (reply, answer) = oneshot::channel();
        self.queue(batch, reply, permit)?;
        answer.await.map_err(|_| StoreError::Closed)?
    }

    fn queue(
        &self,
        batch: SharedBatch,
        reply: oneshot::Sender<Result<Applied>>,
        permit: OwnedSemaphorePermit,
    ) -> Result<()> {
        let inboxes = self.inboxes.lock().unwrap_or_else(PoisonError::into_inner);
        let inboxes = inboxes.as_ref().ok_or(StoreError::Closed)?;
        let lane_of = |shard: ShardId| usize::from(shard.0) % inboxes.len();
        let first = batch.fences.first().map_or(0, |(shard, _)| lane_of(*shard));
        let mut call = Call { batch, reply, arrived: Vec::new(), _release: Vec::new(), _permit: permit };
        if call.batch.fences.iter().any(|(shard, _)| lane_of(*shard) != first) {
            for (_, inbox) in inboxes.iter().enumerate().filter(|(place, _)| *place != first) {
                let (arrived, has_arrived) = oneshot::channel();
                let (release, released) = oneshot::channel();
                inbox.send(Message::Wait { arrived, release: released }).map_err(|_| StoreError::Closed)?;
                call.arrived.push(has_arrived);
                call._release.push(release);
            }
        }
        inboxes[first].send(Message::Apply(call)).map_err(|_| StoreError::Closed)
    }

    /// Answers what is queued.
    pub(crate) async fn close(&self) {
        drop(self.inboxes.lock().unwrap_or_else(PoisonError::into_inner).take());
        let tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        for task in tasks {
            // A panic was reported when it happened.
            let _ = task.await;
        }
    }
}

impl Call {
    pub(super) fn answer(self, answer: Result<Applied>) {
        // An owner that stopped waiting has lost its shards or is gone.
        let _ = self.reply.send(answer);
    }
}

impl Common {
    fn doubt(&self) -> MutexGuard<'_, HashMap<ShardId, Epoch>> {
        self.doubt.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_in_doubt(&self, batch: &Batch) -> bool {
        let doubt = self.doubt();
        batch.fences.iter().any(|(shard, epoch)| doubt.get(shard).is_some_and(|doubtful| epoch <= doubtful))
    }

    /// Answers that it is not known what became of the batch.
    pub(super) fn fail(&self, call: Call, error: &StoreError) {
        let mut doubt = self.doubt();
        for (shard, epoch) in &call.batch.fences {
            let known = doubt.entry(*shard).or_insert(*epoch);
            *known = (*known).max(*epoch);
        }
        drop(doubt);
        let text = match error {
            StoreError::Unavailable(text) => text.clone(),
            other => other.to_string(),
        };
        call.answer(Err(StoreError::Unavailable(text)));
    }

    pub(super) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// What is remembered of partitions turned out to be wrong.
    pub(super) fn forget_partitions(&self) {
        self.memory.forget_partitions();
    }

    /// Partitions and numbers that the batch needs, made outside its transaction.
    pub(super) async fn prepare(&self, batch: &Batch) -> Result<Numbers> {
        let times = batch.job_writes().filter_map(|(_, write)| match write {
            JobWrite::Settle(settle) => Some(settle.finished_at),
            JobWrite::ResolveLost(resolve) => Some(resolve.finished_at),
            _ => None,
        });
        self.memory.partitions.prepare(&self.maintenance, batch.at, times).await?;
        let planned = batch.schedule_writes().filter_map(|(_, write)| match write {
            ScheduleWrite::Decide(decision) => Some(decision.occurrence.at),
            _ => None,
        });
        self.memory.occurrence_partitions.prepare(&self.maintenance, batch.at, planned).await?;
        let mut used: HashMap<Uuid, Timestamp> = HashMap::new();
        for (_, write) in batch.job_writes() {
            if let JobWrite::Settle(Settle { finished_at, attempt: Some(ran), .. }) = write {
                for node in [Uuid::from(ran.worker), Uuid::from(ran.server)] {
                    let latest = used.entry(node).or_insert(*finished_at);
                    *latest = (*latest).max(*finished_at);
                }
            }
        }
        self.memory.nodes.numbers(&self.maintenance, &used).await
    }
}
