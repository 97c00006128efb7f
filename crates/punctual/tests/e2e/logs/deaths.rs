//! SIGKILL of the server and of the worker, and a database that is away, while a program prints.

use std::time::Duration;

use punctual_local_postgres::{Settings, Stop};

use super::{log, path, printed, printing, punctual, submit, text};
use crate::binaries::compile_c;
use crate::cluster::Cluster;
use crate::harness::{Home, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_while_a_program_prints_loses_and_repeats_not_one_byte() {
    const LINES: u32 = 4000;
    let home = Home::new();
    let mut server = home.server();
    let address = server.address();
    let _worker = home.worker(&server, &[]);
    let program = compile_c(&home, "printing", &printing(LINES, 2000));
    let id = submit(&home, &server, &program, &["--retries", "0"]);
    for seen in [500, 2000] {
        let wanted = printed(seen);
        eventually("the program prints", || async { log(&server, id, None).await.len() >= wanted.len() }).await;
        server.kill();
        // It prints on, and nobody hears it.
        tokio::time::sleep(Duration::from_millis(700)).await;
        server = home.server_at(&address, &[]);
    }
    eventually("the job has ended", || async {
        server.client().job(id).await.is_ok_and(|job| job.state == "succeeded")
    })
    .await;
    let job = server.client().job(id).await.expect("the job");
    assert_eq!(job.attempts.len(), 1, "the same attempt all the way");
    assert_eq!(log(&server, id, None).await, printed(LINES));
    eventually("it is archived", || async { path(&server, id, 1).await.is_some() }).await;
    assert_eq!(log(&server, id, None).await, printed(LINES));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_program_printed_survives_its_worker_up_to_the_last_chunk() {
    let home = Home::new();
    let server = home.server();
    let worker = home.worker(&server, &[]);
    let program = compile_c(&home, "printing", &printing(1_000_000, 5000));
    let id = submit(&home, &server, &program, &[]);
    // The latest attempt, because the first may not have begun.
    eventually("the program prints", || async { log(&server, id, None).await.lines().count() > 200 }).await;
    let seen = log(&server, id, Some(1)).await;
    worker.kill();
    eventually("the attempt is given up", || async {
        server.client().job(id).await.is_ok_and(|job| job.attempts.iter().any(|found| found.state == "worker_lost"))
    })
    .await;
    let left = log(&server, id, Some(1)).await;
    assert!(left.starts_with(&seen) && printed(1_000_000).starts_with(&left), "{} then {}", seen.len(), left.len());
    // Its job waits for another worker, and its log is archived all the same.
    eventually("it is archived", || async { path(&server, id, 1).await.is_some() }).await;
    assert_eq!(log(&server, id, Some(1)).await, left);
    let shown = punctual(&home, &server, &["job", "get", &id.to_string()]);
    assert!(text(&shown.stdout).contains("log logs/"), "{}", text(&shown.stdout));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_away_while_a_program_prints_costs_not_one_byte() {
    const LINES: u32 = 3000;
    let mut postgres = Settings::test().start().expect("a PostgreSQL of our own");
    let database = postgres.create_database("printing").expect("a database");
    let cluster = Cluster { home: Home::new(), database };
    // With leases that outlive it.
    let variables = [("PUNCTUAL_DATABASE", cluster.database.as_str())];
    let server = cluster.home.server_with("127.0.0.1:0", &["--lease-ttl", "30s"], &variables);
    let _worker = cluster.worker(&server);
    let program = compile_c(&cluster.home, "printing", &printing(LINES, 3000));
    let id = submit(&cluster.home, &server, &program, &["--retries", "0"]);
    let wanted = printed(500).len();
    eventually("the program prints", || async { log(&server, id, None).await.len() >= wanted }).await;
    postgres.stop(Stop::Fast).expect("it stops");
    tokio::time::sleep(Duration::from_secs(2)).await;
    postgres.start_again().expect("it starts");
    eventually("the job has ended", || async {
        server.client().job(id).await.is_ok_and(|job| job.state == "succeeded")
    })
    .await;
    assert_eq!(log(&server, id, None).await, printed(LINES));
}
