//! The invariants, and the events that must be possible.

use stateright::Property;

use crate::bounds::{Bounds, DeliveryMode};
use crate::cluster::Cluster;
use crate::state::{AttemptWitness, Event, JobEnd, Outcome, Row, State, Verdict};

/// The invariants 1 to 5; the third in its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invariant {
    OneOwner,
    DurableStart,
    OneOutcome,
    TrueOutcome,
    OneExecution,
    ExactlyOnce,
    NeverEarly,
    DeletedMeansNever,
}

impl Invariant {
    pub const ALL: [Self; 8] = [
        Self::OneOwner,
        Self::DurableStart,
        Self::OneOutcome,
        Self::TrueOutcome,
        Self::OneExecution,
        Self::ExactlyOnce,
        Self::NeverEarly,
        Self::DeletedMeansNever,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::OneOwner => "1 a transition commits only with the current epoch",
            Self::DurableStart => "2 nothing executes before its start is durable",
            Self::OneOutcome => "3 an outcome on record is never replaced",
            Self::TrueOutcome => "3 an outcome on record is what its attempt came to",
            Self::OneExecution => "3 an attempt is executed at most once",
            Self::ExactlyOnce => "3 an exactly-once job is executed at most once",
            Self::NeverEarly => "4 nothing starts before it is due",
            Self::DeletedMeansNever => "5 a deleted job has not started and never will",
        }
    }

    fn property(self) -> Property<Cluster> {
        let condition: fn(&Cluster, &State) -> bool = match self {
            Self::OneOwner => |_, state| !state.witness.unfenced,
            Self::DurableStart => |_, state| attempts(state).all(|seen| !seen.began_undurable),
            Self::OneOutcome => |_, state| !state.witness.replaced,
            Self::TrueOutcome => |_, state| attempts(state).all(is_true),
            Self::OneExecution => |_, state| attempts(state).all(|seen| seen.begun <= 1),
            Self::ExactlyOnce => is_exactly_once,
            Self::NeverEarly => |_, state| !state.witness.early,
            Self::DeletedMeansNever => is_deleted_for_good,
        };
        Property::always(self.name(), condition)
    }
}

fn attempts(state: &State) -> impl Iterator<Item = &AttemptWitness> {
    state.witness.attempts.iter().flatten()
}

fn is_true(seen: &AttemptWitness) -> bool {
    match seen.on_record {
        None | Some(Verdict::WorkerLost) => true,
        Some(Verdict::NeverReceived | Verdict::Reported(Outcome::NotStarted)) => seen.begun == 0,
        Some(Verdict::Reported(outcome)) => seen.came_to == Some(outcome),
    }
}

fn is_exactly_once(cluster: &Cluster, state: &State) -> bool {
    let jobs = cluster.bounds.jobs.iter().zip(&state.witness.attempts);
    let mut once = jobs.filter(|(job, _)| job.delivery == DeliveryMode::ExactlyOnce);
    once.all(|(_, attempts)| attempts.iter().map(|seen| seen.begun).sum::<u8>() <= 1)
}

fn is_deleted_for_good(_: &Cluster, state: &State) -> bool {
    let mut jobs = state.witness.deleted.iter().zip(&state.witness.attempts);
    jobs.all(|(is_deleted, attempts)| {
        !is_deleted || attempts.iter().all(|seen| seen.begun == 0 && !seen.is_start_durable)
    })
}

/// Events that must be possible. A model in which none of them can happen would keep every invariant by doing nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    TakenOverRunning,
    Fenced,
    AssignmentRefused,
    Adopted,
    OldGreetingRefused,
    LateHelloIgnored,
    TakenBack,
    StaleAnswered,
    LostResolved,
    Void,
    Deleted,
    Cancelled,
    EveryJobSucceeds,
}

impl Sight {
    pub const fn name(self) -> &'static str {
        match self {
            Self::TakenOverRunning => "a takeover finds a running attempt",
            Self::Fenced => "a former owner is fenced",
            Self::AssignmentRefused => "a late assignment is refused for its epoch",
            Self::Adopted => "an attempt of a former owner is adopted",
            Self::OldGreetingRefused => "a hello to an old greeting is refused",
            Self::LateHelloIgnored => "a late hello is ignored",
            Self::TakenBack => "a start that was never received is taken back",
            Self::StaleAnswered => "a stale outcome is answered",
            Self::LostResolved => "a late result resolves a lost job",
            Self::Void => "a write finds its row changed",
            Self::Deleted => "a delete is answered",
            Self::Cancelled => "a running job is cancelled",
            Self::EveryJobSucceeds => "every job succeeds",
        }
    }

    fn property(self) -> Property<Cluster> {
        let condition: fn(&Cluster, &State) -> bool = match self {
            Self::TakenOverRunning => |_, state| state.event == Some(Event::TakenOverRunning),
            Self::Fenced => |_, state| state.event == Some(Event::Fenced),
            Self::AssignmentRefused => |_, state| state.event == Some(Event::AssignmentRefused),
            Self::Adopted => |_, state| state.event == Some(Event::Adopted),
            Self::OldGreetingRefused => |_, state| state.event == Some(Event::OldGreetingRefused),
            Self::LateHelloIgnored => |_, state| state.event == Some(Event::LateHelloIgnored),
            Self::TakenBack => |_, state| state.event == Some(Event::TakenBack),
            Self::StaleAnswered => |_, state| state.event == Some(Event::StaleAnswered),
            Self::LostResolved => |_, state| state.event == Some(Event::LostResolved),
            Self::Void => |_, state| state.event == Some(Event::Void),
            Self::Deleted => |_, state| state.witness.deleted.contains(&true),
            Self::Cancelled => |_, state| attempts(state).any(|seen| seen.on_record == CANCELLED),
            Self::EveryJobSucceeds => every_job_succeeds,
        };
        Property::sometimes(self.name(), condition)
    }
}

const CANCELLED: Option<Verdict> = Some(Verdict::Reported(Outcome::Cancelled));

fn every_job_succeeds(cluster: &Cluster, state: &State) -> bool {
    let mut rows = state.store.rows.iter().take(cluster.bounds.jobs.len());
    rows.all(|row| matches!(row, Row::Finished { end: JobEnd::Succeeded, .. }))
}

pub(crate) fn all(bounds: &Bounds) -> Vec<Property<Cluster>> {
    let invariants = Invariant::ALL.into_iter().map(Invariant::property);
    invariants.chain(bounds.sights.iter().map(|sight| sight.property())).collect()
}
