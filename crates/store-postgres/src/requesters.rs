//! Who asked for jobs, and who gave commands on them.

use async_trait::async_trait;
use punctual_core::JobId;
use punctual_store::{
    IdentityId, JOB_ACTIONS_MAX, JobAction, JobActionKind, REQUESTERS_MAX, Requester, RequesterId, Requesters, Result,
};
use tokio_postgres::Row;

use crate::codec::{self, Read, Uuid};
use crate::connection::Conn;
use crate::trouble::Trouble;
use crate::{PostgresStore, sql};

type Done<T> = std::result::Result<T, Trouble>;

/// How often a command is put on record again that another one came before at the same moment.
const TRIES_MAX: usize = 20;

#[async_trait]
impl Requesters for PostgresStore {
    async fn requester_id(&self, requester: Requester) -> Result<RequesterId> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let id = number_of(&conn, requester).await?;
        conn.done();
        Ok(id)
    }

    async fn requesters(&self, ids: Vec<RequesterId>) -> Result<Vec<(RequesterId, Requester)>> {
        self.open()?;
        let ids: Vec<i32> = ids.into_iter().map(number).collect();
        let conn = self.shared.people_reads.take().await?;
        let rows = conn.query(sql!("requesters"), &[&ids]).await?;
        conn.done();
        let mut found = rows.iter().map(read).collect::<Read<Vec<_>>>()?;
        found.sort_unstable_by_key(|(id, _)| *id);
        Ok(found)
    }

    async fn keep_job_action(&self, action: JobAction) -> Result<()> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let kept = keep(&conn, &action).await;
        if kept.is_err() {
            conn.run("ROLLBACK").await?;
        }
        conn.done();
        Ok(kept?)
    }

    async fn job_actions(&self, job: JobId) -> Result<Vec<JobAction>> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let rows = conn.query(sql!("job_actions"), &[&Uuid::from(job)]).await?;
        conn.done();
        Ok(rows.iter().map(|row| read_action(row, job)).collect::<Read<_>>()?)
    }
}

/// As it stands in rows.
pub(crate) const fn number(id: RequesterId) -> i32 {
    id.0 as i32
}

/// From such a column.
pub(crate) fn id_or_none(row: &Row, column: usize) -> Read<Option<RequesterId>> {
    Ok(codec::value::<Option<i32>>(row, column)?.map(|number| RequesterId(number as u32)))
}

async fn number_of(conn: &Conn, requester: Requester) -> Done<RequesterId> {
    if let Some(id) = known(conn, &requester).await? {
        return Ok(id);
    }
    let last = conn.query_opt(sql!("last_requester"), &[]).await?;
    let last = last.map(|row| codec::value::<Option<i32>>(&row, 0)).transpose()?.flatten();
    let is_full = last.is_some_and(|last| last as usize >= REQUESTERS_MAX);
    let requester = if is_full { requester.without_name() } else { requester };
    let Requester { kind, name, user } = &requester;
    conn.execute(sql!("insert_requester"), &[&codec::text(kind), &codec::text(name), &user_number(*user)]).await?;
    // Nobody removes one.
    known(conn, &requester).await?.ok_or_else(|| Trouble::inconsistent("a requester is gone"))
}

async fn known(conn: &Conn, requester: &Requester) -> Done<Option<RequesterId>> {
    let Requester { kind, name, user } = requester;
    let row = conn
        .query_opt(sql!("requester_number"), &[&codec::text(kind), &codec::text(name), &user_number(*user)])
        .await?;
    row.map(|row| Ok(RequesterId(codec::value::<i32>(&row, 0)? as u32))).transpose()
}

/// PostgreSQL's numbers have a sign. The same bits read back as the same number.
fn user_number(user: Option<IdentityId>) -> i64 {
    user.map_or(0, |user| user.0 as i64)
}

fn read(row: &Row) -> Read<(RequesterId, Requester)> {
    let user: i64 = codec::value(row, 3)?;
    let user = (user != 0).then_some(IdentityId(user as u64));
    let requester = Requester { kind: codec::value(row, 1)?, name: codec::value(row, 2)?, user };
    Ok((RequesterId(codec::value::<i32>(row, 0)? as u32), requester))
}

/// To be rolled back after an error.
async fn keep(conn: &Conn, action: &JobAction) -> Done<()> {
    let (job, at) = (Uuid::from(action.job), action.at.as_micros());
    conn.run("BEGIN").await?;
    for _ in 0..TRIES_MAX {
        let row: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
            [&job, &at, &(action.kind as i16), &number(action.by)];
        if conn.execute(sql!("keep_job_action"), &row).await? == 1 {
            conn.execute(sql!("trim_job_actions"), &[&job, &(JOB_ACTIONS_MAX as i64)]).await?;
            return conn.run("COMMIT").await;
        }
    }
    Err(Trouble::inconsistent("too many commands on one job at one moment"))
}

fn read_action(row: &Row, job: JobId) -> Read<JobAction> {
    let kind = JobActionKind::from_number(codec::value::<i16>(row, 1)?.into());
    let kind = kind.ok_or_else(|| codec::unreadable(row, 1, "not a command"))?;
    Ok(JobAction { job, at: codec::time(row, 0)?, kind, by: RequesterId(codec::value::<i32>(row, 2)? as u32) })
}
