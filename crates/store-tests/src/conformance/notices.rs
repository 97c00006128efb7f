use punctual_core::notice::{Notice, NoticeKind};
use punctual_core::schedule::Verdict;
use punctual_core::shard::write::{JobWrite, Settle, Write};
use punctual_core::{JobState, ShardId, Span, Timestamp};
use punctual_store::{Applied, Dispatch, FoundRow, Store};

use crate::fixture::*;
use crate::report_fixture::*;
use crate::schedule_fixture::*;

pub(super) async fn a_notice_reads_back_as_it_was_written(store: &dyn Store) {
    let mut owner = owner_of(store, &[]).await;
    let mut expected = Vec::new();
    for (kind, n) in NoticeKind::ALL.into_iter().zip(0..) {
        expected.push(Notice {
            task: (n % 2 == 0).then(|| task_id(9)),
            job: (n % 3 == 0).then(|| job_id(9, 10, 3)),
            planned: (n % 2 == 1).then(|| (schedule_id(8, 2), at(60 + n))),
            count: if n % 2 == 0 { u32::MAX } else { 1 },
            lateness: (n % 3 != 0).then_some(if n == 1 { Span::MAX } else { Span::ZERO }),
            ..notice(kind, n, (n % 4) as u16)
        });
    }
    expected.push(Notice { at: Timestamp::MAX, ..notice(NoticeKind::Late, 0, 0) });
    owner.done(expected.iter().map(tell).collect()).await;
    assert_eq!(waiting(store).await, expected);
}

pub(super) async fn an_end_brings_its_notice(store: &dyn Store) {
    let jobs = [new_job(1, 10, 0), new_job(2, 10, 1)];
    let mut owner = owner_of(store, &jobs).await;
    let [failed, unstarted] = [NoticeKind::Failed, NoticeKind::Quarantined].map(|kind| notice(kind, 102, 0));
    assert_eq!(waiting(store).await, []);
    owner.done(vec![ended_with(&jobs[0], JobState::Failed, &failed), succeed(original(&jobs[1]), 1)]).await;
    assert_eq!(waiting(store).await, std::slice::from_ref(&failed), "and a success without one brings none");
    // A job may end without an attempt.
    let waits = new_job(3, 10, 0);
    submit(store, vec![waits.clone()]).await.unwrap();
    let Write::Job(JobWrite::Settle(end)) = ended(original(&waits), JobState::Quarantined, at(103)) else {
        panic!("it is an end")
    };
    let end = Settle { notice: Some(Box::new(unstarted.clone())), ..end };
    owner.done(vec![Write::Job(JobWrite::Settle(end.clone()))]).await;
    assert_eq!(waiting(store).await, [failed.clone(), unstarted.clone()]);
    // It has ended: the same again is void, and so is what there was to say of it.
    owner.void(vec![Write::Job(JobWrite::Settle(end))], waits.id).await;
    assert_eq!(waiting(store).await, [failed, unstarted]);
}

pub(super) async fn a_late_result_brings_its_notice(store: &dyn Store) {
    let job = new_job(1, 10, 0);
    let mut owner = owner_of(store, std::slice::from_ref(&job)).await;
    let [lost, failed] = [NoticeKind::Lost, NoticeKind::Failed].map(|kind| notice(kind, 102, 0));
    owner.done(vec![ended_with(&job, JobState::Lost, &lost)]).await;
    owner.done(vec![resolved_with(&job, JobState::Failed, &failed)]).await;
    assert_eq!(waiting(store).await, [lost.clone(), failed.clone()]);
    owner.void(vec![resolved_with(&job, JobState::Failed, &failed)], job.id).await;
    assert_eq!(waiting(store).await, [lost, failed], "what was not lost any more says nothing");
}

pub(super) async fn a_verdict_brings_its_notice(store: &dyn Store) {
    let row = new_schedule(1, "backup", 2);
    let mut owner = owner_of(store, &[]).await;
    owner.done(vec![add(&row)]).await;
    let [missed, released, in_vain] = [1, 2, 3].map(|n| notice(NoticeKind::Missed, n, 2));
    let first = noticed(unfired(row.id, 60, Verdict::Missed), &missed);
    let queued = unfired(row.id, 120, Verdict::Queued);
    owner.done(vec![decide(&first), decide(&queued)]).await;
    assert_eq!(waiting(store).await, std::slice::from_ref(&missed));
    let again = noticed(fired(row.id, 60, 1), &in_vain);
    let not_queued = noticed(fired(row.id, 180, 2), &in_vain);
    let release_it = noticed(unfired(row.id, 120, Verdict::Missed), &released);
    let writes = vec![decide(&again), release(&release_it), release(&not_queued)];
    owner.but_verdicts(writes, &[&again, &not_queued]).await;
    assert_eq!(waiting(store).await, [missed, released]);
}

