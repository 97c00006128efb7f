//! The promises of docs/batches.md.

use std::collections::BTreeSet;

use punctual_core::batch::BatchStatus;

use crate::Violation;

/// What is known of one batch.
#[derive(Debug, Clone)]
pub struct BatchHistory {
    pub name: String,
    /// Its members start together.
    pub is_gang: bool,
    pub is_all_or_nothing: bool,
    /// Somebody cancelled it, and it was not refused.
    pub was_cancelled: bool,
    pub members: Vec<MemberHistory>,
    /// What the batch says that it has come to. `None`: it has not ended.
    pub end: Option<BatchStatus>,
}

#[derive(Debug, Clone, Default)]
pub struct MemberHistory {
    /// The transaction of its first start.
    pub first_start: Option<u64>,
    /// How its job ended first.
    pub end: Option<MemberEnd>,
    pub has_compensation: bool,
    /// Jobs that were stored to undo it.
    pub compensations: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberEnd {
    Succeeded,
    Otherwise,
}

type OfBatch = fn(&BatchHistory) -> Option<String>;

const OF_BATCH: [(&str, OfBatch); 4] = [
    ("a gang starts as a whole", a_gang_starts_as_a_whole),
    ("a batch ends with its members", a_batch_ends_with_its_members),
    ("exactly what succeeded is undone", exactly_what_succeeded_is_undone),
    ("a batch says what its members came to", a_batch_says_what_its_members_came_to),
];

pub fn check_batches(batches: &[BatchHistory]) -> Vec<Violation> {
    let judge = |batch: &BatchHistory| {
        let found = OF_BATCH.iter().filter_map(|(promise, judge)| Some((*promise, judge(batch)?)));
        let violation = |(promise, text)| Violation { promise, subject: Some(batch.name.clone()), text };
        found.map(violation).collect::<Vec<_>>()
    };
    batches.iter().flat_map(judge).collect()
}

/// Never half, and never in two transactions: a crash between them would leave a half.
fn a_gang_starts_as_a_whole(batch: &BatchHistory) -> Option<String> {
    let starts: BTreeSet<Option<u64>> = batch.members.iter().map(|member| member.first_start).collect();
    (batch.is_gang && starts.len() > 1).then(|| {
        let started = batch.members.iter().filter(|member| member.first_start.is_some()).count();
        format!("{started} of {} members started, in transactions {starts:?}", batch.members.len())
    })
}

fn a_batch_ends_with_its_members(batch: &BatchHistory) -> Option<String> {
    let open = batch.members.iter().filter(|member| member.end.is_none()).count();
    match batch.end {
        None => Some(format!("it has not ended; {open} members are open")),
        Some(status) if open > 0 => Some(format!("it has {}, and {open} members are open", status.as_str())),
        Some(_) => None,
    }
}

fn exactly_what_succeeded_is_undone(batch: &BatchHistory) -> Option<String> {
    let has_failed = batch.members.iter().any(|member| member.end == Some(MemberEnd::Otherwise));
    // A cancel that finds that all members have succeeded, or comes too late, may find nothing to be undone.
    let is_undone = batch.is_all_or_nothing && has_failed;
    let may_be_undone = batch.is_all_or_nothing && (has_failed || batch.was_cancelled);
    batch.members.iter().enumerate().find_map(|(place, member)| {
        let has_succeeded = member.end == Some(MemberEnd::Succeeded) && member.has_compensation;
        let least = usize::from(is_undone && has_succeeded);
        let most = usize::from(may_be_undone && has_succeeded);
        let count = member.compensations;
        (!(least..=most).contains(&count) && batch.end.is_some())
            .then(|| format!("member {place} ended as {:?} and has {count} compensations", member.end))
    })
}

fn a_batch_says_what_its_members_came_to(batch: &BatchHistory) -> Option<String> {
    let status = batch.end?;
    let failed = batch.members.iter().filter(|member| member.end != Some(MemberEnd::Succeeded)).count();
    let fits = match status {
        BatchStatus::Succeeded => failed == 0,
        BatchStatus::Failed => failed > 0,
        BatchStatus::Cancelled => batch.was_cancelled,
        BatchStatus::Active | BatchStatus::Stopping | BatchStatus::Compensating => false,
    };
    (!fits).then(|| format!("it has {}, and {failed} members did not succeed", status.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(first_start: Option<u64>, end: MemberEnd, compensations: usize) -> MemberHistory {
        MemberHistory { first_start, end: Some(end), has_compensation: true, compensations }
    }

    fn batch(members: Vec<MemberHistory>, end: BatchStatus) -> BatchHistory {
        BatchHistory {
            name: "b".to_owned(),
            is_gang: true,
            is_all_or_nothing: true,
            was_cancelled: false,
            members,
            end: Some(end),
        }
    }

    fn broken(batch: BatchHistory) -> Vec<&'static str> {
        check_batches(&[batch]).into_iter().map(|violation| violation.promise).collect()
    }

    const UNDONE: &str = "exactly what succeeded is undone";

    #[test]
    fn what_is_promised_is_not_reported() {
        use MemberEnd::{Otherwise, Succeeded};
        let done = vec![member(Some(7), Succeeded, 0), member(Some(7), Succeeded, 0)];
        assert_eq!(broken(batch(done, BatchStatus::Succeeded)), [""; 0]);
        let undone = vec![member(Some(7), Succeeded, 1), member(Some(7), Otherwise, 0)];
        assert_eq!(broken(batch(undone, BatchStatus::Failed)), [""; 0]);
        let never = vec![member(None, Otherwise, 0), member(None, Otherwise, 0)];
        assert_eq!(broken(batch(never, BatchStatus::Failed)), [""; 0]);
    }

    #[test]
    fn each_broken_promise_is_reported() {
        use MemberEnd::{Otherwise, Succeeded};
        let half = vec![member(Some(7), Otherwise, 0), member(None, Otherwise, 0)];
        assert_eq!(broken(batch(half, BatchStatus::Failed)), ["a gang starts as a whole"]);
        let split = vec![member(Some(7), Succeeded, 0), member(Some(8), Succeeded, 0)];
        assert_eq!(broken(batch(split, BatchStatus::Succeeded)), ["a gang starts as a whole"]);
        let forgotten = vec![member(Some(7), Succeeded, 0), member(Some(7), Otherwise, 0)];
        assert_eq!(broken(batch(forgotten.clone(), BatchStatus::Failed)), [UNDONE]);
        let twice = vec![member(Some(7), Succeeded, 2), member(Some(7), Otherwise, 0)];
        assert_eq!(broken(batch(twice, BatchStatus::Failed)), [UNDONE]);
        let wrong = vec![member(Some(7), Succeeded, 1), member(Some(7), Otherwise, 1)];
        assert_eq!(broken(batch(wrong, BatchStatus::Failed)), [UNDONE]);
        let needless = vec![member(Some(7), Succeeded, 1), member(Some(7), Succeeded, 0)];
        assert_eq!(broken(batch(needless, BatchStatus::Succeeded)), [UNDONE]);
        let finished = BatchHistory { is_all_or_nothing: false, ..batch(forgotten, BatchStatus::Failed) };
        assert_eq!(broken(finished.clone()), [""; 0]);
        let says = BatchHistory { end: Some(BatchStatus::Succeeded), ..finished.clone() };
        assert_eq!(broken(says), ["a batch says what its members came to"]);
        let open = BatchHistory { end: None, ..finished };
        assert_eq!(broken(open), ["a batch ends with its members"]);
    }
}
