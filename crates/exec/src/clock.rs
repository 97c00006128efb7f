//! The only place where a worker reads the wall clock.

use std::time::SystemTime;

use punctual_core::Timestamp;

#[expect(clippy::disallowed_methods, reason = "the real clock enters a worker here")]
pub fn now() -> Timestamp {
    // A clock set before 1970 is read as 1970.
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::saturating_from_micros(i64::try_from(since_epoch.as_micros()).unwrap_or(i64::MAX))
}
