//! Artifacts: declaring them, and moving their bytes.

use axum::Extension;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use punctual_api::{ArtifactList, ArtifactQuery, ArtifactRequest, ArtifactView};
use punctual_app::permission::{EditArtifacts, ViewArtifacts};
use punctual_app::{App, AppError, Checked, Defined, Faults, parameters};
use punctual_blobs::SignedQuery;
use serde::Deserialize;

use crate::bodies::discard;
use crate::guard::Reached;
use crate::parse::{ArtifactPath, Json, NoParams, Params};
use crate::permit::Permit;
use crate::problem::{Problems, Refused};
use crate::range::{ByteRange, range};

/// Lists artifacts, the newest first.
#[utoipa::path(get, path = "/v1/artifacts", operation_id = "list_artifacts", tag = "artifacts", params(ArtifactQuery), responses(
    (status = 200, description = "A page of artifacts", body = ArtifactList),
    Problems,
))]
pub(crate) async fn list(
    Permit(by): Permit<ViewArtifacts>,
    State(app): State<App>,
    Params(query): Params<ArtifactQuery>,
) -> Result<Response, Refused> {
    Ok(axum::Json(app.list_artifacts(&by, &query).await?).into_response())
}

/// Declares a file by its size and digest, and says where to upload it. A file that is known
/// need not be uploaded again.
#[utoipa::path(post, path = "/v1/artifacts", operation_id = "create_artifact", tag = "artifacts", request_body = ArtifactRequest, responses(
    (status = 201, description = "The file may be uploaded", body = ArtifactView),
    (status = 200, description = "A file of this size and digest was declared before; `upload` is absent if it has arrived", body = ArtifactView),
    Problems,
))]
pub(crate) async fn create(
    Permit(by): Permit<EditArtifacts>,
    State(app): State<App>,
    _: NoParams,
    Extension(reached): Extension<Reached>,
    body: Json<ArtifactRequest>,
) -> Result<Response, Refused> {
    let (artifact, defined) = app.create_artifact(&by, body.value, &reached.url()).await?;
    let status = match defined {
        Defined::Created => StatusCode::CREATED,
        Defined::Updated => StatusCode::OK,
    };
    let location = format!("/v1/artifacts/{}", artifact.id);
    Ok((status, [(header::LOCATION, location)], axum::Json(artifact)).into_response())
}

/// Says whether the file of an artifact has arrived. Looks for it if it was pending.
#[utoipa::path(get, path = "/v1/artifacts/{id}", operation_id = "get_artifact", tag = "artifacts", params(("id" = String, Path)), responses(
    (status = 200, description = "The artifact as it is now", body = ArtifactView),
    Problems,
))]
pub(crate) async fn read(
    Permit(by): Permit<ViewArtifacts>,
    State(app): State<App>,
    ArtifactPath(id): ArtifactPath,
    _: NoParams,
) -> Result<Response, Refused> {
    Ok(axum::Json(app.artifact(&by, id).await?).into_response())
}

/// Deletes an artifact that no task, schedule or unfinished job needs, with its file.
#[utoipa::path(delete, path = "/v1/artifacts/{id}", operation_id = "delete_artifact", tag = "artifacts", params(("id" = String, Path)), responses(
    (status = 204, description = "The artifact is gone"),
    Problems,
))]
pub(crate) async fn delete(
    Permit(by): Permit<EditArtifacts>,
    State(app): State<App>,
    ArtifactPath(id): ArtifactPath,
    _: NoParams,
) -> Result<StatusCode, Refused> {
    app.delete_artifact(&by, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// As the server wrote them into the address.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Signature {
    size: String,
    expires: String,
    signature: String,
}

impl Signature {
    fn read(&self) -> Result<SignedQuery, AppError> {
        const HINT: &str = "use the address as it was given";
        let mut faults = Faults::default();
        let size = parameters::number("size", Some(&self.size), 0..=u64::MAX);
        let size = faults.value(size.map_err(|error| error.hint(HINT))).flatten();
        let expires = parameters::number("expires", Some(&self.expires), 0..=i64::MAX);
        let expires = faults.value(expires.map_err(|error| error.hint(HINT))).flatten();
        faults.finish()?;
        let (size, expires) = (size.unwrap_or_default(), expires.unwrap_or_default());
        Ok(SignedQuery { size, expires, signature: self.signature.clone() })
    }
}

impl Checked for Signature {
    fn check(&self) -> Result<(), AppError> {
        self.read().map(drop)
    }
}

/// Takes the file of a pending artifact, at the address that `upload` named.
#[utoipa::path(put, path = "/v1/artifacts/{id}/content", operation_id = "upload_artifact", tag = "artifacts",
    params(("id" = String, Path), Signature),
    request_body(content = String, content_type = "application/octet-stream", description = "The bytes of the file"), responses(
    (status = 200, description = "The file has arrived and was checked", body = ArtifactView),
    Problems,
))]
pub(crate) async fn upload(
    State(app): State<App>,
    ArtifactPath(id): ArtifactPath,
    Params(signature): Params<Signature>,
    request: Request,
) -> Result<Response, Refused> {
    let length = request.headers().get(header::CONTENT_LENGTH);
    let length = length.and_then(|value| value.to_str().ok()).and_then(|text| text.parse().ok());
    let mut body = request.into_body().into_data_stream();
    let pieces = (&mut body).map(|piece| piece.map_err(|_| ()));
    let taken = match signature.read() {
        Ok(query) => app.upload_artifact(id, query, length, pieces).await,
        Err(error) => Err(error),
    };
    match taken {
        Ok(artifact) => Ok(axum::Json(artifact).into_response()),
        Err(error) => {
            discard(Body::from_stream(body)).await;
            Err(error.into())
        }
    }
}

/// Reads the file of an artifact, or a part of it, at an address that a worker was given.
#[utoipa::path(get, path = "/v1/artifacts/{id}/content", operation_id = "download_artifact", tag = "artifacts",
    params(("id" = String, Path), Signature, ("Range" = Option<String>, Header, description = "One range of bytes")), responses(
    (status = 200, description = "The file", body = String, content_type = "application/octet-stream"),
    (status = 206, description = "The part that was asked for", body = String, content_type = "application/octet-stream"),
    (status = 416, description = "There is nothing in this range"),
    Problems,
))]
pub(crate) async fn download(
    State(app): State<App>,
    ArtifactPath(id): ArtifactPath,
    Params(signature): Params<Signature>,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let query = signature.read()?;
    let size = app.artifact_content_size(id, &query).await?;
    let wanted = match headers.get(header::RANGE).map(|value| range(value, size)) {
        Some(ByteRange::Part(wanted)) => Some(wanted),
        Some(ByteRange::Nothing) => {
            let whole = format!("bytes */{size}");
            return Ok((StatusCode::RANGE_NOT_SATISFIABLE, [(header::CONTENT_RANGE, whole)]).into_response());
        }
        Some(ByteRange::Whole) | None => None,
    };
    let status = if wanted.is_some() { StatusCode::PARTIAL_CONTENT } else { StatusCode::OK };
    let blob = app.artifact_content(id, query, wanted.clone()).await?;
    let mut response = Response::new(Body::from_stream(blob.bytes));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(header::CONTENT_LENGTH, (blob.range.end - blob.range.start).into());
    if wanted.is_some() {
        let part = format!("bytes {}-{}/{}", blob.range.start, blob.range.end - 1, blob.size);
        headers.insert(header::CONTENT_RANGE, part.parse().expect("numbers are ASCII"));
    }
    Ok(response)
}
