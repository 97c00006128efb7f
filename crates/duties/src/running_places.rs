//! Reports how many attempts of namespaces with a quota of them run on this server, and learns how many may.
//!
//! Nothing is asked while no namespace has such a quota. If the store cannot be reached, the server keeps to the places that it has:
//! nobody else is given them.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual_app::App;
use punctual_core::NamespaceId;
use punctual_core::running_places::{RunningReport, RunningUse};
use punctual_engine::{Clock, Engine};
use punctual_store::Store;

use crate::{Context, Duty, Next, TickError};

/// How often quotas are looked at while there are none. Read from memory.
const IDLE_EVERY: Duration = Duration::from_millis(500);
/// Places that others need are free after two of these.
const EVERY: Duration = Duration::from_millis(500);
/// While jobs wait for places, or places change.
const HURRIED_EVERY: Duration = Duration::from_millis(100);

/// Keeps the running attempts of namespaces within their quotas.
pub struct RunningPlaces {
    app: App,
    engine: Engine,
    store: Arc<dyn Store>,
    clock: Clock,
    /// `None` at first: nothing starts before the owner was told, even if there are none.
    told: Option<Vec<(NamespaceId, u64)>>,
    /// The number of the last report. One that the store gets late counts for nothing.
    seq: u64,
}

impl RunningPlaces {
    pub fn new(context: &Context) -> Self {
        let (engine, store) = (context.engine.clone(), Arc::clone(&context.store));
        Self { app: context.app.clone(), clock: engine.clock(), engine, store, told: None, seq: 0 }
    }
}

#[async_trait]
impl Duty for RunningPlaces {
    fn name(&self) -> &'static str {
        "running-places"
    }

    /// Each server has places of its own.
    fn lease(&self) -> Option<&'static str> {
        None
    }

    async fn tick(&mut self) -> Result<Next, TickError> {
        let quotas = self.app.running_quotas().await?;
        let has_any = !quotas.is_empty();
        if self.told.as_ref() != Some(&quotas) {
            self.engine.set_running_quotas(quotas.clone());
            self.told = Some(quotas);
        }
        if !has_any {
            return Ok(Next::After(IDLE_EVERY));
        }
        let report = self.engine.running_report().await?.filter(|report| !report.shards.is_empty());
        let Some(report) = report else { return Ok(Next::After(EVERY)) };
        let now = (self.clock)();
        self.seq = now.as_micros().unsigned_abs().max(self.seq + 1);
        let asked = self.store.exchange_places(self.engine.server(), self.seq, report.clone(), now);
        let Some(places) = asked.await? else { return Ok(Next::After(EVERY)) };
        let is_hurried = is_hurried(&report, &places);
        self.engine.set_running_places(report.version, places);
        Ok(Next::After(if is_hurried { HURRIED_EVERY } else { EVERY }))
    }
}

/// Whether jobs wait for places, or others may wait for some that this server has just given up.
fn is_hurried(report: &RunningReport, places: &[(NamespaceId, u64)]) -> bool {
    let waits = |one: &RunningUse| one.waiting > 0 && one.running >= one.places;
    let changed = |(one, (_, places)): (&RunningUse, &(NamespaceId, u64))| one.places != *places;
    report.namespaces.iter().any(waits) || report.namespaces.iter().zip(places).any(changed)
}
