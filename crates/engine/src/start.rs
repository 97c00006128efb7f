//! How an engine comes to work, and how it leaves.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use punctual_core::shard::Owner;
use punctual_store::{Store, StoreError};
use tokio::sync::{Notify, mpsc, oneshot, watch};

use crate::clock::{ClockWatch, Reading, Skew, StoreClock};
use crate::cluster::Cluster;
use crate::config::{Clock, EngineConfig, Timekeeper};
use crate::connections::Connections;
use crate::driver::{Driver, commit};
use crate::duties::Duties;
use crate::handle::{Engine, Inner};
use crate::hub::Hub;
use crate::inbox::{Inbox, Input};
use crate::keeper::Keeper;
use crate::lease_state::LeaseState;
use crate::leases::LeaseDuty;
use crate::members::MemberDuty;
use crate::plans::Plans;
use crate::queue_states::QueueStates;
use crate::reads::Reads;
use crate::roll::Roll;
use crate::streams::Streams;
use crate::tasks::TaskCache;
use crate::zone_data::ZoneDataWatch;

/// Looks at the store's clock before the start. The quickest of a few is close.
const FIRST_READINGS: usize = 4;

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{0}")]
    ClockSkew(Skew),
    #[error("there is no thread for the engine")]
    Thread(#[source] std::io::Error),
}

/// Ends the keeper between two calls, so that none of them is cut short.
pub(crate) struct KeeperTask {
    stop: oneshot::Sender<()>,
    task: tokio::task::JoinHandle<()>,
}

impl Engine {
    /// Joins the cluster, takes its share of the shards that are free and starts to work.
    /// Needs a Tokio runtime.
    pub async fn start(store: Arc<dyn Store>, config: EngineConfig) -> Result<Self, StartError> {
        let lease = Arc::new(LeaseState::new(Arc::clone(&config.monotonic)));
        let store_clock = match config.timekeeper {
            Timekeeper::ThisMachine => None,
            Timekeeper::Store => Some(read_first(&*store, &config, &lease).await?),
        };
        let clock: Clock = store_clock.as_ref().map_or_else(|| Arc::clone(&config.clock), StoreClock::clock);
        let (inbox, inputs) = Inbox::new();
        let hub = Arc::new(Hub::new());
        let tasks = Arc::new(TaskCache::default());
        let plans = Arc::new(Plans::default());
        let queues = Arc::new(QueueStates::new(inbox.clone()));
        let duties = Arc::new(Duties::new(&config));
        let (published, cluster) = watch::channel(Arc::new(Cluster::default()));
        let nudge = Arc::new(Notify::new());
        let run_ended = Arc::new(Notify::new());
        let batch_pressing = Arc::new(Notify::new());
        let leases = LeaseDuty::new(
            Arc::clone(&store),
            Arc::clone(&tasks),
            Arc::clone(&queues),
            inbox.clone(),
            Arc::clone(&lease),
            config.clone(),
        );
        let members = MemberDuty {
            store: Arc::clone(&store),
            inbox: inbox.clone(),
            config: config.clone(),
            clock: Arc::clone(&clock),
            lease: Arc::clone(&lease),
            duties: Arc::clone(&duties),
            started_at: clock(),
            published,
            roll: Roll::default(),
            zone_data: ZoneDataWatch::default(),
        };
        let mut keeper = Keeper {
            store: Arc::clone(&store),
            config: config.clone(),
            store_clock,
            clock_watch: ClockWatch::default(),
            lease: Arc::clone(&lease),
            duties: Arc::clone(&duties),
            leases,
            members,
            nudge: Arc::clone(&nudge),
        };
        keeper.start().await?;
        let (doubts, doubted) = mpsc::unbounded_channel();
        let mut batches = Vec::new();
        for _ in 0..config.owner.lanes.max(1) {
            let (sender, taken) = mpsc::unbounded_channel();
            batches.push(sender);
            tokio::spawn(commit(Arc::clone(&store), taken, inbox.clone()));
        }
        let driver = Driver {
            owner: Owner::new(config.server, config.owner.clone(), config.seed),
            clock: Arc::clone(&clock),
            inbox: inbox.clone(),
            inputs,
            batches,
            doubts,
            lease: Arc::clone(&lease),
            monotonic: Arc::clone(&config.monotonic),
            reads: Reads {
                store: Arc::clone(&store),
                tasks: Arc::clone(&tasks),
                plans: Arc::clone(&plans),
                inbox: inbox.clone(),
            },
            streams: Streams::default(),
            hub: Arc::clone(&hub),
            run_ended: Arc::clone(&run_ended),
            batch_pressing: Arc::clone(&batch_pressing),
            answers: HashMap::new(),
            asks_taken: 0,
            unread: HashMap::new(),
            held_back: Vec::new(),
            retiring: Vec::new(),
            stop_by: None,
        };
        let runtime = tokio::runtime::Handle::current();
        let (alive, broken) = watch::channel(());
        let thread = std::thread::Builder::new().name("engine".to_owned()).spawn(move || {
            let _guard = runtime.enter();
            // Dropped when the thread ends, be it by a panic.
            let _alive = alive;
            driver.run();
        });
        let thread = thread.map_err(StartError::Thread)?;
        let (stop, stopped) = oneshot::channel();
        let keeper = KeeperTask { stop, task: tokio::spawn(keeper.run(doubted, stopped)) };
        let inner = Arc::new(Inner {
            server: config.server,
            store,
            inbox,
            hub,
            tasks,
            plans,
            queues,
            connections: Connections::new(config.owner.worker_silence),
            driver: Mutex::new(Some(thread)),
            ended: broken,
            clock,
            takeover: config.takeover,
            lease,
            cluster,
            nudge,
            run_ended,
            batch_pressing,
            duties,
            keeper: Mutex::new(Some(keeper)),
        });
        Ok(Self(inner))
    }

    /// Starts nothing any more, waits until what was started is durable and sent, and leaves
    /// the cluster, so that others need not wait for the end of the leases. False if the
    /// driver had broken down.
    pub async fn stop(&self) -> bool {
        let Inner { store, server, .. } = &*self.0;
        self.0.inbox.send(Input::Stop);
        let thread = self.0.driver.lock().expect("no panic while the lock is held").take();
        let ended = match thread {
            Some(thread) => tokio::task::spawn_blocking(move || thread.join()).await.is_ok_and(|ended| ended.is_ok()),
            None => true,
        };
        self.0.duties.drop_all();
        let keeper = self.0.keeper.lock().expect("no panic while the lock is held").take();
        if let Some(KeeperTask { stop, task }) = keeper {
            let _ = stop.send(());
            let _ = task.await;
        }
        // First the membership: whoever sees the free shards then knows that they are for fewer.
        for result in [store.leave(*server).await, store.release(*server).await, store.drop_duties(*server).await] {
            if let Err(error) = result {
                tracing::warn!(%error, "the leases were not released; they end by themselves");
            }
        }
        ended
    }
}

async fn read_first(store: &dyn Store, config: &EngineConfig, lease: &LeaseState) -> Result<StoreClock, StartError> {
    let mut reading = Reading::take(store, &config.monotonic).await?;
    let clock = StoreClock::new(Arc::clone(&config.monotonic), reading);
    for _ in 1..FIRST_READINGS {
        reading = Reading::take(store, &config.monotonic).await?;
        clock.learn(reading);
    }
    let skew = reading.skew((config.clock)(), config.clock_skew_max);
    lease.set_skew(skew);
    if skew.is_too_large() { Err(StartError::ClockSkew(skew)) } else { Ok(clock) }
}
