//! Makes a change of queues count on all servers, and says which of them have confirmed it.
//!
//! A server confirms when its owner was told, and when no start of a paused queue is on its way to the store any more. Whoever owns a
//! shard by the store is asked, and every other server that is alive. A server that takes a shard over later reads the queues after it
//! got the shard.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;
use punctual_core::ServerId;
use tokio::time::timeout;

use crate::{App, Result};

/// Servers are waited for so long: a look at the store, and the commits that are under way.
const CONFIRMED_WITHIN: Duration = Duration::from_secs(1);
/// Starts that are under way are waited for so long, so that the answer still comes in time.
const SETTLED_WITHIN: Duration = Duration::from_millis(700);

impl App {
    /// Has this server act by the queues as they are stored now, for this server or a peer. False if starts of paused queues are
    /// still on their way to the store.
    pub async fn apply_queues_here(&self) -> Result<bool> {
        self.0.engine.refresh_queues().await?;
        Ok(self.0.engine.paused_starts_settled(SETTLED_WITHIN).await?)
    }

    /// Has all servers act by the queues as they are stored now. Answers those that have not confirmed it.
    pub(super) async fn confirm_queues(&self) -> Vec<ServerId> {
        let me = self.0.engine.server();
        let peers = self.0.cluster.peers();
        let mut servers: BTreeSet<ServerId> = peers.iter().map(|peer| peer.id).chain([me]).collect();
        // By the store, which gives out shards, and after the change: what this server knows may be a moment old.
        let Ok(Ok(leases)) = timeout(CONFIRMED_WITHIN, self.0.store.leases()).await else {
            return servers.into_iter().collect();
        };
        servers.extend(leases.into_iter().filter_map(|lease| lease.owner));
        let asked = servers.into_iter().map(async |server| {
            let confirmed = async {
                if server == me {
                    return self.apply_queues_here().await.unwrap_or(false);
                }
                let Some(peer) = peers.iter().find(|peer| peer.id == server) else { return false };
                self.0.peers.queues_changed(peer).await.unwrap_or(false)
            };
            let is_confirmed = timeout(CONFIRMED_WITHIN, confirmed).await.unwrap_or(false);
            (!is_confirmed).then_some(server)
        });
        join_all(asked).await.into_iter().flatten().collect()
    }
}
