//! Keeps the owner up to date about what people want to be told.

use std::sync::{Arc, Weak};
use std::time::Duration;

use punctual_core::Span;
use punctual_core::notice::late_limits;
use punctual_core::shard::event::{Event, Watch};
use punctual_store::Result;

use crate::handle::Inner;
use crate::inbox::Input;

/// How often it is looked up which tasks ail: a failure on another server is known here after this.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Rules are read at each so many looks: they can be long, and seldom change. A new rule about lateness counts after
/// that.
const LOOKS_PER_READING: u64 = 5;

/// Tasks whose next success is to be told, at most: those that failed last.
const AILING_MAX: usize = 10_000;

/// Until the engine is gone.
pub(crate) async fn follow_rules(engine: Weak<Inner>) {
    let mut last = Watch::default();
    for look in 0_u64.. {
        let Some(inner) = engine.upgrade() else { return };
        let limits = (look % LOOKS_PER_READING != 0).then(|| last.late_after.clone());
        match watch(&inner, limits).await {
            Ok(watch) => {
                // Also when nothing has changed: what the owner knows by itself fades.
                if watch != last || !watch.ailing.is_empty() {
                    inner.inbox.send(Input::Event(Event::Watch(watch.clone())));
                }
                last = watch;
            }
            Err(error) => tracing::debug!(%error, "the notification rules were not read; trying again"),
        }
        drop(inner);
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

async fn watch(inner: &Arc<Inner>, limits: Option<Vec<Span>>) -> Result<Watch> {
    let late_after = match limits {
        Some(limits) => limits,
        None => {
            let rules = inner.store.rules().await?;
            late_limits(&rules.into_iter().map(|rule| rule.spec).collect::<Vec<_>>())
        }
    };
    let ailing = inner.store.ailing(AILING_MAX).await?;
    Ok(Watch { ailing: ailing.into_iter().map(|ailing| ailing.task).collect(), late_after })
}
