//! A time zone as a row of segments: stretches of real time in which the offset from UTC stays the same.
//!
//! Every clock change is the border of two segments, whatever its cause: summer time, a new offset, a skipped day.
//! Changes of the zone's name alone are no border. The search relies on one fact, which a test checks for every zone
//! of the database: a segment lasts longer than the changes at its ends, so a local time occurs at most twice.

use std::ops::Range;

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// 0001-01-01T00:00:00Z and 9999-12-30T00:00:00Z. Within a day of either, jiff can express every instant and, in any
/// zone, its local time.
pub(crate) const FIRST_SECOND: i64 = -62_135_596_800;
pub(crate) const LAST_SECOND: i64 = 253_402_128_000;

/// No zone is further from UTC than this.
pub(crate) const OFFSET_SECONDS_MAX: i64 = 26 * 3600;

/// Why a name is refused that a database of time zones may know: it is a file of one machine, or a copy that another
/// machine may not have. Says what to write instead.
pub fn zone_refusal(name: &str) -> Option<String> {
    let shown: String = name.chars().take(64).flat_map(char::escape_debug).collect();
    let lower = name.to_ascii_lowercase();
    match lower.split_once('/') {
        None if matches!(lower.as_str(), "localtime" | "posixrules") => {
            Some(format!("`{shown}` means another zone on each machine; name the zone itself, such as Europe/Berlin"))
        }
        None if lower == "factory" => Some(format!(
            "`{shown}` stands for a machine whose zone is not set; name a zone, such as Europe/Berlin or UTC"
        )),
        Some(("posix" | "right", _)) => {
            let plain: String = shown.chars().skip("posix/".len()).collect();
            Some(format!("`{shown}` is a copy of a zone that not every machine has; write {plain}"))
        }
        _ => None,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// The first second, in UTC.
    pub(crate) start: i64,
    /// The first second of the next segment.
    pub(crate) end: i64,
    /// Seconds east of UTC.
    pub(crate) offset: i64,
    offset_before: i64,
    offset_after: i64,
}

impl Segment {
    pub(crate) fn containing(zone: &TimeZone, second: i64) -> Self {
        let second = second.clamp(FIRST_SECOND, LAST_SECOND);
        let offset = offset_at(zone, second);
        let mut start = FIRST_SECOND;
        let mut offset_before = offset;
        for change in zone.preceding(timestamp(second + 1)) {
            let at = change.timestamp().as_second();
            if at <= FIRST_SECOND {
                break;
            }
            offset_before = offset_at(zone, at - 1);
            if offset_before != offset {
                start = at;
                break;
            }
        }
        let (end, offset_after) = next_change(zone, second, offset);
        Self { start, end, offset, offset_before, offset_after }
    }

    /// The segment after this one, if time goes on.
    pub(crate) fn next(&self, zone: &TimeZone) -> Option<Self> {
        if self.end > LAST_SECOND {
            return None;
        }
        let (end, offset_after) = next_change(zone, self.end, self.offset_after);
        Some(Self { start: self.end, end, offset: self.offset_after, offset_before: self.offset, offset_after })
    }

    pub(crate) fn local_start(&self) -> i64 {
        self.start + self.offset
    }

    pub(crate) fn local_end(&self) -> i64 {
        self.end + self.offset
    }

    /// The local times that the change at the start of this segment leaves out. Empty unless clocks went forward.
    pub(crate) fn gap_at_start(&self) -> Range<i64> {
        let skipped_from = self.start + self.offset_before;
        skipped_from..self.local_start().max(skipped_from)
    }

    /// The local times at the start of this segment that the one before had already. Empty unless clocks went back.
    pub(crate) fn repeats_at_start(&self) -> Range<i64> {
        self.local_start()..(self.start + self.offset_before).max(self.local_start())
    }

    /// The local times at the end of this segment that the next one has again. Empty unless clocks will go back.
    pub(crate) fn repeated_at_end(&self) -> Range<i64> {
        (self.end + self.offset_after).min(self.local_end())..self.local_end()
    }
}

fn next_change(zone: &TimeZone, second: i64, offset: i64) -> (i64, i64) {
    for change in zone.following(timestamp(second)) {
        let offset_after = i64::from(change.offset().seconds());
        if offset_after != offset {
            return (change.timestamp().as_second(), offset_after);
        }
    }
    (LAST_SECOND + 1, offset)
}

fn offset_at(zone: &TimeZone, second: i64) -> i64 {
    i64::from(zone.to_offset(timestamp(second)).seconds())
}

pub(crate) fn timestamp(second: i64) -> Timestamp {
    Timestamp::from_second(second.clamp(FIRST_SECOND, LAST_SECOND)).expect("clamped to what a timestamp can express")
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz::TimeZoneDatabase;

    #[test]
    fn names_that_depend_on_the_machine_are_refused() {
        for (name, advice) in [
            ("localtime", "name the zone itself, such as Europe/Berlin"),
            ("LocalTime", "name the zone itself, such as Europe/Berlin"),
            ("posixrules", "name the zone itself, such as Europe/Berlin"),
            ("Factory", "name a zone, such as Europe/Berlin or UTC"),
            ("posix/Europe/Berlin", "write Europe/Berlin"),
            ("RIGHT/utc", "write utc"),
        ] {
            let refusal = zone_refusal(name).expect(name);
            assert!(refusal.starts_with(&format!("`{name}` ")) && refusal.ends_with(advice), "{refusal}");
        }
        let database = TimeZoneDatabase::bundled();
        let refused: Vec<_> = database.available().filter(|name| zone_refusal(name.as_str()).is_some()).collect();
        assert!(refused.iter().all(|name| name.as_str() == "Factory"), "{refused:?}");
    }

    #[test]
    fn in_every_zone_a_segment_outlasts_the_changes_at_its_ends() {
        let database = TimeZoneDatabase::bundled();
        let mut changes = 0;
        for name in database.available() {
            let zone = database.get(name.as_str()).expect("the database lists it");
            let until = 4_102_444_800; // 2100-01-01
            let mut segment = Segment::containing(&zone, FIRST_SECOND);
            while segment.end < until {
                let next = segment.next(&zone).expect("the segment ends before time does");
                assert_eq!(Segment::containing(&zone, segment.end - 1), segment, "{}", name.as_str());
                assert_eq!(Segment::containing(&zone, segment.end), next, "{}", name.as_str());
                let size = (segment.offset - segment.offset_before).abs() + (segment.offset - next.offset).abs();
                assert!(segment.end - segment.start > size, "{}: {segment:?}", name.as_str());
                segment = next;
                changes += 1;
            }
        }
        assert!(changes > 20_000, "the test saw only {changes} changes");
    }

    #[test]
    fn a_new_name_at_the_same_offset_is_no_change() {
        // Moscow kept UTC+4 in March 2012, when other zones changed, and went to UTC+3 on 2014-10-26.
        let zone = TimeZoneDatabase::bundled().get("Europe/Moscow").expect("the zone exists");
        let segment = Segment::containing(&zone, 1_332_000_000);
        assert_eq!(timestamp(segment.start).to_string(), "2011-03-26T23:00:00Z");
        assert_eq!(timestamp(segment.end).to_string(), "2014-10-25T22:00:00Z");
    }
}
