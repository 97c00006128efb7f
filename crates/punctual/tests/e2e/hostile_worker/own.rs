//! Lies about attempts of its own.

use punctual_core::attempt::Details;
use punctual_proto::worker as wire;
use punctual_proto::{OUTPUT_BYTES_MAX, bounds};

use super::liar::{Assigned, Liar};
use super::{HOSTILE, Stage, on_both_stores};
use crate::cluster::finished;

/// What an attempt's log may hold.
const LOG_BYTES_MAX: usize = 1 << 20;

on_both_stores! {
    a_reason_of_megabytes_is_cut,
    details_of_megabytes_are_cut,
    an_output_is_json_within_its_limit,
    a_log_takes_no_more_than_its_limit,
    an_outcome_that_is_repeated_without_end_is_kept_once,
    the_token_of_an_attempt_speaks_for_it_under_another_id,
}

async fn given(stage: &Stage) -> (Liar, Assigned) {
    let mut liar = Liar::welcomed(&stage.server).await;
    stage.submit(HOSTILE, Default::default()).await;
    let own = liar.assigned().await;
    (liar, own)
}

async fn a_reason_of_megabytes_is_cut(stage: Stage) {
    let (liar, own) = given(&stage).await;
    liar.report(own.failed("\x1b[2J\0".to_owned() + &"é".repeat(1_500_000))).await;
    let job = finished(&stage.server.client(), own.job).await;
    assert_eq!(job.state, "failed");
    let reason = job.attempts[0].reason.as_deref().expect("it has a reason");
    assert!(reason.len() <= bounds::REASON_BYTES_MAX && reason.ends_with('…'), "{} bytes", reason.len());
    assert!(reason.starts_with("\x1b[2J\u{fffd}é"), "{reason}");
}

async fn details_of_megabytes_are_cut(stage: Stage) {
    let (liar, own) = given(&stage).await;
    let long = || Some("\0".to_owned() + &"x".repeat(500_000));
    let details = wire::Details {
        exit_code: Some(i32::MIN),
        signal: Some(i32::MAX),
        limit: long(),
        peak_memory_bytes: Some(u64::MAX),
        cpu_us: Some(u64::MAX),
        sandbox: long(),
        host: long(),
    };
    liar.report(wire::Outcome { details: Some(Box::new(details)), ..own.failed("no".to_owned()) }).await;
    let job = finished(&stage.server.client(), own.job).await;
    let details = job.attempts[0].details.as_ref().expect("it has details");
    for text in [&details.limit, &details.sandbox, &details.host] {
        let text = text.as_deref().expect("it was said");
        assert!(text.len() <= Details::TEXT_MAX && text.starts_with("\u{fffd}x"), "{text}");
    }
}

async fn an_output_is_json_within_its_limit(stage: Stage) {
    let mut liar = Liar::welcomed(&stage.server).await;
    let deep = "[".repeat(1000) + &"]".repeat(1000);
    let deep_as_text = format!("\"{deep}\"");
    for (output, expected) in [
        (&b"{\"a\":1}"[..], Some("{\"a\":1}")),
        (b"no JSON", Some("\"no JSON\"")),
        (deep.as_bytes(), Some(deep_as_text.as_str())),
        (b"{\"a\":\xff", Some("\"{\\\"a\\\":\u{fffd}\"")),
        (&vec![b'1'; OUTPUT_BYTES_MAX + 1], None),
        (&vec![b'x'; 3 << 20], None),
        (&vec![0; OUTPUT_BYTES_MAX], None),
    ] {
        stage.submit(HOSTILE, Default::default()).await;
        let own = liar.assigned().await;
        liar.report(own.succeeded(Some(bytes::Bytes::copy_from_slice(output)))).await;
        let job = finished(&stage.server.client(), own.job).await;
        assert_eq!(job.output.as_ref().map(|output| output.get()), expected, "{} bytes", output.len());
        assert_eq!(job.state, if expected.is_some() { "succeeded" } else { "failed" }, "{} bytes", output.len());
    }
}

async fn a_log_takes_no_more_than_its_limit(stage: Stage) {
    let (mut liar, own) = given(&stage).await;
    liar.print(vec![own.printed(0, vec![b'a'; LOG_BYTES_MAX - 2])]).await;
    // Again from other places, beyond the end, and where no log is.
    for offset in [1, 2, 3, 500_000] {
        liar.print(vec![own.printed(offset, vec![b'b'; LOG_BYTES_MAX - 2 - offset as usize])]).await;
    }
    let last = LOG_BYTES_MAX as u64 - 2;
    liar.print(vec![own.printed(last, "cdef"), own.printed(last, "gh")]).await;
    liar.print([LOG_BYTES_MAX as u64, u64::MAX].map(|offset| own.printed(offset, "ij")).into()).await;
    liar.report(own.succeeded(None)).await;
    liar.acknowledged(own.job).await;
    liar.print(vec![own.printed(0, vec![b'k'; LOG_BYTES_MAX])]).await;
    let log = stage.log(own.job).await;
    assert_eq!(log.len(), LOG_BYTES_MAX);
    assert!(log.ends_with("acd") && log.bytes().filter(|byte| *byte == b'a').count() == LOG_BYTES_MAX - 2);
}

async fn an_outcome_that_is_repeated_without_end_is_kept_once(stage: Stage) {
    let (mut liar, own) = given(&stage).await;
    liar.report(own.succeeded(Some("1".into()))).await;
    liar.acknowledged(own.job).await;
    for _ in 0..200 {
        liar.report(own.failed("x".repeat(10_000))).await;
        liar.acknowledged(own.job).await;
    }
    let job = finished(&stage.server.client(), own.job).await;
    assert_eq!((job.state.as_str(), job.attempts.len(), job.late_outcomes.len()), ("succeeded", 1, 1), "{job:#?}");
    assert!(job.late_outcomes[0].outcome.len() <= bounds::REASON_BYTES_MAX + 16);
}

/// As an outcome in the spool is delivered by the next run of its worker.
async fn the_token_of_an_attempt_speaks_for_it_under_another_id(stage: Stage) {
    let (liar, own) = given(&stage).await;
    drop(liar);
    let mut next = Liar::welcomed(&stage.server).await;
    next.print(vec![own.printed(0, "printed before\n")]).await;
    next.report(own.succeeded(Some("7".into()))).await;
    next.acknowledged(own.job).await;
    let job = finished(&stage.server.client(), own.job).await;
    assert_eq!((job.state.as_str(), job.attempts.len()), ("succeeded", 1), "{job:#?}");
    assert_eq!(stage.log(own.job).await, "printed before\n");
}
