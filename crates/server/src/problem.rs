//! Errors as answers, after RFC 9457.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::pages::{self, WrongLogin};
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, Method, StatusCode, header};
use punctual_api::{ErrorKind, Problem};
use punctual_app::{AppError, Throttle};
use utoipa::openapi::{ContentBuilder, Ref, RefOr, Response as Described, ResponseBuilder};

/// An error on its way out. The guard adds the id of the request.
#[derive(Debug, Clone)]
pub(crate) struct Refused(pub(crate) AppError);

impl From<AppError> for Refused {
    fn from(error: AppError) -> Self {
        Self(error)
    }
}

/// What any route may answer instead, in the OpenAPI document.
pub(crate) struct Problems;

impl utoipa::IntoResponses for Problems {
    fn responses() -> BTreeMap<String, RefOr<Described>> {
        let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
        let describe = |description: &str| {
            let response = ResponseBuilder::new().description(description);
            RefOr::T(response.content(PROBLEM_JSON, content.clone()).build())
        };
        [("4XX", "The request was refused"), ("5XX", "The server could not do it")]
            .map(|(status, description)| (status.to_owned(), describe(description)))
            .into()
    }
}

/// An outage fails every request, and one line in so many seconds says so.
static OUTAGES: Throttle = Throttle::new(Duration::from_secs(10));

/// The one place where a failed request is logged, under the id that its client got. A path is cut: a client chose it.
fn log(error: &AppError, request_id: &str, method: &Method, path: &str) {
    let path: String = path.chars().take(PATH_CHARS_MAX).collect();
    let (code, detail, cause) = (error.kind.code(), &*error.detail, error.cause.as_deref());
    match error.kind {
        ErrorKind::Internal => {
            tracing::error!(request_id, %method, path, code, detail, cause, "a request failed");
        }
        // Without a cause it is an answer that the server chose to give, such as a shard that moves.
        _ if status(error.kind).is_server_error() && cause.is_some() => {
            if let Some(left_out) = OUTAGES.pass() {
                tracing::warn!(request_id, %method, path, code, detail, cause, left_out, "a request failed");
            }
        }
        _ => {}
    }
}

/// Logs the error of a call that is not answered with a problem document.
pub(crate) fn log_call(error: &AppError, what: &str) {
    if let Some(cause) = error.cause.as_deref()
        && let Some(left_out) = OUTAGES.pass()
    {
        tracing::warn!(code = error.kind.code(), detail = &*error.detail, cause, left_out, "{what}");
    }
}

const PATH_CHARS_MAX: usize = 200;

const PROBLEM_JSON: &str = "application/problem+json";

/// Seconds after which a request that may succeed later is worth repeating.
const RETRY_AFTER: &str = "1";

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let status = status(self.0.kind);
        let mut response = status.into_response();
        if self.0.kind.is_retryable() {
            let known = self.0.retry_after.map(|wait| HeaderValue::from(wait.to_std().as_secs_f64().ceil() as u64));
            let retry_after = known.unwrap_or(HeaderValue::from_static(RETRY_AFTER));
            response.headers_mut().insert(header::RETRY_AFTER, retry_after);
        }
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response.extensions_mut().insert(self);
        response
    }
}

fn status(kind: ErrorKind) -> StatusCode {
    StatusCode::from_u16(kind.http_status()).expect("the table of errors holds HTTP statuses")
}

/// Writes the body, now that the request's id is known, and logs what was not the client's fault.
/// `page` is the address of whoever would rather read a page.
pub(crate) fn finish(
    response: Response,
    request_id: &str,
    method: &Method,
    path: &str,
    page: Option<&str>,
) -> Response {
    let (mut parts, body) = response.into_parts();
    let wrong_login = parts.extensions.remove::<WrongLogin>();
    let Some(Refused(error)) = parts.extensions.remove::<Refused>() else {
        return Response::from_parts(parts, body);
    };
    log(&error, request_id, method, path);
    let problem = Problem {
        type_uri: format!("/problems/{}", error.kind.code()),
        title: error.kind.title().to_owned(),
        status: error.kind.http_status(),
        detail: error.detail,
        code: error.kind.code().to_owned(),
        hint: error.hint,
        request_id: request_id.to_owned(),
        retryable: error.kind.is_retryable(),
        errors: error.errors,
    };
    if let Some(address) = page {
        let mut page = match wrong_login {
            Some(wrong) => {
                let mut page = wrong.page(&problem.detail);
                *page.status_mut() = parts.status;
                page
            }
            None => pages::refusal(&problem, method, address),
        };
        for name in [header::RETRY_AFTER, header::ALLOW] {
            if let Some(value) = parts.headers.remove(&name) {
                page.headers_mut().insert(name, value);
            }
        }
        return page;
    }
    let json = serde_json::to_vec(&problem).expect("a problem is JSON");
    parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
    parts.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(parts, json.into())
}
