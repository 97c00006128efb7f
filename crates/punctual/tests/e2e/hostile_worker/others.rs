//! Lies about attempts of others.

use bytes::Bytes;
use punctual_core::{JobId, ShardId};
use punctual_proto::convert::{attempt_ref, id_bytes};
use punctual_proto::worker as wire;
use tonic::Code;

use super::liar::{Assigned, Liar, client, denied};
use super::{HOSTILE, Stage, on_both_stores};

on_both_stores! {
    an_outcome_of_anothers_attempt_changes_nothing,
    a_log_of_anothers_attempt_is_not_kept,
    a_hello_that_holds_anothers_attempt_changes_nothing,
}

/// The attempt as it stands in lists, with tokens that are none of its own.
async fn guesses(stage: &Stage, victim: JobId) -> Vec<Assigned> {
    let attempt = stage.job(victim).await.attempts[0].attempt;
    let own = own_token(stage).await;
    let tokens = [Bytes::new(), Bytes::from_static(&[0; 16]), own.clone(), own.slice(..1), vec![0; 1 << 20].into()];
    tokens.into_iter().map(|token| Assigned { job: victim, attempt, token }).collect()
}

/// That of an attempt which the liar was given.
async fn own_token(stage: &Stage) -> Bytes {
    let mut liar = Liar::welcomed(&stage.server).await;
    let job = stage.submit(HOSTILE, Default::default()).await;
    let own = liar.assigned().await;
    assert_eq!(own.job, job);
    liar.report(own.succeeded(None)).await;
    liar.acknowledged(job).await;
    own.token
}

async fn an_outcome_of_anothers_attempt_changes_nothing(stage: Stage) {
    let _worker = stage.worker().await;
    let victim = stage.victim().await;
    let guesses = guesses(&stage, victim).await;
    let mut liar = Liar::welcomed(&stage.server).await;
    for guess in guesses {
        liar.report(guess.succeeded(Some("\"mine\"".into()))).await;
        liar.acknowledged(victim).await;
        liar.report(guess.failed("mine".to_owned())).await;
        liar.acknowledged(victim).await;
    }
    // Of attempts that are to come, and of jobs that there are not.
    let next = Assigned { job: victim, attempt: 2, token: Bytes::new() };
    liar.report(next.succeeded(None)).await;
    liar.acknowledged(victim).await;
    for random in 0..20 {
        let invented = invented(random);
        liar.report(invented.failed("x".repeat(100_000))).await;
        liar.acknowledged(invented.job).await;
    }
    stage.is_untouched(victim).await;
}

fn invented(random: u64) -> Assigned {
    let job = JobId::new(punctual_core::Timestamp::EPOCH, ShardId(0), random);
    Assigned { job, attempt: 1, token: Bytes::new() }
}

async fn a_log_of_anothers_attempt_is_not_kept(stage: Stage) {
    let _worker = stage.worker().await;
    let victim = stage.victim().await;
    let guesses = guesses(&stage, victim).await;
    let mut liar = Liar::welcomed(&stage.server).await;
    let mut logs: Vec<_> = guesses.iter().map(|guess| guess.printed(0, "mine")).collect();
    logs.extend((0..20).map(|random| invented(random).printed(0, vec![b'x'; 100_000])));
    liar.print(logs).await;
    // Taken in order: when this is answered, the logs have been read.
    liar.report(guesses[0].succeeded(None)).await;
    liar.acknowledged(victim).await;
    assert_eq!(stage.log(victim).await, "");
    let client = stage.server.client();
    for random in 0..20 {
        let found = client.logs(invented(random).job, punctual_client::Logs::default()).await;
        assert!(found.is_err(), "there is no such job: {found:?}");
    }
    stage.is_untouched(victim).await;
}

async fn a_hello_that_holds_anothers_attempt_changes_nothing(stage: Stage) {
    let _worker = stage.worker().await;
    let victim = stage.victim().await;
    let mut liar = Liar::greeted(&stage.server, super::liar::new_secret()).await;
    let held = [1, 2, u32::MAX].map(|attempt| attempt_ref(victim, punctual_core::AttemptNo(attempt)));
    let hello = wire::Hello { held: held.into(), ..liar.hello() };
    liar.introduce(hello).await.expect("it may hold anything");
    let job = stage.submit(HOSTILE, Default::default()).await;
    assert_eq!(liar.assigned().await.job, job, "it goes on");
    stage.is_untouched(victim).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_gets_the_file_of_anothers_attempt() {
    let stage = Stage::embedded();
    let _worker = stage.worker().await;
    let victim = stage.victim().await;
    let worker = stage.job(victim).await.attempts[0].worker.expect("the worker is known");
    for guess in guesses(&stage, victim).await {
        let artifact_id = id_bytes(punctual_core::ArtifactId::new(punctual_core::Timestamp::EPOCH, 1).to_bytes());
        let (worker_id, job_id) = (id_bytes(worker.to_bytes()), id_bytes(victim.to_bytes()));
        let Assigned { attempt, token, .. } = guess;
        let request = wire::DownloadRequest {
            worker_id: worker_id.clone(),
            job_id: job_id.clone(),
            attempt,
            artifact_id: artifact_id.clone(),
            token: token.clone(),
        };
        denied(client(&stage.server).await.download(request).await, Code::PermissionDenied);
        let (host_id, pod) = ("host".to_owned(), "pod".to_owned());
        let request = wire::AdmitRequest { worker_id, job_id, attempt, artifact_id, host_id, pod, token };
        denied(client(&stage.server).await.admit(request).await, Code::PermissionDenied);
    }
    stage.is_untouched(victim).await;
}
