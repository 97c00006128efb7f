use bytes::Bytes;
use punctual_core::attempt::{ArchivedLog, Ending};
use punctual_core::shard::write::{JobWrite, Rerun, ResolveLost, Write};
use punctual_core::{AttemptNo, JobKey, JobState};
use punctual_store::{Archived, Archiving, EndedLog, JobRecord, KeptLog, LogChunk, NewJob, Store};

use crate::fixture::*;

const LIMIT: usize = 1 << 20;

async fn print(store: &dyn Store, job: &NewJob, attempt: u32, offset: u64, content: &str) {
    let chunk = LogChunk { job: job.id, attempt: AttemptNo(attempt), offset, bytes: text(content), marks: text("") };
    store.append_logs(vec![chunk]).await.unwrap();
}

fn log(path: &str, bytes: u64) -> ArchivedLog {
    ArchivedLog { path: path.to_owned(), bytes }
}

fn archiving(job: &NewJob, attempt: u32, log: ArchivedLog, pieces: u64) -> Archiving {
    let (namespace, attempt) = (job.namespace, AttemptNo(attempt));
    Archiving { job: job.id, namespace, attempt, log, replaces: None, pieces }
}

async fn archive(store: &dyn Store, log: Archiving) -> Archived {
    store.archive_logs(vec![log]).await.unwrap()[0]
}

async fn pieces_end(store: &dyn Store, job: &NewJob, attempt: u32) -> u64 {
    store.log_end(job.id, AttemptNo(attempt)).await.unwrap()
}

/// The archived log of each attempt, as a read of the job shows it.
async fn logs(store: &dyn Store, job: &NewJob) -> Vec<Option<ArchivedLog>> {
    match store.job(job.id).await.unwrap().unwrap() {
        JobRecord::Hot { attempts, .. } | JobRecord::Finished { attempts, .. } => {
            attempts.into_iter().map(|attempt| attempt.log.map(|log| *log)).collect()
        }
    }
}

/// A job whose first attempt failed and whose second succeeded.
async fn tried_twice(store: &dyn Store) -> (NewJob, Owner<'_>) {
    let job = new_job(1, 10, 0);
    let mut owner = owner_of(store, std::slice::from_ref(&job)).await;
    owner.done(vec![Write::Job(JobWrite::Requeue(retried(original(&job), 1, at(20))))]).await;
    owner.done(vec![succeed(JobKey { due_at: at(20), id: job.id }, 2)]).await;
    (job, owner)
}

pub(super) async fn attempts_with_pieces_are_found_in_order_with_what_history_knows(store: &dyn Store) {
    assert_eq!(store.kept_logs(None, 10).await.unwrap(), []);
    let (job, _owner) = tried_twice(store).await;
    let running = new_job(2, 30, 0);
    submit(store, vec![running.clone()]).await.unwrap();
    for n in 0..3 {
        print(store, &running, 1, n * 4, "more").await;
        print(store, &job, 2, n * 4, "text").await;
    }
    print(store, &job, 1, 0, "first").await;
    let ended = EndedLog { finished_at: at(102), archived: None };
    let kept = |job: &NewJob, attempt, ended| KeptLog { job: job.id, attempt: AttemptNo(attempt), ended };
    let all = [kept(&job, 1, Some(ended.clone())), kept(&job, 2, Some(ended)), kept(&running, 1, None)];
    assert_eq!(store.kept_logs(None, 10).await.unwrap(), all);
    assert_eq!(store.kept_logs(None, 2).await.unwrap(), all[..2]);
    assert_eq!(store.kept_logs(Some((job.id, AttemptNo(1))), 10).await.unwrap(), all[1..]);
    assert_eq!(store.kept_logs(Some((running.id, AttemptNo(1))), 10).await.unwrap(), []);
    assert_eq!(store.kept_logs(None, 0).await.unwrap(), []);
}

pub(super) async fn a_log_is_assembled_from_its_pieces_and_what_was_there(store: &dyn Store) {
    let job = new_job(1, 10, 0);
    let assembled = async |base: &'static str, limit| {
        let whole = store.assemble_log(job.id, AttemptNo(1), Bytes::from_static(base.as_bytes()), limit).await.unwrap();
        (String::from_utf8(whole.bytes.to_vec()).unwrap(), whole.pieces)
    };
    assert_eq!(assembled("", LIMIT).await, (String::new(), 0));
    assert_eq!(assembled("there", LIMIT).await, ("there".to_owned(), 0));
    // More than a store reads at once.
    for n in 0..150 {
        print(store, &job, 1, n * 2, "ab").await;
    }
    assert_eq!(assembled("", LIMIT).await, ("ab".repeat(150), 150));
    assert_eq!(assembled("AB", LIMIT).await, (format!("AB{}", "ab".repeat(149)), 150));
    assert_eq!(assembled("", 5).await, ("abab".to_owned(), 2));
    print(store, &job, 1, 302, "end").await;
    assert_eq!(assembled("", LIMIT).await, (format!("{}\0\0end", "ab".repeat(150)), 151));
}

