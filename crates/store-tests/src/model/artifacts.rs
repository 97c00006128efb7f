use punctual_core::task::Task;
use punctual_core::{ArtifactId, NamespaceId, TaskId, Timestamp};
use punctual_store::{
    Arrival, Artifact, ArtifactChange, ArtifactState, CreatedArtifact, NewArtifact, Result, Unfit, Waits,
};

use super::{ModelStore, State, inconsistent};

#[derive(Debug, Clone)]
pub(super) struct StoredArtifact {
    artifact: Artifact,
    used_at: Timestamp,
}

impl StoredArtifact {
    fn is_refused(&self) -> bool {
        matches!(self.artifact.state, ArtifactState::Refused { .. })
    }

    fn is_overdue(&self, now: Timestamp) -> bool {
        matches!(self.artifact.state, ArtifactState::Pending { until } if until < now)
    }
}

impl ModelStore {
    pub fn create_artifact_now(&self, new: NewArtifact) -> Result<CreatedArtifact> {
        self.state().all_or_nothing(|state| {
            if i64::try_from(new.size).is_err() {
                return Err(inconsistent("no file is so large"));
            }
            let is_same = |known: &StoredArtifact| {
                !known.is_refused()
                    && known.artifact.namespace == new.namespace
                    && (known.artifact.sha256, known.artifact.size) == (new.sha256, new.size)
                    && known.artifact.kind == new.kind
            };
            if let Some(mut known) = state.artifacts.values().find(|known| is_same(known)).cloned() {
                known.used_at = known.used_at.max(new.created_at);
                if let ArtifactState::Pending { until } = &mut known.artifact.state {
                    *until = new.until.max(*until);
                }
                state.artifacts.put(known.artifact.id, known.clone());
                return Ok(CreatedArtifact::Known(known.artifact));
            }
            if state.artifacts.has(&new.id) {
                return Err(inconsistent(format!("{} is there already", new.id)));
            }
            let bytes = state.artifact_bytes(new.namespace);
            if new.bytes_max.is_some_and(|bytes_max| bytes.saturating_add(new.size) > bytes_max) {
                return Ok(CreatedArtifact::Full { bytes });
            }
            let artifact = Artifact {
                id: new.id,
                namespace: new.namespace,
                name: new.name,
                size: new.size,
                sha256: new.sha256,
                kind: new.kind,
                state: ArtifactState::Pending { until: new.until },
                created_at: new.created_at,
            };
            state.artifacts.put(new.id, StoredArtifact { artifact: artifact.clone(), used_at: new.created_at });
            Ok(CreatedArtifact::New(artifact))
        })
    }

    pub fn artifact_now(&self, id: ArtifactId) -> Option<Artifact> {
        self.state().artifacts.get(&id).map(|stored| stored.artifact.clone())
    }

    pub fn list_artifacts_now(&self, namespace: NamespaceId, after: Option<ArtifactId>, limit: usize) -> Vec<Artifact> {
        let state = self.state();
        let before = state.artifacts.iter().rev().filter(|(id, _)| after.is_none_or(|after| **id < after));
        before
            .filter(|(_, stored)| stored.artifact.namespace == namespace)
            .map(|(_, stored)| stored.artifact.clone())
            .take(limit)
            .collect()
    }

    pub fn pending_artifacts_now(&self, after: Option<ArtifactId>, limit: usize) -> Vec<Artifact> {
        let state = self.state();
        let after = state.artifacts.iter().filter(|(id, _)| after.is_none_or(|after| **id > after));
        let pending = after.filter(|(_, stored)| matches!(stored.artifact.state, ArtifactState::Pending { .. }));
        pending.map(|(_, stored)| stored.artifact.clone()).take(limit).collect()
    }

    pub fn artifact_arrived_now(&self, id: ArtifactId, at: Timestamp, machine: Option<String>) -> Result<Arrival> {
        self.state().all_or_nothing(|state| {
            let Some(stored) = state.artifacts.get(&id).cloned() else { return Ok(Arrival::Absent) };
            match &stored.artifact.state {
                ArtifactState::Refused { reason, .. } => return Ok(Arrival::Refused { reason: reason.clone() }),
                ArtifactState::Ready { .. } => return Ok(Arrival::Done(Vec::new())),
                ArtifactState::Pending { .. } => {}
            }
            state.settle_artifact(stored, ArtifactState::Ready { at, machine }, at);
            let waiting: Vec<_> =
                state.tasks.values().filter(|task| task.task.waits_for == Some(id)).cloned().collect();
            let release = |mut stored: super::StoredTask| {
                stored.task.waits_for = None;
                stored.task.revision += 1;
                stored.task.updated_at = at;
                state.tasks.put(stored.task.id, stored.clone());
                stored.task
            };
            Ok(Arrival::Done(waiting.into_iter().map(release).collect()))
        })
    }

