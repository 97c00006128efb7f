//! Uploaded files that tasks read. They share the cache folder of the programs, and are verified each time they are
//! used.

use std::fs::File;
use std::io::Seek;
use std::path::PathBuf;

use punctual_core::id::ArtifactId;
use punctual_core::run::TaskFile;
use sha2::{Digest, Sha256};

use super::fetch;
use super::programs::{ProgramError, Programs};
use crate::Call;

/// A complete and verified file, open for reading.
pub(crate) struct OpenFile {
    pub(crate) name: String,
    pub(crate) content: File,
    pub(crate) len: u64,
}

impl Programs {
    /// Opens all files that a task reads.
    pub(crate) async fn files(&self, call: &Call, files: &[TaskFile]) -> Result<Vec<OpenFile>, ProgramError> {
        let mut open = Vec::with_capacity(files.len());
        for file in files {
            let (content, len) = self.file(call, file.artifact).await?;
            open.push(OpenFile { name: file.name.clone(), content, len });
        }
        Ok(open)
    }

    async fn file(&self, call: &Call, artifact: ArtifactId) -> Result<(File, u64), ProgramError> {
        let folder = self.cache.folder_of(call.namespace)?;
        if let Some((path, sha256)) = fetch::kept(&folder, artifact) {
            match verified(path.clone(), sha256).await {
                Ok(file) => return Ok(file),
                Err(reason) => {
                    tracing::warn!(%artifact, reason, "a file in the cache is damaged; fetching it anew");
                    let _ = std::fs::remove_file(&path);
                }
            }
        }
        let download = self.downloads.locate(call.job, call.attempt, artifact).await?;
        let path = fetch::fetch(&self.client, &self.cache, &folder, artifact, &download).await?;
        verified(path, download.sha256).await.map_err(ProgramError::Unavailable)
    }
}

async fn verified(path: PathBuf, sha256: [u8; 32]) -> Result<(File, u64), String> {
    let read = tokio::task::spawn_blocking(move || {
        let unreadable = |error: std::io::Error| format!("cannot read the file: {error}");
        let mut file = File::open(&path).map_err(unreadable)?;
        let mut digest = Sha256::new();
        let len = std::io::copy(&mut file, &mut digest).map_err(unreadable)?;
        if digest.finalize().as_slice() != sha256 {
            return Err("the file is not the one that was uploaded".to_owned());
        }
        file.rewind().map_err(unreadable)?;
        Ok((file, len))
    });
    read.await.unwrap_or_else(|error| Err(error.to_string()))
}
