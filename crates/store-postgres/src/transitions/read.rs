//! What the owner reads.

use std::collections::HashMap;

use bytes::Bytes;
use punctual_core::job::Input;
use punctual_core::shard::event::{Load, Sweep};
use punctual_core::shard::write::{BatchSeq, CancelMark, OpenStart, Start, StartsId};
use punctual_core::{JobId, JobKey, JobRow, ServerId, ShardId};
use punctual_store::columns::job_row;
use punctual_store::{FoundRow, LoadPage, MakerFields, OpenStarts};
use tokio_postgres::Row;

use super::starts;
use crate::codec::{self, Read, Uuid, shard_number};
use crate::connection::Conn;
use crate::instance::whole_since;
use crate::link::Borrowed;
use crate::pipeline::{Pipeline, Step};
use crate::sql;
use crate::trouble::Trouble;

type Done<T> = Result<T, Trouble>;

const INLINE_MAX: i32 = Input::INLINE_MAX as i32;

pub(super) async fn load(conn: &Conn, load: &Load) -> Done<LoadPage> {
    // An id of zeros sorts before every id.
    let after = load.after.map_or((-1, Uuid([0; 16])), |key| (key.due_at.as_micros(), key.id.into()));
    let limit = i64::try_from(load.limit).unwrap_or(i64::MAX);
    let (shard, until) = (shard_number(load.shard), load.until.as_micros());
    let params: [&(dyn tokio_postgres::types::ToSql + Sync); 6] =
        [&shard, &after.0, &after.1, &until, &limit, &INLINE_MAX];
    let rows = match load.sweep {
        Sweep::Urgent => conn.query(sql!("load_urgent"), &params).await?,
        _ if load.skip.is_empty() => conn.query(sql!("load"), &params).await?,
        Sweep::All | Sweep::Floor | Sweep::Parked => return load_passing(conn, load, &params).await,
    };
    let rows = rows.iter().map(read_row).collect::<Done<Vec<JobRow>>>()?;
    let stopped_at = rows.last().filter(|_| rows.len() >= load.limit).map(|row| row.key);
    Ok(LoadPage { rows, stopped_at })
}

/// Leaves out jobs of some tasks where they are.
async fn load_passing(
    conn: &Conn,
    load: &Load,
    params: &[&(dyn tokio_postgres::types::ToSql + Sync)],
) -> Done<LoadPage> {
    let look_at_max = i64::try_from(load.look_at_max()).unwrap_or(i64::MAX);
    let skip: Vec<Uuid> = load.skip.iter().map(|task| (*task).into()).collect();
    let mut all = params.to_vec();
    all.extend([&look_at_max as &(dyn tokio_postgres::types::ToSql + Sync), &skip]);
    let found = conn.query(sql!("load_passing"), &all).await?;
    let mut page = LoadPage::default();
    for row in &found {
        let job = read_row(row)?;
        if codec::value(row, job_row::COUNT)? || page.rows.len() + 1 == load.limit {
            page.stopped_at = Some(job.key);
        }
        if !codec::value::<bool>(row, job_row::COUNT + 1)? {
            page.rows.push(job);
        }
    }
    Ok(page)
}

/// In one snapshot: a job that moves between two looks would not be seen at all.
pub(super) async fn find(conn: &Borrowed<'_>, id: JobId) -> Done<FoundRow> {
    let key = JobKey::original(id);
    let steps = vec![
        Step::Plain("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"),
        Step::Prepared(
            conn.prepare(sql!("job_row")).await?,
            vec![
                Box::new(shard_number(key.shard())),
                Box::new(key.due_at.as_micros()),
                Box::new(Uuid::from(id)),
                Box::new(INLINE_MAX),
            ],
        ),
        Step::Prepared(conn.prepare(sql!("find_finished")).await?, vec![Box::new(Uuid::from(id))]),
        Step::Plain("COMMIT"),
    ];
    let mut answers = conn.within_limit(async { Ok::<_, Trouble>(Pipeline::new(conn.shared(), steps).await) }).await?;
    let mut answer = |place: usize| std::mem::replace(&mut answers[place], Ok(Vec::new()));
    answer(0)?;
    let (hot, finished) = (answer(1)?, answer(2)?);
    if let Some(row) = hot.first() {
        return Ok(FoundRow::Hot(read_row(row)?));
    }
    let Some(row) = finished.first() else { return Ok(FoundRow::Absent) };
    Ok(FoundRow::Finished {
        state: codec::state(row, 0)?,
        attempt: codec::attempt_no(row, 1)?,
        counters: codec::counters(row, [2, 3, 4])?,
    })
}

