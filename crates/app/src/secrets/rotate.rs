//! Replaces the root key, and the data keys that secrets are sealed with, while servers go on.

use punctual_api::{DataKeyQuery, DataKeyRotated, ErrorKind, RootKeyRotated, RotatedDataKey};
use punctual_core::namespace::NamespaceId;
use punctual_store::{SecretChange, SecretRow};

use super::PUT_TRIES;
use crate::data_keys::{self, NewDataKey, Purpose, Sealed};
use crate::principal::By;
use crate::principal::permission::ManageCluster;
use crate::seal::{self, Rotation, UnlockError};
use crate::sealing::DataKey;
use crate::{App, AppError, Checked, Result, namespaces};

fn refused<T>(detail: String, hint: &str) -> Result<T> {
    Err(AppError::new(ErrorKind::RootKeyRefused, detail).hint(hint.to_owned()))
}

pub(crate) fn not_opened(error: UnlockError) -> AppError {
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

    /// Makes a new data key for each namespace that has one, or for the one of the query, and seals its secrets with it. The former
    /// key stays until the next rotation, for servers that have not noticed and for what they seal meanwhile. A crash leaves
    /// secrets under either key; the next rotation seals the rest.
    pub async fn rotate_data_key(&self, by: &By<ManageCluster>, query: &DataKeyQuery) -> Result<DataKeyRotated> {
        let _turn = self.0.vault.rotating.lock().await;
        self.refresh_namespaces().await?;
        self.refresh_data_keys().await?;
        let wanted: Vec<NamespaceId> = match &query.namespace {
            Some(name) => vec![self.0.namespaces.named(name).ok_or_else(|| namespaces::not_found(name))?.id()],
            None => self.0.vault.keys().namespaces().collect(),
        };
        by.changes(query.namespace.clone().unwrap_or_else(|| "all namespaces".to_owned()));
        let now = self.now();
        let when = |namespace: NamespaceId| data_keys::too_soon(&self.0.vault.keys(), namespace, now);
        let due: Vec<NamespaceId> = wanted.iter().copied().filter(|namespace| when(*namespace).is_none()).collect();
        if let (true, Some(again_at)) = (due.is_empty(), wanted.iter().filter_map(|namespace| when(*namespace)).min()) {
            return too_soon(again_at);
        }
        let mut rotated = Vec::with_capacity(due.len());
        for namespace in due {
            rotated.push(self.rotate_data_key_of(namespace).await?);
        }
        let resealed = rotated.iter().map(|namespace: &RotatedDataKey| namespace.resealed).sum();
        Ok(DataKeyRotated { namespaces: rotated, resealed })
    }

    async fn rotate_data_key_of(&self, namespace: NamespaceId) -> Result<RotatedDataKey> {
        // What a rotation before this one left, and what other servers sealed with its former key.
        self.reseal(namespace).await?;
        if namespace.is_default() {
            // Its key was that of all namespaces. What is still sealed with it gets the key of its own namespace first.
            for other in self.0.store.namespaces().await?.rows {
                self.reseal(other.id).await?;
            }
        }
        let store = &*self.0.store;
        let known = self.0.vault.keys().clone();
        data_keys::drop_former(store, &known, namespace).await.map_err(not_opened)?;
        let current = self.add_data_key(namespace, Purpose::Rotation).await?;
        let resealed = self.reseal(namespace).await?;
        let name = self.0.namespaces.name_of(namespace).unwrap_or_default();
        tracing::warn!(namespace = name, key = current, resealed, "the data key of secrets was rotated");
        Ok(RotatedDataKey { namespace: name, current, resealed })
    }

    /// Makes a data key, and answers its label.
    async fn add_data_key(&self, namespace: NamespaceId, purpose: Purpose) -> Result<String> {
        let (store, source) = (&*self.0.store, &*self.0.root_keys);
        let made = data_keys::add(store, source, self.0.vault.entropy(), namespace, purpose, self.now()).await;
        match made.map_err(not_opened)? {
            NewDataKey::Made { label } => {
                self.refresh_data_keys().await?;
                Ok(label)
            }
            NewDataKey::TooSoon { again_at } => too_soon(again_at),
            NewDataKey::Conflict => {
                refused("keys are being rotated elsewhere".to_owned(), "look at the result of that first")
            }
        }
    }

    /// The key that seals the secrets of a namespace now. Makes the first one.
    pub(super) async fn data_key(&self, namespace: NamespaceId) -> Result<DataKey> {
        // Another server may have made one.
        self.refresh_data_keys().await?;
        let newest = || self.0.vault.keys().newest(namespace).cloned();
        if let Some(key) = newest() {
            return Ok(key);
        }
        self.add_data_key(namespace, Purpose::First).await?;
        newest().ok_or_else(|| AppError::new(ErrorKind::Unavailable, "the namespace has no data key").hint("try again"))
    }

    /// Seals with the newest data key of a namespace what is not. How many that were.
    async fn reseal(&self, namespace: NamespaceId) -> Result<u64> {
        let mut resealed = 0;
        for row in self.0.store.secrets(namespace).await? {
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
                let key = self.data_key(row.namespace).await?;
                let sealed =
                    self.0.vault.seal(&key, row.namespace, &row.name, revision, &value, row.changed.clone())?;
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
            if keys.is_of(&stored) {
                return Ok(());
            }
            keys.clone()
        };
        let source = std::sync::Arc::clone(&self.0.root_keys);
        // The root key may be printed by a command.
        let read = move || known.updated(&stored, &*source);
        let updated = tokio::task::spawn_blocking(read)
            .await
            .map_err(|error| AppError::new(ErrorKind::Internal, "the data keys cannot be read").because(error))?;
        self.0.vault.replace_keys(updated.map_err(not_opened)?);
        Ok(())
    }
}

impl Checked for DataKeyQuery {
    fn check(&self) -> Result<()> {
        Ok(())
    }
}

fn too_soon<T>(again_at: punctual_core::Timestamp) -> Result<T> {
    let detail = format!("the data key was rotated less than {} ago", data_keys::ROTATED_EVERY_MIN);
    refused(detail, &format!("rotate it again at {again_at} or later"))
}
