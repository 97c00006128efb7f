//! A typed client of the REST interface, used by the command line and by tests.
//!
//! Every method is one request, except [`Client::wait_finished`], which asks until
//! there is an answer, and [`Client::first_jobs`], which asks for page after page. A call that may safely be sent twice is sent again, within a
//! small budget, when the server could not be reached or said to come back later.
//! The proxies of the environment are never used: the server is named in full. Of several
//! servers, the next one is asked when one cannot be reached.

mod artifacts;
mod audit;
mod authority;
mod backfills;
mod batches;
mod calendars;
mod cluster_secret;
mod enrolments;
mod error;
mod identities;
mod jobs;
mod listeners;
mod namespaces;
mod nodes;
mod notifications;
mod openid;
mod queues;
mod schedules;
mod secrets;
mod send;
mod sse;
mod tasks;
mod workflows;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

pub use error::ClientError;
pub use jobs::{Ended, IdempotencyKey, Listed, LogChunk, LogEvent, LogFormat, LogPlace, Logs, Waited};
pub use listeners::loopback_addresses;
use listeners::{ListenerCheck, ListenerLayer};
pub use openid::DevicePolled;
use punctual_pki::CertificateDer;
use reqwest::Url;
use reqwest::header::HeaderValue;
pub use tasks::IfMatch;

/// How long a connection is retried: long enough for a server that restarts, short enough that a person who forgot to
/// start one learns it at once.
const REPEAT_BUDGET: Duration = Duration::from_millis(400);

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The time limit of one answer, longer than the slowest commit.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug, Clone)]
pub struct Client {
    /// A client of each server.
    http: Arc<[reqwest::Client]>,
    bases: Arc<[Url]>,
    /// The place of the server that answered last.
    current: Arc<AtomicUsize>,
    repeat_budget: Duration,
    /// How connections with TLS are made. The authorities of the system are trusted without.
    tls: Option<rustls::ClientConfig>,
    /// Whom to trust beside the system where a file goes to another address than a server's.
    storage_authorities: Vec<CertificateDer<'static>>,
    /// The access token for each server, if it needs one.
    tokens: Arc<[Option<HeaderValue>]>,
    /// `None`: that of the credential, or the default one.
    namespace: Option<HeaderValue>,
}

impl Client {
    /// A client of the server at `url`, such as `http://127.0.0.1:8020`, or of several servers
    /// of one cluster, with commas. Nothing is sent yet.
    pub fn new(url: &str) -> Result<Self, ClientError> {
        let bases: Arc<[Url]> = url.split(',').map(|url| parse_base(url.trim())).collect::<Result<_, _>>()?;
        // Another part of the process may have chosen a provider already; any will do.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = builder(&bases, None).build().map_err(ClientError::Setup)?;
        let http = bases.iter().map(|_| http.clone()).collect();
        let tokens = bases.iter().map(|_| None).collect();
        Ok(Self {
            http,
            bases,
            current: Arc::default(),
            repeat_budget: REPEAT_BUDGET,
            tls: None,
            storage_authorities: Vec::new(),
            tokens,
            namespace: None,
        })
    }

    /// Whether a server is asked over TLS.
    pub fn uses_tls(&self) -> bool {
        self.bases.iter().any(|base| base.scheme() == "https")
    }

    /// Trusts other servers than those that the system trusts. Called before [`Self::with_listener_check`].
    pub fn with_tls(mut self, config: rustls::ClientConfig) -> Result<Self, ClientError> {
        let http = builder(&self.bases, Some(&config)).build().map_err(ClientError::Setup)?;
        self.http = self.bases.iter().map(|_| http.clone()).collect();
        self.tls = Some(config);
        Ok(self)
    }

    /// Trusts these authorities beside the system's where a file goes to another address than a server's.
    #[must_use]
    pub fn with_storage_authorities(mut self, authorities: Vec<CertificateDer<'static>>) -> Self {
        self.storage_authorities = authorities;
        self
    }

    /// Shows each server the access token that `token` answers for its address. It goes to these servers and nowhere else.
    #[must_use]
    pub fn with_tokens(mut self, token: impl Fn(&str) -> Option<String>) -> Self {
        let header = |base: &Url| {
            let mut header = HeaderValue::try_from(format!("Bearer {}", token(written(base))?)).ok()?;
            header.set_sensitive(true);
            Some(header)
        };
        self.tokens = self.bases.iter().map(header).collect();
        self
    }

    /// Asks in a namespace. A text that no header can carry names none that there is.
    #[must_use]
    pub fn in_namespace(mut self, name: Option<&str>) -> Self {
        self.namespace = name.map(|name| HeaderValue::from_str(name).unwrap_or(HeaderValue::from_static("-")));
        self
    }

    /// Sends nothing to a listener on this machine for which `distrust` returns a reason. Called with the address before and after
    /// each connection is made.
    pub fn with_listener_check(
        mut self,
        distrust: impl Fn(SocketAddr) -> Option<String> + Send + Sync + 'static,
    ) -> Result<Self, ClientError> {
        let distrust: ListenerCheck = Arc::new(distrust);
        let client = |base: &Url| {
            // With TLS, the certificate says who the server is.
            let all = if base.scheme() == "http" { loopback_addresses(base.as_str()) } else { Vec::new() };
            let trusted: Vec<SocketAddr> = all.iter().copied().filter(|address| distrust(*address).is_none()).collect();
            // Without any, the check of all of them says why.
            let addresses = if trusted.is_empty() { all } else { trusted };
            let mut builder = builder(&self.bases, self.tls.as_ref());
            if base.host_str() == Some("localhost") && !addresses.is_empty() {
                builder = builder.resolve_to_addrs("localhost", &addresses);
            }
            let layer = ListenerLayer { addresses: addresses.into(), distrust: Arc::clone(&distrust) };
            builder.connector_layer(layer).build().map_err(ClientError::Setup)
        };
        self.http = self.bases.iter().map(client).collect::<Result<_, _>>()?;
        Ok(self)
    }

