//! What every request passes first: where it comes from, who sends it, whether its body arrives, how many there are, and
//! the id under which it can be found again.
//!
//! The server answers its own user on loopback without credentials. A web page in that user's
//! browser must not be able to use that: its requests carry its own origin, and one that has its
//! name resolve to loopback carries its own host name. Both are refused.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody as _};
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use http::uri::{Authority, Scheme};
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use punctual_api::ErrorKind;
use punctual_app::{App, AppError};
use tokio::sync::{Semaphore, SemaphorePermit};
use tonic::Status;

use crate::audited::{self, Audited};
use crate::connections::{Arriving, Connection};
use crate::network::{Encryption, Link, Network, Wire};
use crate::pages;
use crate::permit;
use crate::problem::{self, Refused};
use crate::proxies::Forwarded;
use crate::rates::{self, Rates};
use crate::request_id::RequestId;
use crate::streams::{self, Place, Streams};
use crate::{access, agent, answers, bodies, conditions, lists, oidc, unabandoned};

/// Requests that are worked on at a time. Beyond it they are refused at once: a
/// queue would only make all of them late.
const REQUESTS_MAX: usize = 4096;

/// Clients that follow changes or logs at a time. Each costs a task and a look now and then.
const FOLLOWERS_MAX: usize = 1024;

static FOLLOWERS: Semaphore = Semaphore::const_new(FOLLOWERS_MAX);

/// A place among the followers, kept for as long as the stream lasts.
pub(crate) fn follower() -> Result<SemaphorePermit<'static>, AppError> {
    FOLLOWERS.try_acquire().map_err(|_| {
        let detail = format!("{FOLLOWERS_MAX} clients follow changes or logs already");
        AppError::new(ErrorKind::TooManyRequests, detail).hint("read the job now and then instead, or use ?wait=30s")
    })
}

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Outside of all lanes: whoever restarts a server that does not answer must hear from one that is busy.
const PROBES: [&str; 2] = ["/livez", "/readyz"];

struct Guard {
    app: App,
    network: Network,
    requests: Arc<Semaphore>,
    /// Those that wait for a job take minutes, and must not keep out those that take none.
    waits: Arc<Semaphore>,
    /// Nobody else's requests make an agent look dead.
    agents: Arc<Semaphore>,
    /// Files take as long as their clients do.
    files: Arc<Semaphore>,
    /// Not shed with requests: a heartbeat that is refused makes a living worker look dead, and what a peer passes on has
    /// had its place there.
    streams: Streams,
    rates: Rates,
    /// Below which path browsers reach this server, through a proxy that takes it away.
    public_path: String,
}

impl Guard {
    fn lane(&self, request: &Request) -> &Arc<Semaphore> {
        if request.uri().path().starts_with(agent::PATH) {
            return &self.agents;
        }
        if is_file(request) {
            return &self.files;
        }
        let waits = request.uri().query().is_some_and(|query| query.contains("wait="));
        if waits { &self.waits } else { &self.requests }
    }

    /// Takes a place for a request whose body has arrived, and answers it.
    async fn answer(&self, request: Request, next: Next, audited: &Audited) -> Response {
        let Ok(permit) = Arc::clone(self.lane(&request)).try_acquire_owned() else {
            let error = AppError::new(ErrorKind::TooManyRequests, "too many requests at a time");
            return Refused(error.hint("wait a moment, and send many jobs in one request")).into_response();
        };
        if lists::is_list(&request) {
            answers::counted(lists::answer(&self.app, request, next).await).await
        } else if request.method().is_safe() {
            answers::counted(conditions::answer(request, next).await).await
        } else if audited.is_submission() {
            unabandoned::to_its_end(permit, next.run(request)).await
        } else {
            let audited = audited.clone();
            let answered = async move {
                let response = next.run(request).await;
                audited.changed(response.status(), audited::error_kind(&response)).await;
                response
            };
            unabandoned::to_its_end(permit, answered).await
        }
    }
}

/// Bytes that go through the handler as they come.
fn is_file(request: &Request) -> bool {
    let path = request.uri().path();
    path.starts_with("/v1/artifacts/") && path.ends_with("/content")
}

