//! Who is told of what, what was sent, and what is late.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use punctual_api::{
    DeliveryList, DeliveryQuery, NotificationList, NotificationPreview, NotificationPreviewRequest,
    NotificationRequest, NotificationView, Overdue, OverdueQuery, TestAnswer,
};
use punctual_app::permission::{EditNotifications, ViewJobs, ViewNotifications};
use punctual_app::{App, AppError, Checked, PutRule, parameters};
use serde::Deserialize;

use crate::conditions::{When, tagged};
use crate::parse::{Json, Name, NoParams, Params};
use crate::permit::Permit;
use crate::problem::{Problems, Refused};

/// Lists the notification rules in order of their names.
#[utoipa::path(get, path = "/v1/notifications", operation_id = "list_notifications", tag = "notifications", responses(
    (status = 200, description = "All rules", body = NotificationList),
    Problems,
))]
pub(crate) async fn list(
    Permit(by): Permit<ViewNotifications>,
    State(app): State<App>,
    _: NoParams,
) -> Result<Response, Refused> {
    Ok(axum::Json(app.list_notifications(&by).await?).into_response())
}

/// Reads a notification rule.
#[utoipa::path(get, path = "/v1/notifications/{name}", operation_id = "get_notification", tag = "notifications",
    params(("name" = String, Path), ("If-None-Match" = Option<String>, Header)), responses(
    (status = 200, description = "The rule as it is now", body = NotificationView),
    (status = 304, description = "The rule is as the `ETag` says"),
    Problems,
))]
pub(crate) async fn read(
    Permit(by): Permit<ViewNotifications>,
    State(app): State<App>,
    Name(name): Name,
    _: NoParams,
) -> Result<Response, Refused> {
    let rule = app.notification(&by, &name).await?;
    Ok(tagged(StatusCode::OK, rule.revision, &rule))
}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct PutQuery {
    /// Only if the rule is still at this revision, as `If-Match` says it.
    revision: Option<String>,
}

impl PutQuery {
    fn read(&self) -> Result<Option<u32>, AppError> {
        parameters::number("revision", self.revision.as_deref(), 0..=u32::MAX)
    }
}

impl Checked for PutQuery {
    fn check(&self) -> Result<(), AppError> {
        self.read().map(drop)
    }
}

/// Stores a notification rule, or replaces the one with this name. What waits to be sent stays.
#[utoipa::path(put, path = "/v1/notifications/{name}", operation_id = "apply_notification", tag = "notifications",
    params(("name" = String, Path), PutQuery, ("If-Match" = Option<String>, Header), ("If-None-Match" = Option<String>, Header)),
    request_body = NotificationRequest, responses(
    (status = 200, description = "The rule as it is now", body = NotificationView),
    (status = 201, description = "The rule is durable", body = NotificationView),
    Problems,
))]
pub(crate) async fn put(
    Permit(by): Permit<EditNotifications>,
    State(app): State<App>,
    Name(name): Name,
    Params(query): Params<PutQuery>,
    when: When,
    body: Json<NotificationRequest>,
) -> Result<Response, Refused> {
    let when = when.with_revision(query.read()?)?;
    Ok(match app.put_notification(&by, &name, body.value, when).await? {
        PutRule::Created(rule) => created(&rule),
        PutRule::Replaced(rule) => tagged(StatusCode::OK, rule.revision, &*rule),
    })
}

fn created(rule: &NotificationView) -> Response {
    let mut response = tagged(StatusCode::CREATED, rule.revision, rule);
    let location = format!("/v1/notifications/{}", rule.name);
    response.headers_mut().insert(header::LOCATION, location.parse().expect("a name is ASCII"));
    response
}

/// Deletes a notification rule. What waits to be sent goes with it; what was sent stays on record.
#[utoipa::path(delete, path = "/v1/notifications/{name}", operation_id = "delete_notification", tag = "notifications",
    params(("name" = String, Path), ("If-Match" = Option<String>, Header)), responses(
    (status = 204, description = "The rule is gone"),
    Problems,
))]
pub(crate) async fn delete(
    Permit(by): Permit<EditNotifications>,
    State(app): State<App>,
    Name(name): Name,
    _: NoParams,
    When(when): When,
) -> Result<StatusCode, Refused> {
    app.delete_notification(&by, &name, when).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Sends a sample at once, as a message of the rule is sent. The answer names the job that delivers it.
#[utoipa::path(post, path = "/v1/notifications/{name}/test", operation_id = "test_notification", tag = "notifications", params(("name" = String, Path)), responses(
    (status = 200, description = "The job is durable", body = TestAnswer),
    Problems,
))]
pub(crate) async fn test(
    Permit(by): Permit<EditNotifications>,
    State(app): State<App>,
    Name(name): Name,
    _: NoParams,
) -> Result<Response, Refused> {
    Ok(axum::Json(app.test_notification(&by, &name).await?).into_response())
}

/// Shows what a rule, which is not stored, makes of a sample with everything that there can be.
#[utoipa::path(post, path = "/v1/notifications/preview", operation_id = "preview_notification", tag = "notifications",
    request_body = NotificationPreviewRequest, responses(
    (status = 200, description = "Subject and text", body = NotificationPreview),
    Problems,
))]
pub(crate) async fn preview(
    Permit(by): Permit<ViewNotifications>,
    State(app): State<App>,
    _: NoParams,
    body: Json<NotificationPreviewRequest>,
) -> Result<Response, Refused> {
    Ok(axum::Json(app.preview_notification(&by, &body.value).await?).into_response())
}

/// Lists what was sent by a rule, the latest first.
#[utoipa::path(get, path = "/v1/notifications/{name}/deliveries", operation_id = "list_notification_deliveries", tag = "notifications",
    params(("name" = String, Path), DeliveryQuery), responses(
    (status = 200, description = "A page of deliveries", body = DeliveryList),
    Problems,
))]
pub(crate) async fn deliveries_of(
    Permit(by): Permit<ViewNotifications>,
    State(app): State<App>,
    Name(name): Name,
    Params(query): Params<DeliveryQuery>,
) -> Result<Response, Refused> {
    Ok(axum::Json(app.deliveries(&by, Some(&name), query).await?).into_response())
}

/// Lists what was sent by all rules, the latest first.
#[utoipa::path(get, path = "/v1/deliveries", operation_id = "list_deliveries", tag = "notifications", params(DeliveryQuery), responses(
    (status = 200, description = "A page of deliveries", body = DeliveryList),
    Problems,
))]
pub(crate) async fn deliveries(
    Permit(by): Permit<ViewNotifications>,
    State(app): State<App>,
    Params(query): Params<DeliveryQuery>,
) -> Result<Response, Refused> {
    Ok(axum::Json(app.deliveries(&by, None, query).await?).into_response())
}

/// Shows what should have started and has not, and why; and which tasks have failed and not succeeded since.
#[utoipa::path(get, path = "/v1/overdue", operation_id = "get_overdue", tag = "notifications", params(OverdueQuery), responses(
    (status = 200, description = "What is late now", body = Overdue),
    Problems,
))]
pub(crate) async fn overdue(
    Permit(by): Permit<ViewJobs>,
    State(app): State<App>,
    Params(query): Params<OverdueQuery>,
) -> Result<Response, Refused> {
    Ok(axum::Json(app.overdue(&by, query).await?).into_response())
}
