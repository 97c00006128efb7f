//! When the store has lost its last commits, and how much a mistake could show afterwards.

use punctual_core::{AttemptNo, JobId, Timestamp};

use super::job_facts::{JobFact, facts_by_job};
use crate::history::{Fact, History};

/// When commits were lost, and the starts that were open in what was left.
pub(super) fn find(history: &History) -> Option<(Timestamp, &[(JobId, AttemptNo)])> {
    history.iter().find_map(|(at, fact)| match fact {
        Fact::WentBack { open } => Some((at, open.as_slice())),
        _ => None,
    })
}

pub(super) fn lost_at(history: &History) -> Option<Timestamp> {
    find(history).map(|(at, _)| at)
}

/// How many of the open starts had begun, and were over by then.
pub fn begun_before_loss(history: &History) -> usize {
    let Some((lost_at, open)) = find(history) else { return 0 };
    let facts_by_job = facts_by_job(history);
    let is_over = |(id, attempt): &&(JobId, AttemptNo)| {
        let ended = |(at, line): &(Timestamp, JobFact<'_>)| {
            *at < lost_at && matches!(line, JobFact::Acked(of) if of == attempt)
        };
        facts_by_job.get(id).is_some_and(|job_facts| job_facts.facts.iter().any(ended))
    };
    open.iter().filter(is_over).count()
}
