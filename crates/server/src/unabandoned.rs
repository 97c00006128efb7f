//! Requests that change something run to their end, also when their client disconnects meanwhile.
//!
//! The future of a request is dropped with its connection, and what follows a commit, such as the hint to a job's owner,
//! must not be. So a request that is dropped before its end goes on as a task of its own. One whose client stays never
//! leaves the task of its connection: a task for each request would cost a switch between threads for each.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use punctual_api::ErrorKind;
use punctual_app::AppError;
use tokio::runtime::Handle;
use tokio::sync::OwnedSemaphorePermit;

use crate::problem::Refused;

/// Answers a request that changes something. It keeps its place among the requests until it ends, so clients that leave
/// cannot pile up work.
pub(crate) async fn to_its_end(
    place: OwnedSemaphorePermit,
    request: impl Future<Output = Response> + Send + 'static,
) -> Response {
    let request = async move {
        let answered = AssertUnwindSafe(request).catch_unwind().await;
        drop(place);
        answered.unwrap_or_else(|_| {
            // The panic itself is in the log, with its place in the code.
            tracing::error!("a request handler panicked");
            Refused(AppError::new(ErrorKind::Internal, "the request failed because of a defect")).into_response()
        })
    };
    Unabandoned { request: Some(Box::pin(request)) }.await
}

struct Unabandoned {
    /// `None` when it has ended.
    request: Option<Pin<Box<dyn Future<Output = Response> + Send>>>,
}

impl Future for Unabandoned {
    type Output = Response;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Response> {
        let request = self.request.as_mut().expect("a request ends once");
        let response = std::task::ready!(request.as_mut().poll(context));
        self.request = None;
        Poll::Ready(response)
    }
}

impl Drop for Unabandoned {
    fn drop(&mut self) {
        // Without a runtime the process is about to end.
        if let Some(request) = self.request.take()
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(request);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::{Semaphore, oneshot};

    use super::*;

    #[tokio::test]
    async fn a_request_whose_client_left_runs_to_its_end_and_keeps_its_place_until_then() {
        let places = Arc::new(Semaphore::new(1));
        let (commit, committed) = oneshot::channel::<()>();
        let (hint, hinted) = oneshot::channel::<()>();
        let request = async {
            committed.await.expect("the commit");
            hint.send(()).expect("the test listens");
            Response::default()
        };
        let place = Arc::clone(&places).try_acquire_owned().expect("it is free");
        let mut answer = Box::pin(to_its_end(place, request));
        assert!(futures_util::poll!(&mut answer).is_pending());
        drop(answer);
        assert_eq!(places.available_permits(), 0);
        commit.send(()).expect("the request goes on");
        hinted.await.expect("what follows the commit");
        // It comes back once the task has ended.
        let _place = places.acquire().await.expect("the semaphore is open");
    }

    #[tokio::test]
    async fn a_request_that_panics_is_answered() {
        let places = Arc::new(Semaphore::new(1));
        let place = Arc::clone(&places).try_acquire_owned().expect("it is free");
        let answer = to_its_end(place, async { panic!("a defect") }).await;
        assert_eq!(answer.status().as_u16(), 500);
        assert_eq!(places.available_permits(), 1);
    }
}
