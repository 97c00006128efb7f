//! API keys, people and their sessions.

use async_trait::async_trait;
use punctual_core::Timestamp;
use punctual_core::schedule::By;
use punctual_store::{
    Identities, IdentityChanges, IdentityId, KEYS_MAX, KeyChange, KeyRow, OpenIdSubject, PasswordHash, Result,
    SESSIONS_MAX, SESSIONS_OF_USER_MAX, SecretDigest, SessionChange, SessionRow, USERS_MAX, UserChange, UserRow,
    UserSessions, Uses,
};
use rusqlite::{Connection, OptionalExtension, Params, Row, params};

use crate::writer::Failure;
use crate::{SqliteStore, codec, sql};

type Done<T> = std::result::Result<T, Failure>;

#[async_trait]
impl Identities for SqliteStore {
    async fn identities_revision(&self) -> Result<u64> {
        self.shared.owner_reads.read(revision).await
    }

    async fn identities_since(&self, since: u64) -> Result<IdentityChanges> {
        let read = move |conn: &Connection| {
            Ok(IdentityChanges {
                revision: revision(conn)?,
                keys: changed(conn, sql!("identity_keys_since"), since, read_key)?,
                users: changed(conn, sql!("identity_users_since"), since, read_user)?,
                sessions: changed(conn, sql!("identity_sessions_since"), since, read_session)?,
            })
        };
        self.shared.owner_reads.read(read).await
    }

    async fn add_key(&self, key: KeyRow, replaces: Option<(IdentityId, Timestamp)>) -> Result<KeyChange> {
        self.write(2, move |db| db.all_or_nothing(|db| add_key(&db.conn, &key, replaces))).await
    }

    async fn revoke_key(&self, id: IdentityId, revoked: By) -> Result<bool> {
        self.write(1, move |db| {
            let row = params![number(id), next(&db.conn)?, revoked.at.as_micros(), revoked.who];
            Ok(execute(&db.conn, sql!("revoke_identity_key"), row)? == 1)
        })
        .await
    }

    async fn add_user(&self, user: UserRow) -> Result<UserChange> {
        self.write(1, move |db| add_user(&db.conn, &user)).await
    }

    async fn change_user(&self, user: UserRow, sessions: UserSessions) -> Result<UserChange> {
        self.write(SESSIONS_OF_USER_MAX, move |db| change_user(&db.conn, &user, sessions)).await
    }

    async fn add_session(&self, session: SessionRow, user_revision: u32) -> Result<SessionChange> {
        self.write(2, move |db| add_session(&db.conn, &session, user_revision)).await
    }

    async fn end_session(&self, id: IdentityId, at: Timestamp) -> Result<bool> {
        self.write(1, move |db| {
            let row = params![number(id), next(&db.conn)?, at.as_micros()];
            Ok(execute(&db.conn, sql!("end_identity_session"), row)? == 1)
        })
        .await
    }

    async fn note_uses(&self, uses: Uses) -> Result<()> {
        self.write(uses.keys.len() + uses.sessions.len(), move |db| {
            let changed = next(&db.conn)?;
            for (statement, uses) in
                [(sql!("note_identity_key_use"), &uses.keys), (sql!("note_identity_session_use"), &uses.sessions)]
            {
                let mut statement = db.conn.prepare_cached(statement)?;
                for (id, at) in uses {
                    statement.execute(params![number(*id), changed, at.as_micros()])?;
                }
            }
            Ok(())
        })
        .await
    }

    async fn prune_identities(&self, before: Timestamp) -> Result<usize> {
        self.write(SESSIONS_MAX, move |db| {
            let mut removed = 0;
            for text in [sql!("prune_identity_keys"), sql!("prune_identity_sessions"), sql!("prune_identity_users")] {
                removed += execute(&db.conn, text, [before.as_micros()])?;
            }
            Ok(removed)
        })
        .await
    }
}

/// SQLite's numbers have a sign. The same bits read back as the same number.
const fn number(id: IdentityId) -> i64 {
    id.0 as i64
}

fn id(row: &Row<'_>, column: usize) -> rusqlite::Result<IdentityId> {
    Ok(IdentityId(row.get::<_, i64>(column)? as u64))
}

fn execute(conn: &Connection, text: &str, row: impl Params) -> rusqlite::Result<usize> {
    conn.prepare_cached(text)?.execute(row)
}

