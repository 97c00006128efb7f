use punctual_core::shard::write::Epoch;
use punctual_core::{ServerId, Span};
use punctual_store::{Member, MemberStatus, Store};

use crate::fixture::*;

const LONG: Span = Span::from_secs(3600);

fn member(id: ServerId, running: u32) -> Member {
    Member {
        id,
        address: "http://127.0.0.1:8020".to_owned(),
        version: "1.2.3".to_owned(),
        roles: vec!["api".to_owned(), "scheduler".to_owned()],
        started_at: at(-5),
        status: MemberStatus { workers: 3, running, lag: Span::from_millis(7) },
        zone_data: format!("2026{running}"),
    }
}

pub(super) async fn a_member_is_shown_as_it_was_last_seen(store: &dyn Store) {
    store.beat(member(server(2), 1)).await.unwrap();
    store.beat(Member { roles: vec![], ..member(server(1), 2) }).await.unwrap();
    store.beat(member(server(2), 9)).await.unwrap();
    let seen = store.members().await.unwrap();
    let members: Vec<Member> = seen.iter().map(|seen| seen.member.clone()).collect();
    assert_eq!(members, [Member { roles: vec![], ..member(server(1), 2) }, member(server(2), 9)]);
    let now = store.now().await.unwrap();
    assert!(seen.iter().all(|seen| seen.seen_at <= now && now.since(seen.seen_at) < LONG), "{seen:?}");
}

pub(super) async fn a_probe_succeeds_and_changes_nothing(store: &dyn Store) {
    store.beat(member(server(1), 1)).await.unwrap();
    let before = store.members().await.unwrap();
    for _ in 0..3 {
        store.probe().await.unwrap();
    }
    assert_eq!(store.members().await.unwrap(), before);
}

pub(super) async fn a_member_that_leaves_or_was_not_seen_is_gone(store: &dyn Store) {
    for number in 1..=3 {
        store.beat(member(server(number), 0)).await.unwrap();
    }
    store.leave(server(2)).await.unwrap();
    store.leave(server(2)).await.unwrap();
    let now = store.now().await.unwrap();
    assert_eq!(store.forget_members(now - LONG).await.unwrap(), 0);
    assert_eq!(store.members().await.unwrap().len(), 2);
    assert_eq!(store.forget_members(now + LONG).await.unwrap(), 2);
    assert_eq!(store.members().await.unwrap(), []);
}

pub(super) async fn a_duty_has_one_owner_at_a_time(store: &dyn Store) {
    assert_eq!(store.duties().await.unwrap(), []);
    assert_eq!(store.hold_duty(server(1), "retention", LONG).await.unwrap(), Some(Epoch(1)));
    assert_eq!(store.hold_duty(server(2), "retention", LONG).await.unwrap(), None);
    assert_eq!(store.hold_duty(server(2), "clean-up", LONG).await.unwrap(), Some(Epoch(1)));
    assert_eq!(store.hold_duty(server(1), "retention", LONG).await.unwrap(), Some(Epoch(1)), "prolonged");
    let duties = store.duties().await.unwrap();
    let shown: Vec<_> = duties.iter().map(|lease| (lease.duty.as_str(), lease.owner, lease.epoch)).collect();
    assert_eq!(shown, [("clean-up", server(2), Epoch(1)), ("retention", server(1), Epoch(1))]);
}

pub(super) async fn a_duty_changes_hands_under_a_higher_epoch(store: &dyn Store) {
    store.hold_duty(server(1), "retention", Span::ZERO).await.unwrap();
    assert_eq!(store.hold_duty(server(2), "retention", LONG).await.unwrap(), Some(Epoch(2)));
    assert_eq!(store.hold_duty(server(1), "retention", LONG).await.unwrap(), None);
    store.drop_duties(server(1)).await.unwrap();
    assert_eq!(store.hold_duty(server(1), "retention", LONG).await.unwrap(), None, "it is not its own to drop");
    store.drop_duties(server(2)).await.unwrap();
    assert_eq!(store.hold_duty(server(1), "retention", LONG).await.unwrap(), Some(Epoch(3)));
}
