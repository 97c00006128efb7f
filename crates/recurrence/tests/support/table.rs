//! A stretch of real time in a zone, tick by tick, with what the wall clock shows at each tick.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

const NEVER: u32 = u32::MAX;

/// Ticks are minutes or seconds. A *reading* numbers what the wall clock can show: days since `first_date` times
/// ticks of a day, plus the tick of the day.
pub(crate) struct Table {
    pub(crate) start: i64,
    pub(crate) tick_seconds: i64,
    pub(crate) dates: Vec<Date>,
    /// The reading at each tick.
    pub(crate) readings: Vec<u32>,
    pub(crate) offsets: Vec<i32>,
    first_tick: Vec<u32>,
    last_tick: Vec<u32>,
}

impl Table {
    pub(crate) fn new(zone: &TimeZone, start: i64, ticks: usize, tick_seconds: i64) -> Self {
        let time = |tick: usize| Timestamp::from_second(start + tick as i64 * tick_seconds).expect("in range");
        let (first, last) = (zone.to_datetime(time(0)).date(), zone.to_datetime(time(ticks)).date());
        let mut dates = vec![first.yesterday().expect("in range").yesterday().expect("in range")];
        while dates.last().expect("not empty") < &last.tomorrow().expect("in range") {
            dates.push(dates.last().expect("not empty").tomorrow().expect("in range"));
        }
        let ticks_per_day = (86_400 / tick_seconds) as u32;
        let mut table = Self {
            start,
            tick_seconds,
            readings: Vec::with_capacity(ticks),
            offsets: Vec::with_capacity(ticks),
            first_tick: vec![NEVER; dates.len() * ticks_per_day as usize],
            last_tick: vec![NEVER; dates.len() * ticks_per_day as usize],
            dates,
        };
        let mut day = 0;
        for tick in 0..ticks {
            let shown = zone.to_datetime(time(tick));
            if table.dates[day] != shown.date() {
                day = table.dates.iter().position(|date| *date == shown.date()).expect("the dates cover the stretch");
            }
            let second_of_day = shown.hour() as u32 * 3600 + shown.minute() as u32 * 60 + shown.second() as u32;
            assert_eq!(second_of_day % tick_seconds as u32, 0, "an offset is no whole number of ticks");
            let reading = day as u32 * ticks_per_day + second_of_day / tick_seconds as u32;
            table.readings.push(reading);
            table.offsets.push(zone.to_offset(time(tick)).seconds());
            if table.first_tick[reading as usize] == NEVER {
                table.first_tick[reading as usize] = tick as u32;
            }
            table.last_tick[reading as usize] = tick as u32;
        }
        table
    }

    pub(crate) fn ticks_per_day(&self) -> u32 {
        (86_400 / self.tick_seconds) as u32
    }

    /// The first and the last tick at which the wall clock shows a reading.
    pub(crate) fn shown_at(&self, reading: u32) -> Option<(u32, u32)> {
        let first = self.first_tick[reading as usize];
        (first != NEVER).then(|| (first, self.last_tick[reading as usize]))
    }

    /// The first tick after a reading that the wall clock never shows, found by walking on from the last one shown.
    pub(crate) fn first_tick_beyond(&self, reading: u32) -> Option<u32> {
        // Before the stretch begins and after it ends, nothing is shown because nothing was walked.
        let is_within = self.readings.first() < Some(&reading) && Some(&reading) < self.readings.last();
        if !is_within {
            return None;
        }
        let shown_before = (0..reading).rev().find_map(|earlier| self.shown_at(earlier))?;
        (shown_before.0..self.readings.len() as u32).find(|tick| self.readings[*tick as usize] > reading)
    }

    pub(crate) fn second_at(&self, tick: u32) -> i64 {
        self.start + i64::from(tick) * self.tick_seconds
    }
}
