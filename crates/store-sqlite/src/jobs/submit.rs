//! Stores new jobs.

use punctual_core::{JobKey, Timestamp};
use punctual_store::{IdempotencyKey, NewJob, SUBMIT_MAX, Submission, Submitted};
use rusqlite::{Connection, OptionalExtension, params};

use crate::writer::{Db, Failure};
use crate::{batches, sql};

pub(super) fn run(db: &mut Db, submission: &Submission, shard_count: u16) -> Result<Submitted, Failure> {
    let Submission { jobs, idempotency, batch } = submission;
    expect_few(jobs)?;
    if let Some(wanted) = idempotency
        && let Some(before) = answered_before(&db.conn, &wanted.key, &wanted.fingerprint, wanted.now)?
    {
        return Ok(before);
    }
    let tasks = numbers(db, jobs, shard_count)?;
    // One job needs no savepoint: its insert comes first, and a statement that fails leaves nothing.
    if let Some(batch) = batch {
        db.all_or_nothing(|db| {
            batches::insert(db, batch)?;
            insert(db, jobs, &tasks)
        })?;
    } else if jobs.len() > 1 {
        db.all_or_nothing(|db| insert(db, jobs, &tasks))?;
    } else {
        insert(db, jobs, &tasks)?;
    }
    use_tasks(db, jobs)?;
    if let Some(kept) = idempotency {
        db.conn.prepare_cached(sql!("keep_answer"))?.execute(params![
            kept.key.key,
            kept.fingerprint,
            &kept.answer[..],
            kept.expires_at.as_micros(),
            kept.key.namespace.0
        ])?;
    }
    Ok(Submitted::Done)
}

/// As part of an operation that leaves nothing behind when it is refused.
pub(crate) fn store_jobs(db: &mut Db, jobs: &[NewJob], shard_count: u16) -> Result<(), Failure> {
    expect_few(jobs)?;
    let tasks = numbers(db, jobs, shard_count)?;
    insert(db, jobs, &tasks)?;
    use_tasks(db, jobs)
}

fn expect_few(jobs: &[NewJob]) -> Result<(), Failure> {
    if jobs.len() > SUBMIT_MAX {
        return Err(Failure::inconsistent(format!("{} jobs in one submission, of at most {SUBMIT_MAX}", jobs.len())));
    }
    Ok(())
}

/// Of the tasks of jobs. One that is not there, or is in another namespace, refuses them, and so does a shard that is not
/// there.
fn numbers(db: &mut Db, jobs: &[NewJob], shard_count: u16) -> Result<Vec<i64>, Failure> {
    let mut tasks = Vec::with_capacity(jobs.len());
    for job in jobs {
        if job.id.shard().0 >= shard_count {
            return Err(Failure::inconsistent(format!("{} is of shard {}, of {shard_count}", job.id, job.id.shard())));
        }
        let known = db.known_task(job.task)?;
        if known.namespace != job.namespace {
            return Err(Failure::inconsistent(format!("{} is not in the namespace of {}", job.id, job.task)));
        }
        tasks.push(known.number);
    }
    Ok(tasks)
}

fn use_tasks(db: &mut Db, jobs: &[NewJob]) -> Result<(), Failure> {
    for job in jobs {
        db.use_task(job.task, job.id.due_at())?;
    }
    Ok(())
}

pub(super) fn answered_before(
    conn: &Connection,
    key: &IdempotencyKey,
    fingerprint: &[u8; 32],
    now: Timestamp,
) -> Result<Option<Submitted>, Failure> {
    let kept = conn
        .prepare_cached(sql!("idempotent_answer"))?
        .query_row(params![key.key, now.as_micros(), key.namespace.0], |row| {
            Ok((row.get::<_, [u8; 32]>(0)?, row.get::<_, Vec<u8>>(1)?))
        })
        .optional()?;
    Ok(kept.map(
        |(of, answer)| {
            if of == *fingerprint { Submitted::Replayed { answer: answer.into() } } else { Submitted::KeyReused }
        },
    ))
}

fn insert(db: &Db, jobs: &[NewJob], tasks: &[i64]) -> Result<(), Failure> {
    let mut statement = db.conn.prepare_cached(sql!("insert_job"))?;
    for (job, task) in jobs.iter().zip(tasks) {
        let key = JobKey::original(job.id);
        statement.execute(params![
            key.shard().0,
            key.due_at.as_micros(),
            job.id.to_bytes(),
            task,
            job.priority.get(),
            job.submitted_at.as_micros(),
            job.tracing_id,
            job.maker(),
            job.input.as_deref(),
            job.namespace.or_none(),
            job.requester.map(|requester| requester.0)
        ])?;
    }
    Ok(())
}
