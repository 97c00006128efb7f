use std::time::Duration;

use punctual_core::credits::Expected;
use punctual_core::shard::event::CreditKept;
use punctual_core::{ServerId, ShardId, Timestamp};

use super::*;
use crate::outgoing::SessionNo;

const A: LinkNo = LinkNo(0);
const B: LinkNo = LinkNo(1);
const AGE: Duration = Duration::from_secs(5);

fn ledger_with(links: &[LinkNo]) -> Arc<Ledger> {
    let ledger = Arc::new(Ledger::new(8));
    for link in links {
        ledger.add_link(*link, Expected::Yes);
    }
    ledger
}

fn ledger() -> Arc<Ledger> {
    ledger_with(&[A])
}

fn key(random: u64) -> Key {
    let job = JobId::new(Timestamp::EPOCH, ShardId(0), random);
    (job, AttemptNo::FIRST)
}

/// The server of this link owns these shards from now on.
fn greet(ledger: &Ledger, link: LinkNo, shards: &[(u16, u64)]) -> (SessionNo, u32) {
    let server = ServerId::new(Timestamp::EPOCH, u64::from(link.0));
    let shards = shards.iter().map(|(shard, epoch)| (ShardId(*shard), Epoch(*epoch))).collect();
    let answer = ledger.greeted(link, &Greeting { server, acquired: 1, shards }).expect("no two links to one server");
    ledger.welcomed(link);
    (answer.session, answer.credit)
}

/// As a server does that has nothing in flight.
fn confirm(ledger: &Ledger, told: u32) {
    ledger.credit_kept(A, CreditKept { told, bound: told });
}

/// Given back, which is the shortest way to an outcome.
fn refuse_from(ledger: &Arc<Ledger>, link: LinkNo, epoch: u64, keys: impl IntoIterator<Item = Key>) {
    let assigned = keys.into_iter().map(|key| Assigned {
        key,
        epoch: Epoch(epoch),
        token: Bytes::new(),
        task: Err("not here".to_owned()),
        input: None,
        tracing_id: None,
        scheduled_run: None,
    });
    assert!(ledger.register(link, assigned.collect(), 0).is_empty());
}

fn refuse(ledger: &Arc<Ledger>, keys: impl IntoIterator<Item = Key>) {
    refuse_from(ledger, A, 1, keys);
}

#[test]
fn an_outcome_is_sent_again_when_it_was_not_acknowledged_in_time() {
    let ledger = ledger();
    let (session, _) = greet(&ledger, A, &[]);
    refuse(&ledger, [key(1), key(2)]);
    let sent_at = Instant::now();
    assert_eq!(ledger.compose_outcomes(A, session, sent_at), 2);
    ledger.acked([key(1)]);
    ledger.resend(AGE, sent_at + AGE / 2);
    assert_eq!(ledger.compose_outcomes(A, session, sent_at), 0);
    ledger.resend(AGE, sent_at + AGE);
    ledger.resend(AGE, sent_at + AGE);
    assert_eq!(ledger.compose_outcomes(A, session, sent_at), 1);
}

#[test]
fn an_outcome_goes_to_the_owner_first_and_to_everyone_when_that_does_not_answer() {
    let ledger = ledger_with(&[A, B]);
    let (a, _) = greet(&ledger, A, &[(0, 1)]);
    let (b, _) = greet(&ledger, B, &[(1, 1)]);
    refuse(&ledger, [key(1)]);
    let sent_at = Instant::now();
    assert_eq!(ledger.compose_outcomes(B, b, sent_at), 0);
    assert_eq!(ledger.compose_outcomes(A, a, sent_at), 1);
    ledger.resend(AGE, sent_at + AGE);
    assert_eq!(ledger.compose_outcomes(B, b, sent_at), 1);
    assert_eq!(ledger.compose_outcomes(A, a, sent_at), 1);
}

#[test]
fn an_outcome_follows_its_shard_to_the_next_owner() {
    let ledger = ledger_with(&[A, B]);
    let (a, _) = greet(&ledger, A, &[(0, 1)]);
    let (b, _) = greet(&ledger, B, &[(0, 2)]);
    refuse_from(&ledger, B, 2, [key(1)]);
    assert_eq!(ledger.compose_outcomes(A, a, Instant::now()), 0);
    assert_eq!(ledger.compose_outcomes(B, b, Instant::now()), 1);
}

