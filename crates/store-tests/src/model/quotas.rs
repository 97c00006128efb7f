//! What quotas of namespaces are compared with.

use async_trait::async_trait;
use punctual_core::namespace::NamespaceId;
use punctual_core::{Span, Timestamp};
use punctual_store::{Counted, QuotaUse, RATE_BURST, Result, Spent};

use super::ModelStore;

impl ModelStore {
    pub fn used_now(&self, namespace: NamespaceId, what: Counted, most: u64) -> u64 {
        let state = self.state();
        match what {
            Counted::Jobs => {
                let own = state.hot.values().filter(|hot| state.namespace_of(hot.task) == namespace);
                (own.count() as u64).min(most)
            }
            Counted::Schedules => state.schedules.values().filter(|row| row.namespace == namespace).count() as u64,
            Counted::ArtifactBytes => state.artifact_bytes(namespace),
            Counted::LogBytes if namespace.is_default() => 0,
            Counted::LogBytes => state.log_bytes(namespace),
        }
    }

    pub fn spend_now(&self, namespace: NamespaceId, cost: Span, now: Timestamp) -> Result<Spent> {
        self.state().all_or_nothing(|state| {
            let paid = state.paid_until.get(&namespace).copied().unwrap_or(now).max(now);
            if paid >= now + RATE_BURST {
                // It may spend again one microsecond after it is exactly the burst ahead.
                return Ok(Spent::Wait((paid + Span::from_micros(1)).since(now + RATE_BURST)));
            }
            state.paid_until.put(namespace, paid + cost);
            Ok(Spent::Done)
        })
    }
}

#[async_trait]
impl QuotaUse for ModelStore {
    async fn used(&self, namespace: NamespaceId, what: Counted, most: u64) -> Result<u64> {
        Ok(self.used_now(namespace, what, most))
    }
    async fn spend(&self, namespace: NamespaceId, cost: Span, now: Timestamp) -> Result<Spent> {
        self.spend_now(namespace, cost, now)
    }
}
