//! Whether a write would succeed now. One probe a second answers everybody who asks, however many they are.

use std::time::Duration;

use punctual_api::ErrorKind;
use punctual_store::StoreError;
use tokio::time::{Instant, timeout};

use crate::{App, AppError, Result};

/// A probe counts for this long.
const PROBE_EVERY: Duration = Duration::from_secs(1);
/// A write that takes longer is of no use to anybody who waits for it.
const PROBE_LIMIT: Duration = Duration::from_secs(2);

/// What the last probe found. Whoever comes while one is under way waits for its answer.
#[derive(Default)]
pub(crate) struct Readiness(tokio::sync::Mutex<Option<(Instant, Result<()>)>>);

impl App {
    /// Whether this server can do its work: a write succeeds, its leases hold and its clock is right.
    pub async fn ready(&self) -> Result<()> {
        self.writable().await?;
        self.0.engine.ready()?;
        if let Some(other) = self.same_address() {
            let detail = format!("{} has the same address {}: workers reach only one of them", other.id, other.address);
            return Err(AppError::new(ErrorKind::Unavailable, detail)
                .hint("give each server an `advertise` address of its own, and restart it"));
        }
        self.0.engine.owned_shards().await?;
        Ok(())
    }

    /// Whether a write succeeded within the last second, with the reason why not.
    pub(crate) async fn writable(&self) -> Result<()> {
        let mut last = self.0.readiness.0.lock().await;
        if let Some((at, result)) = &*last
            && at.elapsed() < PROBE_EVERY
        {
            return result.clone();
        }
        let result = match timeout(PROBE_LIMIT, self.0.store.probe()).await {
            Ok(probed) => probed.map_err(not_writable),
            Err(_) => {
                let silent = format!("a write was not answered within {} s", PROBE_LIMIT.as_secs());
                Err(not_writable(StoreError::Unavailable(silent)))
            }
        };
        *last = Some((Instant::now(), result.clone()));
        result
    }
}

fn not_writable(error: StoreError) -> AppError {
    tracing::debug!(%error, "a probe of the database failed");
    error.into()
}
