//! Facts about what follows for a batch.

use super::*;
use crate::id::{BatchId, ShardId};
use crate::lifecycle::JobState;
use crate::time::{Span, Timestamp};

const NOW: Timestamp = Timestamp::saturating_from_micros(1_000_000);

fn all_or_nothing() -> Contract {
    Contract { outcome: BatchOutcome::AllOrNothing, ..Contract::default() }
}

/// A batch in memory; every member but the last has a compensation.
struct Bench {
    members: Vec<BatchMember>,
    state: BatchState,
    wake_at: Option<Timestamp>,
}

impl Bench {
    fn new(members: u16, contract: Contract) -> Self {
        let compensation = |place: u16| (place + 1 < members).then_some(1);
        let made = (0..members).map(|place| BatchMember { task: 0, compensation: compensation(place) }).collect();
        Self { members: made, state: BatchState::new(usize::from(members), contract), wake_at: None }
    }

    fn step(&mut self, event: BatchEvent) -> BatchStep {
        let step = step(BatchHead { members: &self.members }, self.state.clone(), &[event], NOW);
        self.state = step.state.clone();
        self.wake_at = step.wake_at;
        step
    }

    fn ends(&mut self, place: u16, state: JobState) -> BatchStep {
        self.end(place, MemberRole::Member, state, Started::Yes)
    }

    fn end(&mut self, place: u16, role: MemberRole, state: JobState, started: Started) -> BatchStep {
        let batch = BatchId::new(NOW, ShardId(0), 1);
        self.step(BatchEvent::Ended { member: MemberRef { batch, place, role, gang: None }, state, started })
    }

    fn undone(&mut self, place: u16, state: JobState) -> BatchStep {
        self.end(place, MemberRole::Compensation, state, Started::Yes)
    }
}

#[test]
fn a_batch_succeeds_when_all_members_have() {
    for contract in [Contract::default(), all_or_nothing()] {
        let mut bench = Bench::new(2, contract);
        assert_eq!(bench.ends(0, JobState::Succeeded).status, BatchStatus::Active);
        let step = bench.ends(1, JobState::Succeeded);
        assert_eq!((step.status, step.wake_at), (BatchStatus::Succeeded, None));
        assert_eq!(bench.state.ended_at, Some(NOW));
    }
}

#[test]
fn with_finish_all_the_others_go_on_and_the_batch_says_how_many_failed() {
    let mut bench = Bench::new(3, Contract::default());
    assert_eq!(bench.ends(1, JobState::Failed).status, BatchStatus::Active);
    assert_eq!(bench.ends(0, JobState::Succeeded).status, BatchStatus::Active);
    let step = bench.ends(2, JobState::Lost);
    assert_eq!(step.status, BatchStatus::Failed);
    assert_eq!(step.state.reason.as_deref(), Some("2 of 3 members did not succeed"));
    assert_eq!(step.state.first_failed, Some(1));
}

#[test]
fn the_first_failure_cancels_the_others_and_undoes_what_succeeded() {
    let mut bench = Bench::new(5, all_or_nothing());
    bench.ends(0, JobState::Succeeded);
    let step = bench.ends(2, JobState::Failed);
    assert_eq!((step.status, step.wake_at), (BatchStatus::Stopping, Some(NOW)), "a duty cancels the others");
    assert_eq!(bench.step(BatchEvent::Tick).cancels, [1, 3, 4]);
    // This one was quicker than its cancel, and that one has no compensation.
    bench.ends(3, JobState::Succeeded);
    bench.ends(4, JobState::Succeeded);
    let step = bench.ends(1, JobState::Cancelled);
    assert_eq!((step.status, step.compensations.len()), (BatchStatus::Stopping, 0), "not in the owner's transaction");
    let step = bench.step(BatchEvent::Tick);
    assert_eq!((step.status, &step.compensations[..]), (BatchStatus::Compensating, &[0, 3][..]));
    assert_eq!(bench.undone(0, JobState::Succeeded).status, BatchStatus::Compensating);
    let step = bench.undone(3, JobState::Failed);
    assert_eq!(step.status, BatchStatus::Failed);
    assert_eq!(step.state.reason.as_deref(), Some("member 2 failed; 1 compensations did not succeed"));
    let members: Vec<_> = (0..5).filter_map(|place| step.state.member(place)).collect();
    use MemberStatus::{Cancelled, Compensated, CompensationFailed, Failed, Succeeded};
    assert_eq!(members, [Compensated, Cancelled, Failed, CompensationFailed, Succeeded]);
}

