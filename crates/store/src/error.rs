/// A broken world. What is expected to happen is a value, never one of these.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// The store cannot be reached. Whether the call took effect is not known.
    #[error("the store is not available: {0}")]
    Unavailable(String),
    /// The store answers and refuses to write, until somebody removes the cause. Whether the call took effect is not
    /// known.
    #[error("{}: {detail}", fault.title())]
    Faulty { fault: StoreFault, detail: String },
    /// The store holds what it never should, or was asked for what cannot be.
    #[error("the store is inconsistent: {0}")]
    Inconsistent(String),
    /// Another process has this store open.
    #[error("{0}")]
    InUse(String),
    /// The schema is newer than this program, was changed by hand, or is missing.
    #[error("{0}")]
    Schema(String),
    /// The store has lost what it had acknowledged, and is not opened without leave.
    #[error("{0}")]
    DataLoss(String),
    /// The store is being closed.
    #[error("the store is closed")]
    Closed,
}

/// Why a store cannot write. Each needs another cure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StoreFault {
    DiskFull,
    /// Damaged pages. Nothing is read from such a store either: it would answer with a part of what it had.
    Corrupt,
    /// The file of the database was moved or deleted while it was open.
    FileReplaced,
    ReadOnly,
}

impl StoreFault {
    pub const fn title(self) -> &'static str {
        match self {
            Self::DiskFull => "the disk of the database is full",
            Self::Corrupt => "the database is corrupt",
            Self::FileReplaced => "the database file was moved or deleted",
            Self::ReadOnly => "the database is read-only",
        }
    }
}

impl StoreError {
    pub fn faulty(fault: StoreFault, detail: impl Into<String>) -> Self {
        Self::Faulty { fault, detail: detail.into() }
    }
}
