//! Finds out whether the file of a pending artifact has arrived, and what it is.

use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt;
use punctual_blobs::{Key, ServedBy};
use punctual_core::ArtifactId;
use punctual_core::task::Task;
use punctual_store::{Arrival, Artifact, ArtifactKind};
use sha2::{Digest, Sha256};

use super::{file_key, key, upload_key};
use crate::elf::{ElfCheck, Machine};
use crate::{App, Result};

/// Whoever asks for an artifact waits for its check no longer than this: a large file takes longer.
const CHECK_WAIT_MAX: Duration = Duration::from_secs(5);

/// Peers are told of so many tasks that have become eligible. They find the others by themselves.
const TASKS_TOLD_MAX: usize = 100;

/// What a file turned out to be.
enum Verdict {
    /// With the processor that runs it, if it is a program.
    Good(Option<Machine>),
    Bad(String),
}

/// Reads a file as it passes.
pub(super) struct Inspection {
    digest: Sha256,
    elf: ElfCheck,
    seen: u64,
}

impl Inspection {
    pub(super) fn new() -> Self {
        Self { digest: Sha256::new(), elf: ElfCheck::default(), seen: 0 }
    }

    pub(super) fn feed(&mut self, piece: &[u8]) {
        self.seen += piece.len() as u64;
        self.digest.update(piece);
        self.elf.feed(piece);
    }

    pub(super) fn seen(&self) -> u64 {
        self.seen
    }

    /// The digest, and what the file is. A file that nobody runs may be anything.
    pub(super) fn finish(self, kind: ArtifactKind) -> ([u8; 32], std::result::Result<Option<Machine>, String>) {
        let found = match kind {
            ArtifactKind::Binary => self.elf.finish().map(Some),
            ArtifactKind::File => Ok(None),
        };
        (self.digest.finalize().into(), found)
    }
}

/// One check of an artifact at a time.
struct Checking {
    app: App,
    id: ArtifactId,
}

impl Checking {
    fn begin(app: &App, id: ArtifactId) -> Option<Self> {
        let is_first = app.0.handling.checked.lock().expect("no panic while the lock is held").insert(id);
        is_first.then(|| Self { app: app.clone(), id })
    }
}

impl Drop for Checking {
    fn drop(&mut self) {
        self.app.0.handling.checked.lock().expect("no panic while the lock is held").remove(&self.id);
    }
}

impl App {
    /// Checks whether the file of a pending artifact is there, and settles the artifact if it is.
    /// A check that takes long goes on after this returns, and a second one does nothing meanwhile.
    pub async fn check_arrival(&self, artifact: Artifact) -> Result<()> {
        let Some(checking) = Checking::begin(self, artifact.id) else { return Ok(()) };
        let check = tokio::spawn(async move {
            let result = checking.app.check(&artifact).await;
            drop(checking);
            result
        });
        match tokio::time::timeout(CHECK_WAIT_MAX, check).await {
            Ok(Ok(result)) => result,
            Ok(Err(error)) => {
                tracing::error!(%error, "the check of a file broke down");
                Ok(())
            }
            Err(_) => Ok(()),
        }
    }

    async fn check(&self, artifact: &Artifact) -> Result<()> {
        let blobs = &self.0.blobs;
        let served_by = blobs.served_by();
        let sent = match served_by {
            ServedBy::Server => file_key(artifact.id),
            ServedBy::Storage => upload_key(artifact.id),
        };
        let Some(size) = blobs.head(&sent).await? else { return Ok(()) };
        if size != artifact.size {
            let reason = format!(
                "it has {size} bytes, and {} were declared; declare its true size and upload it again",
                artifact.size
            );
            return self.refuse(artifact.id, reason).await;
        }
        let verdict = match served_by {
            ServedBy::Server => self.inspect(artifact, &sent).await?,
            ServedBy::Storage => {
                // Whoever has the URL may replace what was sent while it is read. A copy of our
                // own stays what it is.
                let copy = key("checks", &format!("{}-{:016x}", artifact.id, self.random()));
                let verdict = self.inspect_copy(artifact, &sent, &copy).await;
                if let Err(error) = blobs.delete(&copy).await {
                    tracing::warn!(key = %copy, %error, "a copy was not removed; trying again later");
                }
                verdict?
            }
        };
        match verdict {
            Verdict::Good(machine) => self.arrived(artifact.id, machine).await,
            Verdict::Bad(reason) => self.refuse(artifact.id, reason).await,
        }
    }

    async fn inspect_copy(&self, artifact: &Artifact, sent: &Key, copy: &Key) -> Result<Verdict> {
        self.0.blobs.copy(sent, copy).await?;
        let verdict = self.inspect(artifact, copy).await?;
        if matches!(verdict, Verdict::Good(_)) {
            self.0.blobs.copy(copy, &file_key(artifact.id)).await?;
        }
        Ok(verdict)
    }

    async fn inspect(&self, artifact: &Artifact, key: &Key) -> Result<Verdict> {
        let mut bytes = self.0.blobs.get(key, None).await?.bytes;
        let mut inspection = Inspection::new();
        while let Some(piece) = bytes.try_next().await? {
            inspection.feed(&piece);
        }
        let (digest, found) = inspection.finish(artifact.kind);
        if digest != artifact.sha256 {
            let reason = "its SHA-256 is not the one that was declared; declare it again and upload the same file";
            return Ok(Verdict::Bad(reason.to_owned()));
        }
        Ok(found.map_or_else(Verdict::Bad, Verdict::Good))
    }

    /// The file is in its place. Tasks that waited for it are eligible from now on.
    pub(super) async fn arrived(&self, id: ArtifactId, machine: Option<Machine>) -> Result<()> {
        let machine = machine.map(|machine| machine.as_str().to_owned());
        let arrival = self.0.store.artifact_arrived(id, self.now(), machine).await?;
        match arrival {
            Arrival::Done(tasks) => {
                tracing::info!(artifact = %id, tasks = tasks.len(), "a file has arrived");
                self.tell_tasks(tasks).await;
                if self.0.blobs.served_by() == ServedBy::Storage
                    && let Err(error) = self.0.blobs.delete(&upload_key(id)).await
                {
                    tracing::warn!(artifact = %id, %error, "an upload was not removed; trying again later");
                }
            }
            // Somebody else came first, or it was removed meanwhile.
            Arrival::Refused { .. } | Arrival::Absent => self.remove_files(id).await,
        }
        Ok(())
    }

    /// The file is of no use, and goes.
    pub(super) async fn refuse(&self, id: ArtifactId, reason: String) -> Result<()> {
        use punctual_store::ArtifactChange as Change;
        tracing::info!(artifact = %id, reason, "a file was refused");
        match self.0.store.refuse_artifact(id, self.now(), reason).await? {
            Change::Done | Change::Absent => self.remove_files(id).await,
            // A good one arrived before this one.
            Change::NotPending | Change::InUse { .. } => {}
        }
        Ok(())
    }

    async fn tell_tasks(&self, tasks: Vec<Task>) {
        for (place, task) in tasks.into_iter().enumerate() {
            let name = task.name.clone().unwrap_or_default();
            self.0.names.forget(task.namespace, &name);
            let (id, namespace) = (task.id, task.namespace);
            self.0.engine.task_changed(Arc::new(task));
            if place < TASKS_TOLD_MAX {
                self.tell_task_changed(id, namespace, &name).await;
            }
        }
    }
}
