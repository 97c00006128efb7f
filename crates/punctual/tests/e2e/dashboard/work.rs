//! Jobs: from the form to the end, with their logs.

use punctual_api::ListQuery;
use serde_json::json;

use super::{World, probe};

#[tokio::test]
async fn jobs_are_made_in_forms_and_watched_to_their_end() {
    let world = World::new().await;
    a_new_server_offers_something_to_try(&world).await;
    a_job_is_made_in_a_form_and_ends_while_one_looks(&world).await;
    a_form_that_is_refused_keeps_what_was_written(&world).await;
    every_kind_of_job_has_a_form_with_its_command(&world).await;
    a_time_is_meant_in_the_zone_of_the_form(&world).await;
    a_form_that_is_sent_twice_makes_one_job(&world).await;
    world.end().await;
}

async fn a_new_server_offers_something_to_try(world: &World) {
    let browser = &world.browser;
    browser.open("/").await;
    browser.sees("main", "Three things to try").await;
    browser.sees("#attention", "Nothing.").await;
    browser.sees("#live", "Live").await;
    browser.click("a[href='/jobs/new?kind=probe']").await;
    browser.arrives("/jobs/new").await;
}

async fn a_job_is_made_in_a_form_and_ends_while_one_looks(world: &World) {
    let browser = &world.browser;
    browser.open("/jobs/new?kind=probe").await;
    browser.fill("input[name=sleep]", "1s").await;
    browser.fill("textarea[name=output]", "hello from a form").await;
    browser.sees("#preview", "punctual run --probe '{\"output\":\"hello from a form\",\"sleep\":\"1s\"}'").await;
    browser.click("form[data-preview] button.first").await;
    browser.arrives("/jobs/job_").await;
    browser.sees(".notice", "Created").await;
    // Nobody loads the page again.
    browser.script("window.stays = true").await;
    browser.sees("#facts", "succeeded").await;
    browser.sees("#lines", "hello from a form").await;
    browser.sees("#part-output", "hello from a form").await;
    browser.sees("#timeline", "Attempt 1").await;
    browser.sees("#attempts", "succeeded").await;
    browser.holds("window.stays").await;
}

async fn a_form_that_is_refused_keeps_what_was_written(world: &World) {
    let browser = &world.browser;
    browser.open("/jobs/new?kind=http").await;
    browser.fill("input[name=url]", "nonsense://x y").await;
    browser.click("form[data-preview] button.first").await;
    browser.sees("[role=alert]", "url").await;
    browser.holds("document.querySelector('input[name=url]').value === 'nonsense://x y'").await;
    // The browser names a page with status 400.
    assert_eq!(browser.complaints().await.len(), 1);
}

async fn every_kind_of_job_has_a_form_with_its_command(world: &World) {
    let browser = &world.browser;
    let address = format!("{}/livez", world.server.url);
    for (kind, fields, command) in [
        ("http", vec![("url", address.as_str())], "punctual run --http"),
        ("ping", vec![("url", &address)], "punctual run --ping"),
        ("webhook", vec![("url", &address), ("body", "{\"a\":1}")], "--body '{\"a\":1}'"),
        (
            "email",
            vec![("to", "ops@example.com"), ("subject", "It is done"), ("text", "All of it.")],
            "--subject 'It is done'",
        ),
        ("slack", vec![("channel", "ops"), ("text", "done")], "punctual run --slack ops --text done"),
        ("telegram", vec![("chat", "@news"), ("text", "done")], "punctual run --telegram @news --text done"),
        ("command", vec![("line", "echo hi")], "punctual run --command 'echo hi'"),
        (
            "binary",
            vec![("artifact", "artifact_01m7et433kee4803yssgvaf2fh")],
            "\"artifact\":\"artifact_01m7et433kee4803yssgvaf2fh\"",
        ),
    ] {
        browser.open(&format!("/jobs/new?kind={kind}")).await;
        for (name, text) in fields {
            browser.fill(&format!("main [name={name}]"), text).await;
        }
        browser.sees("#preview", command).await;
        browser.click("form[data-preview] button.first").await;
        if kind == "binary" {
            browser.sees("[role=alert]", "artifact").await;
            assert_eq!(browser.complaints().await.len(), 1);
            continue;
        }
        browser.arrives("/jobs/job_").await;
        browser.sees("#facts", if ["ping", "webhook"].contains(&kind) { "http" } else { kind }).await;
    }
}

