use punctual_core::attempt::Ending;
use punctual_core::batch::{
    BatchEvent, BatchMember, BatchOutcome, BatchStart, BatchState, BatchStatus, Contract, MemberRef, MemberStatus,
    Unplaceable, member_job,
};
use punctual_core::schedule::By;
use punctual_core::shard::write::{JobWrite, Settle, Start, Write};
use punctual_core::{BatchId, JobKey, JobState, NamespaceId, ShardId, Timestamp};
use punctual_store::{
    Applied, BatchChange, BatchFilter, BatchRow, DueBatch, IdempotencyKey, IdempotentAnswer, JobRecord, NewJob, Store,
    Submission, Submitted,
};

use crate::fixture::*;

const ALL_OR_NOTHING: Contract = Contract {
    start: BatchStart::Independent,
    start_timeout: None,
    on_start_timeout: punctual_core::batch::OnStartTimeout::Fail,
    unplaceable: Unplaceable::Wait,
    outcome: BatchOutcome::AllOrNothing,
};

fn batch_id(n: u64) -> BatchId {
    BatchId::new(at(0), ShardId(2), n)
}

/// Each member has a compensation.
fn new_batch(n: u64, members: u16, contract: Contract) -> BatchRow {
    let state = BatchState::new(usize::from(members), contract);
    BatchRow {
        id: batch_id(n),
        namespace: NamespaceId::DEFAULT,
        name: Some("transfer \u{fc}".to_owned()),
        made: By { at: at(0), who: "ann".to_owned() },
        requester: None,
        due_at: at(10),
        tasks: vec![(task_id(1), priority(3)), (task_id(1), priority(-4))],
        members: vec![BatchMember { task: 0, compensation: Some(1) }; usize::from(members)],
        status: state.status(),
        state,
    }
}

fn jobs_of(row: &BatchRow) -> Vec<NewJob> {
    let size = row.members.len();
    let job = |place: u16| NewJob {
        id: member_job(row.id, row.due_at, place),
        member: Some(MemberRef::member(row.id, place, size, &row.state.contract)),
        tracing_id: Some(row.id.to_string()),
        input: Some(text(&format!("{{\"place\":{place}}}"))),
        ..new_job(0, 10, 2)
    };
    (0..size as u16).map(job).collect()
}

fn submission(row: &BatchRow) -> Submission {
    Submission { jobs: jobs_of(row), idempotency: None, batch: Some(Box::new(row.clone())) }
}

async fn with_batch<'a>(store: &'a dyn Store, row: &BatchRow) -> Owner<'a> {
    with_task(store).await;
    assert_eq!(store.submit(submission(row)).await.unwrap(), Submitted::Done);
    Owner::new(store, 1).await
}

fn key(row: &BatchRow, place: u16) -> JobKey {
    JobKey::original(row.member_job(place))
}

/// The end of a job of the batch that ran once.
async fn end(store: &dyn Store, key: JobKey, state: JobState) -> Write {
    let member = store.member_of_job(key.id).await.unwrap().expect("it is of a batch");
    let ending = if state == JobState::Succeeded { Ending::Succeeded } else { Ending::Failed };
    Write::Job(JobWrite::Settle(Settle { member: Some(Box::new(member)), ..settled(key, 1, state, ending) }))
}

async fn read(store: &dyn Store, n: u64) -> BatchRow {
    store.batch(batch_id(n)).await.unwrap().expect("the batch is there")
}

async fn change(store: &dyn Store, n: u64, event: BatchEvent, now: Timestamp) -> BatchChange {
    store.change_batch(batch_id(n), event, now).await.unwrap().expect("the batch is there")
}

async fn due(store: &dyn Store, now: Timestamp) -> Vec<BatchId> {
    store.due_batches(now, None, 10).await.unwrap().into_iter().map(|due| due.id).collect()
}

pub(super) async fn a_batch_is_stored_with_its_jobs(store: &dyn Store) {
    let row = new_batch(1, 3, Contract { start: BatchStart::Together, ..ALL_OR_NOTHING });
    with_batch(store, &row).await;
    assert_eq!(read(store, 1).await, row);
    assert_eq!(store.batch(batch_id(2)).await.unwrap(), None);
    assert_eq!(store.batch_in(NamespaceId::DEFAULT, row.id).await.unwrap().as_ref(), Some(&row));
    assert_eq!(store.batch_in(NamespaceId(7), row.id).await.unwrap(), None);
    let loaded = store.load(load_all(2)).await.unwrap().rows;
    assert_eq!(loaded.len(), 3);
    for (job, loaded) in jobs_of(&row).iter().zip(&loaded) {
        assert_eq!(loaded.member.as_deref().copied(), job.member);
        assert_eq!((&loaded.node, &loaded.source), (&None, &None));
        assert_eq!(store.member_of_job(job.id).await.unwrap(), job.member);
    }
    assert_eq!(store.node_of_job(loaded[0].key.id).await.unwrap(), None);
    assert_eq!(due(store, at(1_000)).await, []);
}

