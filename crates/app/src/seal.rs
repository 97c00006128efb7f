//! Root keys, and what is sealed with them: the cluster's secret, and one data key for the secrets of each namespace.
//!
//! A database holds sealed keys and the name of the root key that opens them. A server that does not have this root key does
//! not start. It never makes new keys in place of those that it cannot open.

use std::any::Any;
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use hmac::{Hmac, Mac};
use punctual_core::hex;
use punctual_core::namespace::NamespaceId;
use punctual_store::{CLUSTER_SECRET, RootKeyId, SealedKey, Store, StoreError, data_key_label};
use sha2::Sha256;
use zeroize::{Zeroize, Zeroizing};

use crate::cluster_keys::{self, OpenedSecrets};
use crate::data_keys::{self, VaultKeys};
use crate::sealing::{DataKey, Entropy, NoRandomness};

/// Keys that are known at a time: the one in use, and former ones for backups of the database.
const ROOT_KEYS_MAX: usize = 4;
/// What a line of a file of root keys begins with that Punctual wrote.
const MARK: &str = "punctual-root-key-1:";

/// 256 bits that open what is sealed. Not in the database, a log, or an answer.
#[derive(Clone)]
pub struct RootKey {
    id: RootKeyId,
    wrapping: DataKey,
    bytes: Zeroizing<[u8; 32]>,
}

impl RootKey {
    pub fn new(bytes: [u8; 32]) -> Self {
        let mut id = [0; 8];
        id.copy_from_slice(&derive(&bytes, b"punctual root key id 1")[..8]);
        let wrapping = DataKey::new(derive(&bytes, b"punctual root key wrapping 1"));
        Self { id: RootKeyId(id), wrapping, bytes: Zeroizing::new(bytes) }
    }

    pub fn id(&self) -> RootKeyId {
        self.id
    }

    /// The line of a file that holds it.
    pub fn to_line(&self) -> Zeroizing<String> {
        Zeroizing::new(format!("{MARK}{}\n", hex::encode(*self.bytes)))
    }

    pub(crate) fn seal(&self, label: &str, key: &[u8; 32], entropy: &Entropy) -> Result<SealedKey, NoRandomness> {
        let sealed = self.wrapping.seal(key, &binding(label, self.id), entropy)?;
        Ok(SealedKey { label: label.to_owned(), root_key: self.id, sealed })
    }

    pub(crate) fn open(&self, key: &SealedKey) -> Option<[u8; 32]> {
        let opened = self.wrapping.open(&key.sealed, &binding(&key.label, self.id))?;
        opened.as_slice().try_into().ok()
    }
}

impl fmt::Debug for RootKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RootKey({})", self.id)
    }
}

/// What a sealed key is bound to: it opens under no other label and no other root key.
fn binding(label: &str, root_key: RootKeyId) -> Vec<u8> {
    [b"punctual sealed key 1\0", label.as_bytes(), b"\0", &root_key.0].concat()
}

fn derive(key: &[u8], label: &[u8]) -> [u8; 32] {
    let mut mac = <Hmac<Sha256> as Mac>::new_from_slice(key).expect("a key may have any length");
    mac.update(label);
    mac.finalize().into_bytes().into()
}

/// The root keys that a server knows. New keys are sealed with the first.
#[derive(Debug, Clone)]
pub struct RootKeys(Vec<RootKey>);

impl RootKeys {
    /// A key that was just made, before those that there were.
    #[must_use]
    pub fn with_new(new: RootKey, former: Option<&Self>) -> Self {
        let former = former.map(|former| &former.0[..]).unwrap_or_default();
        Self(std::iter::once(&new).chain(former).take(ROOT_KEYS_MAX).cloned().collect())
    }

