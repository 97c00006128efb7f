//! Probes for those who watch the process.

use axum::extract::State;
use punctual_app::App;

use crate::problem::{Problems, Refused};

/// The process answers. Asks nobody else.
#[utoipa::path(get, path = "/livez", operation_id = "live", tag = "health", responses(
    (status = 200, description = "It is", body = String, content_type = "text/plain"),
    Problems,
))]
pub(crate) async fn live() -> &'static str {
    "ok"
}

/// The engine runs and the store answers.
#[utoipa::path(get, path = "/readyz", operation_id = "ready", tag = "health", responses(
    (status = 200, description = "It is", body = String, content_type = "text/plain"),
    Problems,
))]
pub(crate) async fn ready(State(app): State<App>) -> Result<&'static str, Refused> {
    app.ready().await?;
    Ok("ok")
}
