//! Logging in at a provider of OpenID Connect: the two addresses that browsers come to, and what command lines ask.

use axum::Extension;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use punctual_api::{
    BrowserLoginQuery, DeviceLogin, DevicePending, DevicePollRequest, LoginExchange, ProviderAnswerQuery,
    SessionCreated,
};
use punctual_app::{App, DevicePolled, FinishedLogin, ProviderAnswer, Transport};

use crate::guard::Reached;
use crate::identities::secret;
use crate::pages::cookie;
use crate::parse::{Json, NoParams, Params};
use crate::problem::{Problems, Refused};

pub(crate) const START: &str = "/v1/login/oidc/start";
pub(crate) const CALLBACK: &str = "/v1/login/oidc/callback";

/// Whether a provider sends a browser back. It comes from the provider's pages, which are of another site, and what it brings is
/// worth nothing without the cookie of a login that began here.
pub(crate) fn is_return(request: &Request) -> bool {
    let is = |name: &str, value: &str| request.headers().get(name).is_none_or(|found| found == value);
    request.method() == Method::GET
        && request.uri().path() == CALLBACK
        && is("sec-fetch-mode", "navigate")
        && is("sec-fetch-dest", "document")
}

/// Sends a browser to the provider. For `punctual login --oidc`.
#[utoipa::path(get, path = "/v1/login/oidc/start", operation_id = "begin_browser_login", tag = "logins", params(
    ("port" = u16, Query), ("challenge" = String, Query), ("state" = String, Query), ("moved" = Option<bool>, Query),
), responses(
    (status = 303, description = "To the provider, or to the address of the server at which it sends browsers back",
        headers(("Location" = String, description = "Where the browser goes next"))),
    Problems,
))]
pub(crate) async fn start(
    State(app): State<App>,
    Extension(reached): Extension<Reached>,
    Params(query): Params<BrowserLoginQuery>,
) -> Result<Response, Refused> {
    // The cookie is for the host that the browser comes back to.
    let home = app.settings().public_url.clone();
    let is_home = home.eq_ignore_ascii_case(&reached.url());
    if !is_home && query.moved.is_none() {
        let BrowserLoginQuery { port, challenge, state, .. } = &query;
        app.check_browser_login(&query)?;
        return Ok(to(&format!("{home}{START}?port={port}&challenge={challenge}&state={state}&moved=true")));
    }
    let begun = app.begin_browser_login(query).await?;
    let (cookie, lasts) = (begun.cookie, begun.lasts.as_secs());
    let name = cookie_name(&reached);
    let attributes = if reached.is_encrypted() { "; Secure" } else { "" };
    let cookie = format!("{name}={cookie}; Path=/; HttpOnly; SameSite=Lax; Max-Age={lasts}{attributes}");
    let mut response = to(&begun.address);
    response.headers_mut().insert(header::SET_COOKIE, HeaderValue::try_from(cookie).expect("base64url and words"));
    Ok(response)
}

/// Where the provider sends a browser back to. Answers with a page that leads to the command line.
#[utoipa::path(get, path = "/v1/login/oidc/callback", operation_id = "finish_browser_login", tag = "logins", params(
    ("state" = Option<String>, Query), ("code" = Option<String>, Query), ("iss" = Option<String>, Query),
    ("error" = Option<String>, Query), ("error_description" = Option<String>, Query),
), responses(
    (status = 200, description = "A page", body = String, content_type = "text/html"),
    Problems,
))]
pub(crate) async fn callback(
    State(app): State<App>,
    Extension(transport): Extension<Transport>,
    Extension(reached): Extension<Reached>,
    headers: HeaderMap,
    Params(query): Params<ProviderAnswerQuery>,
) -> Result<Response, Refused> {
    let ProviderAnswerQuery { state, code, iss, error, error_description } = query;
    let answer = ProviderAnswer { state, code, issuer: iss, error, error_description };
    let cookie = cookie(&headers, cookie_name(&reached));
    let finished = app.finish_browser_login(&transport, &answer, cookie.as_deref()).await?;
    let mut response = page(&finished).into_response();
    let headers = response.headers_mut();
    let mut set = |name, value| headers.insert(name, HeaderValue::from_static(value));
    set(header::CONTENT_TYPE, "text/html; charset=utf-8");
    set(header::CACHE_CONTROL, "no-store");
    set(header::REFERRER_POLICY, "no-referrer");
    set(
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    );
    let gone = format!("{}=; Path=/; HttpOnly; SameSite=Lax; Max-Age=0", cookie_name(&reached));
    let gone = if reached.is_encrypted() { format!("{gone}; Secure") } else { gone };
    headers.insert(header::SET_COOKIE, HeaderValue::try_from(gone).expect("words"));
    Ok(response)
}

