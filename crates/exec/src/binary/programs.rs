//! The programs that this worker has cached, each verified once and kept where nobody can change it.
//!
//! A program is downloaded at its first use and stays in a folder; recently used programs are also in sealed memory. A
//! file that does not match its digest is never executed: it is deleted and downloaded again. Each namespace has a folder of its
//! own, and finds nothing of what others have: not even that it is there already.

use std::collections::HashMap;
use std::fs::File;
use std::io::Seek;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use punctual_core::attempt::{Failure, FailureClass, Last, Outcome, Ran};
use punctual_core::id::ArtifactId;
use punctual_core::namespace::NamespaceId;
use punctual_sandbox::{Machine, check_elf, seal_program};
use sha2::{Digest, Sha256};
use tokio::sync::OnceCell;

use super::fetch;
use crate::{Call, DownloadError, Downloads, clock};

/// The total size of programs in memory. A program larger than a quarter of it is executed from the folder.
const MEMORY_MAX: u64 = 256 << 20;
const SEALED_MAX: u64 = MEMORY_MAX / 4;
/// The number of programs kept open. Each holds a descriptor.
const KNOWN_MAX: usize = 256;
/// What the name of a namespace's folder begins with.
const NAMESPACE_FOLDER: &str = "namespace-";

#[derive(Debug, Clone)]
pub struct ProgramCache {
    /// The cache folder, accessible only to this worker's user. Each namespace has a folder in it.
    pub folder: PathBuf,
    /// The maximum total size of the files in the folder; the least recently used are removed first.
    pub bytes_max: u64,
}

impl ProgramCache {
    /// The folder of a namespace. Creates it if it does not exist.
    pub(super) fn folder_of(&self, namespace: NamespaceId) -> Result<PathBuf, ProgramError> {
        let folder = self.folder.join(format!("{NAMESPACE_FOLDER}{}", namespace.0));
        make_private(&folder)
            .map_err(|error| ProgramError::Unavailable(format!("cannot make a folder for programs: {error}")))?;
        Ok(folder)
    }

    /// The folders of all namespaces.
    pub(super) fn folders(&self) -> std::io::Result<Vec<PathBuf>> {
        let mut folders = Vec::new();
        for entry in std::fs::read_dir(&self.folder)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(NAMESPACE_FOLDER) {
                folders.push(entry.path());
            }
        }
        Ok(folders)
    }
}

fn make_private(folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700))
}

pub struct Programs {
    pub(super) downloads: Arc<dyn Downloads>,
    pub(super) client: reqwest::Client,
    pub(super) cache: ProgramCache,
    known: Mutex<KnownPrograms>,
}

type ProgramKey = (NamespaceId, ArtifactId);

#[derive(Default)]
struct KnownPrograms {
    programs: HashMap<ProgramKey, KnownProgram>,
    uses: u64,
}

struct KnownProgram {
    /// Filled by the first caller; the others wait.
    program: Arc<OnceCell<Arc<Program>>>,
    last_use: u64,
}

