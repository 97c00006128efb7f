//! Waiting for the end of a job, wherever it is decided about.

use std::time::Duration;

use punctual_core::JobId;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::App;
use crate::cluster::Place;

/// Before asking again after no answer.
const PAUSE: Duration = Duration::from_millis(100);

/// The end of a job, from the moment this was made on.
pub(crate) struct Finish<'a> {
    app: &'a App,
    id: JobId,
    place: Place,
    here: oneshot::Receiver<()>,
}

impl App {
    pub(crate) fn finish_of(&self, id: JobId) -> Finish<'_> {
        // Also when a peer owns the shard: it may be ours in a moment.
        let here = self.0.engine.finish_of(id);
        Finish { app: self, id, place: self.0.cluster.place(id.shard()), here }
    }
}

impl Finish<'_> {
    /// Returns when the job has finished, when the time is over, or when it is worth looking again.
    pub(crate) async fn wait(self, deadline: Instant) {
        let Self { app, id, place, here } = self;
        let moved = async {
            let mut follow = app.0.cluster.follow();
            while app.0.cluster.place(id.shard()) == place {
                follow.changed().await;
            }
        };
        tokio::select! {
            ended = timeout_at(deadline, here) => match ended {
                Ok(Ok(())) | Err(_) => {}
                Ok(Err(_)) => sleep_until(deadline.min(Instant::now() + PAUSE)).await,
            },
            () = wait_at(app, &place, id, deadline) => {}
            () = moved => {}
        }
    }
}

/// A peer looks itself whether the job has finished before it waits.
async fn wait_at(app: &App, place: &Place, id: JobId, deadline: Instant) {
    match place {
        Place::Here => std::future::pending().await,
        Place::At(peer) => {
            let limit = deadline.saturating_duration_since(Instant::now());
            match app.0.peers.finished(peer, id, limit).await {
                Ok(_) => {}
                Err(_) => sleep_until(deadline.min(Instant::now() + PAUSE)).await,
            }
        }
        Place::Nowhere => sleep_until(deadline.min(Instant::now() + PAUSE)).await,
    }
}
