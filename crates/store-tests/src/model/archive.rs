use punctual_core::attempt::{ArchivedLog, AttemptRecord};
use punctual_core::{AttemptNo, JobId, NamespaceId};
use punctual_store::{Archived, Archiving, Assembly, EndedLog, KeptLog, Result, WholeLog};

use super::{ModelStore, State};

impl ModelStore {
    pub fn kept_logs_now(&self, after: Option<(JobId, AttemptNo)>, limit: usize) -> Vec<KeptLog> {
        let state = self.state();
        let mut all: Vec<_> = state.logs.iter().map(|((job, attempt, _), _)| (*job, *attempt)).collect();
        all.dedup();
        let wanted = all.into_iter().filter(|place| after.is_none_or(|after| *place > after)).take(limit);
        let kept = wanted.map(|(job, attempt)| {
            let record = state.record_of(job, attempt);
            let ended = record
                .map(|record| EndedLog { finished_at: record.finished_at, archived: record.log.as_deref().cloned() });
            KeptLog { job, attempt, ended }
        });
        kept.collect()
    }

    pub fn assemble_log_now(&self, job: JobId, attempt: AttemptNo, base: &[u8], limit: usize) -> WholeLog {
        let mut assembly = Assembly::new(base, limit);
        for ((_, _, begin), piece) in self.state().logs.range((job, attempt, 0)..=(job, attempt, u64::MAX)) {
            assembly.add(*begin, piece);
        }
        assembly.whole()
    }

    pub fn archive_logs_now(&self, logs: &[Archiving]) -> Result<Vec<Archived>> {
        self.state().all_or_nothing(|state| Ok(logs.iter().map(|log| state.archive(log)).collect()))
    }

    pub fn archived_log_now(&self, job: JobId, attempt: AttemptNo) -> Option<ArchivedLog> {
        self.state().record_of(job, attempt)?.log.as_deref().cloned()
    }

    pub fn forget_pieces_now(&self, id: JobId) -> Result<()> {
        self.state().all_or_nothing(|state| {
            state.logs.take_all(|(job, _, _), _| *job == id);
            Ok(())
        })
    }

    pub fn dropped_logs_now(&self, limit: usize) -> Vec<String> {
        self.state().dropped_logs.keys().take(limit).cloned().collect()
    }

    pub fn forget_dropped_logs_now(&self, paths: &[String]) -> Result<()> {
        self.state().all_or_nothing(|state| {
            for path in paths {
                state.dropped_logs.take(path);
            }
            Ok(())
        })
    }
}

impl State {
    /// Of archived logs and of pieces that are still here.
    pub(super) fn log_bytes(&self, namespace: NamespaceId) -> u64 {
        let is_own = |job: &JobId| self.namespace_of_job(*job) == Some(namespace);
        let last = self.finished.iter().filter_map(|(job, finished)| Some((job, finished.attempt.as_ref()?)));
        let records = self.attempts.iter().map(|((job, _), record)| (job, record)).chain(last);
        let archived =
            records.filter(|(job, _)| is_own(job)).filter_map(|(_, record)| Some(record.log.as_ref()?.bytes));
        let pieces = self.logs.iter().filter(|((job, _, _), _)| is_own(job)).map(|(_, piece)| piece.len() as u64);
        archived.chain(pieces).sum()
    }

    fn record_of(&self, job: JobId, attempt: AttemptNo) -> Option<&AttemptRecord> {
        let last = || self.finished.get(&job)?.attempt.as_ref().filter(|last| last.attempt == attempt);
        self.attempts.get(&(job, attempt)).or_else(last)
    }

    fn archive(&mut self, archiving: &Archiving) -> Archived {
        let Archiving { job, namespace: _, attempt, log, replaces, pieces } = archiving;
        let is_in_it = |place: &(JobId, AttemptNo, u64), piece: &bytes::Bytes| {
            (place.0, place.1) == (*job, *attempt) && place.2 + piece.len() as u64 <= log.bytes
        };
        let there = self.logs.iter().filter(|(place, piece)| is_in_it(place, piece)).count();
        let Some(record) = self.record_of(*job, *attempt) else { return Archived::Changed };
        if there as u64 != *pieces || record.log.as_ref().map(|log| &log.path) != replaces.as_ref() {
            return Archived::Changed;
        }
        let record = AttemptRecord { log: Some(Box::new(log.clone())), ..record.clone() };
        match self.finished.get(job).filter(|_| !self.attempts.has(&(*job, *attempt))).cloned() {
            Some(finished) => self.finished.put(*job, super::Finished { attempt: Some(record), ..finished }),
            None => self.attempts.put((*job, *attempt), record),
        }
        self.logs.take_all(is_in_it);
        if let Some(replaced) = replaces.as_ref().filter(|replaced| **replaced != log.path) {
            self.dropped_logs.put(replaced.clone(), ());
        }
        Archived::Done
    }
}
