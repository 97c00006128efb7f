//! Whether an answer sends the request elsewhere, and what is sent there.
//!
//! Another origin gets nothing that was meant for the one the task names: headers of the task and signatures stay
//! behind, and a body is sent there only if the task says so. Where it is, the guard checks when it is connected to.

use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, LOCATION, USER_AGENT};
use http::{Method, StatusCode};
use punctual_core::task::HttpCall;
use url::Url;

use super::request::{self, Outgoing};
use super::wire::Reply;

/// Sent to every place: they say nothing that is secret.
const HARMLESS: [HeaderName; 7] = [
    ACCEPT,
    CONTENT_TYPE,
    USER_AGENT,
    request::IDEMPOTENCY_KEY,
    request::JOB_ID,
    request::ATTEMPT,
    request::TRACING_ID,
];

pub(super) enum RedirectDecision {
    Follow(Box<Outgoing>),
    /// The redirect must not be followed, and the attempt fails with this reason.
    Refused(String),
    /// No redirect, or none that the task wants followed; with a hint for people.
    Stay(Option<String>),
}

pub(super) fn next(spec: &HttpCall, request: &Outgoing, reply: &Reply, followed: u8) -> RedirectDecision {
    let method = match (reply.status, &request.method) {
        (StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND, &Method::GET | &Method::HEAD)
        | (StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT, _)
        | (StatusCode::SEE_OTHER, &Method::HEAD) => request.method.clone(),
        (StatusCode::SEE_OTHER, _) => Method::GET,
        // Browsers make a GET of it. That would be a success which did nothing.
        (StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND, method) => {
            return RedirectDecision::Stay(Some(format!(
                "it does not say that the redirect is for a {method}, as 307 and 308 do"
            )));
        }
        _ => return RedirectDecision::Stay(None),
    };
    let Some(location) = reply.headers.get(LOCATION) else {
        return RedirectDecision::Stay(Some("the redirect does not say where to".to_owned()));
    };
    let hint = match spec.follow_redirects {
        0 => "follow_redirects is 0".to_owned(),
        most => format!("{most} redirects were followed, and no more are"),
    };
    if followed >= spec.follow_redirects {
        return RedirectDecision::Stay(Some(hint));
    }
    match target(&request.url, location.as_bytes()) {
        Ok(url) => match to(url, method, request) {
            next if next.body.is_some() && is_elsewhere(&next, request) && !spec.forward_body => {
                let origin = next.url.origin().ascii_serialization();
                RedirectDecision::Refused(format!(
                    "the redirect is not followed: it would send the body to another origin ({origin}); \
                     set forward_body to allow that"
                ))
            }
            next => RedirectDecision::Follow(Box::new(next)),
        },
        Err(reason) => RedirectDecision::Refused(format!("the redirect is not followed: {reason}")),
    }
}

/// Another scheme, host or port.
fn is_elsewhere(next: &Outgoing, request: &Outgoing) -> bool {
    next.url.origin() != request.url.origin()
}

fn target(from: &Url, location: &[u8]) -> Result<Url, String> {
    let location = std::str::from_utf8(location).map_err(|_| "its address is not text".to_owned())?;
    if location.len() > request::URL_BYTES_MAX {
        return Err("its address is too long".to_owned());
    }
    let mut url = from.join(location).map_err(|error| format!("its address is not valid: {error}"))?;
    request::check_url(&url)?;
    if from.scheme() == "https" && url.scheme() == "http" {
        return Err("it leads from https to http, where others can read it".to_owned());
    }
    url.set_fragment(None);
    Ok(url)
}

fn to(url: Url, method: Method, request: &Outgoing) -> Outgoing {
    let is_same_place = url.origin() == request.url.origin();
    let mut headers = request.headers.clone();
    if !is_same_place {
        headers = HARMLESS.into_iter().filter_map(|name| Some((name.clone(), headers.get(&name)?.clone()))).collect();
    }
    let mut body = request.body.clone();
    if matches!(method, Method::GET | Method::HEAD) && method != request.method {
        body = None;
        without_body(&mut headers);
    }
    Outgoing { method, url, headers, body }
}

fn without_body(headers: &mut HeaderMap) {
    headers.remove(CONTENT_TYPE);
    headers.remove(CONTENT_LENGTH);
    // They sign the body that stayed behind.
    for name in super::sign::HEADERS {
        headers.remove(name);
    }
}
