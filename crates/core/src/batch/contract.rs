//! What a batch declares about its members.

use serde::{Deserialize, Serialize};

use crate::time::Span;

/// When the members start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum BatchStart {
    /// Each as soon as it is due and a worker has a slot for it.
    #[default]
    Independent,
    /// All in one transaction, once there is a slot for each: a gang.
    Together,
}

/// What it means that a gang could not start in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum OnStartTimeout {
    /// The batch fails, and none of its members starts.
    #[default]
    Fail,
    /// It goes on waiting, and does not hold slots back for itself any more.
    Wait,
}

/// What it means that the connected workers could not start a gang even if they were all idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Unplaceable {
    /// It waits for workers, up to its start timeout.
    #[default]
    Wait,
    /// It is refused, or fails when it is due.
    Fail,
}

/// What the end of a member means for the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum BatchOutcome {
    /// Every member runs to its end. The batch fails if one of them did.
    #[default]
    FinishAll,
    /// The first permanent failure cancels the other members, and the compensation of each one that succeeded is run.
    AllOrNothing,
}

/// What a batch declares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Contract {
    pub start: BatchStart,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_timeout: Option<Span>,
    #[serde(default)]
    pub on_start_timeout: OnStartTimeout,
    #[serde(default)]
    pub unplaceable: Unplaceable,
    pub outcome: BatchOutcome,
}

impl Contract {
    /// How long a gang may take to start, and hold slots back for itself, unless it says so.
    pub const START_TIMEOUT: Span = Span::from_secs(600);
    /// It is a number of seconds in 24 bits of each member.
    pub const START_TIMEOUT_MAX: Span = Span::from_secs(30 * 24 * 3600);
    /// Slots that are held back by a gang are idle. A larger one would hold back most of a fleet, and its start would hold the
    /// shard's fence for longer than a renewal of its lease should wait.
    pub const GANG_MAX: usize = 1_000;
}
