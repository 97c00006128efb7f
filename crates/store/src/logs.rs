//! What attempts print, and letting go of what is old.

use std::collections::{BTreeMap, HashMap};

use async_trait::async_trait;
use bytes::Bytes;
use punctual_core::{AttemptNo, JobId, NamespaceId, Span, Timestamp};

use crate::Result;

/// A piece of an attempt's log. Its offset makes repeating it harmless.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogChunk {
    pub job: JobId,
    pub attempt: AttemptNo,
    pub offset: u64,
    pub bytes: Bytes,
    /// When they were written and to which stream, see [`punctual_core::log`]. Empty: nothing is known.
    pub marks: Bytes,
}

/// The marks of one chunk that is in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChunkMarks {
    pub offset: u64,
    /// How long the chunk is.
    pub len: u64,
    pub marks: Bytes,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LogPiece {
    pub bytes: Bytes,
    /// Where to read on.
    pub next_offset: u64,
}

/// The chunks without what an earlier one of the same log has in its place, for a store that takes them all at once.
pub fn without_overlap(chunks: Vec<LogChunk>) -> Vec<LogChunk> {
    let mut taken: HashMap<(JobId, AttemptNo), BTreeMap<u64, u64>> = HashMap::new();
    let fresh = |mut chunk: LogChunk| {
        let taken = taken.entry((chunk.job, chunk.attempt)).or_default();
        let end = chunk.offset.saturating_add(chunk.bytes.len() as u64);
        if taken.range(..end).next_back().is_some_and(|(_, before)| *before > chunk.offset) {
            let last = taken.last_key_value().map_or(0, |(_, last)| *last);
            let skip = usize::try_from(last.saturating_sub(chunk.offset)).unwrap_or(usize::MAX);
            chunk.bytes = chunk.bytes.split_off(skip.min(chunk.bytes.len()));
            chunk.offset = chunk.offset.max(last);
        }
        if chunk.bytes.is_empty() {
            return None;
        }
        taken.insert(chunk.offset, end);
        Some(chunk)
    };
    chunks.into_iter().filter_map(fresh).collect()
}

#[async_trait]
pub trait Logs: Send + Sync + 'static {
    /// Stores chunks. Of one that overlaps what is there, only what lies beyond the end of the log is new: what is there
    /// stays as it is, and a log takes no more room than its length.
    async fn append_logs(&self, chunks: Vec<LogChunk>) -> Result<()>;

    /// From `offset`, at least one chunk if there is one, and not much more than `limit` bytes.
    /// Any offset may be asked for; beyond the log's end there is nothing.
    async fn read_log(&self, job: JobId, attempt: AttemptNo, offset: u64, limit: usize) -> Result<LogPiece>;

    /// The marks of chunks, in order, from the one that holds `from` to the last that begins before `to`. Chunks without
    /// marks are left out.
    async fn log_marks(&self, job: JobId, attempt: AttemptNo, from: u64, to: u64) -> Result<Vec<ChunkMarks>>;

    /// Where the last chunk ends; zero when there is none.
    async fn log_end(&self, job: JobId, attempt: AttemptNo) -> Result<u64>;
}

/// A store remembers until when a task is used, to this step, so that not every submission
/// has to write to the task.
pub const TASK_USE_STEP: Span = Span::from_secs(86_400);

/// From when on tasks count as used, if what finished before `before` is let go of. A job is
/// due at most one step after what its task remembers, and a retry that moves it by more than
/// another step is remembered again.
pub fn tasks_used_since(before: Timestamp) -> Timestamp {
    before - TASK_USE_STEP - TASK_USE_STEP
}

#[async_trait]
pub trait Retention: Send + Sync + 'static {
    /// Removes up to `limit` jobs that finished before `before`, with their attempts and
    /// logs; the paths of logs that were archived are remembered as dropped. Also what expired by `now` (idempotency keys) and stale outcomes from before
    /// `before`. Likewise verdicts on times before `before`, but for what is queued, and changes of
    /// schedules from before it; deliveries of notices, backfills that ended, with their runs, and ailing tasks whose last
    /// failure was before it. The answer is how many jobs went; fewer than `limit` means that all did. It is
    /// `limit` as well where a store left some of the others for another call.
    ///
    /// When all did, tasks go that are deleted or have no name, that no job or schedule refers to, and
    /// that were last used before [`tasks_used_since`], and workers that were last seen before it.
    async fn prune(&self, before: Timestamp, now: Timestamp, limit: usize) -> Result<usize>;

    /// Removes up to `limit` jobs of one namespace that finished before `before`, with their attempts and logs, and nothing
    /// else. Not for the default namespace, whose jobs no index knows. The answer is how many went; fewer than `limit` means that all did.
    async fn prune_jobs_of(&self, namespace: NamespaceId, before: Timestamp, limit: usize) -> Result<usize>;
}