pub(super) async fn notices_are_in_the_order_of_their_writes(store: &dyn Store) {
    let (job, lost) = (new_job(1, 10, 0), new_job(2, 10, 1));
    let row = new_schedule(1, "backup", 2);
    let mut owner = owner_of(store, &[job.clone(), lost.clone()]).await;
    let told: Vec<Notice> = (0..8).map(|n| notice(NoticeKind::Failed, 100 - n, 3)).collect();
    owner.done(vec![add(&row), ended_with(&lost, JobState::Lost, &told[0]), tell(&told[1])]).await;
    // Verdicts are applied before the ends of jobs, and what was told last is not kept last for that.
    owner
        .done(vec![
            tell(&told[2]),
            ended_with(&job, JobState::Failed, &told[3]),
            decide(&noticed(unfired(row.id, 60, Verdict::Missed), &told[4])),
            resolved_with(&lost, JobState::Failed, &told[5]),
            decide(&noticed(fired(row.id, 120, 9), &told[6])),
            tell(&told[7]),
        ])
        .await;
    assert_eq!(waiting(store).await, told);
    let first: Vec<Notice> =
        store.waiting_notices(3).await.unwrap().into_iter().map(|waiting| waiting.notice).collect();
    assert_eq!(first, told[..3], "the limit cuts off the end");
    assert_eq!(store.waiting_notices(0).await.unwrap(), []);
}

pub(super) async fn a_batch_that_is_not_applied_leaves_no_notice(store: &dyn Store) {
    let job = new_job(1, 10, 0);
    let mut former = owner_of(store, std::slice::from_ref(&job)).await;
    let mut owner = Owner::new(store, 2).await;
    let failed = notice(NoticeKind::Failed, 102, 0);
    let writes = vec![ended_with(&job, JobState::Failed, &failed), tell(&failed)];
    assert_eq!(former.apply(writes.clone()).await.unwrap(), Applied::Fenced(vec![ShardId(0)]));
    assert_eq!(former.apply(vec![tell(&failed)]).await.unwrap(), Applied::Fenced(vec![ShardId(0)]));
    assert_eq!(waiting(store).await, [], "the shard has another owner");
    let nobody = new_job(9, 10, 1);
    let refused = [writes.clone(), vec![succeed(original(&nobody), 1)]].concat();
    owner.refused(refused).await;
    assert_eq!(waiting(store).await, [], "one of the writes does not fit");
    let mut batch = owner.batch(vec![tell(&failed)]);
    batch.fences.clear();
    assert_inconsistent(store.apply(batch.into()).await);
    assert_eq!(waiting(store).await, [], "a notice needs a fence as well");
    owner.done(writes).await;
    assert_eq!(waiting(store).await, [failed.clone(), failed]);
}

pub(super) async fn a_number_is_not_given_twice(store: &dyn Store) {
    let mut owner = owner_of(store, &[]).await;
    let late = notice(NoticeKind::Late, 1, 0);
    let mut last = i64::MIN;
    for _ in 0..3 {
        owner.done(vec![tell(&late), tell(&late)]).await;
        let taken = numbers(store).await;
        assert_eq!(taken.len(), 2);
        assert!(taken[0] > last, "{taken:?} after {last}");
        last = taken[1];
        // When nothing waits any more, numbers grow on all the same.
        dispatched(store, Dispatch { taken, ..Dispatch::default() }).await;
    }
}

pub(super) async fn notices_wait_however_old_they_are(store: &dyn Store) {
    let job = new_job(1, 10, 0);
    let mut owner = owner_of(store, std::slice::from_ref(&job)).await;
    let failed = notice(NoticeKind::Failed, 102, 0);
    owner.done(vec![ended_with(&job, JobState::Failed, &failed)]).await;
    assert_eq!(store.prune(at(5000), at(5000), 10).await.unwrap(), 1);
    assert_eq!(store.find(job.id).await.unwrap(), FoundRow::Absent);
    assert_eq!(waiting(store).await, [failed]);
}
