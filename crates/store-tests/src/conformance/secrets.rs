use std::collections::BTreeMap;

use futures_util::future::join_all;
use punctual_core::NamespaceId;
use punctual_core::run::Command;
use punctual_core::task::{Run, Task, TaskSpec};
use punctual_store::{CLUSTER_SECRET, RootKeyId, SECRETS_MAX, SealedKey, SecretChange, SecretRow, Store, TaskChange};

use crate::fixture::*;
use crate::schedule_fixture::by;

fn key(label: &str, root: u8, sealed: u8) -> SealedKey {
    SealedKey { label: label.to_owned(), root_key: RootKeyId([root; 8]), sealed: vec![sealed; 72] }
}

fn secret(name: &str, revision: u32, who: &str) -> SecretRow {
    SecretRow {
        namespace: NamespaceId::DEFAULT,
        name: name.to_owned(),
        revision,
        sealed: vec![0, revision as u8, 255],
        created: by(who, 10),
        changed: by(who, 10),
    }
}

fn task(n: u64, name: Option<&str>, secrets: &str) -> Task {
    let environment = BTreeMap::from([("SECRETS".to_owned(), secrets.to_owned())]);
    let spec = TaskSpec::new(Run::Command(Command { environment, ..Command::new("true") }));
    Task { name: name.map(str::to_owned), spec, ..named_task(n, "") }
}

pub(super) async fn the_first_sealed_key_of_a_label_is_everyones(store: &dyn Store) {
    assert_eq!(store.plain_cluster_secret().await.unwrap(), None);
    assert_eq!(store.sealed_keys().await.unwrap(), []);
    let (first, second) = (key(CLUSTER_SECRET, 1, 7), key(CLUSTER_SECRET, 2, 8));
    assert_eq!(store.keep_sealed_key(first.clone()).await.unwrap(), first);
    assert_eq!(store.keep_sealed_key(second).await.unwrap(), first);
    let other = key("another", 1, 9);
    assert_eq!(store.keep_sealed_key(other.clone()).await.unwrap(), other);
    assert_eq!(store.sealed_keys().await.unwrap(), [other, first]);
}

pub(super) async fn of_sealed_keys_that_are_kept_at_once_one_stays(store: &dyn Store) {
    let kept = join_all((1..9).map(|n| store.keep_sealed_key(key(CLUSTER_SECRET, n, n)))).await;
    let kept: Vec<SealedKey> = kept.into_iter().map(Result::unwrap).collect();
    assert!(kept.iter().all(|key| *key == kept[0]), "{kept:?}");
    assert_eq!(store.sealed_keys().await.unwrap(), [kept[0].clone()]);
}

pub(super) async fn keys_are_sealed_anew_all_at_once_or_not(store: &dyn Store) {
    for label in ["a", "b"] {
        store.keep_sealed_key(key(label, 1, 1)).await.unwrap();
    }
    let before = store.sealed_keys().await.unwrap();
    let rewrap = async |former: u8, keys: &[SealedKey]| store.rewrap_keys(RootKeyId([former; 8]), keys.to_vec()).await;
    let new = [key("a", 2, 2), key("b", 2, 3)];
    assert!(!rewrap(3, &new).await.unwrap(), "they are sealed with another");
    assert!(!rewrap(1, &new[..1]).await.unwrap(), "one would stay behind");
    assert!(!rewrap(1, &[new[0].clone(), key("c", 2, 3)]).await.unwrap(), "one is not there");
    assert_eq!(store.sealed_keys().await.unwrap(), before);
    assert!(rewrap(1, &new).await.unwrap());
    assert_eq!(store.sealed_keys().await.unwrap(), new);
    assert!(!rewrap(1, &new).await.unwrap(), "somebody was faster");
}

pub(super) async fn a_sealed_key_is_removed_alone(store: &dyn Store) {
    for label in ["a", "a/1", "b"] {
        store.keep_sealed_key(key(label, 1, 1)).await.unwrap();
    }
    assert!(store.drop_sealed_key("a").await.unwrap());
    assert!(!store.drop_sealed_key("a").await.unwrap(), "it is gone");
    assert_eq!(store.sealed_keys().await.unwrap(), [key("a/1", 1, 1), key("b", 1, 1)]);
    let others = [key("a/1", 2, 2), key("b", 2, 2)];
    assert!(
        store.rewrap_keys(RootKeyId([1; 8]), others.to_vec()).await.unwrap(),
        "the others are sealed anew without it"
    );
}

