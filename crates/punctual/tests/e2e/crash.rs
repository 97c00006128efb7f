//! SIGKILL of the server and of the worker while thousands of jobs are in flight.
//!
//! A witness inside the executed task appends a line to a file when it begins and
//! when it ends; it shares nothing with the scheduler, and what it says is what
//! happened.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use punctual_api::{BulkRequest, Job, JobRequest, ListQuery};
use punctual_client::Client;
use punctual_core::task::{Probe, Run, TaskSpec};
use punctual_core::{JobId, Span};

use crate::harness::{Home, eventually};

fn witnessed(witness: &Path, sleep: Span) -> JobRequest {
    let witness = Some(witness.to_str().expect("the path is UTF-8").to_owned());
    let spec = TaskSpec::new(Run::Probe(Probe { sleep, witness, ..Probe::default() }));
    JobRequest { inline: Some(spec), ..JobRequest::default() }
}

/// How often each attempt began, by job.
fn begins(witness: &Path) -> HashMap<JobId, Vec<u32>> {
    let mut begins: HashMap<JobId, Vec<u32>> = HashMap::new();
    for line in std::fs::read_to_string(witness).unwrap_or_default().lines() {
        let mut words = line.split_whitespace();
        let (Some(id), Some(attempt), Some("begin")) = (words.next(), words.next(), words.next()) else { continue };
        begins.entry(id.parse().expect("a job id")).or_default().push(attempt.parse().expect("a number"));
    }
    begins
}

async fn submit(client: &Client, job: &JobRequest, count: usize) -> Vec<JobId> {
    let jobs = BulkRequest { jobs: vec![job.clone(); count] };
    client.submit_bulk(&jobs).await.expect("the jobs are accepted").ids
}

