//! Reading requests strictly: what is not understood is refused, with the reason.

use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, header};
use punctual_api::{ErrorKind, limits};
use punctual_app::{AppError, Checked};
use punctual_core::{ArtifactId, BackfillId, BatchId, EnrolmentId, JobId, JoinTokenId, RunId};
use serde::de::DeserializeOwned;

use crate::bodies::read_body;
use crate::misfits::from_json;
use crate::parameters::{read_query, shorten};
use crate::problem::Refused;

/// A JSON body of at most `MAX` bytes, with the bytes that it was read from.
pub(crate) struct Json<T, const MAX: usize = { limits::BODY_BYTES_MAX }> {
    pub(crate) value: T,
    pub(crate) bytes: Bytes,
}

impl<S: Send + Sync, T: DeserializeOwned + Checked, const MAX: usize> FromRequest<S> for Json<T, MAX> {
    type Rejection = Refused;

    async fn from_request(request: Request, _: &S) -> Result<Self, Refused> {
        check_content_type(request.headers())?;
        check_content_encoding(request.headers())?;
        let bytes = read_body(request.into_body(), MAX).await?;
        let value = from_json(&bytes)?;
        Ok(Self { value, bytes })
    }
}

/// A JSON body, or none at all, which is the default.
pub(crate) struct JsonOrNothing<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Default + Checked> FromRequest<S> for JsonOrNothing<T> {
    type Rejection = Refused;

    async fn from_request(request: Request, _: &S) -> Result<Self, Refused> {
        let (parts, body) = request.into_parts();
        let bytes = read_body(body, limits::BODY_BYTES_MAX).await?;
        if bytes.is_empty() {
            return Ok(Self(T::default()));
        }
        check_content_type(&parts.headers)?;
        check_content_encoding(&parts.headers)?;
        if bytes.trim_ascii() == b"null" {
            return Ok(Self(T::default()));
        }
        Ok(Self(from_json(&bytes)?))
    }
}

/// What the body is said to be, without parameters.
pub(crate) fn content_type(headers: &HeaderMap) -> &str {
    let whole = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    whole.split(';').next().unwrap_or("").trim()
}

fn check_content_type(headers: &HeaderMap) -> Result<(), Refused> {
    // As nearly all clients write it.
    if headers.get(header::CONTENT_TYPE).is_some_and(|value| value == "application/json") {
        return Ok(());
    }
    if content_type(headers).eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    let error = AppError::new(ErrorKind::UnsupportedMediaType, "the body must be JSON");
    Err(error.hint("send the header `Content-Type: application/json`").into())
}

pub(crate) fn check_content_encoding(headers: &HeaderMap) -> Result<(), Refused> {
    let encoded = headers.get_all(header::CONTENT_ENCODING).iter().any(|value| value != "identity");
    if !encoded {
        return Ok(());
    }
    let error = AppError::new(ErrorKind::UnsupportedMediaType, "the body must not be compressed");
    Err(error.hint("send it without the header `Content-Encoding`").into())
}

/// Query parameters; unknown ones are refused.
pub(crate) struct Params<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Checked> FromRequestParts<S> for Params<T> {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refused> {
        Ok(Self(read_query(parts.uri.query().unwrap_or_default())?))
    }
}

/// Where there are no query parameters, so that nobody believes in one that is ignored.
pub(crate) struct NoParams;

impl<S: Send + Sync> FromRequestParts<S> for NoParams {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refused> {
        let Some(query) = parts.uri.query().filter(|query| !query.is_empty()) else { return Ok(Self) };
        let detail = format!("there are no parameters here, such as `{}`", shorten(query));
        Err(AppError::invalid(detail).hint("GET /openapi.json lists the parameters").into())
    }
}

/// The part of the path that names a job.
pub(crate) struct JobPath(pub(crate) JobId);

impl<S: Send + Sync> FromRequestParts<S> for JobPath {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let Name(text) = Name::from_request_parts(parts, state).await?;
        let id = text.parse().map_err(|error: punctual_core::id::BadId| AppError::field("id", error.to_string()))?;
        Ok(Self(id))
    }
}

/// The part of the path that names an artifact.
pub(crate) struct ArtifactPath(pub(crate) ArtifactId);

impl<S: Send + Sync> FromRequestParts<S> for ArtifactPath {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let Name(text) = Name::from_request_parts(parts, state).await?;
        let id = text.parse().map_err(|error: punctual_core::id::BadId| AppError::field("id", error.to_string()))?;
        Ok(Self(id))
    }
}

/// The part of the path that names a backfill.
pub(crate) struct BackfillPath(pub(crate) BackfillId);

impl<S: Send + Sync> FromRequestParts<S> for BackfillPath {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let Name(text) = Name::from_request_parts(parts, state).await?;
        let id = text.parse().map_err(|error: punctual_core::id::BadId| AppError::field("id", error.to_string()))?;
        Ok(Self(id))
    }
}

/// The part of the path that names a run of a workflow.
pub(crate) struct RunPath(pub(crate) RunId);

impl<S: Send + Sync> FromRequestParts<S> for RunPath {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let Name(text) = Name::from_request_parts(parts, state).await?;
        let id = text.parse().map_err(|error: punctual_core::id::BadId| AppError::field("id", error.to_string()))?;
        Ok(Self(id))
    }
}

/// The part of the path that names a batch.
pub(crate) struct BatchPath(pub(crate) BatchId);

impl<S: Send + Sync> FromRequestParts<S> for BatchPath {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let Name(text) = Name::from_request_parts(parts, state).await?;
        let id = text.parse().map_err(|error: punctual_core::id::BadId| AppError::field("id", error.to_string()))?;
        Ok(Self(id))
    }
}

/// The part of the path that names a join token.
pub(crate) struct WorkerTokenPath(pub(crate) JoinTokenId);

impl<S: Send + Sync> FromRequestParts<S> for WorkerTokenPath {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let Name(text) = Name::from_request_parts(parts, state).await?;
        let id = text.parse().map_err(|error: punctual_core::id::BadId| AppError::field("id", error.to_string()))?;
        Ok(Self(id))
    }
}

/// The part of the path that names an enrolled worker.
pub(crate) struct EnrolmentPath(pub(crate) EnrolmentId);

impl<S: Send + Sync> FromRequestParts<S> for EnrolmentPath {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let Name(text) = Name::from_request_parts(parts, state).await?;
        let id = text.parse().map_err(|error: punctual_core::id::BadId| AppError::field("id", error.to_string()))?;
        Ok(Self(id))
    }
}

/// The part of the path that names something.
pub(crate) struct Name(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for Name {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let Path(text) = Path::<String>::from_request_parts(parts, state).await.map_err(|_| {
            AppError::invalid("the path is not valid UTF-8").hint("escape the bytes of UTF-8, such as %C3%A9")
        })?;
        Ok(Self(text))
    }
}
