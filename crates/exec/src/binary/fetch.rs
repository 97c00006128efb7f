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

/// Removes unfinished downloads of a worker that was killed.
pub(super) fn sweep(folder: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == PARTIAL) {
            std::fs::remove_file(path)?;
        }
    }
    Ok(())
}

pub(super) async fn fetch(
    client: &reqwest::Client,
    cache: &ProgramCache,
    artifact: ArtifactId,
    download: &Download,
) -> Result<PathBuf, ProgramError> {
    if download.size > cache.bytes_max {
        let reason = format!("the program of {} bytes does not fit this worker's cache", download.size);
        return Err(ProgramError::Unfit(reason));
    }
    // Two attempts may fetch the same file at once.
    let number = FETCHES.fetch_add(1, Ordering::Relaxed);
    let partial = cache.folder.join(format!("{artifact}.{number}.{PARTIAL}"));
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
    let path = cache.folder.join(format!("{artifact}.{}", hex::encode(download.sha256)));
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

/// Removes the least recently used files until the rest fits. Running programs are not harmed, because an open file
/// stays.
fn make_room(cache: &ProgramCache, newest: &Path) -> std::io::Result<()> {
    let mut files: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
    for entry in std::fs::read_dir(&cache.folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        files.push((metadata.modified()?, metadata.len(), entry.path()));
    }
    files.sort_unstable();
    let mut bytes: u64 = files.iter().map(|(_, len, _)| len).sum();
    for (_, len, path) in files {
        if bytes <= cache.bytes_max {
            break;
        }
        if path != newest {
            std::fs::remove_file(path)?;
            bytes -= len;
        }
    }
    Ok(())
}
