//! The values that go out with an assignment. Asked for after the start is durable, for tasks that refer to secrets.

use std::sync::Arc;

use punctual_core::namespace::NamespaceId;
use punctual_core::run::Run;
use punctual_core::secret::SecretValues;
use punctual_store::SecretRow;

use super::vault::Memory;
use crate::{App, Result};

/// The secrets of one attempt. Those that do not exist are left out, and the attempt fails for that.
#[derive(Debug, Clone, Default)]
pub struct AttemptSecrets {
    pub values: SecretValues,
    /// Why they could not be looked up. The attempt is given back, and starts again later.
    pub unavailable: Option<String>,
}

impl App {
    /// The values of the secrets of its namespace that a task refers to, as they are now or were a second ago.
    pub async fn attempt_secrets(&self, namespace: NamespaceId, run: &Run) -> AttemptSecrets {
        let names: Vec<String> = run.secrets().into_iter().collect();
        if names.is_empty() {
            return AttemptSecrets::default();
        }
        let rows = match self.secret_rows(namespace, &names).await {
            Ok(rows) => rows,
            Err(error) => {
                tracing::warn!(%error, "secrets of an attempt cannot be read; it is given back");
                let unavailable = Some("the server cannot read the task's secrets now".to_owned());
                return AttemptSecrets { unavailable, ..AttemptSecrets::default() };
            }
        };
        if rows.iter().any(|row| self.0.vault.open(row).is_none())
            && self.0.vault.may_look(self.now())
            && let Err(error) = self.refresh_data_keys().await
        {
            tracing::warn!(%error, "the data keys that other servers made cannot be opened");
        }
        let mut values = Vec::with_capacity(rows.len());
        for row in rows {
            match self.0.vault.open(&row) {
                Some(value) => values.push((row.name.clone(), value)),
                None => {
                    tracing::error!(secret = row.name, "a secret was changed in the database and cannot be opened");
                    let reason = format!("the secret {} cannot be opened; set it again", row.name);
                    return AttemptSecrets { unavailable: Some(reason), ..AttemptSecrets::default() };
                }
            }
        }
        AttemptSecrets { values: SecretValues::from_iter(values), unavailable: None }
    }

    /// Those of `names` that exist.
    pub(super) async fn secret_rows(&self, namespace: NamespaceId, names: &[String]) -> Result<Vec<Arc<SecretRow>>> {
        let now = self.now();
        let vault = &self.0.vault;
        let mut rows: Vec<Arc<SecretRow>> = Vec::with_capacity(names.len());
        let mut missing = Vec::new();
        for name in names {
            match vault.recall(namespace, name, now) {
                Memory::Fresh(row) => rows.extend(row),
                Memory::Old(_) | Memory::Nothing => missing.push(name.clone()),
            }
        }
        if missing.is_empty() {
            return Ok(rows);
        }
        match self.0.store.secrets_by_name(namespace, missing.clone()).await {
            Ok(read) => {
                for name in missing {
                    let row = read.iter().find(|row| row.name == name).cloned().map(Arc::new);
                    vault.remember(namespace, &name, row.clone(), now);
                    rows.extend(row);
                }
            }
            Err(error) => {
                for name in missing {
                    match vault.recall(namespace, &name, now) {
                        Memory::Fresh(row) | Memory::Old(row) => rows.extend(row),
                        Memory::Nothing => return Err(error.into()),
                    }
                }
            }
        }
        Ok(rows)
    }
}
