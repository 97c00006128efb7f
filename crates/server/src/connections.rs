//! The connections that no request keeps busy, and how many of them there may be.
//!
//! A connection is busy from the arrival of a request's body to the end of its answer. All others only wait: for a first
//! request, for the next one, or for the rest of a body. Beyond [`WAITING_MAX`] some are closed, so what they cost is bounded
//! over all clients, and a client that uses its connection keeps it. Connections of clients that have no access go first, and
//! those on which a body arrives only if there are no others; of equal ones, those that have waited longest. So users without
//! access cannot take connections from those who have it.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use axum::response::Response;
use bytes::Bytes;
use futures_util::task::AtomicWaker;
use http_body::{Frame, SizeHint};

use crate::streams::Place;

/// Each takes about 20 KiB.
const WAITING_MAX: usize = 1024;
/// To find those that have waited longest is a look at all of them, so several are closed at a time.
const CLOSED_AT_ONCE: usize = 16;

#[derive(Clone, Default)]
pub(crate) struct Connections(Arc<All>);

/// A request touches its own connection and two counters; only one connection too many makes somebody look at all.
#[derive(Default)]
struct All {
    open: Mutex<HashMap<u64, Arc<Open>>>,
    opened: AtomicU64,
    waiting: AtomicUsize,
    /// Grows with each connection that begins to wait.
    turn: AtomicU64,
}

#[derive(Default)]
struct Open {
    close: CloseSignal,
    state: Mutex<State>,
}

/// Tells the task of a connection to close it. The task looks at it whenever the connection moves on, so a look takes no lock.
#[derive(Default)]
struct CloseSignal {
    is_set: AtomicBool,
    task: AtomicWaker,
}

impl CloseSignal {
    fn set(&self) {
        self.is_set.store(true, Ordering::Release);
        self.task.wake();
    }

    fn poll(&self, context: &Context<'_>) -> Poll<()> {
        self.task.register(context.waker());
        if self.is_set.load(Ordering::Acquire) { Poll::Ready(()) } else { Poll::Pending }
    }
}

#[derive(Default)]
struct State {
    requests: usize,
    /// Requests of which the body has not arrived yet.
    arriving: usize,
    client: ClientAccess,
    /// The turn in which it began to wait; `None` while it is busy, and when it is to be closed.
    waits_since: Option<u64>,
}

/// Whether the client of a connection has shown that it has access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum ClientAccess {
    #[default]
    Unproven,
    Proven,
}

/// Which connections are closed first, and then those that have waited longest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ClosingClass {
    WithoutAccess,
    Idle,
    /// A request arrives on it, or it has only begun to wait and may be about to send one.
    InUse,
}

/// A connection is in use until so many others have begun to wait after it.
const RECENT_TURNS: u64 = WAITING_MAX as u64 / 2;

impl State {
    /// `None` for a connection that does not wait.
    fn closing_order(&self, turn: u64) -> Option<(ClosingClass, u64)> {
        let since = self.waits_since?;
        let class = match self.client {
            _ if turn.saturating_sub(since) <= RECENT_TURNS => ClosingClass::InUse,
            ClientAccess::Unproven => ClosingClass::WithoutAccess,
            ClientAccess::Proven if self.arriving > 0 => ClosingClass::InUse,
            ClientAccess::Proven => ClosingClass::Idle,
        };
        Some((class, since))
    }
}

impl Open {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl All {
    fn open(&self) -> MutexGuard<'_, HashMap<u64, Arc<Open>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes others if there are too many.
    fn begin_to_wait(&self, mut state: MutexGuard<'_, State>) {
        state.waits_since = Some(self.turn.fetch_add(1, Ordering::Relaxed));
        let others = self.waiting.fetch_add(1, Ordering::Relaxed);
        // Whoever looks at all of them locks one after the other.
        drop(state);
        if others >= WAITING_MAX {
            self.close_some();
        }
    }

