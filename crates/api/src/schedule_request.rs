//! What a user writes down of a schedule.

use std::fmt;

use punctual_core::schedule::recurrence::{FoldPolicy, GapPolicy, OnClosedDay};
use punctual_core::schedule::{CatchUpMode, Overlap};
use punctual_core::task::{Priority, TaskSpec};
use punctual_core::{Span, Timestamp};
use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::schema;

/// Says when a task runs. Either `task` names it, or `inline` defines it for this schedule alone. One of
/// `cron`, `every`, `daily`, `at` and `rules` says when.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScheduleRequest {
    /// Without one, the id of the schedule is its name. With `PUT`, the one in the path counts.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub name: Option<String>,
    /// The name of a task.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub task: Option<String>,
    /// The name of a workflow, of which the newest version is run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub workflow: Option<String>,
    /// A task for this schedule alone.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub inline: Option<TaskSpec>,
    /// A cron expression of five fields, or six with seconds in front; or `@daily` and its like.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(example = "30 9 * * MON-FRI")]
    pub cron: Option<String>,
    /// Again and again after this time.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>, format = "x-duration", example = "PT1M30S")]
    pub every: Option<Span>,
    /// With `every`: one run falls on this instant. Otherwise on `start_at`, or else on 1970-01-01T00:00:00Z.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub anchor: Option<Timestamp>,
    /// Every day at this time.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(example = "09:30")]
    pub daily: Option<String>,
    /// Once, at this time.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub at: Option<Timestamp>,
    /// Several rules; it fires when any of them does.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    #[schema(max_items = 32)]
    pub rules: Vec<RuleRequest>,
    /// An IANA name. Without one, the header `Time-Zone` of the request counts, and without that, UTC.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(example = "Europe/Berlin")]
    pub zone: Option<String>,
    /// The first instant at which it may fire.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub start_at: Option<Timestamp>,
    /// The first instant at which it fires no more.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub end_at: Option<Timestamp>,
    /// What becomes of a time of day that a clock change leaves out; `shift` by default.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(schema_with = schema::gap_policy, required = false)]
    pub gap: Option<GapPolicy>,
    /// What becomes of a time of day that a clock change repeats; `first` by default.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(schema_with = schema::fold_policy, required = false)]
    pub fold: Option<FoldPolicy>,
    /// Each start is delayed by a stable amount below this; 1 ms to 24 h.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>, format = "x-duration", example = "PT1M")]
    pub jitter: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub calendars: Option<CalendarsRequest>,
    /// What happens at a time at which a run of the schedule has not ended; `allow` by default.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub overlap: Option<Overlap>,
    /// What becomes of missed times. The mode alone may be given as a string.
    #[serde(skip_serializing_if = "Option::is_none", default, deserialize_with = "catch_up")]
    #[schema(value_type = Option<CatchUpForm>)]
    pub catch_up: Option<CatchUpRequest>,
    /// It ends after so many runs by plan.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(minimum = 1)]
    pub max_runs: Option<u32>,
    /// It pauses itself after so many failures in a row.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(minimum = 1, maximum = 1000)]
    pub pause_after_failures: Option<u16>,
    /// A run that starts later than this is marked late.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>, format = "x-duration", example = "PT1M")]
    pub late_after: Option<Span>,
    /// A planned time that no server has handled for this long is missed, and `catch_up` says what becomes of it; 1 s to 1 h.
    /// By default the time until the next planned one, but at least 1 s and at most the servers' `missed_after`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>, format = "x-duration", example = "PT5S")]
    pub missed_after: Option<Span>,
    /// Any JSON, handed to each run as it is.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Value, required = false)]
    pub input: Option<Box<RawValue>>,
    /// Instead of the task's own.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<i8>, minimum = -100, maximum = 100)]
    pub priority: Option<Priority>,
}

/// One of `cron`, `every`, `daily` and `at`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RuleRequest {
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(example = "30 9 * * MON-FRI")]
    pub cron: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>, format = "x-duration", example = "PT1M30S")]
    pub every: Option<Span>,
    /// With `every`: one run falls on this instant.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub anchor: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(example = "09:30")]
    pub daily: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub at: Option<Timestamp>,
}

/// The calendars that a schedule obeys, by name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CalendarsRequest {
    /// It never fires on their dates.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub exclude: Vec<String>,
    /// If there are any, it fires on their dates only.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub include: Vec<String>,
    /// What becomes of a day on which it may not fire; `skip` by default.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(schema_with = schema::on_closed_day, required = false)]
    pub on_closed_day: Option<OnClosedDay>,
}

/// What becomes of missed times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CatchUpRequest {
    /// `last` by default.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub mode: Option<CatchUpMode>,
    /// With `all`: no more than so many, the latest ones; 100 by default.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(minimum = 1, maximum = 10_000)]
    pub max: Option<u32>,
    /// None that is older; at most 366 days. By default a day with `all`, and no limit with `last`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>, format = "x-duration", example = "PT24H")]
    pub window: Option<Span>,
    /// With `all`: how many are started in a minute; 60 by default.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(minimum = 1, maximum = 60_000)]
    pub per_minute: Option<u32>,
}

/// How `catch_up` may be written; for the OpenAPI document.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub enum CatchUpForm {
    Mode(CatchUpMode),
    Whole(CatchUpRequest),
}

/// Reads `"all"` as `{"mode": "all"}`.
fn catch_up<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<CatchUpRequest>, D::Error> {
    struct ModeOrAll;

    impl<'de> Visitor<'de> for ModeOrAll {
        type Value = Option<CatchUpRequest>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("none, last, all, or an object with mode, max, window and per_minute")
        }

        fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_str<E: Error>(self, word: &str) -> Result<Self::Value, E> {
            let mode = CatchUpMode::deserialize(StrDeserializer::new(word))?;
            Ok(Some(CatchUpRequest { mode: Some(mode), ..CatchUpRequest::default() }))
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
            CatchUpRequest::deserialize(MapAccessDeserializer::new(map)).map(Some)
        }
    }

    deserializer.deserialize_any(ModeOrAll)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Option<CatchUpRequest>, String> {
        let text = format!(r#"{{"catch_up": {json}}}"#);
        serde_json::from_str::<ScheduleRequest>(&text)
            .map(|request| request.catch_up)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_mode_alone_stands_for_the_whole_of_catch_up() {
        let all = CatchUpRequest { mode: Some(CatchUpMode::All), ..CatchUpRequest::default() };
        assert_eq!(read(r#""all""#), Ok(Some(all)));
        assert_eq!(read(r#"{"mode": "all"}"#), Ok(Some(all)));
        assert_eq!(read(r#"{"mode": "all", "max": 7}"#), Ok(Some(CatchUpRequest { max: Some(7), ..all })));
        assert_eq!(read("null"), Ok(None));
    }

    #[test]
    fn what_is_no_mode_is_refused_with_what_would_be_one() {
        for (json, part) in [
            (r#""some""#, "unknown variant `some`, expected one of `none`, `last`, `all`"),
            ("7", "expected none, last, all, or an object with mode, max, window and per_minute"),
            (r#"{"mod": "all"}"#, "unknown field `mod`"),
        ] {
            let refused = read(json).unwrap_err();
            assert!(refused.contains(part), "{json}: {refused}");
        }
    }
}
