//! Who looks at a page, and how they want it.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use http::request::Parts;
use jiff::tz::TimeZone;
use punctual_app::{App, AppError, Principal, PrincipalKind};
use punctual_dashboard::{Confirmation, FormFault, Theme, Viewer};

use super::cookies::{self, THEME, ZONE};

/// The preferences of a browser, and the address it is at.
pub(super) struct Looks {
    zone: Option<TimeZone>,
    theme: Theme,
    address: String,
    /// Parts of a page that take long to work out are left as they are when it is only renewed.
    pub(super) is_renewal: bool,
}

impl FromRequestParts<App> for Looks {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Infallible> {
        let cookie = |name| cookies::cookie(&parts.headers, name);
        Ok(Self {
            zone: cookie(ZONE).and_then(|name| zone(&name)),
            theme: cookie(THEME).and_then(|name| Theme::parse(&name)).unwrap_or_default(),
            address: parts.uri.path_and_query().map_or("/", |address| address.as_str()).to_owned(),
            is_renewal: parts.headers.contains_key("punctual-renewal"),
        })
    }
}

impl Looks {
    /// The zone in which somebody writes times.
    pub(super) fn zone_name(&self) -> String {
        self.zone.as_ref().and_then(TimeZone::iana_name).unwrap_or("UTC").to_owned()
    }

    pub(super) async fn viewer(self, app: &App, principal: &Principal) -> Viewer {
        // Without the list, the page has no choice of namespaces, and everything else.
        let namespaces = match app.has_several_namespaces() {
            true => app.list_namespaces(principal).await.map(|list| list.namespaces).unwrap_or_default(),
            false => Vec::new(),
        };
        Viewer {
            who: principal.name().to_owned(),
            namespace: principal.namespace().name().to_owned(),
            namespaces: namespaces.into_iter().map(|namespace| namespace.name).collect(),
            rights: principal.rights(),
            has_session: principal.kind() == PrincipalKind::Person,
            has_chosen_zone: self.zone.is_some(),
            zone: self.zone.unwrap_or(TimeZone::UTC),
            theme: self.theme,
            address: self.address,
            home: app.settings().public_url.clone(),
            now: app.now(),
        }
    }
}

const ZONE_BYTES_MAX: usize = 64;

/// The zone of this name.
pub(super) fn zone(name: &str) -> Option<TimeZone> {
    let is_name = |text: &str| {
        text.len() <= ZONE_BYTES_MAX && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/_+-".contains(&byte))
    };
    if !is_name(name) {
        return None;
    }
    TimeZone::get(name).ok()
}

/// What a button has just done.
pub(super) fn notice(done: Option<&str>) -> Option<Confirmation> {
    done.and_then(Confirmation::parse)
}

/// Why a use case refused what a form asked for.
pub(super) fn fault(error: AppError) -> FormFault {
    FormFault { detail: error.detail, hint: error.hint }
}
