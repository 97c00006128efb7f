//! Why a request was not granted, in words for people and a code for programs.
//!
//! The detail and the hint of an error are written where the use case refuses. Titles and codes are in `api/src/error.rs`. The
//! command line replaces some hints (`hint` in `punctual/src/exit.rs`) and words of REST (`punctual/src/field_flags.rs`).

use punctual_api::{ErrorKind, FieldCode, FieldError};
use punctual_core::Span;
use punctual_core::time::TimeError;
use punctual_engine::EngineError;
use punctual_store::{StoreError, StoreFault};

#[derive(Debug, Clone)]
pub struct AppError {
    pub kind: ErrorKind,
    pub detail: String,
    /// What to do about it.
    pub hint: Option<String>,
    pub errors: Vec<FieldError>,
    /// What lies behind it, for the log and not for the client.
    pub cause: Option<String>,
    /// When the same request may succeed, where that is known.
    pub retry_after: Option<Span>,
}

impl AppError {
    /// An owner or a peer broke the protocol.
    pub(crate) fn out_of_place() -> Self {
        Self::new(ErrorKind::Internal, "the owner of the shard gave an answer that does not fit the question")
    }

    pub fn new(kind: ErrorKind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into(), hint: None, errors: Vec::new(), cause: None, retry_after: None }
    }

    pub fn invalid(detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidRequest, detail)
    }

    /// A field that is wrong, by its JSON pointer.
    pub fn field(pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        let (pointer, detail) = (pointer.into(), detail.into());
        let summary = summary(&pointer, &detail);
        Self { errors: vec![FieldError::new(pointer, detail)], ..Self::invalid(summary) }
    }

    /// A number, a time or a duration that is too small or too large.
    pub fn out_of_range(pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::field(pointer, detail).code(FieldCode::OutOfRange)
    }

    /// A text or a list that is too long.
    pub fn too_long(pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::field(pointer, detail).code(FieldCode::TooLong)
    }

    /// A text or a list of the wrong length: too long, or empty.
    pub fn length(pointer: impl Into<String>, detail: impl Into<String>, len: usize) -> Self {
        if len == 0 { Self::field(pointer, detail) } else { Self::too_long(pointer, detail) }
    }

    /// A time or a duration that cannot be read.
    pub fn time(pointer: impl Into<String>, error: &TimeError) -> Self {
        let code = if error.is_range() { FieldCode::OutOfRange } else { FieldCode::InvalidValue };
        Self::field(pointer, error.to_string()).code(code)
    }

    /// Adds what is wrong with the field to the error.
    #[must_use]
    pub fn code(mut self, code: FieldCode) -> Self {
        for field in &mut self.errors {
            field.code = code;
        }
        self
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    #[must_use]
    pub fn because(mut self, cause: impl std::fmt::Display) -> Self {
        self.cause = Some(cause.to_string());
        self
    }

    /// A wait as `Retry-After` says it.
    pub fn wait_shown(wait: Span) -> String {
        format!("{} s", wait.to_std().as_secs_f64().ceil() as u64)
    }

    /// The same error, and when to try again.
    #[must_use]
    pub fn retry_after(mut self, wait: Span) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// Adds one more thing to do to the error.
    #[must_use]
    pub fn also(mut self, hint: &str) -> Self {
        self.hint = Some(match self.hint {
            Some(known) => format!("{known}; {hint}"),
            None => hint.to_owned(),
        });
        self
    }

    /// Says which field the error is about.
    #[must_use]
    pub fn pointing(mut self, pointer: &str) -> Self {
        self.errors = vec![FieldError::new(pointer, self.detail.clone())];
        self
    }

    /// Puts the pointer of an object before the pointer of its field.
    #[must_use]
    pub fn under(mut self, parent: &str) -> Self {
        for error in &mut self.errors {
            error.pointer = format!("{parent}{}", error.pointer);
        }
        match &self.errors[..] {
            [] => {}
            [only] => self.detail = summary(&only.pointer, &only.detail),
            several => self.detail = listed(several),
        }
        self
    }
}

/// Several fields in one sentence.
pub(crate) fn listed(fields: &[FieldError]) -> String {
    let named = fields.iter().map(|field| summary(&field.pointer, &field.detail));
    format!("{} fields are wrong. {}", fields.len(), named.collect::<Vec<_>>().join("; "))
}

/// The whole body has no name of its own.
fn summary(pointer: &str, detail: &str) -> String {
    if pointer.is_empty() { detail.to_owned() } else { format!("{pointer}: {detail}") }
}

impl std::fmt::Display for AppError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.kind.code(), self.detail)?;
        self.cause.as_ref().map_or(Ok(()), |cause| write!(f, ": {cause}"))
    }
}

impl std::error::Error for AppError {}

impl From<StoreError> for AppError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable(_) => {
                Self::new(ErrorKind::DatabaseUnavailable, "the database cannot be reached").because(error).hint(
                    "try again in a few seconds; if it lasts, start the database, or look at the network between it and \
                     the server",
                )
            }
            StoreError::Closed => Self::new(ErrorKind::Unavailable, "the server is stopping")
                .because(error)
                .hint("try again in a few seconds"),
            StoreError::Schema(_) => Self::new(ErrorKind::Unavailable, error.to_string()).because(error).hint(
                "tables were dropped or changed under the server: restore the database from a backup, or run \
                 `punctual migrate` on an empty schema and restart the servers",
            ),
            // The store logs where a fault begins and where it ends.
            StoreError::Faulty { fault, detail } => {
                tracing::debug!(detail, "{}; a request was refused", fault.title());
                Self::new(kind_of(fault), fault.title()).hint(what_to_do(fault))
            }
            StoreError::Inconsistent(_) | StoreError::InUse(_) | StoreError::DataLoss(_) => {
                Self::new(ErrorKind::Internal, "the store refused the request")
                    .because(error)
                    .hint("this is a defect; the server's log says more under this request id")
            }
        }
    }
}

fn kind_of(fault: StoreFault) -> ErrorKind {
    match fault {
        StoreFault::DiskFull => ErrorKind::DiskFull,
        StoreFault::Corrupt => ErrorKind::DatabaseCorrupt,
        StoreFault::FileReplaced => ErrorKind::DatabaseFileReplaced,
        StoreFault::ReadOnly => ErrorKind::DatabaseReadOnly,
    }
}

fn what_to_do(fault: StoreFault) -> &'static str {
    match fault {
        StoreFault::DiskFull => "make room on the disk of the database; the server goes on by itself",
        StoreFault::Corrupt => {
            "stop the server, copy all files of the database, then restore a backup or repair a copy with \
             `sqlite3 punctual.db .recover`; see docs/health.md"
        }
        StoreFault::FileReplaced => {
            "move the file back to its place and the server goes on; if it was deleted, copy it from /proc/PID/fd \
             before you stop the server"
        }
        StoreFault::ReadOnly => {
            "make the database writable; the server goes on by itself. A PostgreSQL that became a standby is read-only"
        }
    }
}

impl From<EngineError> for AppError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Stopped => {
                Self::new(ErrorKind::Unavailable, "the server is stopping").hint("try again in a few seconds")
            }
            EngineError::NoLease => Self::new(ErrorKind::Unavailable, "the server has lost touch with the store")
                .hint("try again in a few seconds, or ask another server"),
            EngineError::ClockSkew(skew) => {
                Self::new(ErrorKind::Unavailable, skew.to_string()).hint("ask another server meanwhile")
            }
        }
    }
}
