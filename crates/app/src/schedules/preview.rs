//! When a schedule will fire, whether it is stored or not.

use jiff::tz::TimeZone;
use punctual_api::{Preview, PreviewQuery, PreviewedTime, ScheduleRequest, UnfiredBy, limits};
use punctual_core::schedule::recurrence::{Occurrence, Schedule};
use punctual_core::schedule::{Marks, Plan, Planned, Unfired, seed_of};
use punctual_core::{Span, Timestamp};

use crate::principal::By;
use crate::principal::permission::ViewSchedules;
use crate::schedules::{RequestZone, explain, refused, request, view, zone};
use crate::{App, Checked, Faults, Result, parameters};

/// Clock changes are told for the coming year.
const MONTHS: u32 = 12;

impl App {
    pub async fn preview_schedule(&self, by: &By<ViewSchedules>, name: &str, query: PreviewQuery) -> Result<Preview> {
        let count = read(&query)?;
        let row = self.read_schedule(by.namespace(), name).await?;
        let calendars = self.calendars_named(row.namespace, row.edit.calendars.iter()).await?;
        let seed = seed_of(&row.name);
        let plan = Plan::read(&row.edit.spec, &calendars, seed).map_err(|error| refused(error.to_string()))?;
        let decided = self.decided(std::iter::once(row.id)).await?.until(row.id, self.now());
        let mut preview = preview_plan(&plan, seed, query.from.as_deref(), decided, count)?;
        if let Some(until) = row.state.skip_until {
            let now = self.now();
            preview.occurrences.iter_mut().filter(|time| time.at <= until && time.start_at > now).for_each(skipped);
        }
        preview.reason = view::held_up(&row, &plan);
        Ok(preview)
    }

    /// Of a schedule that is not stored. It needs no task.
    pub async fn preview(
        &self,
        by: &By<ViewSchedules>,
        request: ScheduleRequest,
        query: PreviewQuery,
        zone: Option<&RequestZone>,
    ) -> Result<Preview> {
        let mut faults = Faults::default();
        let count = faults.value(read(&query)).unwrap_or_default();
        let spec = faults.value(request::spec(&request, zone.map(|zone| zone.0.as_str())));
        faults.check(request.name.as_ref().map_or(Ok(()), |name| request::name("/name", name)));
        faults.finish()?;
        let spec = spec.expect("it was read, or refused");
        let calendars = self.calendars_named(by.namespace(), spec.calendars.names()).await?;
        let seed = seed_of(request.name.as_deref().unwrap_or_default());
        let plan = Plan::new(spec, &calendars, seed).map_err(|error| request::refused(&request, error))?;
        preview_plan(&plan, seed, query.from.as_deref(), self.now(), count)
    }
}

/// Without `from`, what comes after `decided`.
fn preview_plan(plan: &Plan, seed: u64, from: Option<&str>, decided: Timestamp, count: usize) -> Result<Preview> {
    let (schedule, zone) = (plan.schedule(seed), plan.zone());
    let after = match from {
        // From a time on, that time included.
        Some(text) => zone::parse_time("from", text, zone)? - Span::from_micros(1),
        None => decided,
    };
    let times = plan.times_after(after, seed).take(count).map(|planned| previewed(&schedule, &planned));
    let changes = schedule.coming_changes(zone::to_jiff(after), MONTHS);
    let rules = plan.spec.when.rules.len();
    Ok(Preview {
        explanation: explain::plan(plan, seed),
        zone: plan.spec.when.zone.clone(),
        reason: None,
        occurrences: times.collect(),
        clock_changes: changes.iter().map(|change| explain::clock_change(change, zone, rules)).collect(),
    })
}

fn previewed(schedule: &Schedule, planned: &Planned) -> PreviewedTime {
    let zone = schedule.zone();
    // Most have nothing to say.
    let occurrence = if planned.marks == Marks::NONE { None } else { occurrence_at(schedule, planned.at) };
    let nominal = occurrence.map(|occurrence| occurrence.nominal);
    let planned_on = occurrence.and_then(|occurrence| occurrence.adjusted_from);
    PreviewedTime {
        at: planned.at,
        local: zone::local(planned.at, zone),
        start_at: planned.slot,
        note: explain::planned(planned, nominal, planned_on),
        unfired: planned.unfired.map(|unfired| match unfired {
            Unfired::Calendar => UnfiredBy::Calendar,
            Unfired::Gap => UnfiredBy::Gap,
        }),
        merged: planned.count.saturating_sub(1),
    }
}

/// Unless it does not fire anyway.
fn skipped(time: &mut PreviewedTime) {
    if time.unfired.is_none() {
        time.unfired = Some(UnfiredBy::Request);
        time.note = Some("does not fire: somebody asked to skip it".to_owned());
    }
}

fn occurrence_at(schedule: &Schedule, at: Timestamp) -> Option<Occurrence> {
    let (from, to) = (zone::to_jiff(at), zone::to_jiff(at + Span::from_micros(1)));
    schedule.between(from, to).next()
}

/// How many times are wanted. A date is read again in the zone of the schedule.
fn read(query: &PreviewQuery) -> Result<usize> {
    let mut faults = Faults::default();
    let count = faults.value(parameters::number("count", query.count.as_deref(), 1..=limits::PREVIEW_MAX)).flatten();
    if let Some(from) = &query.from {
        faults.check(zone::parse_time("from", from, &TimeZone::UTC).map(drop));
    }
    faults.finish()?;
    Ok(count.unwrap_or(limits::PREVIEW_DEFAULT))
}

impl Checked for PreviewQuery {
    fn check(&self) -> Result<()> {
        read(self).map(drop)
    }
}
