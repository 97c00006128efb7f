//! What schedules would do, on the wire.

use punctual_core::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

#[derive(Debug, Clone, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ForecastQuery {
    /// From when on, included, as RFC 3339 or as a date in UTC. Without it: now.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub from: Option<String>,
    /// Until when, not included. Without it: a day after.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub to: Option<String>,
    /// How long a run takes whose task has never run; 10s without it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub assume: Option<String>,
    /// Only schedules whose names begin so.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub prefix: Option<String>,
}

/// What all schedules would do from one moment to another, with as many workers as they need.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Forecast {
    #[schema(value_type = String, format = DateTime)]
    pub from: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    pub to: Timestamp,
    /// It has so many planned times that it ends earlier than asked for.
    pub is_cut: bool,
    pub schedules: usize,
    /// Runs that begin.
    pub starts: usize,
    /// Planned times that are skipped because a run before them has not ended.
    pub skipped: usize,
    /// Planned times that still wait at the end for a run before them.
    pub queued_at_end: usize,
    /// Planned times that do not run for another reason: a pause, a calendar.
    pub not_run: usize,
    /// The moment with the most runs at once, and how many.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub peak: Option<Busy>,
    /// The starts of each hour, for a day at most.
    pub hours: Vec<HourOfForecast>,
    /// The minutes with the most starts.
    pub busiest: Vec<Busy>,
    /// A warning, if much falls on the full hour.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub herd: Option<String>,
    /// The schedules whose runs meet most often.
    pub overlapping: Vec<ScheduleForecast>,
}

/// When most runs are active at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Busy {
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    pub starts: usize,
}

/// What a forecast says of one hour.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HourOfForecast {
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// Twelve numbers: the starts of each five minutes.
    pub parts: Vec<usize>,
}

/// What a forecast says of one schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScheduleForecast {
    pub name: String,
    /// Its planned times.
    pub planned: usize,
    /// Those that a run before them holds up.
    pub held_up: usize,
}
