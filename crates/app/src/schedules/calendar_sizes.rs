//! Whether the schedules that refer to a calendar can take its new dates: all calendars of a schedule together have a
//! limit. A schedule above it would stop firing.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use punctual_core::namespace::NamespaceId;
use punctual_core::schedule::recurrence::CALENDAR_DATES_MAX;

use crate::schedules::view::read_spec;
use crate::{App, AppError, Result};

/// Schedules that are read together.
const PAGE: usize = 1000;

impl App {
    /// For a calendar that is to have more dates than before. Owners walk the same schedules when they plan them anew;
    /// here this is only done if the dates of all calendars together could be too many. A schedule or calendar that
    /// changes at the same moment is not seen; the schedule then says itself that it is broken.
    pub(super) async fn check_users(&self, namespace: NamespaceId, calendar: &str, dates: usize) -> Result<()> {
        let all = self.0.store.calendars(Some(namespace)).await?;
        let mut sizes: HashMap<String, usize> = all.into_iter().map(|one| (one.name, one.dates.len())).collect();
        sizes.insert(calendar.to_owned(), dates);
        // A schedule may name a calendar twice: to open dates, and to close them.
        let most = sizes.values().sum::<usize>().saturating_mul(2);
        if most <= CALENDAR_DATES_MAX {
            return Ok(());
        }
        let mut checked: HashSet<Arc<str>> = HashSet::new();
        let mut after = None;
        loop {
            let names = vec![(namespace, calendar.to_owned())];
            let users = self.0.store.schedules_with_calendars(names, after, PAGE).await?;
            after = users.last().map(|last| last.id).filter(|_| users.len() == PAGE);
            for user in users {
                // Most definitions are those of many.
                if checked.contains(&user.spec) {
                    continue;
                }
                let spec = read_spec(&user.spec);
                let names = spec.iter().flat_map(|spec| spec.calendars.names());
                let sum: usize = names.filter_map(|name| sizes.get(name)).sum();
                if sum > CALENDAR_DATES_MAX {
                    return Err(too_many(&user.name, sum));
                }
                if checked.len() < PAGE {
                    checked.insert(user.spec);
                }
            }
            if after.is_none() {
                return Ok(());
            }
        }
    }
}

fn too_many(schedule: &str, sum: usize) -> AppError {
    let detail =
        format!("the calendars of the schedule {schedule} would have {sum} dates, and may have {CALENDAR_DATES_MAX}");
    AppError::invalid(detail).hint("leave out dates long past, or take a calendar out of that schedule first")
}