pub(super) async fn a_batch_with_a_bad_member_stores_nothing(store: &dyn Store) {
    with_task(store).await;
    let row = new_batch(1, 3, ALL_OR_NOTHING);
    let mut bad = submission(&row);
    bad.jobs[2].task = task_id(9);
    assert_inconsistent(store.submit(bad).await);
    let mut bad = submission(&row);
    if let Some(batch) = &mut bad.batch {
        batch.tasks.push((task_id(9), priority(0)));
    }
    assert_inconsistent(store.submit(bad).await);
    assert_eq!(store.batch(row.id).await.unwrap(), None);
    assert_eq!(store.load(load_all(2)).await.unwrap().rows, []);
    assert_eq!(store.submit(submission(&row)).await.unwrap(), Submitted::Done, "nothing is in its way");
    assert!(store.submit(submission(&row)).await.is_err(), "it is there already");
}

pub(super) async fn a_repeated_batch_gets_its_first_answer(store: &dyn Store) {
    with_task(store).await;
    let keyed = |n: u64| {
        let idempotency = IdempotentAnswer {
            key: IdempotencyKey { namespace: NamespaceId::DEFAULT, key: "k".to_owned() },
            fingerprint: [1; 32],
            answer: batch_id(n).to_bytes().to_vec().into(),
            now: at(0),
            expires_at: at(100),
        };
        Submission { idempotency: Some(idempotency), ..submission(&new_batch(n, 2, ALL_OR_NOTHING)) }
    };
    assert_eq!(store.submit(keyed(1)).await.unwrap(), Submitted::Done);
    let answer = batch_id(1).to_bytes().to_vec().into();
    assert_eq!(store.submit(keyed(2)).await.unwrap(), Submitted::Replayed { answer });
    assert_eq!(store.batch(batch_id(2)).await.unwrap(), None);
    assert_eq!(store.load(load_all(2)).await.unwrap().rows.len(), 2);
}

pub(super) async fn the_end_of_a_member_reaches_its_batch(store: &dyn Store) {
    let row = new_batch(1, 2, ALL_OR_NOTHING);
    let mut owner = with_batch(store, &row).await;
    owner.done(vec![start(key(&row, 0), 1), start(key(&row, 1), 1)]).await;
    let steps = owner.stepped(vec![end(store, key(&row, 0), JobState::Succeeded).await]).await;
    assert_eq!(steps.batches, [], "nobody has to look at it");
    let half = read(store, 1).await;
    assert_eq!((half.status, half.state.member(0)), (BatchStatus::Active, Some(MemberStatus::Succeeded)));
    owner.done(vec![end(store, key(&row, 1), JobState::Succeeded).await]).await;
    let whole = read(store, 1).await;
    assert_eq!((whole.status, whole.state.ended_at), (BatchStatus::Succeeded, Some(at(0))));
    assert_eq!(store.member_of_job(key(&row, 1).id).await.unwrap().map(|member| member.place), Some(1));
}

pub(super) async fn a_fenced_owner_changes_no_batch(store: &dyn Store) {
    let row = new_batch(1, 1, ALL_OR_NOTHING);
    let mut former = with_batch(store, &row).await;
    former.done(vec![start(key(&row, 0), 1)]).await;
    Owner::new(store, 2).await;
    let write = end(store, key(&row, 0), JobState::Failed).await;
    assert_eq!(former.apply(vec![write]).await.unwrap(), Applied::Fenced(vec![ShardId(2)]));
    assert_eq!(read(store, 1).await, row);
}

