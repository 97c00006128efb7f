//! How much a namespace stores, for the quotas of jobs and of bytes of logs.
//!
//! A server counts the rows when it needs the figure, and adds what it has accepted since; so one server never accepts more
//! than the quota. What other servers accepted since its last count it does not know: several together may go beyond the
//! quota by what they accept within the age of a count, which is a second, or twenty times as long as counting takes. No job is
//! refused by an old count. Logs do not wait for a count but for the first: they are in a stream with the logs and outcomes of
//! others.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use punctual_core::namespace::NamespaceId;
use punctual_store::{Counted, Store, StoreError};
use tokio::time::Instant;

/// A count says for so long that there is room.
const FRESH: Duration = Duration::from_secs(1);
/// A count says for so long that there is no room. Floods of refused requests cost no more counts than this.
const FRESH_IF_FULL: Duration = Duration::from_millis(100);
/// Counting many jobs takes a while, and is done the less often.
const FRESH_FOR_COUNTS: u32 = 20;
const FULL_FOR_COUNTS: u32 = 5;

pub(super) struct StoredTally {
    what: Counted,
    known: Arc<Mutex<Known>>,
    /// Whose turn it is to count.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Known {
    last: Option<Count>,
    /// Accepted here and maybe not in the last count.
    accepted: u64,
    /// Accepted here and not yet stored: certainly in no count.
    pending: u64,
}

#[derive(Clone, Copy)]
struct Count {
    stored: u64,
    /// Where counting ended.
    most: u64,
    begun: Instant,
    took: Duration,
}

/// Whether the last count is enough to decide.
#[derive(Debug, PartialEq, Eq)]
enum Judged {
    Room { room: u64 },
    Full { used: u64 },
    CountAgain,
}

impl Known {
    fn judge(&self, wanted: u64, quota: u64, now: Instant) -> Judged {
        let Some(last) = self.last else { return Judged::CountAgain };
        let age = now.saturating_duration_since(last.begun);
        let is_cut = last.stored >= last.most && last.most < quota;
        if is_cut || age > FRESH.max(last.took * FRESH_FOR_COUNTS) {
            return Judged::CountAgain;
        }
        let used = last.stored.saturating_add(self.accepted);
        let room = quota.saturating_sub(used);
        if wanted <= room {
            return Judged::Room { room };
        }
        if age > FRESH_IF_FULL.max(last.took * FULL_FOR_COUNTS) {
            return Judged::CountAgain;
        }
        Judged::Full { used: used.min(quota) }
    }

    /// By the last count, however old it is.
    fn room(&self, quota: u64) -> u64 {
        let used = self.last.map_or(0, |last| last.stored).saturating_add(self.accepted);
        quota.saturating_sub(used)
    }

    fn accept(&mut self, count: u64) {
        self.accepted += count;
        self.pending += count;
    }
}

/// What may be stored. Dropping it tells that they were, or were not.
pub(crate) struct Admitted {
    pub(crate) count: usize,
    stored: usize,
    known: Option<Arc<Mutex<Known>>>,
}

impl Admitted {
    pub(super) fn unlimited(count: usize) -> Self {
        Self { count, stored: 0, known: None }
    }

    /// So many were stored.
    pub(crate) fn stored(mut self, count: usize) {
        self.stored = count.min(self.count);
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        if let Some(known) = &self.known {
            let mut known = locked(known);
            known.pending = known.pending.saturating_sub(self.count as u64);
            known.accepted = known.accepted.saturating_sub((self.count - self.stored) as u64);
        }
    }
}

fn locked(known: &Mutex<Known>) -> MutexGuard<'_, Known> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

impl StoredTally {
    pub(super) fn new(what: Counted) -> Self {
        Self { what, known: Arc::default(), turn: tokio::sync::Mutex::default() }
    }

    /// The inner error: it stores so many, and there is no room for all of them.
    pub(super) async fn admit(
        &self,
        store: &dyn Store,
        namespace: NamespaceId,
        count: u64,
        quota: u64,
    ) -> Result<Result<Admitted, u64>, StoreError> {
        loop {
            let asked_at = Instant::now();
            {
                let mut known = locked(&self.known);
                match known.judge(count, quota, asked_at) {
                    Judged::Room { .. } => {
                        known.accept(count);
                        return Ok(Ok(self.admitted(count)));
                    }
                    Judged::Full { used } => return Ok(Err(used)),
                    Judged::CountAgain => {}
                }
            }
            self.count(store, namespace, quota, asked_at).await?;
        }
    }

