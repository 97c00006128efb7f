use std::io;

/// Why a blob was not stored or read. Says nothing secret: no credentials and no signed URLs.
#[derive(Debug, thiserror::Error)]
pub enum BlobError {
    #[error("there is no such blob")]
    NotFound,
    /// The storage is unavailable now; a retry may succeed.
    #[error("the storage is not available: {0}")]
    Unavailable(String),
    /// The storage refused the request; it will fail until someone changes a setting or a permission.
    #[error("the storage refuses access: {0}")]
    Denied(String),
    #[error("the blob is larger than {limit} bytes")]
    TooLarge { limit: u64 },
}

impl From<io::Error> for BlobError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::NotFound,
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Self::Denied(error.to_string()),
            _ => Self::Unavailable(error.to_string()),
        }
    }
}

impl From<object_store::Error> for BlobError {
    fn from(error: object_store::Error) -> Self {
        use object_store::Error as E;
        match error {
            E::NotFound { .. } => Self::NotFound,
            E::PermissionDenied { source, .. } | E::Unauthenticated { source, .. } => Self::Denied(shown(&*source)),
            E::Generic { source, .. } => Self::Unavailable(shown(&*source)),
            error => Self::Unavailable(shown(&error)),
        }
    }
}

/// The first line of the innermost cause: those around it repeat it, and name URLs in full.
fn shown(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    let text = cause.to_string();
    let line = text.lines().next().unwrap_or_default();
    // A URL may carry a signature.
    let words = line.split_whitespace().map(|word| word.split_once('?').map_or(word, |(start, _)| start));
    words.collect::<Vec<_>>().join(" ").chars().take(300).collect()
}
