//! REST, server-sent events and gRPC on one port: parse, call one method of the
//! app, map the answer.
//!
//! Without TLS nothing but loopback is served, except to proxies that were named; see [`network`]. On loopback the server's own
//! user and root need no credential, and everybody else needs one; see [`access`]. A web page in the user's browser cannot reach
//! it either; see [`guard`].

mod access;
mod agent;
mod answers;
mod artifacts;
mod audit;
mod audited;
mod authority;
mod backfills;
mod batches;
mod bodies;
mod by_name;
mod calendars;
mod cluster_secret;
mod conditions;
mod connections;
mod document;
mod enrolment_service;
mod enrolments;
mod events;
mod grpc;
mod guard;
mod handshakes;
mod health;
mod identities;
mod jobs;
mod lists;
mod logs;
#[cfg(test)]
mod matrix;
mod misfits;
mod namespaces;
mod network;
mod nodes;
mod not_tls;
mod notifications;
mod oidc;
mod outgoing;
mod pages;
mod parameters;
mod parse;
mod permit;
mod problem;
mod proxies;
mod queues;
mod range;
mod rates;
mod request_id;
mod schedules;
mod secrets;
mod serve;
mod socket_owner;
mod streams;
mod submitted_json;
mod tasks;
mod unabandoned;
mod worker_stream;
mod workflows;

use std::sync::LazyLock;

use axum::Router;
use axum::response::{IntoResponse, Response};
use axum::routing::post_service;
use punctual_api::ErrorKind;
use punctual_app::{App, AppError};
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub use health::starting;
pub use network::Network;
pub use proxies::Proxies;
pub use serve::serve;
pub use socket_owner::listening_user;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Punctual",
        description = "A task scheduler: tasks at arbitrary times, once and on time. \
                       Errors are application/problem+json (RFC 9457) with a stable `code` and a `hint`. \
                       A request may write a duration in ISO 8601 (`PT1M30S`), as text (`90s`, `1h30m`) or as a \
                       number of seconds; responses write ISO 8601."
    ),
    components(schemas(punctual_api::Problem, punctual_api::JobChange))
)]
struct Document;

fn api() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(tasks::list, tasks::create))
        .routes(routes!(tasks::read, tasks::put, tasks::delete))
        .routes(routes!(artifacts::list, artifacts::create))
        .routes(routes!(artifacts::read, artifacts::delete))
        .routes(routes!(artifacts::download, artifacts::upload))
        .routes(routes!(jobs::list, jobs::submit))
        .routes(routes!(jobs::submit_bulk))
        .routes(routes!(jobs::read, jobs::delete))
        .routes(routes!(jobs::cancel))
        .routes(routes!(jobs::retry))
        .routes(routes!(jobs::run_now))
        .routes(routes!(schedules::list, schedules::create))
        .routes(routes!(schedules::create_bulk))
        .routes(routes!(schedules::preview_new))
        .routes(routes!(schedules::forecast))
        .routes(routes!(schedules::read, schedules::put, schedules::delete))
        .routes(routes!(schedules::pause))
        .routes(routes!(schedules::resume))
        .routes(routes!(schedules::skip))
        .routes(routes!(schedules::run))
        .routes(routes!(schedules::clear_queue))
        .routes(routes!(schedules::occurrences))
        .routes(routes!(schedules::preview))
        .routes(routes!(backfills::start))
        .routes(routes!(backfills::list))
        .routes(routes!(backfills::read))
        .routes(routes!(backfills::runs))
        .routes(routes!(backfills::abort))
        .routes(routes!(batches::list, batches::create))
        .routes(routes!(batches::read))
        .routes(routes!(batches::members))
        .routes(routes!(batches::cancel))
        .routes(routes!(workflows::list))
        .routes(routes!(workflows::read, workflows::put))
        .routes(routes!(workflows::start))
        .routes(routes!(workflows::list_runs))
        .routes(routes!(workflows::read_run))
        .routes(routes!(workflows::cancel))
        .routes(routes!(workflows::resume))
        .routes(routes!(workflows::rerun))
        .routes(routes!(workflows::skip))
        .routes(routes!(workflows::decide))
        .routes(routes!(workflows::send_event))
        .routes(routes!(calendars::list))
        .routes(routes!(calendars::read, calendars::put, calendars::delete))
        .routes(routes!(queues::list))
        .routes(routes!(queues::read, queues::put))
        .routes(routes!(queues::pause))
        .routes(routes!(queues::resume))
        .routes(routes!(queues::drain))
        .routes(routes!(secrets::list))
        .routes(routes!(secrets::put, secrets::delete))
        .routes(routes!(secrets::rotate_root_key))
        .routes(routes!(secrets::rotate_data_key))
        .routes(routes!(notifications::list))
        .routes(routes!(notifications::preview))
        .routes(routes!(notifications::read, notifications::put, notifications::delete))
        .routes(routes!(notifications::test))
        .routes(routes!(notifications::deliveries_of))
        .routes(routes!(notifications::deliveries))
        .routes(routes!(notifications::overdue))
        .routes(routes!(logs::read))
        .routes(routes!(logs::read_lines))
        .routes(routes!(events::of_job))
        .routes(routes!(events::all))
        .routes(routes!(agent::work))
        .routes(routes!(agent::heartbeat))
        .routes(routes!(agent::logs))
        .routes(routes!(agent::outcome))
        .routes(routes!(audit::list))
        .routes(routes!(audit::export))
        .routes(routes!(identities::list_keys, identities::create_key))
        .routes(routes!(identities::read_key, identities::revoke_key))
        .routes(routes!(identities::rotate_key))
        .routes(routes!(identities::list_users, identities::create_user))
        .routes(routes!(identities::read_user, identities::edit_user, identities::delete_user))
        .routes(routes!(identities::set_password))
        .routes(routes!(identities::list_sessions, identities::login))
        .routes(routes!(identities::end_session))
        .routes(routes!(identities::whoami))
        .routes(routes!(oidc::start))
        .routes(routes!(oidc::callback))
        .routes(routes!(oidc::exchange))
        .routes(routes!(oidc::begin_device))
        .routes(routes!(oidc::poll_device))
        .routes(routes!(namespaces::list, namespaces::create))
        .routes(routes!(namespaces::read, namespaces::edit, namespaces::delete))
        .routes(routes!(nodes::workers))
        .routes(routes!(enrolments::list_tokens, enrolments::create_token))
        .routes(routes!(enrolments::edit_token, enrolments::delete_token))
        .routes(routes!(enrolments::list))
        .routes(routes!(enrolments::edit, enrolments::revoke))
        .routes(routes!(nodes::servers))
        .routes(routes!(nodes::server))
        .routes(routes!(nodes::stats))
        .routes(routes!(authority::read))
        .routes(routes!(authority::rotate))
        .routes(routes!(cluster_secret::read))
        .routes(routes!(cluster_secret::rotate))
        .routes(routes!(cluster_secret::retire))
        .routes(routes!(health::live))
        .routes(routes!(health::ready))
        .routes(routes!(health::problem))
        .routes(routes!(served_document))
}

