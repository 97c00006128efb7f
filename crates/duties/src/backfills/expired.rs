//! How many aborted backfills of a namespace wait for the end of their jobs, and for how long.
//!
//! Each costs a read of its jobs every few seconds, and a job that no worker takes never ends. Nobody waits for the
//! result of an aborted backfill, so it expires. Its jobs go on, and its list of runs still shows their states.

use std::collections::{BTreeMap, HashSet};

use punctual_core::{BackfillId, NamespaceId, Span, Timestamp};
use punctual_store::{BACKFILLS_MAX, BackfillRow};

/// As many as may run, because all of those can be aborted at once.
const WAITING_MAX: usize = BACKFILLS_MAX;
/// A job that is still there after a day waits for a worker that may never come.
const WAIT_MAX: Span = Span::from_secs(86_400);

/// The aborted backfills that wait no longer: those that waited too long and, if there are too many, those that have
/// waited longest. `rows` are all running backfills, of all shards.
pub(super) fn expired(rows: &[BackfillRow], now: Timestamp) -> HashSet<BackfillId> {
    let mut by_namespace: BTreeMap<NamespaceId, Vec<(Timestamp, BackfillId)>> = BTreeMap::new();
    for row in rows {
        if let Some(ended) = &row.progress.ended {
            by_namespace.entry(row.namespace).or_default().push((ended.at, row.id));
        }
    }
    let mut over = HashSet::new();
    for mut waiting in by_namespace.into_values() {
        waiting.sort_unstable();
        let too_many = waiting.len().saturating_sub(WAITING_MAX);
        let is_over = |place: usize, ended_at: Timestamp| place < too_many || now.since(ended_at) >= WAIT_MAX;
        let ended = waiting.into_iter().enumerate().filter(|(place, (ended_at, _))| is_over(*place, *ended_at));
        over.extend(ended.map(|(_, (_, id))| id));
    }
    over
}

#[cfg(test)]
mod tests {
    use punctual_core::schedule::By;
    use punctual_core::{ScheduleId, ShardId};
    use punctual_store::{BackfillProgress, BackfillState};

    use super::*;

    /// Aborted so many seconds after the beginning of time, or running.
    fn row(number: u64, ended_secs: Option<i64>) -> BackfillRow {
        let at = |secs| Timestamp::from_micros(secs * 1_000_000).expect("a time");
        let by = |secs| By { at: at(secs), who: "somebody".to_owned() };
        BackfillRow {
            namespace: punctual_core::NamespaceId::DEFAULT,
            id: BackfillId::new(Timestamp::EPOCH, number),
            schedule: ScheduleId::new(Timestamp::EPOCH, ShardId(0), 1),
            schedule_name: "s".to_owned(),
            spec: String::new(),
            created: by(0),
            version: 1,
            progress: BackfillProgress {
                state: BackfillState::Running,
                reached: None,
                total: 1,
                made: 1,
                passed_over: 0,
                succeeded: 0,
                failed: 0,
                cancelled: 0,
                ended: ended_secs.map(by),
                note: None,
            },
        }
    }

    fn expired_places(rows: &[BackfillRow], after_secs: i64) -> Vec<usize> {
        let over = expired(rows, Timestamp::EPOCH + Span::from_secs(after_secs));
        (0..rows.len()).filter(|place| over.contains(&rows[*place].id)).collect()
    }

    #[test]
    fn an_aborted_backfill_expires_after_a_day_and_a_running_one_never() {
        let rows = [row(1, Some(100)), row(2, None), row(3, Some(0))];
        assert_eq!(expired_places(&rows, 86_399), [0_usize; 0]);
        assert_eq!(expired_places(&rows, 86_400), [2]);
        assert_eq!(expired_places(&rows, 86_500), [0, 2]);
        assert_eq!(expired_places(&rows, 9_999_999), [0, 2]);
    }

    #[test]
    fn of_too_many_the_first_that_were_aborted_expire() {
        // The last one made is the first one aborted.
        let count = WAITING_MAX as i64;
        let mut rows: Vec<BackfillRow> = (0..count).map(|number| row(number as u64, Some(count - number))).collect();
        rows.extend((0..50).map(|number| row(1000 + number, None)));
        assert_eq!(expired_places(&rows, count), [0_usize; 0]);
        rows.push(row(2000, Some(count)));
        rows.push(row(2001, Some(count)));
        assert_eq!(expired_places(&rows, count), [WAITING_MAX - 2, WAITING_MAX - 1]);
        // Those of another namespace take nobody's place.
        rows.truncate(rows.len() - 2);
        let elsewhere = |number| BackfillRow { namespace: NamespaceId(1), ..row(number, Some(count)) };
        rows.extend([elsewhere(2000), elsewhere(2001)]);
        assert_eq!(expired_places(&rows, count), [0_usize; 0]);
    }
}
