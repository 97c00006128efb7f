//! Schedules, workflows and queues.

use serde_json::json;

use super::World;

#[tokio::test]
async fn schedules_workflows_and_queues_are_made_and_steered() {
    let world = World::new().await;
    a_schedule_is_previewed_and_saved(&world).await;
    a_schedule_is_changed_paused_and_run(&world).await;
    a_workflow_is_run_and_approved(&world).await;
    a_queue_is_paused_and_resumed(&world).await;
    every_page_of_the_navigation_opens(&world).await;
    world.end().await;
}

async fn a_schedule_is_previewed_and_saved(world: &World) {
    let browser = &world.browser;
    let task = json!({ "run": { "probe": { "output": "scheduled" } } });
    browser.open("/").await;
    let put = format!(
        "return fetch('/v1/tasks/report', {{ method: 'PUT', headers: {{ 'Content-Type': 'application/json' }}, body: JSON.stringify({task}) }}).then((a) => a.status)"
    );
    assert_eq!(browser.script(&put).await, 201);
    browser.open("/schedules/new").await;
    browser.fill("main input[name=name]", "nightly").await;
    browser.fill("main input[name=target]", "report").await;
    browser.fill("main input[name=value]", "61 * * * *").await;
    browser.sees("#preview .error", "61").await;
    // A day on which the clocks leave this time out.
    browser.fill("main input[name=value]", "30 2 28 3 *").await;
    browser.fill("main input[name=zone]", "Europe/Berlin").await;
    browser.sees("#preview", "2027-03-28T03:00:00+02:00").await;
    browser.sees("#preview", "02:30 does not exist").await;
    browser
        .sees("#preview", "punctual schedule create nightly --task report --cron '30 2 28 3 *' --zone Europe/Berlin")
        .await;
    browser.click("form[data-preview] button.first").await;
    browser.arrives("/schedules/nightly").await;
    browser.sees(".notice", "Saved").await;
    browser.sees("#planned", "2027-03-28T03:00:00+02:00").await;
    assert!(browser.count("#line .s.warn").await > 0, "the clock change is marked");
}

async fn a_schedule_is_changed_paused_and_run(world: &World) {
    let browser = &world.browser;
    browser.open("/schedules/nightly").await;
    browser.click("a[href='/schedules/nightly/edit']").await;
    browser.arrives("/schedules/nightly/edit").await;
    browser.holds("document.querySelector('main input[name=value]').value === '30 2 28 3 *'").await;
    browser.choose("main select[name=rule]", "daily").await;
    browser.fill("main input[name=value]", "04:15").await;
    browser.click("form[data-preview] button.first").await;
    browser.arrives("/schedules/nightly?done=saved").await;
    browser.sees("#why", "at 04:15, every day").await;
    browser.click("#why form[action$='/skip'] button").await;
    browser.sees(".notice", "skipped").await;
    browser.sees("#why", "are skipped").await;
    browser.click("#why .confirm summary").await;
    browser.click("#why .confirm button").await;
    browser.sees("#why", "Paused").await;
    browser.click("#why form[action$='/resume'] button").await;
    browser.sees("#why", "Runs next at").await;
    browser.click("#why form[action$='/run'] button").await;
    browser.sees(".notice", "A run was started").await;
    browser.sees("#history", "job").await;
    browser.click("#history a[href^='/jobs/']").await;
    browser.sees("#facts", "nightly").await;
    browser.sees("#facts", "succeeded").await;
}

async fn a_workflow_is_run_and_approved(world: &World) {
    let browser = &world.browser;
    let spec = json!({ "nodes": [
        { "name": "extract", "task": "report" },
        { "name": "approve", "gate": {}, "needs": ["extract"] },
        { "name": "load", "task": "report", "needs": ["approve"] },
    ] });
    let put = format!(
        "return fetch('/v1/workflows/etl', {{ method: 'PUT', headers: {{ 'Content-Type': 'application/json' }}, body: JSON.stringify({spec}) }}).then((a) => a.status)"
    );
    assert_eq!(browser.script(&put).await, 201);
    browser.open("/workflows").await;
    browser.click("a[href='/workflows/etl']").await;
    browser.sees("svg.chart", "extract").await;
    browser.click("form[action='/workflows/etl/run'] button").await;
    browser.arrives("/runs/run_").await;
    browser.sees("#why", "1 of 3 nodes done").await;
    assert_eq!(browser.count("#graph svg.chart a.ok").await, 1);
    browser.click("#why form[action$='/approve'] button").await;
    browser.sees(".notice", "The decision is on record").await;
    browser.sees("#why", "3 of 3 nodes done: succeeded").await;
    browser.click("#why form[action$='/rerun'] button").await;
    browser.sees("#why", "1 of 3 nodes done: running").await;
    browser.click("#why .confirm summary").await;
    browser.click("#why .confirm button").await;
    browser.sees("#why", "cancelled").await;
}

async fn a_queue_is_paused_and_resumed(world: &World) {
    let browser = &world.browser;
    browser.open("/queues").await;
    browser.click("#queue-default .confirm summary").await;
    browser.click("#queue-default form[action='/queues/default/pause'] button").await;
    browser.sees("#queue-default", "paused").await;
    let id = world.submit(super::probe("0s", "later")).await;
    browser.open(&format!("/jobs/{id}")).await;
    browser.sees("#why", "paused").await;
    browser.open("/queues").await;
    browser.click("#queue-default form[action='/queues/default/resume'] button").await;
    browser.sees("#queue-default", "active").await;
    world.ended(id).await;
}

async fn every_page_of_the_navigation_opens(world: &World) {
    let browser = &world.browser;
    browser.open("/").await;
    let places =
        browser.script("return [...document.querySelectorAll('nav[aria-label=Main] a')].map((a) => a.pathname)").await;
    let places: Vec<&str> = places.as_array().expect("a list").iter().filter_map(|place| place.as_str()).collect();
    assert!(places.len() >= 16, "{places:?}");
    for place in places {
        browser.open(place).await;
        browser.sees("main h1", "").await;
        let is_fine = "document.querySelector('nav a[aria-current]') && document.title.includes('Punctual') && document.querySelectorAll('h1').length === 1";
        browser.holds(is_fine).await;
        // Ids are used once, and every field has a label.
        let ids = "new Set([...document.querySelectorAll('[id]')].map((e) => e.id)).size === document.querySelectorAll('[id]').length";
        browser.holds(ids).await;
        let labels = "[...document.querySelectorAll('input:not([type=hidden]), select, textarea')].every((e) => e.labels.length || e.ariaLabel)";
        browser.holds(labels).await;
    }
}
