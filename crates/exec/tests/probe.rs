//! The probe's witness, which others hold the system's history against.

use std::os::unix::process::ExitStatusExt;
use std::sync::Arc;

use punctual_core::attempt::{AttemptNo, Last, Outcome, Ran};
use punctual_core::task::{Probe, Run};
use punctual_core::{JobId, NamespaceId, ShardId, Span, Timestamp};
use punctual_exec::{Call, Cancel, Executor, LogOutlet, LogSink, Prober};

struct Silent;

impl LogOutlet for Silent {
    fn ready(&self, _: LogSink) {}
}

fn call(probe: Probe) -> Call {
    let job = JobId::new(Timestamp::EPOCH, ShardId(0), 1);
    Call {
        job,
        attempt: AttemptNo(2),
        namespace: NamespaceId::DEFAULT,
        task: "".into(),
        run: Arc::new(Run::Probe(probe)),
        input: None,
        tracing_id: None,
        scheduled_run: None,
        log: LogSink::new(job, AttemptNo(2), 1 << 20, Arc::new(Silent)),
        cancel: Cancel::default(),
        deadline: None,
    }
}

fn witnessed(path: &std::path::Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines()
        .map(|line| {
            let words: Vec<_> = line.split(' ').collect();
            assert_eq!(words.len(), 4, "{line}");
            words[0].parse::<JobId>().unwrap();
            words[3].parse::<u64>().unwrap();
            format!("{} {}", words[1], words[2])
        })
        .collect()
}

#[tokio::test]
async fn the_witness_sees_the_begin_and_the_end_of_every_attempt() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("witness");
    let witness = Some(path.to_str().unwrap().to_owned());
    let quick = Probe { witness: witness.clone(), ..Probe::default() };
    Arc::new(Prober::with_effects()).execute(call(quick)).await;

    // An attempt that is dropped has ended too: its code runs no more.
    let slow = Probe { witness, sleep: Span::from_secs(3600), ..Probe::default() };
    let mut dropped = Arc::new(Prober::with_effects()).execute(call(slow));
    let waker = std::task::Waker::noop();
    assert!(dropped.as_mut().poll(&mut std::task::Context::from_waker(waker)).is_pending());
    assert_eq!(witnessed(&path), ["2 begin", "2 end", "2 begin"]);
    drop(dropped);
    assert_eq!(witnessed(&path), ["2 begin", "2 end", "2 begin", "2 end"]);
}

#[tokio::test]
async fn a_probe_without_a_place_for_its_witness_does_not_run() {
    let probe = Probe { witness: Some("/no/such/folder/witness".into()), ..Probe::default() };
    let Outcome::Failed(failure) = Arc::new(Prober::with_effects()).execute(call(probe)).await.outcome else {
        panic!()
    };
    assert_eq!(failure.ran, Ran::No);
}

#[tokio::test]
async fn a_harmless_prober_refuses_what_reaches_beyond_the_job() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("witness");
    let witness = Some(path.to_str().unwrap().to_owned());
    for probe in [Probe { witness, ..Probe::default() }, Probe { crash: true, ..Probe::default() }] {
        let outcome = Arc::new(Prober::harmless()).execute(call(probe)).await.outcome;
        let Outcome::Failed(failure) = outcome else { panic!("{outcome:?}") };
        assert_eq!((failure.last, failure.ran), (Last::Yes, Ran::No));
        assert_eq!(
            failure.reason,
            "this worker runs probes without effects; start it with --probe-effects to allow witness and crash"
        );
    }
    assert!(!path.exists());
    let outcome = Arc::new(Prober::harmless()).execute(call(Probe::default())).await.outcome;
    assert_eq!(outcome, Outcome::Succeeded { output: None });
}

const CRASH_WITNESS: &str = "PUNCTUAL_TEST_CRASH_WITNESS";

/// Runs itself once more, as the process that the probe kills.
#[tokio::test]
async fn a_crash_takes_the_whole_process_and_leaves_a_begin_alone() {
    if let Ok(witness) = std::env::var(CRASH_WITNESS) {
        let probe = Probe { witness: Some(witness), crash: true, ..Probe::default() };
        let outcome = Arc::new(Prober::with_effects()).execute(call(probe)).await.outcome;
        panic!("still alive: {outcome:?}");
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("witness");
    let test = "a_crash_takes_the_whole_process_and_leaves_a_begin_alone";
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test])
        .env(CRASH_WITNESS, &path)
        .output()
        .unwrap();
    assert_eq!(child.status.signal(), Some(9), "{child:?}");
    assert_eq!(witnessed(&path), ["2 begin"]);
}
