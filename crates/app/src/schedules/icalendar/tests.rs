use jiff::civil::date;

use super::*;

const TODAY: Date = date(2026, 11, 15);

fn file(events: &str) -> String {
    format!("BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//test//EN\r\n{events}END:VCALENDAR\r\n").replace("\n\r\n", "\n")
}

fn event(lines: &str) -> String {
    file(&format!("BEGIN:VEVENT\r\n{}\r\nEND:VEVENT\r\n", lines.replace('|', "\r\n")))
}

fn dates(text: &str) -> Vec<String> {
    read(text, TODAY).unwrap().iter().map(ToString::to_string).collect()
}

#[test]
fn events_stand_for_their_days() {
    for (lines, expected) in [
        ("DTSTART;VALUE=DATE:20261225|SUMMARY:Christmas", &["2026-12-25"][..]),
        ("DTSTART;VALUE=DATE:20261225|DTEND;VALUE=DATE:20261226", &["2026-12-25"]),
        ("DTSTART;VALUE=DATE:20261224|DTEND;VALUE=DATE:20261227", &["2026-12-24", "2026-12-25", "2026-12-26"]),
        ("DTSTART:20261225T090000Z", &["2026-12-25"]),
        (
            "DTSTART;TZID=Europe/Berlin:20261225T220000|DTEND;TZID=Europe/Berlin:20261226T020000",
            &["2026-12-25", "2026-12-26"],
        ),
        ("DTSTART:20261225T220000|DTEND:20261226T000000", &["2026-12-25"]),
        ("DTSTART;VALUE=DATE:20261225|DURATION:P2D", &["2026-12-25", "2026-12-26"]),
        ("DTSTART:20261225T220000|DURATION:PT4H", &["2026-12-25", "2026-12-26"]),
        ("DTSTART;VALUE=DATE:20261231|DTEND;VALUE=DATE:20261231", &["2026-12-31"]),
        (r#"DTSTART;X-NOTE="a:b";VALUE=DATE:20261225"#, &["2026-12-25"]),
        ("dtstart;value=date:20261225", &["2026-12-25"]),
        ("DTSTART;VALUE=DATE:20261225|STATUS:CANCELLED", &[]),
        ("DTSTART;VALUE=DATE:20261225|BEGIN:VALARM|DTSTART:nonsense|TRIGGER:-PT10M|END:VALARM", &["2026-12-25"]),
    ] {
        assert_eq!(dates(&event(lines)), expected, "{lines}");
    }
}

#[test]
fn folded_lines_are_one() {
    assert_eq!(
        dates(&event("DTSTART;VAL|\tUE=DATE:2026|  1225|SUMMARY:a long| er one").replace("  1225", " 1225")),
        ["2026-12-25"]
    );
    // With the line ends of Unix, and a byte order mark.
    let unix = event("DTSTART;VALUE=DATE:20261225").replace("\r\n", "\n");
    assert_eq!(dates(&format!("\u{feff}{unix}")), ["2026-12-25"]);
}

#[test]
fn yearly_events_come_every_year_for_twenty_years() {
    let yearly = dates(&event("DTSTART;VALUE=DATE:20251225|RRULE:FREQ=YEARLY"));
    assert_eq!(
        (yearly.len(), yearly.first().unwrap().as_str(), yearly.last().unwrap().as_str()),
        (22, "2025-12-25", "2046-12-25")
    );
    for (rule, expected) in [
        ("FREQ=YEARLY;COUNT=2", &["2025-12-25", "2026-12-25"][..]),
        ("FREQ=YEARLY;UNTIL=20261225", &["2025-12-25", "2026-12-25"]),
        ("FREQ=YEARLY;UNTIL=20271224T235959Z", &["2025-12-25", "2026-12-25"]),
        ("FREQ=YEARLY;INTERVAL=10", &["2025-12-25", "2035-12-25", "2045-12-25"]),
        ("FREQ=YEARLY;INTERVAL=4000000000", &["2025-12-25"]),
        ("FREQ=YEARLY;COUNT=1;BYMONTH=12;BYMONTHDAY=25;WKST=MO", &["2025-12-25"]),
        ("COUNT=1;FREQ=yearly;", &["2025-12-25"]),
    ] {
        assert_eq!(dates(&event(&format!("DTSTART;VALUE=DATE:20251225|RRULE:{rule}"))), expected, "{rule}");
    }
    let leap = dates(&event("DTSTART;VALUE=DATE:20240229|RRULE:FREQ=YEARLY;COUNT=3"));
    assert_eq!(leap, ["2024-02-29", "2028-02-29", "2032-02-29"]);
    let without = dates(&event("DTSTART;VALUE=DATE:20251225|RRULE:FREQ=YEARLY;COUNT=3|EXDATE;VALUE=DATE:20261225"));
    assert_eq!(without, ["2025-12-25", "2027-12-25"]);
    let days = dates(&event("DTSTART;VALUE=DATE:20251231|DTEND;VALUE=DATE:20260102|RRULE:FREQ=YEARLY;COUNT=2"));
    assert_eq!(days, ["2025-12-31", "2026-01-01", "2026-12-31", "2027-01-01"]);
}

#[test]
fn what_is_not_understood_is_refused_with_its_line() {
    // The event begins in line 4, its own lines in line 5.
    for (lines, line, detail) in [
        ("SUMMARY:when?", 4, "the event has no DTSTART"),
        ("DTSTART;VALUE=DATE:20261325", 5, "`20261325` is not a date, such as 20261225"),
        ("DTSTART;VALUE=DATE:2026-12-25", 5, "is not a date"),
        ("DTSTART;VALUE=DATE:20261225|DTEND;VALUE=DATE:20261224", 4, "ends before it begins"),
        ("DTSTART;VALUE=DATE:20261225|RRULE:FREQ=WEEKLY", 6, "the rule `FREQ=WEEKLY` is not: only FREQ=YEARLY"),
        ("DTSTART;VALUE=DATE:20261225|RRULE:FREQ=YEARLY;BYDAY=1MO", 6, "only FREQ=YEARLY"),
        ("DTSTART;VALUE=DATE:20261225|RRULE:COUNT=2", 6, "only FREQ=YEARLY"),
        ("DTSTART;VALUE=DATE:20261225|RRULE:FREQ=YEARLY;COUNT=0", 6, "COUNT must be a number above 0"),
        ("DTSTART;VALUE=DATE:20261225|RRULE:FREQ=YEARLY;COUNT=99999999999999999999", 6, "COUNT must be a number"),
        ("DTSTART;VALUE=DATE:20261225|RRULE:FREQ=YEARLY;INTERVAL=0", 6, "INTERVAL must be a number above 0"),
        ("DTSTART;VALUE=DATE:20261225|RRULE:FREQ=YEARLY;BYMONTH=11", 6, "must mean the day of DTSTART"),
        ("DTSTART;VALUE=DATE:20261225|RRULE:FREQ=YEARLY;BYMONTHDAY=25", 6, "must mean the day of DTSTART"),
        ("DTSTART;VALUE=DATE:20261225|RDATE;VALUE=DATE:20261226", 6, "RDATE is not understood"),
        ("DTSTART;VALUE=DATE:20261225|DURATION:soon", 6, "is not a duration, such as P1D"),
        ("DTSTART;VALUE=DATE:20261225|DURATION:P1Y", 6, "is not a duration, such as P1D"),
        ("DTSTART;VALUE=DATE:99991231|DURATION:P9W", 4, "beyond the year 9999"),
    ] {
        let fault = read(&event(lines), TODAY).expect_err(lines);
        assert_eq!(fault.line, line, "{lines}: {fault:?}");
        assert!(fault.detail.contains(detail), "{lines}: {fault:?}");
    }
}

#[test]
fn other_files_are_refused() {
    for (text, detail) in [
        ("", "an iCalendar file begins with BEGIN:VCALENDAR"),
        ("{\"dates\": []}", "an iCalendar file begins with BEGIN:VCALENDAR"),
        ("BEGIN:VCARD\r\nEND:VCARD\r\n", "an iCalendar file begins with BEGIN:VCALENDAR"),
        ("BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nDTSTART:20261225T000000\r\n", "the event has no END:VEVENT"),
    ] {
        assert!(read(text, TODAY).unwrap_err().detail.contains(detail), "{text}");
    }
    assert!(dates("BEGIN:VCALENDAR\r\nEND:VCALENDAR\r\n").is_empty());
}

#[test]
fn hostile_files_are_read_in_bounded_time_and_give_bounded_dates() {
    const SIZE: usize = 1 << 20;
    let begin = "BEGIN:VCALENDAR\r\n";
    let garbage: String =
        (0..SIZE as u32).map(|n| char::from((n.wrapping_mul(2_654_435_761) >> 24) as u8 & 0x7f)).collect();
    let folded: String = "\r\n 1".repeat(SIZE / 4);
    let nested: String = "BEGIN:VEVENT\r\n".repeat(SIZE / 14);
    let long = "x".repeat(SIZE);
    for (text, is_good) in [
        (garbage.clone(), false),
        (format!("{begin}{garbage}"), true),
        (format!("{begin}BEGIN:VEVENT\r\nDTSTART:{folded}\r\nEND:VEVENT\r\n"), false),
        (format!("{begin}BEGIN:VEVENT\r\nDTSTART{folded}"), false),
        (format!("{begin}{nested}"), false),
        (format!("{begin}BEGIN:VEVENT\r\nRRULE:{long}\r\nEND:VEVENT\r\n"), false),
        (format!("{begin}BEGIN:VEVENT\r\nDURATION:P{long}\r\nEND:VEVENT\r\n"), false),
        (event("DTSTART;VALUE=DATE:00010101|DTEND;VALUE=DATE:99991231"), false),
        (event("DTSTART;VALUE=DATE:00010101|DTEND;VALUE=DATE:00010201|RRULE:FREQ=YEARLY;COUNT=4000000000"), false),
        (event("DTSTART;VALUE=DATE:00010101|RRULE:FREQ=YEARLY;COUNT=4000000000"), true),
        (event(&format!("DTSTART;VALUE=DATE:20261225|EXDATE:{}", ",20261225".repeat(SIZE / 9))), false),
        (event("DTSTART;VALUE=DATE:20261225T999999"), false),
        (event("DTSTART:éééé1225"), false),
    ] {
        let begun = std::time::Instant::now();
        let read = read(&text, TODAY);
        assert!(begun.elapsed().as_secs() < 5, "{:?} took too long", &text[..60.min(text.len())]);
        match read {
            Ok(dates) => assert!(is_good && dates.len() <= limits::CALENDAR_DATES_MAX, "{:.60}", text),
            Err(fault) => assert!(!is_good && fault.detail.len() < 300, "{:.60}: {}", text, fault.detail.len()),
        }
    }
}
