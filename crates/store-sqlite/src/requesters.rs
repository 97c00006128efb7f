//! Who asked for jobs, and who gave commands on them.

use async_trait::async_trait;
use punctual_core::JobId;
use punctual_store::{
    IdentityId, JOB_ACTIONS_MAX, JobAction, JobActionKind, REQUESTERS_MAX, Requester, RequesterId, Requesters, Result,
};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::writer::Failure;
use crate::{SqliteStore, codec, sql};

type Done<T> = std::result::Result<T, Failure>;

#[async_trait]
impl Requesters for SqliteStore {
    async fn requester_id(&self, requester: Requester) -> Result<RequesterId> {
        self.write(1, move |db| number_of(&db.conn, requester)).await
    }

    async fn requesters(&self, ids: Vec<RequesterId>) -> Result<Vec<(RequesterId, Requester)>> {
        self.shared.people_reads.read(move |conn| all(conn, ids)).await
    }

    async fn keep_job_action(&self, action: JobAction) -> Result<()> {
        self.write(1, move |db| db.all_or_nothing(|db| keep(&db.conn, &action))).await
    }

    async fn job_actions(&self, job: JobId) -> Result<Vec<JobAction>> {
        self.shared.people_reads.read(move |conn| actions(conn, job)).await
    }
}

fn number_of(conn: &Connection, requester: Requester) -> Done<RequesterId> {
    if let Some(id) = known(conn, &requester)? {
        return Ok(id);
    }
    let last: Option<i64> = conn.prepare_cached(sql!("last_requester"))?.query_row([], |row| row.get(0))?;
    let is_full = last.is_some_and(|last| last >= REQUESTERS_MAX as i64);
    let requester = if is_full { requester.without_name() } else { requester };
    conn.prepare_cached(sql!("insert_requester"))?.execute(params![
        requester.kind,
        requester.name,
        user_number(requester.user)
    ])?;
    known(conn, &requester)?.ok_or_else(|| Failure::inconsistent("a row is gone in its own transaction"))
}

fn known(conn: &Connection, requester: &Requester) -> rusqlite::Result<Option<RequesterId>> {
    let row = params![requester.kind, requester.name, user_number(requester.user)];
    conn.prepare_cached(sql!("requester_number"))?.query_row(row, |row| Ok(RequesterId(row.get(0)?))).optional()
}

/// The same bits read back as the same number.
fn user_number(user: Option<IdentityId>) -> i64 {
    user.map_or(0, |user| user.0 as i64)
}

fn all(conn: &Connection, mut ids: Vec<RequesterId>) -> Done<Vec<(RequesterId, Requester)>> {
    ids.sort_unstable();
    ids.dedup();
    let mut statement = conn.prepare_cached(sql!("requester"))?;
    let mut found = Vec::with_capacity(ids.len());
    for id in ids {
        found.extend(statement.query_row([id.0], read).optional()?);
    }
    Ok(found)
}

fn read(row: &Row<'_>) -> rusqlite::Result<(RequesterId, Requester)> {
    let user: i64 = row.get(3)?;
    let user = (user != 0).then_some(IdentityId(user as u64));
    Ok((RequesterId(row.get(0)?), Requester { kind: row.get(1)?, name: row.get(2)?, user }))
}

fn keep(conn: &Connection, action: &JobAction) -> Done<()> {
    let job = action.job.to_bytes();
    let row = params![job, action.at.as_micros(), action.kind as u8, action.by.0];
    conn.prepare_cached(sql!("keep_job_action"))?.execute(row)?;
    conn.prepare_cached(sql!("trim_job_actions"))?.execute(params![job, JOB_ACTIONS_MAX as i64])?;
    Ok(())
}

fn actions(conn: &Connection, job: JobId) -> Done<Vec<JobAction>> {
    let mut statement = conn.prepare_cached(sql!("job_actions"))?;
    let rows = statement.query_map([job.to_bytes()], |row| {
        let kind = JobActionKind::from_number(row.get(1)?);
        let kind = kind.ok_or_else(|| codec::unreadable(1, Type::Integer, "not a command"))?;
        Ok(JobAction { job, at: codec::time(row, 0)?, kind, by: RequesterId(row.get(2)?) })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}
