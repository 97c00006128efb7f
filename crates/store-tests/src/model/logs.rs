use bytes::{Bytes, BytesMut};
use punctual_core::{AttemptNo, JobId, NamespaceId, Timestamp};
use punctual_store::{ChunkMarks, LogChunk, LogPiece, Result, tasks_used_since};

use super::{Finished, ModelStore, State, inconsistent};

impl ModelStore {
    pub fn append_logs_now(&self, chunks: Vec<LogChunk>) -> Result<()> {
        self.state().all_or_nothing(|state| {
            for chunk in chunks {
                if chunk.offset.saturating_add(chunk.bytes.len() as u64) > i64::MAX as u64 {
                    return Err(inconsistent("no log is so long"));
                }
                let (job, attempt) = (chunk.job, chunk.attempt);
                let end_before = |before| {
                    let last = state.logs.range((job, attempt, 0)..(job, attempt, before)).next_back();
                    last.map_or(0, |((_, _, begin), bytes)| begin + bytes.len() as u64)
                };
                let end = chunk.offset + chunk.bytes.len() as u64;
                let overlaps = end_before(end) > chunk.offset;
                let begin = if overlaps { chunk.offset.max(end_before(u64::MAX)) } else { chunk.offset };
                if end > begin {
                    state.logs.put((job, attempt, begin), chunk.bytes.slice((begin - chunk.offset) as usize..));
                    let marks = if begin == chunk.offset { chunk.marks } else { Bytes::new() };
                    state.log_marks.put((job, attempt, begin), marks);
                }
            }
            Ok(())
        })
    }

    pub fn read_log_now(&self, job: JobId, attempt: AttemptNo, offset: u64, limit: usize) -> LogPiece {
        let state = self.state();
        let of_attempt = |from| state.logs.range((job, attempt, from)..=(job, attempt, u64::MAX));
        let holder = of_attempt(0).map(|((_, _, begin), _)| *begin).take_while(|begin| *begin <= offset).last();
        let mut bytes = BytesMut::new();
        let mut next_offset = offset;
        for ((_, _, begin), chunk) in of_attempt(holder.unwrap_or(0)) {
            let skip = next_offset.saturating_sub(*begin) as usize;
            if skip >= chunk.len() {
                continue;
            }
            let rest = &chunk[skip..];
            if !bytes.is_empty() && bytes.len() + rest.len() > limit {
                break;
            }
            bytes.extend_from_slice(rest);
            next_offset = begin + chunk.len() as u64;
        }
        LogPiece { bytes: bytes.freeze(), next_offset }
    }

    pub fn log_marks_now(&self, job: JobId, attempt: AttemptNo, from: u64, to: u64) -> Vec<ChunkMarks> {
        let state = self.state();
        let begins =
            |limit: u64| state.logs.range((job, attempt, 0)..=(job, attempt, limit)).map(|((_, _, at), _)| *at);
        let first = begins(from).last().unwrap_or(0);
        let marks = |begin: u64| ChunkMarks {
            offset: begin,
            len: state.logs.get(&(job, attempt, begin)).map_or(0, |chunk| chunk.len() as u64),
            marks: state.log_marks.get(&(job, attempt, begin)).cloned().unwrap_or_default(),
        };
        let chunks = begins(u64::MAX).filter(|begin| (first..to).contains(begin)).map(marks);
        chunks.filter(|chunk| !chunk.marks.is_empty()).collect()
    }

    pub fn log_end_now(&self, job: JobId, attempt: AttemptNo) -> u64 {
        let state = self.state();
        let last = state.logs.range((job, attempt, 0)..=(job, attempt, u64::MAX)).next_back();
        last.map_or(0, |((_, _, begin), chunk)| begin + chunk.len() as u64)
    }

    pub fn prune_now(&self, before: Timestamp, now: Timestamp, limit: usize) -> Result<usize> {
        self.state().all_or_nothing(|state| {
            let mut old: Vec<_> = state.finished.iter().filter(|(_, job)| job.finished_at < before).collect();
            // Those that were due come first, in order of id; then those that ended early.
            old.sort_by_key(
                |(id, job)| if id.due_at() < before { (Timestamp::EPOCH, **id) } else { (job.finished_at, **id) },
            );
            let old: Vec<JobId> = old.into_iter().map(|(id, _)| *id).take(limit).collect();
            for id in &old {
                state.forget(*id);
            }
            if old.len() < limit {
                state.forget_tasks(before);
            }
            state.forget_ledger(before);
            state.forget_reports(before);
            state.forget_namespaces(before);
            state.forget_backfills(before);
            state.batches.take_all(|_, (row, _)| row.state.ended_at.is_some_and(|at| at < before));
            state.workers.take_all(|_, worker| worker.last_seen_at < tasks_used_since(before));
            state.stale.take_all(|_, (at, _)| *at < before);
            state.answers.take_all(|_, kept| kept.expires_at <= now);
            Ok(old.len())
        })
    }
}

impl ModelStore {
    pub fn prune_jobs_of_now(&self, namespace: NamespaceId, before: Timestamp, limit: usize) -> Result<usize> {
        self.state().all_or_nothing(|state| {
            let is_old = |job: &Finished| job.finished_at < before && state.namespace_of(job.hot.task) == namespace;
            let mut old: Vec<_> = state.finished.iter().filter(|(_, job)| is_old(job)).collect();
            old.sort_by_key(
                |(id, job)| if id.due_at() < before { (Timestamp::EPOCH, **id) } else { (job.finished_at, **id) },
            );
            let old: Vec<JobId> = old.into_iter().map(|(id, _)| *id).take(limit).collect();
            for id in &old {
                state.forget(*id);
            }
            Ok(old.len())
        })
    }
}

impl State {
    fn forget(&mut self, id: JobId) {
        let earlier = self.attempts.range((id, AttemptNo(0))..=(id, AttemptNo(u32::MAX))).map(|(_, attempt)| attempt);
        let last = self.finished.get(&id).and_then(|job| job.attempt.as_ref());
        let paths: Vec<String> =
            earlier.chain(last).filter_map(|attempt| Some(attempt.log.as_ref()?.path.clone())).collect();
        for path in paths {
            self.dropped_logs.put(path, ());
        }
        self.finished.take(&id);
        self.cancel_requests.take(&id);
        self.attempts.take_all(|(job, _), _| *job == id);
        self.logs.take_all(|(job, _, _), _| *job == id);
        self.stale.take_all(|(job, _, _), _| *job == id);
        self.reruns.take_all(|(job, _), _| *job == id);
        self.job_actions.take_all(|(job, _), _| *job == id);
    }
}
