//! More workers than a server takes.

use std::fs::File;

use crate::harness::{Home, eventually};

#[tokio::test]
async fn a_worker_that_finds_no_place_says_why_and_takes_the_next_one() {
    let home = Home::new();
    let server = home.server_with("127.0.0.1:0", &[], &[("PUNCTUAL_GRPC_STREAMS_MAX", "1")]);
    let first = home.worker_with_spool(&server, "first", &[]);
    let client = server.client();
    eventually("the first connects", || async { client.stats().await.is_ok_and(|stats| stats.workers == 1) }).await;
    let log = File::create(home.file("second.log")).expect("a file for its log");
    let _second = home.worker_logging(&server, "second", &[], &[], log);
    let said = || std::fs::read_to_string(home.file("second.log")).expect("its log can be read");
    let refusal = "too many streams of workers (limit 1, the server's grpc_streams_max). Retrying";
    eventually("the second says why it has no place", || async { said().contains(refusal) }).await;
    client.live().await.expect("others are served");
    first.stop();
    eventually("the second takes the place", || async { said().contains(" connected ") }).await;
    eventually("it works", || async { client.stats().await.is_ok_and(|stats| stats.workers == 1) }).await;
}
