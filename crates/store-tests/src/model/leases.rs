use punctual_core::shard::write::Epoch;
use punctual_core::{ServerId, ShardId, Span, Timestamp};
use punctual_store::{Lease, Owned, Result};

use super::{ModelStore, Shard, State, inconsistent};

impl ModelStore {
    /// The time by the clock of the model.
    pub fn current_time(&self) -> Timestamp {
        self.state().now
    }

    /// The epoch under which a shard may be written; zero when there is no such shard.
    pub fn epoch(&self, shard: ShardId) -> Epoch {
        self.state().shards.get(&shard).map(|row| row.epoch).unwrap_or_default()
    }

    pub fn acquire_now(&self, server: ServerId, ttl: Span, limit: usize) -> Result<Vec<Owned>> {
        self.state().all_or_nothing(|state| {
            let now = state.now;
            let free = |shard: &Shard| shard.owner.is_none() || shard.lease_until <= now;
            let shards: Vec<_> =
                state.shards.iter().filter(|(_, shard)| free(shard)).map(|(id, _)| *id).take(limit).collect();
            shards.into_iter().map(|shard| state.take(server, shard, ttl)).collect()
        })
    }

    pub fn take_over_now(&self, server: ServerId, mut shards: Vec<ShardId>, ttl: Span) -> Result<Vec<Owned>> {
        shards.sort_unstable();
        shards.dedup();
        self.state().all_or_nothing(|state| shards.into_iter().map(|shard| state.take(server, shard, ttl)).collect())
    }

    pub fn renew_now(&self, server: ServerId, ttl: Span) -> Result<Vec<Owned>> {
        self.state().all_or_nothing(|state| {
            let lease_until = state.now + ttl;
            let owned = state.owned_by(server);
            for (id, shard) in &owned {
                state.shards.put(*id, Shard { lease_until, ..shard.clone() });
            }
            Ok(owned.into_iter().map(|(shard, row)| Owned { shard, epoch: row.epoch }).collect())
        })
    }

    pub fn release_now(&self, server: ServerId) -> Result<()> {
        self.state().all_or_nothing(|state| {
            for (id, shard) in state.owned_by(server) {
                state.shards.put(id, Shard { owner: None, lease_until: Timestamp::EPOCH, ..shard });
            }
            Ok(())
        })
    }

    pub fn give_up_now(&self, server: ServerId, shards: &[ShardId]) -> Result<()> {
        self.state().all_or_nothing(|state| {
            for (id, shard) in state.owned_by(server).into_iter().filter(|(id, _)| shards.contains(id)) {
                state.shards.put(id, Shard { owner: None, lease_until: Timestamp::EPOCH, ..shard });
            }
            Ok(())
        })
    }

    pub fn leases_now(&self) -> Vec<Lease> {
        let lease = |(&shard, row): (&ShardId, &Shard)| Lease {
            shard,
            epoch: row.epoch,
            owner: row.owner,
            until: row.lease_until,
        };
        self.state().shards.iter().map(lease).collect()
    }
}

impl State {
    fn take(&mut self, server: ServerId, shard: ShardId, ttl: Span) -> Result<Owned> {
        let mut row =
            self.shards.get(&shard).cloned().ok_or_else(|| inconsistent(format!("there is no shard {shard}")))?;
        row.epoch.0 += 1;
        row.owner = Some(server);
        row.lease_until = self.now + ttl;
        let epoch = row.epoch;
        self.shards.put(shard, row);
        Ok(Owned { shard, epoch })
    }

    fn owned_by(&self, server: ServerId) -> Vec<(ShardId, Shard)> {
        let own = self.shards.iter().filter(|(_, shard)| shard.owner == Some(server));
        own.map(|(id, shard)| (*id, shard.clone())).collect()
    }
}
