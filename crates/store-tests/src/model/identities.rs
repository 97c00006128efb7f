//! API keys, people and their sessions.

use async_trait::async_trait;
use punctual_core::Timestamp;
use punctual_core::schedule::By;
use punctual_store::{
    Identities, IdentityChanges, IdentityId, KEYS_MAX, KeyChange, KeyRow, Result, SESSIONS_MAX, SESSIONS_OF_USER_MAX,
    SessionChange, SessionRow, USERS_MAX, UserChange, UserRow, UserSessions, Uses,
};

use super::{ModelStore, State, inconsistent};

#[async_trait]
impl Identities for ModelStore {
    async fn identities_revision(&self) -> Result<u64> {
        self.has_tables()?;
        Ok(self.state().identities_revision())
    }

    async fn identities_since(&self, revision: u64) -> Result<IdentityChanges> {
        self.has_tables()?;
        let state = self.state();
        Ok(IdentityChanges {
            revision: state.identities_revision(),
            keys: later(state.keys.values(), revision),
            users: later(state.users.values(), revision),
            sessions: later(state.sessions.values(), revision),
        })
    }

    async fn add_key(&self, key: KeyRow, replaces: Option<(IdentityId, Timestamp)>) -> Result<KeyChange> {
        // What is not done is undone.
        let mut outcome = Ok(KeyChange::Full);
        let _ = self.state().all_or_nothing(|state| {
            outcome = state.add_key(key, replaces);
            if matches!(outcome, Ok(KeyChange::Done)) { Ok(()) } else { Err(inconsistent("not done")) }
        });
        outcome
    }

    async fn revoke_key(&self, id: IdentityId, revoked: By) -> Result<bool> {
        self.state().all_or_nothing(|state| {
            let change = state.next_identities_revision();
            Ok(state.revoke_key(id, change, &revoked))
        })
    }

    async fn add_user(&self, user: UserRow) -> Result<UserChange> {
        self.state().all_or_nothing(|state| {
            if state.users.values().any(|(_, other)| other.name == user.name && other.deleted_at.is_none()) {
                return Ok(UserChange::NameTaken);
            }
            let is_same =
                |other: &UserRow| user.openid.is_some() && other.openid == user.openid && other.deleted_at.is_none();
            if state.users.values().any(|(_, other)| is_same(other)) {
                return Ok(UserChange::SubjectTaken);
            }
            if state.users.len() >= USERS_MAX {
                return Ok(UserChange::Full);
            }
            let change = state.next_identities_revision();
            state.users.put(user.id, (change, UserRow { deleted_at: None, ..user }));
            Ok(UserChange::Done)
        })
    }

    async fn change_user(&self, user: UserRow, sessions: UserSessions) -> Result<UserChange> {
        self.state().all_or_nothing(|state| Ok(state.change_user(user, sessions)))
    }

    async fn add_session(&self, session: SessionRow, user_revision: u32) -> Result<SessionChange> {
        self.state().all_or_nothing(|state| Ok(state.add_session(session, user_revision)))
    }

    async fn end_session(&self, id: IdentityId, at: Timestamp) -> Result<bool> {
        self.state().all_or_nothing(|state| {
            let change = state.next_identities_revision();
            Ok(state.end_session(id, change, at))
        })
    }

    async fn note_uses(&self, uses: Uses) -> Result<()> {
        self.state().all_or_nothing(|state| {
            let change = state.next_identities_revision();
            for (id, at) in uses.keys {
                if let Some((_, key)) = state.keys.get(&id).filter(|(_, key)| key.last_used_at < Some(at)).cloned() {
                    state.keys.put(id, (change, KeyRow { last_used_at: Some(at), ..key }));
                }
            }
            for (id, at) in uses.sessions {
                let known = state.sessions.get(&id).filter(|(_, known)| known.last_used_at < at).cloned();
                if let Some((_, known)) = known {
                    state.sessions.put(id, (change, SessionRow { last_used_at: at, ..known }));
                }
            }
            Ok(())
        })
    }

    async fn prune_identities(&self, before: Timestamp) -> Result<usize> {
        self.state().all_or_nothing(|state| {
            let count = |state: &State| state.keys.len() + state.users.len() + state.sessions.len();
            let old = |at: Option<Timestamp>| at.is_some_and(|at| at < before);
            let had = count(state);
            state.keys.take_all(|_, (_, key)| old(key.expires_at) || old(key.revoked.as_ref().map(|by| by.at)));
            state.users.take_all(|_, (_, user)| old(user.deleted_at));
            state.sessions.take_all(|_, (_, session)| old(session.ended_at) || session.expires_at < before);
            Ok(had - count(state))
        })
    }
}

fn later<'a, T: Clone + 'a>(rows: impl Iterator<Item = &'a (u64, T)>, revision: u64) -> Vec<T> {
    rows.filter(|(changed, _)| *changed > revision).map(|(_, row)| row.clone()).collect()
}

