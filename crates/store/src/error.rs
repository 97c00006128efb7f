/// A broken world. What is expected to happen is a value, never one of these.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// The store cannot be reached or has no space. Whether the call took effect is not known.
    #[error("the store is not available: {0}")]
    Unavailable(String),
    /// The store holds what it never should, or was asked for what cannot be.
    #[error("the store is inconsistent: {0}")]
    Inconsistent(String),
    /// Another process has this store open.
    #[error("{0}")]
    InUse(String),
    /// The schema is newer than this program, was changed by hand, or is missing.
    #[error("{0}")]
    Schema(String),
    /// The store is being closed.
    #[error("the store is closed")]
    Closed,
}