    /// The first address at which another machine would be spoken to without TLS.
    pub fn plain_http_elsewhere(&self) -> Option<&str> {
        let is_here = |base: &Url| base.host_str().is_some_and(punctual_core::host::is_loopback);
        self.bases.iter().find(|base| base.scheme() == "http" && !is_here(base)).map(written)
    }

    /// How long a failed call is tried again; zero for never.
    #[must_use]
    pub fn with_repeat_budget(mut self, budget: Duration) -> Self {
        self.repeat_budget = budget;
        self
    }

    /// The address of the server that is asked, as people write it.
    pub fn url(&self) -> &str {
        written(self.base())
    }

    /// The addresses of all servers.
    pub fn urls(&self) -> impl Iterator<Item = &str> {
        self.bases.iter().map(written)
    }

    fn base(&self) -> &Url {
        &self.bases[self.place()]
    }

    fn place(&self) -> usize {
        self.current.load(Ordering::Relaxed) % self.bases.len()
    }

    /// Redirects a request to the server that is used now.
    fn redirected(&self, url: &Url) -> Url {
        let from =
            self.bases.iter().map(written).filter(|base| url.as_str().starts_with(base)).max_by_key(|base| base.len());
        let path = from.map_or("", |base| &url.as_str()[base.len()..]);
        format!("{}{path}", self.url()).parse().unwrap_or_else(|_| url.clone())
    }

    /// Uses the next server from now on.
    fn turn(&self) {
        self.current.store((self.current.load(Ordering::Relaxed) + 1) % self.bases.len(), Ordering::Relaxed);
    }

    fn at<const N: usize>(&self, path: [&str; N]) -> Url {
        let mut url = self.base().clone();
        url.path_segments_mut().expect("parse_base admits only http and https").pop_if_empty().extend(path);
        url
    }
}

fn builder(bases: &[Url], tls: Option<&rustls::ClientConfig>) -> reqwest::ClientBuilder {
    let builder = reqwest::Client::builder()
        .user_agent(concat!("punctual/", env!("CARGO_PKG_VERSION")))
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .tcp_nodelay(true)
        .connect_timeout(CONNECT_TIMEOUT);
    if bases.iter().all(|base| base.scheme() == "http") {
        // Looking for the system's certificates fails on machines that have none.
        return builder.tls_certs_only([]);
    }
    match tls {
        Some(config) => builder.tls_backend_preconfigured(config.clone()),
        None => builder,
    }
}

fn written(base: &Url) -> &str {
    base.as_str().trim_end_matches('/')
}

/// A plain description of what is wrong with an address.
fn fault(message: &str) -> &'static str {
    const MEANINGS: [(&str, &str); 3] = [
        ("empty host", "it names no host"),
        ("port", "its port is not a number from 0 to 65535"),
        ("IP", "its IP address is not one"),
    ];
    let meaning = MEANINGS.iter().find(|(text, _)| message.contains(text));
    meaning.map_or("its form is not known", |(_, meaning)| meaning)
}

fn parse_base(text: &str) -> Result<Url, ClientError> {
    let refused = |reason: String| ClientError::BadUrl { url: text.to_owned(), reason };
    let no_scheme = || refused("it must begin with http:// or https://".to_owned());
    if !text.contains("://") {
        return Err(no_scheme());
    }
    let url = Url::parse(text).map_err(|error| refused(fault(&error.to_string()).to_owned()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(no_scheme());
    }
    if !url.username().is_empty() || url.password().is_some() {
        let shown = text.rsplit_once('@').map_or("", |(_, host)| host);
        return Err(ClientError::BadUrl {
            url: format!("{}://***@{shown}", url.scheme()),
            reason:
                "it must not have a user name or a password; leave them out, and name the file of the server's token \
                     with --token-file"
                    .to_owned(),
        });
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(refused("it must not have a query or a fragment".to_owned()));
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_http_addresses_are_servers() {
        for (url, good) in [
            ("http://127.0.0.1:8020", true),
            ("http://127.0.0.1:8020/", true),
            ("https://example.org/punctual", true),
            ("http://user:pw@127.0.0.1:8020", false),
            ("http://user@127.0.0.1:8020", false),
            ("127.0.0.1:8020", false),
            ("localhost:8020", false),
            ("ftp://127.0.0.1", false),
            ("http://127.0.0.1:8020/?a=b", false),
            ("", false),
            ("http://127.0.0.1:8020, http://127.0.0.1:8021", true),
            ("http://127.0.0.1:8020,", false),
        ] {
            assert_eq!(Client::new(url).is_ok(), good, "{url}");
        }
    }

    #[test]
    fn a_refused_address_says_what_to_do_and_repeats_no_password() {
        let refused = |url: &str| Client::new(url).err().map(|error| error.to_string()).unwrap_or_default();
        let credentials = refused("http://user:s3cret@127.0.0.1:8020");
        assert!(credentials.contains("--token-file") && !credentials.contains("s3cret"), "{credentials}");
    }

    #[test]
    fn names_in_paths_are_escaped_and_a_prefix_is_kept() {
        let client = Client::new("http://h/prefix/").unwrap();
        assert_eq!(client.at(["v1", "tasks", "a/b?c"]).as_str(), "http://h/prefix/v1/tasks/a%2Fb%3Fc");
        let client = Client::new("http://h:1").unwrap();
        assert_eq!(client.at(["livez"]).as_str(), "http://h:1/livez");
        assert_eq!(client.url(), "http://h:1");
    }
}
