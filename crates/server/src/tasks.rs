//! Tasks.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use punctual_api::{TaskList, TaskQuery, TaskRequest, TaskView};
use punctual_app::permission::{EditTasks, ViewTasks};
use punctual_app::{App, Defined, GivenPolicies};
use punctual_core::task::TaskSpec;

use crate::conditions::{When, tagged};
use crate::parse::{Json, Name, NoParams, Params};
use crate::permit::Permit;
use crate::problem::{Problems, Refused};

/// Lists tasks in order of their names.
#[utoipa::path(get, path = "/v1/tasks", operation_id = "list_tasks", tag = "tasks", params(TaskQuery), responses(
    (status = 200, description = "A page of tasks", body = TaskList),
    Problems,
))]
pub(crate) async fn list(
    Permit(by): Permit<ViewTasks>,
    State(app): State<App>,
    Params(query): Params<TaskQuery>,
) -> Result<Response, Refused> {
    Ok(axum::Json(app.list_tasks(&by, &query).await?).into_response())
}

/// Defines a task that does not exist yet.
#[utoipa::path(post, path = "/v1/tasks", operation_id = "create_task", tag = "tasks", request_body = TaskRequest, responses(
    (status = 201, description = "The task is defined", body = TaskView),
    Problems,
))]
pub(crate) async fn create(
    Permit(by): Permit<EditTasks>,
    State(app): State<App>,
    _: NoParams,
    body: Json<TaskRequest>,
) -> Result<Response, Refused> {
    let TaskRequest { name, spec } = body.value;
    let spec = app.with_queue_defaults(&by, spec, GivenPolicies::of_request(&body.bytes)).await?;
    Ok(answer(StatusCode::CREATED, app.create_task(&by, name, spec).await?))
}

/// Reads a task.
#[utoipa::path(get, path = "/v1/tasks/{name}", operation_id = "get_task", tag = "tasks",
    params(("name" = String, Path), ("If-None-Match" = Option<String>, Header)), responses(
    (status = 200, description = "The task as it is now", body = TaskView),
    (status = 304, description = "The task is as the `ETag` says"),
    Problems,
))]
pub(crate) async fn read(
    Permit(by): Permit<ViewTasks>,
    State(app): State<App>,
    Name(name): Name,
    _: NoParams,
) -> Result<Response, Refused> {
    Ok(answer(StatusCode::OK, app.task(&by, &name).await?))
}

/// Defines a task, or changes the one of this name.
#[utoipa::path(put, path = "/v1/tasks/{name}", operation_id = "apply_task", tag = "tasks",
    params(("name" = String, Path), ("If-Match" = Option<String>, Header), ("If-None-Match" = Option<String>, Header)), request_body = TaskSpec, responses(
    (status = 200, description = "The task as it is now", body = TaskView),
    (status = 201, description = "The task is defined", body = TaskView),
    Problems,
))]
pub(crate) async fn put(
    Permit(by): Permit<EditTasks>,
    State(app): State<App>,
    Name(name): Name,
    _: NoParams,
    When(when): When,
    body: Json<TaskSpec>,
) -> Result<Response, Refused> {
    let spec = app.with_queue_defaults(&by, body.value, GivenPolicies::of_spec(&body.bytes)).await?;
    let (task, defined) = app.put_task(&by, name, spec, when).await?;
    let status = match defined {
        Defined::Created => StatusCode::CREATED,
        Defined::Updated => StatusCode::OK,
    };
    Ok(answer(status, task))
}

/// Deletes a task. Its waiting jobs still run.
#[utoipa::path(delete, path = "/v1/tasks/{name}", operation_id = "delete_task", tag = "tasks",
    params(("name" = String, Path), ("If-Match" = Option<String>, Header)), responses(
    (status = 204, description = "The task is gone"),
    Problems,
))]
pub(crate) async fn delete(
    Permit(by): Permit<EditTasks>,
    State(app): State<App>,
    Name(name): Name,
    _: NoParams,
    When(when): When,
) -> Result<StatusCode, Refused> {
    app.delete_task(&by, &name, when).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn answer(status: StatusCode, task: TaskView) -> Response {
    tagged(status, task.revision, &task)
}
