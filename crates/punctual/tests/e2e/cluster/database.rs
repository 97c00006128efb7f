//! A database that is away for a while.

use std::time::{Duration, Instant};

use punctual_core::task::Probe;
use punctual_local_postgres::{Settings, Stop};
use serde_json::json;

use super::{Cluster, finished, probe, submit};
use crate::checked::plain_http;
use crate::harness::{Home, eventually};
use crate::health::doctor;

/// An answer that takes longer is one that hangs.
const SOON: Duration = Duration::from_secs(8);

#[tokio::test]
async fn a_server_without_its_database_says_so_and_recovers_by_itself() {
    let mut postgres = Settings::test().start().expect("a PostgreSQL of our own");
    let database = postgres.create_database("away").expect("a database");
    let cluster = Cluster { home: Home::new(), database };
    let server = cluster.server(&[]);
    let client = server.client();
    let _worker = cluster.worker(&server);
    let id = submit(&client, &probe(Probe::default())).await;
    finished(&client, id).await;

    postgres.stop(Stop::Fast).expect("it stops");
    let http = plain_http();
    let body = json!({ "inline": { "run": { "probe": {} } } });
    let url = |path: &str| format!("{}{path}", server.url);
    let requests = [
        http.post(url("/v1/jobs")).json(&body),
        http.get(url("/v1/jobs")),
        http.get(url(&format!("/v1/jobs/{id}"))),
        http.post(url(&format!("/v1/jobs/{id}/retry"))),
        http.get(url("/v1/servers")),
        http.get(url("/readyz")),
    ];
    for request in requests {
        let begun = Instant::now();
        let answer = request.send().await.expect("an answer");
        assert!(begun.elapsed() < SOON, "{} took {:?}", answer.url(), begun.elapsed());
        assert_eq!(answer.status(), 503, "{}", answer.url());
        assert!(answer.headers().contains_key("retry-after"), "{}", answer.url());
    }
    client.live().await.expect("the process lives");
    let (code, checks) = doctor(&cluster.home, &server);
    assert_eq!(code, 1);
    assert_eq!(checks["ready"].0, "FAIL", "{checks:?}");
    assert!(checks["ready"].1.contains("database_unavailable"), "{checks:?}");

    postgres.start_again().expect("it starts");
    eventually("it is ready again", || async { client.ready().await.is_ok() }).await;
    let id = submit(&client, &probe(Probe::default())).await;
    assert_eq!(finished(&client, id).await.state, "succeeded");
    server.process.stop();
}

#[tokio::test]
async fn a_server_that_starts_first_waits_for_its_database() {
    let mut postgres = Settings::test().start().expect("a PostgreSQL of our own");
    let database = postgres.create_database("late").expect("a database");
    postgres.stop(Stop::Fast).expect("it stops");
    let cluster = Cluster { home: Home::new(), database };
    let waiting = std::thread::spawn(move || {
        let server = cluster.server(&[]);
        (cluster, server)
    });
    postgres.start_again().expect("it starts");
    let (_cluster, server) = waiting.join().expect("the server starts");
    server.client().ready().await.expect("it is ready");
}

#[tokio::test]
async fn tables_that_were_dropped_are_named() {
    let cluster = Cluster::new();
    let server = cluster.server(&[]);
    let client = server.client();
    let id = submit(&client, &probe(Probe::default())).await;
    let name = cluster.database.rsplit('/').next().and_then(|rest| rest.split('?').next()).expect("a name");
    punctual_local_postgres::shared()
        .execute_in(name, "DROP SCHEMA public CASCADE; CREATE SCHEMA public")
        .expect("the tables are dropped");
    let http = plain_http();
    let url = |path: &str| format!("{}{path}", server.url);
    let named = |path: &'static str, request: reqwest::RequestBuilder| async move {
        let answer = request.send().await.expect("an answer");
        let status = answer.status();
        let problem: serde_json::Value = answer.json().await.expect("a problem");
        let detail = problem["detail"].as_str().unwrap_or_default();
        assert_eq!(status, 503, "{path}: {problem}");
        assert!(detail.contains("the schema of the database is missing"), "{path}: {problem}");
        assert!(!problem.to_string().contains("defect"), "{path}: {problem}");
    };
    let body = json!({ "inline": { "run": { "probe": {} } } });
    named("POST /v1/jobs", http.post(url("/v1/jobs")).json(&body)).await;
    named("GET /v1/jobs", http.get(url(&format!("/v1/jobs/{id}")))).await;
    named("GET /readyz", http.get(url("/readyz"))).await;
}
