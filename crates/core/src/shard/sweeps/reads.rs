//! Reads under way, and the jobs whose rows they may show as they were before.
//!
//! A read takes time. A job that ends or moves meanwhile leaves memory, and the read
//! may still show its old row; taken for a new job, it would start twice. So each
//! read has a number, and a job that leaves is remembered together with the newest
//! read that may have seen it.

use std::collections::{BTreeSet, VecDeque};

use crate::id::JobId;
use crate::id_map::IdMap;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(in crate::shard) struct ReadNo(u64);

#[derive(Default)]
pub(super) struct Reads {
    begun: u64,
    open: BTreeSet<ReadNo>,
    /// The newest read that may show the old row of each job.
    gone: IdMap<JobId, ReadNo>,
    /// The jobs in `gone`, oldest first.
    order: VecDeque<(ReadNo, JobId)>,
}

impl Reads {
    pub(super) fn begin(&mut self) -> ReadNo {
        self.begun += 1;
        let read = ReadNo(self.begun);
        self.open.insert(read);
        read
    }

    pub(super) fn end(&mut self, read: ReadNo) {
        self.open.remove(&read);
        let oldest = self.open.first().copied();
        while let Some(&(newest, id)) = self.order.front() {
            if oldest.is_some_and(|oldest| oldest <= newest) {
                break;
            }
            self.order.pop_front();
            // It may have left again since, for newer reads.
            if self.gone.get(&id) == Some(&newest) {
                self.gone.remove(&id);
            }
        }
    }

    /// The job's row is not what it was.
    pub(super) fn left(&mut self, id: JobId) {
        if self.open.is_empty() {
            return;
        }
        let newest = ReadNo(self.begun);
        self.gone.insert(id, newest);
        self.order.push_back((newest, id));
    }

    /// Whether this read may show an old row of the job.
    pub(super) fn is_outdated(&self, read: ReadNo, id: JobId) -> bool {
        self.gone.get(&id).is_some_and(|&newest| read <= newest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::ShardId;
    use crate::time::Timestamp;

    fn job(random: u64) -> JobId {
        JobId::new(Timestamp::EPOCH, ShardId(0), random)
    }

    #[test]
    fn a_read_is_outdated_for_jobs_that_left_after_it_began() {
        let mut reads = Reads::default();
        let early = reads.begin();
        reads.left(job(1));
        let late = reads.begin();
        assert!(reads.is_outdated(early, job(1)));
        assert!(!reads.is_outdated(late, job(1)));
        assert!(!reads.is_outdated(early, job(2)));
    }

    #[test]
    fn nothing_is_remembered_beyond_the_reads_that_it_concerns() {
        let mut reads = Reads::default();
        reads.left(job(1));
        let first = reads.begin();
        reads.left(job(2));
        let second = reads.begin();
        reads.left(job(2));
        reads.end(first);
        assert!(reads.is_outdated(second, job(2)));
        assert_eq!(reads.gone.len(), 1);
        reads.end(second);
        assert!(reads.gone.is_empty() && reads.order.is_empty());
    }
}
