//! Secrets. Values come in and never go out.

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use punctual_api::{DataKeyQuery, DataKeyRotated, ErrorKind, RootKeyRotated, SecretList, SecretQuery, SecretView};
use punctual_app::permission::{EditSecrets, ManageCluster, ViewSecrets};
use punctual_app::{App, AppError};
use punctual_core::secret::SECRET_BYTES_MAX;
use zeroize::Zeroizing;

use crate::bodies::read_body;
use crate::parse::{Name, NoParams, Params, check_content_encoding, content_type};
use crate::permit::Permit;
use crate::problem::{Problems, Refused};

/// Lists the secrets in order of their names, without their values.
#[utoipa::path(get, path = "/v1/secrets", operation_id = "list_secrets", tag = "secrets", responses(
    (status = 200, description = "All secrets", body = SecretList),
    Problems,
))]
pub(crate) async fn list(
    Permit(by): Permit<ViewSecrets>,
    State(app): State<App>,
    _: NoParams,
) -> Result<Response, Refused> {
    Ok(axum::Json(app.list_secrets(&by).await?).into_response())
}

/// Stores a secret, or a new value of the one with this name. The body is the value itself: 4 bytes to 64 KiB of UTF-8.
/// Attempts that start a second later have the new value.
#[utoipa::path(put, path = "/v1/secrets/{name}", operation_id = "set_secret", tag = "secrets", params(("name" = String, Path)),
    request_body(content = String, content_type = "application/octet-stream", description = "The value"), responses(
    (status = 200, description = "The secret as it is now, without its value", body = SecretView),
    Problems,
))]
pub(crate) async fn put(
    Permit(by): Permit<EditSecrets>,
    State(app): State<App>,
    Name(name): Name,
    _: NoParams,
    request: Request,
) -> Result<Response, Refused> {
    let form = content_type(request.headers());
    // A form or JSON would be kept with its quotes, and be no password of anybody.
    if form.eq_ignore_ascii_case("application/json") || form.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
        let error = AppError::new(ErrorKind::UnsupportedMediaType, "the body is the value itself");
        return Err(error.hint("send it as application/octet-stream or text/plain").into());
    }
    check_content_encoding(request.headers())?;
    let value = read_body(request.into_body(), SECRET_BYTES_MAX).await?;
    let value = Zeroizing::new(Vec::from(value));
    Ok(axum::Json(app.put_secret(&by, &name, value).await?).into_response())
}

/// Deletes a secret. Refused while tasks refer to it, unless `force` is `true`.
#[utoipa::path(delete, path = "/v1/secrets/{name}", operation_id = "delete_secret", tag = "secrets",
    params(("name" = String, Path), SecretQuery), responses(
    (status = 204, description = "The secret is gone"),
    Problems,
))]
pub(crate) async fn delete(
    Permit(by): Permit<EditSecrets>,
    State(app): State<App>,
    Name(name): Name,
    Params(query): Params<SecretQuery>,
) -> Result<StatusCode, Refused> {
    app.delete_secret(&by, &name, &query).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Seals the keys in the database with a new root key. Running servers go on; the others of a cluster need the new key in
/// place before they start again.
#[utoipa::path(post, path = "/v1/root-key/rotate", operation_id = "rotate_root_key", tag = "secrets", responses(
    (status = 200, description = "The ids of both keys, and where the new one is", body = RootKeyRotated),
    Problems,
))]
pub(crate) async fn rotate_root_key(
    Permit(by): Permit<ManageCluster>,
    State(app): State<App>,
    _: NoParams,
) -> Result<Response, Refused> {
    Ok(axum::Json(app.rotate_root_key(&by).await?).into_response())
}

/// Makes a new data key for each namespace, or for one, and seals its secrets with it, whose revisions grow by one. The values
/// stay the same, and running attempts and servers go on. At most once a minute for each namespace.
#[utoipa::path(post, path = "/v1/data-key/rotate", operation_id = "rotate_data_key", tag = "secrets",
    params(DataKeyQuery), responses(
    (status = 200, description = "The names of the new keys, and how many secrets were sealed with them", body = DataKeyRotated),
    Problems,
))]
pub(crate) async fn rotate_data_key(
    Permit(by): Permit<ManageCluster>,
    State(app): State<App>,
    Params(query): Params<DataKeyQuery>,
) -> Result<Response, Refused> {
    Ok(axum::Json(app.rotate_data_key(&by, &query).await?).into_response())
}
