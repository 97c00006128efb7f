//! Schedules: when tasks run, again and again, and what became of each planned time.
//!
//! The owner of a schedule's shard decides about it, so every change goes to that server. Reads come
//! straight from the store. Inputs are checked here; the owner is only asked for what can be done.

mod calendar_sizes;
mod calendars;
mod commands;
mod create;
mod decided;
mod definition;
mod explain;
mod icalendar;
mod left_out;
mod occurrences;
pub(crate) mod plans;
mod preview;
mod request;
mod route;
mod rules;
mod view;
pub(crate) mod zone;

use punctual_api::{ErrorKind, JobSchedule, limits};
use punctual_core::ScheduleId;
use punctual_core::namespace::NamespaceId;
use punctual_core::schedule::{ChangeKind, ScheduleRow, ScheduleSpec, Source};
use punctual_store::Result as StoreResult;

use crate::title::Titles;
use crate::{App, AppError, Result, validate};

pub(crate) use calendars::done_by;
pub use create::Put;
pub(crate) use view::read_spec;

/// The zone of a request whose body names none, checked.
#[derive(Debug, Clone)]
pub struct RequestZone(String);

impl RequestZone {
    /// `header` is where it came from.
    pub fn parse(header: &str, text: &str) -> Result<Self> {
        zone::check(header, text).map(Self)
    }
}

impl App {
    /// The id of the schedule with this name in a namespace; an id stands for itself.
    pub(crate) async fn find_schedule(&self, namespace: NamespaceId, name: &str) -> Result<ScheduleId> {
        validate::name("name", name)?;
        if let Ok(id) = name.parse::<ScheduleId>() {
            let is_ours = id.shard().0 < self.0.store.shard_count() && self.is_schedule_of(namespace, id).await?;
            return if is_ours { Ok(id) } else { Err(not_found(name)) };
        }
        let found = self.0.store.schedule_ids(namespace, vec![name.to_owned()]).await?;
        found.first().map(|(_, id)| *id).ok_or_else(|| not_found(name))
    }

    /// Whether a schedule may be of a namespace. Of one that is gone nobody knows it, unless there is one namespace.
    async fn is_schedule_of(&self, namespace: NamespaceId, id: ScheduleId) -> Result<bool> {
        if namespace.is_default() && self.has_one_namespace().await? {
            return Ok(true);
        }
        Ok(self.0.store.schedule(id).await?.is_some_and(|row| row.namespace == namespace))
    }

    pub(crate) async fn read_schedule(&self, namespace: NamespaceId, name: &str) -> Result<ScheduleRow> {
        let id = self.find_schedule(namespace, name).await?;
        self.0.store.schedule(id).await?.ok_or_else(|| not_found(name))
    }

    /// The name of a schedule. Of one that was deleted, the record of that has it, until retention removes the record.
    pub(crate) async fn schedule_name(&self, id: ScheduleId) -> StoreResult<Option<String>> {
        if let Some(row) = self.0.store.schedule(id).await? {
            return Ok(Some(row.name));
        }
        let last = self.0.store.schedule_changes(id, 1).await?.into_iter().next();
        Ok(last.filter(|change| change.kind == ChangeKind::Deleted).and_then(|change| change.note))
    }
}

/// Its rules as they are stored; `None` if they cannot be read.
pub(crate) fn read_rules(schedule: &ScheduleRow) -> Option<ScheduleSpec> {
    view::read_spec(&schedule.edit.spec)
}

/// The schedule that made a job, by the name that it has or had.
pub(crate) fn job_schedule(source: Source, titles: &Titles) -> JobSchedule {
    let name = titles.schedule(source.schedule);
    JobSchedule { id: source.schedule, name, at: source.at, kind: source.kind.as_str().to_owned() }
}

fn not_found(name: &str) -> AppError {
    let shown: String = name.chars().take(limits::NAME_CHARS_MAX).collect();
    AppError::new(ErrorKind::ScheduleNotFound, format!("there is no schedule named {shown}"))
        .hint("GET /v1/schedules lists them; PUT /v1/schedules/{name} makes one")
}

pub(crate) fn refused(reason: String) -> AppError {
    AppError::new(ErrorKind::ScheduleRefused, reason)
}