    pub fn refuse_artifact_now(&self, id: ArtifactId, at: Timestamp, reason: String) -> Result<ArtifactChange> {
        self.state().all_or_nothing(|state| {
            let Some(stored) = state.artifacts.get(&id).cloned() else { return Ok(ArtifactChange::Absent) };
            if !matches!(stored.artifact.state, ArtifactState::Pending { .. }) {
                return Ok(ArtifactChange::NotPending);
            }
            state.settle_artifact(stored, ArtifactState::Refused { at, reason }, at);
            Ok(ArtifactChange::Done)
        })
    }

    pub fn delete_artifact_now(&self, id: ArtifactId, unneeded_by: &[TaskId]) -> Result<ArtifactChange> {
        self.state().all_or_nothing(|state| {
            if let Some(task) = state.users_of(id).find(|task| !unneeded_by.contains(&task.id)) {
                return Ok(ArtifactChange::InUse { task: task.id, name: task.name.clone() });
            }
            Ok(state.artifacts.take(&id).map_or(ArtifactChange::Absent, |_| ArtifactChange::Done))
        })
    }

    pub fn prune_artifacts_now(&self, before: Timestamp, now: Timestamp, limit: usize) -> Result<Vec<ArtifactId>> {
        self.state().all_or_nothing(|state| {
            let free = |state: &State| -> Vec<(Timestamp, ArtifactId)> {
                let free = state.artifacts.iter().filter(|(id, _)| state.users_of(**id).next().is_none());
                free.map(|(id, stored)| (stored.used_at, *id)).collect()
            };
            let mut unused = free(state);
            unused.retain(|(used_at, _)| *used_at < before);
            unused.sort_unstable();
            let mut gone: Vec<ArtifactId> = unused.into_iter().map(|(_, id)| id).take(limit).collect();
            let overdue = free(state).into_iter().map(|(_, id)| id);
            let overdue = overdue.filter(|id| state.artifacts[id].is_overdue(now) && !gone.contains(id));
            let overdue: Vec<_> = overdue.take(limit - gone.len()).collect();
            gone.extend(overdue);
            for id in &gone {
                state.artifacts.take(id);
            }
            Ok(gone)
        })
    }
}

impl State {
    fn settle_artifact(&mut self, mut stored: StoredArtifact, now_is: ArtifactState, at: Timestamp) {
        stored.artifact.state = now_is;
        stored.used_at = stored.used_at.max(at);
        self.artifacts.put(stored.artifact.id, stored);
    }

    pub(super) fn has_artifact_of(&self, namespace: NamespaceId) -> bool {
        self.artifacts.values().any(|stored| stored.artifact.namespace == namespace)
    }

    /// The declared bytes of those that were not refused.
    pub(super) fn artifact_bytes(&self, namespace: NamespaceId) -> u64 {
        let own = self.artifacts.values().filter(|stored| stored.artifact.namespace == namespace);
        own.filter(|stored| !stored.is_refused()).map(|stored| stored.artifact.size).sum()
    }

    fn users_of(&self, id: ArtifactId) -> impl Iterator<Item = &Task> {
        let tasks = self.tasks.values().map(|stored| &stored.task);
        tasks.filter(move |task| task.spec.run.artifacts().any(|artifact| artifact == id))
    }

    /// The artifact that the task has to wait for, if any.
    pub(super) fn awaited(&self, task: &Task) -> std::result::Result<Option<ArtifactId>, (ArtifactId, Unfit)> {
        let find = |id: ArtifactId| self.artifacts.get(&id).map(|stored| &stored.artifact);
        for file in task.spec.run.files() {
            Unfit::of_file(task, find(file.artifact)).map_err(|unfit| (file.artifact, unfit))?;
        }
        let Some(id) = task.spec.run.artifact() else { return Ok(None) };
        let waits = Unfit::of_program(task, find(id)).map_err(|unfit| (id, unfit))?;
        Ok((waits == Waits::Yes).then_some(id))
    }

    /// The task is about to be changed: what it refers to was used until now.
    pub(super) fn let_go(&mut self, task: &Task, used_at: Timestamp) {
        for id in task.spec.run.artifacts() {
            if let Some(mut stored) = self.artifacts.get(&id).cloned() {
                stored.used_at = stored.used_at.max(used_at);
                self.artifacts.put(id, stored);
            }
        }
    }
}
