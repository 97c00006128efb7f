//! Establishes on whose behalf a request is made, for REST and gRPC alike.
//!
//! The app decides ([`App::authenticate`]); this says what the transport knows: whose socket it is, and the token. A new kind
//! of credential is read here and judged there.

use axum::extract::{MatchedPath, Request};
use axum::response::{IntoResponse, Response};
use http::{HeaderName, Method, header};
use punctual_api::{ErrorKind, NAMESPACE_HEADER};
use punctual_app::{App, AppError, SocketUser, Transport};
use punctual_core::run::JOB_ID_HEADER;
use tonic::Code;

use crate::enrolment_service;
use crate::network::{Encryption, Wire};
use crate::pages;
use crate::permit::Asker;
use crate::problem::Refused;
use crate::proxies::Forwarded;

/// Routes that need no [`punctual_app::Principal`], by what the router matched.
const OPEN: [&str; 15] = [
    // These say nothing about what is stored. Whoever watches the process has no credential.
    "/livez",
    "/readyz",
    "/problems/{code}",
    // The token of the attempt is checked by `agent::Agent`.
    "/v1/agent/{job}/{attempt}",
    "/v1/agent/{job}/{attempt}/heartbeat",
    "/v1/agent/{job}/{attempt}/logs",
    "/v1/agent/{job}/{attempt}/outcome",
    // The signature of the address is checked by the storage.
    "/v1/artifacts/{id}/content",
    // They begin sessions: what a provider or a login under way proves is checked by the app.
    crate::oidc::START,
    crate::oidc::CALLBACK,
    "/v1/login/oidc/exchange",
    "/v1/login/oidc/device",
    "/v1/login/oidc/device/poll",
    // The join token in the message is checked by the app.
    enrolment_service::JOIN,
    // The proof of the cluster's secret is checked by `punctual_peers::checked`.
    "/punctual.peer.v1.Peer/{method}",
];

/// What workers call, and the library for handlers.
const WORKERS: &str = "/punctual.worker.v1.";

/// Begins a session: the credential is in the body, and checked by [`App::login`].
const LOGIN: (Method, &str) = (Method::POST, "/v1/sessions");

/// Whether a route needs no credential, or has one of its own.
pub(crate) fn is_open(method: &Method, route: &str) -> bool {
    OPEN.contains(&route) || pages::OPEN.contains(&route) || (method, route) == (&LOGIN.0, LOGIN.1)
}

/// Headers of proxies. The kernel knows the user of the proxy, and not the one that it speaks for.
static FORWARDED: [HeaderName; 4] =
    [header::FORWARDED, header::VIA, HeaderName::from_static("x-forwarded-for"), HeaderName::from_static("x-real-ip")];

/// Adds what the transport knows.
pub(crate) fn note_transport(request: &mut Request, wire: Option<&Wire>, forwarded: Option<&Forwarded>) {
    let transport = transport(request, wire, forwarded);
    request.extensions_mut().insert(transport);
}

/// Adds on whose behalf the request is made; `None` for an open route.
pub(crate) async fn establish(app: &App, request: &mut Request) -> Result<Option<Asker>, AppError> {
    let transport = request.extensions().get::<Transport>().cloned().unwrap_or_default();
    let route = request.extensions().get::<MatchedPath>().cloned();
    if route.as_ref().is_some_and(|route| is_open(request.method(), route.as_str())) {
        return Ok(None);
    }
    // Nothing that came over a connection puts a principal there.
    #[cfg(test)]
    if let Some(principal) = request.extensions_mut().remove::<punctual_app::Principal>() {
        let asker = Asker::new(principal);
        request.extensions_mut().insert(asker.clone());
        return Ok(Some(asker));
    }
    let of_page = pages::namespace(request);
    let namespace = namespace(request)?.or(of_page.as_deref());
    let principal = match (bearer(request), pages::credential(request)) {
        (None, Some(session)) => {
            let found = app.authenticate_freshly(&transport, Some(&session), namespace).await;
            match found {
                // Whoever needs no credential is not kept out by a session that has ended.
                Err(ended) if ended.kind.http_status() == 401 => {
                    app.authenticate_freshly(&transport, None, namespace).await.map_err(|_| ended)
                }
                found => found,
            }
        }
        (bearer, _) => app.authenticate_freshly(&transport, bearer, namespace).await,
    };
    let route = route.as_ref().map_or("", MatchedPath::as_str);
    let asker = Asker::new(principal.map_err(|error| for_workers(error, route, &transport))?);
    request.extensions_mut().insert(asker.clone());
    Ok(Some(asker))
}

/// The refusal of a worker: nothing that a person logs in with lets one in from another machine. It stays of its kind, which
/// counts as a failed try of its address.
fn for_workers(error: AppError, route: &str, transport: &Transport) -> AppError {
    let lacks_credential = matches!(error.kind, ErrorKind::Unauthenticated | ErrorKind::InvalidToken);
    match route.starts_with(WORKERS) && lacks_credential && !transport.is_here() {
        true => {
            let AppError { detail, hint, .. } = App::certificate_lacking();
            AppError { detail, hint, ..error }
        }
        false => error,
    }
}

