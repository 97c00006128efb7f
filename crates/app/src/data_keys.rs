//! The keys that secrets are sealed with, those of each namespace with its own, and how the one in use is replaced.
//!
//! A namespace gets its key with its first secret, and its keys go with it.
//!
//! Secrets are sealed with the newest key and open with any that is known. A rotation adds a key, seals every secret anew, and
//! leaves the former key where it is until the next rotation: another server may just be sealing a value with it. Servers learn
//! of a key when they seal, and when something does not open.

use std::collections::{BTreeMap, BTreeSet};

use punctual_core::namespace::NamespaceId;
use punctual_core::{Span, Timestamp};
use punctual_store::{CLUSTER_SECRET, RootKeyId, SealedKey, Store, data_key_label};
use zeroize::{Zeroize, Zeroizing};

use crate::seal::{RootKeySource, RootKeys, UnlockError};
use crate::sealing::{DataKey, Entropy};

/// A rotation removes keys that were replaced by an earlier one. Whoever was sealing with one of those has ended by now: no
/// statement takes this long.
pub(crate) const ROTATED_EVERY_MIN: Span = Span::from_secs(60);
/// Servers that rotate at the same moment each add one; the next rotation removes all but the newest.
const DATA_KEYS_MAX: usize = 8;

fn label(namespace: NamespaceId, made_at: Timestamp) -> String {
    // In order of time as text, too.
    format!("{}/{:020}", data_key_label(namespace), made_at.as_micros())
}

/// When a key was made; `None` for the first one of a namespace.
fn made_at(label: &str) -> Option<Timestamp> {
    Timestamp::from_micros(label.splitn(3, '/').nth(2)?.parse().ok()?)
}

/// The namespace whose secrets a key seals; `None` for other keys.
fn namespace_of(label: &str) -> Option<NamespaceId> {
    let rest = label.strip_prefix("namespace/")?;
    let (name, time) = rest.split_once('/').map_or((rest, None), |(name, time)| (name, Some(time)));
    let namespace = match name.strip_prefix('#') {
        Some(number) => NamespaceId(number.parse().ok()?),
        None => NamespaceId::DEFAULT,
    };
    let is_label = match time {
        Some(_) => label_is(label, namespace),
        None => data_key_label(namespace) == label,
    };
    is_label.then_some(namespace)
}

fn label_is(text: &str, namespace: NamespaceId) -> bool {
    made_at(text).is_some_and(|made_at| label(namespace, made_at) == text)
}

/// The data keys of all namespaces, with their namespaces. Of one namespace they are in order of time. One that another server
/// has just made while the root key was rotated is left out, because that server takes it back: see [`add`].
fn data_keys(stored: &[SealedKey]) -> impl Iterator<Item = (NamespaceId, &SealedKey)> {
    let root_key = stored.iter().find(|key| key.label == CLUSTER_SECRET).map(|key| key.root_key);
    let is_settled = move |key: &&SealedKey| root_key.is_none_or(|root_key| key.root_key == root_key);
    stored.iter().filter(is_settled).filter_map(|key| Some((namespace_of(&key.label)?, key)))
}

pub(crate) fn of_namespace(stored: &[SealedKey], namespace: NamespaceId) -> impl Iterator<Item = &SealedKey> {
    data_keys(stored).filter(move |(of, _)| *of == namespace).map(|(_, key)| key)
}

/// The data keys of one namespace, the newest last.
type OwnKeys = Vec<(String, DataKey)>;

/// The data keys of all namespaces.
#[derive(Debug, Clone, Default)]
pub struct VaultKeys(BTreeMap<NamespaceId, OwnKeys>);

impl VaultKeys {
    /// One key of the default namespace, for tests.
    pub fn new(bytes: [u8; 32]) -> Self {
        let mut keys = Self::default();
        keys.add(NamespaceId::DEFAULT, &data_key_label(NamespaceId::DEFAULT), bytes);
        keys
    }

    /// The sealed data keys, each opened by `open`.
    pub(crate) fn opened(
        stored: &[SealedKey],
        mut open: impl FnMut(&SealedKey) -> Result<[u8; 32], UnlockError>,
    ) -> Result<Self, UnlockError> {
        let mut keys = Self::default();
        for (namespace, key) in data_keys(stored) {
            keys.add(namespace, &key.label, open(key)?);
        }
        Ok(keys)
    }

    /// Keys of a namespace are added in order of their labels.
    pub(crate) fn add(&mut self, namespace: NamespaceId, label: &str, bytes: [u8; 32]) {
        self.0.entry(namespace).or_default().push((label.to_owned(), DataKey::new(bytes)));
    }

    fn of(&self, namespace: NamespaceId) -> &[(String, DataKey)] {
        self.0.get(&namespace).map_or(&[], Vec::as_slice)
    }

