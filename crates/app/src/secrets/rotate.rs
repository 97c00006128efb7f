//! Replaces the root key, and the data keys that secrets are sealed with, while servers go on.

use punctual_api::{DataKeyRotated, ErrorKind, RootKeyRotated};
use punctual_core::namespace::{NamespaceId, NamespaceName};
use punctual_store::{SecretChange, SecretRow};

use super::PUT_TRIES;
use crate::data_keys::{self, NewDataKey, Sealed};
use crate::principal::By;
use crate::principal::permission::ManageCluster;
use crate::seal::{self, Rotation, UnlockError};
use crate::{App, AppError, Result};

fn refused<T>(detail: String, hint: &str) -> Result<T> {
    Err(AppError::new(ErrorKind::RootKeyRefused, detail).hint(hint.to_owned()))
}

fn not_opened(error: UnlockError) -> AppError {
    match error {
        UnlockError::Store(error) => error.into(),
        UnlockError::NoRandomness(error) => error.into(),
        error => AppError::new(ErrorKind::RootKeyRefused, error.to_string()).hint("see docs/secrets.md"),
    }
}

impl App {
    /// Seals the keys of the database with a new root key. Running servers go on: they need the root key at their start alone.
    pub async fn rotate_root_key(&self, _: &By<ManageCluster>) -> Result<RootKeyRotated> {
        let source = &*self.0.root_keys;
        match seal::rotate(&*self.0.store, source, self.0.vault.entropy()).await {
            Ok(Rotation::Done { former, current }) => {
                tracing::warn!(%former, %current, place = source.place(), "the root key was rotated");
                Ok(RootKeyRotated { former: former.to_string(), current: current.to_string(), place: source.place() })
            }
            Ok(Rotation::NoNewKey { current }) => refused(
                format!("{} has no key before {current}, and the server cannot write there", source.place()),
                "put a new key on a line before the one in use, for all servers, and rotate again",
            ),
            Ok(Rotation::Conflict) => {
                refused("the root key is being rotated elsewhere".to_owned(), "look at the result of that first")
            }
            Err(error) => Err(not_opened(error)),
        }
    }

    /// Makes a new data key and seals every secret with it. The former key stays until the next rotation, for servers that have
    /// not noticed and for what they seal meanwhile. A crash leaves secrets under either key; the next rotation seals the rest.
    pub async fn rotate_data_key(&self, by: &By<ManageCluster>) -> Result<DataKeyRotated> {
        let _turn = self.0.vault.rotating.lock().await;
        let (store, source) = (&*self.0.store, &*self.0.root_keys);
        self.refresh_data_keys().await?;
        if let Some(again_at) = data_keys::too_soon(&self.0.vault.keys(), self.now()) {
            return too_soon(again_at);
        }
        // What a rotation before this one left, and what other servers sealed with its former key.
        self.reseal().await?;
        let known = self.0.vault.keys().clone();
        data_keys::drop_former(store, &known).await.map_err(not_opened)?;
        let made = data_keys::add(store, source, self.0.vault.entropy(), NamespaceName::DEFAULT, self.now()).await;
        let current = match made.map_err(not_opened)? {
            NewDataKey::Made { label } => label,
            NewDataKey::TooSoon { again_at } => return too_soon(again_at),
            NewDataKey::Conflict => {
                return refused("keys are being rotated elsewhere".to_owned(), "look at the result of that first");
            }
        };
        by.changes(current.clone());
        self.refresh_data_keys().await?;
        let resealed = self.reseal().await?;
        tracing::warn!(key = current, resealed, "the data key of the secrets was rotated");
        Ok(DataKeyRotated { current, resealed })
    }

    /// Seals with the newest data key what is not. How many that were.
    async fn reseal(&self) -> Result<u64> {
        let mut resealed = 0;
        let others = self.0.store.namespaces().await?.rows.into_iter().map(|row| row.id);
        let mut rows = Vec::new();
        for namespace in std::iter::once(NamespaceId::DEFAULT).chain(others) {
            rows.extend(self.0.store.secrets(namespace).await?);
        }
        for row in rows {
            let namespace = row.namespace;
            let name = row.name.clone();
            let mut row = Some(row);
            for _ in 0..PUT_TRIES {
                let Some(found) = row.take() else { break };
                match self.reseal_one(&found).await? {
                    // Somebody changed or deleted it meanwhile.
                    Some(SecretChange::Conflict { .. }) => row = self.read_secret(namespace, &name).await?,
                    Some(SecretChange::Done) => resealed += 1,
                    Some(SecretChange::Full) | None => {}
                }
            }
            self.0.vault.forget(namespace, &name);
        }
        Ok(resealed)
    }

    /// `None` if it stays as it is.
    async fn reseal_one(&self, row: &SecretRow) -> Result<Option<SecretChange>> {
        match self.0.vault.unseal(row) {
            Some((_, Sealed::WithNewest)) => Ok(None),
            Some((value, Sealed::WithFormer)) => {
                let revision = row.revision.saturating_add(1);
                let sealed = self.0.vault.seal(row.namespace, &row.name, revision, &value, row.changed.clone())?;
                Ok(Some(self.0.store.put_secret(sealed).await?))
            }
            None => {
                tracing::error!(secret = row.name, "a secret was changed in the database and cannot be opened");
                Ok(None)
            }
        }
    }

    /// Learns of data keys that other servers made or removed.
    pub(super) async fn refresh_data_keys(&self) -> Result<()> {
        let stored = self.0.store.sealed_keys().await?;
        let known = {
            let keys = self.0.vault.keys();
            if keys.is_of(&stored, NamespaceName::DEFAULT) {
                return Ok(());
            }
            keys.clone()
        };
        let source = std::sync::Arc::clone(&self.0.root_keys);
        // The root key may be printed by a command.
        let read = move || known.updated(&stored, NamespaceName::DEFAULT, &*source);
        let updated = tokio::task::spawn_blocking(read)
            .await
            .map_err(|error| AppError::new(ErrorKind::Internal, "the data keys cannot be read").because(error))?;
        self.0.vault.replace_keys(updated.map_err(not_opened)?);
        Ok(())
    }
}

fn too_soon<T>(again_at: punctual_core::Timestamp) -> Result<T> {
    let detail = format!("the data key was rotated less than {} ago", data_keys::ROTATED_EVERY_MIN);
    refused(detail, &format!("rotate it again at {again_at} or later"))
}
