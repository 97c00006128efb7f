//! Establishes on whose behalf a request is made, for REST and gRPC alike.
//!
//! The app decides ([`App::authenticate`]); this says what the transport knows: whose socket it is, and the token. A new kind
//! of credential is read here and judged there.

use axum::extract::{MatchedPath, Request};
use axum::response::{IntoResponse, Response};
use http::header;
use punctual_app::{App, AppError, SocketUser};
use tonic::Status;

use crate::problem::Refused;

/// Routes that need no [`punctual_app::Caller`], by what the router matched.
pub(crate) const OPEN: [&str; 9] = [
    // These say nothing about what is stored. Whoever watches the process has no credential.
    "/livez",
    "/readyz",
    "/problems/{code}",
    // The token of the attempt is checked by `agent::Agent`.
    "/v1/agent/{job}/{attempt}",
    "/v1/agent/{job}/{attempt}/heartbeat",
    "/v1/agent/{job}/{attempt}/logs",
    "/v1/agent/{job}/{attempt}/outcome",
    // The signature of the address is checked by the storage.
    "/v1/artifacts/{id}/content",
    // The proof of the cluster's secret is checked by `punctual_peers::PeerService`.
    "/punctual.peer.v1.Peer/{method}",
];

/// Headers of proxies. The kernel knows the user of the proxy, and not the one that it speaks for.
const FORWARDED: [&str; 4] = ["forwarded", "via", "x-forwarded-for", "x-real-ip"];

/// Adds the caller to the request.
pub(crate) fn establish(app: &App, request: &mut Request) -> Result<(), AppError> {
    let route = request.extensions().get::<MatchedPath>();
    if route.is_some_and(|route| OPEN.contains(&route.as_str())) {
        return Ok(());
    }
    let socket_user = request.extensions().get::<SocketUser>().copied();
    let is_forwarded = FORWARDED.iter().any(|name| request.headers().contains_key(*name));
    let user = socket_user.filter(|_| !is_forwarded).unwrap_or(SocketUser::Unknown);
    let caller = app.authenticate(user, bearer(request))?;
    request.extensions_mut().insert(caller);
    Ok(())
}

fn bearer(request: &Request) -> Option<&str> {
    let value = request.headers().get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ').unwrap_or((value, ""));
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// The refusal in the words of the request's protocol.
pub(crate) fn refusal(error: AppError, request: &Request) -> Response {
    let is_grpc = request.headers().get(header::CONTENT_TYPE);
    let is_grpc = is_grpc.is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"));
    if !is_grpc || error.kind.http_status() != 401 {
        return Refused(error).into_response();
    }
    let AppError { detail, hint, .. } = error;
    Status::unauthenticated(hint.map_or_else(|| detail.clone(), |hint| format!("{detail}; {hint}"))).into_http()
}
