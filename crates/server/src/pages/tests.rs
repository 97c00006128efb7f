//! Who is let in with a cookie, what keeps pages apart from those of others, and where a login leads.

use axum::Router;
use axum::body::Body;
use http::{Request, Response, StatusCode, header};
use punctual_api::{SecretText, UserRequest};
use punctual_app::{SocketUser, Transport};
use tower::ServiceExt as _;

use crate::matrix::world::{World, by};
use crate::{Network, Rest};

const PASSWORD: &str = "correct horse battery";
const FORM: &str = "application/x-www-form-urlencoded";

/// What a request has beside method, path and body.
type Headers<'a> = &'a [(&'a str, &'a str)];

struct Site {
    router: Router,
    _world: World,
}

impl Site {
    async fn new() -> Self {
        let world = World::new().await;
        let ana = UserRequest {
            name: "ana".to_owned(),
            role: Some("operator".to_owned()),
            password: Some(SecretText(PASSWORD.to_owned())),
            ..UserRequest::default()
        };
        world.app.create_user(&by(&world.app), &ana).await.expect("a user");
        let router = crate::router(world.app.clone(), Rest::Served, Network::default(), 100);
        Self { router, _world: world }
    }

    /// A request of somebody for whom the kernel does not vouch.
    async fn send(&self, method: &str, path: &str, body: &str, headers: Headers<'_>) -> Response<Body> {
        let mut request = Request::builder().method(method).uri(path).header(header::HOST, "localhost");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.extension(Transport { socket_user: SocketUser::Other(4711), ..Transport::default() });
        let request = request.body(Body::from(body.to_owned())).expect("a request");
        self.router.clone().oneshot(request).await.expect("an answer")
    }

    async fn log_in(&self, password: &str, next: &str) -> Response<Body> {
        let body = format!("name=ana&password={}&next={next}", password.replace(' ', "+"));
        self.send("POST", "/login", &body, &[("content-type", FORM), ("accept", "text/html")]).await
    }

    /// The cookie of a session, as a browser sends it back.
    async fn session(&self) -> String {
        let response = self.log_in(PASSWORD, "/jobs").await;
        let cookie = response.headers()[header::SET_COOKIE].to_str().expect("ASCII").to_owned();
        cookie.split(';').next().expect("a pair").to_owned()
    }
}

fn location(response: &Response<Body>) -> &str {
    response.headers().get(header::LOCATION).map_or("", |value| value.to_str().expect("ASCII"))
}

async fn text(response: Response<Body>) -> String {
    let body = axum::body::to_bytes(response.into_body(), 1 << 20).await.expect("a body");
    String::from_utf8(body.to_vec()).expect("text")
}

