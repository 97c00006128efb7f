//! What a backfill is to do, as it is stored.

use jiff::tz::TimeZone;
use punctual_api::{BackfillInclude, ErrorKind, OlderTimes, UnknownTimes};
use punctual_core::namespace::NamespaceId;
use punctual_core::schedule::{Overlap, Plan, PlanError, ScheduleSpec, seed_of};
use punctual_core::{Span, Timestamp};
use punctual_store::BackfillRow;
use serde::{Deserialize, Serialize};

use crate::schedules::zone;
use crate::{App, AppError, Result};

/// The smallest step of time.
pub(super) const INSTANT: Span = Span::from_micros(1);

/// The rules of the schedule are those of the moment in which the backfill was made, so that it runs what its dry
/// run said. Calendars are read when they are needed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct BackfillSpec {
    pub(super) from: Timestamp,
    /// Not included.
    pub(super) to: Timestamp,
    pub(super) overlap: Overlap,
    /// Runs at a time; 1 unless they may overlap.
    pub(super) max_active: u32,
    pub(super) include: BackfillInclude,
    /// What becomes of times that are older than the record.
    #[serde(default)]
    pub(super) older: Option<OlderTimes>,
    /// How many there were when the backfill was made.
    #[serde(default)]
    pub(super) unknown: Option<UnknownTimes>,
    pub(super) rules: ScheduleSpec,
}

impl BackfillSpec {
    pub(super) fn read(row: &BackfillRow) -> Result<Self> {
        serde_json::from_str(&row.spec).map_err(|error| {
            tracing::error!(%error, id = %row.id, "a stored backfill cannot be read");
            AppError::new(ErrorKind::Internal, format!("what is stored of {} cannot be read", row.id))
        })
    }

    pub(super) fn write(&self) -> String {
        serde_json::to_string(self).expect("a spec is JSON")
    }

    pub(super) fn zone(&self) -> TimeZone {
        zone::find(&self.rules.when.zone)
    }
}

/// A time of the range that fires by plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Time {
    pub(super) at: Timestamp,
    /// With jitter: when the schedule itself would have run it.
    pub(super) slot: Timestamp,
}

/// The times of a backfill.
#[derive(Debug)]
pub(super) struct Times {
    plan: Plan,
    seed: u64,
    from: Timestamp,
    to: Timestamp,
}

impl Times {
    /// Those later than `reached`, in order. What calendars and clock gaps take away is not among them.
    pub(super) fn after(&self, reached: Option<Timestamp>) -> impl Iterator<Item = Time> {
        let end = zone::to_jiff(self.to);
        let after = reached.unwrap_or(self.from - INSTANT);
        let fires = self.plan.fires_after(after, self.seed).take_while(move |occurrence| occurrence.at < end);
        fires.map(|occurrence| {
            let at = zone::from_jiff(occurrence.at);
            Time { at, slot: self.plan.slot(at, self.seed) }
        })
    }
}

impl App {
    /// The outer error is the store's, the inner one says why there are no times any more.
    pub(super) async fn times_of(
        &self,
        spec: &BackfillSpec,
        namespace: NamespaceId,
        schedule_name: &str,
    ) -> Result<std::result::Result<Times, PlanError>> {
        let calendars = self.calendars_named(namespace, spec.rules.calendars.names()).await?;
        let seed = seed_of(schedule_name);
        let plan = Plan::new(spec.rules.clone(), &calendars, seed);
        Ok(plan.map(|plan| Times { plan, seed, from: spec.from, to: spec.to }))
    }
}
