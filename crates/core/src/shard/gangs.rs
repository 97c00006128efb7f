//! Gangs: the members of a batch that start in one transaction, once there is a slot for each of them.
//!
//! A gang holds no slots while it waits for more. The owner looks at all gangs that are due in one order, the oldest first,
//! and starts one only if the slots that are free at this moment are enough for all of its members; so no two gangs wait for
//! each other. The first for which they are not enough makes jobs and younger gangs hold back on the workers that it could use,
//! until it starts or its start timeout is over: then slots become free and are not taken. Workers that are
//! connected to several servers give their credit first to the server with the oldest gang, by the same order; see
//! [`credits`](crate::credits).
//!
//! Members in memory are not in the queues of their pools, where jobs would be started one by one, and do not count for the
//! window: two gangs that each have half of their members in a full window would wait for ever. Does not know what a batch
//! comes to; see [`batch`](crate::batch).

use std::collections::{BTreeMap, BTreeSet};

use crate::batch::{Contract, Gang, OnStartTimeout};
use crate::id::{BatchId, JobId, ShardId, WorkerId};
use crate::job::JobKey;
use crate::lifecycle::JobEvent;
use crate::namespace::NamespaceId;
use crate::shard::fleet::{FreeSlots, Placing, PoolId, SlotNeeds};
use crate::shard::{Owner, planted};
use crate::time::Timestamp;

/// Gangs that one turn of matching looks at. Younger ones wait until these have started or failed.
const TRIED_MAX: usize = 64;

/// The order of gangs, the same for all servers and workers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct GangKey {
    pub due_at: Timestamp,
    pub batch: BatchId,
}

impl GangKey {
    pub const LEN: usize = 24;

    /// For the worker protocol.
    pub fn to_bytes(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..8].copy_from_slice(&self.due_at.as_micros().to_be_bytes());
        bytes[8..].copy_from_slice(&self.batch.to_bytes());
        bytes
    }

    /// `None` if the bytes are something else.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (due_at, batch) = bytes.split_first_chunk::<8>()?;
        let due_at = Timestamp::from_micros(i64::from_be_bytes(*due_at))?;
        Some(Self { due_at, batch: BatchId::from_bytes(batch)? })
    }
}

struct WaitingGang {
    gang: Gang,
    /// The members in memory.
    members: BTreeMap<JobId, PoolId>,
    /// How many of them are of each pool.
    needs: SlotNeeds,
    is_due: bool,
}

impl WaitingGang {
    fn is_complete(&self) -> bool {
        self.is_due && self.members.len() >= usize::from(self.gang.size)
    }
}

/// The members of gangs in memory that have not started.
pub(super) struct Gangs {
    all: BTreeMap<GangKey, WaitingGang>,
    /// Members of all gangs.
    len: usize,
    len_max: usize,
    /// Members that found no room, by shard: the first of each.
    left_out: BTreeMap<ShardId, JobKey>,
    /// The gang that makes others hold back.
    holding: Option<GangKey>,
    /// Gangs that the fleet could not start if all of it were idle. Nobody holds back for them.
    unplaceable: BTreeSet<GangKey>,
}

impl Gangs {
    pub(super) fn new(window_max: usize) -> Self {
        // The oldest gang always finds room, however large it is.
        let len_max = window_max.max(2 * Contract::GANG_MAX);
        Self {
            all: BTreeMap::new(),
            len: 0,
            len_max,
            left_out: BTreeMap::new(),
            holding: None,
            unplaceable: BTreeSet::new(),
        }
    }

    pub(super) fn insert(&mut self, key: GangKey, gang: Gang, job: JobId, pool: PoolId, is_due: bool) {
        let new = || WaitingGang { gang, members: BTreeMap::new(), needs: SlotNeeds::new(), is_due: false };
        let waiting = self.all.entry(key).or_insert_with(new);
        // Those that are here already are woken with it.
        waiting.is_due |= is_due && waiting.members.is_empty();
        if waiting.members.insert(job, pool).is_none() {
            self.len += 1;
            *waiting.needs.entry(pool).or_default() += 1;
        }
    }

