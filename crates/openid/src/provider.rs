//! The provider: what is known of it, and requests to it.

use std::sync::Arc;

use punctual_core::{Span, Timestamp};
use reqwest::header::{ACCEPT, AUTHORIZATION};
use reqwest::{RequestBuilder, StatusCode};
use serde_json::{Map, Value};
use tokio::sync::Mutex;
use url::form_urlencoded;

use crate::claims::{self, Identity};
use crate::discovery::{self, ClientAuth, Discovery};
use crate::fault::quoted;
use crate::keys::Keys;
use crate::settings::{BadSettings, ProviderSettings};
use crate::token::Unverified;
use crate::{Fault, http, json};

/// Endpoints move rarely, and are asked for again when they do.
const DISCOVERY_FRESH_FOR: Span = Span::from_secs(3600);
/// A key that the provider withdrew counts for this long at most.
const KEYS_FRESH_FOR: Span = Span::from_secs(600);
/// Tokens with ids of keys that nobody has make no more requests than this.
const KEYS_REREAD_EVERY: Span = Span::from_secs(30);
/// Those who wait while a request fails get its error instead of one more.
const FAILURE_COUNTS_FOR: Span = Span::from_secs(1);

pub(crate) type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// A provider of OpenID Connect, and this client of it.
pub struct Provider {
    pub(crate) settings: ProviderSettings,
    pub(crate) http: reqwest::Client,
    clock: Clock,
    discovery: Mutex<Cached<Discovery>>,
    keys: Mutex<Cached<Keys>>,
    reread_at: Mutex<Option<Timestamp>>,
}

impl Provider {
    /// Asks nothing yet. `tls` says which authorities are trusted; without it, only plain HTTP on loopback works.
    pub fn new(
        settings: ProviderSettings,
        tls: Option<rustls::ClientConfig>,
        clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    ) -> Result<Self, BadSettings> {
        settings.check()?;
        let http = http::client(tls)?;
        Ok(Self {
            settings,
            http,
            clock,
            discovery: Mutex::default(),
            keys: Mutex::default(),
            reread_at: Mutex::default(),
        })
    }

    pub fn issuer(&self) -> &str {
        &self.settings.issuer
    }

    pub(crate) async fn discovery(&self) -> Result<Arc<Discovery>, Fault> {
        let mut cached = self.discovery.lock().await;
        if let Some(known) = cached.get((self.clock)(), DISCOVERY_FRESH_FOR) {
            return known;
        }
        let address = discovery::address(&self.settings.issuer);
        let fetched = self.document(&address, "the discovery document").await;
        let read = fetched.and_then(|text| discovery::read(&text, &self.settings));
        cached.keep(read, (self.clock)())
    }

    async fn keys(&self, discovery: &Discovery) -> Result<Arc<Keys>, Fault> {
        let mut cached = self.keys.lock().await;
        if let Some(known) = cached.get((self.clock)(), KEYS_FRESH_FOR) {
            return known;
        }
        let fetched = self.document(discovery.keys.as_str(), "the set of keys").await;
        cached.keep(fetched.and_then(|text| Keys::read(&text)), (self.clock)())
    }

    /// The keys as they are now, for a token with one that is not known; `None` if they were read again a moment ago.
    async fn reread_keys(&self, discovery: &Discovery) -> Result<Option<Arc<Keys>>, Fault> {
        {
            let mut reread_at = self.reread_at.lock().await;
            let now = (self.clock)();
            if reread_at.is_some_and(|at| now.since(at) < KEYS_REREAD_EVERY) {
                return Ok(None);
            }
            *reread_at = Some(now);
        }
        self.keys.lock().await.forget();
        self.keys(discovery).await.map(Some)
    }

    async fn document(&self, address: &str, what: &'static str) -> Result<Vec<u8>, Fault> {
        let answered = http::send(self.http.get(address).header(ACCEPT, "application/json"), what).await?;
        if answered.status != StatusCode::OK {
            return Err(Fault::Unusable(format!("{what} is answered with {}", answered.status)));
        }
        Ok(answered.body)
    }

    /// A request with what proves that this client makes it.
    pub(crate) fn as_client(
        &self,
        request: RequestBuilder,
        auth: ClientAuth,
        fields: &[(&str, &str)],
    ) -> RequestBuilder {
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.extend_pairs(fields);
        let request = match (&self.settings.client_secret, auth) {
            (Some(secret), ClientAuth::Basic) => {
                // RFC 6749, 2.3.1: both are encoded as in a form before they are joined.
                let encoded = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
                request.basic_auth(encoded(&self.settings.client_id), Some(encoded(secret.as_str())))
            }
            (Some(secret), ClientAuth::Post) => {
                form.append_pair("client_id", &self.settings.client_id).append_pair("client_secret", secret.as_str());
                request
            }
            (None, _) => {
                form.append_pair("client_id", &self.settings.client_id);
                request
            }
        };
        request
            .header("content-type", "application/x-www-form-urlencoded")
            .header(ACCEPT, "application/json")
            .body(form.finish())
    }

