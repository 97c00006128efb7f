//! What people may want to be told of a batch.

use punctual_core::Timestamp;
use punctual_core::notice::Notice;
use punctual_core::shard::write::{Batch, Void};
use rusqlite::{Connection, params};

use crate::sql;
use crate::writer::Failure;

/// In the order of the writes, without those that were left out.
pub(super) fn keep(conn: &Connection, batch: &Batch, void: &Void) -> Result<(), Failure> {
    for notice in batch.notices(void) {
        let Notice { at, kind, shard, task, job, planned, count, lateness } = notice;
        conn.prepare_cached(sql!("keep_notice"))?.execute(params![
            at.as_micros(),
            *kind as u8,
            shard.0,
            task.map(|task| task.to_bytes()),
            job.map(|job| job.to_bytes()),
            planned.map(|(schedule, _)| schedule.to_bytes()),
            planned.map(|(_, at)| Timestamp::as_micros(at)),
            count,
            lateness.map(|lateness| lateness.as_micros())
        ])?;
    }
    Ok(())
}
