//! Everybody has a fair share, and as few shards as possible move.

use std::sync::atomic::Ordering;

use punctual_core::{ServerId, ShardId};
use punctual_engine::SCHEDULER;
use punctual_store::{Member, MemberStatus};

use crate::harness::{Clocks, Harness, Worker, until};
use crate::store::START;

#[tokio::test]
async fn shares_follow_the_servers_that_are_there() {
    let harness = Harness::new(12);
    let a = harness.start().await;
    assert_eq!(a.owned().len(), 12);
    assert_eq!(harness.moves(), 12);
    let (b, c) = (harness.start().await, harness.start().await);
    until("4 each", || [&a, &b, &c].iter().all(|engine| engine.owned().len() == 4)).await;
    assert_eq!(harness.moves(), 12 + 8, "no shard moved twice");
    assert!(b.stop().await);
    until("6 each", || [&a, &c].iter().all(|engine| engine.owned().len() == 6)).await;
    assert_eq!(harness.moves(), 12 + 8 + 4, "only what was left was taken");
}

#[tokio::test]
async fn what_is_given_up_was_sent_before() {
    let harness = Harness::new(8);
    let worker = Worker::new();
    let a = harness.start().await;
    worker.serve(&a);
    let mut jobs = Vec::new();
    let mut others = Vec::new();
    for round in 0..60u16 {
        jobs.extend((0..8).map(|shard| harness.submit(shard)));
        if round == 10 || round == 30 {
            let other = harness.start().await;
            worker.serve(&other);
            others.push(other);
        }
        let so_far = jobs.clone();
        until("half of it runs", || so_far.iter().filter(|id| worker.has_run(**id)).count() * 2 > so_far.len()).await;
    }
    until("everything has finished", || jobs.iter().all(|id| harness.attempts(*id).is_some())).await;
    until("the shards are shared", || harness.shares(&[&a, &others[0], &others[1]]).iter().all(|n| *n <= 3)).await;
    for id in jobs {
        assert_eq!(harness.attempts(id), Some(vec![1]), "a start that was never sent costs a number");
    }
    let mut ran = worker.ran.lock().unwrap().clone();
    ran.sort_unstable();
    ran.dedup();
    assert_eq!(ran.len(), worker.ran.lock().unwrap().len(), "nothing ran twice");
}

#[tokio::test]
async fn a_shard_is_kept_until_what_it_started_was_sent() {
    let harness = Harness::new(2);
    let worker = Worker::new();
    let a = harness.start().await;
    worker.serve(&a);
    let gate = harness.store.hold("apply");
    let id = harness.submit(1);
    until("its start is written, and the answer on its way", || {
        !harness.store.model.open_starts_now(ShardId(1)).running.is_empty()
    })
    .await;
    let b = harness.start().await;
    until("the shard retires", || *a.owned() == [ShardId(0)]).await;
    let mut cluster = b.cluster();
    for _ in 0..5 {
        cluster.changed().await.unwrap();
        assert_eq!(harness.shares(&[&a, &b]), [2, 0]);
    }
    gate.send_replace(true);
    until("it was sent", || worker.has_run(id)).await;
    until("the shard has moved", || *b.owned() == [ShardId(1)]).await;
}

#[tokio::test]
async fn a_server_without_the_role_owns_nothing_and_counts_for_nothing() {
    let harness = Harness::new(4);
    let a = harness.start().await;
    let mut config = harness.config(&Clocks::default());
    config.member.roles = vec!["api".to_owned()];
    let b = harness.try_start(config).await.unwrap();
    let mut cluster = b.cluster();
    cluster.wait_for(|cluster| cluster.owner_of(ShardId(3)) == Some(a.server())).await.unwrap();
    let members = b.cluster().borrow().members.len();
    assert_eq!(members, 2, "each sees both");
    b.ready().unwrap();
    // A look of its own is behind every further picture.
    for _ in 0..10 {
        cluster.changed().await.unwrap();
    }
    assert_eq!(harness.shares(&[&a, &b]), [4, 0]);
}

#[tokio::test]
async fn shards_that_were_given_up_to_nobody_are_taken_back() {
    let harness = Harness::new(8);
    // It is seen once, and never takes anything.
    let ghost = Member {
        id: ServerId::new(START, 99),
        address: "http://ghost".to_owned(),
        version: "0".to_owned(),
        roles: vec![SCHEDULER.to_owned()],
        started_at: START,
        status: MemberStatus::default(),
        zone_data: String::new(),
    };
    harness.store.model.set_now(harness.store.time());
    harness.store.model.beat_now(ghost).unwrap();
    let a = harness.start().await;
    assert_eq!(a.owned().len(), 4, "half is left to the other");
    until("everything is owned", || a.owned().len() == 8).await;
}

#[tokio::test]
async fn duties_have_one_holder_and_pass_on() {
    let harness = Harness::new(4);
    let (a, b) = (harness.start().await, harness.start().await);
    let holders = || {
        let duties = harness.store.model.duties_now();
        duties.into_iter().map(|lease| (lease.duty, lease.owner)).collect::<Vec<_>>()
    };
    let held_by = |server| {
        ["artifacts", "logs", "membership", "reports", "retention"].map(|duty| (duty.to_owned(), server)).to_vec()
    };
    assert_eq!(holders(), held_by(a.server()));
    let mut cluster = b.cluster();
    cluster.wait_for(|cluster| cluster.holder_of("retention") == Some(a.server())).await.unwrap();
    assert!(a.stop().await);
    until("the other has them", || holders() == held_by(b.server())).await;
}

#[tokio::test]
async fn servers_that_are_long_gone_are_forgotten() {
    let harness = Harness::new(1);
    let old = Member {
        id: ServerId::new(START, 99),
        address: String::new(),
        version: "0".to_owned(),
        roles: vec![],
        started_at: START,
        status: MemberStatus::default(),
        zone_data: String::new(),
    };
    harness.store.model.set_now(START - punctual_core::Span::from_secs(3600));
    harness.store.model.beat_now(old).unwrap();
    let _a = harness.start().await;
    until("it is gone", || harness.store.model.members_now().len() == 1).await;
}

#[tokio::test]
async fn a_takeover_reads_several_shards_at_a_time_and_not_all() {
    let harness = Harness::new(64);
    let a = harness.start().await;
    assert_eq!(a.owned().len(), 64);
    assert_eq!(harness.store.reading_max.load(Ordering::Relaxed), 8);
    let b = harness.start().await;
    harness.store.reading_max.store(0, Ordering::Relaxed);
    assert!(a.stop().await);
    until("all are taken", || b.owned().len() == 64).await;
    let reading_max = harness.store.reading_max.load(Ordering::Relaxed);
    assert!((2..=8).contains(&reading_max), "{reading_max}");
}
