//! Quotas of running attempts: how many attempts of a namespace this owner may have running.
//!
//! The store divides a quota among the servers ([`running_places`](crate::running_places)). The owner starts an attempt only if
//! fewer run here than it has places; all that is in its memory counts, whoever started it. Three rules make that safe while shards
//! change hands: attempts that leave with a shard take their places along; whoever takes a shard over has no places until it
//! has reported it; and an answer counts only if none of this happened since the report.
//!
//! While no namespace has such a quota, nothing is kept and nothing is looked up. Before it is known whether any has, nothing
//! starts.

use std::collections::BTreeMap;

use crate::id::{JobId, ShardId};
use crate::id_map::IdSet;
use crate::namespace::NamespaceId;
use crate::running_places::{RunningReport, RunningUse};
use crate::shard::fleet::PoolId;
use crate::shard::live::Stage;
use crate::shard::{Owner, QuotasAtStart};

pub(super) struct RunningQuotas {
    /// Whether it is known which namespaces are limited.
    is_known: bool,
    limited: BTreeMap<NamespaceId, Limited>,
    /// Another number whenever an answer to an earlier report would be wrong.
    version: u64,
}

struct Limited {
    quota: u64,
    /// How many may run here.
    places: u64,
    /// What is being started, runs, or has ended and is not yet on record as ended.
    running: IdSet<JobId>,
}

impl RunningQuotas {
    pub(super) fn new(at_start: QuotasAtStart) -> Self {
        Self { is_known: at_start == QuotasAtStart::None, limited: BTreeMap::new(), version: 0 }
    }

    /// How many more attempts of the namespace may start.
    fn room(&self, namespace: NamespaceId) -> usize {
        match self.limited.get(&namespace) {
            Some(limited) => {
                usize::try_from(limited.places).unwrap_or(usize::MAX).saturating_sub(limited.running.len())
            }
            None => usize::MAX,
        }
    }

    pub(super) fn runs(&mut self, namespace: NamespaceId, job: JobId) {
        if let Some(limited) = self.limited.get_mut(&namespace) {
            limited.running.insert(job);
        }
    }

    /// The attempt is on record as ended, or was never recorded.
    pub(super) fn is_over(&mut self, job: JobId) {
        for limited in self.limited.values_mut() {
            limited.running.remove(&job);
        }
    }

    /// A shard was taken over: there are no places until what runs in it was reported.
    pub(super) fn acquired(&mut self) {
        self.version += 1;
        for limited in self.limited.values_mut() {
            limited.places = 0;
        }
    }

    /// What runs in a shard is somebody else's from now on.
    pub(super) fn forget(&mut self, shard: ShardId) {
        self.version += 1;
        for limited in self.limited.values_mut() {
            let before = limited.running.len();
            limited.running.retain(|job| job.shard() != shard);
            limited.places = limited.places.saturating_sub((before - limited.running.len()) as u64);
        }
    }
}

impl Owner {
    /// Which namespaces have a quota of running attempts.
    pub(super) fn set_running_quotas(&mut self, quotas: &[(NamespaceId, u64)]) {
        let former = std::mem::take(&mut self.running_quotas.limited);
        // An answer may be about those that there were.
        self.running_quotas.version += 1;
        let mut limited: BTreeMap<NamespaceId, Limited> = quotas
            .iter()
            .map(|&(namespace, quota)| (namespace, Limited { quota, places: 0, running: IdSet::default() }))
            .collect();
        for live in self.shards.all_live() {
            let is_running = match live.stage {
                Stage::Starting(_) | Stage::Running(_) | Stage::Ending { run: Some(_) } => true,
                Stage::Waiting | Stage::Ready | Stage::Ending { run: None } => false,
            };
            if is_running && let Some(limited) = limited.get_mut(&live.task.namespace) {
                limited.running.insert(live.key.id);
            }
        }
        for (namespace, former) in former {
            if let Some(limited) = limited.get_mut(&namespace) {
                limited.places = former.places;
            }
        }
        self.running_quotas.limited = limited;
        self.running_quotas.is_known = true;
    }

    /// How many attempts may run here, as an answer to the report of this version.
    pub(super) fn set_running_places(&mut self, version: u64, places: &[(NamespaceId, u64)]) {
        if version != self.running_quotas.version {
            return;
        }
        // The next report is about this.
        self.running_quotas.version += 1;
        for (namespace, places) in places {
            if let Some(limited) = self.running_quotas.limited.get_mut(namespace) {
                limited.places = *places;
            }
        }
    }

    /// What runs and waits of namespaces whose running attempts are limited. `None`: there are none.
    pub fn running_report(&self) -> Option<RunningReport> {
        let RunningQuotas { limited, version, .. } = &self.running_quotas;
        if limited.is_empty() {
            return None;
        }
        let report = |(namespace, limited): (&NamespaceId, &Limited)| RunningUse {
            namespace: *namespace,
            quota: limited.quota,
            running: limited.running.len() as u64,
            places: limited.places,
            waiting: self.waits_for_places(*namespace),
        };
        let namespaces = limited.iter().map(report).collect();
        Some(RunningReport { version: *version, shards: self.owned_shards(), namespaces })
    }

    /// Due jobs that a worker with a free slot could run.
    fn waits_for_places(&self, namespace: NamespaceId) -> u64 {
        let is_its = |pool: &PoolId| {
            self.namespace_of(*pool) == Some(namespace) && self.fleet.has_idle(*pool) && !self.is_paused(*pool)
        };
        let pools = self.window.ready_pools(|_| true).into_iter().filter(is_its);
        let queued: usize = pools.map(|pool| self.window.queued_in(pool)).sum();
        (queued + self.gang_members_of(namespace)) as u64
    }

    pub(super) fn namespace_of(&self, pool: PoolId) -> Option<NamespaceId> {
        self.fleet.needs_of(pool).map(|needs| needs.namespace)
    }

    /// How many jobs of the pool may start.
    pub(super) fn room_in(&self, pool: PoolId) -> usize {
        if !self.running_quotas.is_known {
            return 0;
        }
        if self.is_paused(pool) {
            return 0;
        }
        if self.running_quotas.limited.is_empty() {
            return usize::MAX;
        }
        self.namespace_of(pool).map_or(usize::MAX, |namespace| self.running_quotas.room(namespace))
    }
}