    pub(super) fn remove(&mut self, key: GangKey, job: JobId) {
        let Some(waiting) = self.all.get_mut(&key) else { return };
        if let Some(pool) = waiting.members.remove(&job) {
            self.len -= 1;
            let left = waiting.needs.get(&pool).map_or(0, |count| count.saturating_sub(1));
            match left {
                0 => _ = waiting.needs.remove(&pool),
                left => _ = waiting.needs.insert(pool, left),
            }
        }
        if waiting.members.is_empty() {
            self.all.remove(&key);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Marks the gangs that are due by `limit`. Each of these members must then be woken.
    pub(super) fn take_due(&mut self, limit: Timestamp) -> Vec<JobId> {
        let mut due = Vec::new();
        for (key, waiting) in &mut self.all {
            if key.due_at > limit {
                break;
            }
            if !waiting.is_due {
                waiting.is_due = true;
                due.extend(waiting.members.keys());
            }
        }
        due
    }

    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.all.iter().find(|(_, waiting)| !waiting.is_due).map(|(key, _)| key.due_at)
    }

    fn due(&self) -> impl Iterator<Item = (&GangKey, &WaitingGang)> {
        self.all.iter().filter(|(_, waiting)| waiting.is_due)
    }

    pub(super) fn has_due(&self) -> bool {
        // They become due in their order.
        self.all.first_key_value().is_some_and(|(_, waiting)| waiting.is_due)
    }

    pub(super) fn due_len(&self) -> usize {
        self.due().map(|(_, waiting)| waiting.members.len()).sum()
    }

    /// Members of these pools that are due.
    pub(super) fn due_in(&self, pools: &[PoolId]) -> usize {
        let needs = self.due().flat_map(|(_, waiting)| &waiting.needs);
        needs.filter(|(pool, _)| pools.contains(pool)).map(|(_, count)| count).sum()
    }

    pub(super) fn pools(&self) -> impl Iterator<Item = PoolId> {
        self.all.values().flat_map(|waiting| waiting.needs.keys().copied())
    }

    /// By pool: how many members are due, and since when, of those that are due by `limit`.
    pub(super) fn pressing(&self, limit: Timestamp) -> BTreeMap<PoolId, (usize, Option<Timestamp>)> {
        let mut pressing: BTreeMap<PoolId, (usize, Option<Timestamp>)> = BTreeMap::new();
        for (key, waiting) in self.all.iter().take_while(|(key, _)| key.due_at <= limit) {
            for (pool, count) in &waiting.needs {
                let (ready, since) = pressing.entry(*pool).or_default();
                if waiting.is_due {
                    *ready += count;
                    since.get_or_insert(key.due_at);
                }
            }
        }
        pressing
    }

    /// Gangs whose members are all here and due, the oldest first.
    fn complete(&self, limit: usize) -> Vec<GangKey> {
        self.all.iter().filter(|(_, waiting)| waiting.is_complete()).map(|(key, _)| *key).take(limit).collect()
    }

    fn needs(&self, key: GangKey) -> SlotNeeds {
        self.all.get(&key).map(|waiting| waiting.needs.clone()).unwrap_or_default()
    }

    /// Whether others may hold back for a gang that lacks slots.
    fn may_hold(&self, key: GangKey, now: Timestamp) -> bool {
        let is_in_time = |waiting: &WaitingGang| now <= key.due_at + waiting.gang.timeout;
        !self.unplaceable.contains(&key) && self.all.get(&key).is_some_and(is_in_time)
    }

    /// The gang that makes others hold back, with what it needs.
    pub(super) fn holding(&self) -> Option<(GangKey, SlotNeeds)> {
        self.holding.map(|key| (key, self.needs(key)))
    }
}

/// Why the members of a gang wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GangView {
    pub batch: BatchId,
    pub size: usize,
    /// Members that this owner has in memory. It starts none before it has all.
    pub present: usize,
    /// Free slots that are missing, of those at hand.
    pub lacking: usize,
    /// Older gangs that wait for slots.
    pub older: usize,
    /// Whether other jobs hold back for it.
    pub holds: bool,
    /// Its queue is paused, or its namespace has no place left in its quota.
    pub is_barred: bool,
}

impl Owner {
    /// Makes room for a member of a gang, by leaving out the members of younger gangs. False if all others are older.
    pub(super) fn make_gang_room(&mut self, key: GangKey) -> bool {
        while self.window.gangs.len >= self.window.gangs.len_max {
            let Some((&youngest, waiting)) = self.window.gangs.all.last_key_value() else { return true };
            if youngest <= key {
                return false;
            }
            for id in waiting.members.keys().copied().collect::<Vec<_>>() {
                self.dequeue(id);
                let shard = self.shard_mut(id.shard()).expect("waiting jobs are of owned shards");
                if let Some(live) = shard.remove(id) {
                    self.leave_out(live.key);
                }
            }
        }
        true
    }

    /// Remembers to read a member again for which there was no room. It is not parked: its pool may have room.
    pub(super) fn leave_out(&mut self, key: JobKey) {
        let first = self.window.gangs.left_out.entry(key.shard()).or_insert(key);
        *first = key.min(*first);
    }

    /// Reads again what was left out, once there is room for the largest gang.
    pub(super) fn read_left_out(&mut self) {
        let gangs = &mut self.window.gangs;
        if gangs.left_out.is_empty() || gangs.len + Contract::GANG_MAX > gangs.len_max {
            return;
        }
        for (shard, key) in std::mem::take(&mut gangs.left_out) {
            if let Some(shard) = self.shard_mut(shard) {
                shard.sweeps.read_again(key);
            }
        }
    }

