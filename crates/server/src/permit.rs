//! What a handler needs from whoever calls it: a right. Without it the use case cannot be called.
//!
//! A handler names the right in its arguments, first, so that somebody without it learns nothing about what else is wrong:
//! `Permit(by): Permit<SubmitJobs>`. What the handler asked for is kept for the guard, which looks again while a stream is
//! open, and gives out no answer of a route that asked for nothing and is not open to everybody.

use std::ops::Deref;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::FromRequestParts;
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{Extensions, HeaderMap, HeaderValue, header};
use http_body::Frame;
use punctual_api::ErrorKind;
use punctual_app::{App, AppError, AuditEvent, By, ChangeNotes, Permission, Principal};
use punctual_core::access::Rights;

use tokio::time::{Instant, Interval, interval_at};

use crate::problem::Refused;

/// Whoever sent the request has the right `R`.
pub(crate) struct Permit<R>(pub(crate) By<R>);

impl<R: Permission> FromRequestParts<App> for Permit<R> {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Refused> {
        Ok(Self(permit(&parts.extensions)?))
    }
}

/// The same for calls of gRPC, whose handlers have no extractors.
pub(crate) fn permit<R: Permission>(extensions: &Extensions) -> Result<By<R>, AppError> {
    let asker = asker(extensions)?;
    asker.note(Rights::of(&[R::RIGHT]));
    asker.principal.permit_noting(&asker.notes).inspect_err(|_| asker.was_refused.store(true, Ordering::Relaxed))
}

/// Anybody who proved who they are: for routes that say nothing about what is stored, or only about whoever asks.
pub(crate) struct Anybody(pub(crate) Arc<Principal>);

impl FromRequestParts<App> for Anybody {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Refused> {
        let asker = asker(&parts.extensions)?;
        asker.note(Rights::NONE);
        Ok(Self(Arc::clone(&asker.principal)))
    }
}

fn asker(extensions: &Extensions) -> Result<&Asker, AppError> {
    extensions.get::<Asker>().ok_or_else(|| {
        AppError::new(ErrorKind::Internal, "a route that is open asks for a right").hint("this is a defect")
    })
}

/// On whose behalf a request is made, and which rights its handler asked for. Shared by all that look at one request.
#[derive(Debug, Clone)]
pub(crate) struct Asker(Arc<Asking>);

#[derive(Debug)]
pub(crate) struct Asking {
    pub(crate) principal: Arc<Principal>,
    /// `None`: its handler has not asked for anything.
    asked: Mutex<Option<Rights>>,
    /// It asked for a right that the principal does not have.
    was_refused: AtomicBool,
    /// What the use case says about its change.
    pub(crate) notes: Arc<ChangeNotes>,
}

impl Deref for Asker {
    type Target = Asking;

    fn deref(&self) -> &Asking {
        &self.0
    }
}

impl Asker {
    pub(crate) fn new(principal: Principal) -> Self {
        Self(Arc::new(Asking {
            principal: Arc::new(principal),
            asked: Mutex::default(),
            was_refused: AtomicBool::default(),
            notes: Arc::default(),
        }))
    }

    fn note(&self, rights: Rights) {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        *asked = Some(asked.unwrap_or_default().union(rights));
    }

    pub(crate) fn asked(&self) -> Option<Rights> {
        *self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn was_refused(&self) -> bool {
        self.was_refused.load(Ordering::Relaxed)
    }

    /// A line of the audit log about what it asked for. What only rights of the cluster permit is in no namespace.
    pub(crate) fn placed(&self, event: AuditEvent) -> AuditEvent {
        let asked = self.asked().unwrap_or_default();
        if asked.intersection(Rights::IN_NAMESPACE).is_empty() { event } else { event.in_namespace_of(&self.principal) }
    }

    /// Whether the principal still has every right that was asked for.
    pub(crate) fn holds(&self, app: &App) -> bool {
        app.renew(&self.principal).is_ok_and(|now| now.rights().covers(self.asked().unwrap_or_default()))
    }
}

/// The answer, which ends when whoever asked for it may not see it any more. Nothing may come of a route that asked for no
/// right: that is a defect, and closed.
pub(crate) fn watched(app: &App, asker: &Asker, response: Response) -> Response {
    // A call that failed before its handler, as one of an unknown method does, has shown nothing either.
    let failed_call = || response.headers().get("grpc-status").is_some_and(|status| status != "0");
    if response.status().is_success() && asker.asked().is_none() && !failed_call() {
        let error = AppError::new(ErrorKind::Internal, "the route names no right");
        return Refused(error.hint("this is a defect")).into_response();
    }
    if !asker.principal.may_lose_rights() {
        return response;
    }
    let content_type = response.headers().get(header::CONTENT_TYPE).map_or(&b""[..], |value| value.as_bytes());
    let protocol = match content_type {
        _ if content_type.starts_with(b"text/event-stream") => Protocol::Events,
        _ if content_type.starts_with(b"application/grpc") => Protocol::Grpc,
        _ => return response,
    };
    let (app, asker) = (app.clone(), asker.clone());
    response.map(|body| {
        let checks = interval_at(Instant::now() + Principal::CHECKED_EVERY, Principal::CHECKED_EVERY);
        Body::new(Watched { body: Some(body), app, asker, checks, protocol })
    })
}

#[derive(Debug, Clone, Copy)]
enum Protocol {
    Events,
    Grpc,
}

/// The body of an answer that goes on for long.
struct Watched {
    /// `None` once it was ended.
    body: Option<Body>,
    app: App,
    asker: Asker,
    checks: Interval,
    protocol: Protocol,
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        while this.checks.poll_tick(context).is_ready() {
            if this.body.is_some() && !this.asker.holds(&this.app) {
                // What it reads from goes with it.
                this.body = None;
                return Poll::Ready(match this.protocol {
                    Protocol::Events => None,
                    Protocol::Grpc => Some(Ok(Frame::trailers(unauthenticated()))),
                });
            }
        }
        match &mut this.body {
            Some(body) => Pin::new(body).poll_frame(context),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }
}

fn unauthenticated() -> HeaderMap {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from(tonic::Code::Unauthenticated as i32));
    trailers.insert("grpc-message", HeaderValue::from_static("the credential does not count any more"));
    trailers
}
