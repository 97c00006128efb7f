use punctual_core::{EnrolmentId, JoinTokenId, Timestamp};
use punctual_store::{
    ENDED_KEPT_FOR, ENDED_REMOVED_MAX, ENROLMENTS_MAX, Enrolment, EnrolmentChanges, JOIN_TOKENS_MAX, JoinRefusal,
    JoinRequest, JoinTokenRow, Joined, Result,
};

use super::{ModelStore, State};

impl ModelStore {
    pub fn add_join_token_now(&self, token: JoinTokenRow) -> Result<bool> {
        self.state().all_or_nothing(|state| {
            let ended = token.created_at - ENDED_KEPT_FOR;
            let mut old: Vec<_> = state.join_tokens.values().filter(|token| token.expires_at < ended).collect();
            old.sort_by_key(|token| (token.expires_at, token.id));
            let old: Vec<_> = old.into_iter().take(ENDED_REMOVED_MAX).map(|token| token.id).collect();
            old.iter().for_each(|id| drop(state.join_tokens.take(id)));
            let has_room = state.join_tokens.len() < JOIN_TOKENS_MAX;
            if has_room {
                state.join_tokens.put(token.id, token);
            }
            Ok(has_room)
        })
    }

    pub fn join_tokens_now(&self) -> Vec<JoinTokenRow> {
        self.state().join_tokens.values().cloned().collect()
    }

    pub fn join_token_now(&self, id: JoinTokenId) -> Option<JoinTokenRow> {
        self.state().join_tokens.get(&id).cloned()
    }

    pub fn revoke_join_token_now(&self, id: JoinTokenId, at: Timestamp) -> Result<bool> {
        self.state().all_or_nothing(|state| match state.join_tokens.get(&id).cloned() {
            Some(token) if token.revoked_at.is_none() => {
                state.join_tokens.put(id, JoinTokenRow { revoked_at: Some(at), ..token });
                Ok(true)
            }
            Some(_) | None => Ok(false),
        })
    }

    pub fn enrol_now(&self, request: JoinRequest) -> Result<Joined> {
        self.state().all_or_nothing(|state| Ok(state.enrol(request)))
    }

    pub fn renew_enrolment_now(
        &self,
        id: EnrolmentId,
        now: Timestamp,
        expires_at: Timestamp,
    ) -> Result<Option<Enrolment>> {
        self.state().all_or_nothing(|state| Ok(state.renew(id, now, expires_at)))
    }

    pub fn revoke_enrolment_now(&self, id: EnrolmentId, at: Timestamp) -> Result<bool> {
        self.state().all_or_nothing(|state| {
            let known = state.enrolments.get(&id).filter(|row| row.revoked_at.is_none()).cloned();
            let Some(row) = known else { return Ok(false) };
            let revision = state.next_enrolment_revision();
            state.enrolments.put(id, Enrolment { revoked_at: Some(at), revision, ..row });
            Ok(true)
        })
    }

    pub fn set_worker_namespaces_now(&self, id: EnrolmentId, namespaces: Vec<String>) -> Result<Option<Enrolment>> {
        self.state().all_or_nothing(|state| {
            let known = state.enrolments.get(&id).filter(|row| row.revoked_at.is_none()).cloned();
            Ok(known.map(|row| state.set_namespaces(row, &namespaces)))
        })
    }

    pub fn set_token_namespaces_now(&self, id: JoinTokenId, namespaces: Vec<String>) -> Result<Option<JoinTokenRow>> {
        self.state().all_or_nothing(|state| {
            let Some(mut token) = state.join_tokens.get(&id).cloned() else { return Ok(None) };
            token.scope.namespaces.clone_from(&namespaces);
            state.join_tokens.put(id, token.clone());
            let joined = |row: &&Enrolment| row.join_token == id && row.revoked_at.is_none();
            let joined: Vec<Enrolment> = state.enrolments.values().filter(joined).cloned().collect();
            for row in joined {
                state.set_namespaces(row, &namespaces);
            }
            Ok(Some(token))
        })
    }

    pub fn enrolments_changed_now(&self, after: u64, limit: usize) -> EnrolmentChanges {
        let state = self.state();
        let mut rows: Vec<_> = state.enrolments.values().filter(|row| row.revision > after).cloned().collect();
        rows.sort_by_key(|row| row.revision);
        rows.truncate(limit);
        EnrolmentChanges { revision: state.enrolment_revision.get(&()).copied().unwrap_or(0), rows }
    }
}

impl State {
    fn next_enrolment_revision(&mut self) -> u64 {
        let revision = self.enrolment_revision.get(&()).copied().unwrap_or(0) + 1;
        self.enrolment_revision.put((), revision);
        revision
    }

    fn set_namespaces(&mut self, mut row: Enrolment, namespaces: &[String]) -> Enrolment {
        row.scope.namespaces = namespaces.to_vec();
        row.revision = self.next_enrolment_revision();
        self.enrolments.put(row.id, row.clone());
        row
    }

    fn enrol(&mut self, request: JoinRequest) -> Joined {
        let JoinRequest { id, join_token, name, key_sha256, now, expires_at } = request;
        let Some(token) = self.join_tokens.get(&join_token).cloned() else {
            return Joined::Refused(JoinRefusal::UnknownToken);
        };
        let refusal = token.refusal(now);
        if let Some(ended @ (JoinRefusal::Revoked | JoinRefusal::Expired)) = refusal {
            return Joined::Refused(ended);
        }
        let is_same = |row: &&Enrolment| row.join_token == join_token && row.key_sha256 == key_sha256;
        if let Some(known) = self.enrolments.values().find(is_same).map(|row| row.id) {
            let renewed = self.renew(known, now, expires_at);
            return renewed.map_or(Joined::Refused(JoinRefusal::WorkerRevoked), Joined::Enrolled);
        }
        if let Some(refusal) = refusal {
            return Joined::Refused(refusal);
        }
        let mut old: Vec<_> =
            self.enrolments.values().filter(|row| row.expires_at < now - ENDED_KEPT_FOR).cloned().collect();
        old.sort_by_key(|row| (row.expires_at, row.id));
        old.iter().take(ENDED_REMOVED_MAX).for_each(|row| drop(self.enrolments.take(&row.id)));
        if self.enrolments.len() >= ENROLMENTS_MAX {
            return Joined::Refused(JoinRefusal::Full);
        }
        let row = Enrolment {
            id,
            join_token,
            name,
            scope: token.scope.clone(),
            key_sha256,
            enrolled_at: now,
            renewed_at: now,
            expires_at,
            revoked_at: None,
            revision: self.next_enrolment_revision(),
        };
        self.enrolments.put(id, row.clone());
        self.join_tokens.put(join_token, JoinTokenRow { uses: token.uses + 1, ..token });
        Joined::Enrolled(row)
    }

    fn renew(&mut self, id: EnrolmentId, now: Timestamp, expires_at: Timestamp) -> Option<Enrolment> {
        let row = self.enrolments.get(&id).filter(|row| row.revoked_at.is_none()).cloned()?;
        let revision = self.next_enrolment_revision();
        let row = Enrolment { renewed_at: now, expires_at, revision, ..row };
        self.enrolments.put(id, row.clone());
        Some(row)
    }
}
