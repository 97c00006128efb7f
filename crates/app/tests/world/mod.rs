//! An app on the model store, with a clock of the test's own and its storage in a folder.

mod local;
mod peers;

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use punctual_app::{App, ClusterKeys, Parts, Roles, Settings, VaultParts};
use punctual_blobs::{Blobs, UrlKey};
use punctual_core::Span;
use punctual_core::shard::{Answer, Ask};
use punctual_core::size::ByteSize;
use punctual_engine::{Engine, EngineConfig};
use punctual_store::ClusterSecret;
use punctual_store_tests::fixture::{at, server};
use punctual_store_tests::model::ModelStore;
use tempfile::TempDir;

#[allow(unused_imports, reason = "not every test asks for something")]
pub(crate) use self::local::by;
use self::peers::{FarSide, Wire};

pub(crate) const RETENTION: i64 = 1000;

/// There are none.
struct Nobody;

#[async_trait::async_trait]
impl FarSide for Nobody {
    async fn ask(&self, _: Vec<Ask>) -> Option<Vec<Answer>> {
        None
    }
}

pub(crate) struct World {
    #[allow(dead_code, reason = "not every test asks the first server")]
    pub(crate) app: App,
    #[allow(dead_code, reason = "not every test looks into it")]
    pub(crate) store: ModelStore,
    #[allow(dead_code, reason = "not every test looks into it")]
    pub(crate) folder: TempDir,
    #[allow(dead_code, reason = "not every test looks into it")]
    pub(crate) blobs: Blobs,
    #[allow(dead_code, reason = "not every test looks into it")]
    pub(crate) engine: Engine,
    #[allow(dead_code, reason = "not every test looks into it")]
    pub(crate) settings: Settings,
    now: Arc<AtomicI64>,
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with(Span::from_secs(60), |_| {}).await
    }

    #[allow(dead_code, reason = "not every test needs another engine")]
    pub(crate) async fn with_engine(change: impl FnOnce(&mut EngineConfig)) -> Self {
        Self::with(Span::from_secs(60), change).await
    }

    #[allow(dead_code, reason = "not every test is about missed times")]
    pub(crate) async fn with_missed_after(missed_after: Span) -> Self {
        Self::with(missed_after, |_| {}).await
    }

    async fn with(missed_after: Span, change: impl FnOnce(&mut EngineConfig)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let now = Arc::new(AtomicI64::new(0));
        let clock = {
            let now = Arc::clone(&now);
            Arc::new(move || at(now.load(Ordering::Relaxed)))
        };
        let blobs = Blobs::folder(folder.path(), UrlKey::derive(&[1; 32])).unwrap();
        let begun = Instant::now();
        // Without a role it owns no shard: nothing happens but what a test asks for.
        let mut config = EngineConfig::new(server(1), clock.clone(), Arc::new(move || begun.elapsed()), 1).alone();
        config.member.roles = vec!["api".to_owned()];
        change(&mut config);
        let store = ModelStore::new(4, at(0));
        let engine = Engine::start(Arc::new(store.clone()), config).await.unwrap();
        let random = Mutex::new(0);
        let settings = Settings {
            heartbeat: Span::from_secs(5),
            worker_dead_after: Span::from_secs(20),
            lease_ttl: Span::from_secs(10),
            roles: Roles { api: true, scheduler: false },
            artifact_max: ByteSize::mib(1),
            log_limit: ByteSize::mib(1),
            request_rate: 0,
            retention: Span::from_secs(RETENTION),
            audit_retention: Span::from_secs(86_400),
            worker_program: punctual_app::WorkerProgram::Worker,
            public_url: "http://127.0.0.1:8020".to_owned(),
            missed_after,
            task_limits: Default::default(),
            token_file: None,
        };
        let app = App::new(Parts {
            store: Arc::new(store.clone()),
            engine: engine.clone(),
            clock,
            random: Arc::new(move || {
                let mut random = random.lock().unwrap();
                *random += 1;
                *random
            }),
            peers: Arc::new(Wire(Arc::new(Nobody))),
            keys: ClusterKeys::new(ClusterSecret([1; 32])),
            vault: VaultParts::for_tests(),
            blobs: blobs.clone(),
            settings: settings.clone(),
        });
        Self { app, store, folder, blobs, engine, settings, now }
    }

    /// Another server on the same store, which knows nothing of what is done at the first until it reads it.
    #[allow(dead_code, reason = "not every test is about two servers")]
    pub(crate) fn another_server(&self) -> App {
        self.server_with(ClusterKeys::new(ClusterSecret([1; 32])), VaultParts::for_tests())
    }

    #[allow(dead_code, reason = "not every test is about keys")]
    pub(crate) fn server_with(&self, keys: ClusterKeys, vault: VaultParts) -> App {
        let now = Arc::clone(&self.now);
        App::new(Parts {
            store: Arc::new(self.store.clone()),
            engine: self.engine.clone(),
            clock: Arc::new(move || at(now.load(Ordering::Relaxed))),
            random: Arc::new(|| 1),
            peers: Arc::new(Wire(Arc::new(Nobody))),
            keys,
            vault,
            blobs: self.blobs.clone(),
            settings: self.settings.clone(),
        })
    }

    pub(crate) fn pass(&self, secs: i64) {
        self.now.fetch_add(secs, Ordering::Relaxed);
    }
}
