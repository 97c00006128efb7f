//! Keeps the leases of this server's shards, takes its share of those that are free, and
//! gives up what is beyond it.
//!
//! Tells the driver of every change in the order in which it happened. Does not decide who
//! is alive; see [`crate::cluster`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use punctual_core::shard::event::{Adopted, Event, TakenSchedules};
use punctual_core::shard::write::Epoch;
use punctual_core::{ServerId, ShardId};
use punctual_store::{Owned, Result, ShardSchedules, Store};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinSet;

use crate::cluster::Cluster;
use crate::config::{EngineConfig, Takeover};
use crate::inbox::{Inbox, Input};
use crate::lease_state::{FOR_EVER, LeaseState};
use crate::queue_states::QueueStates;
use crate::reads::retry;
use crate::tasks::TaskCache;

/// Shards whose rows are read at a time when they are taken over. All at once would take
/// every connection from those who submit.
const READS_AT_ONCE: usize = 8;

/// A shard that retires is given up after this, quiet or not.
const RETIRE_WITHIN: Duration = Duration::from_secs(1);

/// The set of live servers must not have changed for so many looks before shards are given up to
/// them: a server that dies as it starts is not worth a move.
const SETTLED_LOOKS: u32 = 4;

/// A shard that nobody has taken for so many looks is taken whatever the share is.
const ORPHANED_LOOKS: u32 = 6;

/// After a takeover, no shard is given up for so many lease times: it would come back.
const KEPT_TTLS: u32 = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// What runs in it is being read.
    Reading,
    Active,
    /// It starts nothing any more, and is given up when it is quiet.
    Retiring,
}

/// Something that was waited for in the background.
pub(crate) enum Done {
    Read(Owned, Box<Event>),
    Quiet(Vec<Owned>),
}

pub(crate) struct LeaseDuty {
    store: Arc<dyn Store>,
    tasks: Arc<TaskCache>,
    queues: Arc<QueueStates>,
    inbox: Inbox,
    lease: Arc<LeaseState>,
    config: EngineConfig,
    held: BTreeMap<ShardId, (Epoch, Stage)>,
    pub(crate) work: JoinSet<Done>,
    reads: Arc<Semaphore>,
    /// Since when nobody has taken each free shard.
    free_since: BTreeMap<ShardId, Duration>,
    /// Who shares the shards, and since when.
    live: (Vec<ServerId>, Duration),
    /// Nothing is given up before.
    keeps_until: Duration,
}