    /// The key that seals the secrets of a namespace; `None` as long as it has none.
    pub(crate) fn newest(&self, namespace: NamespaceId) -> Option<&DataKey> {
        self.of(namespace).last().map(|(_, key)| key)
    }

    /// The namespaces that have keys.
    pub(crate) fn namespaces(&self) -> impl Iterator<Item = NamespaceId> {
        self.0.keys().copied()
    }

    /// Forgets the keys of namespaces that are gone.
    pub(crate) fn keep(&mut self, is_there: impl Fn(NamespaceId) -> bool) {
        self.0.retain(|namespace, _| namespace.is_default() || is_there(*namespace));
    }

    /// Opened with whichever key of its namespace it was sealed with. The newest comes first. Versions in which all namespaces
    /// had one key sealed with that of the default namespace.
    pub(crate) fn open(
        &self,
        namespace: NamespaceId,
        sealed: &[u8],
        binding: &[u8],
    ) -> Option<(Zeroizing<Vec<u8>>, Sealed)> {
        let newest = self.newest(namespace).and_then(|key| key.open(sealed, binding));
        if let Some(opened) = newest {
            return Some((opened, Sealed::WithNewest));
        }
        let former = self.of(namespace).iter().rev().skip(1).chain(self.of(NamespaceId::DEFAULT).iter().rev());
        former.map(|(_, key)| key).find_map(|key| key.open(sealed, binding)).map(|opened| (opened, Sealed::WithFormer))
    }

    pub(crate) fn is_of(&self, stored: &[SealedKey]) -> bool {
        let mut known = BTreeSet::new();
        known.extend(self.0.values().flatten().map(|(label, _)| label.as_str()));
        let stored: BTreeSet<&str> = data_keys(stored).map(|(_, key)| key.label.as_str()).collect();
        known == stored
    }

    /// These keys as they are in the store now. The root key is read only if there is one that is not known yet.
    pub(crate) fn updated(&self, stored: &[SealedKey], source: &dyn RootKeySource) -> Result<Self, UnlockError> {
        let mut root_keys = None;
        let mut updated = Self::default();
        for (namespace, key) in data_keys(stored) {
            if let Some(known) = self.of(namespace).iter().find(|(label, _)| *label == key.label) {
                updated.0.entry(namespace).or_default().push(known.clone());
                continue;
            }
            let keys = match root_keys.take() {
                Some(keys) => keys,
                None => read(source)?,
            };
            let mismatch = || UnlockError::Mismatch { place: source.place(), wanted: key.root_key, found: keys.ids() };
            let root_key = keys.get(key.root_key).ok_or_else(mismatch)?;
            let damaged = || UnlockError::Damaged { label: key.label.clone(), root_key: key.root_key };
            let opened = root_key.open(key).ok_or_else(damaged)?;
            updated.add(namespace, &key.label, opened);
            root_keys = Some(keys);
        }
        if updated.newest(NamespaceId::DEFAULT).is_none() {
            let label = data_key_label(NamespaceId::DEFAULT);
            return Err(UnlockError::Damaged {
                label,
                root_key: stored.first().map_or(RootKeyId([0; 8]), |key| key.root_key),
            });
        }
        Ok(updated)
    }
}

/// Which key a value was sealed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sealed {
    WithNewest,
    WithFormer,
}

fn read(source: &dyn RootKeySource) -> Result<RootKeys, UnlockError> {
    let failed = |reason: String| UnlockError::Source { place: source.place(), reason };
    source.read().map_err(failed)?.ok_or_else(|| failed("there is no key".to_owned()))
}

/// Which data key to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The first of the namespace. Of several servers that make it one is first, and the others use its key.
    First,
    Rotation,
}

/// Whether another data key was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NewDataKey {
    Made {
        label: String,
    },
    /// The last one was made less than [`ROTATED_EVERY_MIN`] ago.
    TooSoon {
        again_at: Timestamp,
    },
    /// The root key was rotated at the same time, or there are too many keys.
    Conflict,
}

/// When the next rotation may be, if not now.
pub(crate) fn too_soon(known: &VaultKeys, namespace: NamespaceId, now: Timestamp) -> Option<Timestamp> {
    let again_at = made_at(&known.of(namespace).last()?.0)? + ROTATED_EVERY_MIN;
    (now < again_at).then_some(again_at)
}