/// A program that may be executed.
#[derive(Debug)]
pub(super) struct Program {
    file: OwnedFd,
    place: ProgramPlace,
    len: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProgramPlace {
    Memory,
    /// The file takes up disk space for as long as it is open, even after it was removed from the folder.
    Folder,
}

impl Program {
    pub(super) fn descriptor(&self) -> Result<OwnedFd, ProgramError> {
        self.file.try_clone().map_err(|error| ProgramError::Unavailable(format!("no descriptor is left: {error}")))
    }
}

/// Why a program is not available. Nothing ran.
#[derive(Debug)]
pub(crate) enum ProgramError {
    /// The program is unavailable now; it may work later or on another worker.
    Unavailable(String),
    /// The program will never be available.
    Refused(String),
    /// The program cannot run on this machine.
    Unfit(String),
}

impl ProgramError {
    pub(crate) fn into_outcome(self) -> Outcome {
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

impl From<DownloadError> for ProgramError {
    fn from(error: DownloadError) -> Self {
        let reason = error.to_string();
        match error {
            DownloadError::Unavailable(_) => Self::Unavailable(reason),
            DownloadError::Refused(_) => Self::Refused(reason),
        }
    }
}

impl Programs {
    /// Opens the cache, and creates its folder if it does not exist.
    pub fn new(downloads: Arc<dyn Downloads>, cache: ProgramCache) -> std::io::Result<Self> {
        Self::trusting(None, downloads, cache)
    }

    /// Fetches programs, also from servers whose certificates these authorities (PEM) have signed.
    pub fn trusting(
        authorities: Option<&str>,
        downloads: Arc<dyn Downloads>,
        cache: ProgramCache,
    ) -> std::io::Result<Self> {
        make_private(&cache.folder)?;
        fetch::sweep(&cache)?;
        let client = fetch::client(authorities).map_err(std::io::Error::other)?;
        Ok(Self { downloads, client, cache, known: Mutex::default() })
    }

    pub(super) async fn get(&self, call: &Call, artifact: ArtifactId) -> Result<Arc<Program>, ProgramError> {
        let cell = self.cell((call.namespace, artifact));
        let program = cell.get_or_try_init(|| self.load(call, artifact)).await?;
        let program = Arc::clone(program);
        self.known().make_room(self.cache.bytes_max);
        Ok(program)
    }

    fn cell(&self, key: ProgramKey) -> Arc<OnceCell<Arc<Program>>> {
        let mut known = self.known();
        known.uses += 1;
        let last_use = known.uses;
        let entry = known.programs.entry(key).or_insert_with(|| KnownProgram { program: Arc::default(), last_use });
        entry.last_use = last_use;
        Arc::clone(&entry.program)
    }

    fn known(&self) -> MutexGuard<'_, KnownPrograms> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn load(&self, call: &Call, artifact: ArtifactId) -> Result<Arc<Program>, ProgramError> {
        let folder = self.cache.folder_of(call.namespace)?;
        if let Some((path, sha256)) = fetch::kept(&folder, artifact) {
            match read(path.clone(), sha256).await {
                Ok(program) => return Ok(program),
                Err(ReadError::Unfit(reason)) => return Err(ProgramError::Unfit(reason)),
                Err(ReadError::Damaged(reason)) => {
                    tracing::warn!(%artifact, reason, "a program in the cache is damaged; fetching it anew");
                    let _ = std::fs::remove_file(&path);
                }
            }
        }
        let download = self.downloads.locate(call.job, call.attempt, artifact).await?;
        let sha256 = download.sha256;
        let path = fetch::fetch(&self.client, &self.cache, &folder, artifact, &download).await?;
        read(path, sha256).await.map_err(|error| match error {
            ReadError::Unfit(reason) => ProgramError::Unfit(reason),
            ReadError::Damaged(reason) => ProgramError::Unavailable(reason),
        })
    }
}

impl KnownPrograms {
    /// Forgets the least recently used programs until the rest fits.
    fn make_room(&mut self, folder_bytes_max: u64) {
        self.make_room_in(ProgramPlace::Memory, MEMORY_MAX);
        self.make_room_in(ProgramPlace::Folder, folder_bytes_max);
        while self.programs.len() > KNOWN_MAX && self.forget_oldest(|_| true) {}
    }

    fn make_room_in(&mut self, place: ProgramPlace, bytes_max: u64) {
        let len_there = |entry: &KnownProgram| {
            entry.program.get().filter(|program| program.place == place).map_or(0, |program| program.len)
        };
        while self.programs.values().map(len_there).sum::<u64>() > bytes_max
            && self.forget_oldest(|entry| len_there(entry) > 0)
        {}
    }

