//! All enrolments in memory, so that a connection is judged without the store.
//!
//! Every server reads what has changed each second, so a revocation counts everywhere within that time. While the store is away
//! the last known state counts: nobody can be revoked then, and workers go on.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use punctual_core::{EnrolmentId, Timestamp, WorkerId};
use punctual_store::{ENDED_KEPT_FOR, Enrolment};

#[derive(Default)]
pub(crate) struct EnrolmentTable {
    known: Mutex<Known>,
    /// Whose turn it is to read changes.
    pub(super) turn: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Known {
    is_loaded: bool,
    revision: u64,
    rows: BTreeMap<EnrolmentId, Arc<Enrolment>>,
    /// Enrolled workers with a connection here, and how many they have: a new one may begin before the end of the last is
    /// noticed.
    serving: HashMap<WorkerId, (EnrolmentId, usize)>,
}

/// What an enrolment is worth now.
#[derive(Debug, Clone)]
pub(super) enum Standing {
    Active(Arc<Enrolment>),
    Revoked,
    /// Its last certificate expired.
    Expired,
    Unknown,
    /// This server has not read the enrolments yet.
    NotLoaded,
}

impl Known {
    fn standing(&self, id: EnrolmentId, now: Timestamp) -> Standing {
        match self.rows.get(&id) {
            Some(row) if row.revoked_at.is_some() => Standing::Revoked,
            Some(row) if row.expires_at <= now => Standing::Expired,
            Some(row) => Standing::Active(Arc::clone(row)),
            None if self.is_loaded => Standing::Unknown,
            None => Standing::NotLoaded,
        }
    }
}

impl EnrolmentTable {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn standing(&self, id: EnrolmentId, now: Timestamp) -> Standing {
        self.lock().standing(id, now)
    }

    pub(super) fn revision(&self) -> u64 {
        self.lock().revision
    }

    /// Takes changes in, and drops rows that ended so long ago that the store does not keep them either.
    pub(super) fn keep(&self, rows: Vec<Enrolment>, now: Timestamp) {
        let Some(last) = rows.last() else { return };
        let mut known = self.lock();
        known.revision = last.revision;
        for row in rows {
            known.rows.insert(row.id, Arc::new(row));
        }
        known.rows.retain(|_, row| row.expires_at + ENDED_KEPT_FOR >= now);
    }

    pub(super) fn loaded(&self) {
        self.lock().is_loaded = true;
    }

    /// Nothing that was read counts any more; everything is read again.
    pub(super) fn forget_all(&self) {
        let mut known = self.lock();
        (known.is_loaded, known.revision) = (false, 0);
        known.rows.clear();
    }

    pub(super) fn page(&self, after: Option<EnrolmentId>, limit: usize) -> Vec<Arc<Enrolment>> {
        let known = self.lock();
        let start = after.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        known.rows.range((start, std::ops::Bound::Unbounded)).take(limit).map(|(_, row)| Arc::clone(row)).collect()
    }

    pub(super) fn serves(&self, worker: WorkerId, enrolment: EnrolmentId) {
        let mut known = self.lock();
        let served = known.serving.entry(worker).or_insert((enrolment, 0));
        *served = (enrolment, served.1 + 1);
    }

    pub(crate) fn parted(&self, worker: WorkerId) {
        let mut known = self.lock();
        if let Some((_, connections)) = known.serving.get_mut(&worker) {
            *connections -= 1;
            if *connections == 0 {
                known.serving.remove(&worker);
            }
        }
    }

    /// Workers with a connection here whose enrolment has ended.
    pub(super) fn ended_workers(&self, now: Timestamp) -> Vec<WorkerId> {
        let known = self.lock();
        let has_ended =
            |enrolment| !matches!(known.standing(enrolment, now), Standing::Active(_) | Standing::NotLoaded);
        known.serving.iter().filter(|(_, (enrolment, _))| has_ended(*enrolment)).map(|(worker, _)| *worker).collect()
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::worker_scope::WorkerScope;
    use punctual_core::{JoinTokenId, Span};

    use super::*;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_micros((1_800_000_000 + secs) * 1_000_000).unwrap()
    }

    fn row(number: u64, revision: u64) -> Enrolment {
        Enrolment {
            id: EnrolmentId::new(at(0), number),
            join_token: JoinTokenId::new(at(0), 1),
            name: String::new(),
            scope: WorkerScope {
                namespaces: vec!["default".to_owned()],
                queues: Vec::new(),
                labels: BTreeMap::new(),
                kinds: Vec::new(),
            },
            key_sha256: [0; 32],
            enrolled_at: at(0),
            renewed_at: at(0),
            expires_at: at(100),
            revoked_at: None,
            revision,
        }
    }

    fn worker(number: u64) -> WorkerId {
        WorkerId::new(at(0), number)
    }

    #[test]
    fn an_enrolment_counts_until_it_is_revoked_or_expires() {
        let table = EnrolmentTable::default();
        let id = row(1, 1).id;
        assert!(matches!(table.standing(id, at(0)), Standing::NotLoaded), "nobody is refused before all are known");
        table.keep(vec![row(1, 1)], at(0));
        table.loaded();
        assert!(matches!(table.standing(id, at(99)), Standing::Active(_)));
        assert!(matches!(table.standing(id, at(100)), Standing::Expired));
        assert!(matches!(table.standing(row(2, 1).id, at(0)), Standing::Unknown));
        table.keep(vec![Enrolment { expires_at: at(200), ..row(1, 2) }], at(50));
        assert!(matches!(table.standing(id, at(100)), Standing::Active(_)), "its certificate was renewed");
        table.keep(vec![Enrolment { revoked_at: Some(at(60)), ..row(1, 3) }], at(60));
        assert!(matches!(table.standing(id, at(60)), Standing::Revoked));
        assert_eq!(table.revision(), 3);
        table.keep(vec![row(2, 4)], at(101) + ENDED_KEPT_FOR);
        assert!(matches!(table.standing(id, at(60)), Standing::Unknown), "it is forgotten with the store's row");
    }

    #[test]
    fn connected_workers_of_ended_enrolments_are_found_until_they_part() {
        let table = EnrolmentTable::default();
        table.keep(vec![row(1, 1), row(2, 2)], at(0));
        table.loaded();
        table.serves(worker(1), row(1, 1).id);
        table.serves(worker(1), row(1, 1).id);
        table.serves(worker(2), row(2, 1).id);
        assert_eq!(table.ended_workers(at(0)), []);
        table.keep(vec![Enrolment { revoked_at: Some(at(1)), ..row(1, 3) }], at(1));
        assert_eq!(table.ended_workers(at(1)), [worker(1)]);
        assert_eq!(table.ended_workers(at(0) + Span::from_secs(100)).len(), 2, "both have expired");
        table.parted(worker(1));
        assert_eq!(table.ended_workers(at(1)), [worker(1)], "its other connection is there");
        table.parted(worker(1));
        table.parted(worker(3));
        assert_eq!(table.ended_workers(at(1)), []);
    }

    #[test]
    fn pages_show_every_enrolment_once() {
        let table = EnrolmentTable::default();
        table.keep((1..=3).map(|number| row(number, number)).collect(), at(0));
        let ids = |rows: Vec<Arc<Enrolment>>| rows.iter().map(|row| row.id).collect::<Vec<_>>();
        assert_eq!(ids(table.page(None, 2)), [row(1, 1).id, row(2, 1).id]);
        assert_eq!(ids(table.page(Some(row(2, 1).id), 2)), [row(3, 1).id]);
    }
}