pub(super) async fn the_first_failure_stops_a_batch_and_what_succeeded_is_undone(store: &dyn Store) {
    let row = new_batch(1, 3, ALL_OR_NOTHING);
    let mut owner = with_batch(store, &row).await;
    owner.done((0..3).map(|place| start(key(&row, place), 1)).collect()).await;
    let ends =
        vec![end(store, key(&row, 0), JobState::Succeeded).await, end(store, key(&row, 1), JobState::Failed).await];
    assert_eq!(owner.stepped(ends).await.batches, [row.id]);
    assert_eq!(due(store, at(0)).await, [row.id]);
    let stopping = change(store, 1, BatchEvent::Tick, at(1)).await;
    assert_eq!((stopping.row.status, stopping.cancels), (BatchStatus::Stopping, vec![key(&row, 2).id]));
    assert_eq!((due(store, at(5)).await, due(store, at(6)).await), (vec![], vec![row.id]), "it is asked again");
    assert_eq!(owner.stepped(vec![end(store, key(&row, 2), JobState::Succeeded).await]).await.batches, [row.id]);
    let undone = change(store, 1, BatchEvent::Tick, at(2)).await;
    assert_eq!(undone.row.status, BatchStatus::Compensating);
    let [first, second] = &undone.jobs[..] else { panic!("{:?}", undone.jobs) };
    for (job, place) in [(first, 0), (second, 2)] {
        assert_eq!((job.id.due_at(), job.priority), (at(2), priority(-4)));
        assert_eq!(job.member, Some(MemberRef::compensation(row.id, place)));
        let record = store.job(job.id).await.unwrap();
        let Some(JobRecord::Hot { input, .. }) = record else { panic!("{record:?}") };
        assert_eq!(input, Some(text(&format!("{{\"place\":{place}}}"))), "it gets the input of its member");
    }
    assert_eq!(due(store, at(1_000)).await, []);
    for job in [first, second] {
        let key = JobKey::original(job.id);
        owner.done(vec![start(key, 1)]).await;
        owner.done(vec![end(store, key, JobState::Succeeded).await]).await;
    }
    let ended = read(store, 1).await;
    assert_eq!(ended.status, BatchStatus::Failed);
    let members: Vec<_> = (0..3).filter_map(|place| ended.state.member(place)).collect();
    assert_eq!(members, [MemberStatus::Compensated, MemberStatus::Failed, MemberStatus::Compensated]);
}

pub(super) async fn a_member_that_is_gone_cannot_be_undone(store: &dyn Store) {
    let row = new_batch(1, 2, ALL_OR_NOTHING);
    let mut owner = with_batch(store, &row).await;
    owner.done((0..2).map(|place| start(key(&row, place), 1)).collect()).await;
    owner.done(vec![end(store, key(&row, 0), JobState::Succeeded).await]).await;
    store.prune(at(500), at(500), 100).await.unwrap();
    owner.done(vec![end(store, key(&row, 1), JobState::Failed).await]).await;
    let change = change(store, 1, BatchEvent::Tick, at(501)).await;
    assert_eq!(change.jobs, []);
    assert_eq!(
        (change.row.status, change.row.state.member(0)),
        (BatchStatus::Failed, Some(MemberStatus::CompensationFailed))
    );
}

pub(super) async fn a_cancel_is_refused_once_the_batch_has_ended(store: &dyn Store) {
    let row = new_batch(1, 1, ALL_OR_NOTHING);
    let mut owner = with_batch(store, &row).await;
    let cancel = || BatchEvent::Cancel { who: "eve".to_owned() };
    assert_eq!(store.change_batch(batch_id(7), cancel(), at(1)).await.unwrap(), None);
    let cancelled = change(store, 1, cancel(), at(1)).await;
    assert_eq!((cancelled.row.status, cancelled.is_refused), (BatchStatus::Stopping, false));
    assert_eq!(due(store, at(1)).await, [row.id]);
    let end = Settle {
        member: store.member_of_job(key(&row, 0).id).await.unwrap().map(Box::new),
        ..match ended(key(&row, 0), JobState::Cancelled, at(2)) {
            Write::Job(JobWrite::Settle(settle)) => settle,
            other => panic!("{other:?}"),
        }
    };
    owner.done(vec![Write::Job(JobWrite::Settle(end))]).await;
    assert_eq!(read(store, 1).await.status, BatchStatus::Cancelled);
    let other = new_batch(2, 1, ALL_OR_NOTHING);
    store.submit(submission(&other)).await.unwrap();
    owner.done(vec![start(key(&other, 0), 1)]).await;
    let write = self::end(store, key(&other, 0), JobState::Succeeded).await;
    owner.done(vec![write]).await;
    let refused = change(store, 2, cancel(), at(3)).await;
    assert!(refused.is_refused);
    assert_eq!(read(store, 2).await.status, BatchStatus::Succeeded);
}

