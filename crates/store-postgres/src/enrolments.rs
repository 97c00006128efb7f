//! Workers on other hosts, and the tokens that they join with.
//!
//! Whoever changes one locks the counter of revisions first, so all changes have one order. They are rare: people make tokens,
//! and a worker renews its certificate every few days.

use async_trait::async_trait;
use punctual_core::worker_scope::WorkerScope;
use punctual_core::{EnrolmentId, JoinTokenId, Timestamp};
use punctual_store::{
    ENDED_KEPT_FOR, ENDED_REMOVED_MAX, ENROLMENTS_MAX, Enrolment, EnrolmentChanges, Enrolments, JOIN_TOKENS_MAX,
    JoinRefusal, JoinRequest, JoinTokenRow, Joined, Result,
};
use tokio_postgres::Row;

use crate::codec::{self, Read, Uuid, rows_max};
use crate::connection::Conn;
use crate::trouble::Trouble;
use crate::{PostgresStore, sql};

type Done<T> = std::result::Result<T, Trouble>;

#[async_trait]
impl Enrolments for PostgresStore {
    async fn add_join_token(&self, token: JoinTokenRow) -> Result<bool> {
        self.open()?;
        let conn = self.shared.steps.take().await?;
        let done = in_order(&conn, async |_| add(&conn, &token).await).await;
        conn.done();
        Ok(done?)
    }

    async fn join_tokens(&self) -> Result<Vec<JoinTokenRow>> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let rows = conn.query(sql!("join_tokens"), &[&rows_max(JOIN_TOKENS_MAX)]).await?;
        conn.done();
        Ok(rows.iter().map(read_token).collect::<Read<_>>()?)
    }

    async fn join_token(&self, id: JoinTokenId) -> Result<Option<JoinTokenRow>> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let token = token(&conn, id).await;
        conn.done();
        Ok(token?)
    }

    async fn revoke_join_token(&self, id: JoinTokenId, at: Timestamp) -> Result<bool> {
        self.open()?;
        let conn = self.shared.steps.take().await?;
        let revoke = async |_| {
            let revoked = conn.execute(sql!("revoke_join_token"), &[&Uuid(id.to_bytes()), &at.as_micros()]).await?;
            Ok(revoked > 0)
        };
        let done = in_order(&conn, revoke).await;
        conn.done();
        Ok(done?)
    }

    async fn enrol(&self, request: JoinRequest) -> Result<Joined> {
        self.open()?;
        let conn = self.shared.steps.take().await?;
        let done = in_order(&conn, async |revision| enrol(&conn, &request, revision).await).await;
        conn.done();
        Ok(done?)
    }

    async fn renew_enrolment(
        &self,
        id: EnrolmentId,
        now: Timestamp,
        expires_at: Timestamp,
    ) -> Result<Option<Enrolment>> {
        self.open()?;
        let conn = self.shared.steps.take().await?;
        let done = in_order(&conn, async |revision| renew(&conn, id, now, expires_at, revision).await).await;
        conn.done();
        Ok(done?)
    }

    async fn revoke_enrolment(&self, id: EnrolmentId, at: Timestamp) -> Result<bool> {
        self.open()?;
        let conn = self.shared.steps.take().await?;
        let revoke = async |revision| {
            let row: [&(dyn tokio_postgres::types::ToSql + Sync); 3] =
                [&Uuid(id.to_bytes()), &at.as_micros(), &revision];
            Ok(conn.execute(sql!("revoke_enrolment"), &row).await? > 0)
        };
        let done = in_order(&conn, revoke).await;
        conn.done();
        Ok(done?)
    }

    async fn set_worker_namespaces(&self, id: EnrolmentId, namespaces: Vec<String>) -> Result<Option<Enrolment>> {
        self.open()?;
        let conn = self.shared.steps.take().await?;
        let set = async |revision| {
            let row = conn.query_opt(sql!("enrolment"), &[&Uuid(id.to_bytes())]).await?;
            let Some(row) = row.as_ref().map(read_enrolment).transpose()? else { return Ok(None) };
            set_scope(&conn, row, &namespaces, revision).await.map(Some)
        };
        let done = in_order(&conn, set).await;
        conn.done();
        Ok(done?)
    }

    async fn set_token_namespaces(&self, id: JoinTokenId, namespaces: Vec<String>) -> Result<Option<JoinTokenRow>> {
        self.open()?;
        let conn = self.shared.steps.take().await?;
        let done =
            in_order(&conn, async |revision| set_namespaces_of_token(&conn, id, &namespaces, revision).await).await;
        conn.done();
        Ok(done?)
    }

    async fn enrolments_changed(&self, after: u64, limit: usize) -> Result<EnrolmentChanges> {
        self.open()?;
        let after = i64::try_from(after).unwrap_or(i64::MAX);
        let conn = self.shared.owner_reads.take().await?;
        let revision = conn.query(sql!("enrolments_revision"), &[]).await?;
        let rows = conn.query(sql!("enrolments_changed"), &[&after, &rows_max(limit)]).await?;
        conn.done();
        let revision = revision.first().map(|row| codec::value::<i64>(row, 0)).transpose()?.unwrap_or(0) as u64;
        Ok(EnrolmentChanges { revision, rows: rows.iter().map(read_enrolment).collect::<Read<_>>()? })
    }
}

