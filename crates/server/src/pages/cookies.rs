//! What a browser keeps for the pages: the session, and how somebody likes to see things.

use axum::extract::Request;
use http::{HeaderMap, HeaderValue, header};

use super::is_of_page;
use crate::guard::Reached;

pub(super) const ZONE: &str = "punctual_zone";
pub(super) const THEME: &str = "punctual_theme";
pub(super) const NAMESPACE: &str = "punctual_namespace";

/// Larger headers have more cookies than a browser keeps for us.
const COOKIE_BYTES_MAX: usize = 16 << 10;
/// Preferences are kept for a year.
const KEPT_SECONDS: u32 = 365 * 86_400;

/// Where the cookie of a namespace does not count: somebody who may not look into it must be able to choose another.
const WITHOUT_NAMESPACE: [&str; 3] = ["/preferences", "/logout", "/login"];

const fn session_name(is_encrypted: bool) -> &'static str {
    if is_encrypted { "__Host-punctual_session" } else { "punctual_session" }
}

/// The session of a browser, for a route of a page. A change must come from a page of this server, and browsers say so.
pub(crate) fn credential(request: &Request) -> Option<String> {
    let says_origin =
        || [header::ORIGIN.as_str(), "sec-fetch-site"].iter().any(|name| request.headers().contains_key(*name));
    if !is_of_page(request) || !(request.method().is_safe() || says_origin()) {
        return None;
    }
    let is_encrypted = request.extensions().get::<Reached>().is_some_and(Reached::is_encrypted);
    cookie(request.headers(), session_name(is_encrypted)).filter(|value| !value.is_empty())
}

/// The namespace that somebody looks at in a browser.
pub(crate) fn namespace(request: &Request) -> Option<String> {
    let counts = is_of_page(request) && !WITHOUT_NAMESPACE.contains(&request.uri().path());
    counts.then(|| cookie(request.headers(), NAMESPACE)).flatten().filter(|value| !value.is_empty())
}

/// The cookie of this name; `None` if there are two, of which one is somebody else's.
pub(crate) fn cookie(headers: &HeaderMap, name: &str) -> Option<String> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let pairs = lines.filter(|line| line.len() <= COOKIE_BYTES_MAX).flat_map(|line| line.split(';'));
    let mut found = pairs.filter_map(|pair| pair.trim().split_once('=')).filter(|(known, _)| *known == name);
    let (_, value) = found.next()?;
    found.next().is_none().then(|| value.to_owned())
}

/// Keeps a session in the browser until it is closed or the session ends.
pub(super) fn session(reached: &Reached, token: &str) -> HeaderValue {
    set(reached, session_name(reached.is_encrypted()), token, "; HttpOnly")
}

pub(super) fn no_session(reached: &Reached) -> HeaderValue {
    set(reached, session_name(reached.is_encrypted()), "", "; HttpOnly; Max-Age=0")
}

/// `value` has the characters of names of zones, themes and namespaces.
pub(super) fn preference(reached: &Reached, name: &str, value: &str) -> HeaderValue {
    set(reached, name, value, &format!("; HttpOnly; Max-Age={KEPT_SECONDS}"))
}

fn set(reached: &Reached, name: &str, value: &str, attributes: &str) -> HeaderValue {
    let secure = if reached.is_encrypted() { "; Secure" } else { "" };
    let text = format!("{name}={value}; Path=/; SameSite=Lax{attributes}{secure}");
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("punctual_none=; Max-Age=0"))
}
