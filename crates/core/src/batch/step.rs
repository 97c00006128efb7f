//! What follows for a batch from what happened to it.

use crate::batch::{
    BatchMember, BatchOutcome, BatchPhase, BatchStart, BatchState, BatchStatus, MemberRef, MemberRole, MemberStatus,
    planted,
};
use crate::lifecycle::JobState;
use crate::time::{Span, Timestamp};
use crate::workflow::Note;

/// Members that are being cancelled are asked again, in case a server died in between.
const ASK_AGAIN: Span = Span::from_secs(5);

#[derive(Debug, Clone, PartialEq)]
pub enum BatchEvent {
    /// A job of the batch has ended.
    Ended { member: MemberRef, state: JobState, started: Started },
    /// Somebody wants it to end.
    Cancel { who: String },
    /// The present workers cannot start it, and it declares that it fails then.
    CannotStart { reason: String },
    /// Time has passed.
    Tick,
}

/// Whether a job had an attempt when it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Started {
    Yes,
    Never,
}

/// What does not change of a batch.
#[derive(Debug, Clone, Copy)]
pub struct BatchHead<'a> {
    pub members: &'a [BatchMember],
}

/// What is to be written.
#[derive(Debug, Clone, PartialEq)]
pub struct BatchStep {
    pub state: BatchState,
    pub status: BatchStatus,
    /// Members whose jobs are to be cancelled.
    pub cancels: Vec<u16>,
    /// Members whose compensation is to be stored, due at `state.compensating_since`.
    pub compensations: Vec<u16>,
    /// When it is to be looked at.
    pub wake_at: Option<Timestamp>,
    /// The request was refused, because the batch has ended, and nothing was changed.
    pub is_refused: bool,
}

/// Works out what follows. Pure: whoever calls it holds the row of the batch, and writes the answer in the same transaction.
pub fn step(head: BatchHead<'_>, state: BatchState, events: &[BatchEvent], now: Timestamp) -> BatchStep {
    let mut work = Work { head, state, cancels: Vec::new(), compensations: Vec::new(), is_refused: false, now };
    let mut is_tick = false;
    for event in events {
        match event {
            BatchEvent::Ended { member, state, started } => work.ended(*member, *state, *started),
            BatchEvent::Cancel { who } => work.cancel(who),
            BatchEvent::CannotStart { reason } => work.cannot_start(reason),
            BatchEvent::Tick => is_tick = true,
        }
    }
    let wake_at = work.advance(is_tick);
    let status = work.state.status();
    let Work { state, cancels, compensations, is_refused, .. } = work;
    BatchStep { state, status, cancels, compensations, wake_at, is_refused }
}

struct Work<'a> {
    head: BatchHead<'a>,
    state: BatchState,
    cancels: Vec<u16>,
    compensations: Vec<u16>,
    is_refused: bool,
    now: Timestamp,
}

