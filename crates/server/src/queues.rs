//! Queues.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use punctual_api::{NoteRequest, QueueList, QueueQuery, QueueRequest, QueueView};
use punctual_app::App;
use punctual_app::permission::{ControlJobs, EditTasks, ViewJobs};

use crate::conditions::{When, tagged};
use crate::parse::{Json, JsonOrNothing, Name, NoParams, Params};
use crate::permit::Permit;
use crate::problem::{Problems, Refused};

/// Lists the queues in order of their names, with what waits and runs in each. The figures come from the memory of the servers.
#[utoipa::path(get, path = "/v1/queues", operation_id = "list_queues", tag = "queues", params(QueueQuery), responses(
    (status = 200, description = "A page of queues", body = QueueList),
    Problems,
))]
pub(crate) async fn list(
    Permit(by): Permit<ViewJobs>,
    State(app): State<App>,
    Params(query): Params<QueueQuery>,
) -> Result<Response, Refused> {
    Ok(axum::Json(app.list_queues(&by, &query).await?).into_response())
}

/// Reads a queue, with what waits and runs in it.
#[utoipa::path(get, path = "/v1/queues/{name}", operation_id = "get_queue", tag = "queues",
    params(("name" = String, Path), ("If-None-Match" = Option<String>, Header)), responses(
    (status = 200, description = "The queue as it is now", body = QueueView),
    (status = 304, description = "The queue is as the `ETag` says"),
    Problems,
))]
pub(crate) async fn read(
    Permit(by): Permit<ViewJobs>,
    State(app): State<App>,
    Name(name): Name,
    _: NoParams,
) -> Result<Response, Refused> {
    Ok(answer(&app.queue(&by, &name).await?))
}

/// Describes a queue and sets the policies of its tasks that name none. Replaces what was set before; the state stays. Tasks that
/// exist keep their policies until they are applied again.
#[utoipa::path(put, path = "/v1/queues/{name}", operation_id = "apply_queue", tag = "queues",
    params(("name" = String, Path), ("If-Match" = Option<String>, Header), ("If-None-Match" = Option<String>, Header)), request_body = QueueRequest, responses(
    (status = 200, description = "The queue as it is now", body = QueueView),
    Problems,
))]
pub(crate) async fn put(
    Permit(by): Permit<EditTasks>,
    State(app): State<App>,
    Name(name): Name,
    _: NoParams,
    When(when): When,
    Json { value: request, .. }: Json<QueueRequest>,
) -> Result<Response, Refused> {
    Ok(answer(&app.put_queue(&by, &name, request, when).await?))
}

/// Pauses a queue: its jobs do not start on any server until it is resumed. Running attempts go on, and jobs are accepted. The answer
/// comes when all servers have confirmed it, or after a second with those that have not.
#[utoipa::path(post, path = "/v1/queues/{name}/pause", operation_id = "pause_queue", tag = "queues",
    params(("name" = String, Path)), request_body = Option<NoteRequest>, responses(
    (status = 200, description = "The queue as it is now", body = QueueView),
    Problems,
))]
pub(crate) async fn pause(
    Permit(by): Permit<ControlJobs>,
    State(app): State<App>,
    Name(name): Name,
    _: NoParams,
    JsonOrNothing(note): JsonOrNothing<NoteRequest>,
) -> Result<Response, Refused> {
    Ok(answer(&app.pause_queue(&by, &name, note).await?))
}

/// Resumes a queue that was paused or drained: its jobs start, and jobs are accepted.
#[utoipa::path(post, path = "/v1/queues/{name}/resume", operation_id = "resume_queue", tag = "queues",
    params(("name" = String, Path)), request_body = Option<NoteRequest>, responses(
    (status = 200, description = "The queue as it is now", body = QueueView),
    Problems,
))]
pub(crate) async fn resume(
    Permit(by): Permit<ControlJobs>,
    State(app): State<App>,
    Name(name): Name,
    _: NoParams,
    JsonOrNothing(note): JsonOrNothing<NoteRequest>,
) -> Result<Response, Refused> {
    Ok(answer(&app.resume_queue(&by, &name, note).await?))
}

/// Drains a queue: submissions of its tasks are refused until it is resumed, and jobs that wait start. Runs of schedules and workflows are
/// not submissions, and still come.
#[utoipa::path(post, path = "/v1/queues/{name}/drain", operation_id = "drain_queue", tag = "queues",
    params(("name" = String, Path)), request_body = Option<NoteRequest>, responses(
    (status = 200, description = "The queue as it is now", body = QueueView),
    Problems,
))]
pub(crate) async fn drain(
    Permit(by): Permit<ControlJobs>,
    State(app): State<App>,
    Name(name): Name,
    _: NoParams,
    JsonOrNothing(note): JsonOrNothing<NoteRequest>,
) -> Result<Response, Refused> {
    Ok(answer(&app.drain_queue(&by, &name, note).await?))
}

fn answer(queue: &QueueView) -> Response {
    tagged(StatusCode::OK, queue.revision, queue)
}
