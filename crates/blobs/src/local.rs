//! Blobs in a folder of this machine.
//!
//! An upload is a file in `.uploads`, locked while it is written. It is flushed, renamed to its
//! place, and the folder flushed, so a blob is there whole or not at all, also after a power cut.
//! A file in `.uploads` that nobody has locked was left by a crash.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use bytes::{Bytes, BytesMut};
use futures_util::stream::{self, BoxStream, StreamExt};
use rustix::fs::{FlockOperation, flock};
use tokio::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt, BufWriter};

use crate::{BlobError, Key, ListedBlob, Result};

const UPLOADS: &str = ".uploads";
/// The size of one write or read of the disk.
const PIECE_BYTES: usize = 256 << 10;
/// A file that was made a moment ago may not be locked yet.
const SETTLED_AFTER: Duration = Duration::from_secs(60);

pub(crate) struct Folder {
    root: PathBuf,
    /// Tells uploads of one process apart.
    begun: AtomicU64,
}

impl Folder {
    pub(crate) fn open(root: &Path) -> Result<Self> {
        use std::os::unix::fs::DirBuilderExt;
        let uploads = root.join(UPLOADS);
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&uploads)
            .map_err(|error| BlobError::Denied(format!("cannot make the folder {}: {error}", uploads.display())))?;
        Ok(Self { root: root.to_owned(), begun: AtomicU64::new(0) })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    fn path(&self, key: &Key) -> PathBuf {
        self.root.join(key.as_str())
    }

    pub(crate) async fn upload(&self, key: &Key) -> Result<FileUpload> {
        let number = self.begun.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}-{number}-{}", std::process::id(), key.name());
        let (temporary, place) = (self.root.join(UPLOADS).join(name), self.path(key));
        let path = temporary.clone();
        let file = blocking(move || {
            use std::os::unix::fs::OpenOptionsExt;
            // A process that had our number before may have left one of this name.
            let file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&path)?;
            flock(&file, FlockOperation::NonBlockingLockExclusive)?;
            Ok(file)
        })
        .await?;
        let file = BufWriter::with_capacity(PIECE_BYTES, tokio::fs::File::from_std(file));
        let folders = key.as_str().split('/').count();
        Ok(FileUpload { file: Some(file), temporary: Temporary(Some(temporary)), place, folders })
    }

    pub(crate) async fn read(&self, key: &Key, range: Range<u64>) -> Result<BoxStream<'static, Result<Bytes>>> {
        let mut file = tokio::fs::File::open(self.path(key)).await?;
        file.seek(io::SeekFrom::Start(range.start)).await?;
        let rest = file.take(range.end - range.start);
        let pieces = stream::try_unfold(rest, |mut rest| async move {
            if rest.limit() == 0 {
                return Ok(None);
            }
            let mut piece = BytesMut::with_capacity(PIECE_BYTES);
            if rest.read_buf(&mut piece).await? == 0 {
                return Err(BlobError::Unavailable("the file is shorter than it was".to_owned()));
            }
            Ok(Some((piece.freeze(), rest)))
        });
        Ok(pieces.boxed())
    }

    pub(crate) async fn head(&self, key: &Key) -> Result<Option<u64>> {
        match tokio::fs::metadata(self.path(key)).await {
            Ok(found) if found.is_file() => Ok(Some(found.len())),
            Ok(_) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) async fn delete(&self, key: &Key) -> Result<()> {
        let path = self.path(key);
        let folders = key.as_str().split('/').count().saturating_sub(2);
        blocking(move || match std::fs::remove_file(&path) {
            Ok(()) => {
                match flush_folder_of(&path) {
                    // Whoever deleted its last blob took the folder, too.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                    flushed => flushed?,
                }
                // Those below the first are made with their first blob and go with their last.
                for folder in path.ancestors().skip(1).take(folders) {
                    if std::fs::remove_dir(folder).is_err() {
                        break;
                    }
                }
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        })
        .await
    }

    pub(crate) async fn copy(&self, from: &Key, to: &Key) -> Result<()> {
        let size = self.head(from).await?.ok_or(BlobError::NotFound)?;
        let mut upload = self.upload(to).await?;
        let mut bytes = self.read(from, 0..size).await?;
        while let Some(piece) = bytes.next().await {
            upload.write(&piece?).await?;
        }
        upload.finish().await
    }

    pub(crate) async fn list(&self, folder: &Key, after: Option<&Key>, limit: usize) -> Result<Vec<ListedBlob>> {
        let (path, folder, after) = (self.path(folder), folder.clone(), after.cloned());
        blocking(move || {
            let mut found = Vec::new();
            list(&path, folder.as_str(), after.as_ref().map(Key::as_str), limit, &mut found)?;
            Ok(found)
        })
        .await
    }

    pub(crate) async fn sweep(&self) -> Result<usize> {
        let uploads = self.root.join(UPLOADS);
        blocking(move || {
            let mut swept = 0;
            for entry in std::fs::read_dir(uploads)? {
                let path = entry?.path();
                if is_left_over(&path) && std::fs::remove_file(&path).is_ok() {
                    swept += 1;
                }
            }
            Ok(swept)
        })
        .await
    }
}

/// Adds the blobs below a folder in order of key, until there are `limit`.
fn list(path: &Path, folder: &str, after: Option<&str>, limit: usize, found: &mut Vec<ListedBlob>) -> io::Result<()> {
    let entries = match std::fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let mut keys = Vec::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let Some(key) = name.to_str().and_then(|name| Key::new(format!("{folder}/{name}"))) else { continue };
        // One that is removed meanwhile is not there.
        let Ok(kind) = entry.file_type() else { continue };
        // With its slash, a folder stands where its keys do.
        keys.push(if kind.is_dir() { format!("{key}/") } else { key.as_str().to_owned() });
    }
    keys.sort();
    for key in keys {
        if found.len() >= limit {
            return Ok(());
        }
        let Some(name) = key.strip_prefix(folder).map(|name| name.trim_matches('/')) else { continue };
        if let Some(inner) = key.strip_suffix('/') {
            let may_have_more = after.is_none_or(|after| after.starts_with(&key) || key.as_str() > after);
            if may_have_more {
                list(&path.join(name), inner, after, limit, found)?;
            }
            continue;
        }
        if after.is_some_and(|after| key.as_str() <= after) {
            continue;
        }
        let Ok(metadata) = path.join(name).metadata() else { continue };
        if metadata.is_file() {
            found.extend(Key::new(key).map(|key| ListedBlob { key, size: metadata.len() }));
        }
    }
    Ok(())
}