pub(super) async fn inputs(conn: &Conn, keys: &[JobKey]) -> Done<Vec<Option<Bytes>>> {
    let (shards, due, ids) = places(keys);
    let rows = conn.query(sql!("job_inputs"), &[&shards, &due, &ids]).await?;
    let mut inputs = vec![None; keys.len()];
    for row in &rows {
        let place = codec::value::<i64>(row, 0)?;
        inputs[place as usize - 1] = codec::bytes(row, 1)?;
    }
    Ok(inputs)
}

/// A start is open while its job's row still expects that attempt: the end of an attempt
/// removes the row or raises its number.
pub(super) async fn open_starts(conn: &Conn, shard: ShardId) -> Done<OpenStarts> {
    conn.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
    let records = conn.query(sql!("open_starts"), &[&shard_number(shard)]).await?;
    let records = records.iter().map(|row| read_record(row, shard)).collect::<Done<Vec<_>>>()?;
    let keys: Vec<JobKey> = records.iter().flat_map(|record| &record.starts).map(|start| start.key).collect();
    let (shards, due, ids) = places(&keys);
    let rows = conn.query(sql!("job_rows"), &[&shards, &due, &ids, &INLINE_MAX]).await?;
    let whole_since = whole_since(conn).await?;
    conn.run("COMMIT").await?;
    let mut found: HashMap<usize, &Row> = HashMap::with_capacity(rows.len());
    for row in &rows {
        found.insert(codec::value::<i64>(row, job_row::COUNT)? as usize - 1, row);
    }
    let mut open = OpenStarts { whole_since, ..OpenStarts::default() };
    let mut place = 0;
    for record in records {
        let before = open.running.len();
        for start in record.starts {
            let row = found.get(&place);
            place += 1;
            let Some(row) = row else { continue };
            let job = read_row(row)?;
            if job.counters.next_attempt != start.attempt {
                continue;
            }
            let cancel = if codec::value(row, job_row::COUNT + 1)? { CancelMark::Recorded } else { CancelMark::None };
            open.running.push((OpenStart { starts: record.name, start, server: record.server, cancel }, job));
        }
        if open.running.len() == before {
            open.spent.push(record.name);
        }
    }
    Ok(open)
}

struct Record {
    name: StartsId,
    server: ServerId,
    starts: Vec<Start>,
}

fn read_record(row: &Row, shard: ShardId) -> Done<Record> {
    let seq = BatchSeq(codec::value::<i64>(row, 1)?.unsigned_abs());
    let name = StartsId { shard, epoch: codec::epoch(row, 0)?, seq };
    let starts = starts::decode(codec::value(row, 3)?)
        .ok_or_else(|| Trouble::inconsistent(format!("the record of starts {name:?} cannot be read")))?;
    Ok(Record { name, server: codec::server_id(row, 2)?, starts })
}

fn places(keys: &[JobKey]) -> (Vec<i16>, Vec<i64>, Vec<Uuid>) {
    let shards = keys.iter().map(|key| shard_number(key.shard())).collect();
    let due = keys.iter().map(|key| key.due_at.as_micros()).collect();
    (shards, due, keys.iter().map(|key| key.id.into()).collect())
}

/// From a row of `load`, `load_passing`, `load_urgent`, `job_row` and `job_rows`.
fn read_row(row: &Row) -> Read<JobRow> {
    use job_row as column;
    let id = codec::job_id(row, column::ID)?;
    let MakerFields { source, node, member } = codec::maker(row, column::SOURCE, id)?.into();
    Ok(JobRow {
        key: JobKey { id, due_at: codec::time(row, column::DUE_AT)? },
        task: codec::task_id(row, column::TASK)?,
        priority: codec::priority(row, column::PRIORITY)?,
        counters: codec::counters(row, [column::NEXT_ATTEMPT, column::FAILURES, column::NODE_FAILURES])?,
        submitted_at: codec::time(row, column::SUBMITTED_AT)?,
        tracing_id: codec::value(row, column::TRACING_ID)?,
        source,
        node,
        member,
        give_backs: codec::give_backs(row, column::GIVE_BACKS, id)?,
        input: codec::input(row, column::INPUT, column::INPUT_LEN)?,
    })
}
