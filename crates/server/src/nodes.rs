//! Servers and workers.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use punctual_api::{Node, ServerList, Stats, WorkerList, WorkerQuery};
use punctual_app::App;
use punctual_app::permission::{ViewCluster, ViewWorkers};

use crate::parse::{NoParams, Params};
use crate::permit::Permit;
use crate::problem::{Problems, Refused};

/// The workers of all servers, each once. Its slots and what it runs are summed over them.
#[utoipa::path(get, path = "/v1/workers", operation_id = "list_workers", tag = "nodes", params(WorkerQuery), responses(
    (status = 200, description = "The workers", body = WorkerList),
    Problems,
))]
pub(crate) async fn workers(
    Permit(by): Permit<ViewWorkers>,
    State(app): State<App>,
    Params(query): Params<WorkerQuery>,
) -> Result<Response, Refused> {
    Ok(axum::Json(app.workers(&by, &query).await?).into_response())
}

/// The servers of the cluster, with what each owns and does.
#[utoipa::path(get, path = "/v1/servers", operation_id = "list_servers", tag = "nodes", responses(
    (status = 200, description = "The servers", body = ServerList),
    Problems,
))]
pub(crate) async fn servers(
    Permit(by): Permit<ViewCluster>,
    State(app): State<App>,
    _: NoParams,
) -> Result<Response, Refused> {
    Ok(axum::Json(app.servers(&by).await?).into_response())
}

/// The server that answers.
#[utoipa::path(get, path = "/v1/server", operation_id = "get_server", tag = "nodes", responses(
    (status = 200, description = "The server", body = Node),
    Problems,
))]
pub(crate) async fn server(
    Permit(by): Permit<ViewCluster>,
    State(app): State<App>,
    _: NoParams,
) -> Result<Response, Refused> {
    Ok(axum::Json(app.node(&by).await?).into_response())
}

/// What this server has done since it started.
#[utoipa::path(get, path = "/v1/stats", operation_id = "get_stats", tag = "nodes", responses(
    (status = 200, description = "The figures", body = Stats),
    Problems,
))]
pub(crate) async fn stats(
    Permit(by): Permit<ViewCluster>,
    State(app): State<App>,
    _: NoParams,
) -> Result<Response, Refused> {
    Ok(axum::Json(app.stats(&by).await?).into_response())
}
