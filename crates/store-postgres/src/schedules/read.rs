//! Schedules and what became of them, one by one and as their owner loads them.

use std::sync::Arc;

use punctual_core::schedule::{
    By, ChangeKind, Marks, OccurrenceRow, Pause, ScheduleChange, ScheduleEdit, ScheduleRow, ScheduleState, Source,
    Verdict,
};
use punctual_core::{JobId, NamespaceId, ScheduleId, ShardId, TaskId, Timestamp};
use punctual_store::{LoadedRow, ShardSchedules};
use tokio_postgres::Row;

use crate::codec::{self, Read, Uuid, rows_max, shard_number};
use crate::connection::Conn;
use crate::link::Borrowed;
use crate::pipeline::{Param, Pipeline, Step};
use crate::sql;
use crate::trouble::Trouble;

type Done<T> = std::result::Result<T, Trouble>;

/// Sorts before every id.
const NO_ID: Uuid = Uuid([0; 16]);

pub(super) fn after_id(after: Option<ScheduleId>) -> Uuid {
    after.map_or(NO_ID, Uuid::from)
}

/// In one snapshot and one round trip.
pub(super) async fn of_shard(conn: &Borrowed<'_>, shard: ShardId) -> Done<ShardSchedules> {
    let mut steps = vec![Step::Plain("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")];
    for text in [sql!("watermark"), sql!("queued_occurrences"), sql!("tracked_jobs")] {
        let of_shard: Vec<Param> = vec![Box::new(shard_number(shard))];
        steps.push(Step::Prepared(conn.prepare(text).await?, of_shard));
    }
    steps.push(Step::Plain("COMMIT"));
    let answers = conn.within_limit(async { Ok::<_, Trouble>(Pipeline::new(conn.shared(), steps).await) }).await?;
    let answers = answers.into_iter().collect::<std::result::Result<Vec<Vec<Row>>, _>>()?;
    let [_, watermark, queued, tracked, _] = &answers[..] else {
        return Err(Trouble::inconsistent("as many answers as questions were expected"));
    };
    Ok(ShardSchedules {
        watermark: watermark.first().map(|row| codec::time(row, 0)).transpose()?.unwrap_or_default(),
        queued: queued.iter().map(read_occurrence).collect::<Read<_>>()?,
        tracked: tracked.iter().filter_map(|row| read_tracked(row).transpose()).collect::<Read<_>>()?,
    })
}

fn read_tracked(row: &Row) -> Read<Option<(Source, JobId)>> {
    let job = codec::job_id(row, 0)?;
    let source = codec::source(row, 1, job)?;
    Ok(source.map(|source| (source, job)))
}

pub(super) async fn load(conn: &Conn, shard: ShardId, after: Option<ScheduleId>, limit: usize) -> Done<Vec<LoadedRow>> {
    let rows = conn.query(sql!("load_schedules"), &[&shard_number(shard), &after_id(after), &rows_max(limit)]).await?;
    rows.iter().map(read_loaded).collect()
}

pub(super) async fn watermarks(conn: &Conn) -> Done<Vec<(ShardId, Timestamp)>> {
    let rows = conn.query(sql!("watermarks"), &[]).await?;
    rows.iter().map(|row| Ok((codec::shard(row, 0)?, codec::time(row, 1)?))).collect()
}

pub(super) async fn one(conn: &Conn, id: ScheduleId) -> Done<Option<ScheduleRow>> {
    let row = conn.query_opt(sql!("schedule"), &[&shard_number(id.shard()), &Uuid::from(id)]).await?;
    let Some(row) = row else { return Ok(None) };
    let mut schedule = read_schedule(&row)?;
    schedule.edit.input = codec::bytes(&row, 21)?;
    Ok(Some(schedule))
}

pub(super) async fn ids(conn: &Conn, namespace: NamespaceId, names: &[String]) -> Done<Vec<(String, ScheduleId)>> {
    let names: Vec<String> = names.iter().map(|name| codec::text(name)).collect();
    let rows = conn.query(sql!("schedule_ids"), &[&names, &codec::namespace_number(namespace)]).await?;
    rows.iter().map(|row| Ok((codec::value(row, 0)?, codec::schedule_id(row, 1)?))).collect()
}