#[tokio::test]
async fn a_session_counts_for_pages_alone_and_forged_changes_are_refused() {
    let site = Site::new().await;
    let session = site.session().await;
    let cookie = ("cookie", session.as_str());
    assert_eq!(site.send("GET", "/jobs", "", &[cookie]).await.status(), StatusCode::OK);
    for path in ["/v1/jobs", "/v1/events", "/openapi.json", "/v1/whoami"] {
        assert_eq!(site.send("GET", path, "", &[cookie]).await.status(), StatusCode::UNAUTHORIZED, "{path}");
    }
    let (typed, forged) = (("content-type", FORM), ("sec-fetch-site", "cross-site"));
    for (headers, status) in [
        // A program that has got hold of a cookie, and pages of others.
        (vec![], StatusCode::UNAUTHORIZED),
        (vec![forged], StatusCode::FORBIDDEN),
        (vec![forged, ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")], StatusCode::FORBIDDEN),
        (vec![("sec-fetch-site", "same-site")], StatusCode::FORBIDDEN),
        (vec![("origin", "http://evil.example")], StatusCode::FORBIDDEN),
        (vec![("origin", "null"), ("sec-fetch-site", "same-origin")], StatusCode::FORBIDDEN),
        (vec![("sec-fetch-site", "same-origin")], StatusCode::SEE_OTHER),
        (vec![("origin", "http://localhost")], StatusCode::SEE_OTHER),
    ] {
        let headers: Vec<(&str, &str)> = [cookie, typed].into_iter().chain(headers).collect();
        assert_eq!(site.send("POST", "/preferences", "theme=dark", &headers).await.status(), status, "{headers:?}");
    }
    // A cookie that somebody planted beside the right one is no proof of either.
    let two = format!("{session}; {session}x");
    assert_eq!(site.send("GET", "/jobs", "", &[("cookie", &two)]).await.status(), StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn pages_cannot_be_framed_or_kept_and_may_be_visited_from_elsewhere() {
    let site = Site::new().await;
    let session = site.session().await;
    let visit = [
        ("cookie", session.as_str()),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-mode", "navigate"),
        ("sec-fetch-dest", "document"),
    ];
    let response = site.send("GET", "/jobs", "", &visit).await;
    assert_eq!(response.status(), StatusCode::OK);
    let headers = response.headers();
    let policy = headers[header::CONTENT_SECURITY_POLICY].to_str().expect("ASCII");
    for part in
        ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "require-trusted-types-for 'script'"]
    {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    assert_eq!(headers[header::CACHE_CONTROL], "no-store");
    assert_eq!(headers[header::X_CONTENT_TYPE_OPTIONS], "nosniff");
    assert_eq!(headers["cross-origin-resource-policy"], "same-origin");
    for dest in ["iframe", "image", "empty"] {
        let other = [visit[0], visit[1], ("sec-fetch-mode", "no-cors"), ("sec-fetch-dest", dest)];
        assert_eq!(site.send("GET", "/jobs", "", &other).await.status(), StatusCode::FORBIDDEN, "{dest}");
    }
}

#[tokio::test]
async fn a_login_sets_a_guarded_cookie_and_leads_to_pages_of_this_server_alone() {
    let site = Site::new().await;
    for (next, place) in [
        ("/jobs%3Fstate%3Dfailed", "/jobs?state=failed"),
        ("", "/"),
        ("//evil.example", "/"),
        ("/%5Cevil.example", "/"),
        ("https%3A%2F%2Fevil.example", "/"),
        ("javascript%3Aalert(1)", "/"),
        ("/%0d%0aSet-Cookie:%20x", "/"),
    ] {
        let response = site.log_in(PASSWORD, next).await;
        assert_eq!((response.status(), location(&response)), (StatusCode::SEE_OTHER, place), "{next}");
        let cookie = response.headers()[header::SET_COOKIE].to_str().expect("ASCII");
        assert!(
            cookie.contains("; HttpOnly") && cookie.contains("; SameSite=Lax") && cookie.contains("; Path=/;"),
            "{cookie}"
        );
    }
    let response = site.log_in("wrong horse battery", "/jobs").await;
    assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
    assert!(response.headers().get(header::SET_COOKIE).is_none());
    assert!(text(response).await.contains("name=\"next\" value=\"/jobs\""), "it can be tried again");
}

#[tokio::test]
async fn a_namespace_that_is_gone_can_be_left() {
    let site = Site::new().await;
    let session = site.session().await;
    let gone = format!("{session}; punctual_namespace=gone");
    let headers = [("cookie", gone.as_str()), ("accept", "text/html"), ("sec-fetch-site", "same-origin")];
    let response = site.send("GET", "/jobs", "", &headers).await;
    assert_eq!(response.status(), StatusCode::NOT_FOUND);
    assert!(text(response).await.contains("Look at the default namespace"));
    let form = [headers[0], headers[2], ("content-type", FORM)];
    let response = site.send("POST", "/preferences", "namespace=", &form).await;
    assert_eq!((response.status(), location(&response)), (StatusCode::SEE_OTHER, "/"));
    assert!(response.headers()[header::SET_COOKIE].to_str().expect("ASCII").starts_with("punctual_namespace=;"));
}

#[tokio::test]
async fn nobody_is_sent_to_log_in_and_programs_get_their_errors() {
    let site = Site::new().await;
    let page = [("accept", "text/html")];
    let response = site.send("GET", "/jobs?state=failed", "", &page).await;
    assert_eq!(
        (response.status(), location(&response)),
        (StatusCode::SEE_OTHER, "/login?next=%2Fjobs%3Fstate%3Dfailed")
    );
    let response = site.send("GET", "/jobs", "", &[]).await;
    assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
    assert!(text(response).await.contains("\"code\":\"unauthenticated\""));
    let session = site.session().await;
    let response = site.send("GET", "/jobs/job_01m7et433kee4803yssgvaf2fh", "", &[page[0], ("cookie", &session)]).await;
    assert_eq!(response.status(), StatusCode::NOT_FOUND);
    assert!(text(response).await.starts_with("<!DOCTYPE html>"));
    let response = site.send("POST", "/logout", "", &[("cookie", &session), ("sec-fetch-site", "same-origin")]).await;
    assert_eq!((response.status(), location(&response)), (StatusCode::SEE_OTHER, "/login"));
    assert_eq!(site.send("GET", "/jobs", "", &[("cookie", &session)]).await.status(), StatusCode::UNAUTHORIZED);
}
