//! Two servers on the model store: one owns all shards, and the other has to ask it for everything.

#[path = "../world/local.rs"]
mod local;

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use punctual_api::{ScheduleRequest, ScheduleView};
use punctual_app::{App, ClusterKeys, Parts, Precondition, Roles, Settings, VaultParts};
use punctual_blobs::{Blobs, UrlKey};
use punctual_core::shard::{Answer, Ask};
use punctual_core::size::ByteSize;
use punctual_core::{Span, Timestamp};
use punctual_engine::{Engine, EngineConfig, SCHEDULER};
use punctual_store::{ClusterSecret, Store, Tasks};
use punctual_store_tests::fixture::{at, named_task, server};
use punctual_store_tests::model::ModelStore;
use serde_json::Value;
use tempfile::TempDir;

pub(crate) use self::local::by;
use crate::peers::{FarSide, Wire};

/// What records call whoever runs the server.
pub(crate) const WHO: &str = "local";

/// A condition that has not come true by then never will.
const PATIENCE: Duration = Duration::from_secs(20);

/// What is carried to the owner is done; answers get lost as often as a test wishes.
#[derive(Default)]
pub(crate) struct Owner {
    app: OnceLock<App>,
    pub(crate) to_lose: AtomicUsize,
    pub(crate) asked: AtomicUsize,
    pub(crate) is_unreachable: AtomicBool,
}

#[async_trait::async_trait]
impl FarSide for Owner {
    async fn ask(&self, asks: Vec<Ask>) -> Option<Vec<Answer>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if self.is_unreachable.load(Ordering::Relaxed) {
            return None;
        }
        let answers = self.app.get()?.ask_here(asks).await.ok()?;
        let is_lost = self.to_lose.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if is_lost.is_ok() { None } else { Some(answers) }
    }
}

pub(crate) struct World {
    /// Owns every shard.
    pub(crate) owner: App,
    pub(crate) engine: Engine,
    pub(crate) blobs: Blobs,
    pub(crate) settings: Settings,
    /// Owns none.
    pub(crate) front: App,
    pub(crate) wire: Arc<Owner>,
    pub(crate) store: Arc<dyn Store>,
    /// Microseconds that went by in no time.
    passed: Arc<AtomicI64>,
    _folder: TempDir,
}

impl World {
    /// There is a task `t`, and every shard has its owner.
    pub(crate) async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = ModelStore::new(4, at(0));
        store.create_task(named_task(1, "t")).await.unwrap();
        let store: Arc<dyn Store> = Arc::new(store);
        let begun = Instant::now();
        let wire = Arc::new(Owner::default());
        let passed = Arc::new(AtomicI64::new(0));
        let settings = settings(&[SCHEDULER]);
        let blobs = Blobs::folder(folder.path(), UrlKey::derive(&[1; 32])).unwrap();
        let (owner, engine) = app(&store, 1, &[SCHEDULER], (begun, &passed), &wire, &blobs).await;
        let (front, _) = app(&store, 2, &["api"], (begun, &passed), &wire, &blobs).await;
        assert!(wire.app.set(owner.clone()).is_ok());
        let world = Self { owner, engine, blobs, settings, front, wire, store, passed, _folder: folder };
        eventually("the front knows the owner", || async {
            world
                .front
                .create_schedule(&by(&world.front), request(r#"{"task":"t","daily":"09:00"}"#), None)
                .await
                .is_ok()
        })
        .await;
        for schedule in world.owner.list_schedules(&by(&world.owner), Default::default()).await.unwrap().schedules {
            world.owner.delete_schedule(&by(&world.owner), &schedule.name, Precondition::None).await.unwrap();
        }
        world
    }

    pub(crate) fn pass(&self, span: Span) {
        self.passed.fetch_add(span.as_micros(), Ordering::Relaxed);
    }

    /// Somebody sets the clock back.
    pub(crate) fn set_back(&self, span: Span) {
        self.passed.fetch_sub(span.as_micros(), Ordering::Relaxed);
    }

    pub(crate) async fn create(&self, json: &str) -> ScheduleView {
        self.owner.create_schedule(&by(&self.owner), request(json), None).await.unwrap()
    }

    pub(crate) async fn names(&self) -> Vec<String> {
        let list = self.owner.list_schedules(&by(&self.owner), Default::default()).await.unwrap();
        list.schedules.into_iter().map(|schedule| schedule.name).collect()
    }

    /// The verdicts of a schedule, the first one first.
    pub(crate) async fn verdicts(&self, name: &str) -> Vec<String> {
        let query = punctual_api::OccurrenceQuery { order: Some("asc".to_owned()), ..Default::default() };
        let list = self.owner.occurrences(&by(&self.owner), name, query).await.unwrap();
        list.occurrences.into_iter().map(|occurrence| occurrence.verdict).collect()
    }
}

async fn app(
    store: &Arc<dyn Store>,
    number: u64,
    roles: &[&str],
    (begun, passed): (Instant, &Arc<AtomicI64>),
    wire: &Arc<Owner>,
    blobs: &Blobs,
) -> (App, Engine) {
    let elapsed = move || Span::from_micros(i64::try_from(begun.elapsed().as_micros()).unwrap());
    let passed = Arc::clone(passed);
    let clock =
        Arc::new(move || -> Timestamp { at(0) + elapsed() + Span::from_micros(passed.load(Ordering::Relaxed)) });
    let mut config =
        EngineConfig::new(server(number), clock.clone(), Arc::new(move || begun.elapsed()), number).alone();
    config.member.roles = roles.iter().map(|role| (*role).to_owned()).collect();
    config.member.address = format!("http://127.0.0.1:{number}");
    config.look_every = Span::from_millis(20);
    config.renew_every = Span::from_millis(50);
    let engine = Engine::start(Arc::clone(store), config).await.unwrap();
    let random = AtomicU64::new(number << 32);
    let app = App::new(Parts {
        store: Arc::clone(store),
        engine: engine.clone(),
        clock,
        random: Arc::new(move || random.fetch_add(1, Ordering::Relaxed)),
        peers: Arc::new(Wire(Arc::clone(wire))),
        keys: ClusterKeys::new(ClusterSecret([1; 32])),
        vault: VaultParts::for_tests(),
        blobs: blobs.clone(),
        settings: settings(roles),
    });
    (app, engine)
}

fn settings(roles: &[&str]) -> Settings {
    Settings {
        heartbeat: Span::from_secs(5),
        worker_dead_after: Span::from_secs(20),
        lease_ttl: Span::from_secs(3600),
        roles: Roles { api: true, scheduler: roles.contains(&SCHEDULER) },
        artifact_max: ByteSize::mib(1),
        log_limit: ByteSize::mib(1),
        request_rate: 0,
        retention: Span::from_secs(3600),
        audit_retention: Span::from_secs(86_400),
        worker_program: punctual_app::WorkerProgram::Worker,
        public_url: "http://127.0.0.1:8020".to_owned(),
        missed_after: Span::from_secs(60),
        task_limits: Default::default(),
        token_file: None,
    }
}

#[track_caller]
pub(crate) fn request(json: &str) -> ScheduleRequest {
    serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {json}"))
}

pub(crate) fn json(value: &impl serde::Serialize) -> Value {
    serde_json::to_value(value).expect("it is JSON")
}

pub(crate) async fn eventually<F: Future<Output = bool>>(what: &str, mut condition: impl FnMut() -> F) {
    let deadline = Instant::now() + PATIENCE;
    while !condition().await {
        assert!(Instant::now() < deadline, "{what}: not within {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
