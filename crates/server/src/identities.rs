//! Keys, people and sessions.

use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use punctual_api::{
    KeyCreated, KeyList, KeyRequest, KeyView, LoginRequest, PasswordRequest, RotateRequest, SessionCreated,
    SessionList, UserEdit, UserList, UserRequest, UserView, Whoami,
};
use punctual_app::permission::{CreateKeys, ManagePeople};
use punctual_app::{App, Transport};
use serde::Serialize;

use crate::parse::{Json, JsonOrNothing, Name, NoParams};
use crate::permit::{Anybody, Permit};
use crate::problem::{Problems, Refused};

/// An answer that holds a secret: nobody on the way may keep it.
pub(crate) fn secret(status: StatusCode, answer: impl Serialize) -> Response {
    let no_store = [(header::CACHE_CONTROL, HeaderValue::from_static("no-store"))];
    (status, no_store, axum::Json(answer)).into_response()
}

/// Lists keys in order of name, without their secrets: one's own, or all of them with the right to manage keys.
#[utoipa::path(get, path = "/v1/keys", operation_id = "list_keys", tag = "identities", responses(
    (status = 200, description = "Keys, also those that ended within the last 7 days", body = KeyList),
    Problems,
))]
pub(crate) async fn list_keys(
    Permit(by): Permit<CreateKeys>,
    State(app): State<App>,
    _: NoParams,
) -> Result<Response, Refused> {
    Ok(axum::Json(app.list_keys(&by).await?).into_response())
}

/// Makes a key. The answer has its secret, which is never shown again.
#[utoipa::path(post, path = "/v1/keys", operation_id = "create_key", tag = "identities", request_body = KeyRequest, responses(
    (status = 201, description = "The key and its secret", body = KeyCreated),
    Problems,
))]
pub(crate) async fn create_key(
    Permit(by): Permit<CreateKeys>,
    State(app): State<App>,
    _: NoParams,
    Json { value: request, .. }: Json<KeyRequest>,
) -> Result<Response, Refused> {
    Ok(secret(StatusCode::CREATED, app.create_key(&by, &request).await?))
}

/// Reads a key, by its id or by the name that a valid key has.
#[utoipa::path(get, path = "/v1/keys/{key}", operation_id = "get_key", tag = "identities", params(("key" = String, Path)), responses(
    (status = 200, description = "The key without its secret", body = KeyView),
    Problems,
))]
pub(crate) async fn read_key(
    Permit(by): Permit<CreateKeys>,
    State(app): State<App>,
    Name(key): Name,
    _: NoParams,
) -> Result<Response, Refused> {
    Ok(axum::Json(app.key(&by, &key).await?).into_response())
}

/// Makes a key that takes the place of another. The old one stays valid for `overlap`.
#[utoipa::path(post, path = "/v1/keys/{key}/rotate", operation_id = "rotate_key", tag = "identities",
    params(("key" = String, Path)), request_body = Option<RotateRequest>, responses(
    (status = 201, description = "The new key and its secret", body = KeyCreated),
    Problems,
))]
pub(crate) async fn rotate_key(
    Permit(by): Permit<CreateKeys>,
    State(app): State<App>,
    Name(key): Name,
    _: NoParams,
    JsonOrNothing(request): JsonOrNothing<RotateRequest>,
) -> Result<Response, Refused> {
    Ok(secret(StatusCode::CREATED, app.rotate_key(&by, &key, &request).await?))
}

/// Revokes a key. It counts nowhere any more within 5 seconds.
#[utoipa::path(delete, path = "/v1/keys/{key}", operation_id = "revoke_key", tag = "identities", params(("key" = String, Path)), responses(
    (status = 204, description = "The key is revoked"),
    Problems,
))]
pub(crate) async fn revoke_key(
    Permit(by): Permit<CreateKeys>,
    State(app): State<App>,
    Name(key): Name,
    _: NoParams,
) -> Result<StatusCode, Refused> {
    app.revoke_key(&by, &key).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Lists people in order of name.
#[utoipa::path(get, path = "/v1/users", operation_id = "list_users", tag = "identities", responses(
    (status = 200, description = "All people", body = UserList),
    Problems,
))]
pub(crate) async fn list_users(
    Permit(by): Permit<ManagePeople>,
    State(app): State<App>,
    _: NoParams,
) -> Result<Response, Refused> {
    Ok(axum::Json(app.list_users(&by).await?).into_response())
}

/// Adds a person.
#[utoipa::path(post, path = "/v1/users", operation_id = "create_user", tag = "identities", request_body = UserRequest, responses(
    (status = 201, description = "The person", body = UserView),
    Problems,
))]
pub(crate) async fn create_user(
    Permit(by): Permit<ManagePeople>,
    State(app): State<App>,
    _: NoParams,
    Json { value: request, .. }: Json<UserRequest>,
) -> Result<Response, Refused> {
    Ok((StatusCode::CREATED, axum::Json(app.create_user(&by, &request).await?)).into_response())
}