impl Work<'_> {
    fn ended(&mut self, member: MemberRef, state: JobState, started: Started) {
        let place = member.place;
        match (member.role, self.state.member(place)) {
            (MemberRole::Member, Some(MemberStatus::Active)) => {
                let status = MemberStatus::of_end(state);
                self.state.set(place, status);
                if status != MemberStatus::Succeeded {
                    self.failed(place, status, started);
                }
            }
            (MemberRole::Compensation, Some(MemberStatus::Compensating)) => {
                let is_undone = state == JobState::Succeeded;
                let status = if is_undone { MemberStatus::Compensated } else { MemberStatus::CompensationFailed };
                self.state.set(place, status);
            }
            // An end counts once. A job that somebody runs again does not change its batch.
            (MemberRole::Member | MemberRole::Compensation, _) => {}
        }
    }

    fn failed(&mut self, place: u16, status: MemberStatus, started: Started) {
        if self.state.phase != BatchPhase::Members {
            return;
        }
        self.state.first_failed.get_or_insert(place);
        let contract = self.state.contract;
        // Members of a gang start in one transaction: if one ended without a start, none has started or ever will.
        let gang_is_broken = contract.start == BatchStart::Together && started == Started::Never;
        let why = if started == Started::Never { " before it started" } else { "" };
        let reason = format!("member {place} {}{why}", verb(status));
        let goes_on = planted!(FailureIgnored);
        if gang_is_broken || (contract.outcome == BatchOutcome::AllOrNothing && !goes_on) {
            self.state.reason = Some(reason);
            self.state.phase = BatchPhase::Stopping;
        }
    }

    fn cancel(&mut self, who: &str) {
        match self.state.phase {
            BatchPhase::Members | BatchPhase::Stopping if self.state.cancelled.is_none() => {
                self.state.cancelled = Some(Note { at: self.now, by: who.to_owned() });
                self.state.phase = BatchPhase::Stopping;
            }
            // Asking twice for what is done is not a mistake.
            BatchPhase::Members | BatchPhase::Stopping | BatchPhase::Compensating => {}
            BatchPhase::Ended => self.is_refused = self.state.cancelled.is_none(),
        }
    }

    fn cannot_start(&mut self, reason: &str) {
        let is_whole = self.state.count(MemberStatus::Active) == self.state.len();
        if self.state.phase == BatchPhase::Members && is_whole {
            self.state.reason = Some(reason.to_owned());
            self.state.phase = BatchPhase::Stopping;
        }
    }

    /// Goes on as far as it can, and answers when to look again.
    fn advance(&mut self, is_tick: bool) -> Option<Timestamp> {
        loop {
            let is_active = self.state.count(MemberStatus::Active) > 0;
            match self.state.phase {
                BatchPhase::Members if is_active => return None,
                BatchPhase::Members => {
                    let failed = self.state.len() - self.state.count(MemberStatus::Succeeded);
                    if failed > 0 {
                        self.state.reason = Some(format!("{failed} of {} members did not succeed", self.state.len()));
                    }
                    self.end();
                }
                BatchPhase::Stopping if is_active => {
                    if !is_tick {
                        return Some(self.now);
                    }
                    self.cancels = self.state.places(MemberStatus::Active).collect();
                    return Some(self.now + ASK_AGAIN);
                }
                BatchPhase::Stopping => {
                    let undone = self.to_be_undone();
                    if undone.is_empty() {
                        self.end();
                        continue;
                    }
                    // As many jobs as a submission has at most: not in the transaction of the owner that ends a member.
                    if !is_tick {
                        return Some(self.now);
                    }
                    for place in &undone {
                        self.state.set(*place, MemberStatus::Compensating);
                    }
                    self.state.phase = BatchPhase::Compensating;
                    self.state.compensating_since = Some(self.now);
                    self.compensations = undone;
                    return None;
                }
                BatchPhase::Compensating if self.state.count(MemberStatus::Compensating) > 0 => return None,
                BatchPhase::Compensating => {
                    let failed = self.state.count(MemberStatus::CompensationFailed);
                    if failed > 0 {
                        let before = self.state.reason.take().unwrap_or_else(|| "it was cancelled".to_owned());
                        self.state.reason = Some(format!("{before}; {failed} compensations did not succeed"));
                    }
                    self.end();
                }
                BatchPhase::Ended => return None,
            }
        }
    }

    fn to_be_undone(&self) -> Vec<u16> {
        if self.state.contract.outcome != BatchOutcome::AllOrNothing || planted!(CompensationForgotten) {
            return Vec::new();
        }
        let is_declared = |place: &u16| {
            let member = self.head.members.get(usize::from(*place));
            member.is_some_and(|member| member.compensation.is_some())
        };
        let all = planted!(FailedIsCompensated);
        let places = 0..u16::try_from(self.state.len()).unwrap_or(u16::MAX);
        let succeeded = |place: &u16| all || self.state.member(*place) == Some(MemberStatus::Succeeded);
        places.filter(succeeded).filter(is_declared).collect()
    }

    fn end(&mut self) {
        self.state.phase = BatchPhase::Ended;
        self.state.ended_at = Some(self.now);
    }
}

fn verb(status: MemberStatus) -> &'static str {
    match status {
        MemberStatus::Lost => "was lost",
        MemberStatus::Quarantined => "was quarantined",
        MemberStatus::Cancelled => "was cancelled",
        MemberStatus::Deleted => "was deleted",
        _ => "failed",
    }
}
