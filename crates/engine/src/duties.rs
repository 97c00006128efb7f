//! What one server does for all others. Each duty has a lease of its own.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use punctual_core::ServerId;
use punctual_store::{Result, Store};

use crate::clock::Monotonic;
use crate::cluster::Cluster;
use crate::config::EngineConfig;

/// Letting go of old history.
pub const RETENTION: &str = "retention";
/// Looking whether files have arrived.
pub const ARTIFACTS: &str = "artifacts";
/// Moving logs of attempts that ended into object storage.
pub const LOGS: &str = "logs";
/// Telling people of what failed, was missed or is late.
pub const REPORTS: &str = "reports";
/// Forgetting servers that are long gone.
pub(crate) const MEMBERSHIP: &str = "membership";

const ALL: [&str; 5] = [RETENTION, MEMBERSHIP, ARTIFACTS, LOGS, REPORTS];

/// The duties that this server holds.
pub(crate) struct Duties {
    server: ServerId,
    monotonic: Monotonic,
    /// Until when each may be done.
    held: Mutex<BTreeMap<&'static str, Duration>>,
}

impl Duties {
    pub(crate) fn new(config: &EngineConfig) -> Self {
        Self { server: config.server, monotonic: config.monotonic.clone(), held: Mutex::default() }
    }

    pub(crate) fn holds(&self, duty: &str) -> bool {
        let held = self.held.lock().expect("no panic while the lock is held");
        held.get(duty).is_some_and(|until| (self.monotonic)() < *until)
    }

    /// Prolongs what is held, and takes what nobody holds.
    pub(crate) async fn hold(&self, store: &dyn Store, config: &EngineConfig, cluster: &Cluster) -> Result<()> {
        for duty in ALL {
            if cluster.holder_of(duty).is_some_and(|holder| holder != self.server) {
                continue;
            }
            let asked = (self.monotonic)();
            let epoch = store.hold_duty(self.server, duty, config.lease_ttl).await?;
            let mut held = self.held.lock().expect("no panic while the lock is held");
            match epoch {
                Some(_) => held.insert(duty, asked + config.lease_relied_on()),
                None => held.remove(duty),
            };
        }
        Ok(())
    }

    pub(crate) fn drop_all(&self) {
        self.held.lock().expect("no panic while the lock is held").clear();
    }
}
