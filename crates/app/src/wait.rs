//! Waiting for the end of a job, wherever it is decided about.

use std::time::Duration;

use punctual_core::JobId;
use punctual_store::FoundRow;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::cluster::Place;
use crate::{App, Result};

/// Before asking again after no answer.
const PAUSE: Duration = Duration::from_millis(100);

/// A peer asks again after this, in case the shard has moved meanwhile.
const AWAIT_MAX: Duration = Duration::from_secs(60);

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

    /// For a peer: whether the job has finished, now or within `limit`.
    pub async fn peer_await(&self, id: JobId, limit: Duration) -> Result<bool> {
        let finish = self.0.engine.finish_of(id);
        if matches!(self.0.store.find(id).await?, FoundRow::Finished { .. }) {
            return Ok(true);
        }
        Ok(tokio::time::timeout(limit.min(AWAIT_MAX), finish).await.is_ok_and(|finished| finished.is_ok()))
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
