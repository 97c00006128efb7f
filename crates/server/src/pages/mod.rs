//! The dashboard: HTML over the same use cases as REST, with the same rights.
//!
//! A page asks for its right as a route of REST does, shows what the use case answers, and offers only what its viewer may do.
//! Buttons are forms; what they send passes the same guard as every other request. Somebody in a browser has a session in a
//! cookie that counts for these routes alone, so REST needs no protection from forged requests.

mod actions;
mod cookies;
mod forms;
mod jobs;
mod machines;
mod overview;
mod records;
mod sessions;
#[cfg(test)]
mod tests;
mod viewer;
mod work;

use axum::Router;
use axum::body::Body;
use axum::extract::{MatchedPath, Request};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use punctual_api::Problem;
use punctual_app::App;
use punctual_dashboard::{Page, url_escaped};

use crate::problem::Refused;
use crate::{events, logs};

pub(crate) use cookies::{cookie, credential, namespace};
pub(crate) use sessions::WrongLogin;

type Answer = Result<Response, Refused>;

/// A page or a button of one.
pub(crate) struct PageRoute {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    /// What the audit log calls it: for a button, the operation of REST that does the same.
    pub(crate) operation: &'static str,
    handler: fn() -> MethodRouter<App>,
}

const fn page(path: &'static str, operation: &'static str, handler: fn() -> MethodRouter<App>) -> PageRoute {
    PageRoute { method: Method::GET, path, operation, handler }
}

const fn button(path: &'static str, operation: &'static str, handler: fn() -> MethodRouter<App>) -> PageRoute {
    PageRoute { method: Method::POST, path, operation, handler }
}

/// All of them. The matrix of the tests has a right for each operation.
pub(crate) const ROUTES: &[PageRoute] = &[
    page("/", "view_overview", || get(overview::overview)),
    page("/find", "find", || get(jobs::find)),
    page("/jobs", "view_jobs", || get(jobs::jobs)),
    page("/jobs/new", "view_job_form", || get(forms::new_job)),
    page("/jobs/{id}", "view_job", || get(jobs::job)),
    page("/jobs/{id}/log", "get_log_lines", || get(logs::read_lines)),
    page("/jobs/{id}/log.txt", "get_logs", || get(jobs::log_file)),
    page("/jobs/{id}/events", "watch_job", || get(events::of_job)),
    page("/events", "watch_jobs", || get(events::all)),
    page("/tasks", "view_tasks", || get(work::tasks)),
    page("/tasks/{name}", "view_task", || get(work::task)),
    page("/schedules", "view_schedules", || get(work::schedules)),
    page("/schedules/new", "view_schedule_form", || get(forms::new_schedule)),
    page("/schedules/{name}", "view_schedule", || get(work::schedule)),
    page("/schedules/{name}/edit", "view_schedule_edit", || get(forms::edit_schedule)),
    page("/workflows", "view_workflows", || get(work::workflows)),
    page("/workflows/{name}", "view_workflow", || get(work::workflow)),
    page("/runs", "view_runs", || get(work::runs)),
    page("/runs/{id}", "view_run", || get(work::run)),
    page("/queues", "view_queues", || get(machines::queues)),
    page("/workers", "view_workers", || get(machines::workers)),
    page("/cluster", "view_cluster", || get(machines::cluster)),
    page("/notifications", "view_notifications", || get(records::notifications)),
    page("/artifacts", "view_artifacts", || get(records::artifacts)),
    page("/secrets", "view_secrets", || get(records::secrets)),
    page("/keys", "view_keys", || get(records::keys)),
    page("/people", "view_people", || get(records::people)),
    page("/namespaces", "view_namespaces", || get(records::namespaces)),
    page("/audit", "view_audit", || get(records::audit)),
    page("/login", "view_login", || get(sessions::form)),
    page("/assets/{name}", "view_asset", || get(overview::asset)),
    button("/login", "login", || post(sessions::login)),
    button("/logout", "log_out", || post(sessions::logout)),
    button("/preferences", "set_preferences", || post(sessions::preferences)),
    button("/jobs/new", "create_job", || post(forms::create_job)),
    button("/jobs/preview", "preview_job", || post(forms::preview_job)),
    button("/jobs/{id}/cancel", "cancel_job", || post(actions::cancel_job)),
    button("/jobs/{id}/delete", "delete_job", || post(actions::delete_job)),
    button("/jobs/{id}/retry", "retry_job", || post(actions::retry_job)),
    button("/jobs/{id}/run", "run_job_now", || post(actions::run_job_now)),
    button("/queues/{name}/pause", "pause_queue", || post(actions::pause_queue)),
    button("/queues/{name}/resume", "resume_queue", || post(actions::resume_queue)),
    button("/queues/{name}/drain", "drain_queue", || post(actions::drain_queue)),
    button("/schedules/new", "apply_schedule", || post(forms::create_schedule)),
    button("/schedules/preview", "preview", || post(forms::preview_schedule)),
    button("/schedules/{name}/edit", "apply_schedule", || post(forms::save_schedule)),
    button("/schedules/{name}/pause", "pause_schedule", || post(actions::pause_schedule)),
    button("/schedules/{name}/resume", "resume_schedule", || post(actions::resume_schedule)),
    button("/schedules/{name}/run", "run_schedule", || post(actions::run_schedule)),
    button("/schedules/{name}/skip", "skip_schedule", || post(actions::skip_schedule)),
    button("/workflows/{name}/run", "create_run", || post(actions::run_workflow)),
    button("/runs/{id}/cancel", "cancel_run", || post(actions::cancel_run)),
    button("/runs/{id}/resume", "resume_run", || post(actions::resume_run)),
    button("/runs/{id}/rerun", "rerun", || post(actions::rerun)),
    button("/runs/{id}/nodes/{node}/approve", "decide_gate", || post(actions::approve)),
    button("/runs/{id}/nodes/{node}/reject", "decide_gate", || post(actions::reject)),
    button("/secrets", "set_secret", || post(records::set_secret)),
];

