//! Blobs in a bucket of S3 or of a compatible storage. Buckets are addressed by path, because a bucket's name need not
//! be a host name.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt, TryStreamExt};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::buffered::BufWriter;
use object_store::path::Path;
use object_store::signer::Signer;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, ObjectStoreExt, RetryConfig};
use tokio::io::AsyncWriteExt;

use crate::{BlobError, Key, ListedBlob, Result};

/// The size of one request or part, and so the memory that a transfer uses.
const PART_BYTES: u64 = 8 << 20;

const CONNECT_LIMIT: Duration = Duration::from_secs(3);
/// The time limit of one request. The longest is a copy of the largest file inside the storage.
const REQUEST_LIMIT: Duration = Duration::from_secs(120);
/// How long a failed request is retried before the caller gets the error.
const RETRY_LIMIT: Duration = Duration::from_secs(5);
const RETRIES_MAX: usize = 3;

/// The address of the bucket, and the credentials for it.
#[derive(Clone, PartialEq, Eq)]
pub struct S3Settings {
    pub bucket: String,
    /// Keys are put below this; may be empty.
    pub prefix: String,
    pub region: String,
    /// `None` for Amazon's own.
    pub endpoint: Option<String>,
    pub key_id: String,
    pub secret: String,
    pub session_token: Option<String>,
}

/// Shows everything but the credentials.
impl fmt::Debug for S3Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("S3Settings")
            .field("bucket", &self.bucket)
            .field("prefix", &self.prefix)
            .field("region", &self.region)
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}

pub(crate) struct Bucket {
    store: std::sync::Arc<AmazonS3>,
    bucket: String,
    prefix: String,
}

impl Bucket {
    pub(crate) fn open(settings: &S3Settings) -> Result<Self> {
        // Another part of the process may have chosen a provider already; any will do.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let is_plain = settings.endpoint.as_ref().is_some_and(|endpoint| endpoint.starts_with("http://"));
        let client = ClientOptions::new()
            .with_allow_http(is_plain)
            .with_connect_timeout(CONNECT_LIMIT)
            .with_timeout(REQUEST_LIMIT);
        let retry = RetryConfig {
            backoff: BackoffConfig {
                init_backoff: Duration::from_millis(100),
                max_backoff: Duration::from_secs(1),
                base: 2.0,
            },
            max_retries: RETRIES_MAX,
            retry_timeout: RETRY_LIMIT,
        };
        let mut builder = AmazonS3Builder::new()
            .with_bucket_name(&settings.bucket)
            .with_region(&settings.region)
            .with_access_key_id(&settings.key_id)
            .with_secret_access_key(&settings.secret)
            .with_virtual_hosted_style_request(false)
            .with_client_options(client)
            .with_retry(retry);
        if let Some(endpoint) = &settings.endpoint {
            builder = builder.with_endpoint(endpoint);
        }
        if let Some(token) = &settings.session_token {
            builder = builder.with_token(token);
        }
        let store = std::sync::Arc::new(builder.build()?);
        Ok(Self { store, bucket: settings.bucket.clone(), prefix: settings.prefix.trim_matches('/').to_owned() })
    }

    pub(crate) fn description(&self) -> String {
        format!("s3://{}/{}", self.bucket, self.prefix)
    }

    fn path(&self, key: &Key) -> Path {
        Path::from(format!("{}/{key}", self.prefix))
    }

    /// The key of an object below our prefix.
    fn key(&self, path: &Path) -> Option<Key> {
        let path = path.as_ref();
        let rest = if self.prefix.is_empty() { path } else { path.strip_prefix(&self.prefix)?.strip_prefix('/')? };
        Key::new(rest)
    }

    pub(crate) fn upload(&self, key: &Key) -> PartsUpload {
        PartsUpload(Some(BufWriter::with_capacity(self.store.clone(), self.path(key), PART_BYTES as usize)))
    }

    /// Reads a blob part by part. Each part is a request with its own time limit and its own retries.
    pub(crate) fn read(&self, key: &Key, range: Range<u64>) -> BoxStream<'static, Result<Bytes>> {
        let (store, path) = (self.store.clone(), self.path(key));
        let parts = stream::try_unfold((store, path, range), |(store, path, range)| async move {
            if range.is_empty() {
                return Ok(None);
            }
            let end = range.end.min(range.start + PART_BYTES);
            let part = store.get_range(&path, range.start..end).await?;
            if part.len() as u64 != end - range.start {
                return Err(BlobError::Unavailable("the storage sent fewer bytes than it has".to_owned()));
            }
            Ok(Some((part, (store, path, end..range.end))))
        });
        parts.boxed()
    }

    pub(crate) async fn head(&self, key: &Key) -> Result<Option<u64>> {
        match self.store.head(&self.path(key)).await {
            Ok(found) => Ok(Some(found.size)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) async fn delete(&self, key: &Key) -> Result<()> {
        match self.store.delete(&self.path(key)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) async fn copy(&self, from: &Key, to: &Key) -> Result<()> {
        Ok(self.store.copy(&self.path(from), &self.path(to)).await?)
    }

    pub(crate) async fn list(&self, folder: &Key, after: Option<&Key>, limit: usize) -> Result<Vec<ListedBlob>> {
        let prefix = self.path(folder);
        let objects = match after {
            Some(after) => self.store.list_with_offset(Some(&prefix), &self.path(after)),
            None => self.store.list(Some(&prefix)),
        };
        // In order of key, as S3 lists them.
        let listed = objects.try_filter_map(async |object| {
            Ok(self.key(&object.location).map(|key| ListedBlob { key, size: object.size }))
        });
        Ok(listed.take(limit).try_collect().await?)
    }

    pub(crate) async fn presign(&self, method: http::Method, key: &Key, valid_for: Duration) -> Result<String> {
        Ok(self.store.signed_url(method, &self.path(key), valid_for).await?.into())
    }
}

/// Small blobs are sent in one request when they are finished, large ones in parts.
pub(crate) struct PartsUpload(Option<BufWriter>);

impl PartsUpload {
    fn writer(&mut self) -> &mut BufWriter {
        self.0.as_mut().expect("it is open until it is finished or aborted")
    }

    pub(crate) async fn write(&mut self, bytes: Bytes) -> Result<()> {
        Ok(self.writer().put(bytes).await?)
    }

    pub(crate) async fn finish(mut self) -> Result<()> {
        let finished = self.writer().shutdown().await;
        if finished.is_ok() {
            self.0 = None;
        }
        finished.map_err(|error| match error.downcast::<object_store::Error>() {
            Ok(error) => error.into(),
            Err(error) => BlobError::Unavailable(error.to_string()),
        })
    }

    pub(crate) async fn abort(mut self) {
        if let Some(mut writer) = self.0.take() {
            let _ = writer.abort().await;
        }
    }
}

impl Drop for PartsUpload {
    fn drop(&mut self) {
        let Some(mut writer) = self.0.take() else { return };
        // Parts that were sent cost money until somebody removes them.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let _ = writer.abort().await;
            });
        }
    }
}
