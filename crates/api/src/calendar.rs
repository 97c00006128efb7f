//! Calendars on the wire: dates that schedules refer to by a name.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::DoneBy;

/// `PUT /v1/calendars/{name}`; an iCalendar file is taken as well.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CalendarRequest {
    /// Such as `2026-12-25`.
    #[schema(max_items = 10_000)]
    pub dates: Vec<String>,
}

/// A calendar with its dates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CalendarView {
    pub name: String,
    /// The dates in ascending order.
    pub dates: Vec<String>,
    /// Grows with each change.
    pub revision: u32,
    pub changed: DoneBy,
    /// How the file was read; only in the answer to a `PUT` of an iCalendar file.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub file: Option<CalendarFile>,
}

/// How an iCalendar file was read.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CalendarFile {
    /// The zone whose days are closed by events with times. Absent if all events are dates.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub zone: Option<String>,
    /// Events with times that cover no whole day. They close none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ignored: Option<EventsLeftOut>,
    /// Events that are not supported, where `skip_unsupported` asked to leave them out.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub skipped: Option<EventsLeftOut>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub warnings: Vec<String>,
}

/// Events of a file that closed no day.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EventsLeftOut {
    pub count: usize,
    /// The first of them, with its line and the reason.
    pub first: String,
}

/// `PUT /v1/calendars/{name}?…`, with an iCalendar file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct CalendarQuery {
    /// The zone in which events with times close days, as an IANA name. By default the zone that the file names, or UTC.
    /// Only for iCalendar files.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub zone: Option<String>,
    /// `true` leaves out events that are not supported instead of refusing the file. Only for iCalendar files.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub skip_unsupported: Option<String>,
}

/// A calendar in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CalendarSummary {
    pub name: String,
    /// How many dates it has.
    pub date_count: usize,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub first: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub last: Option<String>,
    pub revision: u32,
    pub changed: DoneBy,
}

/// All calendars.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CalendarList {
    /// All of them, in order of name.
    pub calendars: Vec<CalendarSummary>,
}
