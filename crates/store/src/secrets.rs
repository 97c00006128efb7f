//! Secrets, and the keys that they and the cluster's own secret are sealed with. A store keeps what was sealed and cannot
//! open it: the root key is never in the database.

use std::fmt;

use async_trait::async_trait;
use punctual_core::Timestamp;
use punctual_core::hex;
use punctual_core::namespace::{NamespaceId, NamespaceName};
use punctual_core::schedule::By;

use crate::{ClusterSecret, Result};

/// Secrets that one namespace can have: servers read all of them at once.
pub const SECRETS_MAX: usize = 1000;

/// The name of a root key: derived from it, and no help in finding it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RootKeyId(pub [u8; 8]);

impl fmt::Display for RootKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for RootKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RootKeyId({self})")
    }
}

/// A key that was sealed with a root key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedKey {
    /// What it is: one key for each label.
    pub label: String,
    pub root_key: RootKeyId,
    pub sealed: Vec<u8>,
}

/// A secret as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretRow {
    pub namespace: NamespaceId,
    pub name: String,
    /// Grows with each change, from 1 on. The value is sealed for this revision.
    pub revision: u32,
    pub sealed: Vec<u8>,
    pub created: By,
    pub changed: By,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretChange {
    Done,
    /// It has another revision by now, 0 if it is not there.
    Conflict {
        revision: u32,
    },
    /// There are [`SECRETS_MAX`].
    Full,
}

#[async_trait]
pub trait Secrets: Send + Sync + 'static {
    /// The cluster's secret as versions before root keys stored it. `None` once it is sealed, and in new stores.
    async fn plain_cluster_secret(&self) -> Result<Option<ClusterSecret>>;

    /// All sealed keys, in order of label.
    async fn sealed_keys(&self) -> Result<Vec<SealedKey>>;

    /// Stores a sealed key, unless there is one with its label; the answer is the one that is stored. In the same
    /// transaction the cluster's plain secret is removed if the label is [`CLUSTER_SECRET`].
    async fn keep_sealed_key(&self, key: SealedKey) -> Result<SealedKey>;

    /// Replaces all sealed keys by `keys`, which have the same labels. False, and nothing is changed, unless all of them are
    /// sealed with `former` now and no other is stored.
    async fn rewrap_keys(&self, former: RootKeyId, keys: Vec<SealedKey>) -> Result<bool>;

    /// Removes a sealed key. False if it was not there. Not for the cluster's secret, which everything hangs on.
    async fn drop_sealed_key(&self, label: &str) -> Result<bool>;

    /// Removes what sealed keys that were dropped or sealed anew have left in the files of the database, where the store can.
    /// Does nothing if that was done and no sealed key has changed since `done`, which is the answer of an earlier call. A crash
    /// before or after it means nothing; it may be repeated.
    async fn scrub_sealed_keys(&self, done: Option<u64>) -> Result<u64>;

    /// Stores a secret whose revision is the one after the stored one, or 1 of a new one. Of a new one `changed` is who
    /// created it.
    async fn put_secret(&self, row: SecretRow) -> Result<SecretChange>;

    /// False if it was not there.
    async fn delete_secret(&self, namespace: NamespaceId, name: &str) -> Result<bool>;

    /// Those of a namespace that have one of these names, in no order.
    async fn secrets_by_name(&self, namespace: NamespaceId, names: Vec<String>) -> Result<Vec<SecretRow>>;

    /// All of a namespace, in order of name.
    async fn secrets(&self, namespace: NamespaceId) -> Result<Vec<SecretRow>>;

    /// Tasks that refer to a secret and that something may still run: live named ones by their name, and those of
    /// schedules and of jobs that are due after `now`, or were within a day before, by their id; in no order. A task that is
    /// stored at the same moment may be missing.
    async fn tasks_with_secret(
        &self,
        namespace: NamespaceId,
        name: &str,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<String>>;

    /// For each secret of a namespace that tasks refer to, how many do, in order of name. Counts named tasks alone.
    async fn secret_uses(&self, namespace: NamespaceId) -> Result<Vec<(String, u64)>>;
}

/// The label of the cluster's secret.
pub const CLUSTER_SECRET: &str = "cluster";

/// The label of the first data key of a namespace, which seals its secrets. Those of later ones begin with it and a slash. The
/// default namespace goes by its name, as before there were others.
pub fn data_key_label(namespace: NamespaceId) -> String {
    match namespace.or_none() {
        None => format!("namespace/{}", NamespaceName::DEFAULT),
        Some(number) => format!("namespace/#{number}"),
    }
}
