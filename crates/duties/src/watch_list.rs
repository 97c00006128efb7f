//! Keeps the owner of this server's shards up to date on what it writes notices about: tasks that are ailing, and the
//! limits after which jobs are late.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual_core::Span;
use punctual_core::notice::late_limits;
use punctual_core::shard::event::Watch;
use punctual_engine::Engine;
use punctual_store::{Result, Store};

use crate::{Context, Duty, Next, TickError};

/// A failure on another server is known here after this.
const EVERY: Duration = Duration::from_secs(2);

/// Rules are read at each of so many ticks: they can be long, and seldom change. A new rule about lateness counts after
/// that.
const TICKS_PER_READING: u64 = 5;

/// Tasks whose next success is noticed, at most: those that failed last.
const AILING_MAX: usize = 10_000;

pub struct WatchList {
    store: Arc<dyn Store>,
    engine: Engine,
    ticks: u64,
    last: Watch,
}

impl WatchList {
    pub fn new(context: &Context) -> Self {
        Self { store: Arc::clone(&context.store), engine: context.engine.clone(), ticks: 0, last: Watch::default() }
    }

    async fn late_after(&self) -> Result<Vec<Span>> {
        if !self.ticks.is_multiple_of(TICKS_PER_READING) {
            return Ok(self.last.late_after.clone());
        }
        let rules = self.store.rules(None).await?;
        Ok(late_limits(&rules.into_iter().map(|rule| rule.spec).collect::<Vec<_>>()))
    }
}

#[async_trait]
impl Duty for WatchList {
    fn name(&self) -> &'static str {
        "watch-list"
    }

    /// Each server has an owner of its own shards.
    fn lease(&self) -> Option<&'static str> {
        None
    }

    async fn tick(&mut self) -> std::result::Result<Next, TickError> {
        let late_after = self.late_after().await?;
        let ailing = self.store.ailing(None, AILING_MAX).await?;
        let watch = Watch { ailing: ailing.into_iter().map(|ailing| ailing.task).collect(), late_after };
        // Also when nothing has changed: the owner forgets ailing tasks that it is not told of.
        if watch != self.last || !watch.ailing.is_empty() {
            self.engine.watch(watch.clone());
        }
        self.last = watch;
        self.ticks += 1;
        Ok(Next::After(EVERY))
    }
}