async fn a_time_is_meant_in_the_zone_of_the_form(world: &World) {
    let browser = &world.browser;
    browser.open("/jobs/new?kind=probe").await;
    browser.choose("select[name=when]", "at").await;
    browser.script("document.querySelector('input[name=at]').value = '2031-07-01T09:30'").await;
    browser.fill("main input[name=zone]", "America/New_York").await;
    browser.sees("#preview", "2031-07-01T09:30:00-04:00").await;
    browser.click("form[data-preview] button.first").await;
    browser.arrives("/jobs/job_").await;
    browser.sees("#why", "2031-07-01 13:30:00").await;
    // Nothing ran of it, so it can be deleted, and never runs.
    browser.click("#why .confirm summary").await;
    browser.click("#why .confirm button").await;
    browser.arrives("/jobs?done=deleted").await;
    browser.sees(".notice", "Deleted").await;
}

async fn a_form_that_is_sent_twice_makes_one_job(world: &World) {
    let browser = &world.browser;
    browser.open("/jobs/new?kind=probe").await;
    let send = "const form = document.querySelector('form[data-preview]'); \
                return fetch(form.action, { method: 'POST', body: new URLSearchParams(new FormData(form)) }).then((a) => a.url)";
    let first = browser.script(send).await;
    assert!(first.as_str().is_some_and(|url| url.contains("/jobs/job_")), "{first}");
    assert_eq!(browser.script(send).await, first);
}

#[tokio::test]
async fn jobs_are_found_followed_and_steered() {
    let world = World::new().await;
    a_log_is_followed_and_its_lines_have_links(&world).await;
    a_running_job_is_cancelled(&world).await;
    a_failed_job_is_found_and_retried(&world).await;
    the_overview_names_what_needs_somebody(&world).await;
    hostile_texts_are_shown_as_texts(&world).await;
    the_keyboard_is_enough(&world).await;
    what_is_pointed_at_does_not_move(&world).await;
    world.end().await;
}

async fn a_log_is_followed_and_its_lines_have_links(world: &World) {
    let browser = &world.browser;
    let line = "echo first; echo oops >&2; until [ -e \"$GO\" ]; do sleep 0.05; done; echo last";
    let go = world.home.file("go");
    let command = json!({ "line": line, "environment": { "GO": go } });
    let id = world.submit(json!({ "inline": { "run": { "command": command } } })).await;
    browser.open(&format!("/jobs/{id}")).await;
    browser.sees("#lines", "first").await;
    browser.sees("#lines li.stderr", "oops").await;
    std::fs::write(&go, "").expect("a file");
    browser.sees("#lines", "last").await;
    browser.sees("#facts", "succeeded").await;
    browser.open(&format!("/jobs/{id}#L3")).await;
    browser.sees("#lines li:target", "last").await;
    let file = browser.script("return fetch(document.querySelector('a[download]').href).then((a) => a.text())").await;
    let text = file.as_str().expect("a text");
    assert!(text.contains("first\n") && text.contains("oops\n") && text.contains("last\n"), "{text}");
}

async fn a_running_job_is_cancelled(world: &World) {
    let browser = &world.browser;
    let id = world.submit(probe("10m", "never")).await;
    browser.open(&format!("/jobs/{id}")).await;
    browser.sees("#facts", "running").await;
    browser.sees("main", &format!("punctual cancel {id}")).await;
    browser.click("#why .confirm summary").await;
    browser.click("#why .confirm button").await;
    browser.sees("#facts", "cancelled").await;
    assert_eq!(world.state(id).await, "cancelled");
}

