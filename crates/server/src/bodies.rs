//! The bodies of requests: how large they may be, how long they may take, and how much of all of them is in memory at a time.
//!
//! A body is read before its request takes a place among those that are worked on, so a client that sends slowly keeps
//! nobody out. Files are streamed by their handler and are not read here.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use axum::body::{Body, BodyDataStream, HttpBody};
use axum::extract::Request;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use http::header;
use punctual_api::{ErrorKind, limits};
use punctual_app::AppError;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

/// A body must have arrived by then, or come at [`BYTES_PER_SECOND_MIN`] at least.
const WITHIN: Duration = Duration::from_secs(30);
const BYTES_PER_SECOND_MIN: u64 = 64 << 10;

/// What all bodies together may take: four of the largest.
const BYTES_MAX: usize = 64 << 20;
/// Taken in steps of this size. The first of each body is free: connections bound it.
const STEP_BYTES: usize = 64 << 10;

static ROOM: Semaphore = Semaphore::const_new(BYTES_MAX / STEP_BYTES);

/// Of a body that is too large, so much is read after that is known.
const DISCARD_BYTES_MAX: usize = 64 << 20;
const DISCARD_WITHIN: Duration = Duration::from_secs(2);

/// What a body takes of the memory for bodies, until the request ends.
#[derive(Default)]
pub(crate) struct Held(Option<SemaphorePermit<'static>>);

impl Held {
    fn grow(&mut self) -> Result<(), AppError> {
        let more = ROOM.try_acquire().map_err(|_| {
            let error = AppError::new(ErrorKind::TooManyRequests, "too many large requests at a time");
            error.hint("wait a moment, or split the request")
        })?;
        match &mut self.0 {
            Some(held) => held.merge(more),
            None => self.0 = Some(more),
        }
        Ok(())
    }
}

/// The request with all of its body in memory.
pub(crate) async fn arrived(request: Request) -> Result<(Request, Held), AppError> {
    let mut held = Held::default();
    if request.body().is_end_stream() {
        return Ok((request, held));
    }
    let max = match request.uri().path() {
        "/v1/jobs/bulk" | "/v1/schedules/bulk" | "/v1/batches" => limits::BULK_BODY_BYTES_MAX,
        _ => limits::BODY_BYTES_MAX,
    };
    let (parts, body) = request.into_parts();
    let declared = parts.headers.get(header::CONTENT_LENGTH);
    let declared = declared.and_then(|value| value.to_str().ok()).and_then(|text| text.parse::<usize>().ok());
    if declared.is_some_and(|length| length > max) {
        discard(body).await;
        return Err(too_large(max));
    }
    let bytes = read(body, max, WITHIN, &mut held).await?;
    Ok((Request::from_parts(parts, Body::from(bytes)), held))
}

async fn read(body: Body, max: usize, within: Duration, held: &mut Held) -> Result<Bytes, AppError> {
    let mut body = body.into_data_stream();
    let mut whole = BytesMut::new();
    let mut room = STEP_BYTES;
    let mut at_once = first_piece(&mut body).await;
    let began = Instant::now();
    loop {
        let piece = match at_once.take() {
            Some(piece) => piece,
            None => {
                let earned = Duration::from_secs(whole.len() as u64 / BYTES_PER_SECOND_MIN);
                let piece = tokio::time::timeout_at(began + within + earned, body.next()).await;
                piece.map_err(|_| too_slow())?
            }
        };
        let Some(piece) = piece else { return Ok(whole.freeze()) };
        let piece = piece.map_err(|_| AppError::invalid("the body ended before it was complete"))?;
        let len = whole.len() + piece.len();
        if len > max {
            discard(Body::from_stream(body)).await;
            return Err(too_large(max));
        }
        if whole.is_empty() && body.is_end_stream() {
            return Ok(piece);
        }
        while len > room {
            held.grow()?;
            room += STEP_BYTES;
        }
        whole.extend_from_slice(&piece);
    }
}

/// The first piece of a body, or its end, if that came with the head of the request, as it does with nearly all: then there is
/// no timer to be set. `None`: it is still on its way.
async fn first_piece(body: &mut BodyDataStream) -> Option<Option<Result<Bytes, axum::Error>>> {
    let mut looks = 0;
    poll_fn(|context| match body.poll_next_unpin(context) {
        Poll::Ready(piece) => Poll::Ready(Some(piece)),
        // The connection hands the piece on only after it was asked for.
        Poll::Pending if looks == 0 => {
            looks += 1;
            context.waker().wake_by_ref();
            Poll::Pending
        }
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

fn too_slow() -> AppError {
    let detail = format!("the body did not arrive within {} seconds", WITHIN.as_secs());
    AppError::new(ErrorKind::RequestTimeout, detail).hint("send it again, or split it")
}

fn too_large(max: usize) -> AppError {
    AppError::new(ErrorKind::PayloadTooLarge, format!("the body is larger than {max} bytes"))
        .hint("split the request, or put large data into a file and pass its address")
}

/// All of a body of at most `max` bytes. It has arrived.
pub(crate) async fn read_body(body: Body, max: usize) -> Result<Bytes, AppError> {
    match axum::body::to_bytes(body, max).await {
        Ok(bytes) => Ok(bytes),
        // Nothing else can go wrong with bytes that are there.
        Err(_) => Err(too_large(max)),
    }
}

/// Reads on for a while without keeping anything. A client that still writes when
/// the connection closes loses the answer.
pub(crate) async fn discard(body: Body) {
    let mut body = body.into_data_stream();
    let mut left = DISCARD_BYTES_MAX;
    let reading = async {
        while let Some(Ok(piece)) = body.next().await {
            left = left.saturating_sub(piece.len());
            if left == 0 {
                break;
            }
        }
    };
    let _ = tokio::time::timeout(DISCARD_WITHIN, reading).await;
}

#[cfg(test)]
mod tests {
    use futures_util::stream;
    use http::Request as HttpRequest;

    use super::*;

    fn request(path: &str, body: Body) -> Request {
        HttpRequest::builder().method("POST").uri(path).body(body).unwrap()
    }

    fn pieces(count: usize, len: usize) -> Body {
        Body::from_stream(stream::iter((0..count).map(move |_| Ok::<_, std::io::Error>(Bytes::from(vec![b'x'; len])))))
    }

    #[tokio::test]
    async fn a_body_that_does_not_arrive_in_time_is_a_timeout() {
        let first = stream::iter([Ok::<_, std::io::Error>(Bytes::from_static(b"x"))]);
        let body = Body::from_stream(first.chain(stream::pending()));
        let within = Duration::from_millis(50);
        let error = read(body, 100, within, &mut Held::default()).await.expect_err("it never ends");
        assert_eq!(error.kind, ErrorKind::RequestTimeout);
    }

    #[tokio::test]
    async fn a_large_body_has_the_time_that_its_length_takes() {
        let within = Duration::from_millis(50);
        let pieces = stream::unfold(0, |sent| async move {
            tokio::time::sleep(if sent == 0 { Duration::ZERO } else { Duration::from_millis(150) }).await;
            (sent < 3).then(|| (Ok::<_, std::io::Error>(Bytes::from(vec![b'x'; 65 << 10])), sent + 1))
        });
        let read = read(Body::from_stream(pieces), 1 << 20, within, &mut Held::default()).await;
        assert_eq!(read.expect("it moves on").len(), 3 * (65 << 10));
    }

    #[tokio::test]
    async fn a_body_beyond_the_limit_of_its_address_is_refused() {
        let limit = limits::BODY_BYTES_MAX;
        assert!(arrived(request("/v1/jobs", pieces(limit / 1024, 1024))).await.is_ok());
        let error = arrived(request("/v1/jobs", pieces(limit / 1024 + 1, 1024))).await.err().expect("it is too large");
        assert_eq!(error.kind, ErrorKind::PayloadTooLarge);
        assert!(arrived(request("/v1/jobs/bulk", pieces(limit / 1024 + 1, 1024))).await.is_ok());
    }

    #[tokio::test]
    async fn all_bodies_together_have_a_limit_and_give_back_what_they_took() {
        let mut all = Vec::new();
        let refused = loop {
            match arrived(request("/v1/jobs/bulk", pieces(15, 1 << 20))).await {
                Ok(taken) => all.push(taken),
                Err(error) => break error,
            }
        };
        // Other tests of this process may use some of it.
        assert!(refused.kind == ErrorKind::TooManyRequests && (3..=4).contains(&all.len()), "{}: {refused}", all.len());
        assert!(arrived(request("/v1/jobs", pieces(8, 8 << 10))).await.is_ok(), "small ones still arrive");
        all.clear();
        assert!(arrived(request("/v1/jobs/bulk", pieces(15, 1 << 20))).await.is_ok());
    }
}
