//! Reads of the leases, shared by those who ask at the same time. So agents whose attempts are over
//! cannot keep the store busy.

use std::sync::Arc;

use punctual_store::{Lease, Result, Store};
use tokio::sync::Mutex;
use tokio::time::Instant;

/// The last read, and when it began.
#[derive(Default)]
pub(crate) struct SharedLeases(Mutex<Option<(Instant, Arc<[Lease]>)>>);

impl SharedLeases {
    /// As they were at some moment after this was called.
    pub(super) async fn read(&self, store: &dyn Store) -> Result<Arc<[Lease]>> {
        let asked_at = Instant::now();
        let mut last = self.0.lock().await;
        if let Some((read_at, leases)) = &*last
            && *read_at >= asked_at
        {
            return Ok(Arc::clone(leases));
        }
        let read_at = Instant::now();
        let leases: Arc<[Lease]> = store.leases().await?.into();
        *last = Some((read_at, Arc::clone(&leases)));
        Ok(leases)
    }
}
