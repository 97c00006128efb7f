//! All keys, people and sessions as they were a moment ago, so that no request waits for the store to know who sends it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use punctual_core::{Span, Timestamp};
use punctual_store::{IdentityChanges, IdentityId, KeyRow, OpenIdSubject, SessionRow, UserRow};

use super::grant::Grant;
use super::user_grants::UserGrants;
use crate::grants::Grants;

/// A use is written down at most so often for each key and session.
const USE_STEP: Span = Span::from_secs(60);
/// What was pruned from the store is let go of, and whatever a database that lost commits left behind.
const WHOLE_EVERY: Span = Span::from_secs(3600);

#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) row: KeyRow,
    pub(crate) grant: Grant,
    used: LastUse,
}

#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) row: SessionRow,
    used: LastUse,
}

/// When something was used last, as far as this server knows.
#[derive(Debug)]
struct LastUse(AtomicI64);

impl LastUse {
    fn new(stored: Option<Timestamp>, known: Option<&Self>) -> Self {
        let stored = stored.map_or(0, Timestamp::as_micros);
        let known = known.map_or(0, |known| known.0.load(Ordering::Relaxed));
        Self(AtomicI64::new(stored.max(known)))
    }

    fn at(&self) -> Timestamp {
        Timestamp::saturating_from_micros(self.0.load(Ordering::Relaxed))
    }

    /// True for one caller in each step: the use is to be written down.
    fn note(&self, now: Timestamp) -> bool {
        let known = self.0.load(Ordering::Relaxed);
        let is_due = now.since(Timestamp::saturating_from_micros(known)) >= USE_STEP;
        is_due && self.0.compare_exchange(known, now.as_micros(), Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

impl Key {
    /// One that was never used.
    pub(crate) fn of(row: KeyRow) -> Self {
        Self { grant: Grant::read(&row.grant), used: LastUse::new(row.last_used_at, None), row }
    }

    pub(crate) fn note_use(&self, now: Timestamp) -> bool {
        self.used.note(now)
    }

    /// Also a use at this server that is not written down yet.
    pub(crate) fn last_used_at(&self) -> Option<Timestamp> {
        Some(self.used.at()).filter(|at| *at != Timestamp::EPOCH)
    }
}

impl Session {
    pub(crate) fn note_use(&self, now: Timestamp) -> bool {
        self.used.note(now)
    }

    pub(crate) fn last_used_at(&self) -> Timestamp {
        self.used.at().max(self.row.last_used_at)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    revision: u64,
    /// When the store was asked for what this shows. `None` before the first time.
    read_at: Option<Timestamp>,
    /// When it was read as a whole; `None` if it has to be.
    whole_at: Option<Timestamp>,
    keys: HashMap<IdentityId, Arc<Key>>,
    users: HashMap<IdentityId, Arc<UserRow>>,
    /// What each person may do.
    grants: HashMap<IdentityId, Grants>,
    /// Of people who are not deleted.
    user_names: HashMap<String, IdentityId>,
    sessions: HashMap<IdentityId, Arc<Session>>,
}

impl Snapshot {
    /// The revision after which it needs the changes; `None` if it needs all rows.
    pub(crate) fn revision(&self, now: Timestamp) -> Option<u64> {
        self.whole_at.filter(|whole_at| now.since(*whole_at) < WHOLE_EVERY).map(|_| self.revision)
    }

    pub(crate) fn read_at(&self) -> Option<Timestamp> {
        self.read_at
    }

    /// The store did not answer: what it shows next may be older than this.
    pub(crate) fn distrust(&mut self) {
        self.whole_at = None;
    }

    /// Nothing has changed.
    pub(crate) fn confirm(&mut self, asked_at: Timestamp) {
        self.read_at = Some(asked_at);
    }

    pub(crate) fn replace(&mut self, rows: IdentityChanges, asked_at: Timestamp) {
        let former = std::mem::take(self);
        self.add(rows, &former);
        (self.read_at, self.whole_at) = (Some(asked_at), Some(asked_at));
    }

    pub(crate) fn apply(&mut self, changes: IdentityChanges, asked_at: Timestamp) {
        let former = Self { keys: self.keys.clone(), sessions: self.sessions.clone(), ..Self::default() };
        self.add(changes, &former);
        self.read_at = Some(asked_at);
    }

    fn add(&mut self, rows: IdentityChanges, former: &Self) {
        let IdentityChanges { revision, keys, users, sessions } = rows;
        self.revision = revision;
        for row in keys {
            let used = LastUse::new(row.last_used_at, former.keys.get(&row.id).map(|key| &key.used));
            self.keys.insert(row.id, Arc::new(Key { grant: Grant::read(&row.grant), row, used }));
        }
        for row in users {
            if row.deleted_at.is_none() {
                self.user_names.insert(row.name.clone(), row.id);
            } else if self.user_names.get(&row.name) == Some(&row.id) {
                self.user_names.remove(&row.name);
            }
            self.grants.insert(row.id, UserGrants::read(&row.role).grants());
            self.users.insert(row.id, Arc::new(row));
        }
        for row in sessions {
            let used = former.sessions.get(&row.id).map(|session| &session.used);
            let used = LastUse::new(Some(row.last_used_at), used);
            self.sessions.insert(row.id, Arc::new(Session { row, used }));
        }
    }

    pub(crate) fn key(&self, id: IdentityId) -> Option<&Arc<Key>> {
        self.keys.get(&id)
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &Arc<Key>> {
        self.keys.values()
    }

    pub(crate) fn session(&self, id: IdentityId) -> Option<&Arc<Session>> {
        self.sessions.get(&id)
    }

    pub(crate) fn sessions(&self) -> impl Iterator<Item = &Arc<Session>> {
        self.sessions.values()
    }

    /// Also one who was deleted a while ago.
    pub(crate) fn user(&self, id: IdentityId) -> Option<&Arc<UserRow>> {
        self.users.get(&id)
    }

    pub(crate) fn user_named(&self, name: &str) -> Option<&Arc<UserRow>> {
        self.users.get(self.user_names.get(name)?)
    }

    /// Looks at everybody, which takes less than a millisecond, once in a login.
    pub(crate) fn user_of_subject(&self, wanted: &OpenIdSubject) -> Option<&Arc<UserRow>> {
        self.users().find(|user| user.openid.as_ref() == Some(wanted))
    }

    /// Those who are not deleted.
    pub(crate) fn users(&self) -> impl Iterator<Item = &Arc<UserRow>> {
        self.users.values().filter(|user| user.deleted_at.is_none())
    }

    /// What a person may do now: nothing if they are disabled or gone.
    pub(crate) fn grants_of_user(&self, id: IdentityId) -> Option<&Grants> {
        self.users.get(&id).filter(|user| !user.disabled && user.deleted_at.is_none())?;
        self.grants.get(&id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_use_is_written_down_once_in_a_while_however_often_it_is_noted() {
        let at = |secs| Timestamp::EPOCH + Span::from_secs(1_000_000 + secs);
        let used = LastUse::new(None, None);
        let noted: Vec<i64> = (0..200).filter(|secs| used.note(at(*secs))).collect();
        assert_eq!(noted, [0, 60, 120, 180]);
        assert_eq!(used.at(), at(180));
        assert_eq!(LastUse::new(Some(at(5)), Some(&used)).at(), at(180), "what the store says later is older");
    }
}
