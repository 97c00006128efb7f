//! What the administrator says about the provider.

use std::fmt;

use punctual_core::host;
use url::Url;
use zeroize::Zeroizing;

/// What the client shows to the provider. Never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientSecret(Zeroizing<String>);

impl ClientSecret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(Zeroizing::new(text.into()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ClientSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientSecret")
    }
}

#[derive(Debug, Clone)]
pub struct ProviderSettings {
    /// Compared with what the provider says of itself, letter by letter.
    pub issuer: String,
    pub client_id: String,
    /// `None` for a public client.
    pub client_secret: Option<ClientSecret>,
    /// Where the provider sends browsers back to.
    pub redirect_url: String,
    /// `openid` is among them in any case.
    pub scopes: Vec<String>,
    pub name_claim: String,
    pub groups_claim: String,
    /// Other audiences that an ID token may have beside the client.
    pub audiences: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadSettings {
    #[error("{0} is not an address of a provider: {1}")]
    Issuer(String, &'static str),
    #[error("the client's id is missing")]
    NoClient,
    #[error("cannot prepare connections to the provider: {0}")]
    Http(String),
}

/// Much longer than any address in use.
const URL_BYTES_MAX: usize = 2048;

impl ProviderSettings {
    pub(crate) fn check(&self) -> Result<(), BadSettings> {
        let bad = |reason| BadSettings::Issuer(self.issuer.chars().take(100).collect(), reason);
        let url = Url::parse(&self.issuer).map_err(|_| bad("it is no URL"))?;
        if url.query().is_some() || url.fragment().is_some() {
            return Err(bad("it has a query or a fragment"));
        }
        check_endpoint(&url, Loopback::Permitted).map_err(bad)?;
        if self.client_id.is_empty() {
            return Err(BadSettings::NoClient);
        }
        Ok(())
    }

    /// Whether the provider is on this machine and speaks plain HTTP, as in tests. Then its endpoints may, too.
    pub(crate) fn loopback(&self) -> Loopback {
        if self.issuer.starts_with("http://") { Loopback::Permitted } else { Loopback::Refused }
    }
}

/// Whether plain HTTP on loopback counts as secure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loopback {
    Permitted,
    Refused,
}

/// An address that is asked, or that people are sent to.
pub(crate) fn check_endpoint(url: &Url, loopback: Loopback) -> Result<(), &'static str> {
    if url.as_str().len() > URL_BYTES_MAX {
        return Err("it is too long");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("it has a user name or a password");
    }
    if url.fragment().is_some() {
        return Err("it has a fragment");
    }
    let Some(name) = url.host_str() else { return Err("it has no host") };
    match url.scheme() {
        "https" => Ok(()),
        "http" if loopback == Loopback::Permitted && host::is_loopback(name) => Ok(()),
        "http" => Err("it is not https"),
        _ => Err("it is neither https nor http"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(issuer: &str) -> Result<(), BadSettings> {
        let settings = ProviderSettings {
            issuer: issuer.to_owned(),
            client_id: "punctual".to_owned(),
            client_secret: None,
            redirect_url: String::new(),
            scopes: Vec::new(),
            name_claim: String::new(),
            groups_claim: String::new(),
            audiences: Vec::new(),
        };
        settings.check()
    }

    #[test]
    fn a_provider_is_asked_over_tls_unless_it_is_on_this_machine() {
        for good in
            ["https://id.example.com", "https://id.example.com/realms/a", "http://127.0.0.1:9000", "http://localhost/x"]
        {
            assert_eq!(checked(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            "id.example.com",
            "http://id.example.com",
            "http://127.0.0.1.nip.io",
            "ftp://127.0.0.1",
            "https://u:p@id.example.com",
            "https://id.example.com/?a=b",
            "https://id.example.com/#x",
        ] {
            assert!(checked(bad).is_err(), "{bad}");
        }
    }
}