pub(super) async fn the_starts_of_a_gang_are_void_together(store: &dyn Store) {
    let contract = Contract { start: BatchStart::Together, ..ALL_OR_NOTHING };
    let (row, other) = (new_batch(1, 3, contract), new_batch(2, 2, contract));
    let mut owner = with_batch(store, &row).await;
    store.submit(submission(&other)).await.unwrap();
    let gang_start = |row: &BatchRow, place: u16, attempt: u32| {
        let plain = plain_start(key(row, place), attempt);
        Write::Job(JobWrite::Start(Start { gang: Some(row.id), ..plain }))
    };
    // The last member is not as its start expects.
    let mut writes: Vec<Write> = (0..3).map(|place| gang_start(&row, place, 1 + u32::from(place == 2))).collect();
    writes.extend((0..2).map(|place| gang_start(&other, place, 1)));
    let expected: Vec<_> = (0..3).map(|place| key(&row, place).id).collect();
    assert_eq!(owner.apply(writes).await.unwrap(), Applied::done(expected.into()));
    let open = store.open_starts(ShardId(2)).await.unwrap();
    let started: Vec<JobKey> = open.running.iter().map(|(found, _)| found.start.key).collect();
    assert_eq!(started, [key(&other, 0), key(&other, 1)]);
    owner.done((0..3).map(|place| gang_start(&row, place, 1)).collect()).await;
    assert_eq!(store.open_starts(ShardId(2)).await.unwrap().running.len(), 5);
}

pub(super) async fn batches_are_listed_the_latest_first(store: &dyn Store) {
    with_task(store).await;
    for n in 1..=4 {
        store.submit(submission(&new_batch(n, 1, ALL_OR_NOTHING))).await.unwrap();
    }
    change(store, 3, BatchEvent::Cancel { who: "eve".to_owned() }, at(1)).await;
    let list = async |status, before: Option<u64>, limit| {
        let filter = BatchFilter { namespace: NamespaceId::DEFAULT, status, before: before.map(batch_id), limit };
        store.list_batches(filter).await.unwrap().into_iter().map(|row| row.id).collect::<Vec<_>>()
    };
    assert_eq!(list(None, None, 10).await, [4, 3, 2, 1].map(batch_id));
    assert_eq!(list(None, Some(4), 2).await, [3, 2].map(batch_id));
    assert_eq!(list(Some(BatchStatus::Active), Some(4), 10).await, [2, 1].map(batch_id));
    assert_eq!(list(Some(BatchStatus::Stopping), None, 10).await, [batch_id(3)]);
    let other = BatchFilter { namespace: NamespaceId(7), status: None, before: None, limit: 10 };
    assert_eq!(store.list_batches(other).await.unwrap(), []);
}

pub(super) async fn batches_are_due_when_their_time_has_come(store: &dyn Store) {
    let checked = Contract { start: BatchStart::Together, unplaceable: Unplaceable::Fail, ..ALL_OR_NOTHING };
    let row = new_batch(1, 1, checked);
    with_batch(store, &row).await;
    store.submit(submission(&new_batch(2, 1, ALL_OR_NOTHING))).await.unwrap();
    assert_eq!((due(store, at(9)).await, due(store, at(10)).await), (vec![], vec![row.id]));
    change(store, 2, BatchEvent::Cancel { who: "eve".to_owned() }, at(3)).await;
    assert_eq!(due(store, at(10)).await, [batch_id(2), row.id]);
    let after = Some(DueBatch { at: at(3), id: batch_id(2) });
    assert_eq!(store.due_batches(at(10), after, 10).await.unwrap(), [DueBatch { at: at(10), id: row.id }]);
    change(store, 1, BatchEvent::CannotStart { reason: "8 of 12 slots".to_owned() }, at(10)).await;
    assert_eq!(read(store, 1).await.state.reason.as_deref(), Some("8 of 12 slots"));
}

pub(super) async fn batches_that_ended_go_with_retention(store: &dyn Store) {
    let (row, open) = (new_batch(1, 1, ALL_OR_NOTHING), new_batch(2, 1, ALL_OR_NOTHING));
    let mut owner = with_batch(store, &row).await;
    store.submit(submission(&open)).await.unwrap();
    owner.done(vec![start(key(&row, 0), 1)]).await;
    let write = end(store, key(&row, 0), JobState::Succeeded).await;
    owner.done(vec![write]).await;
    store.prune(at(-1), at(0), 100).await.unwrap();
    assert!(store.batch(row.id).await.unwrap().is_some());
    store.prune(at(1), at(1), 100).await.unwrap();
    assert_eq!(store.batch(row.id).await.unwrap(), None);
    assert!(store.batch(open.id).await.unwrap().is_some(), "it has not ended");
}
