//! Logging in and out in a browser, and preferences.

use axum::Extension;
use axum::extract::{FromRequest, Request, State};
use axum::response::{IntoResponse, Response};
use http::header;
use punctual_api::{ErrorKind, LoginRequest, SecretText};
use punctual_app::{App, AppError, Checked, Transport};
use punctual_dashboard::Theme;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::cookies::{self, NAMESPACE, THEME, ZONE};
use super::viewer::zone;
use super::{Answer, answer, see};
use crate::bodies::read_body;
use crate::guard::Reached;
use crate::parameters::read_query;
use crate::parse::{NoParams, Params, content_type};
use crate::permit::Anybody;
use crate::problem::Refused;

/// A form holds an input of a job of 64 KiB, each byte of which may take three.
const FORM_BYTES_MAX: usize = 256 << 10;

/// What a form of a page sends.
pub(super) struct Form<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned + Checked> FromRequest<S> for Form<T> {
    type Rejection = Refused;

    async fn from_request(request: Request, _: &S) -> Result<Self, Refused> {
        if !content_type(request.headers()).eq_ignore_ascii_case("application/x-www-form-urlencoded") {
            let error = AppError::new(ErrorKind::UnsupportedMediaType, "the body must be that of a form");
            return Err(error.hint("programs use the routes below /v1; GET /openapi.json describes them").into());
        }
        let bytes = read_body(request.into_body(), FORM_BYTES_MAX).await?;
        let text = str::from_utf8(&bytes).map_err(|_| AppError::invalid("the form is not valid UTF-8"))?;
        Ok(Self(read_query(text)?))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Next {
    next: Option<String>,
}

impl Checked for Next {}

/// A page of this server, whatever the address says.
fn own(address: Option<&str>) -> &str {
    let is_own = |address: &&str| {
        address.starts_with('/')
            && !address.starts_with("//")
            && !address.contains('\\')
            && address.bytes().all(|byte| byte.is_ascii_graphic())
    };
    address.filter(is_own).unwrap_or("/")
}

pub(super) async fn form(Params(query): Params<Next>) -> Response {
    answer(punctual_dashboard::login(own(query.next.as_deref()), None))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LoginForm {
    name: String,
    password: String,
    next: Option<String>,
}

impl Checked for LoginForm {}

pub(super) async fn login(
    State(app): State<App>,
    Extension(transport): Extension<Transport>,
    Extension(reached): Extension<Reached>,
    _: NoParams,
    Form(LoginForm { name, password, next }): Form<LoginForm>,
) -> Answer {
    let request = LoginRequest { name, password: SecretText(password) };
    let next = own(next.as_deref());
    match app.login(&transport, &request).await {
        Ok(created) => {
            let mut response = see(next);
            response.headers_mut().insert(header::SET_COOKIE, cookies::session(&reached, &created.token.0));
            Ok(response)
        }
        // The answer keeps what it failed with, for the audit log and the limit of attempts.
        Err(error) if error.kind == ErrorKind::LoginFailed => {
            let mut response = Refused(error).into_response();
            response.extensions_mut().insert(WrongLogin { next: next.to_owned() });
            Ok(response)
        }
        Err(error) => Err(error.into()),
    }
}

/// A login with a wrong name or password, which shows the form again.
#[derive(Debug, Clone)]
pub(crate) struct WrongLogin {
    next: String,
}

impl WrongLogin {
    pub(crate) fn page(&self, detail: &str) -> Response {
        answer(punctual_dashboard::login(&self.next, Some(detail)))
    }
}

/// Ends the session of this browser. The cookie goes in any case.
pub(super) async fn logout(
    Anybody(principal): Anybody,
    State(app): State<App>,
    Extension(reached): Extension<Reached>,
    _: NoParams,
) -> Answer {
    if principal.kind() == punctual_app::PrincipalKind::Person {
        app.end_session(&principal, "current").await?;
    }
    let mut response = see("/login");
    response.headers_mut().insert(header::SET_COOKIE, cookies::no_session(&reached));
    Ok(response)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Preferences {
    zone: Option<String>,
    theme: Option<String>,
    namespace: Option<String>,
    back: Option<String>,
}

impl Checked for Preferences {}

/// What is not given stays as it is.
pub(super) async fn preferences(
    _: Anybody,
    Extension(reached): Extension<Reached>,
    _: NoParams,
    Form(Preferences { zone: name, theme, namespace, back }): Form<Preferences>,
) -> Answer {
    let mut cookies = Vec::new();
    if let Some(name) = name {
        let found = zone(&name).ok_or_else(|| {
            AppError::field("zone", format!("there is no time zone `{}`", name.chars().take(64).collect::<String>()))
                .hint("names are those of the IANA database, such as Europe/Berlin or UTC")
        })?;
        cookies.push((ZONE, found.iana_name().unwrap_or("UTC").to_owned()));
    }
    if let Some(theme) = theme {
        let theme = Theme::parse(&theme).ok_or_else(|| AppError::field("theme", "must be system, light or dark"))?;
        cookies.push((THEME, theme.name().to_owned()));
    }
    if let Some(namespace) = namespace {
        let is_name = namespace.len() <= 63
            && namespace.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        if !is_name {
            return Err(AppError::field("namespace", "must be the name of a namespace").into());
        }
        cookies.push((NAMESPACE, namespace));
    }
    let mut response = see(own(back.as_deref()));
    for (name, value) in cookies {
        response.headers_mut().append(header::SET_COOKIE, cookies::preference(&reached, name, &value));
    }
    Ok(response)
}