/// Gives the session for the code that a browser brought to the command line.
#[utoipa::path(post, path = "/v1/login/oidc/exchange", operation_id = "exchange_login", tag = "logins",
    request_body = LoginExchange, responses(
    (status = 201, description = "The session and its token", body = SessionCreated),
    Problems,
))]
pub(crate) async fn exchange(
    State(app): State<App>,
    Extension(transport): Extension<Transport>,
    _: NoParams,
    Json { value: request, .. }: Json<LoginExchange>,
) -> Result<Response, Refused> {
    Ok(secret(StatusCode::CREATED, app.exchange_login(&transport, &request).await?))
}

/// Begins a login that somebody completes with a browser on any machine.
#[utoipa::path(post, path = "/v1/login/oidc/device", operation_id = "begin_device_login", tag = "logins", responses(
    (status = 200, description = "The code that the person types, and where", body = DeviceLogin),
    Problems,
))]
pub(crate) async fn begin_device(
    State(app): State<App>,
    Extension(transport): Extension<Transport>,
    _: NoParams,
) -> Result<Response, Refused> {
    Ok(secret(StatusCode::OK, app.begin_device_login(&transport).await?))
}

/// Asks whether the person has completed the login.
#[utoipa::path(post, path = "/v1/login/oidc/device/poll", operation_id = "poll_device_login", tag = "logins",
    request_body = DevicePollRequest, responses(
    (status = 201, description = "The session and its token", body = SessionCreated),
    (status = 202, description = "Not yet", body = DevicePending),
    Problems,
))]
pub(crate) async fn poll_device(
    State(app): State<App>,
    Extension(transport): Extension<Transport>,
    _: NoParams,
    Json { value: request, .. }: Json<DevicePollRequest>,
) -> Result<Response, Refused> {
    Ok(match app.poll_device_login(&transport, &request).await? {
        DevicePolled::Waiting(status) => secret(StatusCode::ACCEPTED, DevicePending { status }),
        DevicePolled::Done(session) => secret(StatusCode::CREATED, session),
    })
}

fn to(address: &str) -> Response {
    let location = HeaderValue::try_from(address).expect("an address that was parsed has no other characters");
    let headers = [
        (header::LOCATION, location),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    ];
    (StatusCode::SEE_OTHER, headers).into_response()
}

/// With TLS, no other host can set a cookie of this name, and no connection without TLS.
fn cookie_name(reached: &Reached) -> &'static str {
    if reached.is_encrypted() { "__Host-punctual_login" } else { "punctual_login" }
}

/// A click is asked for: whoever sent somebody here with a link of their own must not get a session by it.
fn page(finished: &FinishedLogin) -> String {
    let FinishedLogin { name, address, check } = finished;
    // A name has letters, digits, dots, dashes and underscores; the rest is made here.
    let address = address.replace('&', "&amp;");
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Punctual: log in</title></head><body>\n\
         <h1>Log in as {name}?</h1>\n\
         <p>Continue only if you ran <code>punctual login</code> on this computer and it shows the code\n\
         <strong id=\"check\">{check}</strong>. If it shows another code, or if somebody sent you here, close this page.</p>\n\
         <p><a id=\"continue\" rel=\"noreferrer\" href=\"{address}\">Continue</a></p>\n</body></html>\n"
    )
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    #[test]
    fn a_cookie_that_is_there_twice_counts_as_none() {
        let of = |lines: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(header::COOKIE, HeaderValue::from_static(line));
            }
            cookie(&headers, "punctual_login")
        };
        assert_eq!(of(&["a=b; punctual_login=x; c=d"]).as_deref(), Some("x"));
        for lines in
            [&["a=b"][..], &["punctual_login=x; punctual_login=y"], &["punctual_login=x", "punctual_login=x"], &[]]
        {
            assert_eq!(of(lines), None, "{lines:?}");
        }
    }

    #[test]
    fn only_the_navigation_of_a_browser_to_the_callback_is_a_return() {
        let is = |method: &str, path: &str, mode: &str| {
            let request = Request::builder().method(method).uri(path).header("sec-fetch-mode", mode);
            is_return(&request.body(Body::empty()).unwrap())
        };
        assert!(is("GET", "/v1/login/oidc/callback?code=x", "navigate"));
        assert!(!is("POST", "/v1/login/oidc/callback", "navigate"));
        assert!(!is("GET", "/v1/login/oidc/callback", "cors"));
        assert!(!is("GET", "/v1/login/oidc/start", "navigate"));
        assert!(!is("GET", "/v1/jobs", "navigate"));
    }
}
