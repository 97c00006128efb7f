//! Reads the dates of an iCalendar file (RFC 5545): the whole days that its events cover.
//!
//! A date is the same day everywhere. A time is converted to the zone of the calendar, and an event with times closes
//! the days that it covers from beginning to end in that zone. Events that come again are written out for some years.
//!
//! Whatever the file holds, reading it takes bounded time, and gives no more dates than a calendar may have. What would
//! change the dates and is not understood is refused with its line, or left out if that was asked for; everything else
//! is passed over.

mod event;
mod lines;
mod moment;
mod rule;

use std::collections::BTreeSet;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use punctual_api::{CalendarFile, EventsLeftOut, limits};

use self::event::Event;
use self::lines::Line;
use self::moment::{Declared, ZoneFrom, Zones};

/// Work for all events of a file together. A calendar of 10,000 dates takes a tenth of it.
const STEPS_MAX: usize = 1_000_000;

/// What is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    /// Counted from 1.
    pub(super) line: usize,
    pub(super) detail: String,
    scope: Scope,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// The rest of the file can be read without the event.
    Event,
    File,
}

impl Fault {
    fn new(line: usize, detail: impl Into<String>) -> Self {
        Self { line, detail: detail.into(), scope: Scope::Event }
    }

    fn of_file(line: usize, detail: impl Into<String>) -> Self {
        Self { line, detail: detail.into(), scope: Scope::File }
    }

    fn too_many(line: usize) -> Self {
        let detail = format!("up to here there are more than {} dates, the most", limits::CALENDAR_DATES_MAX);
        Self::of_file(line, detail)
    }
}

/// What is left of [`STEPS_MAX`].
struct Steps(usize);

impl Steps {
    fn take(&mut self, count: usize, line: usize) -> Result<(), Fault> {
        let left = self.0.checked_sub(count);
        self.0 =
            left.ok_or_else(|| Fault::of_file(line, "up to here the events come again too often; split the file"))?;
        Ok(())
    }
}

/// A zone that was named for a calendar.
#[derive(Debug, Clone)]
pub(super) struct CalendarZone(pub(super) TimeZone);

/// What becomes of events that are not understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unsupported {
    Refuse,
    Skip,
}

#[derive(Debug)]
pub(super) struct Options {
    /// The zone whose days are closed; if none is given, that of the file.
    pub(super) zone: Option<CalendarZone>,
    pub(super) unsupported: Unsupported,
    pub(super) today: Date,
}

#[derive(Debug)]
pub(super) struct Reading {
    pub(super) dates: BTreeSet<Date>,
    pub(super) file: CalendarFile,
}

/// The days of all events.
pub(super) fn read(file: &[u8], options: &Options) -> Result<Reading, Fault> {
    let (events, declared) = parse(file)?;
    let used: BTreeSet<&str> = events.iter().filter(|event| event.is_timed()).flat_map(Event::zones).collect();
    let zones = Zones::new(options.zone.as_ref(), declared, &used);
    let is_timed = events.iter().any(Event::is_timed);
    if is_timed {
        zones.check(&used)?;
    }
    let zone_name = zones.of_calendar.iana_name().unwrap_or("UTC").to_owned();
    let mut steps = Steps(STEPS_MAX);
    let mut dates = BTreeSet::new();
    let (mut ignored, mut ignored_in_part, mut skipped) = (None, None, None);
    for event in &events {
        match event.closes(&zones, options.today, &mut steps) {
            Ok(closes) => {
                if closes.without_day > 0 && closes.days.is_empty() {
                    leave_out(&mut ignored, || {
                        format!("line {}: {}covers no whole day in {zone_name}", event.line, event.shown())
                    });
                } else if closes.without_day > 0 {
                    let (none, all) = (closes.without_day, closes.occurrences);
                    leave_out(&mut ignored_in_part, || {
                        let what = format!("{none} of its {all} occurrences cover no whole day in {zone_name}");
                        format!("line {}: {}{what}", event.line, event.shown())
                    });
                }
                dates.extend(closes.days);
            }
            Err(fault) if fault.scope == Scope::Event && options.unsupported == Unsupported::Skip => {
                leave_out(&mut skipped, || format!("line {}: {}{}", fault.line, event.shown(), fault.detail));
            }
            Err(fault) => return Err(Fault { detail: format!("{}{}", event.shown(), fault.detail), ..fault }),
        }
        if dates.len() > limits::CALENDAR_DATES_MAX {
            return Err(Fault::too_many(event.line));
        }
    }
    let mut warnings = if is_timed { warnings(&zones) } else { Vec::new() };
    warnings.extend(ignored_in_part.map(|EventsLeftOut { count, first }| match count {
        1 => first,
        2 => format!("{first}; the same is true of 1 other event"),
        count => format!("{first}; the same is true of {} other events", count - 1),
    }));
    Ok(Reading { dates, file: CalendarFile { zone: is_timed.then_some(zone_name), ignored, skipped, warnings } })
}

/// The events, and what else the file says about zones.
fn parse(file: &[u8]) -> Result<(Vec<Event>, Declared), Fault> {
    let mut events = Vec::new();
    let mut declared = Declared::default();
    let mut is_calendar = false;
    let mut event: Option<Event> = None;
    // Alarms and the like, within an event.
    let mut within: usize = 0;
    for line in lines::unfold(file) {
        let line = line?;
        let Some(line) = Line::read(&line) else { continue };
        let word = line.value.trim();
        if !is_calendar {
            if line.name != "BEGIN" || !word.eq_ignore_ascii_case("VCALENDAR") {
                break;
            }
            is_calendar = true;
            continue;
        }
        match (line.name.as_str(), &mut event) {
            ("BEGIN", None) if word.eq_ignore_ascii_case("VEVENT") => event = Some(Event::new(line.number)),
            ("BEGIN", Some(_)) => within += 1,
            ("END", Some(_)) if within > 0 => within -= 1,
            ("END", Some(_)) => events.extend(event.take()),
            (_, Some(event)) if within == 0 => event.read(&line),
            (_, None) => declared.read(&line),
            (_, Some(_)) => {}
        }
    }
    match event {
        Some(event) => Err(Fault::of_file(event.line, "the event has no END:VEVENT")),
        None if !is_calendar => Err(Fault::of_file(1, "an iCalendar file begins with BEGIN:VCALENDAR")),
        None => Ok((events, declared)),
    }
}

fn leave_out(left_out: &mut Option<EventsLeftOut>, example: impl FnOnce() -> String) {
    match left_out {
        Some(left_out) => left_out.count += 1,
        None => *left_out = Some(EventsLeftOut { count: 1, first: example() }),
    }
}

fn warnings(zones: &Zones) -> Vec<String> {
    let mut warnings = Vec::new();
    if zones.from == ZoneFrom::Nowhere {
        let warning = if zones.are_described() {
            "the file has events with times and does not say which time zone is its own, so the days that they cover are \
             those of UTC; name another zone with `zone`"
        } else {
            "the file has events with times and names no zone, so the days that they cover are those of UTC; \
             name another zone with `zone`"
        };
        warnings.push(warning.to_owned());
    }
    if let (Some(name), ZoneFrom::Request) = (zones.unknown(), zones.from) {
        let shown: String = name.chars().take(64).collect();
        warnings.push(format!("`{shown}` is not a known time zone; its times were read as times in `zone`"));
    }
    warnings
}

#[cfg(test)]
mod tests;