    /// Forgets the least recently used program; false if there is none. Programs that are being loaded stay, or they
    /// would be loaded twice at once.
    fn forget_oldest(&mut self, of: impl Fn(&KnownProgram) -> bool) -> bool {
        let those = self.programs.iter().filter(|(_, entry)| of(entry) && Arc::strong_count(&entry.program) == 1);
        let oldest = those.min_by_key(|(_, entry)| entry.last_use).map(|(key, _)| *key);
        oldest.is_some_and(|oldest| self.programs.remove(&oldest).is_some())
    }
}

enum ReadError {
    Damaged(String),
    Unfit(String),
}

async fn read(path: PathBuf, sha256: [u8; 32]) -> Result<Arc<Program>, ReadError> {
    let read = tokio::task::spawn_blocking(move || read_now(&path, sha256)).await;
    read.unwrap_or_else(|error| Err(ReadError::Damaged(error.to_string())))
}

fn read_now(path: &Path, sha256: [u8; 32]) -> Result<Arc<Program>, ReadError> {
    let damaged = |error: std::io::Error| ReadError::Damaged(format!("cannot read the program: {error}"));
    let mut file = File::open(path).map_err(damaged)?;
    let len = file.metadata().map_err(damaged)?.len();
    let Some(machine) = Machine::here() else {
        return Err(ReadError::Unfit("this machine runs no binaries".to_owned()));
    };
    check_elf(&mut file, machine).map_err(|problem| ReadError::Unfit(problem.to_string()))?;
    file.rewind().map_err(damaged)?;
    let mut hashing = Hashing { file: &file, digest: Sha256::new() };
    let (file, place) = if len <= SEALED_MAX {
        // What was hashed is what is executed: the same bytes went both ways.
        (seal_program(&mut hashing).map_err(damaged)?, ProgramPlace::Memory)
    } else {
        std::io::copy(&mut hashing, &mut std::io::sink()).map_err(damaged)?;
        (OwnedFd::from(file.try_clone().map_err(damaged)?), ProgramPlace::Folder)
    };
    if hashing.digest.finalize().as_slice() != sha256 {
        return Err(ReadError::Damaged("the program is not the one that was uploaded".to_owned()));
    }
    // For the eviction by age; that it was used is worth no error.
    let used_at = SystemTime::UNIX_EPOCH + Duration::from_micros(clock::now().as_micros().unsigned_abs());
    let _ = File::options().append(true).open(path).and_then(|file| file.set_modified(used_at));
    Ok(Arc::new(Program { file, place, len }))
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

#[cfg(test)]
mod tests {
    use punctual_core::Timestamp;

    use super::*;

    /// Programs of these places and lengths, each used after the one before; `None` could not be had.
    fn known(programs: &[Option<(ProgramPlace, u64)>]) -> KnownPrograms {
        let mut known = KnownPrograms::default();
        for (number, program) in programs.iter().enumerate() {
            let entry = KnownProgram { program: Arc::default(), last_use: number as u64 };
            if let Some((place, len)) = *program {
                let file = File::open("/dev/null").unwrap().into();
                entry.program.set(Arc::new(Program { file, place, len })).unwrap();
            }
            known.programs.insert(key(number), entry);
        }
        known
    }

    fn key(number: usize) -> ProgramKey {
        (NamespaceId::DEFAULT, ArtifactId::new(Timestamp::from_micros(0).unwrap(), number as u64))
    }

    #[track_caller]
    fn check(programs: &[Option<(ProgramPlace, u64)>], left: &[usize]) {
        let mut known = known(programs);
        known.make_room(100);
        let kept: Vec<usize> =
            (0..programs.len()).filter(|number| known.programs.contains_key(&key(*number))).collect();
        assert_eq!(kept, left);
    }

    #[test]
    fn what_was_used_longest_ago_is_forgotten_until_the_rest_fits() {
        let memory = |len| Some((ProgramPlace::Memory, len));
        let folder = |len| Some((ProgramPlace::Folder, len));
        check(&[memory(MEMORY_MAX), folder(100), None], &[0, 1, 2]);
        check(&[memory(1), folder(1), memory(MEMORY_MAX)], &[1, 2]);
        // A file that is open takes room, although the folder has it no more.
        check(&[folder(60), memory(1), folder(60), folder(40)], &[1, 2, 3]);
        check(&[folder(101)], &[]);
    }

    #[test]
    fn what_is_being_loaded_is_not_forgotten() {
        let mut known = known(&vec![None; KNOWN_MAX + 2]);
        let _loading = Arc::clone(&known.programs[&key(0)].program);
        known.make_room(100);
        assert!(known.programs.contains_key(&key(0)));
        assert_eq!(known.programs.len(), KNOWN_MAX);
    }

    #[test]
    fn those_that_could_not_be_had_do_not_gather() {
        let kept: Vec<usize> = (2..KNOWN_MAX + 2).collect();
        check(&vec![None; KNOWN_MAX + 2], &kept);
    }
}
