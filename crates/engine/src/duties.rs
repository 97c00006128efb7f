//! What happens by itself: keeping leases, taking shards over, letting go of old history.

use std::sync::Arc;

use punctual_core::ShardId;
use punctual_core::shard::event::{Adopted, Event};
use punctual_store::{Owned, Result, Store};

use crate::config::{EngineConfig, Takeover};
use crate::hub::Hub;
use crate::inbox::{Inbox, Input};
use crate::reads::retry;
use crate::tasks::TaskCache;

/// Jobs that leave history in one transaction. More would hold up the writer.
const PRUNE_BATCH: usize = 500;

/// Acquires shards and keeps them.
pub(crate) struct LeaseDuty {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) tasks: Arc<TaskCache>,
    pub(crate) inbox: Inbox,
    pub(crate) config: EngineConfig,
    pub(crate) owned: Vec<Owned>,
}

impl LeaseDuty {
    /// Takes what may be taken now.
    pub(crate) async fn start(&mut self) -> Result<()> {
        let ttl = self.config.lease_ttl;
        let count = self.store.shard_count();
        let taken = match self.config.takeover {
            Takeover::AtOnce => {
                let all = (0..count).map(ShardId).collect();
                self.store.take_over(self.config.server, all, ttl).await?
            }
            Takeover::WhenExpired => self.store.acquire(self.config.server, ttl, usize::from(count)).await?,
        };
        self.adopt(taken).await
    }

    /// Renews, drops what was lost, and takes what became free.
    pub(crate) async fn tick(&mut self) -> Result<()> {
        let ttl = self.config.lease_ttl;
        let kept = self.store.renew(self.config.server, ttl).await?;
        for lost in self.owned.iter().filter(|owned| !kept.contains(owned)) {
            self.inbox.send(Input::Event(Event::Released { shard: lost.shard }));
        }
        self.owned.retain(|owned| kept.contains(owned));
        let unknown: Vec<Owned> = kept.into_iter().filter(|kept| !self.owned.contains(kept)).collect();
        self.adopt(unknown).await?;
        let free = usize::from(self.store.shard_count()).saturating_sub(self.owned.len());
        if free > 0 {
            let taken = self.store.acquire(self.config.server, ttl, free).await?;
            self.adopt(taken).await?;
        }
        Ok(())
    }

    async fn adopt(&mut self, taken: Vec<Owned>) -> Result<()> {
        for owned in taken {
            let event = acquired(&*self.store, &self.tasks, owned).await?;
            self.inbox.send(Input::Event(event));
            self.owned.retain(|known| known.shard != owned.shard);
            self.owned.push(owned);
        }
        Ok(())
    }

    pub(crate) async fn run(mut self, mut taken_again: tokio::sync::mpsc::UnboundedReceiver<Vec<ShardId>>) {
        let mut ticks = tokio::time::interval(self.config.renew_every.to_std());
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => {
                    if let Err(error) = self.tick().await {
                        tracing::warn!(%error, "leases were not renewed; trying again");
                    }
                }
                shards = taken_again.recv() => {
                    let Some(shards) = shards else { return };
                    self.take_again(shards).await;
                }
            }
        }
    }

    /// A batch ended in doubt. A new epoch makes sure that it cannot apply later, and
    /// the rows show whether it did.
    async fn take_again(&mut self, shards: Vec<ShardId>) {
        let (store, server, ttl) = (Arc::clone(&self.store), self.config.server, self.config.lease_ttl);
        self.owned.retain(|owned| !shards.contains(&owned.shard));
        let taken = retry("take over", || store.take_over(server, shards.clone(), ttl)).await;
        for owned in taken {
            let event = retry("read open starts", || acquired(&*store, &self.tasks, owned)).await;
            self.inbox.send(Input::Event(event));
            self.owned.push(owned);
        }
    }
}

async fn acquired(store: &dyn Store, tasks: &TaskCache, owned: Owned) -> Result<Event> {
    let open = store.open_starts(owned.shard).await?;
    let (starts, rows): (Vec<_>, Vec<_>) = open.running.into_iter().unzip();
    let jobs = tasks.join(store, rows).await?;
    let mut jobs = jobs.into_iter().peekable();
    let mut running = Vec::with_capacity(starts.len());
    for start in starts {
        // A job without its task was left out of the join.
        if let Some(job) = jobs.next_if(|job| job.row.key == start.start.key) {
            running.push(Adopted { start, job });
        }
    }
    if !running.is_empty() {
        tracing::info!(shard = %owned.shard, running = running.len(), "took over running attempts");
    }
    Ok(Event::Acquired { shard: owned.shard, epoch: owned.epoch, running, spent: open.spent })
}

/// Lets go of history that is older than its retention.
pub(crate) struct RetentionDuty {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) config: EngineConfig,
}

impl RetentionDuty {
    pub(crate) async fn tick(&self) -> Result<usize> {
        self.hub.tidy();
        let now = (self.config.clock)();
        let before = now - self.config.retention;
        let mut total = 0;
        loop {
            let gone = self.store.prune(before, now, PRUNE_BATCH).await?;
            total += gone;
            if gone < PRUNE_BATCH {
                return Ok(total);
            }
        }
    }

    pub(crate) async fn run(self) {
        let mut ticks = tokio::time::interval(self.config.prune_every.to_std());
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            match self.tick().await {
                Ok(0) => {}
                Ok(jobs) => tracing::debug!(jobs, "old history was removed"),
                Err(error) => tracing::warn!(%error, "old history was not removed; trying again"),
            }
        }
    }
}
