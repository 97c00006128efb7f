//! A job leaves the hot table for history.

use punctual_core::shard::write::{CancelMark, Settle};
use punctual_core::{JobId, Timestamp};
use punctual_store::codes;
use rusqlite::{CachedStatement, Connection, params};

use super::apply::one_row;
use super::late::forget_cancel;
use crate::writer::Failure;
use crate::{codec, sql};

pub(super) struct Settling<'c> {
    conn: &'c Connection,
    copy: CachedStatement<'c>,
    take: CachedStatement<'c>,
}

impl<'c> Settling<'c> {
    pub(super) fn new(conn: &'c Connection) -> Result<Self, Failure> {
        Ok(Self { conn, copy: conn.prepare_cached(sql!("settle"))?, take: conn.prepare_cached(sql!("take_job"))? })
    }

    pub(super) fn settle(&mut self, settle: &Settle) -> Result<(), Failure> {
        let Settle { key, state, finished_at, counters, attempt, .. } = settle;
        let state = codes::state_code(*state)
            .ok_or_else(|| Failure::inconsistent(format!("{} cannot end as {state}", key.id)))?;
        let (shard, due_at, id) = (key.shard().0, key.due_at.as_micros(), key.id.to_bytes());
        let ran = attempt.as_ref();
        let copied = self.copy.execute(params![
            shard,
            due_at,
            id,
            state,
            finished_at.as_micros(),
            is_early(key.id, *finished_at),
            counters.next_attempt.0,
            counters.failures,
            counters.node_failures,
            ran.map(|ran| ran.attempt.0),
            ran.map(|ran| ran.worker.to_bytes()),
            ran.map(|ran| ran.server.to_bytes()),
            ran.map(|ran| ran.picked_up_at.as_micros()),
            ran.map(|ran| ran.started_at.as_micros()),
            ran.map(|ran| codes::ending_code(ran.ending)),
            ran.map_or(&settle.reason, |ran| &ran.reason),
            settle.output.as_deref(),
            codec::details_text(ran.and_then(|ran| ran.details.as_deref()))
        ])?;
        one_row(copied, || format!("{} is not there to be settled", key.id))?;
        let taken = self.take.execute(params![shard, due_at, id])?;
        one_row(taken, || format!("{} was copied and is not there to be removed", key.id))?;
        if let Some(&(schedule, at)) = settle.success_of.as_deref() {
            let mut statement = self.conn.prepare_cached(sql!("schedule_succeeded"))?;
            statement.execute(params![schedule.shard().0, schedule.to_bytes(), at.as_micros()])?;
        }
        match settle.cancel {
            CancelMark::None => Ok(()),
            CancelMark::Recorded => forget_cancel(self.conn, key.id),
        }
    }
}

/// Retention goes by id, that is by first due time, and would miss these for long.
pub(super) fn is_early(id: JobId, finished_at: Timestamp) -> bool {
    finished_at < id.due_at()
}
