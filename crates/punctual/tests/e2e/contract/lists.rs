//! Lists of jobs: filters, orders, and pages without duplicates or gaps.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{World, probe};
use crate::harness::eventually;

/// All pages of a list, one after the other.
async fn walk(world: &World, query: &str, limit: usize) -> (Vec<Value>, usize) {
    let mut jobs: Vec<Value> = Vec::new();
    let mut cursor = String::new();
    let mut pages = 0;
    loop {
        let page = world.api.get(&format!("/v1/jobs?limit={limit}{query}{cursor}")).await.expect(200);
        let rows = page.body["jobs"].as_array().expect("a list");
        assert!(rows.len() <= limit);
        jobs.extend(rows.iter().cloned());
        pages += 1;
        match page.body["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return (jobs, pages),
        }
        assert!(pages < 1000, "a list that does not end");
    }
}

fn ids(jobs: &[Value]) -> Vec<String> {
    jobs.iter().map(|job| job["id"].as_str().expect("an id").to_owned()).collect()
}

/// Jobs in history, running, due and far away, of two tasks, two queues and two kinds.
async fn populate(world: &World) -> BTreeSet<String> {
    let api = &world.api;
    let mut other = probe(json!({}));
    other["queue"] = json!("other");
    api.put("/v1/tasks/quick", probe(json!({}))).await.expect(201);
    api.put("/v1/tasks/other", other).await.expect(201);
    let mut ids = BTreeSet::new();
    for n in 0..12 {
        let task = if n % 2 == 0 { "quick" } else { "other" };
        ids.insert(api.submit(json!({ "task": task })).await);
    }
    let mut failing = probe(json!({ "fail_times": 9 }));
    failing["retry"] = json!({ "max": 0 });
    for _ in 0..3 {
        ids.insert(api.submit(json!({ "inline": failing })).await);
    }
    for id in &ids {
        api.finished(id).await;
    }
    for _ in 0..2 {
        ids.insert(api.submit(json!({ "inline": probe(json!({ "sleep": "10m" })) })).await);
    }
    eventually("two run", || async { api.get("/v1/stats").await.body["running"] == json!(2) }).await;
    // Several at one moment: the order must hold where the times do not tell.
    let far: Vec<_> = (0..20)
        .map(|n| {
            let call = json!({ "run": { "http": { "url": "http://127.0.0.1:9/" } } });
            json!({ "inline": call, "run_at": format!("2099-01-{:02}T00:00:00Z", 1 + n / 4) })
        })
        .collect();
    let far = api.post("/v1/jobs/bulk", json!({ "jobs": far })).await.expect(201);
    ids.extend(far.body["ids"].as_array().expect("ids").iter().map(|id| id.as_str().expect("an id").to_owned()));
    let deleted = far.str("/ids/7");
    api.delete(&format!("/v1/jobs/{deleted}")).await.expect(200);
    ids
}

#[tokio::test]
async fn pages_show_every_job_once_in_both_orders() {
    let world = World::working().await;
    let expected = populate(&world).await;
    for limit in [1, 4, 7, 36, 37, 1000] {
        for order in ["asc", "desc"] {
            let (jobs, pages) = walk(&world, &format!("&order={order}"), limit).await;
            let mut listed = ids(&jobs);
            assert_eq!(listed.len(), expected.len(), "limit {limit} {order}");
            assert_eq!(listed.iter().cloned().collect::<BTreeSet<_>>(), expected, "limit {limit} {order}");
            assert!(limit > 7 || pages > 3, "{pages} pages of {limit}");
            if order == "desc" {
                listed.reverse();
            }
            assert!(listed.is_sorted(), "limit {limit} {order}: not in the order of the due times");
        }
    }
}

