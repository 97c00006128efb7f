//! What a user wrote down of a schedule, checked and put into the core's words.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::SignedDuration;
use punctual_api::{CalendarsRequest, CatchUpRequest, FieldCode, ScheduleBulkRequest, ScheduleRequest};
use punctual_core::schedule::recurrence::{self, Calendar, Calendars, ScheduleError};
use punctual_core::schedule::{
    CATCH_UP_MAX, CalendarNames, CatchUp, CatchUpMode, MISSED_AFTER_RANGE, PAUSE_AFTER_MAX, Plan, PlanError,
    ScheduleSpec, seed_of,
};
use punctual_core::{ScheduleId, Span};

use crate::faults::each;
use crate::schedules::rules;
use crate::schedules::zone::{self, to_jiff};
use crate::{AppError, Checked, Faults, Result, validate};

const WINDOW_MAX: Span = Span::from_secs(366 * 86_400);
const PER_MINUTE_MAX: u32 = 60_000;
const LATE_AFTER_MIN: Span = Span::from_secs(1);

/// What stands in the place of a name in addresses.
const RESERVED: [&str; 2] = ["bulk", "preview"];

/// Everything that can be checked without looking anything up.
pub(super) fn check(request: &ScheduleRequest) -> Result<()> {
    let mut faults = Faults::default();
    if let Some(name) = &request.name {
        faults.check(self::name("/name", name));
    }
    faults.check(match (&request.task, &request.inline, &request.workflow) {
        (Some(name), None, None) => validate::name("/task", name),
        (None, Some(spec), None) => validate::spec(spec).map_err(|error| error.under("/inline")),
        (None, None, Some(workflow)) => validate::name("/workflow", workflow),
        (Some(_), Some(_), None) => {
            let error = AppError::field("", "the schedule has both a task and an inline definition");
            Err(error.hint("give one of the two"))
        }
        (_, _, Some(_)) => {
            let error = AppError::field("", "the schedule has both a task and a workflow");
            Err(error.hint("give one of `task`, `inline` and `workflow`"))
        }
        (None, None, None) => {
            let error = AppError::field("", "the schedule names no task");
            Err(error.hint("give `task` or `workflow`, the name of one, or define a task in `inline`"))
        }
    });
    if let Some(input) = &request.input {
        faults.check(validate::input(input.get()));
    }
    faults.finish()
}

impl Checked for ScheduleRequest {
    fn check(&self) -> Result<()> {
        let mut faults = Faults::default();
        faults.check(check(self));
        faults.check(spec(self, None).map(drop));
        faults.finish()
    }
}

impl Checked for ScheduleBulkRequest {
    fn check(&self) -> Result<()> {
        each(&self.schedules, "/schedules")
    }
}

/// The name of a schedule. Ids are kept for those that have no other.
pub(super) fn name(pointer: &str, name: &str) -> Result<()> {
    validate::name(pointer, name)?;
    if RESERVED.contains(&name) {
        return Err(AppError::field(pointer, format!("must not be `{name}`, which is part of the interface")));
    }
    if name.parse::<ScheduleId>().is_ok() {
        let error = AppError::field(pointer, "must not look like the id of a schedule");
        return Err(error.hint("leave it out if the schedule needs no name"));
    }
    Ok(())
}