fn transport(request: &Request, wire: Option<&Wire>, forwarded: Option<&Forwarded>) -> Transport {
    let Some(wire) = wire else { return Transport::default() };
    let is_forwarded = FORWARDED.iter().any(|name| request.headers().contains_key(name));
    // Sent by a worker for a task, whose author is not the worker's user and may have any rights or none.
    let is_of_task = request.headers().contains_key(JOB_ID_HEADER);
    Transport {
        socket_user: if is_forwarded || is_of_task { SocketUser::Unknown } else { wire.user },
        address: match forwarded {
            Some(forwarded) => forwarded.client,
            None => wire.address,
        },
        certificate: wire.certificate.clone(),
        is_encrypted: wire.encryption == Encryption::Tls || forwarded.is_some_and(|forwarded| forwarded.is_encrypted),
    }
}

/// The token of the request. A credential of any other form is a token that nobody has: whoever presents one expects it to be
/// checked, also where the kernel vouches for them.
fn bearer(request: &Request) -> Option<&str> {
    const NO_TOKEN: &str = "";
    let value = request.headers().get(header::AUTHORIZATION)?;
    let (scheme, token) = value.to_str().unwrap_or(NO_TOKEN).split_once(' ').unwrap_or_default();
    Some(if scheme.eq_ignore_ascii_case("bearer") { token.trim() } else { NO_TOKEN })
}

/// The namespace that a request names. One that cannot be read names none that there is.
fn namespace(request: &Request) -> Result<Option<&str>, AppError> {
    let mut values = request.headers().get_all(NAMESPACE_HEADER).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let once = values.next().is_none();
    value
        .to_str()
        .ok()
        .filter(|_| once)
        .map(|name| Some(name.trim()))
        .ok_or_else(|| AppError::field("Punctual-Namespace", "must be given once, and be the name of a namespace"))
}

/// The refusal in the words of the request's protocol.
pub(crate) fn refusal(error: AppError, request: &Request) -> Response {
    let is_grpc = request.headers().get(header::CONTENT_TYPE);
    let is_grpc = is_grpc.is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"));
    let code = match error.kind {
        kind if kind.http_status() == 401 => Code::Unauthenticated,
        ErrorKind::Forbidden | ErrorKind::WorkerRevoked | ErrorKind::WorkerNotEnrolled => Code::PermissionDenied,
        ErrorKind::Unavailable => Code::Unavailable,
        ErrorKind::TooManyRequests => Code::ResourceExhausted,
        _ => return Refused(error).into_response(),
    };
    if !is_grpc {
        return Refused(error).into_response();
    }
    enrolment_service::with_code(code, &error).into_http()
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn request(headers: &[(&'static str, &'static [u8])]) -> Request {
        let mut request = Request::new(Body::empty());
        for (name, value) in headers {
            let value = http::HeaderValue::from_bytes(value).expect("a value");
            request.headers_mut().append(HeaderName::from_static(name), value);
        }
        request
    }

    #[test]
    fn the_kernel_does_not_vouch_for_what_a_worker_sends_for_a_task() {
        let wire = Wire {
            user: SocketUser::Own,
            address: Some("127.0.0.1".parse().unwrap()),
            local: None,
            encryption: Encryption::Plain,
            certificate: None,
        };
        let user = |headers| transport(&request(headers), Some(&wire), None).socket_user;
        assert_eq!(user(&[]), SocketUser::Own);
        assert_eq!(user(&[("idempotency-key", b"a")]), SocketUser::Own);
        assert_eq!(user(&[("punctual-job-id", b"job_01m7et433kee4803yssgvaf2fh")]), SocketUser::Unknown);
        assert_eq!(user(&[("punctual-job-id", b"")]), SocketUser::Unknown);
        assert_eq!(user(&[("x-forwarded-for", b"127.0.0.1")]), SocketUser::Unknown);
    }

    #[test]
    fn a_credential_of_any_form_is_presented_to_be_checked() {
        let token = |value| bearer(&request(&[("authorization", value)])).map(str::to_owned);
        assert_eq!(bearer(&request(&[])), None);
        assert_eq!(token(b"Bearer abc"), Some("abc".to_owned()));
        assert_eq!(token(b"bearer  abc "), Some("abc".to_owned()));
        for other in [&b"Basic cm9vdDo="[..], b"punctual_key_abc", b"Bearer", b"Bearer \xff", b""] {
            assert_eq!(token(other), Some(String::new()), "{other:?}");
        }
    }

    #[test]
    fn a_worker_of_another_machine_is_told_to_join_and_not_to_log_in() {
        let login = || AppError::new(ErrorKind::Unauthenticated, "the request has no credential").hint("log in");
        let from = |address: &str| Transport { address: address.parse().ok(), ..Transport::default() };
        let told = |route: &str, address: &str| for_workers(login(), route, &from(address));
        let worker = told("/punctual.worker.v1.Worker/{method}", "10.0.0.7");
        assert_eq!(worker.kind, ErrorKind::Unauthenticated, "it counts as a failure");
        assert!(worker.hint.is_some_and(|hint| hint.contains("`punctual worker --join FILE`")));
        assert_eq!(told("/punctual.worker.v1.Worker/{method}", "127.0.0.1").hint.as_deref(), Some("log in"));
        assert_eq!(told("/v1/jobs", "10.0.0.7").hint.as_deref(), Some("log in"));
    }
}
