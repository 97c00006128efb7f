//! The servers of the cluster, as people see them.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;
use punctual_api::{HeldDuty, OwnedShard, ServerList, ServerView};
use punctual_core::{ServerId, Timestamp};
use punctual_store::{DutyLease, Lease, MemberStatus, SeenMember};
use tokio::time::timeout;

use crate::principal::By;
use crate::principal::permission::ViewCluster;
use crate::route::LOOK_LIMIT;
use crate::{App, Peer, Pulse, Result};

/// A server that leaves does not wait long for others.
const GOODBYE: Duration = Duration::from_millis(200);

impl App {
    /// Every server that has a row, with what the store and the server itself say of it.
    pub async fn servers(&self, _: &By<ViewCluster>) -> Result<ServerList> {
        let store = &self.0.store;
        let (members, leases, duties, now) =
            tokio::try_join!(store.members(), store.leases(), store.duties(), store.now())?;
        let pulses = join_all(members.iter().map(|seen| self.pulse_of(seen, now))).await;
        let views = members.into_iter().zip(pulses).map(|(seen, pulse)| {
            let mut view = self.server_view(seen, now);
            if let Some(pulse) = pulse {
                view.workers = pulse.workers;
                view.running = pulse.running;
                view.lag_us = pulse.lag.as_micros();
                view.skew_us = pulse.skew_us;
            }
            (view.id, view)
        });
        let mut servers: BTreeMap<ServerId, ServerView> = views.collect();
        let mut shards_unowned = Vec::new();
        for Lease { shard, epoch, owner, until } in leases {
            let owner = owner.filter(|_| until > now).and_then(|owner| servers.get_mut(&owner));
            match owner {
                Some(view) => view.shards.push(OwnedShard { shard: shard.0, epoch: epoch.0 }),
                None => shards_unowned.push(shard.0),
            }
        }
        for DutyLease { duty, owner, epoch, until } in duties {
            if let Some(view) = servers.get_mut(&owner).filter(|_| until > now) {
                view.duties.push(HeldDuty { name: duty, epoch: epoch.0 });
            }
        }
        let servers = servers.into_values().collect();
        Ok(ServerList { servers, shards_total: self.0.store.shard_count(), shards_unowned })
    }

    /// How a server that is alive is doing, if it answers.
    async fn pulse_of(&self, seen: &SeenMember, now: Timestamp) -> Option<Pulse> {
        let member = &seen.member;
        if member.id == self.0.engine.server() {
            return self.pulse_here().await.ok();
        }
        if !self.is_alive(seen, now) {
            return None;
        }
        let peer = Peer { id: member.id, address: member.address.clone() };
        timeout(LOOK_LIMIT, self.0.peers.pulse(&peer)).await.ok()?.ok()
    }

    /// How this server is doing.
    pub async fn pulse_here(&self) -> Result<Pulse> {
        let MemberStatus { workers, running, lag } = self.0.engine.status().await?;
        let skew = self.0.engine.skew();
        let skew_us = skew.map(|skew| skew.server.as_micros() - skew.store.as_micros());
        Ok(Pulse { workers, running, lag, skew_us })
    }

    /// Tells the others that this server has given up its shards. They find out by themselves, too.
    pub async fn say_goodbye(&self) {
        let peers = self.0.cluster.peers();
        let told = peers.iter().map(|peer| self.0.peers.leaving(peer));
        let _ = timeout(GOODBYE, join_all(told)).await;
    }

    /// A peer has given up its shards.
    pub fn peer_leaving(&self) {
        self.0.engine.look_around();
    }

    fn is_alive(&self, seen: &SeenMember, now: Timestamp) -> bool {
        now.since(seen.seen_at) <= self.0.settings.lease_ttl
    }

    fn server_view(&self, seen: SeenMember, now: Timestamp) -> ServerView {
        let state = if self.is_alive(&seen, now) { "alive" } else { "silent" };
        let SeenMember { member, seen_at } = seen;
        ServerView {
            id: member.id,
            address: member.address,
            version: member.version,
            roles: member.roles,
            state: state.to_owned(),
            answered: member.id == self.0.engine.server(),
            started_at: member.started_at,
            last_seen_at: seen_at,
            shards: Vec::new(),
            duties: Vec::new(),
            workers: member.status.workers,
            running: member.status.running,
            lag_us: member.status.lag.as_micros(),
            skew_us: None,
            zone_data: Some(member.zone_data).filter(|version| !version.is_empty()),
        }
    }
}