impl State {
    fn identities_revision(&self) -> u64 {
        self.identities_revision.get(&()).copied().unwrap_or(0)
    }

    fn next_identities_revision(&mut self) -> u64 {
        let next = self.identities_revision() + 1;
        self.identities_revision.put((), next);
        next
    }

    fn add_key(&mut self, key: KeyRow, replaces: Option<(IdentityId, Timestamp)>) -> Result<KeyChange> {
        if self.keys.len() >= KEYS_MAX {
            return Ok(KeyChange::Full);
        }
        let change = self.next_identities_revision();
        if let Some((old, until)) = replaces {
            let found = self.keys.get(&old).filter(|(_, old)| old.revoked.is_none() && old.replaced_by.is_none());
            let Some((_, found)) = found.cloned() else { return Ok(KeyChange::Absent) };
            let expires_at = Some(found.expires_at.map_or(until, |at| at.min(until)));
            self.keys.put(old, (change, KeyRow { replaced_by: Some(key.id), expires_at, ..found }));
        }
        let is_taken = |other: &KeyRow| {
            (other.namespace, &other.name) == (key.namespace, &key.name)
                && other.revoked.is_none()
                && other.replaced_by.is_none()
        };
        if self.keys.values().any(|(_, other)| is_taken(other)) {
            return match replaces {
                None => Ok(KeyChange::NameTaken),
                Some(_) => Err(inconsistent("a key is replaced by one of its own name")),
            };
        }
        self.keys.put(key.id, (change, KeyRow { last_used_at: None, replaced_by: None, revoked: None, ..key }));
        Ok(KeyChange::Done)
    }

    fn revoke_key(&mut self, id: IdentityId, change: u64, revoked: &By) -> bool {
        let found = self.keys.get(&id).filter(|(_, key)| key.revoked.is_none()).cloned();
        let Some((_, key)) = found else { return false };
        self.keys.put(id, (change, KeyRow { revoked: Some(revoked.clone()), ..key }));
        true
    }

    fn end_session(&mut self, id: IdentityId, change: u64, at: Timestamp) -> bool {
        let found = self.sessions.get(&id).filter(|(_, session)| session.ended_at.is_none()).cloned();
        let Some((_, session)) = found else { return false };
        self.sessions.put(id, (change, SessionRow { ended_at: Some(at), ..session }));
        true
    }

    fn change_user(&mut self, user: UserRow, sessions: UserSessions) -> UserChange {
        let found = self.users.get(&user.id).filter(|(_, user)| user.deleted_at.is_none()).cloned();
        let Some((_, found)) = found else { return UserChange::Absent };
        if found.revision.checked_add(1) != Some(user.revision) {
            return UserChange::Conflict { revision: found.revision };
        }
        let change = self.next_identities_revision();
        let (is_deleted, id, by) = (user.deleted_at.is_some(), user.id, user.changed.clone());
        self.users
            .put(id, (change, UserRow { name: found.name, openid: found.openid, created: found.created, ..user }));
        if sessions == UserSessions::End || is_deleted {
            for session in self.open_sessions(id) {
                self.end_session(session, change, by.at);
            }
        }
        if is_deleted {
            let of_user = self.keys.values().filter(|(_, key)| key.owner == Some(id));
            let keys: Vec<IdentityId> = of_user.map(|(_, key)| key.id).collect();
            for key in keys {
                self.revoke_key(key, change, &by);
            }
        }
        UserChange::Done
    }

    /// The latest first.
    fn open_sessions(&self, user: IdentityId) -> Vec<IdentityId> {
        let open = self.sessions.values().map(|(_, session)| session);
        let open = open.filter(|session| session.user == user && session.ended_at.is_none());
        let mut open: Vec<&SessionRow> = open.collect();
        open.sort_by_key(|session| std::cmp::Reverse(session.created_at));
        open.into_iter().map(|session| session.id).collect()
    }

    fn add_session(&mut self, session: SessionRow, user_revision: u32) -> SessionChange {
        let user = self.users.get(&session.user).map(|(_, user)| user);
        if !user.is_some_and(|user| user.deleted_at.is_none() && user.revision == user_revision) {
            return SessionChange::Stale;
        }
        if self.sessions.get(&session.id).is_some() {
            return SessionChange::IdTaken;
        }
        if self.sessions.len() >= SESSIONS_MAX {
            return SessionChange::Full;
        }
        let change = self.next_identities_revision();
        for id in self.open_sessions(session.user).into_iter().skip(SESSIONS_OF_USER_MAX - 1) {
            self.end_session(id, change, session.created_at);
        }
        self.sessions.put(session.id, (change, SessionRow { ended_at: None, ..session }));
        SessionChange::Done
    }
}
