//! What happens beside the way of a job: requests to end it, results that came too
//! late, and records that say nothing any more.

use punctual_core::attempt::Ending;
use punctual_core::shard::write::{ResolveLost, StaleOutcome, StartsId};
use punctual_core::{JobId, JobKey, JobState};
use punctual_store::codes;
use rusqlite::{Connection, params};

use super::apply::{Hit, next_attempt};
use super::settle::is_early;
use crate::writer::Failure;
use crate::{codec, sql};

pub(super) fn request_cancel(conn: &Connection, key: JobKey) -> Result<(), Failure> {
    if next_attempt(&mut conn.prepare_cached(sql!("job_attempt"))?, key)?.is_none() {
        return Err(Failure::inconsistent(format!("{} is not there to be cancelled", key.id)));
    }
    conn.prepare_cached(sql!("request_cancel"))?.execute([key.id.to_bytes()])?;
    Ok(())
}

pub(super) fn forget_cancel(conn: &Connection, id: JobId) -> Result<(), Failure> {
    conn.prepare_cached(sql!("forget_cancel_request"))?.execute([id.to_bytes()])?;
    Ok(())
}

pub(super) fn resolve_lost(conn: &Connection, resolve: &ResolveLost) -> Result<Hit, Failure> {
    let ending = match resolve.state {
        JobState::Succeeded => Ending::Succeeded,
        JobState::Failed => Ending::Failed,
        JobState::Cancelled => Ending::Cancelled,
        state @ (JobState::Scheduled
        | JobState::Running
        | JobState::Lost
        | JobState::Quarantined
        | JobState::Deleted) => {
            return Err(Failure::inconsistent(format!("a late result cannot make {} {state}", resolve.id)));
        }
    };
    let resolved = conn.prepare_cached(sql!("resolve_lost"))?.execute(params![
        resolve.id.to_bytes(),
        resolve.attempt.0,
        codes::state_code(resolve.state),
        codes::ending_code(ending),
        resolve.finished_at.as_micros(),
        is_early(resolve.id, resolve.finished_at),
        resolve.reason,
        resolve.output.as_deref(),
        codec::details_text(resolve.details.as_deref())
    ])?;
    Ok(if resolved == 1 { Hit::Row } else { Hit::Nothing })
}

pub(super) fn keep_stale(conn: &Connection, stale: &StaleOutcome) -> Result<(), Failure> {
    conn.prepare_cached(sql!("keep_stale_outcome"))?.execute(params![
        stale.id.to_bytes(),
        stale.attempt.0,
        stale.worker.to_bytes(),
        stale.at.as_micros(),
        stale.outcome
    ])?;
    Ok(())
}

pub(super) fn close_starts(conn: &Connection, starts: StartsId) -> Result<(), Failure> {
    conn.prepare_cached(sql!("close_starts"))?.execute(params![
        starts.shard.0,
        starts.epoch.0 as i64,
        starts.seq.0 as i64
    ])?;
    Ok(())
}
