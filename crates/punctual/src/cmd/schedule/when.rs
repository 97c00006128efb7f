//! The flags that say when a schedule fires.

use clap::Args;
use punctual_api::{CalendarsRequest, RuleRequest, ScheduleRequest};
use punctual_core::schedule::recurrence::{FoldPolicy, GapPolicy, OnClosedDay, Rule};
use punctual_core::{Span, Timestamp};

use crate::task_flags::word;
use crate::when::{machine_zone, parse_at, parse_span, zone_name};

#[derive(Debug, Default, Args)]
#[command(next_help_heading = "When")]
pub(super) struct WhenFlags {
    /// A cron expression: 'minute hour day month weekday', with seconds in front if there are six fields, or @daily and its
    /// like; may be repeated, like --every, --daily and --at
    #[arg(long, value_name = "EXPRESSION", value_parser = expression)]
    cron: Vec<String>,
    /// At this interval: 90s, 6h
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    every: Vec<Span>,
    /// With --every: one run falls on this instant [default: --start-at, or else 1970-01-01T00:00:00Z]
    #[arg(long, value_name = "TIME", value_parser = parse_at, requires = "every")]
    anchor: Option<Timestamp>,
    /// Every day at this time: 09:30 or 09:30:15
    #[arg(long, value_name = "HH:MM")]
    daily: Vec<String>,
    /// Once, at this time: '2026-12-24 18:00 Europe/Berlin'
    #[arg(long, value_name = "TIME", value_parser = parse_at)]
    at: Vec<Timestamp>,
    /// The zone of the times above, as an IANA name [default: this machine's]
    #[arg(long, value_name = "ZONE", value_parser = zone_name)]
    zone: Option<String>,
    /// The first instant at which it may run
    #[arg(long, value_name = "TIME", value_parser = parse_at)]
    start_at: Option<Timestamp>,
    /// The first instant at which it runs no more
    #[arg(long, value_name = "TIME", value_parser = parse_at)]
    end_at: Option<Timestamp>,
    /// Delay each run by a stable amount below this
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    jitter: Option<Span>,
    /// A time of day that the clocks leave out: shift or skip [default: shift]
    #[arg(long, value_name = "POLICY", value_parser = word::<GapPolicy>)]
    gap: Option<GapPolicy>,
    /// A time of day that the clocks repeat: first, last or both [default: first]
    #[arg(long, value_name = "POLICY", value_parser = word::<FoldPolicy>)]
    fold: Option<FoldPolicy>,
    /// A calendar on whose dates it does not run; may be repeated
    #[arg(long, value_name = "CALENDAR")]
    exclude: Vec<String>,
    /// A calendar on whose dates alone it runs; may be repeated
    #[arg(long, value_name = "CALENDAR")]
    include: Vec<String>,
    /// A day on which it may not run: skip, previous-business-day or next-business-day [default: skip]
    #[arg(long, value_name = "POLICY", value_parser = word::<OnClosedDay>)]
    on_closed_day: Option<OnClosedDay>,
}

/// Checked here, so that the answer does not wait for a server.
fn expression(text: &str) -> Result<String, String> {
    text.parse::<Rule>().map(|_| text.to_owned()).map_err(|error| error.to_string())
}

impl WhenFlags {
    pub(super) fn has_rules(&self) -> bool {
        !(self.cron.is_empty() && self.every.is_empty() && self.daily.is_empty() && self.at.is_empty())
    }

    /// Changes what is given, and nothing else. Rules replace all former ones.
    pub(super) fn apply(&self, request: &mut ScheduleRequest) {
        let Self { cron, every, anchor, daily, at, zone, .. } = self;
        if self.has_rules() {
            let mut rules = Vec::new();
            rules.extend(cron.iter().map(|cron| RuleRequest { cron: Some(cron.clone()), ..RuleRequest::default() }));
            rules.extend(every.iter().map(|&every| RuleRequest {
                every: Some(every),
                anchor: *anchor,
                ..RuleRequest::default()
            }));
            rules
                .extend(daily.iter().map(|daily| RuleRequest { daily: Some(daily.clone()), ..RuleRequest::default() }));
            rules.extend(at.iter().map(|&at| RuleRequest { at: Some(at), ..RuleRequest::default() }));
            set_rules(request, rules);
        }
        let Self { start_at, end_at, jitter, gap, fold, exclude, include, on_closed_day, .. } = self;
        set(&mut request.zone, zone);
        set(&mut request.start_at, start_at);
        set(&mut request.end_at, end_at);
        set(&mut request.jitter, jitter);
        set(&mut request.gap, gap);
        set(&mut request.fold, fold);
        if !exclude.is_empty() || !include.is_empty() || on_closed_day.is_some() {
            let calendars = request.calendars.get_or_insert_with(CalendarsRequest::default);
            if !exclude.is_empty() {
                calendars.exclude.clone_from(exclude);
            }
            if !include.is_empty() {
                calendars.include.clone_from(include);
            }
            set(&mut calendars.on_closed_day, on_closed_day);
        }
    }
}

/// A schedule that names no zone means the one of whoever writes it.
pub(super) fn set_zone(request: &mut ScheduleRequest) {
    request.zone.get_or_insert_with(machine_zone);
}

fn set_rules(request: &mut ScheduleRequest, mut rules: Vec<RuleRequest>) {
    let only = if rules.len() == 1 { rules.pop() } else { None };
    let RuleRequest { cron, every, anchor, daily, at } = only.unwrap_or_default();
    (request.cron, request.every, request.anchor, request.daily, request.at) = (cron, every, anchor, daily, at);
    request.rules = rules;
}

/// What is not given stays as it is.
pub(super) fn set<T: Clone>(field: &mut Option<T>, given: &Option<T>) {
    if given.is_some() {
        field.clone_from(given);
    }
}
