use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::future::join_all;
use punctual_core::Timestamp;
use punctual_store::ClusterSecret;
use punctual_store_tests::model::ModelStore;

use super::*;

/// Keys in memory.
pub(crate) struct Keys(Mutex<Option<RootKeys>>);

impl Keys {
    pub(crate) fn none() -> Self {
        Self(Mutex::new(None))
    }

    fn of(byte: u8) -> Self {
        Self(Mutex::new(Some(RootKeys(vec![RootKey::new([byte; 32])]))))
    }
}

impl RootKeySource for Keys {
    fn place(&self) -> String {
        "a test".to_owned()
    }

    fn read(&self) -> Result<Option<RootKeys>, String> {
        Ok(self.0.lock().unwrap().clone())
    }

    fn hold(&self) -> Result<Box<dyn Any + Send>, String> {
        Ok(Box::new(()))
    }

    fn replace(&self, keys: &RootKeys, _: Option<&RootKeys>) -> Result<Option<RootKeys>, String> {
        *self.0.lock().unwrap() = Some(keys.clone());
        Ok(Some(keys.clone()))
    }
}

/// Keys that a server can only read.
struct ReadOnly(Keys);

impl RootKeySource for ReadOnly {
    fn place(&self) -> String {
        "a variable".to_owned()
    }

    fn read(&self) -> Result<Option<RootKeys>, String> {
        self.0.read()
    }

    fn hold(&self) -> Result<Box<dyn Any + Send>, String> {
        Ok(Box::new(()))
    }

    fn replace(&self, _: &RootKeys, _: Option<&RootKeys>) -> Result<Option<RootKeys>, String> {
        Ok(None)
    }
}

pub(crate) fn entropy() -> Entropy {
    let next = AtomicU8::new(100);
    Arc::new(move || Ok([next.fetch_add(1, Ordering::Relaxed); 32]))
}

pub(crate) fn store() -> ModelStore {
    ModelStore::new(1, Timestamp::EPOCH)
}

#[tokio::test]
async fn a_new_database_gets_keys_that_open_again() {
    let (store, keys, entropy) = (store(), Keys::none(), entropy());
    let first = unlock(&store, &keys, &entropy).await.unwrap();
    let again = unlock(&store, &keys, &entropy).await.unwrap();
    assert_eq!((first.secrets.current, first.root_key), (again.secrets.current, again.root_key));
    assert_eq!(
        first.vault.newest(NamespaceId::DEFAULT).unwrap().bytes(),
        again.vault.newest(NamespaceId::DEFAULT).unwrap().bytes()
    );
    assert_ne!(first.secrets.current.0, first.vault.newest(NamespaceId::DEFAULT).unwrap().bytes());
    let stored = format!("{:?}", store.sealed_keys_now());
    assert!(!stored.contains(&format!("{:?}", first.secrets.current.0)), "it is not there in plain");
}

#[tokio::test]
async fn the_plain_secret_of_earlier_versions_is_sealed_and_stays_the_same() {
    let secret = ClusterSecret([9; 32]);
    let (store, entropy) = (store().with_plain_secret(secret), entropy());
    let keys = Keys::of(1);
    let unlocked = join_all((0..4).map(|_| unlock(&store, &keys, &entropy))).await;
    assert!(unlocked.into_iter().all(|unlocked| unlocked.unwrap().secrets.current == secret));
    assert_eq!(store.plain_cluster_secret_now(), None);
}

#[tokio::test]
async fn another_root_key_is_refused_and_changes_nothing() {
    let (store, entropy) = (store(), entropy());
    unlock(&store, &Keys::of(1), &entropy).await.unwrap();
    let before = store.sealed_keys_now();
    let none = Keys::none();
    for keys in [&Keys::of(2), &none] {
        let refused = unlock(&store, keys, &entropy).await.err().expect("it is refused");
        assert!(matches!(refused, UnlockError::Mismatch { .. }), "{refused}");
    }
    assert!(none.read().unwrap().is_none(), "no key is made for a database that has one");
    assert_eq!(store.sealed_keys_now(), before);
}

#[tokio::test]
async fn servers_that_start_at_once_with_keys_of_their_own_do_not_both_start() {
    let (store, entropy) = (store(), entropy());
    let keys: Vec<Keys> = (1..5).map(Keys::of).collect();
    let unlocked = join_all(keys.iter().map(|keys| unlock(&store, keys, &entropy))).await;
    assert_eq!(unlocked.iter().filter(|unlocked| unlocked.is_ok()).count(), 1);
}