#[tokio::test]
async fn filters_show_what_fits_and_nothing_else() {
    let world = World::working().await;
    let all = populate(&world).await;
    for (query, count) in [
        ("", 37),
        ("&state=succeeded", 12),
        ("&state=failed", 3),
        ("&state=running", 2),
        ("&state=scheduled", 19),
        ("&state=deleted", 1),
        ("&state=cancelled", 0),
        ("&state=lost,quarantined", 0),
        ("&state=failed,deleted", 4),
        ("&state=running,scheduled", 21),
        ("&state=running,failed,running", 5),
        ("&state=scheduled,running,succeeded,failed,cancelled,lost,quarantined,deleted", 37),
        ("&task=quick", 6),
        ("&task=other&state=succeeded", 6),
        ("&queue=other", 6),
        ("&queue=default", 31),
        ("&queue=nobody", 0),
        ("&kind=probe", 17),
        ("&kind=http", 20),
        ("&kind=http&state=deleted", 1),
        ("&kind=probe&state=running", 2),
        ("&kind=handler", 0),
        ("&scheduled_from=2099-01-02T00:00:00Z", 16),
        ("&scheduled_before=2099-01-02T00:00:00Z", 21),
        ("&scheduled_from=2099-01-02T00:00:00Z&scheduled_before=2099-01-04T00:00:00Z", 8),
        ("&scheduled_from=2099-01-02T00:00:00%2B01:00&scheduled_before=2099-01-02T00:00:00.000001Z&state=deleted", 1),
        ("&scheduled_from=2100-01-01T00:00:00Z", 0),
        ("&queue=default&kind=probe&state=succeeded&scheduled_before=2098-01-01T00:00:00Z", 6),
    ] {
        for (limit, order) in [(5, "asc"), (5, "desc"), (1000, "desc")] {
            let (jobs, _) = walk(&world, &format!("{query}&order={order}"), limit).await;
            let listed: BTreeSet<_> = ids(&jobs).into_iter().collect();
            assert_eq!((jobs.len(), listed.len()), (count, count), "{query} {order} {limit}");
            assert!(listed.is_subset(&all));
        }
    }
}

#[tokio::test]
async fn a_summary_tells_what_the_job_itself_does() {
    let world = World::working().await;
    populate(&world).await;
    let (jobs, _) = walk(&world, "", 1000).await;
    for summary in &jobs {
        let job = world.api.get(&format!("/v1/jobs/{}", summary["id"].as_str().expect("an id"))).await.expect(200).body;
        for field in [
            "task",
            "state",
            "priority",
            "submitted_at",
            "scheduled_at",
            "due_at",
            "finished_at",
            "reason",
            "tracing_id",
        ] {
            assert_eq!(summary.get(field), job.get(field), "{field} of {summary}");
        }
        assert_eq!(summary["attempt_count"].as_u64(), job["attempts"].as_array().map(|attempts| attempts.len() as u64));
    }
}

/// A14: the tracing id follows a job everywhere, and leads back to it.
#[tokio::test]
async fn jobs_are_found_by_their_tracing_id_wherever_they_are() {
    let world = World::working().await;
    let api = &world.api;
    populate(&world).await;
    let traced = |job: Value| async move {
        let mut job = job;
        job["tracing_id"] = json!("order/7 é");
        api.submit(job).await
    };
    let done = traced(json!({ "task": "quick" })).await;
    api.finished(&done).await;
    let running = traced(json!({ "inline": probe(json!({ "sleep": "10m" })) })).await;
    eventually("three run", || async { api.get("/v1/stats").await.body["running"] == json!(3) }).await;
    let far = traced(json!({ "task": "other", "run_at": "2099-01-01T00:00:00Z" })).await;
    api.submit(json!({ "task": "quick", "tracing_id": "order/77" })).await;
    for (query, expected) in [
        ("", vec![&done, &running, &far]),
        ("&state=running", vec![&running]),
        ("&state=succeeded", vec![&done]),
        ("&state=running,succeeded", vec![&done, &running]),
        ("&queue=other", vec![&far]),
        ("&state=failed", vec![]),
    ] {
        for limit in [1, 50] {
            let (jobs, _) = walk(&world, &format!("&tracing_id=order%2F7%20%C3%A9&order=asc{query}"), limit).await;
            let expected: Vec<String> = expected.iter().map(|id| (*id).clone()).collect();
            assert_eq!(ids(&jobs), expected, "{query} {limit}");
        }
    }
    assert!(walk(&world, "&tracing_id=order", 50).await.0.is_empty(), "the whole id counts");
    api.get(&format!("/v1/jobs?tracing_id={}", "x".repeat(257))).await.refused(400, "invalid_request");
}