    /// Reads keys, one a line: 64 hexadecimal digits, or 32 bytes in base64. `#` begins a comment. The error does not repeat
    /// what was read.
    pub fn read(text: &str) -> Result<Self, String> {
        let mut keys: Vec<RootKey> = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let mut bytes = read_key(line).ok_or_else(|| {
                format!("line {number} is no key: a key is 64 hexadecimal digits or 32 bytes in base64")
            })?;
            if keys.len() == ROOT_KEYS_MAX {
                return Err(format!("there are more than {ROOT_KEYS_MAX} keys"));
            }
            keys.push(RootKey::new(bytes));
            bytes.zeroize();
        }
        if keys.is_empty() {
            return Err("there is no key".to_owned());
        }
        Ok(Self(keys))
    }

    /// As a file.
    pub fn to_text(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(String::new());
        self.0.iter().for_each(|key| text.push_str(&key.to_line()));
        text
    }

    pub fn first(&self) -> &RootKey {
        &self.0[0]
    }

    pub fn get(&self, id: RootKeyId) -> Option<&RootKey> {
        self.0.iter().find(|key| key.id == id)
    }

    /// What a sealed key of a database is, if one of these keys has sealed it.
    pub fn open(&self, key: &SealedKey) -> Option<Zeroizing<[u8; 32]>> {
        self.get(key.root_key)?.open(key).map(Zeroizing::new)
    }

    pub fn ids(&self) -> String {
        self.0.iter().map(|key| key.id.to_string()).collect::<Vec<_>>().join(", ")
    }
}

fn read_key(line: &str) -> Option<[u8; 32]> {
    let text = line.strip_prefix(MARK).unwrap_or(line).trim();
    if let Some(bytes) = hex::decode::<32>(&text.to_ascii_lowercase()) {
        return Some(bytes);
    }
    let alphabets = [STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD];
    let decoded = alphabets.iter().find_map(|alphabet| alphabet.decode(text).ok()).map(Zeroizing::new)?;
    decoded.as_slice().try_into().ok()
}

/// Where a server has its root keys from.
pub trait RootKeySource: Send + Sync + 'static {
    /// For people, such as the path of a file.
    fn place(&self) -> String;

    /// The keys as they are there now; `None` if there is nothing yet, and a key may be made there.
    fn read(&self) -> Result<Option<RootKeys>, String>;

    /// Keeps other servers from rotating the same keys until the answer is dropped.
    fn hold(&self) -> Result<Box<dyn Any + Send>, String>;

    /// Keeps keys in place of those that there were, and answers what is there then: somebody else may have been faster to
    /// make the first. `Ok(None)` where a server cannot write.
    fn replace(&self, keys: &RootKeys, former: Option<&RootKeys>) -> Result<Option<RootKeys>, String>;
}

/// Why the keys of a database could not be opened. Nothing was changed in it.
#[derive(Debug, thiserror::Error)]
pub enum UnlockError {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The keys cannot be read, or made.
    #[error("cannot use the root key of {place}: {reason}")]
    Source { place: String, reason: String },
    /// They are others than the database's.
    #[error("the database is sealed with root key {wanted}, and {place} has {found}")]
    Mismatch { place: String, wanted: RootKeyId, found: String },
    #[error("the database holds a key `{label}` that root key {root_key} does not open: the database was changed")]
    Damaged { label: String, root_key: RootKeyId },
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
}

/// What a server needs of the keys of its database.
pub struct Unlocked {
    pub secrets: OpenedSecrets,
    /// The root key that they are sealed with.
    pub root_key: RootKeyId,
    pub vault: VaultKeys,
}

/// Opens the keys of a database, and makes those that it does not have yet. Several servers may do so at once.
pub async fn unlock(store: &dyn Store, source: &dyn RootKeySource, entropy: &Entropy) -> Result<Unlocked, UnlockError> {
    let keys = root_keys(store, source, entropy).await?;
    // The plain secret is read first: whoever seals it removes it in the same transaction.
    let plain = store.plain_cluster_secret().await?;
    open_or_make(store, source, &keys, CLUSTER_SECRET, plain.map(|plain| plain.0), entropy).await?;
    let (state, mut stored) = cluster_keys::read_secrets(store).await?;
    let secrets = OpenedSecrets::open(state, &stored, |key| open(source, &keys, key))?;
    if data_keys::of_namespace(&stored, NamespaceId::DEFAULT).next().is_none() {
        open_or_make(store, source, &keys, &data_key_label(NamespaceId::DEFAULT), None, entropy).await?;
        stored = store.sealed_keys().await?;
    }
    let vault = VaultKeys::opened(&stored, |key| open(source, &keys, key))?;
    let root_key = stored.first().map_or(keys.first().id, |key| key.root_key);
    Ok(Unlocked { secrets, root_key, vault })
}

