//! What tests let go wrong.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::sync::{MutexGuard, PoisonError};

use punctual_store::{Result, StoreError};

use super::ModelStore;

#[derive(Default)]
pub(super) struct Faults {
    unreadable: BTreeSet<String>,
    loses_dispatch: bool,
    has_no_tables: bool,
}

impl ModelStore {
    /// From now on nobody can read the job, task or schedule with this id by itself.
    pub fn spoil(&self, id: impl Display) {
        self.faults().unreadable.insert(id.to_string());
    }

    /// The next dispatch is done, and its answer gets lost.
    pub fn lose_dispatch(&self) {
        self.faults().loses_dispatch = true;
    }

    /// From now on probes find that the tables are gone.
    pub fn drop_tables(&self) {
        self.faults().has_no_tables = true;
    }

    pub(super) fn has_tables(&self) -> Result<()> {
        if self.faults().has_no_tables {
            return Err(StoreError::Schema("the schema of the database is missing".to_owned()));
        }
        Ok(())
    }

    pub(super) fn is_readable(&self, id: impl Display) -> Result<()> {
        if self.faults().unreadable.contains(&id.to_string()) {
            return Err(StoreError::Inconsistent(format!("{id} is spoiled, as the test wants it")));
        }
        Ok(())
    }

    pub(super) fn answers_dispatch(&self) -> Result<()> {
        if std::mem::take(&mut self.faults().loses_dispatch) {
            return Err(StoreError::Unavailable("as the test wants it".to_owned()));
        }
        Ok(())
    }

    fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
