use jiff::civil::date;

use super::*;

const TODAY: Date = date(2026, 11, 15);

fn file(events: &str) -> String {
    format!("BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//test//EN\r\n{events}END:VCALENDAR\r\n").replace("\n\r\n", "\n")
}

fn event(lines: &str) -> String {
    file(&event_lines(lines))
}

fn event_lines(lines: &str) -> String {
    format!("BEGIN:VEVENT\r\n{}\r\nEND:VEVENT\r\n", lines.replace('|', "\r\n"))
}

fn options(zone: Option<&str>) -> Options {
    let zone = zone.map(|name| CalendarZone(TimeZone::get(name).unwrap()));
    Options { zone, unsupported: Unsupported::Refuse, today: TODAY }
}

fn dates(text: &str) -> Vec<String> {
    read_in(None, text).unwrap().0
}

/// The dates of a file in a zone that is asked for, and how it was read.
fn read_in(zone: Option<&str>, text: &str) -> Result<(Vec<String>, CalendarFile), Fault> {
    let Reading { dates, file } = read(text.as_bytes(), &options(zone))?;
    Ok((dates.iter().map(ToString::to_string).collect(), file))
}

#[test]
fn events_stand_for_their_days() {
    for (lines, expected) in [
        ("DTSTART;VALUE=DATE:20261225|SUMMARY:Christmas", &["2026-12-25"][..]),
        ("DTSTART;VALUE=DATE:20261225|DTEND;VALUE=DATE:20261226", &["2026-12-25"]),
        ("DTSTART;VALUE=DATE:20261224|DTEND;VALUE=DATE:20261227", &["2026-12-24", "2026-12-25", "2026-12-26"]),
        ("DTSTART;VALUE=DATE:20261225|DURATION:P2D", &["2026-12-25", "2026-12-26"]),
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
fn events_with_times_close_the_local_days_that_they_cover() {
    const BERLIN: Option<&str> = Some("Europe/Berlin");
    for (zone, lines, expected) in [
        // 25 December in Berlin, as exporters write whole days.
        (BERLIN, "DTSTART:20261224T230000Z|DTEND:20261225T230000Z", &["2026-12-25"][..]),
        (None, "DTSTART;TZID=Europe/Berlin:20261225T000000|DTEND;TZID=Europe/Berlin:20261226T000000", &["2026-12-25"]),
        (Some("Asia/Tokyo"), "DTSTART:20261224T150000Z|DURATION:P2D", &["2026-12-25", "2026-12-26"]),
        // By the clocks of New York it is no whole day.
        (Some("America/New_York"), "DTSTART:20261224T230000Z|DTEND:20261225T230000Z", &[]),
        (Some("America/New_York"), "DTSTART:20261224T230000Z|DTEND:20261226T230000Z", &["2026-12-25"]),
        (
            Some("UTC"),
            "DTSTART;TZID=Europe/Berlin:20261225T000000|DTEND;TZID=Europe/Berlin:20261227T010000",
            &["2026-12-25", "2026-12-26"],
        ),
        // Without a zone of its own, a time is one of the calendar.
        (BERLIN, "DTSTART:20261225T000000|DTEND:20261226T000000", &["2026-12-25"]),
        (BERLIN, "DTSTART:20261225T000000|DURATION:PT24H", &["2026-12-25"]),
        (BERLIN, "DTSTART:20261225T000000|DTEND;VALUE=DATE:20261226", &["2026-12-25"]),
        // Days of 23 and of 25 hours, and one that begins at 01:00.
        (BERLIN, "DTSTART:20260329T000000|DTEND:20260330T000000", &["2026-03-29"]),
        (BERLIN, "DTSTART:20261025T000000|DTEND:20261026T000000", &["2026-10-25"]),
        (BERLIN, "DTSTART:20261024T220000Z|DTEND:20261025T220000Z", &[]),
        (Some("Asia/Beirut"), "DTSTART:20240330T220000Z|DTEND:20240331T210000Z", &["2024-03-31"]),
        // Parts of days close none.
        (BERLIN, "DTSTART:20261225T090000|DTEND:20261225T100000", &[]),
        (BERLIN, "DTSTART:20261225T220000|DTEND:20261226T020000", &[]),
        (BERLIN, "DTSTART:20261225T220000|DTEND:20261227T020000", &["2026-12-26"]),
        (BERLIN, "DTSTART:20261225T000000", &[]),
        // A path before the name of the zone.
        (None, "DTSTART;TZID=/example.org/20050126_1/Europe/Berlin:20261225T000000|DURATION:P1D", &["2026-12-25"]),
        (None, r#"DTSTART;TZID="Europe/Berlin":20261225T000000|DURATION:P1D"#, &["2026-12-25"]),
        // Each year, by the clocks of the event.
        (
            BERLIN,
            "DTSTART:20251224T230000Z|DTEND:20251225T230000Z|RRULE:FREQ=YEARLY;COUNT=2",
            &["2025-12-25", "2026-12-25"],
        ),
        (BERLIN, "DTSTART:20251224T230000Z|DURATION:P1D|RRULE:FREQ=YEARLY;UNTIL=20261224T225959Z", &["2025-12-25"]),
        (
            BERLIN,
            "DTSTART:20251225T000000|DURATION:P1D|RRULE:FREQ=YEARLY;UNTIL=20261225T000000",
            &["2025-12-25", "2026-12-25"],
        ),
        (
            BERLIN,
            "DTSTART:20251225T000000|DURATION:P1D|RRULE:FREQ=YEARLY;COUNT=3|EXDATE:20261224T230000Z",
            &["2025-12-25", "2027-12-25"],
        ),
        (
            BERLIN,
            "DTSTART:20251225T000000|DURATION:P1D|RRULE:FREQ=YEARLY;COUNT=2|EXDATE;VALUE=DATE:20261225",
            &["2025-12-25"],
        ),
    ] {
        let (dates, file) = read_in(zone, &event(lines)).unwrap_or_else(|fault| panic!("{lines}: {fault:?}"));
        assert_eq!(dates, expected, "{zone:?} {lines}");
        assert_eq!(file.ignored.is_some(), expected.is_empty(), "{zone:?} {lines}");
        assert_eq!(file.warnings, Vec::<String>::new(), "{zone:?} {lines}");
    }
}

#[test]
fn an_event_that_closes_no_day_is_told() {
    let short =
        "BEGIN:VEVENT\r\nSUMMARY:Stand-up\r\nDTSTART:20261225T090000Z\r\nDTEND:20261225T100000Z\r\nEND:VEVENT\r\n";
    let day = "BEGIN:VEVENT\r\nDTSTART;VALUE=DATE:20261226\r\nEND:VEVENT\r\n";
    let (dates, read) = read_in(Some("Europe/Berlin"), &file(&format!("{short}{day}{short}"))).unwrap();
    assert_eq!(dates, ["2026-12-26"]);
    assert_eq!(read.zone.as_deref(), Some("Europe/Berlin"));
    let first = "line 4: event \"Stand-up\": covers no whole day in Europe/Berlin".to_owned();
    assert_eq!(read.ignored, Some(EventsLeftOut { count: 2, first }));
    // An event that does not take place is none of them, and dates have no zone.
    let (_, read) = read_in(None, &event("DTSTART:20261225T090000Z|STATUS:CANCELLED")).unwrap();
    assert_eq!(read.ignored, None);
    let (_, read) = read_in(None, &file(day)).unwrap();
    assert_eq!(read, CalendarFile::default());
}

#[test]
fn the_zone_of_a_file_is_the_one_that_it_names() {
    let day = "BEGIN:VEVENT\r\nDTSTART:20261224T230000Z\r\nDURATION:P1D\r\nEND:VEVENT\r\n";
    let local = "BEGIN:VEVENT\r\nDTSTART;TZID=Mitteleuropa:20261225T000000\r\nDURATION:P1D\r\nEND:VEVENT\r\n";
    let described = |name: &str, more: &str| format!("BEGIN:VTIMEZONE\r\nTZID:{name}\r\n{more}END:VTIMEZONE\r\n");
    let berlin = described("Europe/Berlin", "");
    let located = described("Mitteleuropa", "X-LIC-LOCATION:Europe/Berlin\r\n");
    for (text, zone, expected) in [
        (format!("X-WR-TIMEZONE:Europe/Berlin\r\n{day}"), "Europe/Berlin", &["2026-12-25"][..]),
        // It may stand behind the events.
        (format!("{day}X-WR-TIMEZONE:Europe/Berlin\r\n"), "Europe/Berlin", &["2026-12-25"]),
        (format!("{berlin}{day}"), "Europe/Berlin", &["2026-12-25"]),
        (format!("{located}{local}{day}"), "Europe/Berlin", &["2026-12-25"]),
        (format!("{berlin}{}{day}", described("Asia/Tokyo", "")), "UTC", &[]),
        // No name at all.
        (format!("X-WR-TIMEZONE:\r\n{day}"), "UTC", &[]),
        (day.to_owned(), "UTC", &[]),
    ] {
        let (dates, read) = read_in(None, &file(&text)).unwrap();
        assert_eq!(
            (&dates[..], read.zone.as_deref()),
            (&expected.iter().map(|date| (*date).to_owned()).collect::<Vec<_>>()[..], Some(zone)),
            "{text}"
        );
        let is_told =
            read.warnings.iter().any(|warning| warning.contains("those of UTC; name another zone with `zone`"));
        assert_eq!(is_told, zone == "UTC", "{text}");
    }
    // A name that nobody knows is that of the zone that was asked for, or refused.
    let fault = read_in(None, &file(local)).unwrap_err();
    assert_eq!(fault.line, 5);
    assert!(
        fault.detail.contains("`Mitteleuropa` is not a known time zone; name the zone of the calendar"),
        "{fault:?}"
    );
    let (dates, read) = read_in(Some("Europe/Berlin"), &file(local)).unwrap();
    assert_eq!(dates, ["2026-12-25"]);
    assert!(read.warnings[0].contains("`Mitteleuropa` is not a known time zone; its times"), "{read:?}");
    assert!(read_in(None, &file(&local.replace("Mitteleuropa", "localtime"))).is_err());
}

#[test]
fn a_zone_that_is_not_plain_is_not_taken_for_utc() {
    let day = event_lines("DTSTART:20261224T230000Z|DURATION:P1D");
    for name in ["Mars/Base", "localtime", "posixrules"] {
        let text = file(&format!("X-WR-TIMEZONE:{name}\r\n{day}"));
        let fault = read_in(None, &text).unwrap_err();
        assert_eq!(fault.line, 4);
        assert_eq!(
            fault.detail,
            format!("`{name}` is not a known time zone; name the zone of the calendar with `zone`")
        );
        assert_eq!(read_in(Some("Europe/Berlin"), &text).unwrap().0, ["2026-12-25"], "{name}");
        // Dates are the same everywhere.
        let dated = file(&format!("X-WR-TIMEZONE:{name}\r\n{}", event_lines("DTSTART;VALUE=DATE:20261225")));
        assert_eq!(dates(&dated), ["2026-12-25"], "{name}");
    }
    let day_in = |zone: &str| event_lines(&format!("DTSTART;TZID={zone}:20261225T000000|DURATION:P1D"));
    let several = format!("{}{}", day_in("Europe/Berlin"), day_in("America/New_York"));
    let fault = read_in(None, &file(&several)).unwrap_err();
    assert!(fault.detail.contains("several time zones (America/New_York, Europe/Berlin)"), "{fault:?}");
    assert_eq!(read_in(Some("Europe/Berlin"), &file(&several)).unwrap().0, ["2026-12-25"]);
    let named = file(&format!("X-WR-TIMEZONE:Europe/Berlin\r\n{several}"));
    assert_eq!(dates(&named), ["2026-12-25"], "the file says whose days they are");
    // Two names of one zone are one.
    let same = format!("{}{}", day_in("Europe/Berlin"), day_in("/example.org/1/Europe/Berlin"));
    assert_eq!(dates(&file(&same)), ["2026-12-25"]);
}

#[test]
fn occurrences_that_close_no_day_are_told_beside_those_that_do() {
    const MONTHLY: &str = "SUMMARY:Close|DTSTART:20260131T220000Z|DTEND:20260201T220000Z|\
                           RRULE:FREQ=MONTHLY;BYMONTHDAY=-1;COUNT=9";
    let (dates, read) = read_in(Some("Europe/Berlin"), &event(MONTHLY)).unwrap();
    // Midnight in Berlin is 22:00 UTC from the end of March to the end of October.
    assert_eq!((dates.len(), &read.ignored), (7, &None));
    let told = "line 4: event \"Close\": 2 of its 9 occurrences cover no whole day in Europe/Berlin";
    assert_eq!(read.warnings, [told]);
    let twice = file(&format!("{0}{0}", event_lines(MONTHLY)));
    let (_, read) = read_in(Some("Europe/Berlin"), &twice).unwrap();
    assert_eq!(read.warnings, [format!("{told}; the same is true of 1 other event")]);
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
fn a_line_may_be_folded_inside_a_character() {
    let text = event("SUMMARY:Fête nationale|DTSTART;VALUE=DATE:20260714").into_bytes();
    let at = text.iter().position(|byte| *byte == 0xc3).unwrap() + 1;
    let folded = [&text[..at], b"\r\n ", &text[at..]].concat();
    assert!(String::from_utf8(folded.clone()).is_err());
    let dates = read(&folded, &options(None)).unwrap().dates;
    assert_eq!(dates.first().unwrap().to_string(), "2026-07-14");
    let latin = [&text[..at - 1], b"\xea", &text[at + 1..]].concat();
    let fault = read(&latin, &options(None)).unwrap_err();
    assert_eq!((fault.line, fault.detail.as_str()), (5, "the line is not valid UTF-8; save the file as UTF-8"));
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
fn rules_name_weekdays_months_and_days() {
    for (start, rule, expected) in [
        // Thanksgiving, Memorial Day, election day, and the Friday after Thanksgiving, which is not always the fourth.
        ("20251127", "FREQ=YEARLY;BYMONTH=11;BYDAY=4TH;COUNT=3", &["2025-11-27", "2026-11-26", "2027-11-25"][..]),
        ("20250526", "FREQ=YEARLY;BYDAY=-1MO;BYMONTH=5;COUNT=2", &["2025-05-26", "2026-05-25"]),
        (
            "20261103",
            "FREQ=YEARLY;INTERVAL=2;BYMONTH=11;BYMONTHDAY=2,3,4,5,6,7,8;BYDAY=TU;COUNT=2",
            &["2026-11-03", "2028-11-07"],
        ),
        (
            "20261127",
            "FREQ=YEARLY;BYMONTH=11;BYMONTHDAY=23,24,25,26,27,28,29;BYDAY=FR;COUNT=2",
            &["2026-11-27", "2027-11-26"],
        ),
        // Weekdays of the year.
        ("20260518", "FREQ=YEARLY;BYDAY=20MO;COUNT=2", &["2026-05-18", "2027-05-17"]),
        ("20261231", "FREQ=YEARLY;BYDAY=-1TH;COUNT=2", &["2026-12-31", "2027-12-30"]),
        // Several months, several days, from the end of the month.
        ("20260101", "FREQ=YEARLY;BYMONTH=1,7;COUNT=3", &["2026-01-01", "2026-07-01", "2027-01-01"]),
        (
            "20260131",
            "FREQ=YEARLY;BYMONTH=1,2;BYMONTHDAY=-1;COUNT=4",
            &["2026-01-31", "2026-02-28", "2027-01-31", "2027-02-28"],
        ),
        ("20261225", "FREQ=YEARLY;BYMONTHDAY=25;COUNT=2", &["2026-12-25", "2027-01-25"]),
        // Monthly ones.
        ("20260131", "FREQ=MONTHLY;COUNT=3", &["2026-01-31", "2026-03-31", "2026-05-31"]),
        ("20260130", "FREQ=MONTHLY;BYMONTHDAY=-2;COUNT=3", &["2026-01-30", "2026-02-27", "2026-03-30"]),
        ("20260213", "FREQ=MONTHLY;BYMONTHDAY=13;BYDAY=FR;COUNT=3", &["2026-02-13", "2026-03-13", "2026-11-13"]),
        ("20260105", "FREQ=MONTHLY;INTERVAL=3;BYDAY=1MO;COUNT=3", &["2026-01-05", "2026-04-06", "2026-07-06"]),
        ("20260105", "FREQ=MONTHLY;BYMONTH=1;BYDAY=MO;UNTIL=20260119", &["2026-01-05", "2026-01-12", "2026-01-19"]),
        ("20260529", "FREQ=MONTHLY;BYDAY=5FR;COUNT=2", &["2026-05-29", "2026-07-31"]),
    ] {
        assert_eq!(dates(&event(&format!("DTSTART;VALUE=DATE:{start}|RRULE:{rule}"))), expected, "{rule}");
    }
    let always = dates(&event("DTSTART;VALUE=DATE:20251127|RRULE:FREQ=YEARLY;BYMONTH=11;BYDAY=4TH"));
    assert_eq!((always.len(), always.last().unwrap().as_str()), (22, "2046-11-22"));
}

#[test]
fn all_rules_of_an_event_count() {
    let rules = "RRULE:FREQ=YEARLY;BYMONTH=1;BYMONTHDAY=1;COUNT=2|RRULE:FREQ=YEARLY;BYMONTH=12;BYMONTHDAY=25;COUNT=1";
    assert_eq!(
        dates(&event(&format!("DTSTART;VALUE=DATE:20260101|{rules}"))),
        ["2026-01-01", "2026-12-25", "2027-01-01"]
    );
}

#[test]
fn an_event_that_begins_far_ahead_comes_for_twenty_years_from_then() {
    let far = dates(&event("DTSTART;VALUE=DATE:20600101|RRULE:FREQ=YEARLY"));
    assert_eq!((far.len(), far[0].as_str(), far[20].as_str()), (21, "2060-01-01", "2080-01-01"));
    assert_eq!(dates(&event("DTSTART;VALUE=DATE:99990101|RRULE:FREQ=YEARLY")), ["9999-01-01"]);
}

#[test]
fn events_that_are_not_understood_are_left_out_if_that_is_asked_for() {
    let weekly =
        "BEGIN:VEVENT\r\nDTSTART;VALUE=DATE:20261225\r\nRRULE:FREQ=WEEKLY\r\nSUMMARY:Jour fixe\r\nEND:VEVENT\r\n";
    let day = "BEGIN:VEVENT\r\nDTSTART;VALUE=DATE:20261226\r\nEND:VEVENT\r\n";
    let text = file(&format!("{weekly}{day}{weekly}"));
    let fault = read_in(None, &text).unwrap_err();
    assert_eq!(fault.line, 6);
    assert!(fault.detail.starts_with("event \"Jour fixe\": the rule `FREQ=WEEKLY` is not supported"), "{fault:?}");
    let read = read(text.as_bytes(), &Options { unsupported: Unsupported::Skip, ..options(None) }).unwrap();
    assert_eq!(read.dates.iter().map(ToString::to_string).collect::<Vec<_>>(), ["2026-12-26"]);
    let skipped = read.file.skipped.unwrap();
    assert_eq!(skipped.count, 2);
    assert!(skipped.first.starts_with("line 6: event \"Jour fixe\": the rule"), "{skipped:?}");
}

#[test]
fn what_is_not_understood_is_refused_with_its_line() {
    // The event begins in line 4, its own lines in line 5.
    for (lines, line, detail) in [
        ("SUMMARY:when?", 4, "the event has no DTSTART"),
        ("DTSTART;VALUE=DATE:20261325", 5, "`20261325` is not a date, such as 20261225"),
        ("DTSTART;VALUE=DATE:2026-12-25", 5, "is not a date"),
        ("DTSTART;VALUE=DATE:20261225|DTEND;VALUE=DATE:20261224", 4, "ends before it begins"),
        (
            "DTSTART;VALUE=DATE:20261225|RRULE:FREQ=WEEKLY",
            6,
            "the rule `FREQ=WEEKLY` is not supported: FREQ=WEEKLY; use FREQ=YEARLY",
        ),
        ("DTSTART;VALUE=DATE:20261225|RRULE:FREQ=YEARLY;BYSETPOS=1", 6, "is not supported: BYSETPOS=1;"),
        ("DTSTART;VALUE=DATE:20261225|RRULE:FREQ=YEARLY;BYDAY=XX", 6, "is not supported: BYDAY=XX;"),
        ("DTSTART;VALUE=DATE:20261225|RRULE:FREQ=YEARLY;BYDAY=0MO", 6, "is not supported: BYDAY=0MO;"),
        ("DTSTART;VALUE=DATE:20261225|RRULE:FREQ=YEARLY;BYDAY=é", 6, "is not supported"),
        ("DTSTART;VALUE=DATE:20261225|RRULE:FREQ=YEARLY;BYMONTH=13", 6, "is not supported: BYMONTH=13;"),
        ("DTSTART;VALUE=DATE:20261225|RRULE:FREQ=YEARLY;BYMONTHDAY=0", 6, "is not supported: BYMONTHDAY=0;"),
        ("DTSTART;VALUE=DATE:20261225|RRULE:COUNT=2", 6, "it has no FREQ"),
        ("DTSTART;VALUE=DATE:20261225|RRULE:FREQ=YEARLY;COUNT=0", 6, "COUNT must be a number above 0"),
        ("DTSTART;VALUE=DATE:20261225|RRULE:FREQ=YEARLY;COUNT=99999999999999999999", 6, "COUNT must be a number"),
        ("DTSTART;VALUE=DATE:20261225|RRULE:FREQ=YEARLY;INTERVAL=0", 6, "INTERVAL must be a number above 0"),
        (
            "DTSTART;VALUE=DATE:20261225|RRULE:FREQ=YEARLY;BYMONTH=11",
            4,
            "no rule of the event includes the day of DTSTART",
        ),
        ("DTSTART:20261225T000000Z|DTEND:20261224T000000Z", 4, "ends before it begins"),
        ("DTSTART;VALUE=DATE:20261225|RDATE;VALUE=DATE:20261226", 6, "RDATE is not supported"),
        ("DTSTART;VALUE=DATE:20261225|DURATION:soon", 6, "is not a duration, such as P1D"),
        ("DTSTART;VALUE=DATE:20261225|DURATION:P1Y", 6, "is not a duration, such as P1D"),
        ("DTSTART;VALUE=DATE:99991231|DURATION:P9W", 5, "beyond the year 9999"),
    ] {
        let fault = read_in(None, &event(lines)).expect_err(lines);
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
        assert!(read_in(None, text).unwrap_err().detail.contains(detail), "{text}");
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
        (event("DTSTART:00010101T000000Z|DTEND:99991230T000000Z"), false),
        (event("DTSTART;VALUE=DATE:00010101|RRULE:FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR,SA,SU"), false),
        (
            file(
                &event_lines("DTSTART;VALUE=DATE:00010101|RRULE:FREQ=MONTHLY;BYMONTH=2;BYMONTHDAY=30,1")
                    .repeat(SIZE / 100),
            ),
            false,
        ),
        (
            file(&event_lines("DTSTART:19700101T000000Z|DTEND:19710101T000000Z|RRULE:FREQ=YEARLY").repeat(SIZE / 100)),
            false,
        ),
        (file(&event_lines(&format!("DTSTART;TZID={}:20261225T000000", "a/".repeat(60))).repeat(SIZE / 200)), false),
    ] {
        let begun = std::time::Instant::now();
        let read = read_in(None, &text);
        assert!(begun.elapsed().as_secs() < 5, "{:?} took too long", &text[..60.min(text.len())]);
        match read {
            Ok((dates, _)) => assert!(is_good && dates.len() <= limits::CALENDAR_DATES_MAX, "{:.60}", text),
            Err(fault) => assert!(!is_good && fault.detail.len() < 400, "{:.60}: {}", text, fault.detail.len()),
        }
    }
}
