//! What becomes of files that nobody needs, on the model store with a clock of the test's own.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::stream;
use punctual_api::{ArtifactKind, ArtifactRequest, ErrorKind};
use punctual_app::{App, Parts, Peer, PeerChanges, PeerError, PeerKey, Peers, Pulse, Roles, Settings};
use punctual_blobs::{Blobs, Key, SignedQuery, UrlKey};
use punctual_core::run::default_grace;
use punctual_core::shard::WorkerStatus;
use punctual_core::shard::event::{Command, Reply};
use punctual_core::size::ByteSize;
use punctual_core::task::{Binary, Limits, Network, Probe, Run, TaskSpec};
use punctual_core::{ArtifactId, JobId, JobRow, Span, TaskId};
use punctual_engine::{Engine, EngineConfig, Runs, WorkerInfo};
use punctual_store::ClusterSecret;
use punctual_store_tests::fixture::{at, server};
use punctual_store_tests::model::ModelStore;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

const RETENTION: i64 = 1000;

/// There are none.
struct Nobody;

fn gone(peer: &Peer) -> PeerError {
    PeerError { peer: peer.id, reason: "there is nobody".to_owned() }
}

#[async_trait::async_trait]
impl Peers for Nobody {
    async fn command(&self, peer: &Peer, _: JobId, _: Command) -> Result<Reply, PeerError> {
        Err(gone(peer))
    }
    fn hint(&self, _: &Peer, _: Vec<JobRow>) {}
    async fn running(&self, peer: &Peer, _: Vec<JobId>) -> Result<Runs, PeerError> {
        Err(gone(peer))
    }
    async fn finished(&self, peer: &Peer, _: JobId, _: Duration) -> Result<bool, PeerError> {
        Err(gone(peer))
    }
    async fn watch(&self, peer: &Peer) -> Result<PeerChanges, PeerError> {
        Err(gone(peer))
    }
    async fn task_changed(&self, peer: &Peer, _: TaskId, _: &str) -> Result<(), PeerError> {
        Err(gone(peer))
    }
    async fn workers(&self, peer: &Peer) -> Result<Vec<(WorkerStatus, WorkerInfo)>, PeerError> {
        Err(gone(peer))
    }
    async fn pulse(&self, peer: &Peer) -> Result<Pulse, PeerError> {
        Err(gone(peer))
    }
    async fn leaving(&self, peer: &Peer) -> Result<(), PeerError> {
        Err(gone(peer))
    }
}

struct World {
    app: App,
    now: Arc<AtomicI64>,
    folder: TempDir,
    blobs: Blobs,
}

impl World {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let now = Arc::new(AtomicI64::new(0));
        let clock = {
            let now = Arc::clone(&now);
            Arc::new(move || at(now.load(Ordering::Relaxed)))
        };
        let blobs = Blobs::folder(folder.path(), UrlKey::derive(&[1; 32])).unwrap();
        let begun = Instant::now();
        // Without a role it holds no duty: nothing happens but what a test asks for.
        let mut config = EngineConfig::new(server(1), clock.clone(), Arc::new(move || begun.elapsed()), 1).alone();
        config.member.roles = vec!["api".to_owned()];
        let store: Arc<dyn punctual_store::Store> = Arc::new(ModelStore::new(4, at(0)));
        let engine = Engine::start(Arc::clone(&store), config).await.unwrap();
        let random = Mutex::new(0);
        let app = App::new(Parts {
            store,
            engine,
            clock,
            random: Arc::new(move || {
                let mut random = random.lock().unwrap();
                *random += 1;
                *random
            }),
            peers: Arc::new(Nobody),
            key: PeerKey::new(ClusterSecret([1; 32])),
            blobs: blobs.clone(),
            settings: Settings {
                heartbeat: Span::from_secs(5),
                worker_dead_after: Span::from_secs(20),
                lease_ttl: Span::from_secs(10),
                roles: Roles { api: true, scheduler: false },
                artifact_max: ByteSize::mib(1),
                retention: Span::from_secs(RETENTION),
            },
        });
        Self { app, now, folder, blobs }
    }

    fn pass(&self, secs: i64) {
        self.now.fetch_add(secs, Ordering::Relaxed);
    }

    async fn declare(&self, bytes: &[u8]) -> (ArtifactId, Option<String>) {
        let digest: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        let size = bytes.len() as u64;
        let request = ArtifactRequest { name: None, size, sha256: digest, kind: ArtifactKind::Binary };
        let (artifact, _) = self.app.create_artifact(request, "http://here").await.unwrap();
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
        network: Network::default(),
        limits: Limits::default(),
        grace: default_grace(),
    }))
}

#[tokio::test]
async fn a_file_that_no_task_has_needed_for_the_retention_goes() {
    let world = World::new().await;
    let (needed, unused) = (world.push(1).await, world.push(2).await);
    world.app.put_task("report".to_owned(), spec(needed), None).await.unwrap();
    world.pass(RETENTION);
    assert_eq!(world.app.prune_artifacts().await.unwrap(), 0);
    world.pass(1);
    assert_eq!(world.app.prune_artifacts().await.unwrap(), 1);
    assert_eq!(world.files(), [needed.to_string()]);
    assert_eq!(world.app.artifact(unused).await.unwrap_err().kind, ErrorKind::ArtifactNotFound);
    // The task lets go of it: from then on it counts.
    let probe = TaskSpec::new(Run::Probe(Probe::default()));
    world.app.put_task("report".to_owned(), probe, None).await.unwrap();
    world.pass(RETENTION);
    assert_eq!(world.app.prune_artifacts().await.unwrap(), 0);
    world.pass(1);
    assert_eq!(world.app.prune_artifacts().await.unwrap(), 1);
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
    assert_eq!(world.app.artifact(id).await.unwrap().state, "ready");
}

#[tokio::test]
async fn declarations_whose_time_is_over_go_unless_a_task_waits() {
    let world = World::new().await;
    let (_, _) = world.declare(&program(1)).await;
    let (awaited, _) = world.declare(&program(2)).await;
    world.app.put_task("report".to_owned(), spec(awaited), None).await.unwrap();
    world.pass(3601);
    assert_eq!(world.app.prune_artifacts().await.unwrap(), 1);
    let left = world.app.list_artifacts(None, None).await.unwrap().artifacts;
    assert_eq!(left.iter().map(|artifact| artifact.id).collect::<Vec<_>>(), [awaited]);
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
    assert_eq!(world.app.sweep_files().await.unwrap(), 3);
    let mut expected = [ready.to_string(), pending.to_string(), "notes.txt".to_owned()];
    expected.sort();
    assert_eq!(world.files(), expected);
    for key in [format!("uploads/{pending}"), format!("checks/{pending}-00ff")] {
        assert_eq!(world.blobs.head(&Key::new(key).unwrap()).await.unwrap(), Some(1));
    }
}
