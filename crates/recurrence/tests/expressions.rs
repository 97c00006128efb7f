//! What expressions mean, and what is refused with which words.

use punctual_recurrence::{CronExpr, FieldName, Rule};

/// Checks the values of one field, for an expression in which every other field is `*`.
fn check_values(field: FieldName, text: &str, expected: &[u8]) {
    let expression = match field {
        FieldName::Second => format!("{text} * * * * *"),
        FieldName::Minute => format!("{text} * * * *"),
        FieldName::Hour => format!("* {text} * * *"),
        FieldName::DayOfMonth => format!("* * {text} * *"),
        FieldName::Month => format!("* * * {text} *"),
        FieldName::DayOfWeek => format!("* * * * {text}"),
    };
    let times = CronExpr::parse(&expression).unwrap_or_else(|error| panic!("{expression}: {error}")).resolve("key");
    let found: Vec<u8> = match field {
        FieldName::Second => times.seconds().collect(),
        FieldName::Minute => times.minutes().collect(),
        FieldName::Hour => times.hours().collect(),
        // January 2023 began on a Sunday, so the weekdays 0 to 6 are days 1 to 7.
        FieldName::DayOfMonth => times.days_in(2023, 1).collect(),
        FieldName::Month => times.months().collect(),
        FieldName::DayOfWeek => times.days_in(2023, 1).filter(|day| *day <= 7).map(|day| day - 1).collect(),
    };
    assert_eq!(found, expected, "{expression}");
}

#[test]
fn fields_take_lists_ranges_steps_and_names() {
    use FieldName::{DayOfWeek, Hour, Minute, Month, Second};
    check_values(Minute, "5", &[5]);
    check_values(Minute, "05", &[5]);
    check_values(Minute, "1,3,3,2", &[1, 2, 3]);
    check_values(Minute, "10-12,58-59", &[10, 11, 12, 58, 59]);
    check_values(Minute, "10-20/5", &[10, 15, 20]);
    check_values(Minute, "50/4", &[50, 54, 58]);
    check_values(Minute, "*/20", &[0, 20, 40]);
    check_values(Minute, "?/20", &[0, 20, 40]);
    check_values(Minute, "*/90", &[0]);
    check_values(Second, "7/30", &[7, 37]);
    check_values(Hour, "*/7", &[0, 7, 14, 21]);
    check_values(Month, "jan,Feb,DEC", &[1, 2, 12]);
    check_values(Month, "*/5", &[1, 6, 11]);
    check_values(Month, "OCT-12", &[10, 11, 12]);
    check_values(DayOfWeek, "0", &[0]);
    check_values(DayOfWeek, "7", &[0]);
    check_values(DayOfWeek, "MON-FRI", &[1, 2, 3, 4, 5]);
    check_values(DayOfWeek, "5-7", &[0, 5, 6]);
    check_values(DayOfWeek, "fri-sun", &[0, 5, 6]);
    check_values(DayOfWeek, "SUN-TUE", &[0, 1, 2]);
    check_values(DayOfWeek, "1/2", &[1, 3, 5]);
    check_values(DayOfWeek, "0-7", &[0, 1, 2, 3, 4, 5, 6]);
}

fn check_days(expression: &str, year: i16, month: u8, expected: &[u8]) {
    let expr = CronExpr::parse(expression).unwrap_or_else(|error| panic!("{expression}: {error}"));
    assert_eq!(expr.resolve("key").days_in(year, month).collect::<Vec<_>>(), expected, "{expression} {year}-{month}");
}

#[test]
fn special_days_of_the_month() {
    check_days("0 0 L * *", 2024, 2, &[29]);
    check_days("0 0 L * *", 2023, 2, &[28]);
    check_days("0 0 L-3 * *", 2026, 4, &[27]);
    check_days("0 0 L-30 * *", 2026, 4, &[]);
    check_days("0 0 1,15,L * *", 2026, 4, &[1, 15, 30]);
    // January 2026 ends on a Saturday, May 2026 on a Sunday, July 2026 on a Friday.
    check_days("0 0 LW * *", 2026, 1, &[30]);
    check_days("0 0 lw * *", 2026, 5, &[29]);
    check_days("0 0 LW * *", 2026, 7, &[31]);
    // Saturday goes to Friday, Sunday to Monday, but never out of the month.
    check_days("0 0 15W * *", 2026, 8, &[14]);
    check_days("0 0 15W * *", 2026, 11, &[16]);
    check_days("0 0 15W * *", 2026, 9, &[15]);
    check_days("0 0 1W * *", 2026, 8, &[3]);
    check_days("0 0 31W * *", 2026, 5, &[29]);
    check_days("0 0 31W * *", 2026, 4, &[]);
}

