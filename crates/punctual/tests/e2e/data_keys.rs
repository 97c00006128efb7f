//! Each namespace has a data key of its own: it alone opens the namespace's secrets, and it goes with the namespace.

use std::collections::BTreeMap;

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use punctual_api::{DataKeyQuery, JobRequest, NamespaceRequest, SecretQuery};
use punctual_app::RootKeys;
use punctual_client::{Client, IfMatch};
use punctual_core::task::{Probe, Run, TaskSpec};
use punctual_store::{RootKeyId, SealedKey};
use rusqlite::Connection;

use crate::harness::{Home, Server, eventually};

const VALUE: &str = "a value of a tenant";
const NAMESPACES: [&str; 3] = ["default", "team-a", "team-b"];

fn client_in(server: &Server, namespace: &str) -> Client {
    server.client().in_namespace(Some(namespace))
}

async fn namespace(server: &Server, name: &str) {
    let request = NamespaceRequest { name: name.to_owned(), ..NamespaceRequest::default() };
    server.client().create_namespace(&request).await.expect("a namespace");
}

async fn rotate(server: &Server, namespace: Option<&str>) -> BTreeMap<String, u64> {
    let query = DataKeyQuery { namespace: namespace.map(str::to_owned) };
    let rotated = server.client().rotate_data_key(&query).await.expect("the data key is rotated");
    rotated.namespaces.into_iter().map(|namespace| (namespace.namespace, namespace.resealed)).collect()
}

/// Runs a job that prints its secret, which shows that its worker had it.
async fn uses_its_secret(server: &Server, namespace: &str) {
    let client = client_in(server, namespace);
    let probe = Probe { output: Some("<{{ secret.db }}>".to_owned()), ..Probe::default() };
    let request = JobRequest { inline: Some(TaskSpec::new(Run::Probe(probe))), ..JobRequest::default() };
    let id = client.submit(&request).await.expect("a job").id;
    eventually("the job has run with its secret", || async {
        format!("{:?}", client.job(id).await.expect("the job")).contains("<[secret db]>")
    })
    .await;
}

/// The database of a server, which may run.
struct Database {
    conn: Connection,
    root_keys: RootKeys,
}

impl Database {
    fn open(home: &Home) -> Self {
        let conn = Connection::open(home.file("data/punctual.db")).expect("the database");
        let root_keys = std::fs::read_to_string(home.file("data/root.key")).expect("the root key");
        Self { conn, root_keys: RootKeys::read(&root_keys).expect("a root key") }
    }

    /// The data keys, by label.
    fn keys(&self) -> BTreeMap<String, [u8; 32]> {
        let sql = "SELECT label, root_key, sealed FROM sealed_key WHERE label <> 'cluster'";
        let mut statement = self.conn.prepare(sql).expect("a query");
        let read = |row: &rusqlite::Row<'_>| {
            Ok(SealedKey { label: row.get(0)?, root_key: RootKeyId(row.get(1)?), sealed: row.get(2)? })
        };
        let keys = statement.query_map([], read).expect("the keys").map(|key| key.expect("a key"));
        keys.map(|key| (key.label.clone(), *self.root_keys.open(&key).expect("it opens"))).collect()
    }

    fn labels(&self) -> Vec<String> {
        self.keys().into_keys().collect()
    }

    /// The secret of a namespace: its revision and what is stored.
    fn secret(&self, namespace: u32) -> (u32, Vec<u8>) {
        let sql = "SELECT revision, sealed FROM secret WHERE namespace = ?1 AND name = 'db'";
        self.conn.query_row(sql, [namespace], |row| Ok((row.get(0)?, row.get(1)?))).expect("the secret")
    }

    /// The labels of the keys that open a secret.
    fn opened_by(&self, namespace: u32) -> Vec<String> {
        let (revision, sealed) = self.secret(namespace);
        let opens = |key: &[u8; 32]| open(key, &sealed, namespace, revision).is_some();
        self.keys().into_iter().filter(|(_, key)| opens(key)).map(|(label, _)| label).collect()
    }
}

/// As all versions write it down.
fn binding(namespace: u32, revision: u32) -> String {
    let namespace = if namespace == 0 { "default".to_owned() } else { format!("#{namespace}") };
    format!("punctual secret 1|{namespace}|db|{revision}")
}

fn open(key: &[u8; 32], sealed: &[u8], namespace: u32, revision: u32) -> Option<Vec<u8>> {
    let (nonce, sealed) = sealed.split_first_chunk::<24>()?;
    let aad = binding(namespace, revision);
    let payload = Payload { msg: sealed, aad: aad.as_bytes() };
    XChaCha20Poly1305::new(&Key::from(*key)).decrypt(&XNonce::from(*nonce), payload).ok()
}

