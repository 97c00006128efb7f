//! A stored definition, as a user could write it.

use punctual_api::{CalendarsRequest, CatchUpRequest, ScheduleRequest};
use punctual_core::Span;
use punctual_core::schedule::{CatchUp, CatchUpMode, Overlap, ScheduleEdit, ScheduleSpec};
use punctual_core::task::Task;

use crate::jobs::raw_json;
use crate::schedules::rules;
use crate::schedules::zone::from_jiff;

/// What is at its default is left out.
pub(super) fn write(spec: &ScheduleSpec, edit: &ScheduleEdit, task: Option<&Task>) -> ScheduleRequest {
    let when = &spec.when;
    let mut request = ScheduleRequest {
        task: task.and_then(|task| task.name.clone()),
        inline: task.filter(|task| task.name.is_none()).map(|task| task.spec.clone()),
        zone: Some(when.zone.clone()),
        start_at: when.start_at.map(from_jiff),
        end_at: when.end_at.map(from_jiff),
        gap: unless_default(when.gap),
        fold: unless_default(when.fold),
        jitter: when.jitter.map(|window| Span::from_micros(i64::try_from(window.as_micros()).unwrap_or(i64::MAX))),
        calendars: unless_default(spec.calendars.clone()).map(|names| CalendarsRequest {
            exclude: names.exclude,
            include: names.include,
            on_closed_day: unless_default(names.on_closed_day),
        }),
        overlap: Some(spec.overlap).filter(|overlap| *overlap != Overlap::default()),
        catch_up: catch_up(spec.catch_up),
        max_runs: spec.max_runs,
        pause_after_failures: spec.pause_after_failures,
        late_after: spec.late_after,
        missed_after: spec.missed_after,
        input: edit.input.clone().and_then(raw_json),
        priority: edit.priority,
        ..ScheduleRequest::default()
    };
    rules::write(&when.rules, &mut request);
    request
}

fn unless_default<T: Default + PartialEq>(value: T) -> Option<T> {
    Some(value).filter(|value| *value != T::default())
}

/// What has no effect with its mode is left out, too: it would be refused.
fn catch_up(stored: CatchUp) -> Option<CatchUpRequest> {
    let standard = CatchUp::default();
    let of_all = |value: u32, standard: u32| (stored.mode == CatchUpMode::All && value != standard).then_some(value);
    let request = CatchUpRequest {
        mode: Some(stored.mode),
        max: of_all(stored.max, standard.max),
        window: stored.window.filter(|_| stored.mode != CatchUpMode::None),
        per_minute: of_all(stored.per_minute, standard.per_minute),
    };
    let is_standard = stored.mode == standard.mode && request.window.is_none();
    (!is_standard).then_some(request)
}
