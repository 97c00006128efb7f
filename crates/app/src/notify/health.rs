//! Which tasks ail: they have failed and not succeeded since. A recovery is told only of those.

use std::collections::{BTreeMap, BTreeSet};

use punctual_core::notice::{Notice, NoticeKind};
use punctual_core::{TaskId, Timestamp};
use punctual_store::Ailing;

/// What is known of the tasks of some notices, and what changes with them.
#[derive(Default)]
pub(super) struct Health {
    ailing: BTreeMap<TaskId, Ailing>,
    /// Tasks that are there and have names. Others are of jobs that run once, or gone: nobody waits for their recovery.
    named: BTreeSet<TaskId>,
    changed: BTreeSet<TaskId>,
}

impl Health {
    pub(super) fn new(ailing: Vec<Ailing>, named: BTreeSet<TaskId>) -> Self {
        let ailing = ailing.into_iter().map(|ailing| (ailing.task, ailing)).collect();
        Self { ailing, named, changed: BTreeSet::new() }
    }

    /// Notices come in the order of their times. False: a recovery that is none.
    pub(super) fn note(&mut self, notice: &Notice) -> bool {
        let Some(task) = notice.task else { return notice.kind != NoticeKind::Recovered };
        match notice.kind {
            NoticeKind::Failed | NoticeKind::Lost | NoticeKind::Quarantined => {
                self.failed(task, notice.at, notice.count);
                true
            }
            NoticeKind::Recovered => {
                let was_ill = self.ailing.get(&task).is_some_and(|ailing| ailing.last < notice.at);
                if was_ill {
                    self.ailing.remove(&task);
                    self.changed.insert(task);
                }
                was_ill
            }
            NoticeKind::Missed | NoticeKind::Late => true,
        }
    }

    fn failed(&mut self, task: TaskId, at: Timestamp, count: u32) {
        if !self.named.contains(&task) {
            if self.ailing.remove(&task).is_some() {
                self.changed.insert(task);
            }
            return;
        }
        let ailing = self.ailing.entry(task).or_insert(Ailing { task, since: at, last: at, failures: 0 });
        ailing.since = ailing.since.min(at);
        ailing.last = ailing.last.max(at);
        ailing.failures = ailing.failures.saturating_add(count.max(1));
        self.changed.insert(task);
    }

    /// Those that ail now, and those that are well again, of all that changed.
    pub(super) fn into_changes(mut self) -> (Vec<Ailing>, Vec<TaskId>) {
        let (mut ailing, mut well) = (Vec::new(), Vec::new());
        for task in self.changed {
            match self.ailing.remove(&task) {
                Some(ill) => ailing.push(ill),
                None => well.push(task),
            }
        }
        (ailing, well)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_core::{ShardId, Span};

    fn at(secs: i64) -> Timestamp {
        Timestamp::EPOCH + Span::from_secs(secs)
    }

    fn notice(kind: NoticeKind, secs: i64) -> Notice {
        let task = Some(task());
        Notice { at: at(secs), kind, shard: ShardId(0), task, job: None, planned: None, count: 1, lateness: None }
    }

    fn task() -> TaskId {
        TaskId::new(at(0), 1)
    }

    fn named() -> BTreeSet<TaskId> {
        [task()].into()
    }

    #[test]
    fn only_a_task_that_had_failed_recovers_and_only_once() {
        let mut health = Health::new(vec![], named());
        assert!(!health.note(&notice(NoticeKind::Recovered, 1)), "it was never ill");
        assert!(health.note(&notice(NoticeKind::Failed, 2)));
        assert!(health.note(&notice(NoticeKind::Lost, 3)));
        assert!(
            !health.note(&notice(NoticeKind::Recovered, 3)),
            "the success came before the last failure, or with it"
        );
        assert!(health.note(&notice(NoticeKind::Recovered, 4)));
        assert!(!health.note(&notice(NoticeKind::Recovered, 5)), "another owner saw the same recovery");
        assert_eq!(health.into_changes(), (vec![], vec![task()]));
    }

    #[test]
    fn failures_are_counted_from_the_first_one_on() {
        let known = Ailing { task: task(), since: at(1), last: at(2), failures: 7 };
        let mut health = Health::new(vec![known], named());
        assert!(health.note(&notice(NoticeKind::Quarantined, 9)));
        assert!(health.note(&notice(NoticeKind::Missed, 10)), "a missed time says nothing of the task");
        let expected = Ailing { task: task(), since: at(1), last: at(9), failures: 8 };
        assert_eq!(health.into_changes(), (vec![expected], vec![]));
    }

    #[test]
    fn a_task_without_a_name_or_that_is_gone_does_not_ail() {
        let known = Ailing { task: task(), since: at(1), last: at(2), failures: 7 };
        for (known, well) in [(vec![], vec![]), (vec![known], vec![task()])] {
            let mut health = Health::new(known, BTreeSet::new());
            assert!(health.note(&notice(NoticeKind::Failed, 9)), "it is told all the same");
            assert_eq!(health.into_changes(), (vec![], well));
        }
    }

    #[test]
    fn what_did_not_change_is_not_written() {
        let known = Ailing { task: task(), since: at(1), last: at(5), failures: 7 };
        let mut health = Health::new(vec![known], named());
        assert!(!health.note(&notice(NoticeKind::Recovered, 4)), "it failed after that");
        assert_eq!(health.into_changes(), (vec![], vec![]));
    }
}
