//! Random expressions, each as the text that the crate parses and as sets that the oracle reads. The sets come from
//! the generator's own choices, never from the crate's parser.

use jiff::civil::{Date, Weekday};
use punctual_recurrence::CronExpr;

use super::random::Random;

/// The key of every schedule that is compared.
pub(crate) const KEY: &str = "key";

/// A field of plain values.
#[derive(Clone, Debug)]
pub(crate) struct Values {
    pub(crate) text: String,
    pub(crate) set: Vec<bool>,
    pub(crate) begins_with_star: bool,
}

/// A term of a day field whose days differ from month to month.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SpecialDay {
    DaysBeforeLast(i8),
    LastWorkday,
    NearestWorkday(i8),
    LastWeekday(i8),
    NthWeekday(i8, i8),
}

#[derive(Clone, Debug)]
pub(crate) struct DayField {
    pub(crate) values: Values,
    pub(crate) special: Option<SpecialDay>,
}

#[derive(Clone, Debug)]
pub(crate) struct Expression {
    pub(crate) second: Option<Values>,
    pub(crate) minute: Values,
    pub(crate) hour: Values,
    pub(crate) day_of_month: DayField,
    pub(crate) month: Values,
    pub(crate) day_of_week: DayField,
}

impl Expression {
    pub(crate) fn random(random: &mut Random, with_seconds: bool) -> Self {
        // Most clock changes happen between midnight and four.
        let hour_high = if random.once_in(3) { 23 } else { 4 };
        let quiet = random.once_in(2);
        let is_hashed = random.once_in(8);
        Self {
            second: with_seconds.then(|| values(random, 0, 59, 59)),
            minute: if is_hashed { hashed_minute(random) } else { values(random, 0, 59, 59) },
            hour: if is_hashed { hashed_hour(random) } else { values(random, 0, 23, hour_high) },
            day_of_month: if quiet { star_day(0, 31) } else { day_of_month(random) },
            month: if random.once_in(4) { values(random, 1, 12, 12) } else { star(1, 12) },
            day_of_week: if quiet || random.once_in(2) { star_day(0, 6) } else { day_of_week(random) },
        }
    }

    /// Every day at one time.
    pub(crate) fn daily(hour: u32, minute: u32, second: u32) -> Self {
        let single = |value: u32, high: u32| Values {
            text: value.to_string(),
            set: (0..=high).map(|candidate| candidate == value).collect(),
            begins_with_star: false,
        };
        Self {
            second: Some(single(second, 59)),
            minute: single(minute, 59),
            hour: single(hour, 23),
            day_of_month: star_day(0, 31),
            month: star(1, 12),
            day_of_week: star_day(0, 6),
        }
    }

    pub(crate) fn text(&self) -> String {
        let mut fields: Vec<&str> = self.second.iter().map(|field| field.text.as_str()).collect();
        let day_fields = [&self.day_of_month.values.text, &self.month.text, &self.day_of_week.values.text];
        fields.extend([&self.minute.text, &self.hour.text].into_iter().chain(day_fields).map(String::as_str));
        fields.join(" ")
    }

    pub(crate) fn follows_real_time(&self) -> bool {
        self.minute.begins_with_star || self.hour.begins_with_star
    }

    pub(crate) fn matches_time(&self, second_of_day: u32) -> bool {
        let second = second_of_day as usize % 60;
        self.hour.set[second_of_day as usize / 3600]
            && self.minute.set[second_of_day as usize / 60 % 60]
            && self.second.as_ref().map_or(second == 0, |field| field.set[second])
    }

    pub(crate) fn matches_date(&self, date: Date) -> bool {
        if !self.month.set[date.month() as usize] {
            return false;
        }
        let by_date = self.day_of_month.values.set[date.day() as usize]
            || self.day_of_month.special.is_some_and(|special| special_matches(special, date));
        let by_weekday = self.day_of_week.values.set[date.weekday().to_sunday_zero_offset() as usize]
            || self.day_of_week.special.is_some_and(|special| special_matches(special, date));
        let is_star = self.day_of_month.values.begins_with_star || self.day_of_week.values.begins_with_star;
        if is_star { by_date && by_weekday } else { by_date || by_weekday }
    }
}

fn special_matches(special: SpecialDay, date: Date) -> bool {
    let is_workday = |date: Date| !matches!(date.weekday(), Weekday::Saturday | Weekday::Sunday);
    let in_month = |day: i8| Date::new(date.year(), date.month(), day).ok();
    match special {
        SpecialDay::DaysBeforeLast(days) => date.day() == date.days_in_month() - days,
        SpecialDay::LastWorkday => (1..=31).filter_map(in_month).rfind(|day| is_workday(*day)) == Some(date),
        SpecialDay::NearestWorkday(day) => {
            let Some(wanted) = in_month(day) else { return false };
            let distance = |candidate: &Date| (candidate.day() - wanted.day()).abs();
            (1..=31).filter_map(in_month).filter(|day| is_workday(*day)).min_by_key(distance) == Some(date)
        }
        SpecialDay::LastWeekday(weekday) => {
            let weekday = Weekday::from_sunday_zero_offset(weekday).expect("0 to 6");
            date.nth_weekday_of_month(-1, weekday).ok() == Some(date)
        }
        SpecialDay::NthWeekday(weekday, nth) => {
            let weekday = Weekday::from_sunday_zero_offset(weekday).expect("0 to 6");
            date.nth_weekday_of_month(nth, weekday).ok() == Some(date)
        }
    }
}