fn count(conn: &Connection, text: &str) -> Done<usize> {
    let counted: i64 = conn.prepare_cached(text)?.query_row([], |row| row.get(0))?;
    Ok(usize::try_from(counted).unwrap_or(usize::MAX))
}

fn revision(conn: &Connection) -> Done<u64> {
    let last: i64 = conn.prepare_cached(sql!("identities_revision"))?.query_row([], |row| row.get(0))?;
    Ok(last.unsigned_abs())
}

/// The number of the change that is under way.
fn next(conn: &Connection) -> Done<i64> {
    Ok(conn.prepare_cached(sql!("next_identities_revision"))?.query_row([], |row| row.get(0))?)
}

fn changed<T>(
    conn: &Connection,
    text: &str,
    since: u64,
    read: fn(&Row<'_>) -> rusqlite::Result<T>,
) -> std::result::Result<Vec<T>, Failure> {
    let mut statement = conn.prepare_cached(text)?;
    let rows = statement.query_map([since as i64], read)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

fn add_key(conn: &Connection, key: &KeyRow, replaces: Option<(IdentityId, Timestamp)>) -> Done<KeyChange> {
    if count(conn, sql!("count_identity_keys"))? >= KEYS_MAX {
        return Ok(KeyChange::Full);
    }
    let changed = next(conn)?;
    if let Some((old, until)) = replaces {
        let row = params![number(old), changed, number(key.id), until.as_micros()];
        if execute(conn, sql!("replace_identity_key"), row)? == 0 {
            return Ok(KeyChange::Absent);
        }
    }
    let namespace = key.namespace_text();
    if conn.prepare_cached(sql!("identity_key_name_taken"))?.exists(params![namespace, key.name])? {
        // The key that was to be replaced had another name: nothing of this may stay.
        return match replaces {
            None => Ok(KeyChange::NameTaken),
            Some(_) => Err(Failure::inconsistent("a key is replaced by one of its own name")),
        };
    }
    let KeyRow { id, digest, name, grant, owner, created, expires_at, .. } = key;
    let row = params![
        number(*id),
        changed,
        digest.0,
        name,
        namespace,
        grant,
        owner.map(number),
        created.at.as_micros(),
        created.who,
        expires_at.map(Timestamp::as_micros),
    ];
    execute(conn, sql!("insert_identity_key"), row)?;
    Ok(KeyChange::Done)
}

fn add_user(conn: &Connection, user: &UserRow) -> Done<UserChange> {
    if conn.prepare_cached(sql!("identity_user_name_taken"))?.exists([&user.name])? {
        return Ok(UserChange::NameTaken);
    }
    if let Some(OpenIdSubject { issuer, subject }) = &user.openid
        && conn.prepare_cached(sql!("identity_user_subject_taken"))?.exists([issuer, subject])?
    {
        return Ok(UserChange::SubjectTaken);
    }
    if count(conn, sql!("count_identity_users"))? >= USERS_MAX {
        return Ok(UserChange::Full);
    }
    let UserRow { id, name, mail, role, password, openid, disabled, revision, created, changed, deleted_at: _ } = user;
    let row = params![
        number(*id),
        next(conn)?,
        name,
        mail,
        role,
        password.as_ref().map(|password| &password.0),
        disabled,
        revision,
        created.at.as_micros(),
        created.who,
        changed.at.as_micros(),
        changed.who,
        openid.as_ref().map(|openid| &openid.issuer),
        openid.as_ref().map(|openid| &openid.subject),
    ];
    execute(conn, sql!("insert_identity_user"), row)?;
    Ok(UserChange::Done)
}

/// The revision of a person who is not deleted.
fn user_revision(conn: &Connection, user: IdentityId) -> Done<Option<u32>> {
    let mut statement = conn.prepare_cached(sql!("identity_user_revision"))?;
    Ok(statement.query_row([number(user)], |row| row.get(0)).optional()?)
}

fn change_user(conn: &Connection, user: &UserRow, sessions: UserSessions) -> Done<UserChange> {
    match user_revision(conn, user.id)? {
        None => return Ok(UserChange::Absent),
        Some(stored) if stored.checked_add(1) != Some(user.revision) => {
            return Ok(UserChange::Conflict { revision: stored });
        }
        Some(_) => {}
    }
    let number_of_change = next(conn)?;
    let UserRow { id, name: _, mail, role, password, openid: _, disabled, revision, created: _, changed, deleted_at } =
        user;
    let row = params![
        number(*id),
        number_of_change,
        mail,
        role,
        password.as_ref().map(|password| &password.0),
        disabled,
        revision,
        changed.at.as_micros(),
        changed.who,
        deleted_at.map(Timestamp::as_micros),
    ];
    execute(conn, sql!("update_identity_user"), row)?;
    if sessions == UserSessions::End || deleted_at.is_some() {
        let row = params![number(*id), number_of_change, changed.at.as_micros()];
        execute(conn, sql!("end_identity_sessions_of_user"), row)?;
    }
    if deleted_at.is_some() {
        let row = params![number(*id), number_of_change, changed.at.as_micros(), changed.who];
        execute(conn, sql!("revoke_identity_keys_of_user"), row)?;
    }
    Ok(UserChange::Done)
}

fn add_session(conn: &Connection, session: &SessionRow, checked: u32) -> Done<SessionChange> {
    if user_revision(conn, session.user)? != Some(checked) {
        return Ok(SessionChange::Stale);
    }
    if conn.prepare_cached(sql!("identity_session_taken"))?.exists([number(session.id)])? {
        return Ok(SessionChange::IdTaken);
    }
    if count(conn, sql!("count_identity_sessions"))? >= SESSIONS_MAX {
        return Ok(SessionChange::Full);
    }
    let changed = next(conn)?;
    let SessionRow { id, digest, user, created_at, expires_at, last_used_at, ended_at: _, address } = session;
    let others_max = SESSIONS_OF_USER_MAX as i64 - 1;
    let row = params![number(*user), changed, created_at.as_micros(), others_max];
    execute(conn, sql!("end_oldest_identity_sessions"), row)?;
    let row = params![
        number(*id),
        changed,
        digest.0,
        number(*user),
        created_at.as_micros(),
        expires_at.as_micros(),
        last_used_at.as_micros(),
        address,
    ];
    execute(conn, sql!("insert_identity_session"), row)?;
    Ok(SessionChange::Done)
}

fn read_key(row: &Row<'_>) -> rusqlite::Result<KeyRow> {
    Ok(KeyRow {
        id: id(row, 0)?,
        digest: SecretDigest(row.get(1)?),
        name: row.get(2)?,
        namespace: KeyRow::namespace_of_text(&row.get::<_, String>(3)?),
        grant: row.get(4)?,
        owner: codec::or_none(row, 5, id)?,
        created: codec::by(row, 6)?,
        expires_at: codec::or_none(row, 8, codec::time)?,
        last_used_at: codec::or_none(row, 9, codec::time)?,
        replaced_by: codec::or_none(row, 10, id)?,
        revoked: codec::or_none(row, 11, codec::by)?,
    })
}

fn read_user(row: &Row<'_>) -> rusqlite::Result<UserRow> {
    Ok(UserRow {
        id: id(row, 0)?,
        name: row.get(1)?,
        mail: row.get(2)?,
        role: row.get(3)?,
        password: row.get::<_, Option<String>>(4)?.map(PasswordHash),
        disabled: row.get(5)?,
        revision: row.get(6)?,
        created: codec::by(row, 7)?,
        changed: codec::by(row, 9)?,
        deleted_at: codec::or_none(row, 11, codec::time)?,
        openid: read_openid(row)?,
    })
}

fn read_openid(row: &Row<'_>) -> rusqlite::Result<Option<OpenIdSubject>> {
    let (issuer, subject): (Option<String>, Option<String>) = (row.get(12)?, row.get(13)?);
    Ok(issuer.zip(subject).map(|(issuer, subject)| OpenIdSubject { issuer, subject }))
}

fn read_session(row: &Row<'_>) -> rusqlite::Result<SessionRow> {
    Ok(SessionRow {
        id: id(row, 0)?,
        digest: SecretDigest(row.get(1)?),
        user: id(row, 2)?,
        created_at: codec::time(row, 3)?,
        expires_at: codec::time(row, 4)?,
        last_used_at: codec::time(row, 5)?,
        ended_at: codec::or_none(row, 6, codec::time)?,
        address: row.get(7)?,
    })
}
