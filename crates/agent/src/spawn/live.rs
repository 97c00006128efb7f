//! Environments that are not gone yet. Whoever drops one, it is ended by force, in the background.

use std::sync::Arc;

use tokio::sync::watch;

use super::environments::{AgentEnd, Environment};

/// How many there are.
#[derive(Clone)]
pub(super) struct Live(Arc<watch::Sender<usize>>);

impl Default for Live {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }
}

/// One of them, from before it is started until it is gone.
pub(super) struct Place(Live);

impl Live {
    /// Waits until there are fewer than `most`.
    pub(super) async fn place(&self, most: usize) -> Place {
        let mut changes = self.0.subscribe();
        let has_room = |count: &mut usize| {
            let fits = *count < most;
            *count += usize::from(fits);
            fits
        };
        while !self.0.send_if_modified(has_room) {
            // The sender is ours, so there is no error.
            let _ = changes.changed().await;
        }
        Place(self.clone())
    }

    pub(super) async fn none_left(self) {
        // The sender is ours, so there is no error.
        let _ = self.0.subscribe().wait_for(|count| *count == 0).await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| *count -= 1);
    }
}

/// An environment that is ended when this is dropped.
pub(super) struct Held(Option<(Box<dyn Environment>, Place)>);

impl Held {
    pub(super) fn new(environment: Box<dyn Environment>, place: Place) -> Self {
        Self(Some((environment, place)))
    }

    pub(super) async fn ended(&mut self) -> AgentEnd {
        match &mut self.0 {
            Some((environment, _)) => environment.ended().await,
            None => AgentEnd::default(),
        }
    }

    /// Returns when it is gone. Not dropped half-way: the rest is done in the background.
    pub(super) async fn end(mut self) {
        if let Some(ending) = self.end_in_background() {
            let _ = ending.await;
        }
    }

    fn end_in_background(&mut self) -> Option<tokio::task::JoinHandle<()>> {
        let (environment, place) = self.0.take()?;
        // Without a runtime the worker is at its end, and the next one sweeps.
        let runtime = tokio::runtime::Handle::try_current().ok()?;
        Some(runtime.spawn(async move {
            environment.end().await;
            drop(place);
        }))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        drop(self.end_in_background());
    }
}