/// A transaction that has the next revision, and that others wait for.
async fn in_order<T>(conn: &Conn, change: impl AsyncFnOnce(i64) -> Done<T>) -> Done<T> {
    conn.run("BEGIN").await?;
    let changed = async { change(next_revision(conn).await?).await };
    let changed = changed.await;
    conn.run(if changed.is_ok() { "COMMIT" } else { "ROLLBACK" }).await?;
    changed
}

async fn next_revision(conn: &Conn) -> Done<i64> {
    let row = conn.query_opt(sql!("bump_enrolments"), &[]).await?;
    codec::value(&row.ok_or_else(|| Trouble::inconsistent("there is no counter of enrolments".to_owned()))?, 0)
}

async fn set_namespaces_of_token(
    conn: &Conn,
    id: JoinTokenId,
    namespaces: &[String],
    mut revision: i64,
) -> Done<Option<JoinTokenRow>> {
    let Some(mut row) = token(conn, id).await? else { return Ok(None) };
    row.scope.namespaces = namespaces.to_vec();
    conn.execute(sql!("set_token_scope"), &[&Uuid(id.to_bytes()), &scope_text(&row.scope)]).await?;
    let joined = conn.query(sql!("enrolments_of_token"), &[&Uuid(id.to_bytes())]).await?;
    for worker in joined.iter().map(read_enrolment).collect::<Read<Vec<_>>>()? {
        set_scope(conn, worker, namespaces, revision).await?;
        revision = next_revision(conn).await?;
    }
    Ok(Some(row))
}

async fn set_scope(conn: &Conn, mut row: Enrolment, namespaces: &[String], revision: i64) -> Done<Enrolment> {
    row.scope.namespaces = namespaces.to_vec();
    row.revision = revision as u64;
    conn.execute(sql!("set_enrolment_scope"), &[&Uuid(row.id.to_bytes()), &scope_text(&row.scope), &revision]).await?;
    Ok(row)
}

async fn add(conn: &Conn, token: &JoinTokenRow) -> Done<bool> {
    let ended = (token.created_at - ENDED_KEPT_FOR).as_micros();
    conn.execute(sql!("prune_join_tokens"), &[&ended, &rows_max(ENDED_REMOVED_MAX)]).await?;
    let added = conn
        .execute(
            sql!("insert_join_token"),
            &[
                &Uuid(token.id.to_bytes()),
                &&token.secret_sha256[..],
                &scope_text(&token.scope),
                &i64::from(token.uses_max),
                &i64::from(token.uses),
                &token.created_at.as_micros(),
                &codec::text(&token.created_by),
                &token.expires_at.as_micros(),
                &token.revoked_at.map(Timestamp::as_micros),
                &rows_max(JOIN_TOKENS_MAX),
            ],
        )
        .await?;
    Ok(added > 0)
}

async fn token(conn: &Conn, id: JoinTokenId) -> Done<Option<JoinTokenRow>> {
    let row = conn.query_opt(sql!("join_token"), &[&Uuid(id.to_bytes())]).await?;
    row.as_ref().map(read_token).transpose()
}

