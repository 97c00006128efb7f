//! API keys, people and their sessions. Every change locks the counter of changes first, so that changes come one after the
//! other and whoever reads what changed since a revision misses nothing.

use async_trait::async_trait;
use punctual_core::Timestamp;
use punctual_core::schedule::By;
use punctual_store::{
    Identities, IdentityChanges, IdentityId, KEYS_MAX, KeyChange, KeyRow, OpenIdSubject, PasswordHash, Result,
    SESSIONS_MAX, SESSIONS_OF_USER_MAX, SecretDigest, SessionChange, SessionRow, USERS_MAX, UserChange, UserRow,
    UserSessions, Uses,
};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::codec::{self, Read, rows_max};
use crate::connection::Conn;
use crate::link::Borrowed;
use crate::trouble::Trouble;
use crate::{PostgresStore, sql};

type Done<T> = std::result::Result<T, Trouble>;

#[async_trait]
impl Identities for PostgresStore {
    async fn identities_revision(&self) -> Result<u64> {
        self.open()?;
        let conn = self.shared.owner_reads.take().await?;
        let last = revision(&conn).await?;
        conn.done();
        Ok(last)
    }

    async fn identities_since(&self, since: u64) -> Result<IdentityChanges> {
        self.open()?;
        let conn = self.shared.owner_reads.take().await?;
        conn.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
        let changes = read_changes(&conn, since).await;
        conn.run("ROLLBACK").await?;
        conn.done();
        Ok(changes?)
    }

    async fn add_key(&self, key: KeyRow, replaces: Option<(IdentityId, Timestamp)>) -> Result<KeyChange> {
        let (conn, changed) = self.begin_change().await?;
        let outcome = add_key(&conn, changed, &key, replaces).await;
        end_change(conn, outcome, |change| *change == KeyChange::Done).await
    }

    async fn revoke_key(&self, id: IdentityId, revoked: By) -> Result<bool> {
        let (at, who) = (revoked.at.as_micros(), codec::text(&revoked.who));
        let (conn, changed) = self.begin_change().await?;
        let rows = conn.execute(sql!("revoke_identity_key"), &[&number(id), &changed, &at, &who]).await;
        end_change(conn, rows.map(|rows| rows == 1), |revoked| *revoked).await
    }

    async fn add_user(&self, user: UserRow) -> Result<UserChange> {
        let (conn, changed) = self.begin_change().await?;
        let outcome = add_user(&conn, changed, &user).await;
        end_change(conn, outcome, |change| *change == UserChange::Done).await
    }

    async fn change_user(&self, user: UserRow, sessions: UserSessions) -> Result<UserChange> {
        let (conn, changed) = self.begin_change().await?;
        let outcome = change_user(&conn, changed, &user, sessions).await;
        end_change(conn, outcome, |change| *change == UserChange::Done).await
    }

    async fn add_session(&self, session: SessionRow, user_revision: u32) -> Result<SessionChange> {
        let (conn, changed) = self.begin_change().await?;
        let outcome = add_session(&conn, changed, &session, user_revision).await;
        end_change(conn, outcome, |change| *change == SessionChange::Done).await
    }

    async fn end_session(&self, id: IdentityId, at: Timestamp) -> Result<bool> {
        let (conn, changed) = self.begin_change().await?;
        let rows = conn.execute(sql!("end_identity_session"), &[&number(id), &changed, &at.as_micros()]).await;
        end_change(conn, rows.map(|rows| rows == 1), |ended| *ended).await
    }

    async fn note_uses(&self, uses: Uses) -> Result<()> {
        let (conn, changed) = self.begin_change().await?;
        let outcome = note_uses(&conn, changed, &uses).await;
        end_change(conn, outcome, |()| true).await
    }

    async fn prune_identities(&self, before: Timestamp) -> Result<usize> {
        self.open()?;
        let conn = self.shared.maintenance.take().await?;
        let mut removed = 0;
        for text in [sql!("prune_identity_keys"), sql!("prune_identity_sessions"), sql!("prune_identity_users")] {
            removed += conn.execute(text, &[&before.as_micros()]).await?;
        }
        conn.done();
        Ok(usize::try_from(removed).unwrap_or(usize::MAX))
    }
}

