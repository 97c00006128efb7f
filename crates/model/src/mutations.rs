//! Mistakes that can be planted in the protocol, one at a time. The checker has to find
//! each: a property that no mistake can break says nothing.

use crate::properties::Invariant;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// The store applies writes of a former owner.
    NoFence,
    /// An assignment is sent before its start is durable.
    ExecuteBeforeDurable,
    /// A worker begins an assignment of an owner that it knows to be outdated.
    WorkerIgnoresEpochs,
    /// A server believes a hello to a greeting from before its last takeover.
    OldGreetingAnswered,
    /// A server believes a hello that was said before the last one it took in.
    LateHelloBelieved,
    /// A server forgets which hello was the newest when the connection breaks.
    HelloForgottenOnBreak,
    /// A worker reads on from a stream that it has closed.
    ClosedStreamRead,
    /// A hello does not list outcomes that are not acknowledged.
    HelloForgetsFinished,
    /// The server ignores the list in a hello.
    HeldIgnored,
    /// A restarted worker reuses the name of the one that died.
    WorkerNameReused,
    /// An assignment arrives again and again.
    AssignmentRepeated,
    /// A takeover treats running jobs as waiting.
    TakeoverForgetsRunning,
    /// An outcome is acknowledged before it is durable.
    AckBeforeDurable,
    /// An outcome that looks stale is acknowledged without asking the store.
    StaleAckUnfenced,
    /// An outcome counts whatever attempt it is of.
    OutcomeOfAnyAttempt,
    /// A start that is taken back gives its number to the next.
    AttemptReused,
    /// A lost exactly-once attempt is started again.
    LostRetried,
    /// A start is applied although the row is not waiting for it.
    RowUnchecked,
    /// A running job can be deleted.
    DeleteIgnoresRunning,
    /// A job that waits for its next attempt can be deleted.
    DeleteIgnoresEarlierStart,
    /// A delete is answered before it is durable.
    AnswerBeforeDurable,
    /// A server believes that the store's clock is ahead of its real time.
    ClockLeads,
}

impl Mutation {
    pub const ALL: [Self; 22] = [
        Self::NoFence,
        Self::ExecuteBeforeDurable,
        Self::WorkerIgnoresEpochs,
        Self::OldGreetingAnswered,
        Self::LateHelloBelieved,
        Self::HelloForgottenOnBreak,
        Self::ClosedStreamRead,
        Self::HelloForgetsFinished,
        Self::HeldIgnored,
        Self::WorkerNameReused,
        Self::AssignmentRepeated,
        Self::TakeoverForgetsRunning,
        Self::AckBeforeDurable,
        Self::StaleAckUnfenced,
        Self::OutcomeOfAnyAttempt,
        Self::AttemptReused,
        Self::LostRetried,
        Self::RowUnchecked,
        Self::DeleteIgnoresRunning,
        Self::DeleteIgnoresEarlierStart,
        Self::AnswerBeforeDurable,
        Self::ClockLeads,
    ];

    /// The invariant that it breaks.
    pub const fn breaks(self) -> Invariant {
        match self {
            Self::NoFence => Invariant::OneOwner,
            Self::ExecuteBeforeDurable => Invariant::DurableStart,
            Self::AttemptReused => Invariant::OneOutcome,
            Self::OutcomeOfAnyAttempt | Self::StaleAckUnfenced => Invariant::TrueOutcome,
            Self::AssignmentRepeated | Self::RowUnchecked | Self::TakeoverForgetsRunning => Invariant::OneExecution,
            Self::WorkerIgnoresEpochs
            | Self::OldGreetingAnswered
            | Self::LateHelloBelieved
            | Self::HelloForgottenOnBreak
            | Self::ClosedStreamRead
            | Self::HelloForgetsFinished
            | Self::HeldIgnored
            | Self::WorkerNameReused
            | Self::AckBeforeDurable
            | Self::LostRetried => Invariant::ExactlyOnce,
            Self::DeleteIgnoresRunning | Self::DeleteIgnoresEarlierStart | Self::AnswerBeforeDurable => {
                Invariant::DeletedMeansNever
            }
            Self::ClockLeads => Invariant::NeverEarly,
        }
    }
}