#[tokio::test]
async fn a_sealed_key_that_was_changed_is_refused_and_not_replaced() {
    let (store, entropy) = (store(), entropy());
    let id = RootKey::new([1; 32]).id();
    let forged = SealedKey { label: CLUSTER_SECRET.to_owned(), root_key: id, sealed: vec![5; 72] };
    store.keep_sealed_key_now(forged.clone()).unwrap();
    let refused = unlock(&store, &Keys::of(1), &entropy).await.err().expect("it is refused");
    assert!(matches!(refused, UnlockError::Damaged { .. }), "{refused}");
    assert_eq!(store.sealed_keys_now(), [forged]);
}

#[test]
fn a_sealed_key_opens_under_its_own_label_and_root_key_alone() {
    let (one, other, entropy) = (RootKey::new([1; 32]), RootKey::new([2; 32]), entropy());
    let sealed = one.seal("a", &[7; 32], &entropy).unwrap();
    assert_eq!(one.open(&sealed), Some([7; 32]));
    assert_eq!(other.open(&sealed), None);
    assert_eq!(one.open(&SealedKey { label: "b".to_owned(), ..sealed.clone() }), None);
    for place in 0..sealed.sealed.len() {
        let mut changed = sealed.clone();
        changed.sealed[place] ^= 1;
        assert_eq!(one.open(&changed), None, "byte {place}");
    }
    assert_eq!(one.open(&SealedKey { sealed: vec![0; 23], ..sealed }), None);
}

#[tokio::test]
async fn a_rotation_seals_everything_with_a_new_key_and_servers_with_the_former_file_are_refused() {
    let (store, keys, entropy) = (store(), Keys::none(), entropy());
    let before = unlock(&store, &keys, &entropy).await.unwrap();
    let former = Keys(Mutex::new(keys.read().unwrap()));
    let Rotation::Done { former: was, current } = rotate(&store, &keys, &entropy).await.unwrap() else { panic!() };
    assert_eq!(was, before.root_key);
    assert!(store.sealed_keys_now().iter().all(|key| key.root_key == current));
    let after = unlock(&store, &keys, &entropy).await.unwrap();
    assert_eq!((after.secrets.current, after.root_key), (before.secrets.current, current));
    assert!(matches!(unlock(&store, &former, &entropy).await, Err(UnlockError::Mismatch { .. })));
    // The former key is still known, for a backup of the database.
    assert!(keys.read().unwrap().unwrap().get(was).is_some());
}

#[tokio::test]
async fn where_a_server_cannot_write_a_rotation_needs_a_new_first_key() {
    let (store, entropy) = (store(), entropy());
    let keys = ReadOnly(Keys::of(1));
    let current = unlock(&store, &keys, &entropy).await.unwrap().root_key;
    assert_eq!(rotate(&store, &keys, &entropy).await.unwrap(), Rotation::NoNewKey { current });
    *keys.0.0.lock().unwrap() = Some(RootKeys(vec![RootKey::new([2; 32]), RootKey::new([1; 32])]));
    // Both are known, so a server starts before and after.
    assert_eq!(unlock(&store, &keys, &entropy).await.unwrap().root_key, current);
    let Rotation::Done { current, .. } = rotate(&store, &keys, &entropy).await.unwrap() else { panic!() };
    assert_eq!(current, RootKey::new([2; 32]).id());
    assert_eq!(unlock(&store, &keys, &entropy).await.unwrap().root_key, current);
}

#[test]
fn keys_are_read_from_what_people_have() {
    let hexadecimal = "ab".repeat(32);
    let base64 = STANDARD.encode([0xab; 32]);
    for text in [
        hexadecimal.clone(),
        format!("{}\n", hexadecimal.to_uppercase()),
        format!("# made by hand\n\n {base64}  # today\n"),
        RootKey::new([0xab; 32]).to_line().to_string(),
    ] {
        assert_eq!(RootKeys::read(&text).unwrap().first().id(), RootKey::new([0xab; 32]).id(), "{text}");
    }
    for bad in
        ["", "# nothing", "s3cret", &hexadecimal[1..], &format!("{hexadecimal}ab"), &format!("{base64}\n").repeat(5)]
    {
        let refused = RootKeys::read(bad).unwrap_err();
        assert!(!refused.contains("s3cret") && !refused.contains("abab"), "{refused}");
    }
    assert!(!format!("{:?}", RootKeys::read(&hexadecimal)).contains("abab"));
}