/// The pages that read many rows; they are made where lists are.
const LISTS: [&str; 12] = [
    "/",
    "/jobs",
    "/tasks",
    "/schedules",
    "/workflows",
    "/runs",
    "/queues",
    "/notifications",
    "/artifacts",
    "/keys",
    "/people",
    "/audit",
];
/// What has lists in it, below an address of one thing.
const LISTS_BELOW: [&str; 3] = ["/schedules/", "/tasks/", "/workflows/"];

/// Routes that are open to everybody: somebody who is nobody yet must be able to log in.
pub(crate) const OPEN: [&str; 2] = ["/login", "/assets/{name}"];

/// Two routes of one path are one route with two methods.
pub(crate) fn routes() -> Router<App> {
    ROUTES.iter().fold(Router::new(), |router, route| router.route(route.path, (route.handler)()))
}

pub(crate) fn is_list(path: &str) -> bool {
    LISTS.contains(&path) || LISTS_BELOW.iter().any(|above| path.starts_with(above))
}

/// The operation of a page or a button.
pub(crate) fn operation(method: &Method, route: &str) -> Option<&'static str> {
    let found = ROUTES.iter().find(|known| known.method == *method && known.path == route);
    found.map(|route| route.operation)
}

/// Whether the router found one of these routes for the request.
pub(crate) fn is_of_page(request: &Request) -> bool {
    let route = request.extensions().get::<MatchedPath>();
    route.is_some_and(|route| ROUTES.iter().any(|known| known.path == route.as_str()))
}

/// A page may be opened from a link in a mail or a chat. It changes nothing, and no other page can read it or put it in a frame.
pub(crate) fn is_visit(request: &Request) -> bool {
    let is = |name: &str, value: &str| request.headers().get(name).is_some_and(|found| found == value);
    request.method() == Method::GET
        && is_of_page(request)
        && is("sec-fetch-mode", "navigate")
        && is("sec-fetch-dest", "document")
}