impl LeaseDuty {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        tasks: Arc<TaskCache>,
        queues: Arc<QueueStates>,
        inbox: Inbox,
        lease: Arc<LeaseState>,
        config: EngineConfig,
    ) -> Self {
        Self {
            store,
            tasks,
            queues,
            inbox,
            lease,
            config,
            held: BTreeMap::new(),
            work: JoinSet::new(),
            reads: Arc::new(Semaphore::new(READS_AT_ONCE)),
            free_since: BTreeMap::new(),
            live: (Vec::new(), Duration::ZERO),
            keeps_until: Duration::ZERO,
        }
    }

    /// Takes what may be taken now, and waits until it is read.
    pub(crate) async fn start(&mut self, cluster: &Cluster) -> Result<()> {
        let (server, ttl) = (self.config.server, self.config.lease_ttl);
        let asked = (self.config.monotonic)();
        let count = self.store.shard_count();
        let taken = match self.config.takeover {
            _ if !self.config.is_scheduler() => Vec::new(),
            Takeover::AtOnce => self.store.take_over(server, (0..count).map(ShardId).collect(), ttl).await?,
            Takeover::WhenExpired => {
                let share = usize::from(count).div_ceil(cluster.live_schedulers(server, ttl).len());
                self.store.acquire(server, ttl, share).await?
            }
        };
        // Also for a server without shards, which accepts jobs.
        self.queues.refresh(&*self.store).await?;
        let (store, tasks, queues) = (&*self.store, &*self.tasks, &*self.queues);
        let reads = stream::iter(taken).map(async |owned| Ok((owned, acquired(store, tasks, queues, owned).await?)));
        let read: Vec<(Owned, Event)> = reads.buffer_unordered(READS_AT_ONCE).try_collect().await?;
        if !read.is_empty() {
            tracing::info!(shards = read.len(), "took shards at start");
        }
        for (owned, event) in read {
            self.inbox.send(Input::Event(event));
            self.held.insert(owned.shard, (owned.epoch, Stage::Active));
        }
        // There is no driver yet that could act on something else.
        self.lease.extend(self.relied_on_until(asked));
        self.publish();
        Ok(())
    }

    fn relied_on_until(&self, asked: Duration) -> Duration {
        let is_exclusive = self.config.takeover == Takeover::AtOnce || !self.config.is_scheduler();
        if is_exclusive { FOR_EVER } else { asked + self.config.lease_relied_on() }
    }

    /// Prolongs the leases, and finds out what was lost.
    pub(crate) async fn renew(&mut self) -> Result<()> {
        if !self.config.is_scheduler() {
            return Ok(());
        }
        let (server, ttl) = (self.config.server, self.config.lease_ttl);
        let asked = (self.config.monotonic)();
        let kept = self.store.renew(server, ttl).await?;
        let is_kept = |shard: ShardId, epoch: Epoch| kept.contains(&Owned { shard, epoch });
        let lost = self.held.iter().filter(|(shard, (epoch, _))| !is_kept(**shard, *epoch));
        let lost: Vec<ShardId> = lost.map(|(shard, _)| *shard).collect();
        if !lost.is_empty() {
            tracing::warn!(shards = lost.len(), which = %list(&lost), "lost the leases of shards");
        }
        for shard in lost {
            self.let_go(shard);
        }
        // Behind what was lost, which the driver must not act on again.
        self.inbox.send(Input::Renewed { until: self.relied_on_until(asked) });
        self.publish();
        // Ours by the store, and not by us: a batch of ours ended in doubt, an answer was lost
        // on its way, or somebody raised the epoch. A new epoch makes sure that nothing from
        // before can apply later, and the rows show what did.
        let unknown: Vec<ShardId> =
            kept.iter().map(|owned| owned.shard).filter(|shard| !self.held.contains_key(shard)).collect();
        if !unknown.is_empty() {
            let taken = self.store.take_over(server, unknown, ttl).await?;
            tracing::info!(shards = taken.len(), "took own shards again, under a new epoch");
            self.adopt(taken);
        }
        Ok(())
    }

    /// The driver does not know what it wrote to these, and has forgotten them.
    pub(crate) fn doubt(&mut self, shards: &[ShardId]) {
        self.held.retain(|shard, _| !shards.contains(shard));
        self.publish();
    }

    /// Takes what is free, up to this server's share, and gives up what is beyond it.
    pub(crate) async fn balance(&mut self, cluster: &Cluster) -> Result<()> {
        let now = (self.config.monotonic)();
        if !self.config.is_scheduler() {
            return Ok(());
        }
        if !self.lease.may_own() {
            self.retire(usize::MAX);
            return Ok(());
        }
        let live = match self.config.takeover {
            Takeover::AtOnce => vec![self.config.server],
            Takeover::WhenExpired => cluster.live_schedulers(self.config.server, self.config.lease_ttl),
        };
        let share = usize::from(self.store.shard_count()).div_ceil(live.len());
        if self.live.0 != live {
            self.live = (live, now);
        }
        self.take_free(cluster, share, now).await?;
        let kept = self.held.values().filter(|(_, stage)| *stage != Stage::Retiring).count();
        let is_settled = now >= self.live.1 + self.looks(SETTLED_LOOKS) && now >= self.keeps_until;
        if is_settled {
            self.retire(kept.saturating_sub(share));
        }
        Ok(())
    }

    async fn take_free(&mut self, cluster: &Cluster, share: usize, now: Duration) -> Result<()> {
        let free: Vec<ShardId> = cluster.free_shards().filter(|shard| !self.held.contains_key(shard)).collect();
        self.free_since.retain(|shard, _| free.contains(shard));
        for &shard in &free {
            self.free_since.entry(shard).or_insert(now);
        }
        let mut limit = share.saturating_sub(self.held.len()).min(free.len());
        let patience = self.looks(ORPHANED_LOOKS);
        let orphans = self.free_since.values().filter(|since| now >= **since + patience).count();
        if limit == 0 && orphans > 0 {
            limit = orphans.div_ceil(self.live.0.len());
            self.keeps_until = now + self.config.lease_ttl.to_std() * KEPT_TTLS;
        }
        if limit > 0 {
            let taken = self.store.acquire(self.config.server, self.config.lease_ttl, limit).await?;
            log_takeover(&taken, cluster);
            self.adopt(taken);
        }
        Ok(())
    }

    fn looks(&self, count: u32) -> Duration {
        self.config.look_every.to_std() * count
    }

    /// Reads what runs in the shards that were just taken, a few at a time.
    fn adopt(&mut self, taken: Vec<Owned>) {
        for owned in taken {
            self.held.insert(owned.shard, (owned.epoch, Stage::Reading));
            let (store, tasks, queues) = (Arc::clone(&self.store), Arc::clone(&self.tasks), Arc::clone(&self.queues));
            let reads = Arc::clone(&self.reads);
            self.work.spawn(async move {
                let _turn = reads.acquire().await;
                let event = retry("read open starts", || acquired(&*store, &tasks, &queues, owned)).await;
                Done::Read(owned, Box::new(event))
            });
        }
    }

    /// Starts to give up so many shards: the driver starts nothing more of them, and what it
    /// has decided becomes durable and is sent.
    fn retire(&mut self, count: usize) {
        let active = self.held.iter_mut().rev().filter(|(_, (_, stage))| *stage == Stage::Active);
        let mut retiring = Vec::new();
        for (&shard, (epoch, stage)) in active.take(count) {
            *stage = Stage::Retiring;
            retiring.push(Owned { shard, epoch: *epoch });
        }
        if retiring.is_empty() {
            return;
        }
        tracing::info!(shards = retiring.len(), "giving up shards to other servers");
        self.publish();
        let (done, quiet) = oneshot::channel();
        let shards = retiring.iter().map(|owned| owned.shard).collect();
        self.inbox.send(Input::Retire { shards, done });
        self.work.spawn(async move {
            let _ = tokio::time::timeout(RETIRE_WITHIN, quiet).await;
            Done::Quiet(retiring)
        });
    }

    /// Something that was waited for has come. It may have been overtaken by a loss.
    pub(crate) async fn done(&mut self, done: Done) {
        match done {
            Done::Read(owned, event) => {
                if self.held.get(&owned.shard) == Some(&(owned.epoch, Stage::Reading)) {
                    self.inbox.send(Input::Event(*event));
                    self.held.insert(owned.shard, (owned.epoch, Stage::Active));
                    self.publish();
                }
            }
            Done::Quiet(retiring) => {
                let is_ours = |owned: &Owned| self.held.get(&owned.shard) == Some(&(owned.epoch, Stage::Retiring));
                let shards: Vec<ShardId> = retiring.iter().filter(|owned| is_ours(owned)).map(|o| o.shard).collect();
                if let Err(error) = self.store.give_up(self.config.server, shards.clone()).await {
                    tracing::warn!(%error, shards = shards.len(), "shards were not given up; taking them again");
                }
                for shard in shards {
                    self.let_go(shard);
                }
            }
        }
    }

    fn let_go(&mut self, shard: ShardId) {
        self.held.remove(&shard);
        self.inbox.send(Input::Event(Event::Released { shard }));
    }

    fn publish(&self) {
        let active = self.held.iter().filter(|(_, (_, stage))| *stage == Stage::Active);
        self.lease.set_owned(active.map(|(shard, _)| *shard).collect());
    }
}

