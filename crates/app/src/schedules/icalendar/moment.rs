//! Dates and times of an iCalendar file, and the zones that they are in.

use std::collections::{BTreeMap, BTreeSet};

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};

use super::lines::Line;
use super::{CalendarZone, Fault};
use crate::schedules::zone;

/// What a date or time is written in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Frame {
    /// A date: the same day everywhere.
    Date,
    /// A time without a zone: that of the calendar.
    Floating,
    Utc,
    /// `TZID=…`
    Named(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Moment {
    pub(super) line: usize,
    /// Midnight, for a date.
    pub(super) civil: DateTime,
    pub(super) frame: Frame,
}

impl Moment {
    /// `20261225`, `20261225T090000` or `20261225T090000Z`.
    pub(super) fn read(line: &Line<'_>, value: &str) -> Result<Self, Fault> {
        let refused = || {
            let shown: String = value.chars().take(40).collect();
            Fault::new(line.number, format!("{}: `{shown}` is not a date, such as 20261225", line.name))
        };
        let (date, time) = match value.split_once(['T', 't']) {
            Some((date, time)) => (date, Some(time)),
            None => (value, None),
        };
        let digits = time.map_or("000000", |time| time.strip_suffix(['Z', 'z']).unwrap_or(time));
        let [year, month, day] = numbers(date, [4, 2, 2]).ok_or_else(refused)?;
        let [hour, minute, second] = numbers(digits, [2, 2, 2]).ok_or_else(refused)?;
        // A leap second is within the same day.
        let small = |number: i16| i8::try_from(number).unwrap_or(i8::MAX);
        let civil = DateTime::new(year, small(month), small(day), small(hour), small(minute), small(second.min(59)), 0)
            .map_err(|_| refused())?;
        let frame = match (time, line.parameter("TZID")) {
            (None, _) => Frame::Date,
            (Some(time), _) if time.ends_with(['Z', 'z']) => Frame::Utc,
            (Some(_), Some(name)) => Frame::Named(name.to_owned()),
            (Some(_), None) => Frame::Floating,
        };
        Ok(Self { line: line.number, civil, frame })
    }

    /// Moves the moment to another day, at its time of day.
    pub(super) fn on(&self, date: Date) -> Self {
        Self { civil: date.to_datetime(self.civil.time()), ..self.clone() }
    }

    /// A time without a zone is meant by the clocks of the event that it belongs to.
    pub(super) fn in_frame_of(&self, event: &Self) -> Self {
        let frame = if self.frame == Frame::Floating { &event.frame } else { &self.frame };
        Self { frame: frame.clone(), ..self.clone() }
    }

    /// Later by the clocks of its own zone.
    pub(super) fn later(&self, span: Span) -> Result<Self, Fault> {
        let civil = self.civil.checked_add(span);
        let civil = civil.map_err(|_| Fault::new(self.line, "the event goes beyond the year 9999"))?;
        Ok(Self { civil, ..self.clone() })
    }

    pub(super) fn instant(&self, zones: &Zones) -> Result<Timestamp, Fault> {
        let zone = zones.of(self)?;
        // A time that clocks skip or repeat is read as calendars do: with the offset from before the change.
        let instant = zone.to_ambiguous_timestamp(self.civil).compatible();
        instant.map_err(|_| Fault::new(self.line, "the time is out of range"))
    }
}

/// Cuts digits into numbers of these lengths.
fn numbers<const N: usize>(text: &str, lens: [usize; N]) -> Option<[i16; N]> {
    if text.len() != lens.iter().sum::<usize>() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let mut numbers = [0; N];
    let mut rest = text;
    for (number, len) in numbers.iter_mut().zip(lens) {
        let (digits, after) = rest.split_at(len);
        *number = digits.parse().ok()?;
        rest = after;
    }
    Some(numbers)
}

/// What a file says about zones, apart from its events.
#[derive(Debug, Default)]
pub(super) struct Declared {
    /// `X-WR-TIMEZONE`, and its line.
    of_calendar: Option<(usize, String)>,
    /// Each `TZID` of a `VTIMEZONE`, with the `X-LIC-LOCATION` that may follow it.
    described: BTreeMap<String, Option<String>>,
    last: Option<String>,
}

impl Declared {
    /// Reads a line that is in no event.
    pub(super) fn read(&mut self, line: &Line<'_>) {
        let value = line.value.trim();
        match line.name.as_str() {
            "X-WR-TIMEZONE" if !value.is_empty() => self.of_calendar = Some((line.number, value.to_owned())),
            "TZID" => {
                self.described.entry(value.to_owned()).or_default();
                self.last = Some(value.to_owned());
            }
            "X-LIC-LOCATION" => {
                if let Some(location) = self.last.as_ref().and_then(|name| self.described.get_mut(name)) {
                    *location = Some(value.to_owned());
                }
            }
            _ => {}
        }
    }

    /// The zone of a `TZID`. Some programs write a path before its name.
    fn find(&self, name: &str) -> Option<TimeZone> {
        /// Longer than any name of a zone with a path before it.
        const NAME_BYTES_MAX: usize = 128;
        if name.len() > NAME_BYTES_MAX {
            return None;
        }
        let location = self.described.get(name).and_then(Option::as_deref);
        let mut names =
            std::iter::once(name).chain(location).chain(name.match_indices('/').map(|(at, _)| &name[at + 1..]));
        names.find_map(zone::known)
    }

    /// The zone that the file is about, if it says so. `used` are those of its events.
    fn zone(&self, used: &BTreeSet<&str>) -> Option<TimeZone> {
        let of_calendar = self.of_calendar.as_ref().and_then(|(_, name)| self.find(name));
        let described: BTreeSet<&str> = self.described.keys().map(String::as_str).collect();
        of_calendar.or_else(|| self.only(used)).or_else(|| self.only(&described))
    }

    /// The zone of these names, if they mean one.
    fn only(&self, names: &BTreeSet<&str>) -> Option<TimeZone> {
        let mut zones = names.iter().map(|name| self.find(name));
        let first = zones.next()??;
        zones.all(|zone| zone.as_ref() == Some(&first)).then_some(first)
    }
}

/// Zones that a refusal names.
const NAMES_SHOWN_MAX: usize = 5;

fn not_known(name: &str) -> String {
    let shown: String = name.chars().take(64).collect();
    format!("`{shown}` is not a known time zone; name the zone of the calendar with `zone`")
}

/// The zones of a file, as they were decided.
pub(super) struct Zones {
    declared: Declared,
    pub(super) of_calendar: TimeZone,
    pub(super) from: ZoneFrom,
    found: BTreeMap<String, Option<TimeZone>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ZoneFrom {
    Request,
    File,
    /// UTC, because nobody named one.
    Nowhere,
}

impl Zones {
    /// `used` are the names of the zones of events.
    pub(super) fn new(asked: Option<&CalendarZone>, declared: Declared, used: &BTreeSet<&str>) -> Self {
        let (of_calendar, from) = match (asked, declared.zone(used)) {
            (Some(asked), _) => (asked.0.clone(), ZoneFrom::Request),
            (None, Some(zone)) => (zone, ZoneFrom::File),
            (None, None) => (TimeZone::UTC, ZoneFrom::Nowhere),
        };
        let found = used.iter().map(|name| ((*name).to_owned(), declared.find(name))).collect();
        Self { declared, of_calendar, from, found }
    }

    /// Whose days are closed must be plain: a name that is not understood, and several names, are not taken for UTC.
    pub(super) fn check(&self, used: &BTreeSet<&str>) -> Result<(), Fault> {
        if self.from == ZoneFrom::Request {
            return Ok(());
        }
        match &self.declared.of_calendar {
            Some((line, name)) if self.declared.find(name).is_none() => Err(Fault::of_file(*line, not_known(name))),
            None if self.from == ZoneFrom::Nowhere && used.len() > 1 && self.unknown().is_none() => {
                let names: Vec<&str> = used.iter().copied().take(NAMES_SHOWN_MAX).collect();
                let detail = format!(
                    "the events are in several time zones ({}), and the file does not say whose days they close; name \
                     the zone of the calendar with `zone`",
                    names.join(", ")
                );
                Err(Fault::of_file(1, detail))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Whether the file describes zones, though they may leave open which one is its own.
    pub(super) fn are_described(&self) -> bool {
        !self.declared.described.is_empty()
    }

    fn of(&self, moment: &Moment) -> Result<TimeZone, Fault> {
        let name = match &moment.frame {
            Frame::Date | Frame::Floating => return Ok(self.of_calendar.clone()),
            Frame::Utc => return Ok(TimeZone::UTC),
            Frame::Named(name) => name,
        };
        let found = self.found.get(name).cloned().unwrap_or_else(|| self.declared.find(name));
        match found {
            Some(zone) => Ok(zone),
            // Some programs have names of their own; whoever names the zone knows what they mean.
            None if self.from == ZoneFrom::Request => Ok(self.of_calendar.clone()),
            None => Err(Fault::new(moment.line, not_known(name))),
        }
    }

    /// Names that no zone has, of those that events use.
    pub(super) fn unknown(&self) -> Option<&str> {
        self.found.iter().find(|(_, zone)| zone.is_none()).map(|(name, _)| name.as_str())
    }
}