fn seal(key: &[u8; 32], namespace: u32, revision: u32) -> Vec<u8> {
    let nonce = [7; 24];
    let aad = binding(namespace, revision);
    let payload = Payload { msg: VALUE.as_bytes(), aad: aad.as_bytes() };
    let sealed = XChaCha20Poly1305::new(&Key::from(*key)).encrypt(&XNonce::from(nonce), payload).expect("it is short");
    [&nonce[..], &sealed].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_key_of_a_namespace_opens_its_secrets_alone_and_is_rotated_and_deleted_with_it() {
    let home = Home::new();
    let server = home.server();
    let _worker = home.worker(&server, &[]);
    for name in &NAMESPACES[1..] {
        namespace(&server, name).await;
    }
    let database = Database::open(&home);
    assert_eq!(database.labels(), ["namespace/default"], "the others have nothing to seal");
    for name in NAMESPACES {
        client_in(&server, name).put_secret("db", VALUE.as_bytes().to_vec()).await.expect("a secret");
        uses_its_secret(&server, name).await;
    }
    assert_eq!(database.labels(), ["namespace/#1", "namespace/#2", "namespace/default"]);
    for (number, label) in [(0, "namespace/default"), (1, "namespace/#1"), (2, "namespace/#2")] {
        assert_eq!(database.opened_by(number), [label]);
    }

    assert_eq!(rotate(&server, Some("team-a")).await, BTreeMap::from([("team-a".to_owned(), 1)]));
    let labels = database.labels();
    assert!(labels.len() == 4 && labels[1].starts_with("namespace/#1/"), "{labels:?}");
    assert_eq!(database.opened_by(1), [labels[1].as_str()]);
    assert_eq!([0, 1, 2].map(|number| database.secret(number).0), [1, 2, 1], "the others stay as they are");
    let again = DataKeyQuery { namespace: Some("team-a".to_owned()) };
    let refused = server.client().rotate_data_key(&again).await.expect_err("it was a moment ago").to_string();
    assert!(refused.contains("less than"), "{refused}");
    let unknown = DataKeyQuery { namespace: Some("team-c".to_owned()) };
    assert!(server.client().rotate_data_key(&unknown).await.is_err(), "there is no such namespace");

    // All others, as that of team-a is young.
    let others = BTreeMap::from([("default".to_owned(), 1), ("team-b".to_owned(), 1)]);
    assert_eq!(rotate(&server, None).await, others);
    for name in NAMESPACES {
        uses_its_secret(&server, name).await;
    }
    server.client().rotate_root_key().await.expect("the root key is rotated");
    uses_its_secret(&server, "team-a").await;

    // What is left of the namespace in a copy of its secrets opens with no key.
    let database = Database::open(&home);
    let (revision, copy) = database.secret(1);
    let client = client_in(&server, "team-a");
    eventually("nothing is left in the namespace", || async {
        let _ = client.delete_secret("db", &SecretQuery { force: Some("true".to_owned()) }).await;
        server.client().delete_namespace("team-a", IfMatch::Any).await.is_ok()
    })
    .await;
    let left = database.labels();
    assert!(left.len() == 4 && left.iter().all(|label| !label.starts_with("namespace/#1")), "{left:?}");
    assert!(database.keys().values().all(|key| open(key, &copy, 1, revision).is_none()));
    uses_its_secret(&server, "team-b").await;
}

/// What a version left in which all namespaces had one key.
#[tokio::test(flavor = "multi_thread")]
async fn secrets_that_were_sealed_with_the_one_key_of_all_namespaces_open_until_they_are_sealed_anew() {
    let home = Home::new();
    let server = home.server();
    namespace(&server, "team-a").await;
    let client = client_in(&server, "team-a");
    client.put_secret("db", VALUE.as_bytes().to_vec()).await.expect("a secret");
    client_in(&server, "default").put_secret("db", VALUE.as_bytes().to_vec()).await.expect("a secret");
    let address = server.address();
    server.process.stop();
    let database = Database::open(&home);
    let sealed = seal(&database.keys()["namespace/default"], 1, 1);
    let sql = "UPDATE secret SET sealed = ?1 WHERE namespace = 1";
    assert_eq!(database.conn.execute(sql, [sealed]).expect("it is sealed as before"), 1);
    database.conn.execute("DELETE FROM sealed_key WHERE label = 'namespace/#1'", []).expect("there was none");
    assert_eq!(database.opened_by(1), ["namespace/default"]);
    drop(database);

    let server = home.server_at(&address, &[]);
    let _worker = home.worker(&server, &[]);
    uses_its_secret(&server, "team-a").await;
    assert_eq!(rotate(&server, None).await["default"], 1);
    let database = Database::open(&home);
    assert_eq!(database.opened_by(1), ["namespace/#1"], "it got the key of its namespace before the one of all goes");
    for name in ["default", "team-a"] {
        uses_its_secret(&server, name).await;
    }
}