/// One line for each server whose shards were taken over, and one for shards that nobody had.
fn log_takeover(taken: &[Owned], cluster: &Cluster) {
    let mut by_owner: BTreeMap<Option<ServerId>, Vec<ShardId>> = BTreeMap::new();
    for owned in taken {
        let lease = cluster.leases.iter().find(|lease| lease.shard == owned.shard);
        by_owner.entry(lease.and_then(|lease| lease.owner)).or_default().push(owned.shard);
    }
    for (former, shards) in by_owner {
        let which = list(&shards);
        match former {
            Some(former) => {
                tracing::warn!(shards = shards.len(), %which, %former, "took over shards: their lease expired")
            }
            None => tracing::info!(shards = shards.len(), %which, "took shards that nobody owned"),
        }
    }
}

/// The numbers of shards, for a log line; there are at most some hundred.
fn list(shards: &[ShardId]) -> String {
    let numbers: Vec<String> = shards.iter().map(|shard| shard.0.to_string()).collect();
    numbers.join(",")
}

/// What the owner has to know to begin with a shard that was just taken.
async fn acquired(store: &dyn Store, tasks: &TaskCache, queues: &QueueStates, owned: Owned) -> Result<Event> {
    // The owner hears of a pause that was stored before the shard was taken before it hears of the shard.
    queues.refresh(store).await?;
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
    let ShardSchedules { watermark, queued, tracked } = store.shard_schedules(owned.shard).await?;
    let schedules = TakenSchedules { watermark, queued, tracked };
    let Owned { shard, epoch } = owned;
    Ok(Event::Acquired { shard, epoch, running, spent: open.spent, whole_since: open.whole_since, schedules })
}
