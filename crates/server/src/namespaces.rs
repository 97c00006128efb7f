//! Namespaces: the tenants of the cluster.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use punctual_api::{NamespaceEdit, NamespaceList, NamespaceRequest, NamespaceView};
use punctual_app::App;
use punctual_app::permission::ManageNamespaces;

use crate::conditions::{When, tagged};
use crate::parse::{Json, Name, NoParams};
use crate::permit::{Anybody, Permit};
use crate::problem::{Problems, Refused};

/// Lists the namespaces in which whoever asks has a right, in order of their names.
#[utoipa::path(get, path = "/v1/namespaces", operation_id = "list_namespaces", tag = "namespaces", responses(
    (status = 200, description = "The namespaces", body = NamespaceList),
    Problems,
))]
pub(crate) async fn list(
    Anybody(principal): Anybody,
    State(app): State<App>,
    _: NoParams,
) -> Result<Response, Refused> {
    Ok(axum::Json(app.list_namespaces(&principal).await?).into_response())
}

/// Creates a namespace. It is empty, and nobody but those with a role for the cluster has a right in it.
#[utoipa::path(post, path = "/v1/namespaces", operation_id = "create_namespace", tag = "namespaces", request_body = NamespaceRequest, responses(
    (status = 201, description = "The namespace", body = NamespaceView),
    Problems,
))]
pub(crate) async fn create(
    Permit(by): Permit<ManageNamespaces>,
    State(app): State<App>,
    _: NoParams,
    Json { value: request, .. }: Json<NamespaceRequest>,
) -> Result<Response, Refused> {
    Ok(answer(StatusCode::CREATED, app.create_namespace(&by, request).await?))
}

/// Reads a namespace. One in which whoever asks has no right is not there.
#[utoipa::path(get, path = "/v1/namespaces/{name}", operation_id = "get_namespace", tag = "namespaces",
    params(("name" = String, Path), ("If-None-Match" = Option<String>, Header)), responses(
    (status = 200, description = "The namespace", body = NamespaceView),
    (status = 304, description = "The namespace is as the `ETag` says"),
    Problems,
))]
pub(crate) async fn read(
    Anybody(principal): Anybody,
    State(app): State<App>,
    Name(name): Name,
    _: NoParams,
) -> Result<Response, Refused> {
    Ok(answer(StatusCode::OK, app.namespace(&principal, &name).await?))
}

/// Changes what is written about a namespace. Its name never changes.
#[utoipa::path(patch, path = "/v1/namespaces/{name}", operation_id = "edit_namespace", tag = "namespaces",
    params(("name" = String, Path), ("If-Match" = Option<String>, Header)), request_body = NamespaceEdit, responses(
    (status = 200, description = "The namespace as it is now", body = NamespaceView),
    Problems,
))]
pub(crate) async fn edit(
    Permit(by): Permit<ManageNamespaces>,
    State(app): State<App>,
    Name(name): Name,
    _: NoParams,
    When(when): When,
    Json { value: edit, .. }: Json<NamespaceEdit>,
) -> Result<Response, Refused> {
    Ok(answer(StatusCode::OK, app.edit_namespace(&by, &name, edit, when).await?))
}

/// Deletes a namespace in which there is nothing but history. What is still in it is named in the refusal.
#[utoipa::path(delete, path = "/v1/namespaces/{name}", operation_id = "delete_namespace", tag = "namespaces",
    params(("name" = String, Path), ("If-Match" = Option<String>, Header)), responses(
    (status = 204, description = "The namespace is gone"),
    Problems,
))]
pub(crate) async fn delete(
    Permit(by): Permit<ManageNamespaces>,
    State(app): State<App>,
    Name(name): Name,
    _: NoParams,
    When(when): When,
) -> Result<StatusCode, Refused> {
    app.delete_namespace(&by, &name, when).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn answer(status: StatusCode, namespace: NamespaceView) -> Response {
    tagged(status, namespace.revision, &namespace)
}
