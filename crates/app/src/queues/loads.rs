//! What waits and runs in the queues of a namespace, by the memory of all owners of shards.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::join_all;
use punctual_core::namespace::NamespaceId;
use punctual_core::queue::QueueLoad;
use punctual_core::shard::event::WorkerSpec;
use tokio::time::timeout;

use crate::cluster::Place;
use crate::placement::of_tenant;
use crate::route::LOOK_LIMIT;
use crate::{App, Result};

/// What is known of the queues of a namespace.
#[derive(Default)]
pub(super) struct Loads {
    pub(super) by_queue: BTreeMap<String, QueueLoad>,
    /// Queues that connected workers serve.
    pub(super) served: BTreeSet<String>,
    /// The queues that are there because workers serve them. Where several namespaces share workers, only those of workers that
    /// serve no other one: the others name the queues of all tenants.
    pub(super) named_by_workers: BTreeSet<String>,
    /// Some server did not answer.
    pub(super) is_uncertain: bool,
}

impl App {
    /// What waits and runs in this server's shards, for this server or a peer.
    pub async fn queue_loads_here(&self, namespace: NamespaceId) -> Result<Vec<QueueLoad>> {
        let mut loads = self.0.engine.queue_loads().await?;
        loads.retain(|load| load.namespace == namespace);
        Ok(loads)
    }

    pub(super) async fn queue_loads(&self, namespace: NamespaceId) -> Loads {
        let mut loads = Loads::default();
        let places = self.0.cluster.owners();
        let asked = places.iter().map(async |place| match place {
            Place::Here => self.queue_loads_here(namespace).await.ok(),
            Place::At(peer) => timeout(LOOK_LIMIT, self.0.peers.queue_loads(peer, namespace)).await.ok()?.ok(),
            Place::Nowhere => None,
        });
        for answer in join_all(asked).await {
            let Some(there) = answer else {
                loads.is_uncertain = true;
                continue;
            };
            for load in there {
                match loads.by_queue.get_mut(&load.queue) {
                    Some(known) => known.add(&load),
                    None => _ = loads.by_queue.insert(load.queue.clone(), load),
                }
            }
        }
        loads.is_uncertain |= self.0.cluster.has_unowned_shards();
        let mut all = self.connected_here();
        all.extend(self.workers_elsewhere().await.iter().flat_map(|all| all.iter().cloned()));
        let all: Vec<WorkerSpec> = all.into_iter().map(|worker| worker.spec).collect();
        let has_tenants = self.has_tenants();
        for worker in of_tenant(namespace, &all) {
            if !has_tenants || worker.namespaces.is_only(namespace) {
                loads.named_by_workers.extend(worker.queues.iter().cloned());
            }
            loads.served.extend(worker.queues);
        }
        loads
    }
}