/// Whether whoever asks would rather read a page than JSON.
pub(crate) fn wants_page(request: &Request) -> bool {
    let accepts = request.headers().get(header::ACCEPT).and_then(|value| value.to_str().ok());
    !request.uri().path().starts_with("/v1/") && accepts.is_some_and(|accepts| accepts.contains("text/html"))
}

/// What went wrong, as a page. Somebody who is nobody is sent to log in, and comes back.
pub(crate) fn refusal(problem: &Problem, method: &Method, address: &str) -> Response {
    let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if status == StatusCode::UNAUTHORIZED && address != "/login" {
        let next = if *method == Method::GET { address } else { "/" };
        return see(&format!("/login?next={}", url_escaped(next)));
    }
    let mut response = answer(punctual_dashboard::problem(problem));
    *response.status_mut() = status;
    response
}

/// A page on its way out. Where browsers reach this server is known at the guard.
#[derive(Clone)]
struct Outgoing(Page);

/// The answer leads to a page of this server.
#[derive(Clone)]
struct OwnLocation(String);

/// A page, with what keeps it from being read or framed by others.
fn answer(page: Page) -> Response {
    let mut response = Response::new(Body::empty());
    response.extensions_mut().insert(Outgoing(page));
    set_headers(response.headers_mut());
    response
}

fn set_headers(headers: &mut HeaderMap) {
    let mut set = |name, value| headers.insert(name, HeaderValue::from_static(value));
    set(header::CONTENT_TYPE, "text/html; charset=utf-8");
    set(header::CACHE_CONTROL, "no-store");
    set(header::REFERRER_POLICY, "same-origin");
    set(header::CONTENT_SECURITY_POLICY, punctual_dashboard::CONTENT_SECURITY_POLICY);
    set(header::X_FRAME_OPTIONS, "DENY");
    set(header::HeaderName::from_static("cross-origin-opener-policy"), "same-origin");
    set(header::HeaderName::from_static("cross-origin-resource-policy"), "same-origin");
}

/// To another page of this server.
fn see(address: &str) -> Response {
    let mut response = StatusCode::SEE_OTHER.into_response();
    response.extensions_mut().insert(OwnLocation(address.to_owned()));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The path of an address, such as `/punctual`; empty if it has none.
pub(crate) fn path_of(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.find('/').map(|at| rest[at..].trim_end_matches('/').to_owned()).unwrap_or_default()
}

/// Writes addresses of this server as browsers reach them, below `path`.
pub(crate) fn finish(response: Response, path: &str) -> Response {
    let (mut parts, body) = response.into_parts();
    if let Some(OwnLocation(address)) = parts.extensions.remove::<OwnLocation>() {
        let location = HeaderValue::try_from(format!("{path}{address}")).unwrap_or(HeaderValue::from_static("/"));
        parts.headers.insert(header::LOCATION, location);
    }
    match parts.extensions.remove::<Outgoing>() {
        Some(Outgoing(page)) => {
            parts.headers.remove(header::CONTENT_LENGTH);
            Response::from_parts(parts, Body::from(page.below(path)))
        }
        None => Response::from_parts(parts, body),
    }
}

#[cfg(test)]
mod route_tests {
    use super::*;

    #[test]
    fn the_path_of_an_address_is_what_follows_the_host() {
        for (url, path) in
            [("http://a:80", ""), ("https://a/", ""), ("https://a/punctual", "/punctual"), ("https://a/b/c/", "/b/c")]
        {
            assert_eq!(path_of(url), path, "{url}");
        }
    }

    #[test]
    fn no_two_routes_are_the_same() {
        for (index, route) in ROUTES.iter().enumerate() {
            let same =
                ROUTES.iter().skip(index + 1).find(|other| other.path == route.path && other.method == route.method);
            assert!(same.is_none(), "{} {}", route.method, route.path);
        }
    }
}
