//! What one credential asks in excess is refused, and costs others nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::checked::{Checked, plain_http};
use crate::harness::{Home, Server};

/// What a flood was answered.
#[derive(Default)]
struct Flood {
    stop: AtomicBool,
    done: AtomicUsize,
    refused: AtomicUsize,
}

impl Flood {
    async fn run(self: Arc<Self>, url: String, key: String) {
        let http = plain_http();
        while !self.stop.load(Ordering::Relaxed) {
            let body = json!({ "task": "t", "input": "x".repeat(4096) }).to_string();
            let request =
                http.post(format!("{url}/v1/jobs")).bearer_auth(&key).header("content-type", "application/json");
            let answer = request.body(body).send().await.expect("an answer");
            if answer.status().as_u16() == 429 {
                let wait = answer.headers().get("retry-after").and_then(|wait| wait.to_str().ok()?.parse::<u64>().ok());
                assert!(wait.is_some_and(|wait| (1..=5).contains(&wait)), "{wait:?}");
                self.refused.fetch_add(1, Ordering::Relaxed);
            } else {
                // The task is not there: nothing is stored, and the request was worked on all the same.
                assert_eq!(answer.status().as_u16(), 404);
                self.done.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

async fn key(api: &Checked, name: &str) -> String {
    let made = api.post("/v1/keys", json!({ "name": name, "role": "operator" })).await.expect(201);
    made.str("/secret").to_owned()
}

/// The middle of a hundred times.
async fn latency(server: &Server, key: &str) -> Duration {
    let http = plain_http();
    let mut times = Vec::new();
    for _ in 0..100 {
        let begun = Instant::now();
        let answer = http.get(format!("{}/v1/whoami", server.url)).bearer_auth(key).send().await.expect("an answer");
        assert_eq!(answer.status().as_u16(), 200);
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    times[times.len() / 2]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_one_key_leaves_the_latency_of_another() {
    const RATE: usize = 200;
    let home = Home::new();
    let server = home.server_with("127.0.0.1:0", &[], &[("PUNCTUAL_REQUEST_RATE", "200")]);
    let api = Checked::new(&server).await;
    let (greedy, calm) = (key(&api, "greedy").await, key(&api, "calm").await);
    let mut ratios = Vec::new();
    // Whatever else this machine does spoils single rounds; without the limit none is good.
    for _ in 0..5 {
        let idle = latency(&server, &calm).await;
        let flood = Arc::new(Flood::default());
        let begun = Instant::now();
        let clients: Vec<_> =
            (0..16).map(|_| tokio::spawn(Arc::clone(&flood).run(server.url.clone(), greedy.clone()))).collect();
        while flood.refused.load(Ordering::Relaxed) < 50 {
            assert!(begun.elapsed() < Duration::from_secs(60), "nothing is refused");
            tokio::task::yield_now().await;
        }
        let busy = latency(&server, &calm).await;
        flood.stop.store(true, Ordering::Relaxed);
        for client in clients {
            client.await.expect("every answer is one of the two");
        }
        let done = flood.done.load(Ordering::Relaxed);
        let may = RATE * (begun.elapsed().as_secs() as usize + 3);
        assert!(done <= may, "{done} requests were worked on, and {may} is the limit");
        ratios.push(busy.as_secs_f64() / idle.as_secs_f64());
        if busy <= idle * 2 {
            return;
        }
    }
    panic!("the other key waits too long: {ratios:?}");
}

/// A key of the administrator of a new namespace.
async fn tenant(api: &Checked, name: &str) -> String {
    api.post("/v1/namespaces", json!({ "name": name })).await.expect(201);
    let made = json!({ "name": "admin", "role": "admin", "namespace": name });
    api.post("/v1/keys", made).await.expect(201).str("/secret").to_owned()
}

/// How long a list took that was made.
async fn listed(http: &reqwest::Client, url: &str, key: &str) -> Option<Duration> {
    let begun = Instant::now();
    let answer = http.get(format!("{url}/v1/jobs?limit=300")).bearer_auth(key).send().await.expect("an answer");
    let status = answer.status().as_u16();
    answer.bytes().await.expect("all of it");
    assert!([200, 429].contains(&status), "{status}");
    (status == 200).then(|| begun.elapsed())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_lists_of_one_tenant_makes_its_own_late_and_not_those_of_another() {
    const CLIENTS: usize = 24;
    let home = Home::new();
    let server = home.server();
    let api = Checked::new(&server).await;
    let (greedy, calm) = (tenant(&api, "greedy").await, tenant(&api, "calm").await);
    let jobs: Vec<_> =
        (0..300).map(|_| json!({ "inline": { "run": { "probe": {} } }, "run_at": "2199-01-01T00:00:00Z" })).collect();
    let http = plain_http();
    for key in [&greedy, &calm] {
        let body = json!({ "jobs": jobs }).to_string();
        let bulk = http.post(format!("{}/v1/jobs/bulk", server.url)).bearer_auth(key).body(body);
        let answer = bulk.header("content-type", "application/json").send().await.expect("an answer");
        assert_eq!(answer.status().as_u16(), 201);
    }
    let stop = Arc::new(AtomicBool::new(false));
    let flood: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let (http, url, key, stop) = (plain_http(), server.url.clone(), greedy.clone(), Arc::clone(&stop));
            tokio::spawn(async move {
                let mut times = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    times.extend(listed(&http, &url, &key).await);
                }
                times
            })
        })
        .collect();
    let mut times = Vec::new();
    for _ in 0..15 {
        times.push(listed(&http, &server.url, &calm).await.expect("its lists are made"));
    }
    stop.store(true, Ordering::Relaxed);
    let mut late = Vec::new();
    for client in flood {
        late.extend(client.await.expect("every answer is one of the two"));
    }
    let (calm, greedy) = (median(times), median(late));
    assert!(calm * 3 < greedy, "a list of the other tenant takes {calm:?}, and one of the flood {greedy:?}");
}
