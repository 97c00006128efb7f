//! Chooses what happens to uploaded files and to logs.

use punctual_core::attempt::ArchivedLog;
use punctual_core::{AttemptNo, NamespaceId};
use punctual_store::{Archiving, LogChunk, NewArtifact};

use super::operation::Operation;
use super::plan::{ARTIFACTS, Plan};
use crate::fixture::{artifact_id, at, new_artifact, text};
use crate::model::ModelStore;

impl Plan {
    pub(super) fn artifact(&mut self) -> Operation {
        let n = self.random.below(ARTIFACTS);
        let id = artifact_id(n);
        match self.random.below(12) {
            0..4 => {
                let content = self.random.below(ARTIFACTS) as u8;
                let until = at(self.now + self.random.below(40) as i64);
                let size = 1000 + self.random.below(2);
                let sha256 = [content; 32];
                Operation::CreateArtifact(NewArtifact {
                    namespace: self.namespace(),
                    sha256,
                    size,
                    created_at: at(self.now),
                    until,
                    bytes_max: self.random.one_in(4).then(|| 1000 * self.random.below(4)),
                    ..new_artifact(n)
                })
            }
            4..6 => Operation::ArtifactArrived(id, at(self.now)),
            6 => Operation::RefuseArtifact(id, at(self.now)),
            7 => Operation::DeleteArtifact(id),
            8 => Operation::PruneArtifacts(self.moment(), self.moment(), self.random.below(4) as usize),
            9 => Operation::Artifact(id),
            10 => Operation::ListArtifacts(self.random.one_in(2).then_some(id), self.random.below(4) as usize),
            _ => Operation::PendingArtifacts(self.random.one_in(2).then_some(id), self.random.below(4) as usize),
        }
    }

    pub(super) fn log(&mut self) -> Operation {
        let job = self.job();
        let offset = self.random.below(6) * 4;
        if self.random.one_in(3) {
            return Operation::ReadLog(job, self.random.below(25), self.random.below(20) as usize);
        }
        let bytes = text(self.random.pick(&["", "abcd", "abcdefgh", "x"]));
        Operation::AppendLogs(vec![LogChunk {
            job,
            attempt: AttemptNo::FIRST,
            offset,
            marks: bytes.slice(..bytes.len().min(1)),
            bytes,
        }])
    }

    pub(super) fn archive(&mut self, model: &ModelStore) -> Operation {
        match self.random.below(8) {
            0 => Operation::KeptLogs(self.random.below(6) as usize),
            1 => Operation::AssembleLog(self.job(), self.random.below(30) as usize),
            2 => Operation::DroppedLogs(self.random.below(4) as usize),
            3 => Operation::ForgetDroppedLogs(model.dropped_logs_now(1)),
            _ => {
                // Mostly as somebody would who has just read it.
                let kept = model.kept_logs_now(None, 100);
                if kept.is_empty() {
                    return Operation::KeptLogs(1);
                }
                let kept = self.random.pick(&kept);
                let whole = model.assemble_log_now(kept.job, kept.attempt, &[], 100);
                let log = ArchivedLog { path: format!("logs/{}", self.now), bytes: whole.bytes.len() as u64 };
                let replaces = kept.ended.and_then(|ended| ended.archived).map(|log| log.path);
                Operation::ArchiveLogs(vec![Archiving {
                    job: kept.job,
                    namespace: NamespaceId::DEFAULT,
                    attempt: kept.attempt,
                    log,
                    replaces: replaces.filter(|_| !self.random.one_in(5)),
                    pieces: whole.pieces + u64::from(self.random.one_in(8)),
                }])
            }
        }
    }
}
