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

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CalendarView {
    pub name: String,
    /// In their order.
    pub dates: Vec<String>,
    /// Grows with each change.
    pub revision: u32,
    pub changed: DoneBy,
}

/// A calendar in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CalendarSummary {
    pub name: String,
    /// How many dates it has.
    pub dates: usize,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub first: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub last: Option<String>,
    pub revision: u32,
    pub changed: DoneBy,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CalendarList {
    /// All of them, in order of name.
    pub calendars: Vec<CalendarSummary>,
}
