//! What servers and workers write to their logs: each fact once, with its ids.

use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use punctual_core::Span;
use punctual_core::task::Probe;
use punctual_local_postgres::{Settings, Stop};

use crate::checked::plain_http;
use crate::cluster::{Cluster, LEASE, balanced, finished, probe, sleeper, submit};
use crate::harness::{Home, Server, eventually};

fn log_file(home: &Home, name: &str) -> File {
    File::create(home.file(name)).expect("a file for the log")
}

fn lines(path: &Path, text: &str) -> Vec<String> {
    let log = std::fs::read_to_string(path).expect("the log can be read");
    log.lines().filter(|line| line.contains(text)).map(str::to_owned).collect()
}

async fn appears(path: &Path, text: &str) {
    eventually(text, || async { !lines(path, text).is_empty() }).await;
}

#[tokio::test]
async fn a_worker_logs_the_start_and_the_end_of_each_attempt() {
    let home = Home::new();
    let server = home.server();
    let log = home.file("worker.log");
    let _worker = home.worker_logging(&server, "spool", &[], &[], log_file(&home, "worker.log"));
    let client = server.client();
    let traced = |failing| {
        let mut request = probe(Probe { fail_times: failing, ..Probe::default() });
        request.tracing_id = Some("order-7".to_owned());
        request.inline.as_mut().expect("an inline task").retry.max = 0;
        request
    };
    for (failing, outcome) in [(0, "succeeded"), (1, "failed")] {
        let id = submit(&client, &traced(failing)).await;
        finished(&client, id).await;
        let of_job =
            |text| lines(&log, text).into_iter().filter(|line| line.contains(&id.to_string())).collect::<Vec<_>>();
        eventually("the end is logged", || async { !of_job("attempt ended").is_empty() }).await;
        let [started, ended] = [of_job("attempt started"), of_job("attempt ended")];
        assert_eq!([started.len(), ended.len()], [1, 1], "{started:?} {ended:?}");
        assert!(started[0].contains("attempt=1") && started[0].contains("kind=\"probe\""), "{started:?}");
        assert!(ended[0].contains(&format!("outcome=\"{outcome}\"")), "{ended:?}");
        for line in [&started[0], &ended[0]] {
            assert!(line.contains("INFO") && line.contains("tracing_id=\"order-7\""), "{line}");
        }
    }
}

#[tokio::test]
async fn a_worker_says_why_it_cannot_reach_a_server_and_what_to_do() {
    let home = Home::new();
    let server = home.server();
    let closed = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let flags = ["--server", &format!("http://{closed}")];
    let log = home.file("worker.log");
    let _worker = home.worker_logging(&server, "spool", &flags, &[], log_file(&home, "worker.log"));
    let said = format!(
        "cannot reach http://{closed}: nothing listens there; start a server with `punctual server`, or name another one \
         with --server. Retrying"
    );
    appears(&log, &said).await;
    let client = server.client();
    finished(&client, submit(&client, &probe(Probe::default())).await).await;
    let url = server.url.clone();
    server.kill();
    appears(&log, &format!("cannot reach {url}: nothing listens there")).await;
    for word in ["os error", "transport error", "tcp connect", "h2 protocol"] {
        assert_eq!(lines(&log, word), [""; 0]);
    }
}

#[tokio::test]
async fn a_burst_of_attempts_is_counted_unless_all_are_asked_for() {
    let home = Home::new();
    let server = home.server();
    let client = server.client();
    for (mode, all) in [("limited", false), ("all", true)] {
        let name = format!("{mode}.log");
        let flags = ["--log-attempts", mode];
        let worker = home.worker_logging(&server, mode, &flags, &[], log_file(&home, &name));
        let jobs = punctual_api::BulkRequest { jobs: vec![probe(Probe::default()); 1000] };
        let ids = client.submit_bulk(&jobs).await.expect("they are accepted").ids;
        for id in ids {
            finished(&client, id).await;
        }
        worker.stop();
        let log = home.file(&name);
        let written = lines(&log, "attempt started").len();
        if all {
            assert_eq!(written, 1000);
        } else {
            assert!(written < 1000, "{written}");
            let counts = lines(&log, "attempts beyond");
            let counted = |line: &String| {
                let count =
                    line.split("started=").nth(1).and_then(|rest| rest.split(' ').next()?.parse::<usize>().ok());
                count.expect("a count")
            };
            assert_eq!(written + counts.iter().map(counted).sum::<usize>(), 1000, "{counts:?}");
        }
    }
}