impl PostgresStore {
    /// Begins a transaction, to be given to [`end_change`], and answers the number of the change.
    async fn begin_change(&self) -> Result<(Borrowed<'_>, i64)> {
        self.open()?;
        // A connection that is dropped before its end is not used again, and PostgreSQL undoes the transaction.
        let conn = self.shared.people_reads.take().await?;
        conn.run("BEGIN").await?;
        let row = conn.query_opt(sql!("next_identities_revision"), &[]).await?;
        let row = row.ok_or_else(|| Trouble::inconsistent(NOT_COUNTED))?;
        let changed = codec::value(&row, 0)?;
        Ok((conn, changed))
    }
}

const NOT_COUNTED: &str = "the store does not count changes of identities";

/// Keeps the change if it was done, and undoes it if not.
async fn end_change<T>(conn: Borrowed<'_>, outcome: Done<T>, is_done: impl FnOnce(&T) -> bool) -> Result<T> {
    let is_kept = outcome.as_ref().is_ok_and(is_done);
    conn.run(if is_kept { "COMMIT" } else { "ROLLBACK" }).await?;
    conn.done();
    Ok(outcome?)
}

/// PostgreSQL's numbers have a sign. The same bits read back as the same number.
const fn number(id: IdentityId) -> i64 {
    id.0 as i64
}

async fn revision(conn: &Conn) -> Done<u64> {
    let row = conn.query_opt(sql!("identities_revision"), &[]).await?;
    let row = row.ok_or_else(|| Trouble::inconsistent(NOT_COUNTED))?;
    Ok(codec::value::<i64>(&row, 0)?.unsigned_abs())
}

async fn read_changes(conn: &Conn, since: u64) -> Done<IdentityChanges> {
    let last = revision(conn).await?;
    let since = since as i64;
    let keys = conn.query(sql!("identity_keys_since"), &[&since]).await?;
    let users = conn.query(sql!("identity_users_since"), &[&since]).await?;
    let sessions = conn.query(sql!("identity_sessions_since"), &[&since]).await?;
    Ok(IdentityChanges {
        revision: last,
        keys: keys.iter().map(read_key).collect::<Read<_>>()?,
        users: users.iter().map(read_user).collect::<Read<_>>()?,
        sessions: sessions.iter().map(read_session).collect::<Read<_>>()?,
    })
}

/// Of each the last time: a statement changes a row once.
fn each_once(uses: &[(IdentityId, Timestamp)]) -> (Vec<i64>, Vec<i64>) {
    let mut latest = std::collections::BTreeMap::new();
    for (id, at) in uses {
        let known = latest.entry(number(*id)).or_insert(at.as_micros());
        *known = at.as_micros().max(*known);
    }
    latest.into_iter().unzip()
}

async fn note_uses(conn: &Conn, changed: i64, uses: &Uses) -> Done<()> {
    for (text, uses) in
        [(sql!("note_identity_key_uses"), &uses.keys), (sql!("note_identity_session_uses"), &uses.sessions)]
    {
        let (ids, times) = each_once(uses);
        conn.execute(text, &[&ids, &times, &changed]).await?;
    }
    Ok(())
}