/// Adds a data key, sealed with the root key that the others are sealed with.
pub(crate) async fn add(
    store: &dyn Store,
    source: &dyn RootKeySource,
    entropy: &Entropy,
    namespace: NamespaceId,
    purpose: Purpose,
    now: Timestamp,
) -> Result<NewDataKey, UnlockError> {
    let stored = store.sealed_keys().await?;
    let Some(current) = stored.iter().find(|key| key.label == CLUSTER_SECRET).map(|key| key.root_key) else {
        return Ok(NewDataKey::Conflict);
    };
    let newest = of_namespace(&stored, namespace).last().and_then(|key| made_at(&key.label));
    if let Some(newest) = newest
        && now < newest + ROTATED_EVERY_MIN
    {
        return Ok(NewDataKey::TooSoon { again_at: newest + ROTATED_EVERY_MIN });
    }
    if of_namespace(&stored, namespace).count() >= DATA_KEYS_MAX {
        return Ok(NewDataKey::Conflict);
    }
    let root_keys = read(source)?;
    let mismatch = || UnlockError::Mismatch { place: source.place(), wanted: current, found: root_keys.ids() };
    let root_key = root_keys.get(current).ok_or_else(mismatch)?;
    let mut bytes = entropy()?;
    let label = match purpose {
        Purpose::First => data_key_label(namespace),
        Purpose::Rotation => label(namespace, now),
    };
    let sealed = root_key.seal(&label, &bytes, entropy);
    bytes.zeroize();
    let kept = store.keep_sealed_key(sealed?).await?;
    // All keys of a database are sealed with one root key, or the next rotation of that is refused. Nobody uses this one yet: it
    // differs from the cluster's.
    if store.sealed_keys().await?.iter().any(|key| key.root_key != kept.root_key) {
        store.drop_sealed_key(&kept.label).await?;
        return Ok(NewDataKey::Conflict);
    }
    Ok(NewDataKey::Made { label })
}

/// Removes the keys that are older than the newest of `known`. Nothing may be sealed with them.
pub(crate) async fn drop_former(
    store: &dyn Store,
    known: &VaultKeys,
    namespace: NamespaceId,
) -> Result<usize, UnlockError> {
    let known = known.of(namespace);
    let former = known.len().saturating_sub(1);
    for (label, _) in &known[..former] {
        store.drop_sealed_key(label).await?;
    }
    Ok(former)
}

#[cfg(test)]
mod tests {
    use punctual_store::Secrets as _;

    use super::*;
    use crate::seal::tests::{Keys, entropy, store};
    use crate::seal::{rotate, unlock};

    fn at(secs: i64) -> Timestamp {
        Timestamp::EPOCH + Span::from_secs(1_800_000_000 + secs)
    }

    const TENANT: NamespaceId = NamespaceId(7);

    #[test]
    fn labels_are_in_order_of_time_and_of_one_namespace() {
        let key = |label: &str| SealedKey { label: label.to_owned(), root_key: RootKeyId([1; 8]), sealed: vec![] };
        for (namespace, first) in [(NamespaceId::DEFAULT, "namespace/default"), (TENANT, "namespace/#7")] {
            let labels = [data_key_label(namespace), label(namespace, at(0)), label(namespace, at(100))];
            assert!(labels.is_sorted() && labels[0] == first, "{labels:?}");
            let others =
                ["cluster", "namespace/default2", "namespace/#70", "namespace/#7x", "namespace/#7/x", "namespace/#07"];
            let stored: Vec<SealedKey> = labels.iter().map(String::as_str).chain(others).map(key).collect();
            let found: Vec<&str> = of_namespace(&stored, namespace).map(|key| key.label.as_str()).collect();
            assert_eq!(found, labels);
            assert_eq!(labels.each_ref().map(|label| made_at(label)), [None, Some(at(0)), Some(at(100))]);
        }
    }

    #[tokio::test]
    async fn what_was_sealed_with_the_former_key_opens_until_that_is_dropped() {
        let (store, keys, entropy) = (store(), Keys::none(), entropy());
        let mut before = unlock(&store, &keys, &entropy).await.unwrap().vault;
        for namespace in [NamespaceId::DEFAULT, TENANT] {
            if namespace == TENANT {
                let made = add(&store, &keys, &entropy, TENANT, Purpose::First, at(0)).await.unwrap();
                assert_eq!(made, NewDataKey::Made { label: "namespace/#7".to_owned() });
                before = before.updated(&store.sealed_keys().await.unwrap(), &keys).unwrap();
            }
            let old = before.newest(namespace).unwrap().seal(b"value", b"place", &entropy).unwrap();
            let made = add(&store, &keys, &entropy, namespace, Purpose::Rotation, at(0)).await.unwrap();
            let NewDataKey::Made { label } = made else { panic!() };
            // Another server learns of it, and one that starts now knows both.
            let stored = store.sealed_keys().await.unwrap();
            assert!(!before.is_of(&stored));
            let updated = before.updated(&stored, &keys).unwrap();
            let started = unlock(&store, &keys, &entropy).await.unwrap().vault;
            for known in [&updated, &started] {
                assert!(known.is_of(&stored));
                assert_eq!(known.open(namespace, &old, b"place").unwrap().1, Sealed::WithFormer);
                let new = known.newest(namespace).unwrap().seal(b"value", b"place", &entropy).unwrap();
                assert_eq!(known.open(namespace, &new, b"place").unwrap().1, Sealed::WithNewest);
                assert!(
                    before.open(namespace, &new, b"place").is_none(),
                    "the former key opens nothing that is sealed now"
                );
            }
            assert_eq!(drop_former(&store, &updated, namespace).await.unwrap(), 1);
            before = unlock(&store, &keys, &entropy).await.unwrap().vault;
            assert!(before.open(namespace, &old, b"place").is_none());
            assert_eq!(before.of(namespace).iter().map(|(label, _)| label).collect::<Vec<_>>(), [&label]);
        }
    }

