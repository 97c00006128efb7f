//! Builds servers and workers out of their parts. The only place that names a
//! concrete store or transport.

use std::future::Future;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use anyhow::Context;
use punctual_app::{App, Settings};
use punctual_core::ServerId;
use punctual_engine::{Engine, EngineConfig, Takeover};
use punctual_store::Store;
use punctual_store_sqlite::{Options, SqliteStore};
use punctual_worker::Worker;
use tokio::sync::oneshot;

use crate::config::{Durability, ServerSettings, WorkerSettings};
use crate::world;

#[derive(Debug)]
pub(crate) struct ServerOptions {
    /// Bound already, so that nobody takes the port in between.
    pub(crate) listener: TcpListener,
    pub(crate) settings: ServerSettings,
}

/// The server takes and runs jobs.
#[derive(Debug)]
pub(crate) struct ServerReady {
    pub(crate) address: SocketAddr,
    /// The store and how it writes, as `GET /v1/server` says it.
    pub(crate) store: String,
}

#[derive(Debug)]
pub(crate) struct WorkerOptions {
    /// The server's address: `http://127.0.0.1:8020`.
    pub(crate) server: String,
    pub(crate) name: String,
    pub(crate) settings: WorkerSettings,
}

/// Runs a server until `shutdown` ends, and then until it has drained.
pub(crate) async fn run_server(
    options: ServerOptions,
    ready: oneshot::Sender<ServerReady>,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> anyhow::Result<()> {
    let ServerOptions { listener, settings } = options;
    let clock = world::clock();
    let random = world::random()?;
    let sqlite = open_store(&settings)?;
    let store: Arc<dyn Store> = Arc::new(sqlite.clone());
    let server = ServerId::new(clock(), random());
    let mut config = EngineConfig::new(server, Arc::clone(&clock), random());
    // The store's lock shows that the former owner is gone.
    config.takeover = Takeover::AtOnce;
    config.retention = settings.retention;
    config.owner.look_ahead = settings.look_ahead;
    config.owner.window_max = settings.window_max;
    config.owner.worker_silence = settings.worker_dead_after;
    let engine = Engine::start(Arc::clone(&store), config).await.context("cannot start the engine")?;
    let heartbeat = settings.heartbeat;
    let worker_dead_after = settings.worker_dead_after;
    let told = Settings { heartbeat, worker_dead_after };
    let app = App::new(Arc::clone(&store), engine.clone(), clock, random, told);

    let address = listener.local_addr().context("cannot read the address")?;
    listener.set_nonblocking(true).context("cannot prepare the socket")?;
    let listener = tokio::net::TcpListener::from_std(listener).context("cannot prepare the socket")?;
    let _ = ready.send(ServerReady { address, store: store.description() });
    let mut was_stopped = false;
    let until = async {
        tokio::select! {
            () = shutdown => {}
            () = engine.ended() => {}
        }
        // Before the connections are waited for: the streams of workers end with the engine.
        was_stopped = engine.stop().await;
    };
    punctual_server::serve(punctual_server::router(app), listener, until).await;
    drop((engine, store));
    sqlite.close().await.context("cannot close the store")?;
    anyhow::ensure!(was_stopped, "the engine broke down; its last words are in the log");
    Ok(())
}

fn open_store(settings: &ServerSettings) -> anyhow::Result<SqliteStore> {
    let mut options = Options::new(world::clock());
    options.shard_count = settings.shards;
    options.durability = match settings.durability {
        Durability::Full => punctual_store_sqlite::Durability::Full,
        Durability::Normal => punctual_store_sqlite::Durability::Normal,
    };
    let path = settings.data_dir.join("punctual.db");
    Ok(SqliteStore::open(&path, options)?)
}

/// Runs a worker until `shutdown` ends, and then until its attempts have ended or
/// the drain timeout has.
pub(crate) async fn run_worker(
    options: WorkerOptions,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> anyhow::Result<()> {
    let WorkerOptions { server, name, settings } = options;
    let mut worker = Worker::connect(server)
        .name(name)
        .slots(settings.slots)
        .queues(settings.queues)
        .spool_dir(settings.spool_dir)
        .drain_timeout(settings.drain_timeout.to_std())
        .standard_executors();
    if settings.probe_effects {
        worker = worker.probe_effects();
    }
    for (key, value) in settings.labels {
        worker = worker.label(key, value);
    }
    Ok(worker.run_until(shutdown).await?)
}