/// `zone` is that of a request whose body names none.
pub(super) fn spec(request: &ScheduleRequest, zone: Option<&str>) -> Result<ScheduleSpec> {
    let mut faults = Faults::default();
    let zone = match (&request.zone, zone) {
        (Some(name), _) => faults.value(zone::check("/zone", name)),
        (None, Some(name)) => Some(name.to_owned()),
        (None, None) => Some("UTC".to_owned()),
    };
    let when = recurrence::ScheduleSpec {
        rules: faults.value(rules::read(request)).unwrap_or_default(),
        zone: zone.unwrap_or_default(),
        start_at: request.start_at.map(to_jiff),
        end_at: request.end_at.map(to_jiff),
        gap: request.gap.unwrap_or_default(),
        fold: request.fold.unwrap_or_default(),
        jitter: request.jitter.map(|window| SignedDuration::from_micros(window.as_micros())),
        calendars: Calendars::default(),
    };
    let at_least_one = |pointer: &str, value: Option<u64>, max: u64| match value {
        Some(value) if !(1..=max).contains(&value) => {
            Err(AppError::field(pointer, format!("must be 1 to {max}")).code(FieldCode::OutOfRange))
        }
        Some(_) | None => Ok(()),
    };
    faults.check(at_least_one("/max_runs", request.max_runs.map(u64::from), u32::MAX.into()));
    let failures = request.pause_after_failures.map(u64::from);
    faults.check(at_least_one("/pause_after_failures", failures, PAUSE_AFTER_MAX.into()));
    if request.late_after.is_some_and(|late_after| late_after < LATE_AFTER_MIN) {
        faults.check(Err(AppError::field("/late_after", "must be at least 1s").code(FieldCode::OutOfRange)));
    }
    if request.missed_after.is_some_and(|missed_after| !MISSED_AFTER_RANGE.contains(&missed_after)) {
        let (least, most) = (MISSED_AFTER_RANGE.start(), MISSED_AFTER_RANGE.end());
        let error = AppError::field("/missed_after", format!("must be {least} to {most}"));
        faults.check(Err(error.code(FieldCode::OutOfRange)));
    }
    let calendars = request.calendars.as_ref().and_then(|written| faults.value(calendars(written)));
    let catch_up = request.catch_up.and_then(|written| faults.value(catch_up(written)));
    faults.finish()?;
    Ok(ScheduleSpec {
        when,
        calendars: calendars.unwrap_or_default(),
        overlap: request.overlap.unwrap_or_default(),
        catch_up: catch_up.unwrap_or_default(),
        max_runs: request.max_runs,
        pause_after_failures: request.pause_after_failures,
        late_after: request.late_after,
        missed_after: request.missed_after,
    })
}

fn calendars(request: &CalendarsRequest) -> Result<CalendarNames> {
    let mut faults = Faults::default();
    for (list, names) in [("exclude", &request.exclude), ("include", &request.include)] {
        for (place, name) in names.iter().enumerate() {
            faults.check(validate::name(&format!("/calendars/{list}/{place}"), name));
        }
    }
    faults.finish()?;
    Ok(CalendarNames {
        exclude: request.exclude.clone(),
        include: request.include.clone(),
        on_closed_day: request.on_closed_day.unwrap_or_default(),
    })
}

fn catch_up(request: CatchUpRequest) -> Result<CatchUp> {
    let standard = CatchUp::default();
    let catch_up = CatchUp {
        mode: request.mode.unwrap_or(standard.mode),
        max: request.max.unwrap_or(standard.max),
        window: request.window,
        per_minute: request.per_minute.unwrap_or(standard.per_minute),
    };
    let mut faults = Faults::default();
    let mut refuse = |field: &str, detail: String| {
        faults.check(Err(AppError::out_of_range(format!("/catch_up/{field}"), detail)));
    };
    if !(1..=CATCH_UP_MAX).contains(&catch_up.max) {
        refuse("max", format!("must be 1 to {CATCH_UP_MAX}"));
    }
    if !(1..=PER_MINUTE_MAX).contains(&catch_up.per_minute) {
        refuse("per_minute", format!("must be 1 to {PER_MINUTE_MAX}"));
    }
    if catch_up.window.is_some_and(|window| window == Span::ZERO || window > WINDOW_MAX) {
        refuse("window", "must be more than 0 and at most 366 days".to_owned());
    }
    faults.finish()?;
    let (mode, is_all) = (catch_up.mode, catch_up.mode == CatchUpMode::All);
    let without_effect = [
        ("max", request.max.is_some() && !is_all),
        ("window", request.window.is_some() && mode == CatchUpMode::None),
        ("per_minute", request.per_minute.is_some() && !is_all),
    ];
    if let Some((field, _)) = without_effect.into_iter().find(|(_, is_given)| *is_given) {
        let runs = if mode == CatchUpMode::None { "none runs" } else { "the last one alone runs" };
        let error = AppError::field(format!("/catch_up/{field}"), format!("has no effect: of missed times {runs}"));
        return Err(error.hint("leave it out, or set the mode of catch-up to `all`"));
    }
    Ok(catch_up)
}

