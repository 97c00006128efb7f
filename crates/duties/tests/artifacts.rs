//! What becomes of files that nobody needs, on the model store with a clock of the test's own.

mod context;
#[path = "../../app/tests/world/mod.rs"]
mod world;

use bytes::Bytes;
use futures_util::stream;
use punctual_api::{ArtifactKind, ArtifactQuery, ArtifactRequest, ErrorKind};
use punctual_app::Precondition;
use punctual_blobs::{Key, SignedQuery};
use punctual_core::run::default_grace;
use punctual_core::task::{Binary, Limits, Network, Probe, Run, TaskSpec};
use punctual_core::{ArtifactId, hex};
use punctual_duties::{ArtifactRetention, Duty, StorageSweep};
use punctual_store_tests::fixture::at;
use sha2::{Digest, Sha256};

use world::{RETENTION, World, by};

impl World {
    async fn declare(&self, bytes: &[u8]) -> (ArtifactId, Option<String>) {
        let digest = hex::encode(Sha256::digest(bytes));
        let size = bytes.len() as u64;
        let request = ArtifactRequest { name: None, size, sha256: digest, kind: ArtifactKind::Binary };
        let (artifact, _) = self.app.create_artifact(&by(&self.app), request, "http://here").await.unwrap();
        (artifact.id, artifact.upload.map(|upload| upload.url))
    }

    async fn send(&self, id: ArtifactId, url: &str, bytes: &[u8]) -> Result<(), punctual_app::AppError> {
        let pieces = stream::iter([Ok(Bytes::copy_from_slice(bytes))]);
        self.app.upload_artifact(id, query(url), None, pieces).await.map(drop)
    }

    async fn push(&self, salt: u8) -> ArtifactId {
        let bytes = program(salt);
        let (id, url) = self.declare(&bytes).await;
        self.send(id, &url.unwrap(), &bytes).await.unwrap();
        id
    }

    /// How many artifacts a tick removes.
    async fn prune(&self) -> usize {
        let before = self.artifacts().await.len();
        ArtifactRetention::new(&self.context()).tick().await.unwrap();
        before - self.artifacts().await.len()
    }

    async fn artifacts(&self) -> Vec<ArtifactId> {
        let list = self.app.list_artifacts(&by(&self.app), &ArtifactQuery::default()).await.unwrap();
        list.artifacts.iter().map(|artifact| artifact.id).collect()
    }