    /// As many as there is room for.
    pub(super) async fn admit_some(
        &self,
        store: &dyn Store,
        namespace: NamespaceId,
        wanted: u64,
        quota: u64,
    ) -> Result<Admitted, StoreError> {
        loop {
            let asked_at = Instant::now();
            {
                let mut known = locked(&self.known);
                let room = match known.judge(wanted, quota, asked_at) {
                    Judged::Room { room } => Some(room),
                    Judged::Full { used } => Some(quota.saturating_sub(used)),
                    Judged::CountAgain => None,
                };
                if let Some(room) = room {
                    let count = room.min(wanted);
                    known.accept(count);
                    return Ok(self.admitted(count));
                }
            }
            self.count(store, namespace, quota, asked_at).await?;
        }
    }

    /// As many as there is room for by the last count. An old one is replaced while nobody waits for it.
    pub(super) async fn admit_some_at_once(
        self: &Arc<Self>,
        store: &Arc<dyn Store>,
        namespace: NamespaceId,
        wanted: u64,
        quota: u64,
    ) -> Result<Admitted, StoreError> {
        let asked_at = Instant::now();
        if locked(&self.known).last.is_none() {
            self.count(&**store, namespace, quota, asked_at).await?;
        }
        let (count, is_old) = {
            let mut known = locked(&self.known);
            let is_old = known.judge(wanted, quota, asked_at) == Judged::CountAgain;
            let count = known.room(quota).min(wanted);
            known.accept(count);
            (count, is_old)
        };
        if is_old && self.turn.try_lock().is_ok() {
            let (tally, store) = (Arc::clone(self), Arc::clone(store));
            tokio::spawn(async move {
                if let Err(error) = tally.count(&*store, namespace, quota, asked_at).await {
                    tracing::debug!(%error, "what a namespace stores was not counted; the next request tries again");
                }
            });
        }
        Ok(self.admitted(count))
    }

    fn admitted(&self, count: u64) -> Admitted {
        let count = usize::try_from(count).expect("no more than were asked for");
        Admitted { count, stored: 0, known: Some(Arc::clone(&self.known)) }
    }

    /// Counts, unless somebody else has done so since.
    async fn count(
        &self,
        store: &dyn Store,
        namespace: NamespaceId,
        quota: u64,
        asked_at: Instant,
    ) -> Result<(), StoreError> {
        let _turn = self.turn.lock().await;
        if locked(&self.known).last.is_some_and(|last| last.begun >= asked_at && last.most >= quota) {
            return Ok(());
        }
        let begun = Instant::now();
        // What is stored meanwhile may be in the count as well: too many for a moment, never too few.
        let (not_stored, before) = {
            let known = locked(&self.known);
            (known.pending, known.accepted)
        };
        let stored = store.used(namespace, self.what, quota).await?;
        let mut known = locked(&self.known);
        // Those accepted during the count stay on top of it.
        known.accepted = known.accepted.saturating_sub(before).saturating_add(not_stored);
        known.last = Some(Count { stored, most: quota, begun, took: begun.elapsed() });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(stored: u64, most: u64, begun: Instant, took: Duration, accepted: u64) -> Known {
        Known { last: Some(Count { stored, most, begun, took }), accepted, pending: 0 }
    }

    #[test]
    fn a_count_says_for_a_second_that_there_is_room_and_for_a_moment_that_there_is_none() {
        let begun = Instant::now();
        let quick = Duration::from_millis(1);
        let some = known(6, 10, begun, quick, 2);
        assert_eq!(some.judge(2, 10, begun + FRESH), Judged::Room { room: 2 });
        assert_eq!(some.judge(2, 10, begun + FRESH + quick), Judged::CountAgain);
        assert_eq!(some.judge(3, 10, begun + FRESH_IF_FULL), Judged::Full { used: 8 });
        assert_eq!(some.judge(3, 10, begun + FRESH_IF_FULL + quick), Judged::CountAgain, "some may have finished");
        let slow = known(6, 10, begun, Duration::from_secs(2), 2);
        assert_eq!(slow.judge(2, 10, begun + Duration::from_secs(40)), Judged::Room { room: 2 });
        assert_eq!(slow.judge(3, 10, begun + Duration::from_secs(10)), Judged::Full { used: 8 });
        assert_eq!(Known::default().judge(0, 10, begun), Judged::CountAgain);
    }

    #[test]
    fn a_count_that_ended_at_a_smaller_quota_says_nothing_of_a_larger_one() {
        let begun = Instant::now();
        let full = known(10, 10, begun, Duration::ZERO, 0);
        assert_eq!(full.judge(1, 10, begun), Judged::Full { used: 10 });
        assert_eq!(full.judge(1, 20, begun), Judged::CountAgain);
        assert_eq!(full.judge(1, 5, begun), Judged::Full { used: 5 }, "a smaller quota refuses what is new");
    }
}