#[test]
fn what_a_former_owner_assigns_was_never_received() {
    let ledger = ledger_with(&[A, B]);
    greet(&ledger, A, &[(0, 1)]);
    greet(&ledger, B, &[(0, 2)]);
    refuse_from(&ledger, A, 1, [key(1)]);
    assert_eq!(ledger.left().unacked, 0);
    refuse_from(&ledger, B, 2, [key(1)]);
    assert_eq!(ledger.left().unacked, 1);
}

#[test]
fn two_links_to_one_server_are_one() {
    let ledger = ledger_with(&[A, B]);
    let server = ServerId::new(Timestamp::EPOCH, 7);
    let greeting = Greeting { server, acquired: 1, shards: vec![] };
    assert_eq!(ledger.greeted(A, &greeting).map(|answer| answer.credit), Ok(4));
    assert!(matches!(ledger.greeted(B, &greeting), Err(IsAlias)));
    assert!(ledger.is_served_by_another(B));
    ledger.closed(A);
    assert!(!ledger.is_served_by_another(B));
    assert_eq!(ledger.greeted(B, &greeting).map(|answer| answer.held.len()), Ok(0));
}

#[test]
fn an_outcome_counts_as_on_disk_only_when_the_spool_has_written_it() {
    let ledger = ledger();
    refuse(&ledger, [key(1)]);
    let taken = ledger.take_unspooled();
    assert_eq!(taken.len(), 1);
    assert_eq!(ledger.take_unspooled(), [], "it is on its way");
    assert_eq!(ledger.left().not_on_disk, 1);
    ledger.spooled(&taken, Kept::InMemory);
    assert_eq!(ledger.take_unspooled(), taken, "it could not be written, and is tried again");
    ledger.spooled(&taken, Kept::OnDisk);
    assert_eq!(ledger.left().not_on_disk, 0);
    assert_eq!(ledger.acked([key(1)]), [key(1)]);
}

#[test]
fn only_what_cannot_be_told_to_its_owner_is_spooled() {
    let ledger = ledger_with(&[A, B]);
    greet(&ledger, A, &[(0, 1)]);
    greet(&ledger, B, &[(1, 1)]);
    let other = (JobId::new(Timestamp::EPOCH, ShardId(1), 1), AttemptNo::FIRST);
    refuse(&ledger, [key(1)]);
    refuse_from(&ledger, B, 1, [other]);
    assert_eq!(ledger.take_unspooled(), []);
    ledger.closed(B);
    let taken: Vec<Key> = ledger.take_unspooled().into_iter().map(|(key, _)| key).collect();
    assert_eq!(taken, [other]);
}

#[test]
fn an_outcome_that_is_acknowledged_on_its_way_to_the_disk_is_deleted_there_too() {
    let ledger = ledger();
    refuse(&ledger, [key(1), key(2)]);
    let taken = ledger.take_unspooled();
    assert_eq!(ledger.acked([key(1)]), [key(1)]);
    assert_eq!(ledger.stop([key(2)]), [key(2)]);
    ledger.spooled(&taken, Kept::OnDisk);
    assert_eq!(ledger.left(), Left::default());
}

#[test]
fn a_replaced_stream_is_given_nothing() {
    let ledger = ledger();
    let (old, _) = greet(&ledger, A, &[]);
    let (new, _) = greet(&ledger, A, &[]);
    refuse(&ledger, [key(1)]);
    assert_eq!(ledger.compose_outcomes(A, old, Instant::now()), 0);
    assert_eq!(ledger.compose_outcomes(A, new, Instant::now()), 1);
}

#[test]
fn too_many_unacknowledged_outcomes_take_the_credit_away_until_half_are_gone() {
    let ledger = ledger();
    assert_eq!(greet(&ledger, A, &[]).1, 8);
    confirm(&ledger, 8);
    let untold = || ledger.state().credits.take_untold(A);
    let many: Vec<Key> = (0..=UNACKED_LEN_MAX as u64).map(key).collect();
    refuse(&ledger, many.clone());
    assert_eq!(untold(), Some(0));
    confirm(&ledger, 0);
    let (first, rest) = many.split_at(UNACKED_LEN_MAX / 2);
    ledger.acked(first.iter().copied());
    assert_eq!(untold(), None);
    ledger.acked(rest[..1].iter().copied());
    assert_eq!(untold(), Some(8));
}
