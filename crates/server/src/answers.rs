//! Answers that their clients have not read yet: how much of all of them is in memory, and for how long.
//!
//! An answer is in memory from the moment it was made until the connection has taken it, and a client may leave it there, on
//! hundreds of HTTP/2 streams at once. What cannot be taken in time is dropped, and the stream ends with an error.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::response::{IntoResponse, Response};
use bytes::{Buf, Bytes};
use http_body::{Frame, SizeHint};
use punctual_api::ErrorKind;
use punctual_app::AppError;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use crate::problem::Refused;

/// What all answers that wait may take.
const BYTES_MAX: usize = 64 << 20;
const STEP_BYTES: usize = 1 << 10;
/// Smaller answers are not counted: connections and their streams bound them.
const FREE_BYTES: u64 = 4 << 10;

static ROOM: Semaphore = Semaphore::const_new(BYTES_MAX / STEP_BYTES);

/// An answer waits so long for room, and then there is another one.
const ROOM_WITHIN: Duration = Duration::from_secs(5);
/// A client that takes nothing for so long does not get the rest.
const STALLED: Duration = Duration::from_secs(30);
/// The connection is given so much at a time.
const PIECE_BYTES: usize = 32 << 10;

/// How long an answer waits for room, and then for its client.
#[derive(Clone, Copy)]
struct Patience {
    room: Duration,
    client: Duration,
}

/// The answer, counted while it waits for its client. One that there is no room for becomes 429.
pub(crate) async fn counted(response: Response) -> Response {
    counted_with(Patience { room: ROOM_WITHIN, client: STALLED }, response).await
}

async fn counted_with(patience: Patience, response: Response) -> Response {
    let Some(len) = response.body().size_hint().exact().filter(|len| *len > FREE_BYTES) else { return response };
    let steps = u32::try_from(len.div_ceil(STEP_BYTES as u64)).unwrap_or(u32::MAX).min((BYTES_MAX / STEP_BYTES) as u32);
    let Ok(Ok(room)) = tokio::time::timeout(patience.room, ROOM.acquire_many(steps)).await else {
        let error = AppError::new(ErrorKind::TooManyRequests, "too many answers wait for their clients");
        return Refused(error.hint("read answers as they come, and ask for less at a time")).into_response();
    };
    let (parts, body) = response.into_parts();
    // Of known length, so it is there already.
    let Ok(bytes) = axum::body::to_bytes(body, usize::MAX).await else {
        return Response::from_parts(parts, Body::empty());
    };
    let waiting = Waiting(Arc::new(Mutex::new(Some(Rest { bytes, moved_at: Instant::now(), _room: room }))));
    tokio::spawn(give_up_when_stalled(Arc::downgrade(&waiting.0), patience.client));
    Response::from_parts(parts, Body::new(waiting))
}

/// `None` when all of it was taken, or the client took too long.
type Shared = Mutex<Option<Rest>>;

struct Rest {
    bytes: Bytes,
    moved_at: Instant,
    _room: SemaphorePermit<'static>,
}

struct Waiting(Arc<Shared>);

fn lock(shared: &Shared) -> MutexGuard<'_, Option<Rest>> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn give_up_when_stalled(waiting: Weak<Shared>, after: Duration) {
    loop {
        let moved_at = match waiting.upgrade() {
            Some(shared) => match &*lock(&shared) {
                Some(rest) => rest.moved_at,
                None => return,
            },
            None => return,
        };
        let deadline = moved_at + after;
        if Instant::now() >= deadline {
            if let Some(shared) = waiting.upgrade() {
                lock(&shared).take();
            }
            return;
        }
        tokio::time::sleep_until(deadline).await;
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the client did not read its answer in time")]
struct Stalled;

impl HttpBody for Waiting {
    type Data = Bytes;
    type Error = Stalled;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Stalled>>> {
        let mut shared = lock(&self.0);
        let Some(rest) = &mut *shared else { return Poll::Ready(Some(Err(Stalled))) };
        if rest.bytes.is_empty() {
            return Poll::Ready(None);
        }
        let len = rest.bytes.len().min(PIECE_BYTES);
        // A copy, or one piece that waits in the connection would keep the whole answer in memory.
        let piece = Bytes::copy_from_slice(&rest.bytes[..len]);
        rest.bytes.advance(len);
        rest.moved_at = Instant::now();
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        lock(&self.0).as_ref().is_some_and(|rest| rest.bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        let left = lock(&self.0).as_ref().map(|rest| rest.bytes.len() as u64);
        left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(len: usize) -> Response {
        Response::new(Body::from(vec![b'x'; len]))
    }

    #[tokio::test]
    async fn answers_have_a_limit_together_and_are_dropped_when_nobody_reads_them() {
        let patience = Patience { room: Duration::from_millis(50), client: Duration::from_secs(2) };
        let counted = |len| counted_with(patience, answer(len));
        let mut unread = Vec::new();
        for _ in 0..64 {
            unread.push(counted(1 << 20).await);
        }
        assert_eq!(counted(1 << 20).await.status().as_u16(), 429);
        assert_eq!(counted(4 << 10).await.status().as_u16(), 200, "small ones are not counted");
        let patience = Patience { room: Duration::from_secs(30), ..patience };
        let late = counted_with(patience, answer(1 << 20)).await;
        assert_eq!(late.status().as_u16(), 200, "the others were given up");
        assert_eq!(axum::body::to_bytes(late.into_body(), usize::MAX).await.unwrap().len(), 1 << 20);
        let first = unread.remove(0).into_body();
        assert!(axum::body::to_bytes(first, usize::MAX).await.is_err(), "its client hears of it");
    }
}
