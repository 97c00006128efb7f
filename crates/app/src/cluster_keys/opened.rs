//! Reads the secrets of a cluster as they are at one moment.

use punctual_store::{
    CLUSTER_SECRET, ClusterSecret, ClusterSecretState, NEXT_CLUSTER_SECRET, SealedKey, SecretStage, Store, StoreError,
};

use crate::seal::UnlockError;

/// Somebody else may change the stage between two readings. More often than this it does not change in a minute.
const READINGS_MAX: usize = 10;

/// The secrets of a cluster, and which of them signs.
#[derive(Debug, Clone)]
pub struct OpenedSecrets {
    pub(crate) state: ClusterSecretState,
    /// The one with the label [`CLUSTER_SECRET`].
    pub(crate) current: ClusterSecret,
    /// The one with the label [`NEXT_CLUSTER_SECRET`], during a rotation.
    pub(crate) next: Option<ClusterSecret>,
}

/// The state and the sealed keys that belong to it.
pub(crate) async fn read(store: &dyn Store) -> Result<(ClusterSecretState, Vec<SealedKey>), StoreError> {
    let mut state = store.cluster_secret().await?;
    for _ in 0..READINGS_MAX {
        let keys = store.sealed_keys().await?;
        let after = store.cluster_secret().await?;
        if after.revision == state.revision {
            return Ok((after, keys));
        }
        state = after;
    }
    Err(StoreError::Inconsistent("the cluster's secret changes without pause".to_owned()))
}

impl OpenedSecrets {
    /// Each key opened by `open`.
    pub(crate) fn open(
        state: ClusterSecretState,
        stored: &[SealedKey],
        open: impl Fn(&SealedKey) -> Result<[u8; 32], UnlockError>,
    ) -> Result<Self, UnlockError> {
        let secret = |label: &str| {
            let key = stored.iter().find(|key| key.label == label).ok_or_else(|| {
                let root_key = stored.first().map_or(punctual_store::RootKeyId([0; 8]), |key| key.root_key);
                UnlockError::Damaged { label: label.to_owned(), root_key }
            })?;
            open(key).map(ClusterSecret)
        };
        let current = secret(CLUSTER_SECRET)?;
        let next = match state.stage {
            SecretStage::Settled => None,
            SecretStage::Announced | SecretStage::Signing => Some(secret(NEXT_CLUSTER_SECRET)?),
        };
        Ok(Self { state, current, next })
    }
}