    fn end_waiting(&self, state: &mut State) {
        if state.waits_since.take().is_some() {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn close_some(&self) {
        let turn = self.turn.load(Ordering::Relaxed);
        let open = self.open();
        let order = |place: &Arc<Open>| place.state().closing_order(turn).map(|order| (order, Arc::clone(place)));
        let mut waiting: Vec<((ClosingClass, u64), Arc<Open>)> = open.values().filter_map(order).collect();
        drop(open);
        if waiting.len() <= WAITING_MAX {
            return;
        }
        waiting.sort_unstable_by_key(|(order, _)| *order);
        for ((_, since), place) in waiting.into_iter().take(CLOSED_AT_ONCE) {
            let mut state = place.state();
            // It may have become busy meanwhile.
            if state.waits_since == Some(since) {
                self.end_waiting(&mut state);
                place.close.set();
            }
        }
    }
}

/// One connection, for as long as it is open. Goes with each of its requests.
#[derive(Clone)]
pub(crate) struct Connection(Arc<Inner>);

struct Inner {
    all: Arc<All>,
    number: u64,
    place: Arc<Open>,
}

impl Connections {
    /// A connection was accepted.
    pub(crate) fn open(&self) -> Connection {
        let Self(all) = self;
        let number = all.opened.fetch_add(1, Ordering::Relaxed);
        let place = Arc::<Open>::default();
        all.open().insert(number, Arc::clone(&place));
        all.begin_to_wait(place.state());
        Connection(Arc::new(Inner { all: Arc::clone(all), number, place }))
    }

    /// The server stops: all that are open are to be closed once their requests are answered.
    pub(crate) fn close_all(&self) {
        let open: Vec<Arc<Open>> = self.0.open().values().cloned().collect();
        open.iter().for_each(|place| place.close.set());
    }
}

impl Connection {
    /// Resolves when it is to be closed. Only the task of the connection waits for it.
    pub(crate) async fn unwanted(&self) {
        poll_fn(|context| self.0.place.close.poll(context)).await;
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.0.place.state().requests > 0
    }

    /// Its client has access: the kernel vouches for it, or a request had the token.
    pub(crate) fn has_access(&self) {
        self.0.place.state().client = ClientAccess::Proven;
    }

    /// The body of a request is on its way.
    pub(crate) fn arriving(&self) -> Arriving {
        self.0.place.state().arriving += 1;
        Arriving(self.clone())
    }

    /// A request begins.
    pub(crate) fn busy(&self) -> Busy {
        let Inner { all, place, .. } = &*self.0;
        let mut state = place.state();
        state.requests += 1;
        all.end_waiting(&mut state);
        drop(state);
        Busy(self.clone())
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.all.open().remove(&self.number);
        self.all.end_waiting(&mut self.place.state());
    }
}

/// A body on its way. Dropped when it has arrived.
pub(crate) struct Arriving(Connection);

impl Arriving {
    /// The body has arrived, and the request begins.
    pub(crate) fn arrived(self) -> Busy {
        self.0.busy()
    }
}

impl Drop for Arriving {
    fn drop(&mut self) {
        self.0.0.place.state().arriving -= 1;
    }
}

/// A request under way. Dropped with its answer.
pub(crate) struct Busy(Connection);

impl Drop for Busy {
    fn drop(&mut self) {
        let Inner { all, place, .. } = &*self.0.0;
        let mut state = place.state();
        state.requests -= 1;
        if state.requests == 0 {
            all.begin_to_wait(state);
        }
    }
}

impl Busy {
    /// The answer, which keeps the connection busy until its end, and the place that its request has, if it has one.
    pub(crate) fn until_answered(self, response: Response, place: Option<Place>) -> Response {
        response.map(|body| Body::new(Answering { body, _busy: self, _place: place }))
    }
}

struct Answering {
    body: Body,
    _busy: Busy,
    _place: Option<Place>,
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
        let closed: Vec<usize> = (0..WAITING_MAX).filter(|place| is_closed(*place)).collect();
        assert_eq!(closed, (1..=CLOSED_AT_ONCE).collect::<Vec<_>>());
        drop(busy);
        let _others: Vec<Connection> = (0..CLOSED_AT_ONCE).map(|_| all.open()).collect();
        assert!(is_closed(CLOSED_AT_ONCE + 1) && !is_closed(0), "it has just begun to wait");
    }

    #[test]
    fn clients_without_access_go_first_and_arriving_requests_last() {
        let all = Connections::default();
        let arriving = all.open();
        arriving.has_access();
        let body = arriving.arriving();
        let idle = all.open();
        idle.has_access();
        let is_closed = |connection: &Connection| connection.unwanted().now_or_never().is_some();
        let strangers: Vec<Connection> = (0..3 * WAITING_MAX).map(|_| all.open()).collect();
        assert!(!is_closed(&arriving) && !is_closed(&idle), "although they have waited longest");
        assert!(strangers.iter().filter(|stranger| is_closed(stranger)).count() >= 2 * WAITING_MAX);
        drop(strangers);
        let others: Vec<Connection> = (0..2 * WAITING_MAX).map(|_| all.open()).collect();
        others.iter().for_each(Connection::has_access);
        let _more: Vec<Connection> = (0..2 * WAITING_MAX).map(|_| all.open()).inspect(Connection::has_access).collect();
        assert!(is_closed(&idle) && !is_closed(&arriving), "a request that arrives is not cut off");
        drop(body);
        let _again: Vec<Connection> = (0..WAITING_MAX).map(|_| all.open()).inspect(Connection::has_access).collect();
        assert!(is_closed(&arriving), "it only waits now");
    }

    #[test]
    fn what_is_closed_leaves_its_place() {
        let all = Connections::default();
        for _ in 0..3 * WAITING_MAX {
            let connection = all.open();
            drop(connection.busy());
        }
        assert!(all.0.open().is_empty());
        assert_eq!(all.0.waiting.load(Ordering::Relaxed), 0);
    }
}
