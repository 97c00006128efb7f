//! One event of an iCalendar file, and the days that it closes.

use std::collections::BTreeSet;

use jiff::civil::{Date, Time};
use jiff::{Span, Timestamp, ToSpan};
use punctual_api::limits;

use super::lines::Line;
use super::moment::{Frame, Moment, Zones};
use super::rule::Rule;
use super::{Fault, Steps};

/// How far ahead of today, or of their start, events that come again are written out.
const YEARS_AHEAD: i16 = 20;

/// What is known of an event.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) line: usize,
    summary: Option<String>,
    start: Option<Moment>,
    /// The first moment that is not in it.
    end: Option<Moment>,
    duration: Option<Span>,
    rules: Vec<Rule>,
    except: Vec<Moment>,
    is_cancelled: bool,
    /// The first thing in it that is not understood.
    fault: Option<Fault>,
}

/// What an event closes.
#[derive(Debug, Default)]
pub(super) struct Closes {
    pub(super) days: BTreeSet<Date>,
    /// How often it takes place.
    pub(super) occurrences: usize,
    /// Occurrences that are shorter than a day, or that cover none from its beginning to its end.
    pub(super) without_day: usize,
}

impl Event {
    pub(super) fn new(line: usize) -> Self {
        Self {
            line,
            summary: None,
            start: None,
            end: None,
            duration: None,
            rules: Vec::new(),
            except: Vec::new(),
            is_cancelled: false,
            fault: None,
        }
    }

    pub(super) fn read(&mut self, line: &Line<'_>) {
        if let Err(fault) = self.take(line) {
            self.fault.get_or_insert(fault);
        }
    }

    fn take(&mut self, line: &Line<'_>) -> Result<(), Fault> {
        /// Enough to recognise an event by.
        const SUMMARY_CHARS_MAX: usize = 60;
        let value = line.value.trim();
        match line.name.as_str() {
            "SUMMARY" => {
                self.summary =
                    Some(value.chars().filter(|letter| !letter.is_control()).take(SUMMARY_CHARS_MAX).collect())
            }
            "DTSTART" => self.start = Some(Moment::read(line, value)?),
            "DTEND" => self.end = Some(Moment::read(line, value)?),
            "DURATION" => self.duration = Some(duration(line, value)?),
            "RRULE" => self.rules.push(Rule::read(line, value)?),
            "EXDATE" => {
                for part in value.split(',') {
                    self.except.push(Moment::read(line, part.trim())?);
                }
            }
            "RDATE" | "EXRULE" | "RECURRENCE-ID" => {
                let detail = format!("{} is not supported; write the dates as events of their own", line.name);
                return Err(Fault::new(line.number, detail));
            }
            "STATUS" => self.is_cancelled = value.eq_ignore_ascii_case("CANCELLED"),
            _ => {}
        }
        Ok(())
    }

    /// Whether the zone of the calendar makes a difference to it.
    pub(super) fn is_timed(&self) -> bool {
        self.start.as_ref().is_some_and(|start| start.frame != Frame::Date)
    }

    /// The zones that it names.
    pub(super) fn zones(&self) -> impl Iterator<Item = &str> {
        self.start.iter().chain(&self.end).chain(&self.except).filter_map(|moment| match &moment.frame {
            Frame::Named(name) => Some(name.as_str()),
            Frame::Date | Frame::Floating | Frame::Utc => None,
        })
    }

    /// How it is shown to people: its summary, or nothing.
    pub(super) fn shown(&self) -> String {
        self.summary.as_ref().map(|summary| format!("event \"{summary}\": ")).unwrap_or_default()
    }