    /// Starts the gangs for which there are enough free slots, and holds slots back for the oldest of the others.
    pub(super) fn match_gangs(&mut self) {
        self.window.gangs.holding = None;
        self.fleet.hold_for(BTreeSet::new());
        if !self.window.gangs.has_due() {
            return;
        }
        for key in self.gangs_to_try() {
            let needs = self.window.gangs.needs(key);
            if self.is_gang_barred(&needs) {
                continue;
            }
            match self.fleet.place(&needs, FreeSlots::Unheld) {
                Placing::Fits(slots) => self.start_gang(key, slots),
                Placing::Lacks(_) => {
                    if self.window.gangs.may_hold(key, self.now) && self.window.gangs.holding.is_none() {
                        self.window.gangs.holding = Some(key);
                        self.fleet.hold_for(needs.into_keys().collect());
                    }
                }
            }
        }
    }

    fn gangs_to_try(&self) -> Vec<GangKey> {
        if planted!(self.config, GangStartsIncomplete) {
            return self.window.gangs.due().map(|(key, _)| *key).take(TRIED_MAX).collect();
        }
        self.window.gangs.complete(TRIED_MAX)
    }

    fn start_gang(&mut self, key: GangKey, mut slots: BTreeMap<PoolId, Vec<WorkerId>>) {
        let Some(waiting) = self.window.gangs.all.get(&key) else { return };
        let members: Vec<(JobId, PoolId)> = waiting.members.iter().map(|(job, pool)| (*job, *pool)).collect();
        for (job, pool) in members {
            let worker = slots.get_mut(&pool).and_then(Vec::pop).expect("there is a slot for each member");
            self.dequeue(job);
            self.start(job, worker, Some(key.batch));
        }
    }

    /// Whether something else than slots keeps members of these pools from starting.
    fn is_gang_barred(&self, needs: &SlotNeeds) -> bool {
        let mut of_namespace: BTreeMap<Option<NamespaceId>, usize> = BTreeMap::new();
        for (pool, count) in needs {
            let wanted = of_namespace.entry(self.namespace_of(*pool)).or_default();
            *wanted += count;
            if self.room_in(*pool) < *wanted || self.fleet.awaits_arrival(*pool) {
                return true;
            }
        }
        false
    }

    /// Members of gangs of a namespace that are due and could run if it had places for them.
    pub(super) fn gang_members_of(&self, namespace: NamespaceId) -> usize {
        let pools: BTreeSet<PoolId> = self.window.gangs.pools().collect();
        let its = |pool: &PoolId| self.namespace_of(*pool) == Some(namespace) && !self.is_paused(*pool);
        self.window.gangs.due_in(&pools.into_iter().filter(its).collect::<Vec<_>>())
    }

    /// Ends the gangs that could not start in time, if they are to fail then.
    pub(super) fn end_late_gangs(&mut self) {
        let is_late = |(key, waiting): &(&GangKey, &WaitingGang)| {
            waiting.gang.on_timeout == OnStartTimeout::Fail && self.now > key.due_at + waiting.gang.timeout
        };
        let late: Vec<(Gang, Vec<JobId>)> = (self.window.gangs.due())
            .filter(is_late)
            .map(|(_, waiting)| (waiting.gang, waiting.members.keys().copied().collect()))
            .collect();
        for (gang, members) in late {
            let reason = format!("its batch of {} could not start together within {}", gang.size, gang.timeout);
            for id in members {
                self.settle_waiting(id, JobEvent::Fail, Some(reason.clone()));
            }
        }
    }

    /// The oldest gangs that are due and complete. Whoever knows the whole fleet says which of them it cannot start.
    pub fn oldest_gangs(&self, limit: usize) -> Vec<GangKey> {
        self.window.gangs.complete(limit)
    }

    /// Gangs that the fleet could not start if all of it were idle: these and no others.
    pub(super) fn set_unplaceable_gangs(&mut self, gangs: Vec<GangKey>) {
        self.window.gangs.unplaceable = gangs.into_iter().collect();
    }

    /// The gang that makes other jobs hold back now.
    pub fn holding_gang(&self) -> Option<GangKey> {
        self.window.gangs.holding
    }

    /// What the gang of a job waits for; `None` if the job is of none, or has started.
    pub fn gang_of(&self, id: JobId) -> Option<GangView> {
        let (key, gang) = self.shards.live(id).filter(|live| live.is_in_window())?.gang()?;
        let waiting = self.window.gangs.all.get(&key)?;
        let needs = self.window.gangs.needs(key);
        let holds = self.window.gangs.holding == Some(key);
        let lacking = match self.fleet.place(&needs, if holds { FreeSlots::All } else { FreeSlots::Unheld }) {
            Placing::Fits(_) => 0,
            Placing::Lacks(count) => count,
        };
        Some(GangView {
            batch: key.batch,
            size: usize::from(gang.size),
            present: waiting.members.len(),
            lacking,
            older: self.window.gangs.all.range(..key).filter(|(_, older)| older.is_complete()).count(),
            holds,
            is_barred: self.is_gang_barred(&needs),
        })
    }
}
