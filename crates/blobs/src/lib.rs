//! Object storage behind one small type: a folder of this machine, or a bucket of S3 or what
//! speaks like it.
//!
//! A blob is there whole or not at all, and is never changed in place. What a crash leaves of an
//! upload is not visible and is swept. Knows keys and bytes, nothing of what they mean.
//!
//! The folder is written by hand, because a blob has to be on disk, and not only written, before
//! anyone is told of it. For S3 we use `object_store`: it signs requests and URLs, sends large
//! uploads in parts, repeats what may be repeated, and reads the lists and errors of S3 and its
//! many relatives. It is used without its default features, so that it brings no TLS stack of its
//! own: its HTTP client is the one the rest of the program uses, with rustls and ring.

mod error;
mod key;
mod local;
mod s3;
mod sign;

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{BoxStream, Stream, StreamExt};
use punctual_core::{Span, Timestamp};

pub use error::BlobError;
pub use key::Key;
pub use s3::S3Settings;
use sign::UrlKeys;
pub use sign::{BadUrl, SignedQuery, UrlKey};

pub type Result<T> = std::result::Result<T, BlobError>;

/// A handle; clones share one storage.
#[derive(Clone)]
pub struct Blobs(Arc<BlobKind>);

enum BlobKind {
    Folder(local::Folder, Box<UrlKeys>),
    S3(Box<s3::Bucket>),
}

/// Which side serves the uploads and downloads of a signed URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServedBy {
    /// The server itself, at one of its own addresses.
    Server,
    /// The storage: the server sees neither.
    Storage,
}

/// Where a blob may be sent to or fetched from without credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignedUrl {
    /// Complete.
    Of(String),
    /// The query of an address of the server's own.
    Here(SignedQuery),
}

/// The bytes of a blob, or a part of them.
pub struct Blob {
    /// The size of the whole blob.
    pub size: u64,
    /// Which bytes these are.
    pub range: Range<u64>,
    pub bytes: BoxStream<'static, Result<Bytes>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedBlob {
    pub key: Key,
    pub size: u64,
}

impl Blobs {
    /// Opens a storage in this folder, which is created if it does not exist. `urls` signs the URLs.
    pub fn folder(path: &Path, urls: UrlKey) -> Result<Self> {
        Ok(Self(Arc::new(BlobKind::Folder(local::Folder::open(path)?, Box::new(UrlKeys::new(urls))))))
    }

    /// From now on `signing` signs the URLs, and those of `other` are accepted as well. A storage that signs its own has no use
    /// for them.
    pub fn use_url_keys(&self, signing: UrlKey, other: Option<UrlKey>) {
        match &*self.0 {
            BlobKind::Folder(_, urls) => urls.replace(signing, other),
            BlobKind::S3(_) => {}
        }
    }

    /// Opens a storage in S3. Sends no request yet, so that a storage that is down does not keep a server from
    /// starting.
    pub fn s3(settings: &S3Settings) -> Result<Self> {
        Ok(Self(Arc::new(BlobKind::S3(Box::new(s3::Bucket::open(settings)?)))))
    }

    pub fn served_by(&self) -> ServedBy {
        match &*self.0 {
            BlobKind::Folder(..) => ServedBy::Server,
            BlobKind::S3(_) => ServedBy::Storage,
        }
    }

    /// Describes the storage for people, such as `s3://bucket/prefix`.
    pub fn description(&self) -> String {
        match &*self.0 {
            BlobKind::Folder(folder, _) => folder.root().display().to_string(),
            BlobKind::S3(bucket) => bucket.description(),
        }
    }

    /// Begins a blob of at most `limit` bytes. Nothing is visible before [`Upload::finish`].
    pub async fn upload(&self, key: &Key, limit: u64) -> Result<Upload> {
        let sink = match &*self.0 {
            BlobKind::Folder(folder, _) => Sink::File(folder.upload(key).await?),
            BlobKind::S3(bucket) => Sink::Parts(bucket.upload(key)),
        };
        Ok(Upload { sink, limit, written: 0 })
    }

    /// Stores a whole blob, replacing an existing one. Returns its size.
    pub async fn put(&self, key: &Key, limit: u64, bytes: impl Stream<Item = Result<Bytes>> + Send) -> Result<u64> {
        let mut upload = self.upload(key, limit).await?;
        let mut bytes = std::pin::pin!(bytes);
        while let Some(piece) = bytes.next().await {
            let written = match piece {
                Ok(piece) => upload.write(piece).await,
                Err(error) => Err(error),
            };
            if let Err(error) = written {
                upload.abort().await;
                return Err(error);
            }
        }
        upload.finish().await
    }