#[test]
fn special_weekdays() {
    check_days("0 0 * * FRIL", 2026, 1, &[30]);
    check_days("0 0 * * 5L", 2026, 2, &[27]);
    check_days("0 0 * * 7L", 2026, 5, &[31]);
    check_days("0 0 * * MON#2", 2026, 6, &[8]);
    check_days("0 0 * * MON#5", 2026, 6, &[29]);
    check_days("0 0 * * MON#5", 2026, 7, &[]);
    check_days("0 0 * * MON#1,FRI", 2026, 6, &[1, 5, 12, 19, 26]);
}

#[test]
fn either_day_field_matches_if_both_are_restricted_and_both_must_otherwise() {
    // 2026-02: the Fridays are 6, 13, 20 and 27.
    check_days("0 0 1,13 * FRI", 2026, 2, &[1, 6, 13, 20, 27]);
    check_days("0 0 * * FRI", 2026, 2, &[6, 13, 20, 27]);
    check_days("0 0 13 * *", 2026, 2, &[13]);
    // `*/2` begins with a star: odd days that are Fridays. `*,1` does too, and means any day.
    check_days("0 0 */2 * FRI", 2026, 2, &[13, 27]);
    check_days("0 0 *,1 * FRI", 2026, 2, &[6, 13, 20, 27]);
    check_days("0 0 13 * */5", 2026, 2, &[13]);
    check_days("0 0 14 * */5", 2026, 2, &[]);
    // A star that is not in front does not count.
    check_days("0 0 1-31 * FRI", 2026, 2, &(1..=28).collect::<Vec<u8>>());
    check_days("0 0 ? * FRI", 2026, 2, &[6, 13, 20, 27]);
}

#[test]
fn hashed_slots_are_the_same_for_ever() {
    // Computed apart from this crate. A change here would move every schedule with a hashed slot.
    let check = |key: &str, expression: &str, expected: &[&[u8]; 3]| {
        let times = CronExpr::parse(expression).expect("valid").resolve(key);
        let found = [times.minutes().collect::<Vec<_>>(), times.hours().collect(), times.days_in(2026, 1).collect()];
        assert_eq!(found.each_ref().map(Vec::as_slice), *expected, "{key}: {expression}");
    };
    check("key", "H H H * *", &[&[30], &[0], &[20]]);
    check("backup", "H H H * *", &[&[15], &[19], &[19]]);
    check("reports/daily", "H H H * *", &[&[11], &[10], &[6]]);
    check("日報", "H H H * *", &[&[22], &[17], &[9]]);
    check("key", "H/15 0 1 * *", &[&[7, 22, 37, 52], &[0], &[1]]);
    check("backup", "H(0-29) 0 1 * *", &[&[7], &[0], &[1]]);
    check("backup", "0~29 ~ 1 * *", &[&[7], &[19], &[1]]);
    check("backup", "H(0-29)/15 0 1 * *", &[&[3, 18], &[0], &[1]]);
    check("backup", "H,H 0 1 * *", &[&[15, 23], &[0], &[1]]);
}

#[test]
fn names_for_whole_expressions() {
    for (name, fields) in [
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@weekly", "0 0 * * 0"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
        ("@Annually", "0 0 1 1 *"),
    ] {
        assert_eq!(CronExpr::parse(name).expect(name).to_string(), fields);
    }
    let every = |text: &str| match text.parse::<Rule>() {
        Ok(Rule::Interval { every, anchor: None }) => every.as_secs(),
        other => panic!("{text}: {other:?}"),
    };
    assert_eq!(every("@every 90s"), 90);
    assert_eq!(every("@every 1h30m"), 5400);
    assert_eq!(every("@EVERY 2d"), 172_800);
}

#[test]
fn the_written_form_is_normalised() {
    let check = |text: &str, expected: &str| assert_eq!(CronExpr::parse(text).expect(text).to_string(), expected);
    check(" 0   9\t* * mon-FRI ", "0 9 * * 1-5");
    check("0 0 ? JAN 7", "0 0 * 1 0");
    check("5/10 * * * *", "5-59/10 * * * *");
    check("0~29 ~ ~ * *", "H(0-29) H H * *");
    check("0 0 lw,l-2,15w * *", "0 0 LW,L-2,15W * *");
    check("0 0 * * fril,mon#2", "0 0 * * 5L,1#2");
    check("*/1 0 0 1 1 *", "* 0 0 1 1 *");
}

