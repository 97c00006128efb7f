//! Workers on other hosts, and the tokens that they join with.

use async_trait::async_trait;
use punctual_core::worker_scope::WorkerScope;
use punctual_core::{EnrolmentId, JoinTokenId, Timestamp};
use punctual_store::{
    ENDED_KEPT_FOR, ENDED_REMOVED_MAX, ENROLMENTS_MAX, Enrolment, EnrolmentChanges, Enrolments, JOIN_TOKENS_MAX,
    JoinRefusal, JoinRequest, JoinTokenRow, Joined, Result,
};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::writer::Failure;
use crate::{SqliteStore, codec, sql};

type Done<T> = std::result::Result<T, Failure>;

#[async_trait]
impl Enrolments for SqliteStore {
    async fn add_join_token(&self, token: JoinTokenRow) -> Result<bool> {
        self.write(1, move |db| add(&db.conn, &token)).await
    }

    async fn join_tokens(&self) -> Result<Vec<JoinTokenRow>> {
        let read = |conn: &Connection| {
            let mut statement = conn.prepare_cached(sql!("join_tokens"))?;
            let tokens = statement.query_map([JOIN_TOKENS_MAX as i64], read_token)?;
            Ok(tokens.collect::<rusqlite::Result<Vec<_>>>()?)
        };
        self.shared.people_reads.read(read).await
    }

    async fn join_token(&self, id: JoinTokenId) -> Result<Option<JoinTokenRow>> {
        self.shared.people_reads.read(move |conn| Ok(token(conn, id)?)).await
    }

    async fn revoke_join_token(&self, id: JoinTokenId, at: Timestamp) -> Result<bool> {
        self.write(1, move |db| {
            let mut statement = db.conn.prepare_cached(sql!("revoke_join_token"))?;
            Ok(statement.execute(params![id.to_bytes(), at.as_micros()])? > 0)
        })
        .await
    }

    async fn enrol(&self, request: JoinRequest) -> Result<Joined> {
        self.write(1, move |db| enrol(&db.conn, &request)).await
    }

    async fn renew_enrolment(
        &self,
        id: EnrolmentId,
        now: Timestamp,
        expires_at: Timestamp,
    ) -> Result<Option<Enrolment>> {
        self.write(1, move |db| renew(&db.conn, id, now, expires_at)).await
    }

    async fn revoke_enrolment(&self, id: EnrolmentId, at: Timestamp) -> Result<bool> {
        self.write(1, move |db| {
            let revision = next_revision(&db.conn)?;
            let mut statement = db.conn.prepare_cached(sql!("revoke_enrolment"))?;
            Ok(statement.execute(params![id.to_bytes(), at.as_micros(), revision])? > 0)
        })
        .await
    }

    async fn set_worker_namespaces(&self, id: EnrolmentId, namespaces: Vec<String>) -> Result<Option<Enrolment>> {
        self.write(1, move |db| db.all_or_nothing(|db| set_namespaces(&db.conn, id, &namespaces))).await
    }

    async fn set_token_namespaces(&self, id: JoinTokenId, namespaces: Vec<String>) -> Result<Option<JoinTokenRow>> {
        self.write(1, move |db| db.all_or_nothing(|db| set_namespaces_of_token(&db.conn, id, &namespaces))).await
    }

    async fn enrolments_changed(&self, after: u64, limit: usize) -> Result<EnrolmentChanges> {
        let (after, limit) = (after as i64, i64::try_from(limit).unwrap_or(i64::MAX));
        let read = move |conn: &Connection| {
            let revision =
                conn.prepare_cached(sql!("enrolments_revision"))?.query_row([], |row| codec::version(row, 0))?;
            let mut statement = conn.prepare_cached(sql!("enrolments_changed"))?;
            let rows = statement.query_map(params![after, limit], read_enrolment)?;
            Ok(EnrolmentChanges { revision, rows: rows.collect::<rusqlite::Result<_>>()? })
        };
        self.shared.owner_reads.read(read).await
    }
}

fn next_revision(conn: &Connection) -> Done<i64> {
    Ok(conn.prepare_cached(sql!("bump_enrolments"))?.query_row([], |row| row.get(0))?)
}

fn add(conn: &Connection, token: &JoinTokenRow) -> Done<bool> {
    let ended = (token.created_at - ENDED_KEPT_FOR).as_micros();
    conn.prepare_cached(sql!("prune_join_tokens"))?.execute(params![ended, ENDED_REMOVED_MAX as i64])?;
    let added = conn.prepare_cached(sql!("insert_join_token"))?.execute(params![
        token.id.to_bytes(),
        token.secret_sha256,
        scope_text(&token.scope),
        token.uses_max,
        token.uses,
        token.created_at.as_micros(),
        token.created_by,
        token.expires_at.as_micros(),
        token.revoked_at.map(Timestamp::as_micros),
        JOIN_TOKENS_MAX as i64,
    ])?;
    Ok(added > 0)
}

fn token(conn: &Connection, id: JoinTokenId) -> rusqlite::Result<Option<JoinTokenRow>> {
    conn.prepare_cached(sql!("join_token"))?.query_row([id.to_bytes()], read_token).optional()
}

