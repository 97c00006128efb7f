//! The real clock. It enters here and is passed on from here.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use punctual_core::Timestamp;

/// The time of day.
pub(crate) fn wall() -> Arc<dyn Fn() -> Timestamp + Send + Sync> {
    Arc::new(now)
}

#[expect(clippy::disallowed_methods, reason = "this is where the real clock enters")]
pub(crate) fn now() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::saturating_from_micros(i64::try_from(since_epoch.as_micros()).unwrap_or(i64::MAX))
}

/// How long this process has run, whatever happens to the clock.
pub(crate) fn monotonic() -> Arc<dyn Fn() -> Duration + Send + Sync> {
    let begun = Instant::now();
    Arc::new(move || begun.elapsed())
}
