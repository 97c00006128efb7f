//! Without scripts, in a narrow window, in other colours and zones, and below a path.

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

use super::webdriver::Browser;
use super::{World, probe};
use crate::harness::Home;

#[tokio::test]
async fn pages_work_without_scripts_in_narrow_windows_and_in_other_zones() {
    let world = World::new().await;
    pages_show_times_in_the_zone_of_the_browser(&world).await;
    colours_and_zones_are_chosen(&world).await;
    no_page_is_wider_than_a_narrow_window(&world).await;
    without_scripts_jobs_are_made_read_and_cancelled(&world).await;
    world.browser.assert_no_complaints().await;
    a_server_that_ends_is_noticed_and_found_again(world).await;
}

async fn pages_show_times_in_the_zone_of_the_browser(world: &World) {
    let browser = &world.browser;
    browser.devtools("Emulation.setTimezoneOverride", json!({ "timezoneId": "Asia/Tokyo" })).await;
    let id = world.submit(json!({ "inline": { "run": { "probe": {} } }, "run_at": "2031-01-01T00:00:00Z" })).await;
    browser.open(&format!("/jobs/{id}")).await;
    browser.sees(".clock", "Asia/Tokyo UTC+09:00").await;
    browser.sees("#facts", "2031-01-01 09:00:00").await;
}

async fn colours_and_zones_are_chosen(world: &World) {
    let browser = &world.browser;
    browser.open("/jobs").await;
    browser.click("#account summary").await;
    browser.fill("#account input[name=zone]", "America/New_York").await;
    browser.choose("#account select[name=theme]", "dark").await;
    browser.click("#account button.first").await;
    browser.sees(".clock", "America/New_York").await;
    browser.holds("getComputedStyle(document.documentElement).backgroundColor === 'rgb(19, 18, 16)'").await;
    browser.sees("#jobs", "2030-12-31 19:00:00").await;
    browser.click("#account summary").await;
    browser.choose("#account select[name=theme]", "light").await;
    browser.click("#account button.first").await;
    browser.holds("getComputedStyle(document.documentElement).backgroundColor === 'rgb(247, 245, 241)'").await;
}

async fn no_page_is_wider_than_a_narrow_window(world: &World) {
    let browser = &world.browser;
    let id = world
        .submit(probe("0s", "a-long-word-without-any-space-in-it-that-could-make-a-page-wide-".repeat(4).as_str()))
        .await;
    world.ended(id).await;
    browser.set_width(320).await;
    let job = format!("/jobs/{id}");
    for page in [
        "/",
        "/jobs",
        &job,
        "/jobs/new?kind=command",
        "/schedules",
        "/schedules/new",
        "/queues",
        "/workers",
        "/cluster",
        "/audit",
    ] {
        browser.open(page).await;
        let width = browser.script("return document.documentElement.scrollWidth").await;
        assert!(width.as_u64().is_some_and(|width| width <= 320), "{page} is {width} wide");
    }
    browser.set_width(1280).await;
}

async fn without_scripts_jobs_are_made_read_and_cancelled(world: &World) {
    let browser = &world.browser;
    browser.devtools("Emulation.setScriptExecutionDisabled", json!({ "value": true })).await;
    browser.open("/jobs/new?kind=probe").await;
    browser.fill("input[name=sleep]", "10m").await;
    browser.click("button[formaction='/jobs/preview']").await;
    browser.sees("#preview", "punctual run --probe '{\"sleep\":\"10m\"}'").await;
    browser.click("form[data-preview] button.first").await;
    browser.arrives("/jobs/job_").await;
    let place = browser.place().await;
    let id = place.trim_start_matches("/jobs/").split('?').next().and_then(|id| id.parse().ok()).expect("an id");
    while world.state(id).await != "running" {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    browser.reload().await;
    browser.sees("#facts", "running").await;
    browser.click("#why .confirm summary").await;
    browser.click("#why .confirm button").await;
    browser.sees(".notice", "asked to end").await;
    world.ended(id).await;
    browser.reload().await;
    browser.sees("#facts", "cancelled").await;
    browser.devtools("Emulation.setScriptExecutionDisabled", json!({ "value": false })).await;
}

async fn a_server_that_ends_is_noticed_and_found_again(world: World) {
    let World { browser, server, home, .. } = world;
    browser.open("/jobs").await;
    browser.sees("#live", "Live").await;
    let address = server.address();
    server.kill();
    browser.sees("#live", "No answer").await;
    // What was there is still read.
    assert!(browser.count("#jobs tbody tr").await > 0);
    let _server = home.server_at(&address, &[]);
    browser.sees("#live", "Live").await;
    browser.end().await;
}

#[tokio::test]
async fn pages_work_below_a_path_of_a_proxy() {
    let home = Home::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let outside = format!("http://{}/punctual", listener.local_addr().expect("an address"));
    home.set(&format!("public_url = \"{outside}\"\n"));
    let server = home.server();
    let _worker = home.worker(&server, &[]);
    let inside = server.address();
    let proxy = tokio::spawn(async move {
        loop {
            let (client, _) = listener.accept().await.expect("a connection");
            tokio::spawn(pass_on(client, inside.clone()));
        }
    });
    let browser = Browser::start(&outside).await;
    browser.open("/").await;
    browser.sees("main", "Three things to try").await;
    browser.sees("#live", "Live").await;
    browser.click("a[href$='/jobs/new?kind=probe']").await;
    browser.arrives("/punctual/jobs/new").await;
    browser.fill("textarea[name=output]", "/below a path").await;
    browser.sees("#preview", "'{\"output\":\"/below a path\"}'").await;
    browser.sees("#preview", &format!("{outside}/v1/jobs")).await;
    browser.click("form[data-preview] button.first").await;
    browser.arrives("/punctual/jobs/job_").await;
    browser.sees("#facts", "succeeded").await;
    browser.sees("#lines", "/below a path").await;
    browser.assert_no_complaints().await;
    browser.end().await;
    proxy.abort();
}

/// A proxy that takes `/punctual` away, as `location /punctual/ { proxy_pass http://…/; }` of nginx does.
async fn pass_on(mut client: TcpStream, to: String) {
    let mut head = Vec::new();
    while !head.windows(4).any(|part| part == b"\r\n\r\n") {
        let mut piece = [0; 4096];
        match client.read(&mut piece).await {
            Ok(0) | Err(_) => return,
            Ok(len) => head.extend_from_slice(&piece[..len]),
        }
    }
    let text = String::from_utf8_lossy(&head).into_owned();
    // One request a connection: the next one would need the same.
    let text = text.replacen(" /punctual", " ", 1).replacen("\r\n", "\r\nConnection: close\r\n", 1);
    let text = text.replacen("Connection: keep-alive\r\n", "", 1);
    let Ok(mut server) = TcpStream::connect(to).await else { return };
    if server.write_all(text.as_bytes()).await.is_ok() {
        let _ = copy_bidirectional(&mut client, &mut server).await;
    }
}
