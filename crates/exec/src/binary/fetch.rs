//! Downloads programs into the cache folder. A file there is always complete: it is written under another name and
//! renamed when its length and digest are right.

use std::fs::{File, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use punctual_core::hex;
use punctual_core::id::ArtifactId;
use sha2::{Digest, Sha256};

use super::programs::{ProgramCache, ProgramError};
use crate::{Download, root_cause};

const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// A download that receives no byte for this long is given up.
const SILENCE_LIMIT: Duration = Duration::from_secs(30);
/// The number of tries; a connection that broke once may not break again.
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_millis(200);
const PARTIAL: &str = "partial";
static FETCHES: AtomicU64 = AtomicU64::new(0);

/// A client that trusts the system's authorities and `authorities` (PEM).
pub(super) fn client(authorities: Option<&str>) -> Result<reqwest::Client, reqwest::Error> {
    let authorities = match authorities {
        Some(pem) => reqwest::Certificate::from_pem_bundle(pem.as_bytes())?,
        None => Vec::new(),
    };
    // Another part of the process may have chosen a provider before us; that is fine.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = || {
        reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_LIMIT)
            .read_timeout(SILENCE_LIMIT)
    };
    // There may be no certificates here at all.
    let with_the_systems = builder().tls_certs_merge(authorities.clone()).build();
    with_the_systems.or_else(|_| builder().tls_certs_only(authorities).build())
}

/// The cached file of an artifact, with the digest that it should have.
pub(super) fn kept(folder: &Path, artifact: ArtifactId) -> Option<(PathBuf, [u8; 32])> {
    let start = format!("{artifact}.");
    let names = std::fs::read_dir(folder).ok()?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.into_iter().find_map(|name| {
        let sha256 = hex::decode(name.strip_prefix(&start)?)?;
        Some((folder.join(&name), sha256))
    })
}

/// Removes unfinished downloads of a worker that was killed, and what versions before namespaces had kept for all of them.
pub(super) fn sweep(cache: &ProgramCache) -> std::io::Result<()> {
    let is_partial = |path: &Path| path.extension().is_some_and(|extension| extension == PARTIAL);
    for folder in cache.folders()? {
        remove_files(&folder, is_partial)?;
    }
    remove_files(&cache.folder, |path| is_partial(path) || is_program(path))
}

