//! Environments that are not gone yet. An environment that is dropped is ended by force in the background.

use std::sync::Arc;

use tokio::sync::watch;

use super::environments::{AgentEnd, Environment};

/// Counts the environments that exist.
#[derive(Clone)]
pub(super) struct EnvironmentCount(Arc<watch::Sender<usize>>);

impl Default for EnvironmentCount {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }
}

/// The count of one environment, from before its start until it is gone.
pub(super) struct EnvironmentPlace(EnvironmentCount);

impl EnvironmentCount {
    /// Waits until there are fewer than `most` environments.
    pub(super) async fn place(&self, most: usize) -> EnvironmentPlace {
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
        EnvironmentPlace(self.clone())
    }

    pub(super) async fn none_left(self) {
        // The sender is ours, so there is no error.
        let _ = self.0.subscribe().wait_for(|count| *count == 0).await;
    }
}

impl Drop for EnvironmentPlace {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| *count -= 1);
    }
}

/// An environment that is ended when this is dropped.
pub(super) struct GuardedEnvironment(Option<(Box<dyn Environment>, EnvironmentPlace)>);

impl GuardedEnvironment {
    pub(super) fn new(environment: Box<dyn Environment>, place: EnvironmentPlace) -> Self {
        Self(Some((environment, place)))
    }

    pub(super) async fn ended(&mut self) -> AgentEnd {
        match &mut self.0 {
            Some((environment, _)) => environment.ended().await,
            None => AgentEnd::default(),
        }
    }

    /// Ends the environment and returns when it is gone. If dropped half-way, the rest happens in the background.
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

impl Drop for GuardedEnvironment {
    fn drop(&mut self) {
        drop(self.end_in_background());
    }
}