pub(super) async fn an_archived_log_is_recorded_with_its_attempt_and_its_pieces_go(store: &dyn Store) {
    let (job, _owner) = tried_twice(store).await;
    for attempt in [1, 2] {
        print(store, &job, attempt, 0, "one ").await;
        print(store, &job, attempt, 4, "two").await;
    }
    assert_eq!(store.archived_log(job.id, AttemptNo(1)).await.unwrap(), None);
    assert_eq!(archive(store, archiving(&job, 1, log("logs/1", 7), 2)).await, Archived::Done);
    assert_eq!(logs(store, &job).await, [Some(log("logs/1", 7)), None]);
    assert_eq!((pieces_end(store, &job, 1).await, pieces_end(store, &job, 2).await), (0, 7));
    assert_eq!(archive(store, archiving(&job, 2, log("logs/2", 7), 2)).await, Archived::Done);
    assert_eq!(logs(store, &job).await, [Some(log("logs/1", 7)), Some(log("logs/2", 7))]);
    assert_eq!(store.archived_log(job.id, AttemptNo(2)).await.unwrap(), Some(log("logs/2", 7)));
    assert_eq!(store.archived_log(job.id, AttemptNo(3)).await.unwrap(), None);
    assert_eq!(store.kept_logs(None, 10).await.unwrap(), []);
    assert_eq!(store.dropped_logs(10).await.unwrap(), Vec::<String>::new());
}

pub(super) async fn a_log_that_changed_since_it_was_read_is_not_archived(store: &dyn Store) {
    let (job, _owner) = tried_twice(store).await;
    print(store, &job, 1, 0, "one ").await;
    print(store, &job, 1, 8, "more").await;
    // Somebody read it before the piece in the middle came.
    print(store, &job, 1, 4, "two ").await;
    assert_eq!(archive(store, archiving(&job, 1, log("logs/1", 12), 2)).await, Archived::Changed);
    assert_eq!(logs(store, &job).await, [None, None]);
    assert_eq!(pieces_end(store, &job, 1).await, 12);
    // What comes after its end stays, and is no reason to wait.
    print(store, &job, 1, 12, "late").await;
    assert_eq!(archive(store, archiving(&job, 1, log("logs/1", 12), 3)).await, Archived::Done);
    let late = store.read_log(job.id, AttemptNo(1), 12, 100).await.unwrap();
    assert_eq!((&late.bytes[..], late.next_offset), (&b"late"[..], 16));
    // Somebody who read it before that was done.
    assert_eq!(archive(store, archiving(&job, 1, log("logs/other", 12), 3)).await, Archived::Changed);
    assert_eq!(archive(store, archiving(&job, 1, log("logs/other", 16), 1)).await, Archived::Changed);
    assert_eq!(logs(store, &job).await[0], Some(log("logs/1", 12)));
}

pub(super) async fn a_log_of_a_running_or_unknown_attempt_is_not_archived(store: &dyn Store) {
    let (job, running) = (new_job(1, 10, 0), new_job(2, 10, 0));
    let mut owner = owner_of(store, &[job.clone(), running.clone()]).await;
    owner.done(vec![start(original(&running), 1), succeed(original(&job), 1)]).await;
    for (job, attempt) in [(&running, 1), (&job, 2), (&new_job(3, 10, 0), 1)] {
        print(store, job, attempt, 0, "text").await;
        assert_eq!(archive(store, archiving(job, attempt, log("logs/1", 4), 1)).await, Archived::Changed);
        assert_eq!(pieces_end(store, job, attempt).await, 4);
    }
}