    fn files(&self) -> Vec<String> {
        let folder = std::fs::read_dir(self.folder.path().join("artifacts")).into_iter().flatten().flatten();
        let mut names: Vec<String> = folder.map(|file| file.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

fn query(url: &str) -> SignedQuery {
    let (_, query) = url.split_once('?').unwrap();
    let value = |name: &str| {
        let pair = query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        pair.unwrap().to_owned()
    };
    SignedQuery {
        size: value("size").parse().unwrap(),
        expires: value("expires").parse().unwrap(),
        signature: value("signature"),
    }
}

/// The least that is taken for a static program.
fn program(salt: u8) -> Vec<u8> {
    let mut bytes = vec![0; 200];
    bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
    for (place, value) in
        [(0x10, 2), (0x12, 0xb7), (0x19, 0x10), (0x20, 64), (0x36, 56), (0x38, 1), (64, 1), (199, salt)]
    {
        bytes[place] = value;
    }
    bytes
}

fn spec(artifact: ArtifactId) -> TaskSpec {
    TaskSpec::new(Run::Binary(Binary {
        artifact,
        args: Vec::new(),
        env: Default::default(),
        files: Vec::new(),
        network: Network::default(),
        limits: Limits::default(),
        grace: default_grace(),
    }))
}

#[tokio::test]
async fn a_file_that_no_task_has_needed_for_the_retention_goes() {
    let world = World::new().await;
    let (needed, unused) = (world.push(1).await, world.push(2).await);
    world.app.put_task(&by(&world.app), "report".to_owned(), spec(needed), Precondition::None).await.unwrap();
    world.pass(RETENTION);
    assert_eq!(world.prune().await, 0);
    world.pass(1);
    assert_eq!(world.prune().await, 1);
    assert_eq!(world.files(), [needed.to_string()]);
    assert_eq!(world.app.artifact(&by(&world.app), unused).await.unwrap_err().kind, ErrorKind::ArtifactNotFound);
    // The task lets go of it: from then on it counts.
    let probe = TaskSpec::new(Run::Probe(Probe::default()));
    world.app.put_task(&by(&world.app), "report".to_owned(), probe, Precondition::None).await.unwrap();
    world.pass(RETENTION);
    assert_eq!(world.prune().await, 0);
    world.pass(1);
    assert_eq!(world.prune().await, 1);
    assert!(world.files().is_empty());
}

#[tokio::test]
async fn an_upload_may_be_made_in_its_time_and_not_after_it() {
    let world = World::new().await;
    let bytes = program(1);
    let (id, url) = world.declare(&bytes).await;
    let url = url.unwrap();
    world.pass(3601);
    let late = world.send(id, &url, &bytes).await.unwrap_err();
    assert_eq!(late.kind, ErrorKind::UrlExpired);
    assert!(late.hint.unwrap().contains("POST /v1/artifacts"));
    // Declared again, it is the same artifact with more time.
    let (same, url) = world.declare(&bytes).await;
    assert_eq!(same, id);
    world.send(id, &url.unwrap(), &bytes).await.unwrap();
    assert_eq!(world.app.artifact(&by(&world.app), id).await.unwrap().state, "ready");
}

#[tokio::test]
async fn a_file_that_was_lost_in_the_storage_is_taken_again() {
    let world = World::new().await;
    let bytes = program(1);
    let id = world.push(1).await;
    assert_eq!(world.declare(&bytes).await, (id, None));
    world.blobs.delete(&Key::new(format!("artifacts/{id}")).unwrap()).await.unwrap();
    assert_eq!(world.app.artifact(&by(&world.app), id).await.unwrap().state, "pending");
    let (same, url) = world.declare(&bytes).await;
    assert_eq!(same, id);
    world.send(id, &url.expect("it is wanted again"), &bytes).await.unwrap();
    assert_eq!(world.files(), [id.to_string()]);
    assert_eq!(world.app.artifact(&by(&world.app), id).await.unwrap().state, "ready");
    assert_eq!(world.declare(&bytes).await, (id, None));
}

#[tokio::test]
async fn declarations_whose_time_is_over_go_unless_a_task_waits() {
    let world = World::new().await;
    let (_, _) = world.declare(&program(1)).await;
    let (awaited, _) = world.declare(&program(2)).await;
    world.app.put_task(&by(&world.app), "report".to_owned(), spec(awaited), Precondition::None).await.unwrap();
    world.pass(3601);
    assert_eq!(world.prune().await, 1);
    assert_eq!(world.artifacts().await, [awaited]);
}

#[tokio::test]
async fn files_that_belong_to_nobody_are_swept_and_others_are_not() {
    let world = World::new().await;
    let ready = world.push(1).await;
    let (pending, _) = world.declare(&program(2)).await;
    let unknown = ArtifactId::new(at(0), 999);
    let put = async |key: String| {
        let bytes = stream::iter([Ok(Bytes::from_static(b"x"))]);
        world.blobs.put(&Key::new(key).unwrap(), 10, bytes).await.unwrap();
    };
    for key in [
        format!("artifacts/{unknown}"),
        format!("artifacts/{pending}"),
        "artifacts/notes.txt".to_owned(),
        format!("uploads/{ready}"),
        format!("uploads/{pending}"),
        format!("checks/{ready}-00ff"),
        format!("checks/{pending}-00ff"),
    ] {
        put(key).await;
    }
    StorageSweep::new(&world.context()).tick().await.unwrap();
    let mut expected = [ready.to_string(), pending.to_string(), "notes.txt".to_owned()];
    expected.sort();
    assert_eq!(world.files(), expected);
    for (key, size) in [
        (format!("uploads/{pending}"), Some(1)),
        (format!("checks/{pending}-00ff"), Some(1)),
        (format!("uploads/{ready}"), None),
        (format!("checks/{ready}-00ff"), None),
    ] {
        assert_eq!(world.blobs.head(&Key::new(key).unwrap()).await.unwrap(), size);
    }
}
