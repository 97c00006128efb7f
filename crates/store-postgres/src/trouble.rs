//! Why something did not work, before it is known what that means to the caller.

use std::time::Duration;

use punctual_store::{StoreError, StoreFault};
use tokio_postgres::error::SqlState;

const SCHEMA_MISSING: &str = "the schema of the database is missing";

pub(crate) fn missing_table(name: &str) -> StoreError {
    StoreError::Schema(format!("{SCHEMA_MISSING}: the table {name} was dropped"))
}

#[derive(Debug)]
pub(crate) enum Trouble {
    Postgres(tokio_postgres::Error),
    Silent(Duration),
    /// A decision of ours.
    Refused(StoreError),
}

impl From<tokio_postgres::Error> for Trouble {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Postgres(error)
    }
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

impl Trouble {
    pub(crate) fn inconsistent(text: impl Into<String>) -> Self {
        Self::Refused(StoreError::Inconsistent(text.into()))
    }

    pub(crate) fn code(&self) -> Option<&SqlState> {
        match self {
            Self::Postgres(error) => error.code(),
            Self::Silent(_) | Self::Refused(_) => None,
        }
    }

    fn class(&self) -> &str {
        self.code().map_or("", |code| &code.code()[..2])
    }

    /// The server was a primary when we connected and is none any more.
    pub(crate) fn is_of_a_standby(&self) -> bool {
        self.code() == Some(&SqlState::READ_ONLY_SQL_TRANSACTION)
    }

    /// Why PostgreSQL cannot write, where it says so.
    fn fault(&self) -> Option<StoreFault> {
        let code = self.code()?;
        if *code == SqlState::DISK_FULL {
            return Some(StoreFault::DiskFull);
        }
        if *code == SqlState::DATA_CORRUPTED || *code == SqlState::INDEX_CORRUPTED {
            return Some(StoreFault::Corrupt);
        }
        self.is_of_a_standby().then_some(StoreFault::ReadOnly)
    }

    /// PostgreSQL said no to what was asked, and the same question may be asked in another way.
    pub(crate) fn is_about_the_statement(&self) -> bool {
        matches!(self.class(), "21" | "22" | "23" | "25" | "40" | "42") && !self.is_of_a_standby()
    }

    /// The same may be done in another way, by us or by PostgreSQL.
    pub(crate) fn may_fit_otherwise(&self) -> bool {
        self.is_about_the_statement() || self.is_about_rows()
    }

    /// Values or rows do not fit; nothing is wrong with the database or the connection.
    pub(crate) fn is_about_rows(&self) -> bool {
        match self {
            Self::Refused(error) => matches!(error, StoreError::Inconsistent(_)),
            Self::Postgres(_) | Self::Silent(_) => matches!(self.class(), "21" | "22" | "23"),
        }
    }

    /// Others were in the way, and the same transaction may succeed now.
    pub(crate) fn is_transient(&self) -> bool {
        let transient = [SqlState::T_R_DEADLOCK_DETECTED, SqlState::T_R_SERIALIZATION_FAILURE];
        self.code().is_some_and(|code| transient.contains(code))
    }

    /// A table is not there, or the schema that it should be in.
    fn is_of_a_missing_schema(&self) -> bool {
        let missing = [SqlState::UNDEFINED_TABLE, SqlState::INVALID_SCHEMA_NAME, SqlState::UNDEFINED_SCHEMA];
        self.code().is_some_and(|code| missing.contains(code))
    }

    pub(crate) fn is_duplicate(&self) -> bool {
        self.code() == Some(&SqlState::UNIQUE_VIOLATION)
    }

    /// A row of history for whose time there is no partition.
    pub(crate) fn is_without_partition(&self) -> bool {
        match self {
            Self::Postgres(error) => error
                .as_db_error()
                .is_some_and(|error| *error.code() == SqlState::CHECK_VIOLATION && error.constraint().is_none()),
            Self::Silent(_) | Self::Refused(_) => false,
        }
    }
}

impl From<Trouble> for StoreError {
    fn from(trouble: Trouble) -> Self {
        let error = match &trouble {
            Trouble::Postgres(error) => shown(error),
            Trouble::Silent(limit) => format!("PostgreSQL gave no answer within {} ms", limit.as_millis()),
            Trouble::Refused(_) => String::new(),
        };
        let class = trouble.class().to_owned();
        let is_missing = trouble.is_of_a_missing_schema();
        let fault = trouble.fault();
        match (trouble, fault) {
            (Trouble::Refused(error), _) => error,
            _ if is_missing => Self::Schema(format!("{SCHEMA_MISSING}: {error}")),
            (_, Some(fault)) => Self::faulty(fault, error),
            (_, None) => match class.as_str() {
                // Values and rows that do not fit.
                "21" | "22" | "23" => Self::Inconsistent(error),
                // Tables that are not as they were made, or rights that were taken away.
                "42" | "3F" => Self::Schema(format!("PostgreSQL refuses a statement: {error}")),
                _ => Self::Unavailable(error),
            },
        }
    }
}

/// The error with its cause, which tokio-postgres keeps apart.
pub(crate) fn shown(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(error) => format!("{} ({})", error.message(), error.code().code()),
        None => match std::error::Error::source(error) {
            Some(cause) => format!("{error}: {cause}"),
            None => error.to_string(),
        },
    }
}