#[tokio::test]
async fn a_dead_server_the_takeover_and_a_dead_worker_are_logged() {
    let cluster = Cluster::new();
    let start = |log: &str| {
        let variables = [("PUNCTUAL_DATABASE", cluster.database.as_str())];
        let flags = ["--lease-ttl", LEASE, "--worker-dead-after", "2s", "--heartbeat", "500ms"];
        cluster.home.server_logging("127.0.0.1:0", &flags, &variables, log_file(&cluster.home, log))
    };
    let (first, second): (Server, Server) = (start("first.log"), start("second.log"));
    let client = second.client();
    balanced(&client, 2).await;
    let log = cluster.home.file("second.log");
    let list = client.servers().await.expect("a list");
    let other = list.servers.iter().find(|server| !server.answered).expect("the other server").id.to_string();

    first.kill();
    appears(&log, "took over shards: their lease expired").await;
    appears(&log, "a server stopped responding").await;
    for text in ["took over shards: their lease expired", "a server stopped responding"] {
        let found = lines(&log, text);
        assert!(found[0].contains(&other) && found[0].contains("WARN"), "{found:?}");
    }

    balanced(&client, 1).await;
    let worker = cluster.worker(&second);
    let id = submit(&client, &sleeper(Span::from_secs(60))).await;
    eventually("it runs", || async { client.job(id).await.is_ok_and(|job| job.state == "running") }).await;
    worker.kill();
    appears(&log, "a worker is lost").await;
    let found = lines(&log, "a worker is lost");
    assert!(found[0].contains("attempts=1") && found[0].contains("worker_"), "{found:?}");
}

#[tokio::test]
async fn an_outage_of_the_database_fills_no_log_and_failed_requests_are_found_by_their_id() {
    // Of a PostgreSQL that may lose commits, a server warns at once.
    let mut postgres = Settings::durable().start().expect("a PostgreSQL of our own");
    let database = postgres.create_database("outage").expect("a database");
    let home = Home::new();
    let variables = [("PUNCTUAL_DATABASE", database.as_str())];
    let server = home.server_logging("127.0.0.1:0", &["--lease-ttl", LEASE], &variables, log_file(&home, "server.log"));
    let log = home.file("server.log");
    assert_eq!(lines(&log, "WARN"), Vec::<String>::new(), "nothing is wrong on a first start");

    postgres.stop(Stop::Fast).expect("it stops");
    let http = plain_http();
    let away_for = Instant::now() + Duration::from_secs(3);
    let mut request_ids = Vec::new();
    while Instant::now() < away_for {
        let answer = http.get(format!("{}/v1/jobs", server.url)).send().await.expect("an answer");
        assert_eq!(answer.status(), 503);
        let id = answer.headers()["x-request-id"].to_str().expect("an id").to_owned();
        request_ids.push(id);
    }
    postgres.start_again().expect("it starts");
    let client = server.client();
    eventually("it is ready again", || async { client.ready().await.is_ok() }).await;

    assert!(request_ids.len() > 10, "{request_ids:?}");
    let failed = lines(&log, "a request failed");
    assert!(failed[0].contains(&request_ids[0]) && failed[0].contains("cause="), "{failed:?}");
    assert!(failed.len() <= 3, "{failed:?}");
    let written = std::fs::read_to_string(&log).expect("the log can be read");
    assert!(written.lines().count() < 40, "{written}");
}
