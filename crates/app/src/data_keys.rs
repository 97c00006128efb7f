//! The keys that the secrets of a namespace are sealed with, and how the one in use is replaced.
//!
//! Secrets are sealed with the newest key and open with any that is known. A rotation adds a key, seals every secret anew, and
//! leaves the former key where it is until the next rotation: another server may just be sealing a value with it. Servers learn
//! of a key when they seal, and when something does not open.

use punctual_core::namespace::NamespaceName;
use punctual_core::{Span, Timestamp};
use punctual_store::{RootKeyId, SealedKey, Store};
use zeroize::{Zeroize, Zeroizing};

use crate::seal::{RootKeySource, RootKeys, UnlockError};
use crate::sealing::{DataKey, Entropy};

/// A rotation removes keys that were replaced by an earlier one. Whoever was sealing with one of those has ended by now: no
/// statement takes this long.
pub(crate) const ROTATED_EVERY_MIN: Span = Span::from_secs(60);
/// Servers that rotate at the same moment each add one; the next rotation removes all but the newest.
const DATA_KEYS_MAX: usize = 8;

/// The label of a namespace's first data key. Those of later ones end with the time at which they were made.
pub(crate) fn first_label(namespace: &str) -> String {
    format!("namespace/{namespace}")
}

fn label(namespace: &str, made_at: Timestamp) -> String {
    // In order of time as text, too.
    format!("namespace/{namespace}/{:020}", made_at.as_micros())
}

/// When a key was made; `None` for the first one of a namespace.
fn made_at(label: &str) -> Option<Timestamp> {
    Timestamp::from_micros(label.splitn(3, '/').nth(2)?.parse().ok()?)
}

/// The data keys of a namespace, the newest last. Sealed keys are in order of label.
pub(crate) fn of_namespace<'a>(stored: &'a [SealedKey], namespace: &str) -> impl Iterator<Item = &'a SealedKey> {
    let first = first_label(namespace);
    stored.iter().filter(move |key| match key.label.strip_prefix(&first) {
        Some(rest) => rest.is_empty() || rest.starts_with('/') && made_at(&key.label).is_some(),
        None => false,
    })
}

/// The data keys of a namespace's secrets.
#[derive(Debug, Clone, Default)]
pub struct VaultKey(Vec<(String, DataKey)>);

