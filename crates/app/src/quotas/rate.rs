//! How many jobs a namespace submits a second, for the quota of them.
//!
//! The store has one row for each namespace that says until when its submissions are paid for. A server pays for a tenth of a
//! second in advance, so that most requests do not wait for the store, and the rate is that of the cluster however requests are
//! spread over the servers.

use std::time::Duration;

use punctual_core::namespace::NamespaceId;
use punctual_core::{Span, Timestamp};
use punctual_store::{Spent, Store, StoreError};
use tokio::sync::Mutex;
use tokio::time::Instant;

/// The part of a second that a server pays for in advance.
const ADVANCE: u64 = 10;
/// What was paid for in advance is lost after this: a server that nobody asks keeps nothing from the others.
const ADVANCE_KEPT: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct RateTally(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// Submissions that are paid for, until then.
    advance: Option<(u64, Instant)>,
    /// Before then the store would refuse again.
    refused_until: Option<Instant>,
}

impl RateTally {
    /// The inner error says how long to wait. Nothing is paid for then.
    pub(super) async fn pay(
        &self,
        store: &dyn Store,
        namespace: NamespaceId,
        count: u64,
        rate: u64,
        now: Timestamp,
    ) -> Result<Result<(), Span>, StoreError> {
        let mut known = self.0.lock().await;
        let begun = Instant::now();
        let left = known.advance.filter(|(_, until)| begun < *until).map_or(0, |(left, _)| left);
        if let Some(rest) = left.checked_sub(count) {
            known.advance = known.advance.map(|(_, until)| (rest, until));
            return Ok(Ok(()));
        }
        if let Some(until) = known.refused_until.filter(|until| begun < *until) {
            return Ok(Err(span(until - begun)));
        }
        let more = count - left;
        let advance = (rate / ADVANCE).saturating_sub(more);
        match store.spend(namespace, cost(more + advance, rate), now).await? {
            Spent::Done => {
                known.advance = Some((advance, begun + ADVANCE_KEPT));
                known.refused_until = None;
                Ok(Ok(()))
            }
            Spent::Wait(wait) => {
                known.refused_until = Some(begun + wait.to_std());
                Ok(Err(wait))
            }
        }
    }
}

/// The time that so many submissions take at the rate, rounded up.
fn cost(count: u64, rate: u64) -> Span {
    let micros = (u128::from(count) * 1_000_000).div_ceil(u128::from(rate.max(1)));
    Span::from_micros(i64::try_from(micros).unwrap_or(i64::MAX)).min(Span::MAX)
}

fn span(duration: Duration) -> Span {
    Span::from_micros(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)).min(Span::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn submissions_cost_their_part_of_a_second() {
        assert_eq!(cost(1, 1), Span::from_secs(1));
        assert_eq!(cost(10_000, 500), Span::from_secs(20));
        assert_eq!(cost(1, 3), Span::from_micros(333_334));
        assert_eq!(cost(1, 1_000_000), Span::from_micros(1));
        assert_eq!(cost(u64::MAX, 1), Span::MAX);
    }
}
