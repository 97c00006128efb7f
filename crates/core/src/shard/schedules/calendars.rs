//! Calendars that change while schedules are on their way.

use std::sync::Arc;

use crate::schedule::Plan;

/// What the schedules of all shards know of changes of calendars.
#[derive(Default)]
pub(in crate::shard) struct Calendars {
    /// The newest revision that schedules were notified of.
    newest: u32,
    /// Changes after this revision have to be announced again, because a schedule that was being loaded missed them.
    missed_since: Option<u32>,
}

impl Calendars {
    /// Records that schedules were notified of changes up to this revision.
    pub(super) fn told_up_to(&mut self, revision: u32) {
        self.newest = self.newest.max(revision);
    }

    /// Uses plans from now on. Plans that were made before calendar changes that schedules were notified of have to be
    /// made again.
    pub(super) fn planned_by<'a>(&mut self, revision: u32, plans: impl IntoIterator<Item = &'a Arc<Plan>>) {
        let is_outdated = revision < self.newest && plans.into_iter().any(|plan| !plan.spec.calendars.is_empty());
        if is_outdated {
            let since = self.missed_since.get_or_insert(revision);
            *since = revision.min(*since);
        }
    }

    pub(in crate::shard) fn take_missed(&mut self) -> Option<u32> {
        self.missed_since.take()
    }
}