impl VaultKey {
    /// One key, for tests.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(vec![(first_label(NamespaceName::DEFAULT), DataKey::new(bytes))])
    }

    /// Keys are added in order of their labels.
    pub(crate) fn add(&mut self, label: &str, bytes: [u8; 32]) {
        self.0.push((label.to_owned(), DataKey::new(bytes)));
    }

    pub(crate) fn newest(&self) -> &DataKey {
        &self.0.last().expect("a namespace has a data key from its first start").1
    }

    /// Opened with whichever key it was sealed with. The newest comes first.
    pub(crate) fn open(&self, sealed: &[u8], binding: &[u8]) -> Option<(Zeroizing<Vec<u8>>, Sealed)> {
        let mut keys = self.0.iter().rev();
        let newest = keys.next().and_then(|(_, key)| key.open(sealed, binding));
        if let Some(opened) = newest {
            return Some((opened, Sealed::WithNewest));
        }
        keys.find_map(|(_, key)| key.open(sealed, binding)).map(|opened| (opened, Sealed::WithFormer))
    }

    pub(crate) fn is_of(&self, stored: &[SealedKey], namespace: &str) -> bool {
        of_namespace(stored, namespace).map(|key| &key.label).eq(self.0.iter().map(|(label, _)| label))
    }

    /// These keys as they are in the store now. The root key is read only if there is one that is not known yet.
    pub(crate) fn updated(
        &self,
        stored: &[SealedKey],
        namespace: &str,
        source: &dyn RootKeySource,
    ) -> Result<Self, UnlockError> {
        let mut root_keys = None;
        let mut updated = Self::default();
        for key in of_namespace(stored, namespace) {
            if let Some(known) = self.0.iter().find(|(label, _)| *label == key.label) {
                updated.0.push(known.clone());
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
            updated.add(&key.label, opened);
            root_keys = Some(keys);
        }
        if updated.0.is_empty() {
            let label = first_label(namespace);
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
pub(crate) fn too_soon(known: &VaultKey, now: Timestamp) -> Option<Timestamp> {
    let again_at = made_at(&known.0.last()?.0)? + ROTATED_EVERY_MIN;
    (now < again_at).then_some(again_at)
}

/// Adds a data key, sealed with the root key that the others are sealed with.
pub(crate) async fn add(
    store: &dyn Store,
    source: &dyn RootKeySource,
    entropy: &Entropy,
    namespace: &str,
    now: Timestamp,
) -> Result<NewDataKey, UnlockError> {
    let stored = store.sealed_keys().await?;
    let Some(current) = stored.first().map(|key| key.root_key) else { return Ok(NewDataKey::Conflict) };
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
    let label = label(namespace, now);
    let sealed = root_key.seal(&label, &bytes, entropy);
    bytes.zeroize();
    let kept = store.keep_sealed_key(sealed?).await?;
    // All keys of a database are sealed with one root key, or the next rotation of that is refused.
    if store.sealed_keys().await?.iter().any(|key| key.root_key != kept.root_key) {
        store.drop_sealed_key(&kept.label).await?;
        return Ok(NewDataKey::Conflict);
    }
    Ok(NewDataKey::Made { label })
}

/// Removes the keys that are older than the newest of `known`. Nothing may be sealed with them.
pub(crate) async fn drop_former(store: &dyn Store, known: &VaultKey) -> Result<usize, UnlockError> {
    let former = known.0.len().saturating_sub(1);
    for (label, _) in &known.0[..former] {
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

    #[test]
    fn labels_are_in_order_of_time_and_of_one_namespace() {
        let first =
            SealedKey { label: first_label(NamespaceName::DEFAULT), root_key: RootKeyId([1; 8]), sealed: vec![] };
        let labels = [
            first_label(NamespaceName::DEFAULT),
            label(NamespaceName::DEFAULT, at(0)),
            label(NamespaceName::DEFAULT, at(100)),
        ];
        assert!(labels.is_sorted(), "{labels:?}");
        let others = [first_label("default2"), label("other", at(0)), "cluster".to_owned(), first_label("default/x")];
        let stored: Vec<SealedKey> =
            labels.iter().chain(&others).map(|label| SealedKey { label: label.clone(), ..first.clone() }).collect();
        let found: Vec<&str> = of_namespace(&stored, NamespaceName::DEFAULT).map(|key| key.label.as_str()).collect();
        assert_eq!(found, labels);
        assert_eq!(labels.each_ref().map(|label| made_at(label)), [None, Some(at(0)), Some(at(100))]);
    }

    #[tokio::test]
    async fn what_was_sealed_with_the_former_key_opens_until_that_is_dropped() {
        let (store, keys, entropy) = (store(), Keys::none(), entropy());
        let before = unlock(&store, &keys, &entropy).await.unwrap().vault;
        let old = before.newest().seal(b"value", b"place", &entropy).unwrap();
        let NewDataKey::Made { label } = add(&store, &keys, &entropy, NamespaceName::DEFAULT, at(0)).await.unwrap()
        else {
            panic!()
        };
        // Another server learns of it, and one that starts now knows both.
        let stored = store.sealed_keys().await.unwrap();
        assert!(!before.is_of(&stored, NamespaceName::DEFAULT));
        let updated = before.updated(&stored, NamespaceName::DEFAULT, &keys).unwrap();
        let started = unlock(&store, &keys, &entropy).await.unwrap().vault;
        for known in [&updated, &started] {
            assert!(known.is_of(&stored, NamespaceName::DEFAULT));
            assert_eq!(known.open(&old, b"place").unwrap().1, Sealed::WithFormer);
            let new = known.newest().seal(b"value", b"place", &entropy).unwrap();
            assert_eq!(known.open(&new, b"place").unwrap().1, Sealed::WithNewest);
            assert!(before.open(&new, b"place").is_none(), "the former key opens nothing that is sealed now");
        }
        assert_eq!(drop_former(&store, &updated).await.unwrap(), 1);
        let left = unlock(&store, &keys, &entropy).await.unwrap().vault;
        assert!(left.open(&old, b"place").is_none());
        assert_eq!(left.0.iter().map(|(label, _)| label).collect::<Vec<_>>(), [&label]);
    }

    #[tokio::test]
    async fn a_data_key_is_rotated_once_a_minute_and_beside_the_root_key() {
        let (store, keys, entropy) = (store(), Keys::none(), entropy());
        unlock(&store, &keys, &entropy).await.unwrap();
        let made = async |secs| add(&store, &keys, &entropy, NamespaceName::DEFAULT, at(secs)).await.unwrap();
        assert!(matches!(made(0).await, NewDataKey::Made { .. }));
        assert_eq!(made(59).await, NewDataKey::TooSoon { again_at: at(60) });
        rotate(&store, &keys, &entropy).await.unwrap();
        assert!(matches!(made(60).await, NewDataKey::Made { .. }));
        let stored = store.sealed_keys().await.unwrap();
        assert!(stored.iter().all(|key| key.root_key == stored[0].root_key), "one root key has sealed all of them");
        let known = unlock(&store, &keys, &entropy).await.unwrap().vault;
        assert_eq!((too_soon(&known, at(119)), too_soon(&known, at(120))), (Some(at(120)), None));
    }
}
