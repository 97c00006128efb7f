//! The lease of this server as one value: until when it may act, on which shards, and what keeps it from acting.
//!
//! Safety rests on the fence in the store alone. This is for everything that the fence does
//! not see: a server that may have lost its shards sends nothing and answers nobody.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use punctual_core::ShardId;

use crate::clock::{Monotonic, Skew};

pub(crate) struct LeaseState {
    monotonic: Monotonic,
    /// In microseconds of the monotonic source.
    until: AtomicU64,
    skew: RwLock<Option<Skew>>,
    /// Another server answers at the address of this one.
    is_address_taken: AtomicBool,
    owned: RwLock<Arc<[ShardId]>>,
}

/// For a server that no other can take over from.
pub(crate) const FOR_EVER: Duration = Duration::MAX;

impl LeaseState {
    pub(crate) fn new(monotonic: Monotonic) -> Self {
        Self {
            monotonic,
            until: AtomicU64::new(0),
            skew: RwLock::default(),
            is_address_taken: AtomicBool::new(false),
            owned: RwLock::new([].into()),
        }
    }

    /// Whether the last renewal still covers this moment.
    pub(crate) fn is_current(&self) -> bool {
        micros((self.monotonic)()) < self.until.load(Ordering::Acquire)
    }

    /// Called by the driver alone, after it has let go of what the renewal did not cover.
    pub(crate) fn extend(&self, until: Duration) {
        self.until.fetch_max(micros(until), Ordering::AcqRel);
    }

    pub(crate) fn skew(&self) -> Option<Skew> {
        *self.skew.read().expect("no panic while the lock is held")
    }

    /// Returns the skew that was known before.
    pub(crate) fn set_skew(&self, skew: Skew) -> Option<Skew> {
        self.skew.write().expect("no panic while the lock is held").replace(skew)
    }

    /// Returns what was known before.
    pub(crate) fn set_address_taken(&self, is_taken: bool) -> bool {
        self.is_address_taken.swap(is_taken, Ordering::AcqRel)
    }

    /// Whether this server may own shards: its clock is right, and workers reach it.
    pub(crate) fn may_own(&self) -> bool {
        !self.skew().is_some_and(|skew| skew.is_too_large()) && !self.is_address_taken.load(Ordering::Acquire)
    }

    pub(crate) fn owned(&self) -> Arc<[ShardId]> {
        Arc::clone(&self.owned.read().expect("no panic while the lock is held"))
    }

    pub(crate) fn set_owned(&self, owned: Vec<ShardId>) {
        let mut known = self.owned.write().expect("no panic while the lock is held");
        if **known != owned[..] {
            *known = owned.into();
        }
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
