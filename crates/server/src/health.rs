//! Probes for those who watch the process, and what the codes of problems mean.

use axum::Router;
use axum::extract::State;
use axum::response::IntoResponse;
use axum::routing::get;
use http::{StatusCode, header};
use punctual_api::{ErrorKind, Problem, SERVER_HEADER};
use punctual_app::{App, AppError};
use punctual_core::ServerId;

use crate::parse::{Name, NoParams};
use crate::problem::{Problems, Refused};

/// The process answers. Asks nobody else. The header `Punctual-Server` says which server it is.
#[utoipa::path(get, path = "/livez", operation_id = "live", tag = "health", responses(
    (status = 200, description = "It is", body = String, content_type = "text/plain"),
    Problems,
))]
pub(crate) async fn live(State(app): State<App>) -> impl IntoResponse {
    alive(app.server_id())
}

fn alive(server: ServerId) -> impl IntoResponse + use<> {
    ([(SERVER_HEADER, server.to_string())], "ok")
}

/// All that a server answers while it starts: that it is there, and who it is.
pub fn starting(server: ServerId) -> Router {
    let refused = || async {
        let kind = ErrorKind::Unavailable;
        let problem = Problem {
            type_uri: format!("/problems/{}", kind.code()),
            title: kind.title().to_owned(),
            status: kind.http_status(),
            detail: "the server is starting".to_owned(),
            code: kind.code().to_owned(),
            hint: Some("try again in a second".to_owned()),
            request_id: String::new(),
            retryable: true,
            errors: Vec::new(),
        };
        let json = serde_json::to_string(&problem).expect("a problem is JSON");
        (
            StatusCode::SERVICE_UNAVAILABLE,
            [(header::RETRY_AFTER, "1"), (header::CONTENT_TYPE, "application/problem+json")],
            json,
        )
    };
    Router::new().route("/livez", get(move || async move { alive(server) })).fallback(refused)
}

/// Whether a write would succeed.
///
/// A write was committed within the last second, the leases of this server hold and its clock is right. Otherwise the
/// `code` of the problem says why not: `disk_full`, `database_corrupt`, `database_file_replaced`, `database_read_only`,
/// `database_unavailable` or `unavailable`. One probe a second answers all who ask.
#[utoipa::path(get, path = "/readyz", operation_id = "ready", tag = "health", responses(
    (status = 200, description = "A write would succeed", body = String, content_type = "text/plain"),
    Problems,
))]
pub(crate) async fn ready(State(app): State<App>) -> Result<&'static str, Refused> {
    app.ready().await?;
    Ok("ok")
}

/// What a kind of problem means. Each error answer names this address as its `type`.
#[utoipa::path(get, path = "/problems/{code}", operation_id = "get_problem", tag = "health", params(("code" = String, Path)), responses(
    (status = 200, description = "In words", body = String, content_type = "text/plain"),
    Problems,
))]
pub(crate) async fn problem(Name(code): Name, _: NoParams) -> Result<String, Refused> {
    let kind = ErrorKind::from_code(&code).ok_or_else(|| {
        let codes: Vec<&str> = ErrorKind::ALL.iter().map(|kind| kind.code()).collect();
        AppError::new(ErrorKind::NotFound, "there is no such problem").hint(format!("there are {}", codes.join(", ")))
    })?;
    let again = if kind.is_retryable() { "The same request may succeed later." } else { "Repeating it does not help." };
    let (title, status, exit) = (kind.title(), kind.http_status(), kind.exit_code());
    Ok(format!("{code}: {title}.\nHTTP status {status}; the command line exits with {exit}. {again}\n"))
}