async fn enrol(conn: &Conn, request: &JoinRequest, revision: i64) -> Done<Joined> {
    let JoinRequest { id, join_token, name, key_sha256, now, expires_at } = request;
    let refused = |refusal| Ok(Joined::Refused(refusal));
    let Some(token) = token(conn, *join_token).await? else { return refused(JoinRefusal::UnknownToken) };
    let refusal = token.refusal(*now);
    let (token_id, key) = (Uuid(join_token.to_bytes()), &key_sha256[..]);
    let known = conn.query_opt(sql!("enrolment_of_key"), &[&token_id, &key]).await?;
    let known = known.as_ref().map(read_enrolment).transpose()?;
    match (known, refusal) {
        (_, Some(ended @ (JoinRefusal::Revoked | JoinRefusal::Expired))) => return refused(ended),
        (Some(known), _) => {
            let renewed = renew(conn, known.id, *now, *expires_at, revision).await?;
            return renewed.map_or_else(|| refused(JoinRefusal::WorkerRevoked), |row| Ok(Joined::Enrolled(row)));
        }
        (None, Some(refusal)) => return refused(refusal),
        (None, None) => {}
    }
    let ended = (*now - ENDED_KEPT_FOR).as_micros();
    conn.execute(sql!("prune_enrolments"), &[&ended, &rows_max(ENDED_REMOVED_MAX)]).await?;
    let name = codec::text(name);
    let added = conn
        .execute(
            sql!("insert_enrolment"),
            &[
                &Uuid(id.to_bytes()),
                &token_id,
                &name,
                &scope_text(&token.scope),
                &key,
                &now.as_micros(),
                &now.as_micros(),
                &expires_at.as_micros(),
                &None::<i64>,
                &revision,
                &rows_max(ENROLMENTS_MAX),
            ],
        )
        .await?;
    if added == 0 {
        return refused(JoinRefusal::Full);
    }
    conn.execute(sql!("use_join_token"), &[&token_id]).await?;
    Ok(Joined::Enrolled(Enrolment {
        id: *id,
        join_token: *join_token,
        name,
        scope: token.scope,
        key_sha256: *key_sha256,
        enrolled_at: *now,
        renewed_at: *now,
        expires_at: *expires_at,
        revoked_at: None,
        revision: revision as u64,
    }))
}

async fn renew(
    conn: &Conn,
    id: EnrolmentId,
    now: Timestamp,
    expires_at: Timestamp,
    revision: i64,
) -> Done<Option<Enrolment>> {
    let (now, expires_at) = (now.as_micros(), expires_at.as_micros());
    let row = conn.query_opt(sql!("renew_enrolment"), &[&Uuid(id.to_bytes()), &now, &expires_at, &revision]).await?;
    row.as_ref().map(read_enrolment).transpose()
}

fn scope_text(scope: &WorkerScope) -> String {
    codec::text(&serde_json::to_string(scope).expect("a scope is JSON"))
}

fn read_scope(row: &Row, column: usize) -> Read<WorkerScope> {
    let text: &str = codec::value(row, column)?;
    serde_json::from_str(text).map_err(|error| codec::unreadable(row, column, &error.to_string()))
}

fn read_digest(row: &Row, column: usize) -> Read<[u8; 32]> {
    let bytes: &[u8] = codec::value(row, column)?;
    bytes.try_into().map_err(|_| codec::unreadable(row, column, "not 32 bytes"))
}

fn read_number(row: &Row, column: usize) -> Read<u32> {
    let number: i64 = codec::value(row, column)?;
    u32::try_from(number).map_err(|_| codec::unreadable(row, column, "not a count"))
}

fn read_token_id(row: &Row, column: usize) -> Read<JoinTokenId> {
    let Uuid(bytes) = codec::value(row, column)?;
    JoinTokenId::from_bytes(&bytes).ok_or_else(|| codec::unreadable(row, column, "not an id"))
}

fn read_token(row: &Row) -> Read<JoinTokenRow> {
    Ok(JoinTokenRow {
        id: read_token_id(row, 0)?,
        secret_sha256: read_digest(row, 1)?,
        scope: read_scope(row, 2)?,
        uses_max: read_number(row, 3)?,
        uses: read_number(row, 4)?,
        created_at: codec::time(row, 5)?,
        created_by: codec::value(row, 6)?,
        expires_at: codec::time(row, 7)?,
        revoked_at: codec::time_or_none(row, 8)?,
    })
}

fn read_enrolment(row: &Row) -> Read<Enrolment> {
    let Uuid(id) = codec::value(row, 0)?;
    Ok(Enrolment {
        id: EnrolmentId::from_bytes(&id).ok_or_else(|| codec::unreadable(row, 0, "not an id"))?,
        join_token: read_token_id(row, 1)?,
        name: codec::value(row, 2)?,
        scope: read_scope(row, 3)?,
        key_sha256: read_digest(row, 4)?,
        enrolled_at: codec::time(row, 5)?,
        renewed_at: codec::time(row, 6)?,
        expires_at: codec::time(row, 7)?,
        revoked_at: codec::time_or_none(row, 8)?,
        revision: codec::value::<i64>(row, 9)? as u64,
    })
}
