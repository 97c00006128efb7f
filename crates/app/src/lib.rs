//! Every use case, once: what a person or a program can do with Punctual.
//!
//! REST, gRPC, the dashboard and the command line parse, call one method here, and
//! map the answer. Input is checked here and nowhere else.

mod cursor;
mod error;
mod explain;
mod jobs;
mod list;
mod logs;
mod nodes;
mod submit;
mod tasks;
mod validate;
mod workers;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use punctual_core::Timestamp;
use punctual_engine::{Clock, Engine};
use punctual_store::Store;

pub use error::AppError;
pub use jobs::WaitFor;
pub use list::parse_limit;
pub use logs::LogView;
pub use submit::{KeyedRequest, SubmittedAnswer};
pub use tasks::Defined;
pub use workers::{CREDIT_MAX, HelloAnswer, LOG_BYTES_MAX, WorkerHello};

use crate::tasks::NameCache;

pub type Result<T> = std::result::Result<T, AppError>;

/// Where randomness comes from. The real one enters where the binary builds the app.
pub type Random = Arc<dyn Fn() -> u64 + Send + Sync>;

#[derive(Clone)]
pub struct App(Arc<Inner>);

struct Inner {
    store: Arc<dyn Store>,
    engine: Engine,
    clock: Clock,
    random: Random,
    names: NameCache,
    submitted: AtomicU64,
    shard_turn: AtomicU64,
    started_at: Timestamp,
    settings: Settings,
}

/// What workers are told when they connect.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    pub heartbeat: punctual_core::Span,
    pub worker_dead_after: punctual_core::Span,
}

impl App {
    pub fn new(store: Arc<dyn Store>, engine: Engine, clock: Clock, random: Random, settings: Settings) -> Self {
        let started_at = clock();
        Self(Arc::new(Inner {
            store,
            engine,
            clock,
            random,
            names: NameCache::default(),
            submitted: AtomicU64::new(0),
            shard_turn: AtomicU64::new(0),
            started_at,
            settings,
        }))
    }

    pub fn now(&self) -> Timestamp {
        (self.0.clock)()
    }

    pub fn random(&self) -> u64 {
        (self.0.random)()
    }
}