pub(super) async fn a_secret_reads_back_as_it_was_put(store: &dyn Store) {
    let first = secret("db.password-1", 1, "ana");
    assert_eq!(store.put_secret(first.clone()).await.unwrap(), SecretChange::Done);
    assert_eq!(store.put_secret(secret("another", 1, "ana")).await.unwrap(), SecretChange::Done);
    assert_eq!(store.secrets(NamespaceId(1)).await.unwrap(), []);
    assert_eq!(store.secrets(NamespaceId::DEFAULT).await.unwrap(), [secret("another", 1, "ana"), first.clone()]);
    let named = store.secrets_by_name(NamespaceId::DEFAULT, vec!["gone".to_owned(), first.name.clone()]).await.unwrap();
    assert_eq!(named, [first]);
    // Who created it stays.
    let second = SecretRow { changed: by("bob", 20), ..secret("db.password-1", 2, "bob") };
    assert_eq!(store.put_secret(second.clone()).await.unwrap(), SecretChange::Done);
    let expected = SecretRow { created: by("ana", 10), ..second };
    assert_eq!(store.secrets(NamespaceId::DEFAULT).await.unwrap()[1], expected);
    assert!(store.delete_secret(NamespaceId::DEFAULT, "another").await.unwrap());
    assert!(!store.delete_secret(NamespaceId::DEFAULT, "another").await.unwrap());
    assert!(!store.delete_secret(NamespaceId(1), "db.password-1").await.unwrap());
    assert_eq!(store.secrets(NamespaceId::DEFAULT).await.unwrap(), [expected]);
}

pub(super) async fn a_secret_is_changed_from_the_revision_before(store: &dyn Store) {
    let put = async |revision| store.put_secret(secret("a", revision, "ana")).await.unwrap();
    assert_eq!(put(2).await, SecretChange::Conflict { revision: 0 });
    assert_eq!(put(1).await, SecretChange::Done);
    assert_eq!(put(1).await, SecretChange::Conflict { revision: 1 });
    let answers = join_all((0..8).map(|_| put(2))).await;
    assert_eq!(answers.iter().filter(|answer| **answer == SecretChange::Done).count(), 1, "{answers:?}");
}

pub(super) async fn there_are_only_so_many_secrets(store: &dyn Store) {
    for n in 0..SECRETS_MAX {
        assert_eq!(store.put_secret(secret(&format!("s{n}"), 1, "ana")).await.unwrap(), SecretChange::Done);
    }
    assert_eq!(store.put_secret(secret("more", 1, "ana")).await.unwrap(), SecretChange::Full);
    assert_eq!(store.put_secret(secret("s1", 2, "ana")).await.unwrap(), SecretChange::Done);
    let elsewhere = SecretRow { namespace: NamespaceId(1), ..secret("more", 1, "ana") };
    assert_eq!(store.put_secret(elsewhere).await.unwrap(), SecretChange::Done);
}

pub(super) async fn tasks_that_refer_to_a_secret_are_known(store: &dyn Store) {
    let users = async |name: &str, now: i64| {
        let mut users = store.tasks_with_secret(NamespaceId::DEFAULT, name, at(now), 10).await.unwrap();
        users.sort_unstable();
        users
    };
    let both = task(1, Some("both"), "{{ secret.a }} {{ secret.b }}");
    assert_eq!(store.create_task(both.clone()).await.unwrap(), TaskChange::Done);
    assert_eq!(store.create_task(task(2, Some("one"), "{{secret.b}}")).await.unwrap(), TaskChange::Done);
    assert_eq!(store.create_task(task(3, Some("none"), "secret.b")).await.unwrap(), TaskChange::Done);
    assert_eq!(users("a", 0).await, ["both"]);
    assert_eq!(users("b", 0).await, ["both", "one"]);
    assert_eq!(users("c", 0).await, Vec::<String>::new());
    assert_eq!(store.tasks_with_secret(NamespaceId::DEFAULT, "b", at(0), 1).await.unwrap().len(), 1);
    let uses = async || store.secret_uses(NamespaceId::DEFAULT).await.unwrap();
    assert_eq!(uses().await, [("a".to_owned(), 1), ("b".to_owned(), 2)]);
    // A change takes its former references with it, and so does its end.
    let edited = Task { revision: 2, ..task(1, Some("both"), "{{ secret.c }}") };
    assert_eq!(store.update_task(edited).await.unwrap(), TaskChange::Done);
    assert_eq!((users("a", 0).await, users("c", 0).await), (vec![], vec!["both".to_owned()]));
    assert_eq!(store.delete_task(both.id, None).await.unwrap(), TaskChange::Done);
    assert_eq!(users("c", 0).await, Vec::<String>::new());
    assert_eq!(uses().await, [("b".to_owned(), 1)]);
}

pub(super) async fn a_one_off_refers_to_its_secret_until_its_time_is_over(store: &dyn Store) {
    let one_off = task(4, None, "{{ secret.a }}");
    let shown = one_off.id.to_string();
    store.intern_tasks(vec![(one_off.clone(), [4; 32])]).await.unwrap();
    let created = one_off.created_at;
    let users = async |now| store.tasks_with_secret(NamespaceId::DEFAULT, "a", now, 10).await.unwrap();
    assert_eq!(users(created).await, [shown]);
    assert_eq!(users(created + punctual_core::Span::from_secs(3 * 86_400)).await, Vec::<String>::new());
}
