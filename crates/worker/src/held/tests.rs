use std::time::Duration;

use punctual_core::credits::Expected;
use punctual_core::shard::event::CreditKept;
use punctual_core::{ServerId, ShardId, Timestamp};

use super::*;
use crate::attempts::GivenSecrets;
use crate::outgoing::SessionNo;

const A: LinkNo = LinkNo(0);
const B: LinkNo = LinkNo(1);
const AGE: Duration = Duration::from_secs(5);

fn held_with(links: &[LinkNo]) -> Arc<HeldAttempts> {
    let held = Arc::new(HeldAttempts::new(8));
    for link in links {
        held.add_link(*link, Expected::Yes);
    }
    held
}

fn held_on_one_link() -> Arc<HeldAttempts> {
    held_with(&[A])
}

fn key(random: u64) -> Key {
    let job = JobId::new(Timestamp::EPOCH, ShardId(0), random);
    (job, AttemptNo::FIRST)
}

/// Lets the server of this link own these shards from now on.
fn greet(held: &HeldAttempts, link: LinkNo, shards: &[(u16, u64)]) -> (SessionNo, u32) {
    let server = ServerId::new(Timestamp::EPOCH, u64::from(link.0));
    let shards = shards.iter().map(|(shard, epoch)| (ShardId(*shard), Epoch(*epoch))).collect();
    let answer =
        held.greeted(link, &ServerGreeting { server, acquired: 1, shards }).expect("no two links to one server");
    held.welcomed(link);
    (answer.session, answer.credit)
}

/// Confirms a credit, as a server does that has nothing in flight.
fn confirm(held: &HeldAttempts, told: u32) {
    held.credit_kept(A, CreditKept { told, bound: told });
}

/// Assigns an attempt that the worker gives back, which is the shortest way to an outcome.
fn refuse_from(held: &Arc<HeldAttempts>, link: LinkNo, epoch: u64, keys: impl IntoIterator<Item = Key>) {
    let assigned = keys.into_iter().map(|key| ReceivedAssignment {
        key,
        epoch: Epoch(epoch),
        token: Bytes::new(),
        task: Err("not here".to_owned()),
        input: None,
        tracing_id: None,
        scheduled_run: None,
        secrets: GivenSecrets::default(),
    });
    assert!(held.register(link, assigned.collect(), 0).is_empty());
}

fn refuse(held: &Arc<HeldAttempts>, keys: impl IntoIterator<Item = Key>) {
    refuse_from(held, A, 1, keys);
}

#[test]
fn an_outcome_is_sent_again_when_it_was_not_acknowledged_in_time() {
    let held = held_on_one_link();
    let (session, _) = greet(&held, A, &[]);
    refuse(&held, [key(1), key(2)]);
    let sent_at = Instant::now();
    assert_eq!(held.compose_outcomes(A, session, sent_at), 2);
    held.acked([key(1)]);
    held.resend(AGE, sent_at + AGE / 2);
    assert_eq!(held.compose_outcomes(A, session, sent_at), 0);
    held.resend(AGE, sent_at + AGE);
    held.resend(AGE, sent_at + AGE);
    assert_eq!(held.compose_outcomes(A, session, sent_at), 1);
}

#[test]
fn an_outcome_goes_to_the_owner_first_and_to_everyone_when_that_does_not_answer() {
    let held = held_with(&[A, B]);
    let (a, _) = greet(&held, A, &[(0, 1)]);
    let (b, _) = greet(&held, B, &[(1, 1)]);
    refuse(&held, [key(1)]);
    let sent_at = Instant::now();
    assert_eq!(held.compose_outcomes(B, b, sent_at), 0);
    assert_eq!(held.compose_outcomes(A, a, sent_at), 1);
    held.resend(AGE, sent_at + AGE);
    assert_eq!(held.compose_outcomes(B, b, sent_at), 1);
    assert_eq!(held.compose_outcomes(A, a, sent_at), 1);
}

#[test]
fn an_outcome_follows_its_shard_to_the_next_owner() {
    let held = held_with(&[A, B]);
    let (a, _) = greet(&held, A, &[(0, 1)]);
    let (b, _) = greet(&held, B, &[(0, 2)]);
    refuse_from(&held, B, 2, [key(1)]);
    assert_eq!(held.compose_outcomes(A, a, Instant::now()), 0);
    assert_eq!(held.compose_outcomes(B, b, Instant::now()), 1);
}

