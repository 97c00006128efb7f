//! Answers, codes and cookies in the wrong hands.

use punctual_api::{BrowserLoginQuery, ErrorKind, LoginExchange, SecretText};
use punctual_openid::challenge_of;
use serde_json::json;

use super::audit;
use super::browser::{Browser, Page};
use super::provider::Provider;
use crate::checked::plain_http;
use crate::harness::{Home, Server, eventually};

const VERIFIER: &str = "what only the command line of this test knows";

fn start_of(server: &Server) -> String {
    let query = BrowserLoginQuery {
        port: 4100,
        challenge: challenge_of(VERIFIER),
        state: "state-of-the-command-line".to_owned(),
        moved: None,
    };
    server.client().browser_login_address(&query)
}

/// A login up to the page that leads to the command line.
async fn finished(server: &Server, browser: &mut Browser, person: &str) -> Page {
    let page = browser.open(&start_of(server)).await;
    let page = browser.log_in(page, person).await;
    assert_eq!(page.status, 200, "{page:?}");
    page
}

fn code_of(page: &Page) -> String {
    let link = page.link_of("continue");
    let code = link.split("code=").nth(1).expect("a code");
    code.split('&').next().expect("its end").to_owned()
}

async fn exchanged(server: &Server, code: &str, verifier: &str) -> Result<String, ErrorKind> {
    let exchange = LoginExchange { code: SecretText(code.to_owned()), verifier: SecretText(verifier.to_owned()) };
    let answer = server.client().exchange_login(&exchange).await;
    answer.map(|created| created.session.user).map_err(|error| error.kind().expect("a problem"))
}

#[tokio::test]
async fn a_code_makes_one_session_and_only_for_the_command_line_that_began() {
    let (home, mut provider) = (Home::new(), Provider::start());
    let server = super::server_of(&home, &mut provider);
    provider.groups(&json!({ "ana": ["ops"] }));
    let page = finished(&server, &mut Browser::new(), "ana").await;
    let code = code_of(&page);
    let refused = Err(ErrorKind::OpenIdRefused);
    assert_eq!(exchanged(&server, &code, "a guess").await, refused);
    assert_eq!(exchanged(&server, &code[1..], VERIFIER).await, refused);
    assert_eq!(exchanged(&server, "", VERIFIER).await, refused);
    assert_eq!(exchanged(&server, &code, VERIFIER).await, Ok("ana-example.com".to_owned()));
    assert_eq!(exchanged(&server, &code, VERIFIER).await, refused, "a replayed code");
    let client = server.client();
    assert_eq!(client.user("ana-example.com").await.expect("a user").sessions, 1);
    client.end_session(&client.sessions().await.expect("a list").sessions[0].id).await.expect("it ends");
    assert_eq!(exchanged(&server, &code, VERIFIER).await, refused, "also after the session has ended");
    eventually("each refusal is on record", || async {
        let lines = audit(&client, "openid_login").await;
        let count = |reason: &str| lines.iter().filter(|(_, object, _)| object.starts_with(reason)).count();
        (count("wrong_code"), count("code_used")) == (3, 2)
    })
    .await;
}

#[tokio::test]
async fn an_answer_counts_once_and_only_in_the_browser_that_began() {
    let (home, mut provider) = (Home::new(), Provider::start());
    let server = super::server_of(&home, &mut provider);
    provider.groups(&json!({ "ana": ["ops"], "mallory": ["ops"] }));
    let mut browser = Browser::new();
    // The provider's answer to the login of somebody else, before it is used.
    let mut other = Browser::new();
    let page = other.open(&start_of(&server)).await;
    let others_cookie = other.cookies["punctual_login"].clone();
    let others = other.log_in(page, "mallory").await;
    let answer = others.way.last().expect("the callback").clone();
    assert!(answer.contains("/v1/login/oidc/callback?code="), "{answer}");

    // Session fixation: the victim's browser is sent to it, with no login of its own and in the middle of one.
    let page = browser.open(&answer).await;
    assert_eq!((page.status, page.problem()), (401, "openid_refused".to_owned()), "{page:?}");
    let at_provider = browser.open(&start_of(&server)).await;
    let own_cookie = browser.cookies["punctual_login"].clone();
    let page = browser.open(&answer).await;
    assert_eq!(page.problem(), "openid_refused", "{page:?}");

    // Its own login still works, once.
    browser.cookies.insert("punctual_login".to_owned(), own_cookie.clone());
    let page = browser.log_in(at_provider, "ana").await;
    assert_eq!(page.text_of("check").len(), 9, "{page:?}");
    let own_answer = page.way.last().expect("the callback").clone();
    assert!(!browser.cookies.contains_key("punctual_login"), "the cookie is gone after the login");
    for cookie in [own_cookie, others_cookie] {
        browser.cookies.insert("punctual_login".to_owned(), cookie);
        for answer in [&own_answer, &answer] {
            let page = browser.open(answer).await;
            assert_eq!(page.problem(), "openid_refused", "a replayed answer: {page:?}");
        }
    }
    // A page of another site cannot read it, nor have it sent by anything but a navigation.
    let http = plain_http();
    let request = http.get(&own_answer).header("sec-fetch-site", "cross-site").header("sec-fetch-mode", "cors");
    assert_eq!(request.send().await.expect("an answer").status().as_u16(), 403);
    let request =
        http.get(start_of(&server)).header("sec-fetch-site", "cross-site").header("sec-fetch-mode", "navigate");
    assert_eq!(request.send().await.expect("an answer").status().as_u16(), 403, "no other site begins a login");
}

#[tokio::test]
async fn failed_logins_are_limited_by_address() {
    let (home, mut provider) = (Home::new(), Provider::start());
    let server = super::server_of(&home, &mut provider);
    let mut kinds = Vec::new();
    for _ in 0..12 {
        kinds.push(exchanged(&server, "none", VERIFIER).await.expect_err("it is refused"));
    }
    assert_eq!(kinds[9], ErrorKind::OpenIdRefused, "{kinds:?}");
    assert_eq!(kinds[11], ErrorKind::TooManyLogins, "{kinds:?}");
}