async fn a_failed_job_is_found_and_retried(world: &World) {
    let browser = &world.browser;
    // The first attempt fails, and the second one does not.
    let run = json!({ "probe": { "fail_times": 1, "output": "better" } });
    let id = world.submit(json!({ "inline": { "run": run, "retry": { "max": 0 } } })).await;
    world.ended(id).await;
    browser.open("/jobs").await;
    browser.click("nav.tabs a[href='/jobs?state=failed']").await;
    browser.arrives("/jobs?state=failed").await;
    assert_eq!(browser.count("#jobs tbody tr").await, 1);
    browser.click(&format!("a[href='/jobs/{id}']")).await;
    browser.sees("#why", "failed").await;
    browser.back().await;
    browser.arrives("/jobs?state=failed").await;
    browser.open(&format!("/find?q={id}")).await;
    browser.arrives(&format!("/jobs/{id}")).await;
    browser.click("#why button.first").await;
    browser.sees("#facts", "succeeded").await;
    browser.sees("#timeline", "Attempt 2").await;
    assert_eq!(browser.count("#attempts tbody tr").await, 2);
}

async fn the_overview_names_what_needs_somebody(world: &World) {
    let browser = &world.browser;
    let failing = json!({ "inline": { "run": { "probe": { "fail_times": 9 } }, "retry": { "max": 0 } } });
    for _ in 0..3 {
        let id = world.submit(failing.clone()).await;
        world.ended(id).await;
    }
    world.submit(json!({ "inline": { "run": { "probe": {} }, "queue": "gpu" } })).await;
    browser.open("/").await;
    browser.sees("#attention", "No worker serves queue gpu; 1 due job waits").await;
    browser.sees("#attention", "failed 3 times").await;
    browser.sees("#figures", "Due and waiting\n1").await;
    browser.sees("#time", "now ").await;
    assert!(browser.count("#time .bar-fail").await > 0);
}

async fn hostile_texts_are_shown_as_texts(world: &World) {
    let browser = &world.browser;
    let text = "</title><script>window.pwned=1</script><img src=x onerror=window.pwned=1>";
    // Characters that change the direction of text are refused in names, and programs print what they like.
    let run = json!({ "command": { "line": "printf '\\342\\200\\256%s\\033[31m\\n' \"$HOSTILE\"; exit 3", "name": text, "environment": { "HOSTILE": text } } });
    let id = world
        .submit(json!({ "inline": { "run": run, "retry": { "max": 0 } }, "tracing_id": text, "input": { "a": text } }))
        .await;
    world.ended(id).await;
    for page in [format!("/jobs/{id}"), "/jobs".to_owned(), "/".to_owned()] {
        browser.open(&page).await;
        browser.sees("main", "<script>window.pwned=1</script>").await;
        browser.holds("window.pwned === undefined").await;
        assert_eq!(browser.count("main script, main img").await, 0, "{page}");
    }
}

async fn the_keyboard_is_enough(world: &World) {
    let browser = &world.browser;
    browser.open("/").await;
    browser.press("gj").await;
    browser.arrives("/jobs").await;
    browser.holds("document.readyState === 'complete'").await;
    browser.press("j").await;
    browser.holds("document.activeElement.classList.contains('main')").await;
    // Enter.
    browser.press("\u{e007}").await;
    browser.arrives("/jobs/job_").await;
    browser.press("?").await;
    browser.holds("document.getElementById('keys').open").await;
    // Escape.
    browser.press("\u{e00c}").await;
    browser.holds("!document.getElementById('keys').open").await;
    browser.press("/").await;
    browser.press("gj").await;
    browser.holds("document.querySelector('.find input').value === 'gj'").await;
}

async fn what_is_pointed_at_does_not_move(world: &World) {
    let browser = &world.browser;
    browser.open("/jobs").await;
    browser.sees("#live", "Live").await;
    let rows = browser.count("#jobs tbody tr").await;
    browser.script("document.querySelector('#jobs tbody tr a.main').focus()").await;
    let id = world.submit(probe("0s", "new")).await;
    world.ended(id).await;
    // The page has heard of it and keeps its rows while somebody is there.
    let page = format!(
        "fetch('/jobs').then((a) => a.text()).then((t) => {{ window.has = t.includes('{id}') }}) && window.has"
    );
    browser.holds(&page).await;
    assert_eq!(browser.count("#jobs tbody tr").await, rows);
    browser.script("document.activeElement.blur()").await;
    browser.sees("#jobs", "probe").await;
    browser.holds(&format!("document.getElementById('job-{id}')")).await;
    let all = world.server.client().jobs(&ListQuery::default()).await.expect("a list").jobs.len();
    assert_eq!(browser.count("#jobs tbody tr").await, all);
}