    /// The days that it closes, of all its occurrences.
    pub(super) fn closes(&self, zones: &Zones, today: Date, steps: &mut Steps) -> Result<Closes, Fault> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        if self.is_cancelled {
            return Ok(Closes::default());
        }
        let Some(start) = &self.start else { return Err(Fault::new(self.line, "the event has no DTSTART")) };
        let except = self.exceptions(start, zones)?;
        let mut closes = Closes::default();
        for date in self.dates(start, zones, today, steps)? {
            let occurrence = start.on(date);
            if except.contains(&occurrence, zones)? {
                continue;
            }
            let (first, end) = self.days_of(&occurrence, zones)?;
            closes.occurrences += 1;
            closes.without_day += usize::from(first >= end);
            let mut day = first;
            while day < end {
                closes.days.insert(day);
                if closes.days.len() > limits::CALENDAR_DATES_MAX {
                    return Err(Fault::too_many(self.line));
                }
                steps.take(1, self.line)?;
                day = day.tomorrow().map_err(|_| self.beyond())?;
            }
        }
        Ok(closes)
    }

    /// The days on which it begins, by its own clocks.
    fn dates(&self, start: &Moment, zones: &Zones, today: Date, steps: &mut Steps) -> Result<BTreeSet<Date>, Fault> {
        let first = start.civil.date();
        if self.rules.is_empty() {
            return Ok(BTreeSet::from([first]));
        }
        if !self.rules.iter().any(|rule| rule.includes_start(first)) {
            let detail =
                "no rule of the event includes the day of DTSTART; correct DTSTART, or write the dates as events";
            return Err(Fault::new(self.line, detail));
        }
        let last_year = today.year().max(first.year()).saturating_add(YEARS_AHEAD).min(9999);
        let mut dates = BTreeSet::new();
        for rule in &self.rules {
            let until = rule.until.as_ref().map(|until| until.in_frame_of(start));
            let is_over = |date: Date| match &until {
                None => Ok(false),
                Some(until) if start.frame == Frame::Date || until.frame == Frame::Date => {
                    Ok(date > until.civil.date())
                }
                Some(until) => Ok(start.on(date).instant(zones)? > until.instant(zones)?),
            };
            dates.append(&mut rule.dates(first, last_year, steps, is_over)?);
        }
        Ok(dates)
    }

    fn exceptions(&self, start: &Moment, zones: &Zones) -> Result<Exceptions, Fault> {
        let mut except = Exceptions { dates: BTreeSet::new(), instants: BTreeSet::new() };
        for moment in &self.except {
            if start.frame == Frame::Date || moment.frame == Frame::Date {
                except.dates.insert(moment.civil.date());
            } else {
                except.instants.insert(moment.instant(zones)?);
            }
        }
        Ok(except)
    }

    /// The first day that an occurrence covers from beginning to end, and the first behind it that it does not.
    fn days_of(&self, occurrence: &Moment, zones: &Zones) -> Result<(Date, Date), Fault> {
        let ends_early = || Fault::new(self.line, "the event ends before it begins");
        let start = self.start.as_ref().expect("there are occurrences of what has a start");
        if occurrence.frame == Frame::Date {
            let end = match (&self.end, self.duration) {
                (Some(end), _) => occurrence.later(occurrence_shift(start, end)?)?.civil,
                (None, Some(duration)) => occurrence.later(duration)?.civil,
                (None, None) => occurrence.civil,
            };
            if end < occurrence.civil {
                return Err(ends_early());
            }
            // A date closes its day, also if it ends where it begins.
            let is_whole = end.time() == Time::midnight() && end > occurrence.civil;
            let end = if is_whole { Ok(end.date()) } else { end.date().tomorrow() };
            return Ok((occurrence.civil.date(), end.map_err(|_| self.beyond())?));
        }
        let from = occurrence.instant(zones)?;
        let to = match (&self.end, self.duration) {
            // By the clocks: an event from midnight to midnight is one on the day of a clock change as well.
            (Some(end), _) if end.frame == start.frame || end.frame == Frame::Date => {
                occurrence.later(occurrence_shift(start, end)?)?.instant(zones)?
            }
            (Some(end), _) => {
                let length = end.instant(zones)?.duration_since(start.instant(zones)?);
                from.checked_add(length).map_err(|_| self.beyond())?
            }
            (None, Some(duration)) => occurrence.later(duration)?.instant(zones)?,
            (None, None) => from,
        };
        if to < from {
            return Err(ends_early());
        }
        let local = from.to_zoned(zones.of_calendar.clone());
        let begins_day = local.start_of_day().is_ok_and(|midnight| midnight.timestamp() == from);
        let first = if begins_day { Ok(local.date()) } else { local.date().tomorrow() };
        Ok((first.map_err(|_| self.beyond())?, to.to_zoned(zones.of_calendar.clone()).date()))
    }

    fn beyond(&self) -> Fault {
        Fault::new(self.line, "the event goes beyond the year 9999")
    }
}

/// From the start of an event to its end, both by the same clocks.
fn occurrence_shift(start: &Moment, end: &Moment) -> Result<Span, Fault> {
    let shift = start.civil.until((jiff::Unit::Day, end.civil));
    shift.map_err(|_| Fault::new(end.line, "the event is too long"))
}

/// Occurrences that do not take place.
struct Exceptions {
    dates: BTreeSet<Date>,
    instants: BTreeSet<Timestamp>,
}

impl Exceptions {
    fn contains(&self, occurrence: &Moment, zones: &Zones) -> Result<bool, Fault> {
        if self.dates.contains(&occurrence.civil.date()) {
            return Ok(true);
        }
        Ok(!self.instants.is_empty() && self.instants.contains(&occurrence.instant(zones)?))
    }
}

/// `P1D`, `P2W` or `PT8H`.
fn duration(line: &Line<'_>, value: &str) -> Result<Span, Fault> {
    let shown: String = value.chars().take(40).collect();
    let refused = || Fault::new(line.number, format!("DURATION: `{shown}` is not a duration, such as P1D"));
    let is_short = value.len() <= 40 && value.starts_with(['P', 'p']);
    let span: Span = value.parse().ok().filter(|_| is_short).ok_or_else(refused)?;
    if span.get_years() != 0 || span.get_months() != 0 || span.is_negative() {
        return Err(refused());
    }
    if span.is_zero() { Ok(0.days()) } else { Ok(span) }
}