#[test]
fn a_mistake_is_named_with_its_place_and_a_remedy() {
    let check = |text: &str, expected: &str| match text.parse::<Rule>() {
        Ok(rule) => panic!("{text} was read as {rule:?}"),
        Err(error) => assert_eq!(error.to_string(), expected, "{text}"),
    };
    check("60 * * * *", "minute field, column 1: 60 is out of range; use 0 to 59");
    check("0 0 1,32 * *", "day-of-month field, column 7: 32 is out of range; use 1 to 31, L, L-3, LW or 15W");
    check("0 0 * 0 *", "month field, column 7: 0 is out of range; use 1 to 12 or JAN to DEC");
    check(
        "0 22-2 * * *",
        "hour field, column 3: the range 22-2 runs backwards; write `22-23,0-2` to go over the end, or swap its ends",
    );
    check(
        "0 0 * * FRI-MON",
        "day-of-week field, column 9: the range 5-1 runs backwards; write `5-6,0-1` to go over the end, or swap its ends",
    );
    check("H(9-5) * * * *", "minute field, column 3: the range 9-5 runs backwards; swap its ends");
    check("0 22~2 * * *", "hour field, column 3: the range 22-2 runs backwards; swap its ends");
    check("*/0 * * * *", "minute field, column 3: a step of 0 never moves on; use a step of 1 or more");
    check(
        "1,,2 * * * *",
        "minute field, column 3: a value is missing; write a value between the commas, or drop a comma",
    );
    check(
        "0 0 * * MONDAY",
        "day-of-week field, column 9: `MONDAY` is not a value of this field; use 0 to 7 (0 and 7 are Sunday), SUN to SAT, FRIL or MON#2",
    );
    check(
        "0 0 * * MON#6",
        "day-of-week field, column 13: a month has no weekday number `6`; use #1 to #5, or FRIL for the last Friday",
    );
    check(
        "0 0 * * L",
        "day-of-week field, column 9: L needs a weekday here; write FRIL for the last Friday, or SAT for Saturday",
    );
    check(
        "0 0 L+1 * *",
        "day-of-month field, column 6: `+1` cannot follow L; write L for the last day, L-1 to L-30 for days before it, or LW for the last workday",
    );
    check(
        "0 0 30 2 *",
        "day-of-month field, column 5: no year has such a date: `30` in month `2`; choose a day that the month has, such as L for its last day",
    );
    check(
        "0 0 31 4,6,9,11 *",
        "day-of-month field, column 5: no year has such a date: `31` in month `4,6,9,11`; choose a day that the month has, such as L for its last day",
    );
    check(
        "CRON_TZ=Asia/Tokyo 0 9 * * *",
        "column 1: the time zone is not a part of the expression; set the schedule's zone to `Asia/Tokyo` and leave it out here",
    );
    check(
        "@every 3651d",
        "column 8: `3651d` is not an interval; write it like `@every 90s`, `@every 1h30m` or `@every 2d`, from 1s to 3650d",
    );
    check(
        "* * * *",
        "column 8: 4 fields are too few; write `minute hour day-of-month month day-of-week`, with seconds in front if needed",
    );
    check(
        "0 0 0 1 1 * 2026",
        "column 13: 7 fields are too many; write `minute hour day-of-month month day-of-week`, with seconds in front if needed; for a year, set start_at and end_at",
    );
    check(
        "",
        "column 1: the expression is empty; write `minute hour day-of-month month day-of-week`, with seconds in front if needed",
    );
    check(
        "0 9 * * ü",
        "column 9: `ü` is not allowed in an expression; use ASCII letters, digits and * ? , - / # ~ ( )",
    );
    check("H(5 * * * *", "minute field, column 2: the bracket after H is not closed; write it like H(0-29)");
    check("0~9/2 * * * *", "minute field, column 3: `~` takes no step; write H(low-high)/step");
    check("99999 * * * *", "minute field, column 1: `99999` is too long a number; use 0 to 59");
    check(
        "@never",
        "column 1: `@never` is unknown; use @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually or @every 90s",
    );
    check(
        "@every 90",
        "column 8: `90` is not an interval; write it like `@every 90s`, `@every 1h30m` or `@every 2d`, from 1s to 3650d",
    );
    check(
        "@every 0s",
        "column 8: `0s` is not an interval; write it like `@every 90s`, `@every 1h30m` or `@every 2d`, from 1s to 3650d",
    );
    check(
        "@reboot",
        "column 1: @reboot has no time: a schedule outlives reboots; start the job by hand or from the service that needs it, or schedule it by time",
    );
    check(&"1,".repeat(129), "column 257: the expression is longer than 256 characters; split it into several rules");
}

#[test]
fn the_end_of_a_line_does_not_matter() {
    let expression = CronExpr::parse("30 9 * * 1-5").unwrap();
    assert_eq!(CronExpr::parse("30 9 * * 1-5\n"), Ok(expression.clone()));
    assert_eq!(CronExpr::parse("30 9 * * 1-5\r\n"), Ok(expression));
    assert!(CronExpr::parse("30 9 *\n* 1-5").is_err(), "but two lines are not one");
}

#[test]
fn a_rare_date_is_not_refused() {
    for text in ["0 0 29 2 *", "0 0 29 2 */7", "0 0 30 2 MON", "0 0 L-30 1 *", "0 0 31W 1 *", "0 0 * 2 MON#5"] {
        CronExpr::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    }
    for text in ["0 0 31 2 */3", "0 0 L-29 2 *", "0 0 31W 6 *", "0 0 30 2 ?"] {
        assert!(CronExpr::parse(text).is_err(), "{text} can never fire");
    }
}
