//! The ledger: verdicts on planned times, and the jobs that they make.

use punctual_core::schedule::OccurrenceRow;
use punctual_core::shard::write::{Decision, FiredJob, LateStart, Void};
use punctual_core::{JobKey, ShardId, Timestamp};
use rusqlite::types::Null;
use rusqlite::{CachedStatement, Connection, params};

use super::schedules::Numbers;
use crate::sql;
use crate::writer::Failure;

/// Answers the jobs that were made.
pub(super) fn decide<'b>(
    conn: &Connection,
    decisions: &[&'b Decision],
    numbers: &Numbers,
    void: &mut Void,
) -> Result<Vec<&'b FiredJob>, Failure> {
    let mut statement = conn.prepare_cached(sql!("insert_occurrence"))?;
    let mut firing = Firing::new(conn, numbers)?;
    for decision in decisions {
        let OccurrenceRow {
            schedule,
            at,
            slot,
            verdict,
            decided_at,
            marks,
            count,
            job,
            started_at: _,
            reason,
            requested_by,
        } = &decision.occurrence;
        let decided = statement.execute(params![
            schedule.to_bytes(),
            at.as_micros(),
            schedule.shard().0,
            slot.as_micros(),
            *verdict as u8,
            decided_at.as_micros(),
            marks.0,
            count,
            job.map(|job| job.to_bytes()),
            reason,
            requested_by
        ])?;
        match decided {
            0 => void.occurrences.push((*schedule, *at)),
            _ => firing.fire(decision)?,
        }
    }
    Ok(firing.made)
}

/// Answers the jobs that were made.
pub(super) fn release<'b>(
    conn: &Connection,
    decisions: &[&'b Decision],
    numbers: &Numbers,
    void: &mut Void,
) -> Result<Vec<&'b FiredJob>, Failure> {
    let mut statement = conn.prepare_cached(sql!("release_occurrence"))?;
    let mut firing = Firing::new(conn, numbers)?;
    for decision in decisions {
        // Who asked for it is on record since it was queued.
        let OccurrenceRow { schedule, at, slot, verdict, decided_at, marks, count, job, reason, .. } =
            &decision.occurrence;
        let released = statement.execute(params![
            schedule.to_bytes(),
            at.as_micros(),
            slot.as_micros(),
            *verdict as u8,
            decided_at.as_micros(),
            marks.0,
            count,
            job.map(|job| job.to_bytes()),
            reason
        ])?;
        match released {
            0 => void.occurrences.push((*schedule, *at)),
            _ => firing.fire(decision)?,
        }
    }
    Ok(firing.made)
}

/// Runs that started late. A time whose row is gone, or has another job, is left alone.
pub(super) fn started_late(conn: &Connection, starts: &[&LateStart]) -> Result<(), Failure> {
    if starts.is_empty() {
        return Ok(());
    }
    let mut statement = conn.prepare_cached(sql!("started_late"))?;
    for LateStart { schedule, at, job, started_at, marks } in starts {
        let key = (schedule.to_bytes(), at.as_micros());
        statement.execute(params![key.0, key.1, job.to_bytes(), started_at.as_micros(), marks.0])?;
    }
    Ok(())
}

/// Stores the jobs of planned times.
struct Firing<'c, 'b> {
    numbers: &'c Numbers,
    bare: CachedStatement<'c>,
    with_input: CachedStatement<'c>,
    count: CachedStatement<'c>,
    made: Vec<&'b FiredJob>,
}

impl<'c, 'b> Firing<'c, 'b> {
    fn new(conn: &'c Connection, numbers: &'c Numbers) -> Result<Self, Failure> {
        let bare = conn.prepare_cached(sql!("insert_job"))?;
        let with_input = conn.prepare_cached(sql!("fire_with_input"))?;
        let count = conn.prepare_cached(sql!("count_run"))?;
        Ok(Self { numbers, bare, with_input, count, made: Vec::new() })
    }

    fn fire(&mut self, decision: &'b Decision) -> Result<(), Failure> {
        let Decision { occurrence, job: Some(job), notice: _ } = decision else { return Ok(()) };
        let FiredJob { id, task, priority, source, has_input, is_counted } = job;
        // The fence that was checked is that of the schedule's shard.
        if id.shard() != occurrence.schedule.shard() {
            let schedule = occurrence.schedule;
            return Err(Failure::inconsistent(format!("{id} is not of the shard of {schedule}, which makes it")));
        }
        let key = JobKey::original(*id);
        let (shard, due_at, bytes) = (key.shard().0, key.due_at.as_micros(), id.to_bytes());
        let (known, source) = (self.numbers[task], source.to_bytes());
        let (number, namespace) = (known.number, known.namespace.or_none());
        let submitted_at = occurrence.decided_at.as_micros();
        let priority = priority.get();
        if *has_input {
            let schedule = occurrence.schedule.to_bytes();
            let row = params![shard, due_at, bytes, number, priority, submitted_at, source, schedule, namespace];
            self.with_input.execute(row)?;
        } else {
            let row =
                params![shard, due_at, bytes, number, priority, submitted_at, Null, source, Null, namespace, Null];
            self.bare.execute(row)?;
        }
        if *is_counted {
            self.count.execute(params![shard, occurrence.schedule.to_bytes()])?;
        }
        self.made.push(job);
        Ok(())
    }
}

pub(super) fn raise_watermarks(conn: &Connection, watermarks: &[(ShardId, Timestamp)]) -> Result<(), Failure> {
    for (ShardId(shard), at) in watermarks {
        conn.prepare_cached(sql!("raise_watermark"))?.execute(params![shard, at.as_micros()])?;
    }
    Ok(())
}