/// Reads a person.
#[utoipa::path(get, path = "/v1/users/{user}", operation_id = "get_user", tag = "identities", params(("user" = String, Path)), responses(
    (status = 200, description = "The person", body = UserView),
    Problems,
))]
pub(crate) async fn read_user(
    Permit(by): Permit<ManagePeople>,
    State(app): State<App>,
    Name(user): Name,
    _: NoParams,
) -> Result<Response, Refused> {
    Ok(axum::Json(app.user(&by, &user).await?).into_response())
}

/// Changes a person's mail address or role, or disables them.
#[utoipa::path(patch, path = "/v1/users/{user}", operation_id = "edit_user", tag = "identities",
    params(("user" = String, Path)), request_body = UserEdit, responses(
    (status = 200, description = "The person as they are now", body = UserView),
    Problems,
))]
pub(crate) async fn edit_user(
    Permit(by): Permit<ManagePeople>,
    State(app): State<App>,
    Name(user): Name,
    _: NoParams,
    Json { value: edit, .. }: Json<UserEdit>,
) -> Result<Response, Refused> {
    Ok(axum::Json(app.edit_user(&by, &user, &edit).await?).into_response())
}

/// Removes a person. Their sessions end and the keys that were made on their behalf are revoked.
#[utoipa::path(delete, path = "/v1/users/{user}", operation_id = "delete_user", tag = "identities", params(("user" = String, Path)), responses(
    (status = 204, description = "The person is gone"),
    Problems,
))]
pub(crate) async fn delete_user(
    Permit(by): Permit<ManagePeople>,
    State(app): State<App>,
    Name(user): Name,
    _: NoParams,
) -> Result<StatusCode, Refused> {
    app.delete_user(&by, &user).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Sets a password: one's own, with the present one, or anybody's with the right to manage people. Ends the person's sessions.
#[utoipa::path(put, path = "/v1/users/{user}/password", operation_id = "set_password", tag = "identities",
    params(("user" = String, Path)), request_body = PasswordRequest, responses(
    (status = 204, description = "The password is set"),
    Problems,
))]
pub(crate) async fn set_password(
    Anybody(principal): Anybody,
    State(app): State<App>,
    Extension(transport): Extension<Transport>,
    Name(user): Name,
    _: NoParams,
    Json { value: request, .. }: Json<PasswordRequest>,
) -> Result<StatusCode, Refused> {
    app.set_password(&principal, &transport, &user, &request).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Logs a person in. The answer has the session's token, which is never shown again.
#[utoipa::path(post, path = "/v1/sessions", operation_id = "login", tag = "identities", request_body = LoginRequest, responses(
    (status = 201, description = "The session and its token", body = SessionCreated),
    Problems,
))]
pub(crate) async fn login(
    State(app): State<App>,
    Extension(transport): Extension<Transport>,
    _: NoParams,
    Json { value: request, .. }: Json<LoginRequest>,
) -> Result<Response, Refused> {
    Ok(secret(StatusCode::CREATED, app.login(&transport, &request).await?))
}

/// Lists open sessions, the latest first: one's own, or everybody's with the right to manage people.
#[utoipa::path(get, path = "/v1/sessions", operation_id = "list_sessions", tag = "identities", responses(
    (status = 200, description = "Open sessions", body = SessionList),
    Problems,
))]
pub(crate) async fn list_sessions(
    Anybody(principal): Anybody,
    State(app): State<App>,
    _: NoParams,
) -> Result<Response, Refused> {
    Ok(axum::Json(app.list_sessions(&principal).await?).into_response())
}

/// Ends a session. `current` is the one that the request is made with.
#[utoipa::path(delete, path = "/v1/sessions/{session}", operation_id = "end_session", tag = "identities",
    params(("session" = String, Path)), responses(
    (status = 204, description = "The session has ended"),
    Problems,
))]
pub(crate) async fn end_session(
    Anybody(principal): Anybody,
    State(app): State<App>,
    Name(session): Name,
    _: NoParams,
) -> Result<StatusCode, Refused> {
    app.end_session(&principal, &session).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Says on whose behalf this request is made, and what they may do.
#[utoipa::path(get, path = "/v1/whoami", operation_id = "whoami", tag = "identities", responses(
    (status = 200, description = "The principal", body = Whoami),
    Problems,
))]
pub(crate) async fn whoami(Anybody(principal): Anybody, State(app): State<App>, _: NoParams) -> Response {
    axum::Json(app.whoami(&principal)).into_response()
}