fn star(low: u32, high: u32) -> Values {
    let set = (0..=high).map(|value| value >= low).collect();
    Values { text: "*".into(), set, begins_with_star: true }
}

fn star_day(low: u32, high: u32) -> DayField {
    DayField { values: star(low, high), special: None }
}

/// A random field of values from `low` to `high`, with single values drawn up to `favoured`.
fn values(random: &mut Random, low: u32, high: u32, favoured: u32) -> Values {
    let mut set = vec![false; high as usize + 1];
    let mut texts = Vec::new();
    let mut begins_with_star = false;
    for position in 0..*random.pick(&[1, 1, 1, 2, 3]) {
        let from = random.between(low, favoured);
        let to = random.between(from, high.min(from + 10));
        let step = *random.pick(&[1, 2, 3, 7, 15, 40]);
        let (text, chosen): (String, Vec<u32>) = match random.between(0, 7) {
            0 => ("*".into(), (low..=high).collect()),
            1 => (format!("*/{step}"), (low..=high).filter(|value| (value - low).is_multiple_of(step)).collect()),
            2 => ("?".into(), (low..=high).collect()),
            3 => (format!("{from}-{to}"), (from..=to).collect()),
            4 => (
                format!("{from}-{to}/{step}"),
                (from..=to).filter(|value| (value - from).is_multiple_of(step)).collect(),
            ),
            5 if from < high => {
                (format!("{from}/{step}"), (from..=high).filter(|value| (value - from).is_multiple_of(step)).collect())
            }
            _ => (format!("{from}"), vec![from]),
        };
        begins_with_star |= position == 0 && (text.starts_with('*') || text.starts_with('?'));
        chosen.into_iter().for_each(|value| set[value as usize] = true);
        texts.push(text);
    }
    Values { text: texts.join(","), set, begins_with_star }
}

/// Which values a key chooses is tested elsewhere, with values computed apart; here the crate says what they are.
fn hashed_minute(random: &mut Random) -> Values {
    let text = random.pick(&["H", "H/15", "H(0-29)", "0~29", "H(20-40)/7"]).to_string();
    let times = CronExpr::parse(&format!("{text} * * * *")).expect("a valid expression").resolve(KEY);
    let chosen: Vec<u8> = times.minutes().collect();
    Values { text, set: (0..60).map(|value| chosen.contains(&value)).collect(), begins_with_star: false }
}

fn hashed_hour(random: &mut Random) -> Values {
    let text = random.pick(&["H(0-3)", "H(1-2)", "2~3", "H/2", "H", "*"]).to_string();
    let times = CronExpr::parse(&format!("0 {text} * * *")).expect("a valid expression").resolve(KEY);
    let chosen: Vec<u8> = times.hours().collect();
    let begins_with_star = text == "*";
    Values { text, set: (0..24).map(|value| chosen.contains(&value)).collect(), begins_with_star }
}

/// Adds a special term in front of, behind or instead of the values.
fn with_special(random: &mut Random, mut values: Values, text: String, special: SpecialDay) -> DayField {
    match random.between(0, 2) {
        0 => {
            values.text = format!("{text},{}", values.text);
            values.begins_with_star = false;
        }
        1 => values.text = format!("{},{text}", values.text),
        _ => {
            values.text = text;
            values.set.fill(false);
            values.begins_with_star = false;
        }
    }
    DayField { values, special: Some(special) }
}

fn day_of_month(random: &mut Random) -> DayField {
    let plain = values(random, 1, 31, 31);
    let (text, special) = match random.between(0, 5) {
        0 => ("L".into(), SpecialDay::DaysBeforeLast(0)),
        1 => {
            let days = random.between(1, 30);
            (format!("L-{days}"), SpecialDay::DaysBeforeLast(days as i8))
        }
        2 => ("lw".into(), SpecialDay::LastWorkday),
        3 => {
            let day = random.between(1, 31);
            (format!("{day}W"), SpecialDay::NearestWorkday(day as i8))
        }
        _ => return DayField { values: plain, special: None },
    };
    with_special(random, plain, text, special)
}

fn day_of_week(random: &mut Random) -> DayField {
    let names = ["SUN", "mon", "Tue", "WED", "THU", "fri", "SAT"];
    let plain = values(random, 0, 6, 6);
    let weekday = random.between(0, 6) as i8;
    let name = if random.once_in(2) { names[weekday as usize].to_string() } else { weekday.to_string() };
    let (text, special) = match random.between(0, 4) {
        0 => (format!("{name}L"), SpecialDay::LastWeekday(weekday)),
        1 => {
            let nth = random.between(1, 5);
            (format!("{name}#{nth}"), SpecialDay::NthWeekday(weekday, nth as i8))
        }
        2 => {
            // Sunday as 7, at the end of a range.
            let mut set = vec![false; 7];
            (weekday..=7).for_each(|day| set[day as usize % 7] = true);
            let end = random.pick(&["7", "SUN"]);
            let values = Values { text: format!("{name}-{end}"), set, begins_with_star: false };
            return DayField { values, special: None };
        }
        _ => return DayField { values: plain, special: None },
    };
    with_special(random, plain, text, special)
}
