//! The durable state of a batch.

use serde::{Deserialize, Serialize};

use crate::batch::Contract;
use crate::lifecycle::JobState;
use crate::time::Timestamp;
use crate::workflow::Note;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BatchStatus {
    /// Its members wait or run.
    Active,
    /// Its members are being cancelled.
    Stopping,
    /// What succeeded is being undone.
    Compensating,
    Succeeded,
    Failed,
    Cancelled,
}

impl BatchStatus {
    pub const ALL: [Self; 6] =
        [Self::Active, Self::Stopping, Self::Compensating, Self::Succeeded, Self::Failed, Self::Cancelled];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Stopping => "stopping",
            Self::Compensating => "compensating",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }

    pub const fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Cancelled)
    }

    /// For stores. Never changes.
    pub const fn number(self) -> u8 {
        match self {
            Self::Active => 0,
            Self::Stopping => 1,
            Self::Compensating => 2,
            Self::Succeeded => 3,
            Self::Failed => 4,
            Self::Cancelled => 5,
        }
    }

    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.number() == number)
    }
}

/// Which part of a batch is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BatchPhase {
    Members,
    /// The members that have not ended are being cancelled.
    Stopping,
    Compensating,
    Ended,
}

/// What a member has come to, as one letter of [`BatchState::members`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemberStatus {
    /// Its job waits or runs.
    Active,
    Succeeded,
    Failed,
    Lost,
    Quarantined,
    Cancelled,
    Deleted,
    /// It succeeded, and is being undone.
    Compensating,
    Compensated,
    /// It succeeded, and could not be undone.
    CompensationFailed,
}

impl MemberStatus {
    pub const ALL: [Self; 10] = [
        Self::Active,
        Self::Succeeded,
        Self::Failed,
        Self::Lost,
        Self::Quarantined,
        Self::Cancelled,
        Self::Deleted,
        Self::Compensating,
        Self::Compensated,
        Self::CompensationFailed,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Lost => "lost",
            Self::Quarantined => "quarantined",
            Self::Cancelled => "cancelled",
            Self::Deleted => "deleted",
            Self::Compensating => "compensating",
            Self::Compensated => "compensated",
            Self::CompensationFailed => "compensation_failed",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }

    const fn letter(self) -> u8 {
        match self {
            Self::Active => b'a',
            Self::Succeeded => b's',
            Self::Failed => b'f',
            Self::Lost => b'l',
            Self::Quarantined => b'q',
            Self::Cancelled => b'c',
            Self::Deleted => b'd',
            Self::Compensating => b'r',
            Self::Compensated => b'u',
            Self::CompensationFailed => b'x',
        }
    }

    fn of_letter(letter: u8) -> Self {
        // What cannot be read is shown as lost, and never as done.
        Self::ALL.into_iter().find(|status| status.letter() == letter).unwrap_or(Self::Lost)
    }

    /// What the end of a job makes of its member.
    pub(super) fn of_end(state: JobState) -> Self {
        match state {
            JobState::Succeeded => Self::Succeeded,
            JobState::Failed => Self::Failed,
            JobState::Lost => Self::Lost,
            JobState::Quarantined => Self::Quarantined,
            JobState::Cancelled => Self::Cancelled,
            JobState::Deleted => Self::Deleted,
            JobState::Scheduled | JobState::Running => Self::Active,
        }
    }
}

/// Written with each end of a member, so what each member has is one letter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BatchState {
    pub phase: BatchPhase,
    pub contract: Contract,
    /// One letter for each member; see [`MemberStatus`].
    members: String,
    /// Who asked for its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancelled: Option<Note>,
    /// Why it stopped, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The first member that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_failed: Option<u16>,
    /// When the jobs that undo what succeeded were stored: their due time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compensating_since: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
}

/// How many members are what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemberCounts([u32; MemberStatus::ALL.len()]);

impl MemberCounts {
    pub fn get(&self, status: MemberStatus) -> u32 {
        let place = MemberStatus::ALL.iter().position(|one| *one == status).expect("all of them are there");
        self.0[place]
    }

    /// Those that there are, in the order of [`MemberStatus::ALL`].
    pub fn present(&self) -> impl Iterator<Item = (MemberStatus, u32)> {
        MemberStatus::ALL.into_iter().zip(self.0).filter(|(_, count)| *count > 0)
    }
}

impl BatchState {
    pub fn new(members: usize, contract: Contract) -> Self {
        let letter = char::from(MemberStatus::Active.letter());
        Self {
            phase: BatchPhase::Members,
            contract,
            members: std::iter::repeat_n(letter, members).collect(),
            cancelled: None,
            reason: None,
            first_failed: None,
            compensating_since: None,
            ended_at: None,
        }
    }

    pub fn len(&self) -> usize {
        self.members.len()
    }

    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// `None` if there is no such member.
    pub fn member(&self, place: u16) -> Option<MemberStatus> {
        self.members.as_bytes().get(usize::from(place)).map(|letter| MemberStatus::of_letter(*letter))
    }

    pub(super) fn set(&mut self, place: u16, status: MemberStatus) {
        let at = usize::from(place);
        let letter = char::from(status.letter());
        if at < self.members.len() && self.members.is_ascii() {
            self.members.replace_range(at..=at, letter.encode_utf8(&mut [0; 4]));
        }
    }

    /// The members that are `status`, in order.
    pub fn places(&self, status: MemberStatus) -> impl Iterator<Item = u16> {
        let letters = self.members.bytes().enumerate().filter(move |(_, letter)| *letter == status.letter());
        letters.filter_map(|(place, _)| u16::try_from(place).ok())
    }

    pub fn count(&self, status: MemberStatus) -> usize {
        self.members.bytes().filter(|letter| *letter == status.letter()).count()
    }

    pub fn counts(&self) -> MemberCounts {
        let mut counts = MemberCounts::default();
        for letter in self.members.bytes() {
            let status = MemberStatus::of_letter(letter);
            let place = MemberStatus::ALL.iter().position(|one| *one == status).expect("all of them are there");
            counts.0[place] += 1;
        }
        counts
    }

    pub fn status(&self) -> BatchStatus {
        match self.phase {
            BatchPhase::Members => BatchStatus::Active,
            BatchPhase::Stopping => BatchStatus::Stopping,
            BatchPhase::Compensating => BatchStatus::Compensating,
            BatchPhase::Ended if self.cancelled.is_some() => BatchStatus::Cancelled,
            BatchPhase::Ended if self.reason.is_some() => BatchStatus::Failed,
            BatchPhase::Ended => BatchStatus::Succeeded,
        }
    }
}