    /// The tokens that the token endpoint answered with become a person.
    pub(crate) async fn identity(
        &self,
        discovery: &Discovery,
        tokens: &Map<String, Value>,
        nonce: Option<&str>,
    ) -> Result<Identity, Fault> {
        let text = |name: &str| tokens.get(name).and_then(Value::as_str);
        let token = text("id_token").ok_or_else(|| {
            Fault::invalid("no_id_token", "the token endpoint gives none; is `openid` a scope of the client?")
        })?;
        let claims = self.verified(discovery, token).await?;
        let subject = claims::check(&claims, &self.settings, nonce, (self.clock)())?;
        let (name_claim, groups_claim) = (&self.settings.name_claim, &self.settings.groups_claim);
        let mut name = claims::name(&claims, name_claim);
        let mut groups = claims::groups(&claims, groups_claim);
        if (name.is_none() || groups.is_none())
            && let (Some(address), Some(access_token)) = (&discovery.userinfo, text("access_token"))
        {
            let more = self.userinfo(address.as_str(), access_token, &subject).await?;
            name = name.or_else(|| claims::name(&more, name_claim));
            groups = groups.or_else(|| claims::groups(&more, groups_claim));
        }
        Ok(Identity { issuer: self.settings.issuer.clone(), subject, name, groups: groups.unwrap_or_default() })
    }

    async fn verified(&self, discovery: &Discovery, token: &str) -> Result<Map<String, Value>, Fault> {
        let token = Unverified::read(token)?;
        let keys = self.keys(discovery).await?;
        if let Some(claims) = token.verify(&keys)? {
            return Ok(claims);
        }
        let Some(keys) = self.reread_keys(discovery).await? else { return Err(token.unknown_key()) };
        token.verify(&keys)?.ok_or_else(|| token.unknown_key())
    }

    /// Claims that the ID token does not have. They must be of the same person.
    async fn userinfo(&self, address: &str, access_token: &str, subject: &str) -> Result<Map<String, Value>, Fault> {
        const WHAT: &str = "the userinfo endpoint";
        let request = self.http.get(address).header(ACCEPT, "application/json");
        let answered = http::send(request.header(AUTHORIZATION, format!("Bearer {access_token}")), WHAT).await?;
        if answered.status != StatusCode::OK {
            return Err(Fault::Unusable(format!("{WHAT} answers with {}", answered.status)));
        }
        let claims = json::object(&answered.body, "the answer of the userinfo endpoint")?;
        if claims.get("sub").and_then(Value::as_str) != Some(subject) {
            return Err(Fault::invalid("wrong_subject", "the userinfo endpoint speaks of somebody else"));
        }
        Ok(claims)
    }

    /// The successful answer of an endpoint that takes forms, or the code of its error.
    pub(crate) async fn tokens(
        &self,
        request: RequestBuilder,
        what: &'static str,
    ) -> Result<Result<Map<String, Value>, String>, Fault> {
        let answered = http::send(request, what).await?;
        let body = json::object(&answered.body, what);
        if answered.status.is_success() {
            return body.map(Ok);
        }
        let body = body.unwrap_or_default();
        let text = |name: &str| body.get(name).and_then(Value::as_str).map(quoted);
        let code = text("error").unwrap_or_default();
        let described = || {
            let description = text("error_description").unwrap_or_default();
            format!("{what} answers {}: {code} {description}", answered.status).trim_end().to_owned()
        };
        match code.as_str() {
            "invalid_client"
            | "unauthorized_client"
            | "unsupported_grant_type"
            | "invalid_scope"
            | "invalid_request" => Err(Fault::ClientRefused(described())),
            "" => Err(Fault::Unusable(described())),
            _ => Ok(Err(code)),
        }
    }
}

/// What the provider said, or failed with, a while ago.
struct Cached<T> {
    value: Option<(Arc<T>, Timestamp)>,
    failure: Option<(Fault, Timestamp)>,
}

impl<T> Default for Cached<T> {
    fn default() -> Self {
        Self { value: None, failure: None }
    }
}

impl<T> Cached<T> {
    /// `None` if the provider is to be asked.
    fn get(&self, now: Timestamp, fresh_for: Span) -> Option<Result<Arc<T>, Fault>> {
        if let Some((value, at)) = &self.value
            && now.since(*at) < fresh_for
        {
            return Some(Ok(Arc::clone(value)));
        }
        let (fault, at) = self.failure.as_ref()?;
        (now.since(*at) < FAILURE_COUNTS_FOR).then(|| Err(fault.clone()))
    }

    fn keep(&mut self, read: Result<T, Fault>, now: Timestamp) -> Result<Arc<T>, Fault> {
        match read {
            Ok(value) => {
                let value = Arc::new(value);
                (self.value, self.failure) = (Some((Arc::clone(&value), now)), None);
                Ok(value)
            }
            Err(fault) => {
                self.failure = Some((fault.clone(), now));
                Err(fault)
            }
        }
    }

    fn forget(&mut self) {
        self.value = None;
    }
}
