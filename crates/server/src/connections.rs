//! The connections that no request keeps busy, and how many of them there may be.
//!
//! A connection is busy from the arrival of a request's body to the end of its answer. All others only wait: for a first
//! request, for the next one, or for the rest of a body. Beyond [`WAITING_MAX`] the one that has waited longest is closed, so
//! what they cost is bounded over all clients, and a client that uses its connection keeps it.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use axum::response::Response;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::sync::Notify;

/// Each takes about 20 KiB.
const WAITING_MAX: usize = 1024;

#[derive(Clone, Default)]
pub(crate) struct Connections(Arc<Mutex<Places>>);

#[derive(Default)]
struct Places {
    /// In the order in which they began to wait.
    waiting: BTreeMap<u64, Arc<Notify>>,
    begun: u64,
}

impl Places {
    /// Closes another one if there are too many.
    fn begin(&mut self, close: &Arc<Notify>) -> u64 {
        self.begun += 1;
        self.waiting.insert(self.begun, Arc::clone(close));
        if self.waiting.len() > WAITING_MAX
            && let Some((_, longest)) = self.waiting.pop_first()
        {
            longest.notify_one();
        }
        self.begun
    }
}

/// One connection, for as long as it is open. Goes with each of its requests.
#[derive(Clone)]
pub(crate) struct Connection(Arc<Inner>);

struct Inner {
    all: Connections,
    close: Arc<Notify>,
    state: Mutex<State>,
}

struct State {
    requests: usize,
    /// Its place among those that wait.
    place: Option<u64>,
}

impl Connections {
    fn lock(&self) -> MutexGuard<'_, Places> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection was accepted.
    pub(crate) fn open(&self) -> Connection {
        let close = Arc::new(Notify::new());
        let place = Some(self.lock().begin(&close));
        Connection(Arc::new(Inner { all: self.clone(), close, state: Mutex::new(State { requests: 0, place }) }))
    }
}

impl Connection {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Resolves when it is to be closed.
    pub(crate) async fn unwanted(&self) {
        self.0.close.notified().await;
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.state().requests > 0
    }

    /// A request begins.
    pub(crate) fn busy(&self) -> Busy {
        let mut state = self.state();
        state.requests += 1;
        if let Some(place) = state.place.take() {
            self.0.all.lock().waiting.remove(&place);
        }
        drop(state);
        Busy(self.clone())
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = state.place.take() {
            self.all.lock().waiting.remove(&place);
        }
    }
}

/// A request under way. Dropped with its answer.
pub(crate) struct Busy(Connection);

impl Drop for Busy {
    fn drop(&mut self) {
        let Connection(inner) = &self.0;
        let mut state = self.0.state();
        state.requests -= 1;
        if state.requests == 0 {
            state.place = Some(inner.all.lock().begin(&inner.close));
        }
    }
}

impl Busy {
    /// The answer, which keeps the connection busy until its end.
    pub(crate) fn until_answered(self, response: Response) -> Response {
        response.map(|body| Body::new(Answering { body, _busy: self }))
    }
}

struct Answering {
    body: Body,
    _busy: Busy,
}

impl HttpBody for Answering {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn the_connection_that_waited_longest_is_closed_and_busy_ones_are_not() {
        let all = Connections::default();
        let open: Vec<Connection> = (0..WAITING_MAX).map(|_| all.open()).collect();
        let busy = open[0].busy();
        let _again = all.open();
        let is_closed = |place: usize| open[place].unwanted().now_or_never().is_some();
        assert!((0..WAITING_MAX).all(|place| !is_closed(place)), "there is room for one more beside the busy one");
        let _next = all.open();
        assert!(is_closed(1) && !is_closed(0) && !is_closed(2));
        drop(busy);
        assert!(is_closed(2) && !is_closed(0), "it has just begun to wait");
    }

    #[test]
    fn what_is_closed_leaves_its_place() {
        let all = Connections::default();
        for _ in 0..3 * WAITING_MAX {
            let connection = all.open();
            drop(connection.busy());
        }
        assert_eq!(all.lock().waiting.len(), 0);
    }
}