async fn add_key(
    conn: &Conn,
    changed: i64,
    key: &KeyRow,
    replaces: Option<(IdentityId, Timestamp)>,
) -> Done<KeyChange> {
    if let Some((old, until)) = replaces {
        let row: [&(dyn ToSql + Sync); 4] = [&number(old), &changed, &number(key.id), &until.as_micros()];
        if conn.execute(sql!("replace_identity_key"), &row).await? == 0 {
            return Ok(KeyChange::Absent);
        }
    }
    let KeyRow { id, digest, name, grant, owner, created, expires_at, .. } = key;
    let (name, namespace) = (codec::text(name), key.namespace_text());
    if conn.query_opt(sql!("identity_key_name_taken"), &[&namespace, &name]).await?.is_some() {
        return match replaces {
            None => Ok(KeyChange::NameTaken),
            Some(_) => Err(Trouble::inconsistent("a key is replaced by one of its own name")),
        };
    }
    let added = conn
        .execute(
            sql!("insert_identity_key"),
            &[
                &number(*id),
                &changed,
                &digest.0.as_slice(),
                &name,
                &namespace,
                &codec::text(grant),
                &owner.map(number),
                &created.at.as_micros(),
                &codec::text(&created.who),
                &expires_at.map(Timestamp::as_micros),
                &rows_max(KEYS_MAX),
            ],
        )
        .await?;
    Ok(if added == 1 { KeyChange::Done } else { KeyChange::Full })
}

async fn add_user(conn: &Conn, changed_in: i64, user: &UserRow) -> Done<UserChange> {
    let UserRow { id, name, mail, role, password, openid, disabled, revision, created, changed, deleted_at: _ } = user;
    let name = codec::text(name);
    if conn.query_opt(sql!("identity_user_name_taken"), &[&name]).await?.is_some() {
        return Ok(UserChange::NameTaken);
    }
    let (issuer, subject) = openid.as_ref().map(|OpenIdSubject { issuer, subject }| (issuer, subject)).unzip();
    let (issuer, subject) = (issuer.map(|text| codec::text(text)), subject.map(|text| codec::text(text)));
    if subject.is_some() && conn.query_opt(sql!("identity_user_subject_taken"), &[&issuer, &subject]).await?.is_some() {
        return Ok(UserChange::SubjectTaken);
    }
    let added = conn
        .execute(
            sql!("insert_identity_user"),
            &[
                &number(*id),
                &changed_in,
                &name,
                &mail.as_deref().map(codec::text),
                &codec::text(role),
                &password.as_ref().map(|password| codec::text(&password.0)),
                disabled,
                &(*revision as i32),
                &created.at.as_micros(),
                &codec::text(&created.who),
                &changed.at.as_micros(),
                &codec::text(&changed.who),
                &issuer,
                &subject,
                &rows_max(USERS_MAX),
            ],
        )
        .await?;
    Ok(if added == 1 { UserChange::Done } else { UserChange::Full })
}

/// The revision of a person who is not deleted.
async fn user_revision(conn: &Conn, user: IdentityId) -> Done<Option<u32>> {
    let row = conn.query_opt(sql!("identity_user_revision"), &[&number(user)]).await?;
    Ok(row.map(|row| codec::value::<i32>(&row, 0)).transpose()?.map(|revision| revision as u32))
}

async fn change_user(conn: &Conn, changed_in: i64, user: &UserRow, sessions: UserSessions) -> Done<UserChange> {
    match user_revision(conn, user.id).await? {
        None => return Ok(UserChange::Absent),
        Some(stored) if stored.checked_add(1) != Some(user.revision) => {
            return Ok(UserChange::Conflict { revision: stored });
        }
        Some(_) => {}
    }
    let UserRow { id, name: _, mail, role, password, openid: _, disabled, revision, created: _, changed, deleted_at } =
        user;
    let (id, at, who) = (number(*id), changed.at.as_micros(), codec::text(&changed.who));
    conn.execute(
        sql!("update_identity_user"),
        &[
            &id,
            &changed_in,
            &mail.as_deref().map(codec::text),
            &codec::text(role),
            &password.as_ref().map(|password| codec::text(&password.0)),
            disabled,
            &(*revision as i32),
            &at,
            &who,
            &deleted_at.map(Timestamp::as_micros),
        ],
    )
    .await?;
    if sessions == UserSessions::End || deleted_at.is_some() {
        conn.execute(sql!("end_identity_sessions_of_user"), &[&id, &changed_in, &at]).await?;
    }
    if deleted_at.is_some() {
        conn.execute(sql!("revoke_identity_keys_of_user"), &[&id, &changed_in, &at, &who]).await?;
    }
    Ok(UserChange::Done)
}