fn enrol(conn: &Connection, request: &JoinRequest) -> Done<Joined> {
    let JoinRequest { id, join_token, name, key_sha256, now, expires_at } = request;
    let refused = |refusal| Ok(Joined::Refused(refusal));
    let Some(token) = token(conn, *join_token)? else { return refused(JoinRefusal::UnknownToken) };
    let refusal = token.refusal(*now);
    let known = conn
        .prepare_cached(sql!("enrolment_of_key"))?
        .query_row(params![join_token.to_bytes(), key_sha256], read_enrolment)
        .optional()?;
    match (known, refusal) {
        (_, Some(ended @ (JoinRefusal::Revoked | JoinRefusal::Expired))) => return refused(ended),
        (Some(known), _) => {
            let renewed = renew(conn, known.id, *now, *expires_at)?;
            return renewed.map_or_else(|| refused(JoinRefusal::WorkerRevoked), |row| Ok(Joined::Enrolled(row)));
        }
        (None, Some(refusal)) => return refused(refusal),
        (None, None) => {}
    }
    let ended = (*now - ENDED_KEPT_FOR).as_micros();
    conn.prepare_cached(sql!("prune_enrolments"))?.execute(params![ended, ENDED_REMOVED_MAX as i64])?;
    let revision = next_revision(conn)?;
    let added = conn.prepare_cached(sql!("insert_enrolment"))?.execute(params![
        id.to_bytes(),
        join_token.to_bytes(),
        name,
        scope_text(&token.scope),
        key_sha256,
        now.as_micros(),
        now.as_micros(),
        expires_at.as_micros(),
        None::<i64>,
        revision,
        ENROLMENTS_MAX as i64,
    ])?;
    if added == 0 {
        return refused(JoinRefusal::Full);
    }
    conn.prepare_cached(sql!("use_join_token"))?.execute([join_token.to_bytes()])?;
    Ok(Joined::Enrolled(Enrolment {
        id: *id,
        join_token: *join_token,
        name: name.clone(),
        scope: token.scope,
        key_sha256: *key_sha256,
        enrolled_at: *now,
        renewed_at: *now,
        expires_at: *expires_at,
        revoked_at: None,
        revision: revision as u64,
    }))
}

fn renew(conn: &Connection, id: EnrolmentId, now: Timestamp, expires_at: Timestamp) -> Done<Option<Enrolment>> {
    let revision = next_revision(conn)?;
    let row = params![id.to_bytes(), now.as_micros(), expires_at.as_micros(), revision];
    Ok(conn.prepare_cached(sql!("renew_enrolment"))?.query_row(row, read_enrolment).optional()?)
}

fn set_namespaces(conn: &Connection, id: EnrolmentId, namespaces: &[String]) -> Done<Option<Enrolment>> {
    let mut statement = conn.prepare_cached(sql!("enrolment"))?;
    let row = statement.query_row([id.to_bytes()], read_enrolment).optional()?;
    row.map(|row| set_scope(conn, row, namespaces)).transpose()
}

fn set_namespaces_of_token(conn: &Connection, id: JoinTokenId, namespaces: &[String]) -> Done<Option<JoinTokenRow>> {
    let Some(mut row) = token(conn, id)? else { return Ok(None) };
    row.scope.namespaces = namespaces.to_vec();
    conn.prepare_cached(sql!("set_token_scope"))?.execute(params![id.to_bytes(), scope_text(&row.scope)])?;
    let mut statement = conn.prepare_cached(sql!("enrolments_of_token"))?;
    let joined = statement.query_map([id.to_bytes()], read_enrolment)?.collect::<rusqlite::Result<Vec<_>>>()?;
    for worker in joined {
        set_scope(conn, worker, namespaces)?;
    }
    Ok(Some(row))
}

fn set_scope(conn: &Connection, mut row: Enrolment, namespaces: &[String]) -> Done<Enrolment> {
    let revision = next_revision(conn)?;
    row.scope.namespaces = namespaces.to_vec();
    row.revision = revision as u64;
    let changed = params![row.id.to_bytes(), scope_text(&row.scope), revision];
    conn.prepare_cached(sql!("set_enrolment_scope"))?.execute(changed)?;
    Ok(row)
}

fn scope_text(scope: &WorkerScope) -> String {
    serde_json::to_string(scope).expect("a scope is JSON")
}

fn read_scope(row: &Row<'_>, column: usize) -> rusqlite::Result<WorkerScope> {
    let text = row.get_ref(column)?.as_str()?;
    serde_json::from_str(text).map_err(|error| codec::unreadable_text(column, error))
}

fn read_token(row: &Row<'_>) -> rusqlite::Result<JoinTokenRow> {
    let id: [u8; 16] = row.get(0)?;
    Ok(JoinTokenRow {
        id: JoinTokenId::from_bytes(&id).ok_or_else(|| codec::unreadable(0, Type::Blob, "not an id"))?,
        secret_sha256: row.get(1)?,
        scope: read_scope(row, 2)?,
        uses_max: row.get(3)?,
        uses: row.get(4)?,
        created_at: codec::time(row, 5)?,
        created_by: row.get(6)?,
        expires_at: codec::time(row, 7)?,
        revoked_at: row.get::<_, Option<i64>>(8)?.map(Timestamp::saturating_from_micros),
    })
}

fn read_enrolment(row: &Row<'_>) -> rusqlite::Result<Enrolment> {
    let (id, token): ([u8; 16], [u8; 16]) = (row.get(0)?, row.get(1)?);
    Ok(Enrolment {
        id: EnrolmentId::from_bytes(&id).ok_or_else(|| codec::unreadable(0, Type::Blob, "not an id"))?,
        join_token: JoinTokenId::from_bytes(&token).ok_or_else(|| codec::unreadable(1, Type::Blob, "not an id"))?,
        name: row.get(2)?,
        scope: read_scope(row, 3)?,
        key_sha256: row.get(4)?,
        enrolled_at: codec::time(row, 5)?,
        renewed_at: codec::time(row, 6)?,
        expires_at: codec::time(row, 7)?,
        revoked_at: row.get::<_, Option<i64>>(8)?.map(Timestamp::saturating_from_micros),
        revision: codec::version(row, 9)?,
    })
}