/// Whether the writer of the file is gone.
fn is_left_over(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    let changed = file.metadata().and_then(|metadata| metadata.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    let is_settled = changed.elapsed().is_ok_and(|age| age > SETTLED_AFTER);
    is_settled && flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
}

/// A file that goes unless it was renamed.
struct Temporary(Option<PathBuf>);

impl Temporary {
    fn rename(mut self, place: &Path) -> io::Result<()> {
        if let Some(path) = &self.0 {
            std::fs::rename(path, place)?;
        }
        self.0 = None;
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Some(path) = self.0.take() {
            let _ = std::fs::remove_file(path);
        }
    }
}

pub(crate) struct FileUpload {
    file: Option<BufWriter<tokio::fs::File>>,
    temporary: Temporary,
    place: PathBuf,
    /// The number of the storage's folders that lead to the file, including the root.
    folders: usize,
}

impl FileUpload {
    pub(crate) async fn write(&mut self, bytes: &[u8]) -> Result<()> {
        Ok(self.open_file().write_all(bytes).await?)
    }

    fn open_file(&mut self) -> &mut BufWriter<tokio::fs::File> {
        self.file.as_mut().expect("the file is open until the upload is finished")
    }

    pub(crate) async fn finish(mut self) -> Result<()> {
        self.open_file().flush().await?;
        let file = self.file.take().expect("it was just written").into_inner().into_std().await;
        let Self { temporary, place, folders, .. } = self;
        blocking(move || {
            file.sync_all()?;
            let folder = place.parent().expect("a blob is in a folder");
            std::fs::create_dir_all(folder)?;
            temporary.rename(&place)?;
            // Held until here, so that no sweep takes it for a leftover.
            drop(file);
            // Folders that are new are only there when those that hold them are flushed, too.
            place.ancestors().take(folders).try_for_each(flush_folder_of)
        })
        .await
    }
}

fn flush_folder_of(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => Ok(result?),
        Err(_) => Err(BlobError::Unavailable("the storage's thread broke down".to_owned())),
    }
}
