//! Logging in, and what the rights of somebody offer and refuse.

use punctual_api::{SecretText, UserRequest};
use serde_json::json;

use super::{World, probe};

const PASSWORD: &str = "correct horse battery";

#[tokio::test]
async fn people_log_in_and_may_do_what_their_role_permits() {
    let world = World::new().await;
    for (name, role) in [("ana", "admin"), ("vic", "viewer")] {
        let user = UserRequest {
            name: name.to_owned(),
            role: Some(role.to_owned()),
            password: Some(SecretText(PASSWORD.to_owned())),
            ..UserRequest::default()
        };
        world.server.client().create_user(&user).await.expect("a user");
    }
    // The kernel vouches for a browser of this user, and not for one behind a proxy.
    let headers = json!({ "headers": { "X-Forwarded-For": "192.0.2.1" } });
    world.browser.devtools("Network.enable", json!({})).await;
    world.browser.devtools("Network.setExtraHTTPHeaders", headers).await;
    nobody_sees_anything_and_is_sent_to_log_in(&world).await;
    a_wrong_password_is_refused(&world).await;
    somebody_logs_in_and_comes_where_they_wanted(&world).await;
    a_viewer_is_offered_nothing_and_forged_requests_are_refused(&world).await;
    world.end().await;
}

async fn nobody_sees_anything_and_is_sent_to_log_in(world: &World) {
    let browser = &world.browser;
    browser.open("/queues?done=paused").await;
    browser.arrives("/login?next=%2Fqueues%3Fdone%3Dpaused").await;
    browser.sees("h1", "Log in").await;
    assert_eq!(browser.count("nav").await, 0);
}

async fn a_wrong_password_is_refused(world: &World) {
    let browser = &world.browser;
    browser.fill("input[name=name]", "ana").await;
    browser.fill("input[name=password]", "wrong horse battery").await;
    browser.click("button.first").await;
    browser.sees("[role=alert]", "wrong").await;
}

async fn somebody_logs_in_and_comes_where_they_wanted(world: &World) {
    let browser = &world.browser;
    browser.fill("input[name=name]", "ana").await;
    browser.fill("input[name=password]", PASSWORD).await;
    browser.click("button.first").await;
    browser.arrives("/queues?done=paused").await;
    browser.sees("footer", "user:ana").await;
    // Scripts cannot read the session.
    browser.holds("!document.cookie.includes('punctual_session')").await;
    // The session counts for pages, and not for the API.
    assert_eq!(browser.script("return fetch('/v1/jobs').then((a) => a.status)").await, 401);
    browser.open("/keys").await;
    browser.sees("main", "this one").await;
    let _ = browser.complaints().await;
    browser.click("#account summary").await;
    browser.click("form[action='/logout'] button").await;
    browser.arrives("/login").await;
    browser.open("/jobs").await;
    browser.arrives("/login").await;
}

async fn a_viewer_is_offered_nothing_and_forged_requests_are_refused(world: &World) {
    let browser = &world.browser;
    let id = world.submit(probe("10m", "private")).await;
    browser.fill("input[name=name]", "vic").await;
    browser.fill("input[name=password]", PASSWORD).await;
    browser.click("button.first").await;
    browser.open(&format!("/jobs/{id}")).await;
    browser.sees("#facts", "running").await;
    browser.sees("#part-input", "Your role does not include it").await;
    assert_eq!(browser.count("main form[method=post]").await, 0);
    assert_eq!(browser.count("a[href='/people'], a[href='/audit'], a[href='/jobs/new']").await, 0);
    for (path, body) in [
        (format!("/jobs/{id}/cancel"), ""),
        (format!("/jobs/{id}/delete"), ""),
        (format!("/jobs/{id}/retry"), ""),
        (format!("/jobs/{id}/run"), ""),
        ("/queues/default/pause".to_owned(), ""),
        ("/queues/default/drain".to_owned(), ""),
        ("/jobs/new".to_owned(), "kind=probe"),
        ("/jobs/preview".to_owned(), "kind=probe"),
        ("/schedules/new".to_owned(), "name=x"),
        ("/schedules/x/pause".to_owned(), ""),
        ("/workflows/x/run".to_owned(), ""),
        ("/secrets".to_owned(), "name=x&value=y"),
    ] {
        let send = format!(
            "return fetch('{path}', {{ method: 'POST', body: new URLSearchParams('{body}') }}).then((a) => a.status)"
        );
        assert_eq!(browser.script(&send).await, 403, "{path}");
    }
    for page in ["/people", "/audit", "/jobs/new", "/schedules/new"] {
        assert_eq!(browser.script(&format!("return fetch('{page}').then((a) => a.status)")).await, 403, "{page}");
    }
    assert_eq!(world.state(id).await, "running");
    // The browser names each of them.
    let _ = browser.complaints().await;
}
