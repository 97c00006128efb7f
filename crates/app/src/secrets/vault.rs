//! Seals and opens values, and remembers for a moment what the store said of each.

use std::any::Any;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use punctual_core::namespace::{NamespaceId, NamespaceName};
use punctual_core::schedule::By;
use punctual_core::secret::SecretValue;
use punctual_core::{Span, Timestamp};
use punctual_store::SecretRow;
use zeroize::Zeroizing;

use crate::data_keys::{Sealed, VaultKeys};
use crate::seal::{RootKeySource, RootKeys};
use crate::sealing::{DataKey, Entropy, NoRandomness};

/// Another server may have changed a secret: what was read is believed for this long.
const BELIEVED: Span = Span::from_secs(1);
/// What was read last is used for this long while the database cannot be reached.
const USED_WITHOUT_DATABASE: Span = Span::from_secs(60);
/// Beyond this the memory starts anew. More secrets than a namespace can have.
const KNOWN_MAX: usize = 2000;

/// What an app needs to keep secrets.
pub struct VaultParts {
    pub key: VaultKeys,
    pub entropy: Entropy,
    pub root_keys: Arc<dyn RootKeySource>,
}

impl VaultParts {
    /// With a key that everybody knows, and no root key.
    pub fn for_tests() -> Self {
        struct NoRootKey;
        impl RootKeySource for NoRootKey {
            fn place(&self) -> String {
                "nowhere".to_owned()
            }
            fn read(&self) -> Result<Option<RootKeys>, String> {
                Ok(None)
            }
            fn hold(&self) -> Result<Box<dyn Any + Send>, String> {
                Ok(Box::new(()))
            }
            fn replace(&self, _: &RootKeys, _: Option<&RootKeys>) -> Result<Option<RootKeys>, String> {
                Ok(None)
            }
        }
        let next = AtomicU64::new(0);
        let entropy = move || {
            let mut bytes = [0; 32];
            bytes[..8].copy_from_slice(&next.fetch_add(1, Ordering::Relaxed).to_be_bytes());
            Ok(bytes)
        };
        Self { key: VaultKeys::new([1; 32]), entropy: Arc::new(entropy), root_keys: Arc::new(NoRootKey) }
    }
}

struct Known {
    row: Option<Arc<SecretRow>>,
    read_at: Timestamp,
}

pub(crate) struct Vault {
    keys: RwLock<VaultKeys>,
    entropy: Entropy,
    known: Mutex<HashMap<(NamespaceId, String), Known>>,
    /// When it was last looked whether there are other keys, because a value did not open.
    looked_at: Mutex<Option<Timestamp>>,
    /// One rotation at a time.
    pub(super) rotating: tokio::sync::Mutex<()>,
}

/// What is remembered of a secret.
pub(super) enum Memory {
    /// `None`: there is no such secret.
    Fresh(Option<Arc<SecretRow>>),
    /// Only to be used if the store cannot be asked.
    Old(Option<Arc<SecretRow>>),
    Nothing,
}

impl Vault {
    pub(crate) fn new(key: VaultKeys, entropy: Entropy) -> Self {
        Self {
            keys: RwLock::new(key),
            entropy,
            known: Mutex::default(),
            looked_at: Mutex::default(),
            rotating: tokio::sync::Mutex::default(),
        }
    }

    pub(crate) fn entropy(&self) -> &Entropy {
        &self.entropy
    }

    pub(super) fn keys(&self) -> RwLockReadGuard<'_, VaultKeys> {
        self.keys.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn replace_keys(&self, keys: VaultKeys) {
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = keys;
    }

    /// Whether it is time to look for other keys. Somebody who changes rows in the database must not make servers read their
    /// root key for each attempt.
    pub(super) fn may_look(&self, now: Timestamp) -> bool {
        let mut looked_at = self.looked_at.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = looked_at.is_none_or(|at| now < at || now.since(at) >= BELIEVED);
        if is_due {
            *looked_at = Some(now);
        }
        is_due
    }

    /// Forgets the keys of namespaces that are gone.
    pub(crate) fn keep_keys(&self, is_there: impl Fn(NamespaceId) -> bool) {
        if self.keys().namespaces().any(|namespace| !namespace.is_default() && !is_there(namespace)) {
            self.keys.write().unwrap_or_else(PoisonError::into_inner).keep(is_there);
        }
    }

    /// `key` is one of the namespace.
    pub(super) fn seal(
        &self,
        key: &DataKey,
        namespace: NamespaceId,
        name: &str,
        revision: u32,
        value: &[u8],
        changed: By,
    ) -> Result<SecretRow, NoRandomness> {
        let binding = binding(namespace, name, revision);
        let sealed = key.seal(value, &binding, &self.entropy)?;
        Ok(SecretRow { namespace, name: name.to_owned(), revision, sealed, created: changed.clone(), changed })
    }

