//! Reads the dates of an iCalendar file (RFC 5545): the days of its events, yearly ones up to some years ahead.
//!
//! Whatever it holds, reading it takes time in proportion to its length, and gives no more dates than a calendar may
//! have. What would change the dates and is not understood is refused with its line; everything else is passed over.

mod event;
mod lines;

use std::collections::BTreeSet;

use jiff::civil::Date;
use punctual_api::limits;

use self::event::Event;
use self::lines::Line;

/// How far ahead yearly events are written out.
const YEARS_AHEAD: i16 = 20;

/// What is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    /// Counted from 1.
    pub(super) line: usize,
    pub(super) detail: String,
}

impl Fault {
    fn new(line: usize, detail: impl Into<String>) -> Self {
        Self { line, detail: detail.into() }
    }
}

/// The dates of all events.
pub(super) fn read(text: &str, today: Date) -> Result<BTreeSet<Date>, Fault> {
    let mut dates = BTreeSet::new();
    let mut is_calendar = false;
    let mut event: Option<Event> = None;
    // Alarms and the like, within an event.
    let mut within: usize = 0;
    for line in lines::unfold(text) {
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
            ("END", Some(_)) => {
                let event = event.take().expect("it was just there");
                event.add_to(&mut dates, last_year(today))?;
            }
            (_, Some(event)) if within == 0 => event.read(&line)?,
            (_, _) => {}
        }
    }
    match event {
        Some(event) => Err(Fault::new(event.line, "the event has no END:VEVENT")),
        None if !is_calendar => Err(Fault::new(1, "an iCalendar file begins with BEGIN:VCALENDAR")),
        None => Ok(dates),
    }
}

fn last_year(today: Date) -> i16 {
    today.year().saturating_add(YEARS_AHEAD)
}

/// Adds a date, within the limit.
fn add(dates: &mut BTreeSet<Date>, date: Date, line: usize) -> Result<(), Fault> {
    dates.insert(date);
    if dates.len() > limits::CALENDAR_DATES_MAX {
        let detail = format!("up to here there are more than {} dates, the most", limits::CALENDAR_DATES_MAX);
        return Err(Fault::new(line, detail));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