fn remove_files(folder: &Path, of: impl Fn(&Path) -> bool) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_file() && of(&entry.path()) {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Whether a file is named as this cache names programs: by the artifact and its digest.
fn is_program(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.split_once('.')
        .is_some_and(|(artifact, sha256)| artifact.parse::<ArtifactId>().is_ok() && hex::decode::<32>(sha256).is_some())
}

pub(super) async fn fetch(
    client: &reqwest::Client,
    cache: &ProgramCache,
    folder: &Path,
    artifact: ArtifactId,
    download: &Download,
) -> Result<PathBuf, ProgramError> {
    if download.size > cache.bytes_max {
        let reason = format!("the program of {} bytes does not fit this worker's cache", download.size);
        return Err(ProgramError::Unfit(reason));
    }
    // Two attempts may fetch the same file at once.
    let number = FETCHES.fetch_add(1, Ordering::Relaxed);
    let partial = folder.join(format!("{artifact}.{number}.{PARTIAL}"));
    let mut tries = 1;
    loop {
        match try_fetch(client, &partial, download).await {
            Ok(()) => break,
            Err(reason) if tries == TRIES => {
                let _ = std::fs::remove_file(&partial);
                return Err(ProgramError::Unavailable(format!("cannot fetch the program: {reason}")));
            }
            Err(_) => tokio::time::sleep(PAUSE * tries).await,
        }
        tries += 1;
    }
    let path = folder.join(format!("{artifact}.{}", hex::encode(download.sha256)));
    let made = std::fs::set_permissions(&partial, Permissions::from_mode(0o555))
        .and_then(|()| std::fs::rename(&partial, &path))
        .and_then(|()| make_room(cache, &path));
    made.map_err(|error| ProgramError::Unavailable(format!("cannot keep the program: {error}")))?;
    Ok(path)
}

/// Downloads once. The URL is a secret for as long as it works, so no reason may show it.
async fn try_fetch(client: &reqwest::Client, partial: &Path, download: &Download) -> Result<(), String> {
    let shown = |error: reqwest::Error| root_cause(&error.without_url());
    let mut answer = client.get(&download.url).send().await.map_err(shown)?;
    if !answer.status().is_success() {
        return Err(format!("the storage answered {}", answer.status()));
    }
    let mut file = File::create(partial).map_err(|error| error.to_string())?;
    let mut digest = Sha256::new();
    let mut len = 0;
    while let Some(piece) = answer.chunk().await.map_err(shown)? {
        len += piece.len() as u64;
        if len > download.size {
            return Err("it is longer than it should be".to_owned());
        }
        digest.update(&piece);
        file.write_all(&piece).map_err(|error| error.to_string())?;
    }
    if len != download.size || digest.finalize().as_slice() != download.sha256 {
        return Err("what came is not the program that was uploaded".to_owned());
    }
    Ok(())
}

/// Removes files until the rest fits: the least recently used ones of the namespace that has the most, so that one namespace
/// cannot take the others' away. Running programs are not harmed, because an open file stays.
fn make_room(cache: &ProgramCache, newest: &Path) -> std::io::Result<()> {
    let mut namespaces =
        cache.folders()?.iter().map(|folder| CachedFiles::of(folder)).collect::<Result<Vec<_>, _>>()?;
    while namespaces.iter().map(CachedFiles::bytes).sum::<u64>() > cache.bytes_max {
        let removable = namespaces.iter_mut().filter(|files| files.0.iter().any(|file| file.path != newest));
        let Some(largest) = removable.max_by_key(|files| files.bytes()) else { break };
        let oldest = largest.0.iter().position(|file| file.path != newest);
        let file = largest.0.remove(oldest.expect("it has one that can be removed"));
        std::fs::remove_file(file.path)?;
    }
    Ok(())
}

/// The files of one namespace, the least recently used first.
struct CachedFiles(Vec<CachedFile>);

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct CachedFile {
    used_at: SystemTime,
    len: u64,
    path: PathBuf,
}

impl CachedFiles {
    fn of(folder: &Path) -> std::io::Result<Self> {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            files.push(CachedFile { used_at: metadata.modified()?, len: metadata.len(), path: entry.path() });
        }
        files.sort_unstable();
        Ok(Self(files))
    }

    fn bytes(&self) -> u64 {
        self.0.iter().map(|file| file.len).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use punctual_core::namespace::NamespaceId;

    use super::*;

    fn cache(folder: &Path) -> ProgramCache {
        ProgramCache { folder: folder.to_owned(), bytes_max: 100 }
    }

    /// Files of these namespaces and lengths, each used a second after the one before.
    fn keep(cache: &ProgramCache, files: &[(u32, usize)]) -> Vec<PathBuf> {
        let used_at = |number: usize| SystemTime::UNIX_EPOCH + Duration::from_secs(number as u64);
        let keep = |(number, (namespace, len)): (usize, &(u32, usize))| {
            let path = cache.folder_of(NamespaceId(*namespace)).unwrap().join(format!("file-{number}"));
            std::fs::write(&path, vec![0; *len]).unwrap();
            File::options().append(true).open(&path).unwrap().set_modified(used_at(number)).unwrap();
            path
        };
        files.iter().enumerate().map(keep).collect()
    }

    #[test]
    fn a_namespace_that_keeps_much_takes_no_room_from_the_others() {
        for (files, left) in [
            (&[(0, 40), (0, 40), (0, 40)][..], &[1, 2][..]),
            (&[(1, 20), (0, 40), (0, 40), (0, 40)], &[0, 2, 3]),
            (&[(1, 70), (0, 30), (0, 30)], &[1, 2]),
            (&[(0, 20), (1, 30), (2, 30), (3, 20)], &[0, 1, 2, 3]),
            (&[(0, 200)], &[0]),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let cache = cache(folder.path());
            let paths = keep(&cache, files);
            make_room(&cache, paths.last().unwrap()).unwrap();
            let kept: Vec<usize> = (0..paths.len()).filter(|number| paths[*number].exists()).collect();
            assert_eq!(kept, left, "{files:?}");
        }
    }

    #[test]
    fn what_was_kept_for_all_namespaces_is_removed_and_so_are_unfinished_downloads() {
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(folder.path());
        let own = cache.folder_of(NamespaceId(7)).unwrap();
        assert_eq!(own.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        let artifact = ArtifactId::new(punctual_core::Timestamp::EPOCH, 1);
        let name = format!("{artifact}.{}", "ab".repeat(32));
        let (former, kept, partial, other) =
            (folder.path().join(&name), own.join(&name), own.join("x.0.partial"), folder.path().join("notes.txt"));
        for path in [&former, &kept, &partial, &other] {
            std::fs::write(path, "").unwrap();
        }
        sweep(&cache).unwrap();
        assert_eq!([former, kept, partial, other].map(|path| path.exists()), [false, true, false, true]);
    }
}
