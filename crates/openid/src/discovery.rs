//! What a provider says of itself, at `/.well-known/openid-configuration`.

use serde_json::{Map, Value};
use url::Url;

use crate::fault::quoted;
use crate::settings::{Loopback, ProviderSettings, check_endpoint};
use crate::{Fault, json};

/// The part of it that is used.
#[derive(Debug, Clone)]
pub(crate) struct Discovery {
    pub(crate) authorization: Url,
    pub(crate) token: Url,
    pub(crate) keys: Url,
    pub(crate) userinfo: Option<Url>,
    pub(crate) device: Option<Url>,
    pub(crate) client_auth: ClientAuth,
    /// The provider adds `iss` when it sends a browser back (RFC 9207).
    pub(crate) names_itself: bool,
}

/// How the client's secret goes to the token endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientAuth {
    Basic,
    Post,
}

/// Where the document of an issuer is.
pub(crate) fn address(issuer: &str) -> String {
    format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'))
}

pub(crate) fn read(text: &[u8], settings: &ProviderSettings) -> Result<Discovery, Fault> {
    let unusable = |reason: String| Fault::Unusable(format!("its discovery document: {reason}"));
    let document = json::object(text, "it").map_err(|fault| unusable(fault.to_string()))?;
    let issuer = document.get("issuer").and_then(Value::as_str).unwrap_or_default();
    if issuer != settings.issuer {
        let issuer = quoted(issuer);
        return Err(unusable(format!("its issuer is `{issuer}`, and not exactly the one of the settings")));
    }
    if list(&document, "code_challenge_methods_supported").is_some_and(|methods| !methods.contains(&"S256")) {
        return Err(unusable("the provider does not support PKCE with S256".to_owned()));
    }
    let loopback = settings.loopback();
    let endpoint = |name: &str| endpoint(&document, name, loopback).map_err(unusable);
    let required = |name: &str| endpoint(name)?.ok_or_else(|| unusable(format!("`{name}` is missing")));
    let auth = list(&document, "token_endpoint_auth_methods_supported");
    let is_post =
        auth.is_some_and(|known| !known.contains(&"client_secret_basic") && known.contains(&"client_secret_post"));
    Ok(Discovery {
        authorization: required("authorization_endpoint")?,
        token: required("token_endpoint")?,
        keys: required("jwks_uri")?,
        userinfo: endpoint("userinfo_endpoint")?,
        device: endpoint("device_authorization_endpoint")?,
        client_auth: if is_post { ClientAuth::Post } else { ClientAuth::Basic },
        names_itself: document.get("authorization_response_iss_parameter_supported") == Some(&Value::Bool(true)),
    })
}

fn endpoint(document: &Map<String, Value>, name: &str, loopback: Loopback) -> Result<Option<Url>, String> {
    let Some(value) = document.get(name) else { return Ok(None) };
    let text = value.as_str().ok_or_else(|| format!("`{name}` is not a text"))?;
    let url = Url::parse(text).map_err(|_| format!("`{name}` is not a URL"))?;
    check_endpoint(&url, loopback).map_err(|reason| format!("`{name}` cannot be used: {reason}"))?;
    Ok(Some(url))
}

fn list<'a>(document: &'a Map<String, Value>, name: &str) -> Option<Vec<&'a str>> {
    Some(document.get(name)?.as_array()?.iter().filter_map(Value::as_str).collect())
}
