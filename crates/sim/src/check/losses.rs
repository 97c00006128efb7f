//! What holds although the store has lost its last commits: everything about jobs that were submitted afterwards, and that a
//! start from before which its worker does not know proves nothing.

use std::collections::{BTreeMap, BTreeSet};

use punctual_core::{AttemptNo, JobId, Timestamp};

use super::story::{Line, Story, stories};
use super::{OF_JOB, OfJob, OfRun, Violation, begins, whole};
use crate::history::{Fact, History};

/// When commits were lost, and the starts that were open in what was left.
pub(super) struct Loss<'a> {
    at: Timestamp,
    open: &'a [(JobId, AttemptNo)],
}

/// About jobs whose start was open.
const OF_OPEN: [(&str, OfJob); 2] = [
    ("strict modes begin once", begins::strict_modes_begin_once),
    ("what is taken back never began", begins::what_is_taken_back_never_began),
];

const OF_RUN: [(&str, OfRun); 2] =
    [("nothing is broken", whole::nothing_is_broken), ("old epochs write nothing", whole::old_epochs_write_nothing)];

/// Workers may have slots that are full of what nobody knows of any more, for a while.
const NOT_AT_ONCE: &str = "what is due starts, and what runs has a worker";

pub(super) fn find(history: &History) -> Option<Loss<'_>> {
    history.iter().find_map(|(at, fact)| match fact {
        Fact::WentBack { open } => Some(Loss { at, open }),
        _ => None,
    })
}

pub(super) fn check(history: &History, loss: &Loss<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (invariant, judge) in OF_RUN {
        let found = judge(history);
        violations.extend(found.into_iter().map(|(job, text)| Violation { invariant, job, text }));
    }
    let later = submitted_later(history, loss.at);
    let open: BTreeMap<JobId, AttemptNo> = loss.open.iter().copied().collect();
    for story in stories(history).values() {
        let judged: Vec<(&str, Option<String>)> = if later.contains(&story.id) {
            let promised = OF_JOB.into_iter().filter(|(invariant, _)| *invariant != NOT_AT_ONCE);
            promised.map(|(invariant, judge)| (invariant, judge(story))).collect()
        } else if let Some(attempt) = open.get(&story.id) {
            let rest = what_is_left(story, *attempt, loss.at);
            OF_OPEN.into_iter().map(|(invariant, judge)| (invariant, judge(&rest))).collect()
        } else {
            Vec::new()
        };
        for (invariant, text) in judged {
            violations.extend(text.map(|text| Violation { invariant, job: Some(story.id), text }));
        }
    }
    violations
}

/// How many of the open starts had begun, and were over by then.
pub fn begun_before_loss(history: &History) -> usize {
    let Some(loss) = find(history) else { return 0 };
    let stories = stories(history);
    let is_over = |(id, attempt): &&(JobId, AttemptNo)| {
        let ended =
            |(at, line): &(Timestamp, Line<'_>)| *at < loss.at && matches!(line, Line::Acked(of) if of == attempt);
        stories.get(id).is_some_and(|story| story.lines.iter().any(ended))
    };
    loss.open.iter().filter(is_over).count()
}

/// Jobs of requests that nobody had sent before.
fn submitted_later(history: &History, loss: Timestamp) -> BTreeSet<JobId> {
    let mut first = BTreeMap::new();
    let mut later = BTreeSet::new();
    for (at, fact) in history.iter() {
        if let Fact::Submit { request, jobs, .. } = fact
            && *first.entry(*request).or_insert(at) > loss
        {
            later.extend(jobs.iter().copied());
        }
    }
    later
}

/// The story without what was lost, but for what the attempt that is left on record really did.
fn what_is_left<'a>(story: &Story<'a>, open: AttemptNo, loss: Timestamp) -> Story<'a> {
    let is_left = |(at, line): &&(Timestamp, Line<'a>)| match line {
        Line::Started(start) => *at >= loss || start.attempt == open,
        Line::Begin { attempt, .. } | Line::End { attempt, .. } => *at >= loss || *attempt == open,
        _ => *at >= loss,
    };
    let lines = story.lines.iter().filter(is_left).copied().collect();
    Story { id: story.id, task: story.task.clone(), is_acknowledged: story.is_acknowledged, lines, end: story.end }
}

#[cfg(test)]
mod tests {
    use punctual_core::AttemptNo;
    use punctual_core::attempt::Ending;
    use punctual_core::task::Delivery;

    use super::super::test_history::{Tale, secs};
    use crate::history::Fact;

    fn loses(tale: Tale, open: bool) -> Tale {
        let open = if open { vec![(tale.id, AttemptNo(1))] } else { vec![] };
        tale.tell(Fact::WentBack { open })
    }

    #[test]
    fn what_was_lost_is_excused_and_a_start_that_is_left_is_not_taken_back() {
        let strict = || Tale::new(|spec| spec.delivery = Delivery::ExactlyOnce);
        loses(strict().succeed(1).acked(1), false).gone().holds();
        loses(strict().succeed(1).acked(1), false).start(1).begin(1).holds();
        let left = loses(strict().succeed(1).acked(1), true);
        let due_at = left.now() + secs(1);
        let taken_back = left.requeue(Some((1, Ending::NotStarted)), due_at);
        taken_back.start(2).begin(2).breaks("what is taken back never began");
        let left = loses(strict().succeed(1).acked(1), true);
        let due_at = left.now() + secs(1);
        left.requeue(Some((1, Ending::WorkerLost)), due_at).start(2).begin(2).breaks("strict modes begin once");
    }
}