/// Calendars that are known, by name.
pub(crate) type Known = BTreeMap<String, Arc<Calendar>>;

/// What a spec means, if it means anything, whatever the name of the schedule.
pub(super) fn plan(request: &ScheduleRequest, spec: &ScheduleSpec, known: &Known) -> Result<Plan> {
    Plan::shared(spec.clone(), known).map_err(|error| refused(request, error))
}

/// Whether that fires for a schedule of this name.
pub(super) fn check_name(request: &ScheduleRequest, plan: &Plan, name: &str) -> Result<()> {
    plan.check(seed_of(name)).map_err(|error| refused(request, error))
}

/// Says where in the request the fault is.
pub(super) fn refused(request: &ScheduleRequest, error: PlanError) -> AppError {
    let detail = error.to_string();
    match error {
        PlanError::NoCalendar(name) => {
            let places = request.calendars.iter().flat_map(|calendars| {
                let exclude = calendars.exclude.iter().enumerate().map(|(place, name)| ("exclude", place, name));
                exclude.chain(calendars.include.iter().enumerate().map(|(place, name)| ("include", place, name)))
            });
            let place = places.into_iter().find(|(_, _, known)| **known == name);
            let pointer =
                place.map_or("/calendars".to_owned(), |(list, place, _)| format!("/calendars/{list}/{place}"));
            AppError::field(pointer, detail).hint("PUT /v1/calendars/{name} makes one; GET /v1/calendars lists them")
        }
        PlanError::Unreadable(_) => AppError::field("", detail),
        PlanError::When(error) => AppError::field(pointer_of(request, &error), detail).code(code_of(&error)),
    }
}

fn pointer_of(request: &ScheduleRequest, error: &ScheduleError) -> String {
    match error {
        ScheduleError::NoRules => String::new(),
        ScheduleError::TooManyRules { .. } => "/rules".to_owned(),
        ScheduleError::UnknownZone { .. } => "/zone".to_owned(),
        ScheduleError::EmptyWindow { .. } => "/end_at".to_owned(),
        ScheduleError::NoTimeOfDay { rule, .. } => format!("{}/daily", rules::place(request, *rule)),
        ScheduleError::IntervalOutOfRange { rule, .. } => format!("{}/every", rules::place(request, *rule)),
        ScheduleError::NeverFires { rule, .. } => format!("{}/cron", rules::place(request, *rule)),
        ScheduleError::JitterOutOfRange { .. } => "/jitter".to_owned(),
        ScheduleError::TooManyDates { .. }
        | ScheduleError::TooManyCalendars { .. }
        | ScheduleError::CalendarNameLength { .. } => "/calendars".to_owned(),
        ScheduleError::KeyTooLong { .. } => "/name".to_owned(),
    }
}

fn code_of(error: &ScheduleError) -> FieldCode {
    match error {
        ScheduleError::EmptyWindow { .. }
        | ScheduleError::IntervalOutOfRange { .. }
        | ScheduleError::JitterOutOfRange { .. } => FieldCode::OutOfRange,
        ScheduleError::TooManyRules { .. }
        | ScheduleError::TooManyDates { .. }
        | ScheduleError::TooManyCalendars { .. }
        | ScheduleError::KeyTooLong { .. } => FieldCode::TooLong,
        ScheduleError::NoRules
        | ScheduleError::UnknownZone { .. }
        | ScheduleError::NoTimeOfDay { .. }
        | ScheduleError::NeverFires { .. }
        | ScheduleError::CalendarNameLength { .. } => FieldCode::InvalidValue,
    }
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