async fn add_session(conn: &Conn, changed: i64, session: &SessionRow, checked: u32) -> Done<SessionChange> {
    if user_revision(conn, session.user).await? != Some(checked) {
        return Ok(SessionChange::Stale);
    }
    if conn.query_opt(sql!("identity_session_taken"), &[&number(session.id)]).await?.is_some() {
        return Ok(SessionChange::IdTaken);
    }
    let SessionRow { id, digest, user, created_at, expires_at, last_used_at, ended_at: _, address } = session;
    let others_max = rows_max(SESSIONS_OF_USER_MAX - 1);
    let row: [&(dyn ToSql + Sync); 4] = [&number(*user), &changed, &created_at.as_micros(), &others_max];
    conn.execute(sql!("end_oldest_identity_sessions"), &row).await?;
    let added = conn
        .execute(
            sql!("insert_identity_session"),
            &[
                &number(*id),
                &changed,
                &digest.0.as_slice(),
                &number(*user),
                &created_at.as_micros(),
                &expires_at.as_micros(),
                &last_used_at.as_micros(),
                &address.as_deref().map(codec::text),
                &rows_max(SESSIONS_MAX),
            ],
        )
        .await?;
    Ok(if added == 1 { SessionChange::Done } else { SessionChange::Full })
}

fn id(row: &Row, column: usize) -> Read<IdentityId> {
    Ok(IdentityId(codec::value::<i64>(row, column)? as u64))
}

fn id_or_none(row: &Row, column: usize) -> Read<Option<IdentityId>> {
    Ok(codec::value::<Option<i64>>(row, column)?.map(|id| IdentityId(id as u64)))
}

fn digest(row: &Row, column: usize) -> Read<SecretDigest> {
    let bytes: &[u8] = codec::value(row, column)?;
    bytes.try_into().map(SecretDigest).map_err(|_| codec::unreadable(row, column, "not a digest"))
}

fn read_key(row: &Row) -> Read<KeyRow> {
    let revoked = match codec::time_or_none(row, 11)? {
        Some(at) => Some(By { at, who: codec::value(row, 12)? }),
        None => None,
    };
    Ok(KeyRow {
        id: id(row, 0)?,
        digest: digest(row, 1)?,
        name: codec::value(row, 2)?,
        namespace: KeyRow::namespace_of_text(codec::value(row, 3)?),
        grant: codec::value(row, 4)?,
        owner: id_or_none(row, 5)?,
        created: codec::by(row, 6)?,
        expires_at: codec::time_or_none(row, 8)?,
        last_used_at: codec::time_or_none(row, 9)?,
        replaced_by: id_or_none(row, 10)?,
        revoked,
    })
}

fn read_user(row: &Row) -> Read<UserRow> {
    Ok(UserRow {
        id: id(row, 0)?,
        name: codec::value(row, 1)?,
        mail: codec::value(row, 2)?,
        role: codec::value(row, 3)?,
        password: codec::value::<Option<String>>(row, 4)?.map(PasswordHash),
        disabled: codec::value(row, 5)?,
        revision: codec::value::<i32>(row, 6)? as u32,
        created: codec::by(row, 7)?,
        changed: codec::by(row, 9)?,
        deleted_at: codec::time_or_none(row, 11)?,
        openid: read_openid(row)?,
    })
}

fn read_openid(row: &Row) -> Read<Option<OpenIdSubject>> {
    let (issuer, subject): (Option<String>, Option<String>) = (codec::value(row, 12)?, codec::value(row, 13)?);
    Ok(issuer.zip(subject).map(|(issuer, subject)| OpenIdSubject { issuer, subject }))
}

fn read_session(row: &Row) -> Read<SessionRow> {
    Ok(SessionRow {
        id: id(row, 0)?,
        digest: digest(row, 1)?,
        user: id(row, 2)?,
        created_at: codec::time(row, 3)?,
        expires_at: codec::time(row, 4)?,
        last_used_at: codec::time(row, 5)?,
        ended_at: codec::time_or_none(row, 6)?,
        address: codec::value(row, 7)?,
    })
}