pub(crate) fn wrap(router: Router, app: App, network: Network, grpc_streams_max: usize) -> Router {
    let lane = || Arc::new(Semaphore::new(REQUESTS_MAX));
    let streams = Streams::new(grpc_streams_max);
    let rates = Rates::new(app.settings().request_rate);
    let (requests, waits, agents, files) = (lane(), lane(), lane(), lane());
    let public_path = pages::path_of(&app.settings().public_url);
    let guard = Guard { app, network, requests, waits, agents, files, streams, rates, public_path };
    router.layer(from_fn_with_state(Arc::new(guard), pass))
}

/// The host at which the client reached this server.
#[derive(Clone)]
pub(crate) struct Reached {
    scheme: Scheme,
    host: Authority,
}

impl Reached {
    /// Such as `http://127.0.0.1:8020`.
    pub(crate) fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.host)
    }

    /// Also by a proxy of ours.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.scheme == Encryption::Tls.scheme()
    }
}

async fn pass(State(guard): State<Arc<Guard>>, mut request: Request, next: Next) -> Response {
    let link = request.extensions_mut().remove::<Arc<Link>>();
    let (connection, wire) = link.as_deref().map(|link| (&link.connection, &link.wire)).unzip();
    let forwarded = forwarded(&guard.network, wire, request.headers());
    let reached = reached(&request, wire, forwarded.as_ref());
    if let Some(reached) = &reached {
        request.extensions_mut().insert(reached.clone());
    }
    let (mut busy, mut place) = (None, None);
    let mut begin = || busy = connection.map(Connection::busy);
    access::note_transport(&mut request, wire, forwarded.as_ref());
    let established = match check_host(&guard.network, wire, reached.as_ref()).and_then(|()| {
        check_origin(request.headers(), reached.as_ref(), oidc::is_return(&request) || pages::is_visit(&request))
    }) {
        Ok(()) => access::establish(&guard.app, &mut request).await,
        Err(error) => Err(error),
    };
    let source = rates::source(&request);
    let (admission, established) = match established {
        Ok(asker) => match guard.rates.admit(&guard.app, asker.as_ref(), &source, request.uri().path()).await {
            Ok(admission) => (admission, Ok(asker)),
            Err(error) => (None, Err(error)),
        },
        Err(error) => (None, Err(error)),
    };
    let asker = established.as_ref().ok().cloned().flatten();
    let refused = established.as_ref().err().map(|error| error.kind);
    if let (Some(connection), Some(_)) = (connection, &asker) {
        connection.has_access();
    }
    let audited = Audited::of(&guard.app, asker.clone(), &request);
    let page = pages::wants_page(&request).then(|| audited.address());
    let response = match established {
        Err(error) => access::refusal(error, &request),
        Ok(_) if streams::is_call(audited.path()) => match call_place(&guard, request).await {
            Ok((request, found)) => {
                place = Some(found);
                begin();
                next.run(request).await
            }
            Err(status) => status.into_http(),
        },
        Ok(_) if PROBES.contains(&audited.path()) => {
            begin();
            next.run(request).await
        }
        // Nobody reads the body of a safe request, and a file is read by its handler.
        Ok(_) if is_file(&request) || request.method().is_safe() => {
            begin();
            guard.answer(request, next, &audited).await
        }
        Ok(_) => {
            let arriving = connection.map(Connection::arriving);
            match bodies::arrived(request).await {
                Ok((request, _held)) => {
                    busy = arriving.map(Arriving::arrived);
                    guard.answer(request, next, &audited).await
                }
                Err(error) => Refused(error).into_response(),
            }
        }
    };
    let failed = refused.or_else(|| audited::error_kind(&response));
    audited.answered(failed);
    let response = guard.rates.failed(&guard.app, source, audited.path(), failed, response).await;
    let response = match &asker {
        Some(asker) => permit::watched(&guard.app, asker, response),
        None => response,
    };
    let request_id = RequestId::new(guard.app.random());
    let mut response =
        problem::finish(response, request_id.as_str(), audited.method(), audited.path(), page.as_deref());
    response = pages::finish(response, &guard.public_path);
    if audited.method() == Method::HEAD {
        without_body(&mut response);
    }
    let headers = response.headers_mut();
    headers.insert(REQUEST_ID, HeaderValue::from_str(request_id.as_str()).expect("hexadecimal digits"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    let response = rates::held_until_answered(response, admission);
    match busy {
        Some(busy) => busy.until_answered(response, place),
        None => response,
    }
}

/// Takes the body of an answer to HEAD. The length stays that of the body that a GET would have.
fn without_body(response: &mut Response) {
    let len = response.body().size_hint().exact();
    let headers = response.headers_mut();
    // The router has emptied it already, and noted how long it was, which nobody knows of a stream.
    let is_stream = len.is_none_or(|len| len == 0 && headers.contains_key(header::CONTENT_TYPE));
    if headers.contains_key(header::CONTENT_LENGTH) || !is_stream {
        headers.entry(header::CONTENT_LENGTH).or_insert_with(|| HeaderValue::from(len.unwrap_or_default()));
        *response.body_mut() = Body::empty();
    } else {
        *response.body_mut() = Body::from_stream(stream::empty::<Result<Bytes, Infallible>>());
    }
}

/// Whoever is no peer gets no place among them.
async fn call_place(guard: &Guard, request: Request) -> Result<(Request, Place), Status> {
    let path = request.uri().path();
    if !streams::is_of_peer(path) {
        let place = guard.streams.place(path)?;
        return Ok((request, place));
    }
    let request = punctual_peers::checked(&guard.app, request).await?;
    let place = guard.streams.place(request.uri().path())?;
    Ok((request.map(Body::new), place))
}

/// What a proxy of ours says of the client that it speaks for. `None` if the other end of the connection is none: its headers
/// prove nothing.
fn forwarded(network: &Network, wire: Option<&Wire>, headers: &HeaderMap) -> Option<Forwarded> {
    let address = wire?.address?;
    network.proxies.contains(address).then(|| Forwarded::read(headers, &network.proxies))
}

fn reached(request: &Request, wire: Option<&Wire>, forwarded: Option<&Forwarded>) -> Option<Reached> {
    let host = match forwarded.and_then(|forwarded| forwarded.host.clone()) {
        Some(host) => host,
        None => host_of(request)?,
    };
    let encryption = wire.map_or(Encryption::Plain, |wire| wire.encryption);
    let is_encrypted = encryption == Encryption::Tls || forwarded.is_some_and(|forwarded| forwarded.is_encrypted);
    let scheme = if is_encrypted { Encryption::Tls.scheme() } else { Encryption::Plain.scheme() };
    Some(Reached { scheme, host })
}

fn check_host(network: &Network, wire: Option<&Wire>, reached: Option<&Reached>) -> Result<(), AppError> {
    let refused = |detail: String| {
        let hint = if network.tls.is_none() && network.proxies.is_empty() {
            "this server answers only to localhost and loopback addresses"
        } else {
            "use the address that the server advertises, or add this name to its setting `public_hosts`"
        };
        AppError::new(ErrorKind::ForbiddenHost, detail).hint(hint)
    };
    let reached = reached.ok_or_else(|| refused("the request does not name one host".to_owned()))?;
    if !network.serves(&reached.host, wire) {
        let shown: String = reached.host.as_str().chars().take(100).collect();
        return Err(refused(format!("{shown} is not a name of this server")));
    }
    Ok(())
}

/// HTTP/2 carries the host in the URI, HTTP/1.1 in a header.
fn host_of(request: &Request) -> Option<Authority> {
    if let Some(authority) = request.uri().authority() {
        return Some(authority.clone());
    }
    let mut values = request.headers().get_all(header::HOST).iter();
    let value = values.next()?;
    if values.next().is_some() {
        return None;
    }
    value.to_str().ok()?.parse().ok()
}

/// `is_visit`: a provider of OpenID Connect sends the browser back, or somebody follows a link to a page.
fn check_origin(headers: &HeaderMap, reached: Option<&Reached>, is_visit: bool) -> Result<(), AppError> {
    let refused = || {
        AppError::new(ErrorKind::ForbiddenOrigin, "a web page of another origin sent this request")
            .hint("use the command line or a program; pages of this server's own are allowed")
    };
    let site = headers.get(SEC_FETCH_SITE).map(|value| value.as_bytes());
    if !is_visit && site.is_some_and(|site| site != b"same-origin" && site != b"none") {
        return Err(refused());
    }
    let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
    // With the port: what else listens on this machine is not ours.
    let is_ours = |origin: &str| reached.is_some_and(|reached| is_own(origin, &reached.url()));
    let own = origin.to_str().ok().is_some_and(is_ours);
    if own {
        return Ok(());
    }
    Err(refused())
}

/// Browsers write the scheme in lower case. The host is compared as names are.
fn is_own(origin: &str, url: &str) -> bool {
    let split =
        |text: &'_ str| text.split_once("://").map(|(scheme, rest)| (scheme.to_owned(), rest.to_ascii_lowercase()));
    split(origin).is_some_and(|own| Some(own) == split(url))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(host: Option<&str>, origin: Option<&str>) -> Request {
        let mut builder = http::Request::builder().uri("/v1/jobs");
        if let Some(host) = host {
            builder = builder.header(header::HOST, host);
        }
        if let Some(origin) = origin {
            builder = builder.header(header::ORIGIN, origin);
        }
        builder.body(axum::body::Body::empty()).unwrap()
    }

    fn check_local(request: &Request) -> Result<(), AppError> {
        let reached = reached(request, None, None);
        check(&Network::default(), None, reached.as_ref(), request)
    }

    fn check(
        network: &Network,
        wire: Option<&Wire>,
        reached: Option<&Reached>,
        request: &Request,
    ) -> Result<(), AppError> {
        check_host(network, wire, reached)?;
        check_origin(request.headers(), reached, oidc::is_return(request))
    }

    #[test]
    fn only_loopback_names_are_served() {
        for host in ["localhost", "localhost:8020", "127.0.0.1:8020", "127.8.8.8", "[::1]:8020"] {
            assert!(check_local(&request(Some(host), None)).is_ok(), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "10.0.0.1",
            "0.0.0.0:8020",
            "",
            "127.0.0.1.nip.io",
            "a b",
            "me@localhost",
            "[::1].evil",
            "[::1]evil:80",
            "[127.0.0.1]",
            "localhost:80:80",
        ] {
            assert!(check_local(&request(Some(host), None)).is_err(), "{host}");
        }
        assert!(check_local(&request(None, None)).is_err());
    }

    #[test]
    fn a_page_of_another_origin_is_refused() {
        for origin in [
            "http://evil.example",
            "null",
            "http://localhost.evil.example",
            "http://localhost",
            "http://localhost:3000",
            "https://localhost:8020",
            "http://127.0.0.1:8020",
            "file://",
            "",
        ] {
            assert!(check_local(&request(Some("localhost:8020"), Some(origin))).is_err(), "{origin}");
        }
        assert!(check_local(&request(Some("localhost:8020"), Some("http://localhost:8020"))).is_ok());
    }

    #[test]
    fn with_tls_the_own_origin_has_https_also_behind_a_proxy() {
        let network = Network { hosts: ["p.example".to_owned()].into(), ..Network::default() };
        let wire = |encryption| Wire {
            user: punctual_app::SocketUser::Unknown,
            address: None,
            local: None,
            encryption,
            certificate: None,
        };
        let check = |encryption, forwarded: Option<&Forwarded>, origin: &str| {
            let (request, wire) = (request(Some("p.example"), Some(origin)), wire(encryption));
            let reached = super::reached(&request, Some(&wire), forwarded);
            super::tests::check(&network, Some(&wire), reached.as_ref(), &request).is_ok()
        };
        let https = Forwarded { is_encrypted: true, ..Forwarded::default() };
        assert!(check(Encryption::Tls, None, "https://p.example"));
        assert!(!check(Encryption::Tls, None, "http://p.example"));
        assert!(check(Encryption::Plain, Some(&https), "https://p.example"));
        assert!(!check(Encryption::Plain, None, "https://p.example"), "nobody vouches for TLS");
        assert!(!check(Encryption::Tls, None, "https://p.example.evil"));
    }

    #[test]
    fn headers_of_proxies_are_believed_only_from_them() {
        let network = Network { proxies: "10.0.0.5".parse().unwrap(), ..Network::default() };
        let mut headers = HeaderMap::new();
        headers.insert("x-forwarded-for", HeaderValue::from_static("127.0.0.1"));
        let wire = |address: &str| Wire {
            user: punctual_app::SocketUser::Unknown,
            address: Some(address.parse().unwrap()),
            local: None,
            encryption: Encryption::Plain,
            certificate: None,
        };
        assert!(forwarded(&network, Some(&wire("10.0.0.5")), &headers).is_some());
        assert_eq!(forwarded(&network, Some(&wire("10.0.0.6")), &headers), None);
        assert_eq!(forwarded(&Network::default(), Some(&wire("127.0.0.1")), &headers), None);
    }
}
