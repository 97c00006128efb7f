//! The quotas of all namespaces in memory, as of the last look at the namespaces.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use punctual_api::Quotas;
use punctual_core::namespace::NamespaceId;
use punctual_store::Counted;

use super::rate::RateTally;
use super::stored::StoredTally;

/// A namespace with quotas.
pub(crate) struct Limited {
    pub(super) name: String,
    pub(super) quotas: Quotas,
    pub(super) tally: Arc<Tally>,
}

/// What this server knows of the use of a namespace. It stays when quotas are changed.
pub(super) struct Tally {
    pub(super) jobs: StoredTally,
    pub(super) log_bytes: Arc<StoredTally>,
    pub(super) rate: RateTally,
    /// Whose turn it is to create schedules.
    pub(super) schedules: Arc<tokio::sync::Mutex<()>>,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            jobs: StoredTally::new(Counted::Jobs),
            log_bytes: Arc::new(StoredTally::new(Counted::LogBytes)),
            rate: RateTally::default(),
            schedules: Arc::default(),
        }
    }
}

const UNKNOWN: u8 = 0;
const NONE: u8 = 1;
const SOME: u8 = 2;

#[derive(Default)]
pub(crate) struct QuotaTable {
    /// Whether any namespace has quotas: all that a request reads if none has.
    known: AtomicU8,
    /// Whether any of them limits its logs: all that a piece of a log reads if none does.
    limits_logs: AtomicBool,
    limited: RwLock<HashMap<NamespaceId, Arc<Limited>>>,
}

impl QuotaTable {
    /// Whether the namespaces were read since the start.
    pub(super) fn is_known(&self) -> bool {
        self.known.load(Ordering::Acquire) != UNKNOWN
    }

    pub(super) fn limits_logs(&self) -> bool {
        self.limits_logs.load(Ordering::Acquire)
    }

    pub(super) fn of(&self, namespace: NamespaceId) -> Option<Arc<Limited>> {
        if self.known.load(Ordering::Acquire) != SOME {
            return None;
        }
        self.limited.read().unwrap_or_else(PoisonError::into_inner).get(&namespace).cloned()
    }

    pub(super) fn all(&self) -> Vec<(NamespaceId, Arc<Limited>)> {
        let limited = self.limited.read().unwrap_or_else(PoisonError::into_inner);
        limited.iter().map(|(id, limited)| (*id, Arc::clone(limited))).collect()
    }

    /// Those that have quotas.
    pub(crate) fn replace(&self, all: impl Iterator<Item = (NamespaceId, String, Quotas)>) {
        let mut limited = self.limited.write().unwrap_or_else(PoisonError::into_inner);
        let new: HashMap<NamespaceId, Arc<Limited>> = all
            .filter(|(_, _, quotas)| !quotas.is_empty())
            .map(|(id, name, quotas)| {
                let tally = limited.get(&id).map(|former| Arc::clone(&former.tally)).unwrap_or_default();
                (id, Arc::new(Limited { name, quotas, tally }))
            })
            .collect();
        let known = if new.is_empty() { NONE } else { SOME };
        self.limits_logs.store(new.values().any(|one| one.quotas.log_bytes.is_some()), Ordering::Release);
        *limited = new;
        self.known.store(known, Ordering::Release);
    }
}
