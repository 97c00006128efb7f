//! The programs that this worker has, each verified once and kept where nobody can change it.
//!
//! A program is fetched at its first use and stays in a folder; what ran lately is in memory, too,
//! sealed. A file that does not fit its digest is never executed: it is dropped and fetched anew.

use std::collections::HashMap;
use std::fs::File;
use std::io::Seek;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use punctual_core::attempt::{AttemptNo, Failure, FailureClass, Last, Outcome, Ran};
use punctual_core::id::{ArtifactId, JobId};
use punctual_sandbox::{Machine, check_elf, seal_program};
use sha2::{Digest, Sha256};
use tokio::sync::OnceCell;

use super::fetch;
use crate::{DownloadError, Downloads, clock};

/// Programs in memory, together. What is longer than a quarter of it is executed from the folder.
const MEMORY_MAX: u64 = 256 << 20;
const SEALED_MAX: u64 = MEMORY_MAX / 4;

#[derive(Debug, Clone)]
pub struct ProgramCache {
    /// Only for this worker's user.
    pub folder: PathBuf,
    /// The files in it, together; those that were used longest ago go first.
    pub bytes_max: u64,
}

pub struct Programs {
    downloads: Arc<dyn Downloads>,
    client: reqwest::Client,
    cache: ProgramCache,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    programs: HashMap<ArtifactId, Entry>,
    uses: u64,
}

struct Entry {
    /// Filled by the first who asks; the others wait.
    program: Arc<OnceCell<Arc<Program>>>,
    last_use: u64,
}

/// One that may be executed.
#[derive(Debug)]
pub(super) struct Program {
    file: OwnedFd,
    bytes_in_memory: u64,
}

impl Program {
    pub(super) fn descriptor(&self) -> Result<OwnedFd, Problem> {
        self.file.try_clone().map_err(|error| Problem::Unavailable(format!("no descriptor is left: {error}")))
    }
}

/// Why a program cannot be had. Nothing ran.
#[derive(Debug)]
pub(super) enum Problem {
    /// It may work later, or elsewhere.
    Unavailable(String),
    /// It never will.
    Refused(String),
    /// Not on this machine.
    Unfit(String),
}

impl Problem {
    pub(super) fn into_outcome(self) -> Outcome {
        let failed = |reason: String, last| {
            let class = FailureClass::Environment;
            Outcome::Failed(Failure { class, last, ran: Ran::No, ..Failure::new(reason) })
        };
        match self {
            Self::Unavailable(reason) => Outcome::NotStarted { reason },
            Self::Refused(reason) => failed(reason, Last::Yes),
            Self::Unfit(reason) => failed(reason, Last::No),
        }
    }
}

impl From<DownloadError> for Problem {
    fn from(error: DownloadError) -> Self {
        let reason = error.to_string();
        match error {
            DownloadError::Unavailable(_) => Self::Unavailable(reason),
            DownloadError::Refused(_) => Self::Refused(reason),
        }
    }
}

impl Programs {
    /// Makes the folder if it is not there.
    pub fn new(downloads: Arc<dyn Downloads>, cache: ProgramCache) -> std::io::Result<Self> {
        std::fs::create_dir_all(&cache.folder)?;
        std::fs::set_permissions(&cache.folder, std::fs::Permissions::from_mode(0o700))?;
        fetch::sweep(&cache.folder)?;
        let client = fetch::client().map_err(std::io::Error::other)?;
        Ok(Self { downloads, client, cache, known: Mutex::default() })
    }

    pub(super) async fn get(
        &self,
        job: JobId,
        attempt: AttemptNo,
        artifact: ArtifactId,
    ) -> Result<Arc<Program>, Problem> {
        let cell = self.cell(artifact);
        let program = cell.get_or_try_init(|| self.load(job, attempt, artifact)).await?;
        let program = Arc::clone(program);
        self.known().make_room();
        Ok(program)
    }