/// Those of the source. A first one is made only for a database that has nothing sealed.
async fn root_keys(store: &dyn Store, source: &dyn RootKeySource, entropy: &Entropy) -> Result<RootKeys, UnlockError> {
    let failed = |reason: String| UnlockError::Source { place: source.place(), reason };
    let stored = store.sealed_keys().await?;
    if let Some(keys) = source.read().map_err(failed)? {
        // A key that is missing is named before anything is sealed with another.
        return match stored.iter().find(|key| keys.get(key.root_key).is_none()) {
            Some(key) => Err(mismatch(source, key.root_key, keys.ids())),
            None => Ok(keys),
        };
    }
    match stored.first() {
        Some(key) => Err(mismatch(source, key.root_key, "none".to_owned())),
        None => {
            let made = RootKeys::with_new(RootKey::new(entropy()?), None);
            let kept = source.replace(&made, None).map_err(failed)?;
            kept.ok_or_else(|| failed("there is no key".to_owned()))
        }
    }
}

fn mismatch(source: &dyn RootKeySource, wanted: RootKeyId, found: String) -> UnlockError {
    UnlockError::Mismatch { place: source.place(), wanted, found }
}

async fn open_or_make(
    store: &dyn Store,
    source: &dyn RootKeySource,
    keys: &RootKeys,
    label: &str,
    plain: Option<[u8; 32]>,
    entropy: &Entropy,
) -> Result<[u8; 32], UnlockError> {
    let stored = store.sealed_keys().await?.into_iter().find(|key| key.label == label);
    let stored = match stored {
        Some(stored) => stored,
        None => {
            let mut new = plain.map_or_else(|| entropy(), Ok)?;
            // All keys of a database are sealed with one root key.
            let with =
                store.sealed_keys().await?.first().and_then(|key| keys.get(key.root_key)).unwrap_or(keys.first());
            let sealed = with.seal(label, &new, entropy)?;
            new.zeroize();
            store.keep_sealed_key(sealed).await?
        }
    };
    // Another server may have been faster, with a root key of its own.
    open(source, keys, &stored)
}

fn open(source: &dyn RootKeySource, keys: &RootKeys, key: &SealedKey) -> Result<[u8; 32], UnlockError> {
    let root_key = keys.get(key.root_key).ok_or_else(|| mismatch(source, key.root_key, keys.ids()))?;
    let damaged = || UnlockError::Damaged { label: key.label.clone(), root_key: key.root_key };
    root_key.open(key).ok_or_else(damaged)
}

/// What became of a rotation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Rotation {
    Done {
        former: RootKeyId,
        current: RootKeyId,
    },
    /// The first key is the one in use already, and this server cannot make another where its keys are.
    NoNewKey {
        current: RootKeyId,
    },
    /// Others rotated at the same time.
    Conflict,
}

/// Seals all keys of the database with the first root key of the source. If that is the one in use, a new one is made and kept
/// first; the former stays behind it, for other servers' files and for backups.
pub(crate) async fn rotate(
    store: &dyn Store,
    source: &dyn RootKeySource,
    entropy: &Entropy,
) -> Result<Rotation, UnlockError> {
    let failed = |reason: String| UnlockError::Source { place: source.place(), reason };
    let _held = source.hold().map_err(failed)?;
    let mut keys = source.read().map_err(failed)?.ok_or_else(|| failed("there is no key".to_owned()))?;
    let stored = store.sealed_keys().await?;
    let Some(former) = stored.first().map(|key| key.root_key) else { return Ok(Rotation::Conflict) };
    if keys.first().id == former {
        let made = RootKeys::with_new(RootKey::new(entropy()?), Some(&keys));
        match source.replace(&made, Some(&keys)).map_err(failed)? {
            // A key that is not kept must not seal anything.
            Some(kept) if kept.first().id == made.first().id => keys = kept,
            Some(_) => return Ok(Rotation::Conflict),
            None => return Ok(Rotation::NoNewKey { current: former }),
        }
    }
    let known = keys.get(former).ok_or_else(|| mismatch(source, former, keys.ids()))?;
    let new = keys.first();
    let mut sealed = Vec::with_capacity(stored.len());
    for key in &stored {
        let damaged = || UnlockError::Damaged { label: key.label.clone(), root_key: key.root_key };
        let mut opened = known.open(key).ok_or_else(damaged)?;
        sealed.push(new.seal(&key.label, &opened, entropy)?);
        opened.zeroize();
    }
    Ok(match store.rewrap_keys(former, sealed).await? {
        true => Rotation::Done { former, current: new.id },
        false => Rotation::Conflict,
    })
}

#[cfg(test)]
#[path = "seal_tests.rs"]
pub(crate) mod tests;