#[test]
fn what_a_former_owner_assigns_was_never_received() {
    let held = held_with(&[A, B]);
    greet(&held, A, &[(0, 1)]);
    greet(&held, B, &[(0, 2)]);
    refuse_from(&held, A, 1, [key(1)]);
    assert_eq!(held.left().unacked, 0);
    refuse_from(&held, B, 2, [key(1)]);
    assert_eq!(held.left().unacked, 1);
}

#[test]
fn two_links_to_one_server_are_one() {
    let held = held_with(&[A, B]);
    let server = ServerId::new(Timestamp::EPOCH, 7);
    let greeting = ServerGreeting { server, acquired: 1, shards: vec![] };
    assert_eq!(held.greeted(A, &greeting).map(|answer| answer.credit), Ok(4));
    assert!(matches!(held.greeted(B, &greeting), Err(IsAlias)));
    assert!(held.is_served_by_another(B));
    held.closed(A);
    assert!(!held.is_served_by_another(B));
    assert_eq!(held.greeted(B, &greeting).map(|answer| answer.held.len()), Ok(0));
}

#[test]
fn an_outcome_counts_as_on_disk_only_when_the_spool_has_written_it() {
    let held = held_on_one_link();
    refuse(&held, [key(1)]);
    let taken = held.take_unspooled();
    assert_eq!(taken.len(), 1);
    assert_eq!(held.take_unspooled(), [], "it is on its way");
    assert_eq!(held.left().not_on_disk, 1);
    held.spooled(&taken, SpoolState::InMemory);
    assert_eq!(held.take_unspooled(), taken, "it could not be written, and is tried again");
    held.spooled(&taken, SpoolState::OnDisk);
    assert_eq!(held.left().not_on_disk, 0);
    assert_eq!(held.acked([key(1)]), [key(1)]);
}

#[test]
fn only_what_cannot_be_told_to_its_owner_is_spooled() {
    let held = held_with(&[A, B]);
    greet(&held, A, &[(0, 1)]);
    greet(&held, B, &[(1, 1)]);
    let other = (JobId::new(Timestamp::EPOCH, ShardId(1), 1), AttemptNo::FIRST);
    refuse(&held, [key(1)]);
    refuse_from(&held, B, 1, [other]);
    assert_eq!(held.take_unspooled(), []);
    held.closed(B);
    let taken: Vec<Key> = held.take_unspooled().into_iter().map(|(key, _)| key).collect();
    assert_eq!(taken, [other]);
}

#[test]
fn an_outcome_that_is_acknowledged_on_its_way_to_the_disk_is_deleted_there_too() {
    let held = held_on_one_link();
    refuse(&held, [key(1), key(2)]);
    let taken = held.take_unspooled();
    assert_eq!(held.acked([key(1)]), [key(1)]);
    assert_eq!(held.stop([key(2)]), [key(2)]);
    held.spooled(&taken, SpoolState::OnDisk);
    assert_eq!(held.left(), RemainingWork::default());
}

#[test]
fn a_replaced_stream_is_given_nothing() {
    let held = held_on_one_link();
    let (old, _) = greet(&held, A, &[]);
    let (new, _) = greet(&held, A, &[]);
    refuse(&held, [key(1)]);
    assert_eq!(held.compose_outcomes(A, old, Instant::now()), 0);
    assert_eq!(held.compose_outcomes(A, new, Instant::now()), 1);
}

#[test]
fn too_many_unacknowledged_outcomes_take_the_credit_away_until_half_are_gone() {
    let held = held_on_one_link();
    assert_eq!(greet(&held, A, &[]).1, 8);
    confirm(&held, 8);
    let untold = || held.state().credits.take_untold(A);
    let many: Vec<Key> = (0..=UNACKED_LEN_MAX as u64).map(key).collect();
    refuse(&held, many.clone());
    assert_eq!(untold(), Some(0));
    confirm(&held, 0);
    let (first, rest) = many.split_at(UNACKED_LEN_MAX / 2);
    held.acked(first.iter().copied());
    assert_eq!(untold(), None);
    held.acked(rest[..1].iter().copied());
    assert_eq!(untold(), Some(8));
}
