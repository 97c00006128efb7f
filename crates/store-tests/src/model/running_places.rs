//! How the running attempts that a namespace may have are divided among the servers.

use async_trait::async_trait;
use punctual_core::running_places::{Accounts, RunningReport};
use punctual_core::{NamespaceId, ServerId, Timestamp};
use punctual_store::{Result, RunningPlaces};

use super::ModelStore;

impl ModelStore {
    pub fn exchange_places_now(
        &self,
        server: ServerId,
        seq: u64,
        report: &RunningReport,
        now: Timestamp,
    ) -> Result<Option<Vec<(NamespaceId, u64)>>> {
        self.state().all_or_nothing(|state| {
            if state.running_servers.get(&server).is_some_and(|(known, _)| *known >= seq) {
                return Ok(None);
            }
            let accounts = Accounts {
                owners: state.shards.iter().map(|(id, shard)| (*id, shard.epoch, shard.owner)).collect(),
                reported: state.running_servers.iter().map(|(id, (_, shards))| (*id, shards.clone())).collect(),
                accounts: state.running_places.iter().map(|(key, account)| (*key, *account)).collect(),
            };
            let exchanged = accounts.exchange(server, report, now);
            state.running_servers.put(server, (seq, report.shards.clone()));
            for (namespace, account) in exchanged.accounts {
                state.running_places.put((namespace, server), account);
            }
            for gone in exchanged.gone {
                state.running_servers.take(&gone);
                state.running_places.take_all(|(_, server), _| *server == gone);
            }
            Ok(Some(exchanged.places))
        })
    }

    pub fn running_attempts_now(&self, namespace: NamespaceId) -> u64 {
        let state = self.state();
        state.running_places.iter().filter(|((of, _), _)| *of == namespace).map(|(_, account)| account.running).sum()
    }
}

#[async_trait]
impl RunningPlaces for ModelStore {
    async fn exchange_places(
        &self,
        server: ServerId,
        seq: u64,
        report: RunningReport,
        now: Timestamp,
    ) -> Result<Option<Vec<(NamespaceId, u64)>>> {
        self.exchange_places_now(server, seq, &report, now)
    }
    async fn running_attempts(&self, namespace: NamespaceId) -> Result<u64> {
        Ok(self.running_attempts_now(namespace))
    }
}