    /// Reads a blob, or the bytes of it within `range`.
    pub async fn get(&self, key: &Key, range: Option<Range<u64>>) -> Result<Blob> {
        let size = self.head(key).await?.ok_or(BlobError::NotFound)?;
        let range = range.map_or(0..size, |range| range.start.min(size)..range.end.min(size));
        let range = range.start..range.end.max(range.start);
        let bytes = match &*self.0 {
            BlobKind::Folder(folder, _) => folder.read(key, range.clone()).await?,
            BlobKind::S3(bucket) => bucket.read(key, range.clone()),
        };
        Ok(Blob { size, range, bytes })
    }

    /// The size of a blob that is there.
    pub async fn head(&self, key: &Key) -> Result<Option<u64>> {
        match &*self.0 {
            BlobKind::Folder(folder, _) => folder.head(key).await,
            BlobKind::S3(bucket) => bucket.head(key).await,
        }
    }

    /// That there is none is fine.
    pub async fn delete(&self, key: &Key) -> Result<()> {
        match &*self.0 {
            BlobKind::Folder(folder, _) => folder.delete(key).await,
            BlobKind::S3(bucket) => bucket.delete(key).await,
        }
    }

    /// Copies `from` to `to` inside the storage.
    pub async fn copy(&self, from: &Key, to: &Key) -> Result<()> {
        match &*self.0 {
            BlobKind::Folder(folder, _) => folder.copy(from, to).await,
            BlobKind::S3(bucket) => bucket.copy(from, to).await,
        }
    }

    /// Blobs whose keys are in `folder`, such as `artifacts`, after `after`, in order of key, at most `limit`.
    pub async fn list(&self, folder: &Key, after: Option<&Key>, limit: usize) -> Result<Vec<ListedBlob>> {
        match &*self.0 {
            BlobKind::Folder(root, _) => root.list(folder, after, limit).await,
            BlobKind::S3(bucket) => bucket.list(folder, after, limit).await,
        }
    }

    /// A URL to which `size` bytes may be sent by PUT until `expires_at`. Storage that is not ours
    /// does not check the size.
    pub async fn presign_put(&self, key: &Key, size: u64, now: Timestamp, expires_at: Timestamp) -> Result<SignedUrl> {
        self.presign(http::Method::PUT, key, size, now, expires_at).await
    }

    /// A URL from which the blob may be fetched by GET until `expires_at`.
    pub async fn presign_get(&self, key: &Key, now: Timestamp, expires_at: Timestamp) -> Result<SignedUrl> {
        self.presign(http::Method::GET, key, 0, now, expires_at).await
    }

    async fn presign(
        &self,
        method: http::Method,
        key: &Key,
        size: u64,
        now: Timestamp,
        expires_at: Timestamp,
    ) -> Result<SignedUrl> {
        match &*self.0 {
            BlobKind::Folder(_, urls) => Ok(SignedUrl::Here(urls.sign(&method, key, size, expires_at))),
            BlobKind::S3(bucket) => {
                let valid_for = Span::from_micros((expires_at.as_micros() - now.as_micros()).max(0));
                Ok(SignedUrl::Of(bucket.presign(method, key, valid_for.to_std()).await?))
            }
        }
    }

    /// Verifies the signature of a request to the server's own address.
    pub fn verify(
        &self,
        method: &http::Method,
        key: &Key,
        query: &SignedQuery,
        now: Timestamp,
    ) -> std::result::Result<(), BadUrl> {
        match &*self.0 {
            BlobKind::Folder(_, urls) => urls.verify(method, key, query, now),
            // It signs none.
            BlobKind::S3(_) => Err(BadUrl::Signature),
        }
    }

    /// Removes what crashed uploads have left behind. Returns their number.
    pub async fn sweep(&self) -> Result<usize> {
        match &*self.0 {
            BlobKind::Folder(folder, _) => folder.sweep().await,
            // S3 ends uploads in parts by a rule of the bucket; they are not visible.
            BlobKind::S3(_) => Ok(0),
        }
    }
}

/// A blob that is being written. Dropped, it leaves nothing behind.
pub struct Upload {
    sink: Sink,
    limit: u64,
    written: u64,
}

enum Sink {
    File(local::FileUpload),
    Parts(s3::PartsUpload),
}

impl Upload {
    pub async fn write(&mut self, bytes: Bytes) -> Result<()> {
        self.written += bytes.len() as u64;
        if self.written > self.limit {
            return Err(BlobError::TooLarge { limit: self.limit });
        }
        match &mut self.sink {
            Sink::File(file) => file.write(&bytes).await,
            Sink::Parts(parts) => parts.write(bytes).await,
        }
    }

    /// Makes the blob visible, and durable; answers its size.
    pub async fn finish(self) -> Result<u64> {
        match self.sink {
            Sink::File(file) => file.finish().await?,
            Sink::Parts(parts) => parts.finish().await?,
        }
        Ok(self.written)
    }

    /// Aborts the upload, and waits until nothing of it is left. Dropping it aborts too, in the background.
    pub async fn abort(self) {
        match self.sink {
            Sink::File(file) => drop(file),
            Sink::Parts(parts) => parts.abort().await,
        }
    }
}