    /// `None` if it was changed in the database, or sealed with another key.
    pub(super) fn open(&self, row: &SecretRow) -> Option<SecretValue> {
        let (opened, _) = self.unseal(row)?;
        std::str::from_utf8(&opened).ok().map(SecretValue::new)
    }

    /// The value, and whether it was sealed with the key in use.
    pub(super) fn unseal(&self, row: &SecretRow) -> Option<(Zeroizing<Vec<u8>>, Sealed)> {
        self.keys().open(row.namespace, &row.sealed, &binding(row.namespace, &row.name, row.revision))
    }

    pub(super) fn recall(&self, namespace: NamespaceId, name: &str, now: Timestamp) -> Memory {
        let known = self.known();
        let Some(Known { row, read_at }) = known.get(&(namespace, name.to_owned())) else { return Memory::Nothing };
        // Read in the future: the clock went back.
        match now.since(*read_at) {
            _ if *read_at > now => Memory::Nothing,
            age if age <= BELIEVED => Memory::Fresh(row.clone()),
            age if age <= USED_WITHOUT_DATABASE => Memory::Old(row.clone()),
            _ => Memory::Nothing,
        }
    }

    pub(super) fn remember(&self, namespace: NamespaceId, name: &str, row: Option<Arc<SecretRow>>, read_at: Timestamp) {
        let mut known = self.known();
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert((namespace, name.to_owned()), Known { row, read_at });
    }

    pub(super) fn forget(&self, namespace: NamespaceId, name: &str) {
        self.known().remove(&(namespace, name.to_owned()));
    }

    fn known(&self) -> MutexGuard<'_, HashMap<(NamespaceId, String), Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a value is bound to: it opens as nothing else. The default namespace goes by its name, as before there were others, and
/// those by their numbers, which no other has after them.
fn binding(namespace: NamespaceId, name: &str, revision: u32) -> Vec<u8> {
    let namespace =
        if namespace.is_default() { NamespaceName::DEFAULT.to_owned() } else { format!("#{}", namespace.0) };
    format!("punctual secret 1|{namespace}|{name}|{revision}").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vault(key: u8) -> Vault {
        Vault::new(VaultKeys::new([key; 32]), VaultParts::for_tests().entropy)
    }

    fn by() -> By {
        By { at: Timestamp::EPOCH, who: "ana".to_owned() }
    }

    #[test]
    fn a_value_opens_as_the_secret_and_revision_that_it_is_of() {
        let (vault, another) = (vault(1), vault(2));
        let key = vault.keys().newest(NamespaceId::DEFAULT).unwrap().clone();
        let row = vault.seal(&key, NamespaceId::DEFAULT, "db", 3, b"s3cret", by()).unwrap();
        assert!(!row.sealed.windows(6).any(|bytes| bytes == b"s3cret"));
        assert_eq!(vault.open(&row).unwrap().expose(), "s3cret");
        let again = vault.seal(&key, NamespaceId::DEFAULT, "db", 3, b"s3cret", by()).unwrap();
        assert_ne!(again.sealed, row.sealed, "a nonce is used once");
        for other in [
            SecretRow { name: "other".to_owned(), ..row.clone() },
            SecretRow { namespace: NamespaceId(1), ..row.clone() },
            SecretRow { revision: 2, ..row.clone() },
            SecretRow { sealed: row.sealed[1..].to_vec(), ..row.clone() },
        ] {
            assert!(vault.open(&other).is_none(), "{other:?}");
        }
        assert!(another.open(&row).is_none(), "another key");
    }

    #[test]
    fn what_was_read_is_believed_for_a_second_and_used_for_a_minute_without_the_database() {
        let vault = vault(1);
        let at = |secs| Timestamp::EPOCH + Span::from_secs(secs);
        assert!(matches!(vault.recall(NamespaceId::DEFAULT, "db", at(0)), Memory::Nothing));
        vault.remember(NamespaceId::DEFAULT, "db", None, at(10));
        assert!(matches!(vault.recall(NamespaceId::DEFAULT, "db", at(11)), Memory::Fresh(None)));
        assert!(matches!(vault.recall(NamespaceId::DEFAULT, "db", at(12)), Memory::Old(None)));
        assert!(matches!(vault.recall(NamespaceId::DEFAULT, "db", at(71)), Memory::Nothing));
        assert!(matches!(vault.recall(NamespaceId::DEFAULT, "db", at(9)), Memory::Nothing), "the clock went back");
        vault.forget(NamespaceId::DEFAULT, "db");
        assert!(matches!(vault.recall(NamespaceId::DEFAULT, "db", at(10)), Memory::Nothing));
    }
}
