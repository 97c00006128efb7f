//! Clients that disconnect before their answer: what they submitted starts as soon as everything else.

use std::time::Duration;

use punctual_api::{Job, ListQuery};
use punctual_client::Client;
use punctual_core::Span;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::cluster::Cluster;
use crate::harness::{Home, Server, eventually};
use crate::raw::Request;

const JOBS: usize = 80;

/// Far above what a start takes on a busy machine, and far below the ten seconds after which the owner's sweep would find a job
/// that it was not told of.
const LATE: Span = Span::from_secs(3);

/// Sends whole requests, and hangs up on every second one shortly after.
async fn submit_and_leave(server: &Server) {
    for number in 0..JOBS {
        let body = format!(r#"{{"inline":{{"run":{{"probe":{{}}}}}},"tracing_id":"leaver-{number}"}}"#);
        let key = format!("leaver-{number}");
        let bytes = Request::new("POST", "/v1/jobs").header("Idempotency-Key", key.as_str()).json(body).into_bytes();
        let mut stream = TcpStream::connect(server.address()).await.expect("the server takes connections");
        stream.write_all(&bytes).await.expect("the request is sent");
        if number % 2 == 0 {
            let patience = Duration::from_micros(30 * (number as u64 % 40));
            let _ = tokio::time::timeout(patience, stream.read_to_end(&mut Vec::new())).await;
            stream.set_zero_linger().expect("a socket option");
        } else {
            stream.read_to_end(&mut Vec::new()).await.expect("an answer");
        }
    }
}

async fn jobs(client: &Client) -> Vec<Job> {
    let query = ListQuery { limit: Some("1000".to_owned()), ..ListQuery::default() };
    let list = client.jobs(&query).await.expect("a list");
    let mut jobs = Vec::new();
    for summary in list.jobs {
        jobs.push(client.job(summary.id).await.expect("it was listed"));
    }
    jobs
}

async fn leavers_are_served(server: &Server) {
    submit_and_leave(server).await;
    let client = server.client();
    eventually("all that was stored has run", || async {
        let jobs = jobs(&client).await;
        jobs.len() >= JOBS / 2 && jobs.iter().all(|job| job.state == "succeeded")
    })
    .await;
    let jobs = jobs(&client).await;
    let left = jobs.len().checked_sub(JOBS / 2).expect("every answered request has its job");
    assert!(left > 0, "no client left after its job was stored: the test shows nothing");
    for job in jobs {
        let started_at = job.attempts[0].started_at;
        let late_by = started_at.since(job.submitted_at);
        assert!(late_by < LATE, "{:?} started {late_by} late", job.tracing_id);
    }
}

#[tokio::test]
async fn a_job_whose_client_left_starts_at_once() {
    let home = Home::new();
    let server = home.server();
    let _worker = home.worker(&server, &[]);
    leavers_are_served(&server).await;
}

#[tokio::test]
async fn a_job_whose_client_left_starts_at_once_on_postgresql() {
    let cluster = Cluster::new();
    let server = cluster.server(&[]);
    let _worker = cluster.worker(&server);
    leavers_are_served(&server).await;
}