async fn finished(client: &Client, id: JobId) -> Job {
    client.job(id).await.expect("the job is there")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_loses_nothing_and_repeats_nothing() {
    const JOBS: usize = 10_000;
    let home = Home::new();
    let witness = home.file("witness");
    let server = home.server();
    let address = server.address();
    let _worker = home.worker(&server, &["--slots", "2000"]);
    let ids = submit(&server.client(), &witnessed(&witness, Span::from_millis(300)), JOBS).await;
    eventually("attempts run", || async { begins(&witness).len() > 3000 }).await;
    server.kill();

    let server = home.server_at(&address, &[]);
    let client = server.client();
    eventually("every job has begun", || async { begins(&witness).len() == JOBS }).await;
    eventually("every job has ended", || async {
        let stats = client.stats().await.expect("the server answers");
        stats.running == 0 && stats.ready == 0
    })
    .await;
    let begins = begins(&witness);
    let repeated: Vec<_> = begins.iter().filter(|(_, attempts)| attempts.len() > 1).take(5).collect();
    assert!(repeated.is_empty(), "attempts of a living worker are adopted, not repeated: {repeated:?}");
    let mut counted = 0;
    let mut cursor = None;
    loop {
        let query =
            ListQuery { state: Some("succeeded".into()), limit: Some("1000".into()), cursor, ..ListQuery::default() };
        let page = client.jobs(&query).await.expect("the list is answered");
        counted += page.jobs.len();
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(counted, JOBS, "every acknowledged job has succeeded, once");
    assert_eq!(finished(&client, ids[0]).await.state, "succeeded");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_stopped_under_load_ends_soon_and_repeats_nothing() {
    const JOBS: usize = 10_000;
    let home = Home::new();
    let witness = home.file("witness");
    let server = home.server();
    let address = server.address();
    // At 200 slots and 100 ms a job, the rest of the load takes seconds.
    let _worker = home.worker(&server, &["--slots", "200"]);
    submit(&server.client(), &witnessed(&witness, Span::from_millis(100)), JOBS).await;
    eventually("attempts run", || async { begins(&witness).len() > 500 }).await;
    server.process.stop();
    let before = begins(&witness).len();
    assert!(before < JOBS / 2, "it stopped without working off the load: {before} had begun");

    let server = home.server_at(&address, &[]);
    let client = server.client();
    eventually("every job has begun", || async { begins(&witness).len() == JOBS }).await;
    eventually("every job has ended", || async {
        let stats = client.stats().await.expect("the server answers");
        stats.running == 0 && stats.ready == 0
    })
    .await;
    assert!(begins(&witness).values().all(|attempts| attempts.len() == 1), "nothing ran twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_jobs_of_a_killed_worker_are_retried_after_twenty_seconds_of_silence() {
    const JOBS: usize = 200;
    let home = Home::new();
    let witness = home.file("witness");
    let server = home.server();
    let client = server.client();
    let worker = home.worker(&server, &["--slots", "1000"]);
    let ids = submit(&client, &witnessed(&witness, Span::from_secs(3600)), JOBS).await;
    eventually("all of them run", || async { begins(&witness).len() == JOBS }).await;
    worker.kill();

    // The next worker has another spool: it knows nothing of the first.
    let _worker = home.worker_with_spool(&server, "another-spool", &["--slots", "1000"]);
    eventually("all of them run again", || async {
        begins(&witness).values().filter(|attempts| attempts.len() == 2).count() == JOBS
    })
    .await;
    for attempts in begins(&witness).values() {
        assert_eq!(attempts, &[1, 2]);
    }
    let job = finished(&client, ids[0]).await;
    let first = &job.attempts[0];
    assert_eq!((first.state.as_str(), job.state.as_str()), ("worker_lost", "running"));
    let silent = first.finished_at.expect("it ended").since(first.started_at);
    // Counted from when it was last heard of, which is up to a heartbeat before the start.
    let expected = Span::from_secs(15)..Span::from_secs(25);
    assert!(expected.contains(&silent), "it was given up after {silent}");
    assert!(first.reason.as_deref().is_some_and(|reason| reason.contains("silent")), "{:?}", first.reason);
    let answer = client.cancel(ids[0]).await.expect("a running job can be asked to end");
    assert!(answer.pending);
    client.wait_finished(ids[0], Some(Duration::from_secs(20))).await.expect("it ends");
    assert_eq!(finished(&client, ids[0]).await.state, "cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn outcomes_reported_while_no_server_is_there_survive_in_the_spool() {
    let home = Home::new();
    let witness = home.file("witness");
    let server = home.server();
    let address = server.address();
    let worker = home.worker(&server, &["--slots", "100"]);
    let ids = submit(&server.client(), &witnessed(&witness, Span::from_millis(1500)), 100).await;
    eventually("all of them run", || async { begins(&witness).len() == 100 }).await;
    server.kill();
    let ends = || std::fs::read_to_string(&witness).unwrap_or_default().matches(" end ").count();
    eventually("all of them have ended unheard", || async { ends() == 100 }).await;
    // An outcome of this kind takes 52 bytes with its token, length and checksum. With less, 97 would
    // be taken for all of them.
    eventually("the outcomes are on disk", || async { bytes_in(&home.file("spool")) >= 100 * 52 }).await;
    worker.kill();

    let server = home.server_at(&address, &[]);
    let _worker = home.worker(&server, &["--slots", "100"]);
    let client = server.client();
    for &id in &ids {
        client.wait_finished(id, Some(Duration::from_secs(30))).await.expect("it ends");
        let job = finished(&client, id).await;
        assert_eq!((job.state.as_str(), job.attempts.len()), ("succeeded", 1), "{:?}", job.attempts);
    }
    assert!(begins(&witness).values().all(|attempts| attempts == &[1]), "nothing ran twice");
}

fn bytes_in(dir: &Path) -> u64 {
    let files = std::fs::read_dir(dir).into_iter().flatten().flatten();
    files.filter_map(|file| file.metadata().ok()).map(|metadata| metadata.len()).sum()
}
