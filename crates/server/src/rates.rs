//! How much one credential may ask of a server, all credentials of one namespace together, and one address without a credential
//! that counts.
//!
//! All of it is decided before the body of a request is read. The server's own user and holders of the access token are not
//! limited: they could stop the server anyway. What is refused is answered a little later, so that whoever repeats refused
//! requests without pause gets few of them through a connection.

use std::collections::HashMap;
use std::hash::Hash;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use http_body::{Frame, SizeHint};
use punctual_api::ErrorKind;
use punctual_app::rates::{Buckets, Rate, Source};
use punctual_app::{App, AppError, Namespace, Principal, PrincipalKind, Throttle, Transport};
use punctual_core::{NamespaceId, Span};
use tokio::sync::Semaphore;
use tonic::Status;

use crate::enrolment_service::JOIN;
use crate::permit::Asker;
use crate::problem::Refused;
use crate::streams;

/// A bucket holds the requests of so many seconds.
const BURST_SECONDS: i64 = 2;
/// Requests and streams of a key or a user that are under way at a time. Others of the 4,096 places are left to others.
const UNDER_WAY_MAX: usize = 512;
/// Of all keys and users of one namespace, if there are several namespaces: whoever may make keys does not get more by making more
/// of them. It leaves a quarter of the 1,024 places of those that follow changes or logs.
const UNDER_WAY_OF_NAMESPACE_MAX: usize = 768;
/// What they may send together, as a multiple of what one may.
const NAMESPACE_FACTOR: i64 = 4;
/// A worker has one stream of each kind; a few more while it connects again.
const WORKER_STREAMS_MAX: usize = 16;
/// Requests without a credential that counts, from one address. A program whose key expired asks a few times a second.
const FAILURES: Rate = Rate { burst: 1000, every: Span::from_millis(10) };
/// Joins that failed, from one address. Each asks the database.
const JOINS: Rate = Rate { burst: 60, every: Span::from_secs(1) };
/// How long the answer to a refused request waits.
const REFUSED_AFTER: Duration = Duration::from_millis(100);
/// Answers that wait so at a time; others do not wait.
const REFUSALS_MAX: usize = 4096;

static REFUSALS: Semaphore = Semaphore::const_new(REFUSALS_MAX);
static LOGGED: Throttle = Throttle::new(Duration::from_secs(10));

pub(crate) struct Rates {
    /// `None` for no limit.
    rate: Option<Rate>,
    requests: Mutex<Buckets<Arc<str>>>,
    requests_of_namespaces: Mutex<Buckets<NamespaceId>>,
    failures: Mutex<Buckets<Source>>,
    joins: Mutex<Buckets<Source>>,
    under_way: Arc<Mutex<UnderWay>>,
}

#[derive(Debug, Default)]
struct UnderWay {
    /// By the name of the principal.
    of_principals: HashMap<Arc<str>, usize>,
    of_namespaces: HashMap<NamespaceId, usize>,
}

/// One more, unless there are `max` already.
fn begin<K: Eq + Hash>(counts: &mut HashMap<K, usize>, key: K, max: usize) -> bool {
    let count = counts.entry(key).or_default();
    let has_room = *count < max;
    *count += usize::from(has_room);
    has_room
}