    #[tokio::test]
    async fn a_value_opens_with_the_keys_of_its_namespace_and_those_of_before_alone() {
        let (store, keys, entropy) = (store(), Keys::none(), entropy());
        unlock(&store, &keys, &entropy).await.unwrap();
        for namespace in [TENANT, NamespaceId(8)] {
            add(&store, &keys, &entropy, namespace, Purpose::First, at(0)).await.unwrap();
        }
        let mut known = unlock(&store, &keys, &entropy).await.unwrap().vault;
        let sealed_by = |namespace| known.newest(namespace).unwrap().seal(b"value", b"place", &entropy).unwrap();
        let (own, of_other, of_before) =
            (sealed_by(TENANT), sealed_by(NamespaceId(8)), sealed_by(NamespaceId::DEFAULT));
        let how = |sealed: &[u8]| known.open(TENANT, sealed, b"place").map(|(_, sealed)| sealed);
        assert_eq!(how(&own), Some(Sealed::WithNewest));
        assert_eq!(how(&of_before), Some(Sealed::WithFormer), "one key was for all");
        assert_eq!(how(&of_other), None);
        assert!(known.open(NamespaceId::DEFAULT, &own, b"place").is_none());
        known.keep(|namespace| namespace != TENANT);
        assert!(known.open(TENANT, &own, b"place").is_none(), "its key went with it");
        assert!(known.newest(NamespaceId::DEFAULT).is_some() && known.newest(NamespaceId(8)).is_some());
    }

    #[tokio::test]
    async fn servers_that_make_the_first_key_of_a_namespace_at_once_use_one() {
        let (store, keys, entropy) = (store(), Keys::none(), entropy());
        unlock(&store, &keys, &entropy).await.unwrap();
        let made =
            futures_util::future::join_all((0..4).map(|_| add(&store, &keys, &entropy, TENANT, Purpose::First, at(0))));
        assert!(made.await.into_iter().all(|made| matches!(made, Ok(NewDataKey::Made { .. }))));
        assert_eq!(of_namespace(&store.sealed_keys().await.unwrap(), TENANT).count(), 1);
    }

    #[tokio::test]
    async fn a_key_that_is_sealed_with_another_root_key_than_the_clusters_is_not_used() {
        let (store, keys, entropy) = (store(), Keys::none(), entropy());
        unlock(&store, &keys, &entropy).await.unwrap();
        let stray = crate::RootKey::new([77; 32]).seal(&data_key_label(TENANT), &[5; 32], &entropy).unwrap();
        store.keep_sealed_key(stray).await.unwrap();
        let known = unlock_known(&store, &keys).await;
        assert!(known.newest(TENANT).is_none(), "whoever made it takes it back");
    }

    async fn unlock_known(store: &dyn Store, keys: &Keys) -> VaultKeys {
        VaultKeys::default().updated(&store.sealed_keys().await.unwrap(), keys).unwrap()
    }

    #[tokio::test]
    async fn a_data_key_is_rotated_once_a_minute_and_beside_the_root_key() {
        let (store, keys, entropy) = (store(), Keys::none(), entropy());
        unlock(&store, &keys, &entropy).await.unwrap();
        let made =
            async |secs| add(&store, &keys, &entropy, NamespaceId::DEFAULT, Purpose::Rotation, at(secs)).await.unwrap();
        assert!(matches!(made(0).await, NewDataKey::Made { .. }));
        assert_eq!(made(59).await, NewDataKey::TooSoon { again_at: at(60) });
        rotate(&store, &keys, &entropy).await.unwrap();
        assert!(matches!(made(60).await, NewDataKey::Made { .. }));
        let stored = store.sealed_keys().await.unwrap();
        assert!(stored.iter().all(|key| key.root_key == stored[0].root_key), "one root key has sealed all of them");
        let known = unlock(&store, &keys, &entropy).await.unwrap().vault;
        let when = |secs| too_soon(&known, NamespaceId::DEFAULT, at(secs));
        assert_eq!((when(119), when(120)), (Some(at(120)), None));
        assert_eq!(too_soon(&known, TENANT, at(0)), None, "each namespace has a minute of its own");
    }
}
