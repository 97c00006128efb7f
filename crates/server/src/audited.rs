//! Writes down in the audit log what requests changed, and what was refused.
//!
//! Here and not in each handler, so that no route can be left out. What only the use case knows comes with its notes.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::LazyLock;
use std::time::Duration;

use axum::extract::{MatchedPath, Request};
use axum::response::Response;
use http::{Method, StatusCode, Uri};
use punctual_api::ErrorKind;
use punctual_app::{App, AuditEvent, Throttle, Transport};

use crate::pages;
use crate::permit::Asker;
use crate::problem::Refused;

/// Operations without a line. Jobs are on record by themselves, and submitting them is what must be fast; the others change
/// nothing.
pub(crate) const LEFT_OUT: [&str; 6] =
    ["create_job", "create_jobs", "preview", "preview_job", "preview_notification", "set_preferences"];

/// The routes of submissions, by POST. Nothing is looked up for them.
const SUBMISSIONS: [&str; 2] = ["/v1/jobs", "/v1/jobs/bulk"];

/// A dry run is answered with 200, a backfill with 201.
const DRY_RUN: (&str, StatusCode) = ("create_backfill", StatusCode::OK);

/// The `operationId` of each method and route.
static OPERATIONS: LazyLock<HashMap<(String, String), String>> = LazyLock::new(|| {
    let document = serde_json::to_value(crate::api().into_openapi()).expect("the document is JSON");
    let paths = document["paths"].as_object().cloned().unwrap_or_default();
    let operations = paths.iter().flat_map(|(path, methods)| {
        let methods = methods.as_object().cloned().unwrap_or_default();
        methods.into_iter().filter_map(move |(method, operation)| {
            let id = operation["operationId"].as_str()?.to_owned();
            Some(((method.to_uppercase(), path.clone()), id))
        })
    });
    operations.collect()
});

/// What keeps the log from being written fails the requests, too. One line in so many seconds says so.
static FAILED: Throttle = Throttle::new(Duration::from_secs(10));

/// What a line about a request needs of it.
#[derive(Clone)]
pub(crate) struct Audited {
    app: App,
    asker: Option<Asker>,
    address: Option<IpAddr>,
    method: Method,
    route: Option<MatchedPath>,
    uri: Uri,
}

impl Audited {
    pub(crate) fn of(app: &App, asker: Option<Asker>, request: &Request) -> Self {
        Self {
            app: app.clone(),
            asker,
            address: request.extensions().get::<Transport>().and_then(|transport| transport.address),
            method: request.method().clone(),
            route: request.extensions().get::<MatchedPath>().cloned(),
            uri: request.uri().clone(),
        }
    }

    pub(crate) fn method(&self) -> &Method {
        &self.method
    }

    pub(crate) fn path(&self) -> &str {
        self.uri.path()
    }

    /// Path and query.
    pub(crate) fn address(&self) -> String {
        self.uri.path_and_query().map_or("/", |address| address.as_str()).to_owned()
    }

    /// Whether the request submits jobs, which are on record by themselves.
    pub(crate) fn is_submission(&self) -> bool {
        self.method == Method::POST && self.route.as_ref().is_some_and(|route| SUBMISSIONS.contains(&route.as_str()))
    }

    /// After a request that may have changed something, and before it is answered.
    pub(crate) async fn changed(&self, status: StatusCode, error: Option<ErrorKind>) {
        let Some(asker) = &self.asker else { return };
        let action = self.action();
        if !status.is_success() && !status.is_server_error()
            || LEFT_OUT.contains(&action.as_str())
            || (action.as_str(), status) == DRY_RUN
        {
            return;
        }
        // Of a request that failed nobody may know what it changed.
        let outcome = error.map_or(AuditEvent::DONE, ErrorKind::code);
        let (object, before) = asker.notes.take();
        let object = object.or_else(|| self.object());
        let event = asker.placed(AuditEvent::new(&asker.principal, action, outcome));
        let event = event.object(object.as_deref()).before(before.as_deref());
        let Err(error) = self.app.record(event.clone()).await else { return };
        if status.is_success() {
            tracing::error!(%error, ?event, "a change is missing in the audit log");
        } else if let Some(left_out) = FAILED.pass() {
            tracing::warn!(%error, ?event, left_out, "a request that failed is missing in the audit log");
        }
    }

    /// After a request was answered. Nobody waits for the line.
    pub(crate) fn answered(&self, error: Option<ErrorKind>) {
        // The answers to calls do not carry the error.
        let forbidden = self.asker.as_ref().filter(|asker| asker.was_refused()).map(|_| ErrorKind::Forbidden);
        let Some(kind) = error.or(forbidden) else { return };
        let (action, object) = (self.action(), self.object());
        let event = match (&self.asker, kind) {
            // A signed address or the token of an attempt that does not count.
            (None, ErrorKind::Forbidden) => AuditEvent::by_nobody(self.address, action, kind.code()),
            (Some(asker), ErrorKind::Forbidden) => asker.placed(AuditEvent::new(&asker.principal, action, kind.code())),
            (
                _,
                ErrorKind::Unauthenticated
                | ErrorKind::InvalidToken
                | ErrorKind::CredentialExpired
                | ErrorKind::CredentialRevoked
                | ErrorKind::LoginFailed
                | ErrorKind::TooManyLogins
                | ErrorKind::ForbiddenHost
                | ErrorKind::ForbiddenOrigin
                | ErrorKind::BadSignature
                | ErrorKind::UrlExpired
                | ErrorKind::WorkerRevoked
                | ErrorKind::WorkerNotEnrolled,
            ) => AuditEvent::by_nobody(self.address, action, kind.code()),
            _ => return,
        };
        let (app, event) = (self.app.clone(), event.object(object.as_deref()));
        tokio::spawn(async move { app.record_refusal(event).await });
    }

    /// The operation's id; of a call, its name; of what is none of these, `unknown`.
    fn action(&self) -> String {
        let Some(route) = &self.route else { return "unknown".to_owned() };
        // HEAD is answered as GET is.
        let method = if self.method == Method::HEAD { &Method::GET } else { &self.method };
        let key = (method.as_str().to_owned(), route.as_str().to_owned());
        if let Some(operation) = pages::operation(method, route.as_str()) {
            return operation.to_owned();
        }
        match OPERATIONS.get(&key) {
            Some(operation) => operation.clone(),
            None if crate::streams::is_call(self.path()) => {
                self.path().trim_start_matches('/').chars().take(CALL_CHARS_MAX).collect()
            }
            None => "unknown".to_owned(),
        }
    }

    /// What the path names, such as the name of a task.
    fn object(&self) -> Option<String> {
        let route = self.route.as_ref()?;
        if crate::streams::is_call(self.path()) {
            return None;
        }
        let named = route.as_str().split('/').zip(self.path().split('/'));
        let named: Vec<&str> = named.filter(|(part, _)| part.starts_with('{')).map(|(_, value)| value).collect();
        (!named.is_empty()).then(|| named.join("/"))
    }
}

const CALL_CHARS_MAX: usize = 64;

/// What a request failed with, while its answer is not written yet.
pub(crate) fn error_kind(response: &Response) -> Option<ErrorKind> {
    response.extensions().get::<Refused>().map(|Refused(error)| error.kind)
}