fn end<K: Eq + Hash>(counts: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

/// Where a request without a credential comes from.
pub(crate) fn source(request: &Request) -> Source {
    let transport = request.extensions().get::<Transport>();
    transport.map_or(Source::Unknown, |transport| Source::new(transport.socket_user, transport.address))
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Rates {
    pub(crate) fn new(per_second: u32) -> Self {
        let per_second = i64::from(per_second);
        let rate = (per_second > 0).then(|| Rate {
            burst: per_second * BURST_SECONDS,
            every: Span::from_micros((1_000_000 / per_second).max(1)),
        });
        Self {
            rate,
            requests: Mutex::default(),
            requests_of_namespaces: Mutex::default(),
            failures: Mutex::default(),
            joins: Mutex::default(),
            under_way: Arc::default(),
        }
    }

    /// Counts a request, or refuses it. What it answers is kept until the request is answered.
    pub(crate) async fn admit(
        &self,
        app: &App,
        asker: Option<&Asker>,
        source: &Source,
        path: &str,
    ) -> Result<Option<Admission>, AppError> {
        let admitted = match asker {
            Some(asker) => self.admit_principal(app, &asker.principal, path),
            None if path == JOIN => self.admit_join(app, source).map(|()| None),
            None => Ok(None),
        };
        if admitted.is_err() {
            linger().await;
        }
        admitted
    }

    fn admit_principal(&self, app: &App, principal: &Principal, path: &str) -> Result<Option<Admission>, AppError> {
        let max = match principal.kind() {
            PrincipalKind::Key | PrincipalKind::Person => UNDER_WAY_MAX,
            PrincipalKind::Worker if streams::is_endless(path) => WORKER_STREAMS_MAX,
            _ => return Ok(None),
        };
        let name: Arc<str> = principal.name().into();
        let is_worker = principal.kind() == PrincipalKind::Worker;
        let namespace = Some(principal.namespace()).filter(|_| !is_worker && app.has_several_namespaces());
        if let Some(rate) = self.rate.filter(|_| !is_worker) {
            let taken = locked(&self.requests).take(Arc::clone(&name), rate, app.now());
            taken.map_err(|wait| too_fast(&name, rate, wait))?;
            if let Some(namespace) = namespace {
                let rate = of_namespace(rate);
                let taken = locked(&self.requests_of_namespaces).take(namespace.id(), rate, app.now());
                taken.map_err(|wait| too_fast(&format!("namespace {}", namespace.name()), rate, wait))?;
            }
        }
        let full = |whose: &str, max: usize| {
            let detail = format!("{whose} has {max} requests and streams under way, the most there may be");
            refused(detail, Span::from_secs(1))
        };
        let mut under_way = locked(&self.under_way);
        if !begin(&mut under_way.of_principals, Arc::clone(&name), max) {
            return Err(full(&name, max));
        }
        if let Some(namespace) = namespace
            && !begin(&mut under_way.of_namespaces, namespace.id(), UNDER_WAY_OF_NAMESPACE_MAX)
        {
            end(&mut under_way.of_principals, &name);
            return Err(full(&format!("namespace {}", namespace.name()), UNDER_WAY_OF_NAMESPACE_MAX));
        }
        drop(under_way);
        let namespace = namespace.map(Namespace::id);
        Ok(Some(Admission { name, namespace, under_way: Arc::clone(&self.under_way) }))
    }

    fn admit_join(&self, app: &App, source: &Source) -> Result<(), AppError> {
        locked(&self.joins)
            .take(*source, JOINS, app.now())
            .map_err(|wait| refused("too many workers failed to join from this address".to_owned(), wait))
    }

    /// Counts an answer that says that the credential does not count; beyond the limit it says only that. A join that went
    /// well does not count.
    pub(crate) async fn failed(
        &self,
        app: &App,
        source: Source,
        path: &str,
        failed: Option<ErrorKind>,
        response: Response,
    ) -> Response {
        if path == JOIN && failed.is_none() && !response.headers().contains_key("grpc-status") {
            locked(&self.joins).give_back(source, JOINS);
        }
        if !is_failure(failed, &response) {
            return response;
        }
        let taken = locked(&self.failures).take(source, FAILURES, app.now());
        let Err(wait) = taken else { return response };
        linger().await;
        let error = refused("too many requests without a valid credential from this address".to_owned(), wait);
        match response.headers().contains_key("grpc-status") {
            true => Status::resource_exhausted(error.detail).into_http(),
            false => Refused(error).into_response(),
        }
    }
}

fn of_namespace(rate: Rate) -> Rate {
    let every = Span::from_micros((rate.every.as_micros() / NAMESPACE_FACTOR).max(1));
    Rate { burst: rate.burst * NAMESPACE_FACTOR, every }
}

fn too_fast(whose: &str, rate: Rate, wait: Span) -> AppError {
    let per_second = rate.burst / BURST_SECONDS;
    refused(format!("{whose} sends more than {per_second} requests a second, its limit (request_rate)"), wait)
}

/// Whether somebody was refused for want of a credential. A missing right is none: that credential counts.
fn is_failure(failed: Option<ErrorKind>, response: &Response) -> bool {
    let is_refused_call = || {
        let status = response.headers().get("grpc-status").map(|status| status.as_bytes());
        status.is_some_and(|status| status == b"16")
    };
    match failed {
        Some(kind) => matches!(
            kind,
            ErrorKind::Unauthenticated
                | ErrorKind::InvalidToken
                | ErrorKind::CredentialExpired
                | ErrorKind::CredentialRevoked
                | ErrorKind::BadSignature
        ),
        None => is_refused_call(),
    }
}

fn refused(detail: String, wait: Span) -> AppError {
    if let Some(left_out) = LOGGED.pass() {
        tracing::warn!(detail, left_out, "requests are refused");
    }
    let error = AppError::new(ErrorKind::TooManyRequests, detail).retry_after(wait);
    error.hint(format!("wait {} (Retry-After); send many jobs in one request", AppError::wait_shown(wait)))
}

async fn linger() {
    if let Ok(_place) = REFUSALS.try_acquire() {
        tokio::time::sleep(REFUSED_AFTER).await;
    }
}

/// A request of a credential that is under way. Dropped with its answer.
#[derive(Debug)]
pub(crate) struct Admission {
    name: Arc<str>,
    namespace: Option<NamespaceId>,
    under_way: Arc<Mutex<UnderWay>>,
}

impl Drop for Admission {
    fn drop(&mut self) {
        let mut under_way = locked(&self.under_way);
        end(&mut under_way.of_principals, &self.name);
        if let Some(namespace) = &self.namespace {
            end(&mut under_way.of_namespaces, namespace);
        }
    }
}

/// The answer, whose end is the end of its request.
pub(crate) fn held_until_answered(response: Response, admission: Option<Admission>) -> Response {
    let Some(admission) = admission else { return response };
    if response.body().is_end_stream() {
        return response;
    }
    response.map(|body| Body::new(Held { body, _admission: admission }))
}

struct Held {
    body: Body,
    _admission: Admission,
}

impl HttpBody for Held {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::access::Rights;

    use super::*;
    use crate::matrix::namespace_of;
    use crate::matrix::world::World;

    fn key(name: &str) -> Principal {
        Principal::made_up(name, Rights::all())
    }

    #[tokio::test]
    async fn a_key_that_floods_is_refused_with_a_time_to_wait_and_others_are_not() {
        let world = World::new().await;
        let app = world.app.clone();
        let rates = Rates::new(10);
        let admit = |name: &str| rates.admit_principal(&app, &key(name), "/v1/jobs");
        for _ in 0..20 {
            assert!(admit("key:flood").is_ok());
        }
        let refused = (0..100).find_map(|_| admit("key:flood").err()).expect("the bucket is empty");
        assert_eq!(refused.kind, ErrorKind::TooManyRequests);
        assert!(refused.retry_after.is_some_and(|wait| wait > Span::ZERO && wait <= Span::from_secs(1)));
        assert!(admit("key:other").is_ok());
        assert!((0..1000).all(|_| Rates::new(0).admit_principal(&app, &key("key:flood"), "/v1/jobs").is_ok()));
    }

    #[tokio::test]
    async fn a_key_has_so_many_streams_and_gets_their_places_back() {
        let world = World::new().await;
        let app = world.app.clone();
        let rates = Rates::new(0);
        let admit = || rates.admit_principal(&app, &key("key:a"), "/v1/events");
        let mut held: Vec<_> = (0..UNDER_WAY_MAX).map(|_| admit().expect("there is room")).collect();
        assert!(admit().is_err());
        assert!(rates.admit_principal(&app, &key("key:b"), "/v1/events").is_ok());
        held.pop();
        assert!(admit().is_ok(), "one has ended");
        drop(held);
        assert!(locked(&rates.under_way).of_principals.is_empty(), "nobody is remembered");
    }

    /// Keys of two namespaces, by the letters of the namespaces.
    async fn tenants(world: &World) -> impl Fn(&str, usize) -> Principal {
        let [a, b] = [namespace_of(world, "team-a").await, namespace_of(world, "team-b").await];
        move |letter: &str, number: usize| {
            let namespace = if letter == "a" { &a } else { &b };
            Principal::made_up_in(namespace.clone(), &format!("key:team-{letter}/{number}"), Rights::all())
        }
    }

    #[tokio::test]
    async fn a_namespace_has_so_many_requests_under_way_however_many_keys_it_makes() {
        let world = World::new().await;
        let app = world.app.clone();
        let rates = Rates::new(0);
        let key = tenants(&world).await;
        let admit = |letter, number| rates.admit_principal(&app, &key(letter, number), "/v1/events");
        let mut held: Vec<_> =
            (0..UNDER_WAY_OF_NAMESPACE_MAX).map(|number| admit("a", number % 7).expect("there is room")).collect();
        let refused = admit("a", 8).expect_err("a new key gets no place of its own");
        assert!(refused.detail.contains("namespace team-a has 768 requests"), "{refused}");
        assert!(admit("b", 0).is_ok(), "others have theirs");
        held.pop();
        assert!(admit("a", 8).is_ok(), "one has ended");
        drop(held);
        let under_way = locked(&rates.under_way);
        assert!(under_way.of_principals.is_empty() && under_way.of_namespaces.is_empty(), "nobody is remembered");
    }

    #[tokio::test]
    async fn the_keys_of_a_namespace_send_no_more_together_than_it_may() {
        let world = World::new().await;
        let app = world.app.clone();
        let rates = Rates::new(10);
        let key = tenants(&world).await;
        // The clock of the world stands still.
        let admit = |letter, number| rates.admit_principal(&app, &key(letter, number), "/v1/jobs");
        let sent = (0..20).map(|number| (0..20).filter(|_| admit("a", number).is_ok()).count()).sum::<usize>();
        assert!((80..=81).contains(&sent), "four times what one of them may: {sent}");
        let refused = admit("a", 50).expect_err("the bucket of the namespace is empty");
        assert!(refused.detail.contains("namespace team-a sends more than 40 requests a second"), "{refused}");
        assert!(refused.retry_after.is_some_and(|wait| wait > Span::ZERO));
        assert!(admit("b", 0).is_ok());
    }

    #[tokio::test]
    async fn failures_of_an_address_are_counted_and_what_counts_is_answered_as_before() {
        let world = World::new().await;
        let app = world.app.clone();
        let rates = Rates::new(0);
        let (greedy, other) = (Source::V4([192, 0, 2, 1]), Source::V4([192, 0, 2, 2]));
        let answer = async |source, kind: ErrorKind| {
            let response = Refused(AppError::new(kind, "refused")).into_response();
            rates.failed(&app, source, "/v1/jobs", Some(kind), response).await.status().as_u16()
        };
        for _ in 0..FAILURES.burst {
            assert_eq!(answer(greedy, ErrorKind::InvalidToken).await, 401);
        }
        let mut last = 401;
        for _ in 0..3 {
            last = last.max(answer(greedy, ErrorKind::InvalidToken).await);
        }
        assert_eq!(last, 429);
        assert_eq!(answer(greedy, ErrorKind::Forbidden).await, 403, "a missing right is no failure");
        assert_eq!(answer(other, ErrorKind::InvalidToken).await, 401);
        let joins = (0..JOINS.burst + 5).filter(|_| rates.admit_join(&app, &greedy).is_ok()).count();
        assert!(joins <= JOINS.burst as usize + 1, "{joins}");
        assert!(rates.admit_join(&app, &other).is_ok());
    }
}
