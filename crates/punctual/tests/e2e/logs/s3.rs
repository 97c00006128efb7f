//! Storage that is away: what needs it waits and says so, everything else goes on, and nothing is lost.

use std::time::{Duration, Instant};

use punctual_api::ErrorKind;
use punctual_client::Logs;
use punctual_core::JobId;
use punctual_local_s3::{BUCKET, KEY_ID, LocalS3, SECRET};

use super::{log, path, printed, printing, punctual, submit, text};
use crate::binaries::compile_c;
use crate::harness::{Home, Process, Server, eventually};

#[test]
fn child_that_serves_s3() {
    punctual_local_s3::serve_if_asked();
}

struct World {
    s3: LocalS3,
    home: Home,
    server: Server,
    _worker: Process,
}

fn world() -> World {
    let s3 = LocalS3::start("logs::s3::child_that_serves_s3");
    let (storage, endpoint) = (format!("s3://{BUCKET}/files"), s3.endpoint());
    let variables = [
        ("PUNCTUAL_STORAGE", storage.as_str()),
        ("PUNCTUAL_STORAGE_ENDPOINT", &endpoint),
        ("AWS_ACCESS_KEY_ID", KEY_ID),
        ("PUNCTUAL_STORAGE_SECRET", SECRET),
    ];
    let home = Home::new();
    let server = home.server_with("127.0.0.1:0", &[], &variables);
    let worker = home.worker(&server, &[]);
    World { s3, home, server, _worker: worker }
}

impl World {
    async fn state(&self, id: JobId) -> String {
        self.server.client().job(id).await.expect("the job can be read").state
    }

    async fn succeeded(&self, id: JobId) {
        eventually("the job succeeds", || async { self.state(id).await == "succeeded" }).await;
    }

    /// The object that history names.
    fn object(&self, path: &str) -> Option<String> {
        let key = path.strip_prefix(&format!("s3://{BUCKET}/")).expect("it is in the bucket");
        std::fs::read_to_string(self.s3.bucket_folder().join(key)).ok()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_ends_in_s3_with_its_path_in_history() {
    let world = world();
    let program = compile_c(&world.home, "printing", &printing(50, 0));
    let id = submit(&world.home, &world.server, &program, &[]);
    world.succeeded(id).await;
    assert_eq!(log(&world.server, id, None).await, printed(50));
    eventually("it is archived", || async { path(&world.server, id, 1).await.is_some() }).await;
    let path = path(&world.server, id, 1).await.expect("it is archived");
    assert!(path.starts_with(&format!("s3://{BUCKET}/files/logs/")) && !path.contains('?'), "{path}");
    assert_eq!(world.object(&path), Some(printed(50)));
    assert_eq!(log(&world.server, id, None).await, printed(50));
    let part = punctual(&world.home, &world.server, &["logs", &id.to_string(), "--range", "5-13"]);
    assert_eq!(text(&part.stdout), printed(50)[5..=13]);
}

#[tokio::test(flavor = "multi_thread")]
async fn while_s3_is_away_jobs_wait_or_go_on_and_their_logs_are_complete() {
    let mut world = world();
    let kept = compile_c(&world.home, "kept", &printing(20, 0));
    let unseen = compile_c(&world.home, "unseen", &printing(30, 0));
    let first = submit(&world.home, &world.server, &kept, &["--retries", "0"]);
    world.succeeded(first).await;
    // Uploaded, and on no worker yet: its first job is far away.
    let far = submit(&world.home, &world.server, &unseen, &["--retries", "0", "--in", "1h"]);
    eventually("its file has arrived", || async {
        let list = punctual(&world.home, &world.server, &["artifact", "list"]);
        !text(&list.stdout).contains("pending")
    })
    .await;
    eventually("the first log is archived", || async { path(&world.server, first, 1).await.is_some() }).await;
    world.s3.kill();

    // What is there cannot be read, and the answer says so.
    let error = world.server.client().logs(first, Logs::default()).await.expect_err("S3 is away");
    assert_eq!(error.kind(), Some(ErrorKind::Unavailable), "{error}");
    assert!(error.to_string().contains("the storage is not available"), "{error}");

    // What the worker has, it runs; what it prints is there.
    let begun = Instant::now();
    let meanwhile = submit(&world.home, &world.server, &kept, &["--retries", "0"]);
    world.succeeded(meanwhile).await;
    assert!(begun.elapsed() < Duration::from_secs(20), "no job is held up by it");
    assert_eq!(log(&world.server, meanwhile, None).await, printed(20));

    // What it has not, waits, and everybody can see why.
    let started = punctual(&world.home, &world.server, &["job", "run-now", &far.to_string()]);
    assert!(started.status.success(), "{}", text(&started.stderr));
    eventually("the reason is seen", || async {
        let job = world.server.client().job(far).await.expect("the job can be read");
        job.state == "scheduled" && job.explanation.contains("cannot fetch the program")
    })
    .await;
    let shown = text(&punctual(&world.home, &world.server, &["job", "get", &far.to_string()]).stdout);
    assert!(shown.contains("cannot fetch the program"), "{shown}");

    // New files are refused with a reason.
    let new = compile_c(&world.home, "new", &printing(1, 0));
    let pushed = punctual(&world.home, &world.server, &["artifact", "create", new.to_str().expect("UTF-8")]);
    let told = text(&pushed.stderr);
    assert_eq!(pushed.status.code(), Some(7), "{told}");
    assert!(told.contains("the storage is not available"), "{told}");

    // Nothing is archived without the storage, and the log can be read all the same.
    assert_eq!(path(&world.server, meanwhile, 1).await, None);
    assert_eq!(log(&world.server, meanwhile, None).await, printed(20));

    world.s3.start_again();
    world.succeeded(far).await;
    let job = world.server.client().job(far).await.expect("the job");
    let ends: Vec<&str> = job.attempts.iter().map(|attempt| attempt.state.as_str()).collect();
    assert_eq!(ends.last(), Some(&"succeeded"));
    assert!(ends.len() > 1 && ends[..ends.len() - 1].iter().all(|end| *end == "not_started"), "{ends:?}");
    assert_eq!(log(&world.server, far, None).await, printed(30));
    let last = job.attempts.len() as u32;
    for (id, attempt, lines) in [(first, 1, 20), (meanwhile, 1, 20), (far, last, 30)] {
        eventually("it is archived", || async { path(&world.server, id, attempt).await.is_some() }).await;
        let path = path(&world.server, id, attempt).await.expect("it is archived");
        assert_eq!(world.object(&path), Some(printed(lines)), "{path}");
        assert_eq!(log(&world.server, id, None).await, printed(lines));
    }
}
