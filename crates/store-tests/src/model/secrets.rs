use std::collections::BTreeMap;

use punctual_core::Timestamp;
use punctual_core::namespace::NamespaceId;
use punctual_core::schedule::By;
use punctual_store::{
    CLUSTER_SECRET, ClusterSecret, Result, RootKeyId, SECRETS_MAX, SealedKey, SecretChange, SecretRow, TASK_USE_STEP,
};

use super::{ModelStore, StoredTask};

impl ModelStore {
    pub fn plain_cluster_secret_now(&self) -> Option<ClusterSecret> {
        self.state().plain_secret.get(&()).copied()
    }

    /// As a version before root keys left it.
    pub fn with_plain_secret(self, secret: ClusterSecret) -> Self {
        let mut state = self.state();
        state.plain_secret.put((), secret);
        state.plain_secret.keep();
        drop(state);
        self
    }

    pub fn sealed_keys_now(&self) -> Vec<SealedKey> {
        self.state().sealed_keys.values().cloned().collect()
    }

    pub fn keep_sealed_key_now(&self, key: SealedKey) -> Result<SealedKey> {
        self.state().all_or_nothing(|state| {
            let kept = state.sealed_keys.get(&key.label).cloned().unwrap_or(key);
            state.sealed_keys.put(kept.label.clone(), kept.clone());
            if kept.label == CLUSTER_SECRET {
                state.plain_secret.take(&());
            }
            Ok(kept)
        })
    }

    pub fn rewrap_keys_now(&self, former: RootKeyId, keys: Vec<SealedKey>) -> Result<bool> {
        self.state().all_or_nothing(|state| {
            let keys: BTreeMap<String, SealedKey> = keys.into_iter().map(|key| (key.label.clone(), key)).collect();
            let is_as_known = state.sealed_keys.values().all(|key| key.root_key == former);
            if !is_as_known || !state.sealed_keys.keys().eq(keys.keys()) {
                return Ok(false);
            }
            keys.into_iter().for_each(|(label, key)| state.sealed_keys.put(label, key));
            Ok(true)
        })
    }

    pub fn drop_sealed_key_now(&self, label: &str) -> Result<bool> {
        self.state().all_or_nothing(|state| Ok(state.sealed_keys.take(&label.to_owned()).is_some()))
    }

    pub fn put_secret_now(&self, row: SecretRow) -> Result<SecretChange> {
        self.state().all_or_nothing(|state| {
            let key = (row.namespace, row.name.clone());
            let known = state.secrets.get(&key).cloned();
            let revision = known.as_ref().map_or(0, |known| known.revision);
            if revision.checked_add(1) != Some(row.revision) {
                return Ok(SecretChange::Conflict { revision });
            }
            let of_namespace = state.secrets.keys().filter(|(namespace, _)| *namespace == row.namespace).count();
            if known.is_none() && of_namespace >= SECRETS_MAX {
                return Ok(SecretChange::Full);
            }
            let created: By = known.map_or_else(|| row.changed.clone(), |known| known.created);
            state.secrets.put(key, SecretRow { created, ..row });
            Ok(SecretChange::Done)
        })
    }

    pub fn delete_secret_now(&self, namespace: NamespaceId, name: &str) -> Result<bool> {
        let key = (namespace, name.to_owned());
        self.state().all_or_nothing(|state| Ok(state.secrets.take(&key).is_some()))
    }

    pub fn secrets_by_name_now(&self, namespace: NamespaceId, names: &[String]) -> Vec<SecretRow> {
        self.secrets_now(namespace).into_iter().filter(|row| names.contains(&row.name)).collect()
    }

    pub fn secrets_now(&self, namespace: NamespaceId) -> Vec<SecretRow> {
        self.state().secrets.values().filter(|row| row.namespace == namespace).cloned().collect()
    }

    pub fn tasks_with_secret_now(
        &self,
        namespace: NamespaceId,
        name: &str,
        now: Timestamp,
        limit: usize,
    ) -> Vec<String> {
        let state = self.state();
        let may_run = |stored: &&StoredTask| {
            let is_scheduled = || state.schedules.values().any(|row| row.edit.task == stored.task.id);
            let is_due = stored.used_until > now - TASK_USE_STEP;
            !stored.deleted && (stored.task.name.is_some() || is_due || is_scheduled())
        };
        let of_namespace = state.tasks.values().filter(|stored| stored.task.namespace == namespace);
        let users = of_namespace.filter(|stored| stored.task.spec.run.secrets().contains(name));
        let shown =
            users.filter(may_run).map(|stored| stored.task.name.clone().unwrap_or_else(|| stored.task.id.to_string()));
        shown.take(limit).collect()
    }

    pub fn secret_uses_now(&self, namespace: NamespaceId) -> Vec<(String, u64)> {
        let mut uses: BTreeMap<String, u64> = BTreeMap::new();
        let state = self.state();
        let of_namespace = state.tasks.values().filter(|stored| stored.task.namespace == namespace);
        let named = of_namespace.filter(|stored| !stored.deleted && stored.task.name.is_some());
        for secret in named.flat_map(|stored| stored.task.spec.run.secrets()) {
            *uses.entry(secret).or_default() += 1;
        }
        uses.into_iter().collect()
    }
}