pub(super) async fn a_log_that_grew_is_archived_again_and_the_old_object_is_dropped(store: &dyn Store) {
    let (job, _owner) = tried_twice(store).await;
    print(store, &job, 2, 0, "one ").await;
    assert_eq!(archive(store, archiving(&job, 2, log("logs/short", 4), 1)).await, Archived::Done);
    // A worker repeats what it said.
    print(store, &job, 2, 0, "one ").await;
    let kept = store.kept_logs(None, 10).await.unwrap();
    assert_eq!(kept[0].ended.as_ref().unwrap().archived, Some(log("logs/short", 4)));
    let repeated = Archiving { replaces: Some("logs/short".to_owned()), ..archiving(&job, 2, log("logs/short", 4), 1) };
    assert_eq!(archive(store, repeated).await, Archived::Done);
    assert_eq!((store.dropped_logs(10).await.unwrap(), pieces_end(store, &job, 2).await), (vec![], 0));
    print(store, &job, 2, 4, "two").await;
    let grown = Archiving { replaces: Some("logs/short".to_owned()), ..archiving(&job, 2, log("logs/long", 7), 1) };
    assert_eq!(archive(store, grown).await, Archived::Done);
    assert_eq!(logs(store, &job).await, [None, Some(log("logs/long", 7))]);
    assert_eq!(store.dropped_logs(10).await.unwrap(), ["logs/short"]);
    store.forget_dropped_logs(vec!["logs/short".to_owned(), "logs/unknown".to_owned()]).await.unwrap();
    assert_eq!(store.dropped_logs(10).await.unwrap(), Vec::<String>::new());
}

pub(super) async fn logs_are_archived_each_for_itself(store: &dyn Store) {
    let (job, _owner) = tried_twice(store).await;
    print(store, &job, 1, 0, "one").await;
    print(store, &job, 2, 0, "two").await;
    let both = vec![archiving(&job, 1, log("logs/1", 3), 9), archiving(&job, 2, log("logs/2", 3), 1)];
    assert_eq!(store.archive_logs(both).await.unwrap(), [Archived::Changed, Archived::Done]);
    assert_eq!(logs(store, &job).await, [None, Some(log("logs/2", 3))]);
    assert_eq!(store.archive_logs(vec![]).await.unwrap(), []);
}

pub(super) async fn where_a_log_is_survives_reruns_and_late_results(store: &dyn Store) {
    let jobs = [new_job(1, 10, 0), new_job(2, 10, 0)];
    let mut owner = owner_of(store, &jobs).await;
    let lost = |job| Write::Job(JobWrite::Settle(settled(original(job), 1, JobState::Lost, Ending::WorkerLost)));
    owner.done(vec![succeed(original(&jobs[0]), 1), lost(&jobs[1])]).await;
    for job in &jobs {
        print(store, job, 1, 0, "text").await;
        assert_eq!(archive(store, archiving(job, 1, log("logs/1", 4), 1)).await, Archived::Done);
    }
    let late = ResolveLost {
        id: jobs[1].id,
        attempt: AttemptNo(1),
        state: JobState::Succeeded,
        finished_at: at(900),
        reason: None,
        output: None,
        details: None,
        notice: None,
    };
    let again = Rerun { id: jobs[0].id, due_at: at(40), counters: counters(2, 0, 0) };
    owner.done(vec![Write::Job(JobWrite::Rerun(again)), Write::Job(JobWrite::ResolveLost(late))]).await;
    for job in &jobs {
        assert_eq!(logs(store, job).await, [Some(log("logs/1", 4))]);
    }
    owner.done(vec![succeed(JobKey { due_at: at(40), id: jobs[0].id }, 2)]).await;
    assert_eq!(logs(store, &jobs[0]).await, [Some(log("logs/1", 4)), None]);
}

pub(super) async fn the_objects_of_jobs_that_go_are_dropped(store: &dyn Store) {
    let (job, _owner) = tried_twice(store).await;
    for attempt in [1, 2] {
        print(store, &job, attempt, 0, "text").await;
        let log = log(&format!("logs/{attempt}"), 4);
        assert_eq!(archive(store, archiving(&job, attempt, log, 1)).await, Archived::Done);
    }
    assert_eq!(store.prune(at(103), at(103), 10).await.unwrap(), 1);
    assert_eq!(store.dropped_logs(1).await.unwrap(), ["logs/1"]);
    assert_eq!(store.dropped_logs(10).await.unwrap(), ["logs/1", "logs/2"]);
}

pub(super) async fn pieces_of_a_job_that_is_gone_can_be_forgotten(store: &dyn Store) {
    let (gone, other) = (new_job(1, 10, 0), new_job(2, 10, 0));
    print(store, &gone, 1, 0, "text").await;
    print(store, &gone, 2, 0, "text").await;
    print(store, &other, 1, 0, "text").await;
    store.forget_pieces(gone.id).await.unwrap();
    let left: Vec<_> = store.kept_logs(None, 10).await.unwrap().into_iter().map(|kept| kept.job).collect();
    assert_eq!(left, [other.id]);
}