    fn cell(&self, artifact: ArtifactId) -> Arc<OnceCell<Arc<Program>>> {
        let mut known = self.known();
        known.uses += 1;
        let last_use = known.uses;
        let entry = known.programs.entry(artifact).or_insert_with(|| Entry { program: Arc::default(), last_use });
        entry.last_use = last_use;
        Arc::clone(&entry.program)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn load(&self, job: JobId, attempt: AttemptNo, artifact: ArtifactId) -> Result<Arc<Program>, Problem> {
        if let Some((path, sha256)) = fetch::kept(&self.cache.folder, artifact) {
            match read(path.clone(), sha256).await {
                Ok(program) => return Ok(program),
                Err(Read::Unfit(reason)) => return Err(Problem::Unfit(reason)),
                Err(Read::Damaged(reason)) => {
                    tracing::warn!(%artifact, reason, "a program in the cache is damaged; fetching it anew");
                    let _ = std::fs::remove_file(&path);
                }
            }
        }
        let download = self.downloads.locate(job, attempt, artifact).await?;
        let sha256 = download.sha256;
        let path = fetch::fetch(&self.client, &self.cache, artifact, &download).await?;
        read(path, sha256).await.map_err(|error| match error {
            Read::Unfit(reason) => Problem::Unfit(reason),
            Read::Damaged(reason) => Problem::Unavailable(reason),
        })
    }
}

impl Known {
    /// Forgets what was used longest ago, until the rest fits.
    fn make_room(&mut self) {
        let in_memory = |entry: &Entry| entry.program.get().map_or(0, |program| program.bytes_in_memory);
        let mut bytes: u64 = self.programs.values().map(in_memory).sum();
        while bytes > MEMORY_MAX {
            let oldest = self.programs.iter().filter(|(_, entry)| in_memory(entry) > 0);
            let Some((&artifact, entry)) = oldest.min_by_key(|(_, entry)| entry.last_use) else { return };
            bytes -= in_memory(entry);
            self.programs.remove(&artifact);
        }
    }
}

enum Read {
    Damaged(String),
    Unfit(String),
}

async fn read(path: PathBuf, sha256: [u8; 32]) -> Result<Arc<Program>, Read> {
    let read = tokio::task::spawn_blocking(move || read_now(&path, sha256)).await;
    read.unwrap_or_else(|error| Err(Read::Damaged(error.to_string())))
}

fn read_now(path: &Path, sha256: [u8; 32]) -> Result<Arc<Program>, Read> {
    let damaged = |error: std::io::Error| Read::Damaged(format!("cannot read the program: {error}"));
    let mut file = File::open(path).map_err(damaged)?;
    let len = file.metadata().map_err(damaged)?.len();
    let Some(machine) = Machine::here() else { return Err(Read::Unfit("this machine runs no binaries".to_owned())) };
    check_elf(&mut file, machine).map_err(|problem| Read::Unfit(problem.to_string()))?;
    file.rewind().map_err(damaged)?;
    let mut hashing = Hashing { file: &file, digest: Sha256::new() };
    let (file, bytes_in_memory) = if len <= SEALED_MAX {
        // What was hashed is what is executed: the same bytes went both ways.
        (seal_program(&mut hashing).map_err(damaged)?, len)
    } else {
        std::io::copy(&mut hashing, &mut std::io::sink()).map_err(damaged)?;
        (OwnedFd::from(file.try_clone().map_err(damaged)?), 0)
    };
    if hashing.digest.finalize().as_slice() != sha256 {
        return Err(Read::Damaged("the program is not the one that was uploaded".to_owned()));
    }
    // For the eviction by age; that it was used is worth no error.
    let used_at = SystemTime::UNIX_EPOCH + Duration::from_micros(clock::now().as_micros().unsigned_abs());
    let _ = File::options().append(true).open(path).and_then(|file| file.set_modified(used_at));
    Ok(Arc::new(Program { file, bytes_in_memory }))
}

struct Hashing<'f> {
    file: &'f File,
    digest: Sha256,
}

impl std::io::Read for Hashing<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let len = self.file.read(buffer)?;
        self.digest.update(&buffer[..len]);
        Ok(len)
    }
}