pub(super) async fn of_task(conn: &Conn, task: TaskId, limit: usize) -> Done<Vec<String>> {
    let rows = conn.query(sql!("schedules_of_task"), &[&Uuid::from(task), &rows_max(limit)]).await?;
    rows.iter().map(|row| codec::value(row, 0)).collect()
}

pub(super) async fn changes(conn: &Conn, id: ScheduleId, limit: usize) -> Done<Vec<ScheduleChange>> {
    let rows = conn.query(sql!("schedule_changes"), &[&Uuid::from(id), &rows_max(limit)]).await?;
    rows.iter().map(read_change).collect()
}

fn read_change(row: &Row) -> Read<ScheduleChange> {
    let kind: i16 = codec::value(row, 2)?;
    let kind = ChangeKind::from_number(kind.into());
    Ok(ScheduleChange {
        by: By { at: codec::time(row, 0)?, who: codec::value(row, 1)? },
        kind: kind.ok_or_else(|| codec::unreadable(row, 2, "not a change"))?,
        note: codec::value(row, 3)?,
        former_spec: codec::value::<Option<&str>>(row, 4)?.map(Arc::from),
    })
}

/// The first sixteen columns of everything that answers schedules.
pub(super) fn read_loaded(row: &Row) -> Read<LoadedRow> {
    let has_priority = codec::value::<Option<i16>>(row, 4)?.is_some();
    Ok(LoadedRow {
        id: codec::schedule_id(row, 0)?,
        namespace: codec::namespace(row, 15)?,
        name: codec::value(row, 1)?,
        task: codec::task_id(row, 2)?,
        spec: Arc::from(codec::value::<&str>(row, 3)?),
        priority: if has_priority { Some(codec::priority(row, 4)?) } else { None },
        has_input: codec::value(row, 5)?,
        state: read_state(row)?,
    })
}

fn read_state(row: &Row) -> Read<ScheduleState> {
    let pause = match codec::time_or_none(row, 8)? {
        Some(at) => Some(Pause { by: By { at, who: codec::value(row, 9)? }, note: codec::value(row, 10)? }),
        None => None,
    };
    Ok(ScheduleState {
        revision: codec::value::<i32>(row, 6)? as u32,
        since: codec::time(row, 7)?,
        pause,
        skip_until: codec::time_or_none(row, 11)?,
        runs: codec::value::<i32>(row, 12)? as u32,
        failures: codec::value::<i16>(row, 13)? as u16,
        last_success: codec::time_or_none(row, 14)?,
    })
}

/// The first twenty-one columns of `schedule` and the lists; without the input.
pub(super) fn read_schedule(row: &Row) -> Read<ScheduleRow> {
    let LoadedRow { id, namespace, name, task, spec, priority, has_input: _, state } = read_loaded(row)?;
    let calendars = match codec::value::<Option<&str>>(row, 16)? {
        Some(text) => serde_json::from_str(text).map_err(|error| codec::unreadable(row, 16, &error.to_string()))?,
        None => Vec::new(),
    };
    Ok(ScheduleRow {
        id,
        namespace,
        name,
        edit: ScheduleEdit { task, spec, calendars, priority, input: None },
        state,
        created: By { at: codec::time(row, 17)?, who: codec::value(row, 18)? },
        changed: By { at: codec::time(row, 19)?, who: codec::value(row, 20)? },
    })
}

/// The first eleven columns of `queued_occurrences` and `occurrences`.
pub(super) fn read_occurrence(row: &Row) -> Read<OccurrenceRow> {
    let at = codec::time(row, 1)?;
    let verdict = Verdict::from_number(codec::value::<i16>(row, 3)?.into());
    Ok(OccurrenceRow {
        schedule: codec::schedule_id(row, 0)?,
        at,
        slot: codec::time_or_none(row, 2)?.unwrap_or(at),
        verdict: verdict.ok_or_else(|| codec::unreadable(row, 3, "not a verdict"))?,
        decided_at: codec::time(row, 4)?,
        marks: Marks(codec::value::<i16>(row, 5)? as u16),
        count: codec::value::<i32>(row, 6)? as u32,
        job: codec::job_id_or_none(row, 7)?,
        reason: codec::value(row, 8)?,
        started_at: codec::time_or_none(row, 9)?,
        requested_by: codec::value(row, 10)?,
    })
}