#[test]
fn any_end_but_success_is_a_failure() {
    use JobState::{Cancelled, Deleted, Failed, Lost, Quarantined};
    for state in [Failed, Lost, Quarantined, Cancelled, Deleted] {
        let mut bench = Bench::new(2, all_or_nothing());
        assert_eq!(bench.ends(0, state).status, BatchStatus::Stopping, "{state}");
        bench.ends(1, Cancelled);
        assert_eq!(bench.state.status(), BatchStatus::Failed, "{state}: nothing is to be undone");
    }
}

#[test]
fn a_gang_whose_member_ended_without_a_start_never_starts() {
    let mut bench = Bench::new(2, Contract { start: BatchStart::Together, ..Contract::default() });
    let step = bench.end(1, MemberRole::Member, JobState::Failed, Started::Never);
    assert_eq!(step.status, BatchStatus::Stopping);
    assert_eq!(step.state.reason.as_deref(), Some("member 1 failed before it started"));
}

#[test]
fn an_end_counts_once() {
    let mut bench = Bench::new(2, all_or_nothing());
    bench.ends(0, JobState::Succeeded);
    bench.ends(0, JobState::Failed);
    assert_eq!(bench.state.member(0), Some(MemberStatus::Succeeded), "somebody ran its job again");
    bench.undone(0, JobState::Succeeded);
    assert_eq!(bench.state.member(0), Some(MemberStatus::Succeeded), "it is not being undone");
    bench.ends(7, JobState::Failed);
    assert_eq!(bench.state.status(), BatchStatus::Active, "there is no such member");
}

#[test]
fn a_cancelled_batch_undoes_what_it_did_if_it_is_all_or_nothing() {
    for (contract, undone) in [(Contract::default(), 0), (all_or_nothing(), 1)] {
        let mut bench = Bench::new(3, contract);
        bench.ends(0, JobState::Succeeded);
        bench.step(BatchEvent::Cancel { who: "ada".to_owned() });
        assert_eq!(bench.step(BatchEvent::Tick).cancels, [1, 2]);
        bench.ends(1, JobState::Cancelled);
        bench.ends(2, JobState::Cancelled);
        assert_eq!(bench.step(BatchEvent::Tick).compensations.len(), undone);
        if undone > 0 {
            bench.undone(0, JobState::Succeeded);
        }
        assert_eq!(bench.state.status(), BatchStatus::Cancelled);
        assert!(!bench.step(BatchEvent::Cancel { who: "ada".to_owned() }).is_refused, "a repetition");
    }
}

#[test]
fn a_batch_that_has_ended_cannot_be_cancelled() {
    let mut bench = Bench::new(1, Contract::default());
    bench.ends(0, JobState::Succeeded);
    let step = bench.step(BatchEvent::Cancel { who: "ada".to_owned() });
    assert!(step.is_refused);
    assert_eq!(step.status, BatchStatus::Succeeded);
}

#[test]
fn a_batch_that_cannot_start_fails_unless_a_member_has_ended() {
    let cannot = || BatchEvent::CannotStart { reason: "needs 12 slots, 8 exist".to_owned() };
    let mut bench = Bench::new(2, Contract { start: BatchStart::Together, ..Contract::default() });
    assert_eq!(bench.step(cannot()).status, BatchStatus::Stopping);
    let mut bench = Bench::new(2, Contract { start: BatchStart::Together, ..Contract::default() });
    bench.ends(0, JobState::Succeeded);
    assert_eq!(bench.step(cannot()).status, BatchStatus::Active, "it has started");
}

#[test]
fn members_that_are_being_cancelled_are_asked_again() {
    let mut bench = Bench::new(1, Contract::default());
    bench.step(BatchEvent::Cancel { who: "ada".to_owned() });
    let step = bench.step(BatchEvent::Tick);
    assert_eq!((step.cancels.len(), step.wake_at), (1, Some(NOW + Span::from_secs(5))));
}

#[test]
fn a_state_is_short_and_survives_the_store() {
    let mut bench = Bench::new(10_000, all_or_nothing());
    bench.ends(0, JobState::Succeeded);
    bench.ends(9_999, JobState::Failed);
    let text = serde_json::to_string(&bench.state).unwrap();
    assert!(text.len() < 10_400, "{}", text.len());
    assert_eq!(serde_json::from_str::<BatchState>(&text).unwrap(), bench.state);
    let counts = bench.state.counts();
    assert_eq!(counts.present().map(|(_, count)| count).sum::<u32>(), 10_000);
    assert_eq!(counts.get(MemberStatus::Active), 9_998);
}
