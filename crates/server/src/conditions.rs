//! Conditional requests. Each definition that is read carries an `ETag`; `If-Match` and `If-None-Match` with it keep
//! changes from overwriting what nobody has seen, and definitions that are known from being sent again.
//!
//! An `ETag` is the revision of the definition, and a digest of the whole answer: what an answer says of the running
//! state changes without the definition. `If-Match` compares the revision alone, so `"3"` is enough.

use axum::extract::{FromRequestParts, Request};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use punctual_app::{AppError, Precondition};
use punctual_core::hex;
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::problem::Refused;

/// Bytes of the digest in an `ETag`: enough for two versions of one definition.
const DIGEST_LEN: usize = 8;

/// Answers with a definition and its `ETag`.
pub(crate) fn tagged(status: StatusCode, revision: u32, definition: &impl Serialize) -> Response {
    let body = serde_json::to_vec(definition).expect("an answer is JSON");
    let etag = format!("\"{revision}-{}\"", hex::encode(&Sha256::digest(&body)[..DIGEST_LEN]));
    let headers = [(header::CONTENT_TYPE, "application/json".to_owned()), (header::ETAG, etag)];
    (status, headers, body).into_response()
}

/// The condition of a request that changes or deletes a definition.
pub(crate) struct When(pub(crate) Precondition);

impl When {
    /// With the parameter `revision`, which says the same as `If-Match`.
    pub(crate) fn with_revision(self, revision: Option<u32>) -> Result<Precondition, AppError> {
        match (self.0, revision) {
            (when, None) => Ok(when),
            (Precondition::None, Some(revision)) => Ok(Precondition::Revision(revision)),
            (_, Some(_)) => Err(AppError::field("revision", "must not be combined with If-Match or If-None-Match")
                .hint("leave out the parameter")),
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for When {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refused> {
        Ok(Self(read(&parts.method, &parts.headers)?))
    }
}

fn read(method: &Method, headers: &HeaderMap) -> Result<Precondition, AppError> {
    match (single(headers, &header::IF_MATCH, "If-Match")?, single(headers, &header::IF_NONE_MATCH, "If-None-Match")?) {
        (None, None) => Ok(Precondition::None),
        (Some("*"), None) => Ok(Precondition::Exists),
        (Some(etag), None) => read_etag(etag).map(Precondition::Revision),
        (None, Some("*")) if *method != Method::DELETE => Ok(Precondition::Absent),
        (None, Some(_)) if *method != Method::DELETE => {
            Err(AppError::field("If-None-Match", "must be `*` in a request that changes something")
                .hint("use If-Match with an ETag to change what you have seen"))
        }
        (None, Some(_)) => Err(AppError::field("If-None-Match", "must not be given with DELETE")
            .hint("use If-Match with an ETag to delete what you have seen")),
        (Some(_), Some(_)) => Err(AppError::field("If-None-Match", "must not be combined with If-Match")),
    }
}

fn single<'h>(headers: &'h HeaderMap, header: &HeaderName, name: &str) -> Result<Option<&'h str>, AppError> {
    let mut values = headers.get_all(header).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(AppError::field(name, "must be given once"));
    }
    let text = value.to_str().map_err(|_| AppError::field(name, "must be printable ASCII"))?;
    Ok(Some(text.trim()))
}

/// The revision in an `ETag`. One without a digest stands for every answer with that revision.
fn read_etag(text: &str) -> Result<u32, AppError> {
    let inner = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
    let (revision, digest) = inner.split_once('-').map_or((inner, None), |(revision, digest)| (revision, Some(digest)));
    let is_digest = digest
        .is_none_or(|digest| digest.len() == 2 * DIGEST_LEN && digest.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let is_number = !revision.is_empty() && revision.bytes().all(|byte| byte.is_ascii_digit());
    let revision = if is_digest && is_number { revision.parse().ok() } else { None };
    revision.ok_or_else(|| {
        AppError::field("If-Match", "must be one ETag or `*`")
            .hint("take it from the header ETag of an answer, or write `revision` in quotes: \"3\"")
    })
}

/// Answers a safe request, with 304 instead of a definition that the client has.
pub(crate) async fn answer(request: Request, next: Next) -> Response {
    let known: Vec<HeaderValue> = request.headers().get_all(header::IF_NONE_MATCH).iter().cloned().collect();
    let response = next.run(request).await;
    if known.is_empty() {
        return response;
    }
    match response.headers().get(header::ETAG) {
        Some(etag) if response.status() == StatusCode::OK && is_known(&known, etag) => {
            (StatusCode::NOT_MODIFIED, [(header::ETAG, etag.clone())]).into_response()
        }
        _ => response,
    }
}

/// By the weak comparison of HTTP, as for all reads. What cannot be read is no tag that anybody was given.
fn is_known(known: &[HeaderValue], etag: &HeaderValue) -> bool {
    let Ok(etag) = etag.to_str() else { return false };
    let lists = known.iter().filter_map(|value| value.to_str().ok());
    // No tag of ours contains a comma.
    lists.flat_map(|list| list.split(',')).map(str::trim).any(|tag| tag == "*" || tag.trim_start_matches("W/") == etag)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(headers: &[(HeaderName, &str)]) -> Result<Precondition, String> {
        let headers = headers.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect();
        read(&Method::PUT, &headers).map_err(|error| error.errors[0].pointer.clone())
    }

    #[test]
    fn a_condition_is_a_tag_a_revision_or_a_star() {
        for (text, expected) in [
            ("\"3\"", Some(Precondition::Revision(3))),
            ("3", Some(Precondition::Revision(3))),
            ("\"3-0123456789abcdef\"", Some(Precondition::Revision(3))),
            ("*", Some(Precondition::Exists)),
            ("", None),
            ("\"\"", None),
            ("\"x\"", None),
            ("\"-1\"", None),
            ("\"+1\"", None),
            ("\"3-\"", None),
            ("\"3-0123\"", None),
            ("\"3-0123456789abcdeg\"", None),
            ("\"1\", \"2\"", None),
            ("W/\"1\"", None),
            ("\"4294967296\"", None),
        ] {
            let found = of(&[(header::IF_MATCH, text)]);
            assert_eq!(found, expected.ok_or_else(|| "If-Match".to_owned()), "{text}");
        }
        let none_match = |text| of(&[(header::IF_NONE_MATCH, text)]);
        assert_eq!(none_match("*"), Ok(Precondition::Absent));
        assert_eq!(none_match("\"3\""), Err("If-None-Match".to_owned()));
        assert_eq!(of(&[]), Ok(Precondition::None));
        let both = of(&[(header::IF_MATCH, "\"3\""), (header::IF_NONE_MATCH, "*")]);
        assert_eq!(both, Err("If-None-Match".to_owned()));
        let stars = [(header::IF_NONE_MATCH, "*".parse().unwrap())].into_iter().collect();
        assert!(read(&Method::DELETE, &stars).is_err());
    }

    #[test]
    fn an_answer_that_is_known_has_one_of_the_tags() {
        let etag = HeaderValue::from_static("\"3-0123456789abcdef\"");
        for (known, expected) in [
            ("\"3-0123456789abcdef\"", true),
            ("W/\"3-0123456789abcdef\"", true),
            ("\"1\", \"3-0123456789abcdef\"", true),
            ("*", true),
            ("\"3\"", false),
            ("\"3-0123456789abcdee\"", false),
            ("", false),
        ] {
            assert_eq!(is_known(&[HeaderValue::from_static(known)], &etag), expected, "{known}");
        }
    }
}
