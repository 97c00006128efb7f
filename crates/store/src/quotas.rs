//! What quotas of namespaces are compared with. Figures are worked out from the rows when they are asked for; only the rate of
//! submissions has a row of its own.

use async_trait::async_trait;
use punctual_core::namespace::NamespaceId;
use punctual_core::{Span, Timestamp};

use crate::Result;

/// What of a namespace is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// Jobs that wait or run.
    Jobs,
    Schedules,
    /// The declared bytes of artifacts that were not refused.
    ArtifactBytes,
    /// Bytes of logs, archived or not. Not for the default namespace, whose jobs are in no index: there it is zero.
    LogBytes,
}

/// A namespace may be ahead of its rate by the submissions of so long: short bursts pass.
pub const RATE_BURST: Span = Span::from_secs(1);

/// Whether a namespace may submit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spent {
    Done,
    /// Nothing was spent. It may submit after this time.
    Wait(Span),
}

#[async_trait]
pub trait QuotaUse: Send + Sync + 'static {
    /// How much of it a namespace has. Jobs are counted up to `most`: nobody waits for the counting of millions.
    async fn used(&self, namespace: NamespaceId, what: Counted, most: u64) -> Result<u64>;

    /// Takes `cost`, which is the number of submissions divided by the rate, from the time of a namespace. The namespace
    /// must not be [`RATE_BURST`] or more ahead; then it may spend any amount, and waits the longer for the next. So a large
    /// request is never refused for ever.
    ///
    /// One row for each namespace, whatever server asks, so that the rate is that of the cluster. A crash after it means that
    /// something was paid for and not submitted.
    async fn spend(&self, namespace: NamespaceId, cost: Span, now: Timestamp) -> Result<Spent>;
}