/// The interface as an OpenAPI 3.1 document.
fn openapi() -> serde_json::Value {
    let made = serde_json::to_value(api().into_openapi()).expect("the document is JSON");
    document::complete(made)
}

/// This document.
#[utoipa::path(get, path = "/openapi.json", operation_id = "get_openapi", tag = "health", responses(
    (status = 200, description = "The document", body = Object, content_type = "application/json"),
    problem::Problems,
))]
async fn served_document(_: permit::Anybody, _: parse::NoParams) -> Response {
    static DOCUMENT: LazyLock<String> = LazyLock::new(|| format!("{:#}", openapi()));
    ([(http::header::CONTENT_TYPE, "application/json")], DOCUMENT.as_str()).into_response()
}

/// Whether the REST interface is served. Workers and peers are in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    Served,
    /// Only the probes are, for those who watch the process, and signed addresses of files.
    ProbesOnly,
}

/// Everything that is served, behind the guard. Of each kind of call that workers and peers make, at most
/// `grpc_streams_max` are under way at a time.
pub fn router(app: App, rest: Rest, network: Network, grpc_streams_max: usize) -> Router {
    let api = match rest {
        Rest::Served => api(),
        Rest::ProbesOnly => OpenApiRouter::new()
            .routes(routes!(health::live))
            .routes(routes!(health::ready))
            // Workers fetch files where they got their jobs, and their agents report there.
            .routes(routes!(artifacts::download, artifacts::upload))
            .routes(routes!(agent::work))
            .routes(routes!(agent::heartbeat))
            .routes(routes!(agent::logs))
            .routes(routes!(agent::outcome)),
    };
    let (api, _) = api.split_for_parts();
    let api = match rest {
        Rest::Served => api.merge(pages::routes()),
        Rest::ProbesOnly => api,
    };
    let router = api
        .route("/punctual.worker.v1.Worker/{method}", post_service(grpc::service(app.clone())))
        .route(enrolment_service::JOIN, post_service(enrolment_service::service(app.clone())))
        .route(enrolment_service::RENEW, post_service(enrolment_service::service(app.clone())))
        .route("/punctual.peer.v1.Peer/{method}", post_service(punctual_peers::service(app.clone())))
        .fallback(move || async move {
            let error = match rest {
                Rest::Served => AppError::new(ErrorKind::NotFound, "there is nothing at this address")
                    .hint("GET /openapi.json describes what there is"),
                Rest::ProbesOnly => AppError::new(ErrorKind::NotServedHere, "this server has no role api")
                    .hint("ask a server that has it; here are only /livez and /readyz"),
            };
            problem::Refused(error)
        })
        .method_not_allowed_fallback(|| async {
            let error = AppError::new(ErrorKind::MethodNotAllowed, "this address does not take this method");
            problem::Refused(error.hint("the header `Allow` of this answer lists those that it takes"))
        });
    guard::wrap(router.with_state(app.clone()), app, network, grpc_streams_max)
}
