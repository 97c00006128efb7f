//! The rules of a schedule: the words of the interface, and those of the core.

use jiff::SignedDuration;
use punctual_api::{RuleRequest, ScheduleRequest};
use punctual_core::schedule::recurrence::{RULES_MAX, Rule};
use punctual_core::{Span, Timestamp};

use crate::schedules::zone::{from_jiff, to_jiff};
use crate::{AppError, Faults, Result};

/// Reads the rules of a request; there is at least one.
pub(super) fn read(request: &ScheduleRequest) -> Result<Vec<Rule>> {
    let own = RuleRequest {
        cron: request.cron.clone(),
        every: request.every,
        anchor: request.anchor,
        daily: request.daily.clone(),
        at: request.at,
    };
    if request.rules.is_empty() {
        return Ok(vec![rule("", &own, "or several of them in `rules`")?]);
    }
    if own != RuleRequest::default() {
        let error = AppError::field("", "the schedule has `rules` and another rule beside them");
        return Err(error.hint("put all of them into `rules`"));
    }
    if request.rules.len() > RULES_MAX {
        let error = AppError::too_long("/rules", format!("must be at most {RULES_MAX}, not {}", request.rules.len()));
        return Err(error.hint("split it into several schedules"));
    }
    let mut faults = Faults::default();
    let read = |(place, written)| faults.value(rule(&pointer(place), written, "in each of the rules"));
    let rules = request.rules.iter().enumerate().filter_map(read).collect();
    faults.finish()?;
    Ok(rules)
}

/// Where the rule of this number is in a request.
pub(super) fn place(request: &ScheduleRequest, number: usize) -> String {
    if request.rules.is_empty() { String::new() } else { pointer(number.saturating_sub(1)) }
}

fn pointer(place: usize) -> String {
    format!("/rules/{place}")
}

fn rule(place: &str, written: &RuleRequest, or: &str) -> Result<Rule> {
    let RuleRequest { cron, every, anchor, daily, at } = written;
    let given = [cron.is_some(), every.is_some(), daily.is_some(), at.is_some()];
    let advice = format!("give one of `cron`, `every`, `daily` and `at`, {or}");
    match given.into_iter().filter(|is_given| *is_given).count() {
        0 => return Err(AppError::field(place, "nothing says when it fires").hint(advice)),
        1 => {}
        _ => return Err(AppError::field(place, "more than one rule says when it fires").hint(advice)),
    }
    if anchor.is_some() && every.is_none() {
        let error = AppError::field(format!("{place}/anchor"), "goes only with `every`");
        return Err(error.hint("leave it out, or use `start_at`"));
    }
    if let Some(text) = cron {
        let parsed = text.parse().map_err(|error| AppError::field(format!("{place}/cron"), format!("{error}")));
        return parsed.map_err(|error: AppError| error.hint("such as `30 9 * * MON-FRI`: at 09:30, Monday to Friday"));
    }
    if let Some(text) = daily {
        return time_of_day(text).ok_or_else(|| {
            let shown: String = text.chars().take(32).collect();
            let detail = format!("`{shown}` is no time of day, such as 09:30 or 09:30:15");
            AppError::field(format!("{place}/daily"), detail)
        });
    }
    if let Some(every) = every {
        let every = SignedDuration::from_micros(every.as_micros());
        return Ok(Rule::Interval { every, anchor: anchor.map(to_jiff) });
    }
    Ok(Rule::Once(to_jiff(at.expect("it is the one that is left"))))
}

fn time_of_day(text: &str) -> Option<Rule> {
    let mut parts = text.split(':');
    let mut number = |digits: std::ops::RangeInclusive<usize>, max: u8| {
        let part = parts.next()?;
        let is_number = digits.contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
        part.parse::<u8>().ok().filter(|value| is_number && *value <= max)
    };
    let (hour, minute) = (number(1..=2, 23)?, number(2..=2, 59)?);
    let second = if text.matches(':').count() > 1 { number(2..=2, 59)? } else { 0 };
    parts.next().is_none().then_some(Rule::Daily { hour, minute, second })
}

/// Puts rules into a request, as a user would write them.
pub(super) fn write(rules: &[Rule], request: &mut ScheduleRequest) {
    let mut written: Vec<RuleRequest> = rules.iter().map(written).collect();
    if let (1, Some(only)) = (written.len(), written.pop()) {
        let RuleRequest { cron, every, anchor, daily, at } = only;
        (request.cron, request.every, request.anchor, request.daily, request.at) = (cron, every, anchor, daily, at);
    } else {
        request.rules = rules.iter().map(self::written).collect();
    }
}

fn written(rule: &Rule) -> RuleRequest {
    let empty = RuleRequest::default();
    match rule {
        Rule::Cron(expression) => RuleRequest { cron: Some(expression.to_string()), ..empty },
        Rule::Daily { hour, minute, second: 0 } => {
            RuleRequest { daily: Some(format!("{hour:02}:{minute:02}")), ..empty }
        }
        Rule::Daily { hour, minute, second } => {
            RuleRequest { daily: Some(format!("{hour:02}:{minute:02}:{second:02}")), ..empty }
        }
        Rule::Interval { every, anchor } => RuleRequest {
            every: Some(Span::from_micros(i64::try_from(every.as_micros()).unwrap_or(i64::MAX))),
            anchor: anchor.map(from_jiff),
            ..empty
        },
        Rule::Once(at) => RuleRequest { at: Some(from_jiff(*at)), ..empty },
    }
}

/// Whether none of the rules has a time after this one, as far as that is plain to see.
pub(super) fn is_over(rules: &[Rule], end_at: Option<jiff::Timestamp>, now: Timestamp) -> bool {
    let is_past = |rule: &Rule| match rule {
        Rule::Once(at) => *at <= to_jiff(now),
        Rule::Cron(_) | Rule::Daily { .. } | Rule::Interval { .. } => false,
    };
    end_at.is_some_and(|end_at| end_at <= to_jiff(now)) || rules.iter().all(is_past)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_day_is_read_in_the_two_ways_people_write_it() {
        let at = |hour, minute, second| Some(Rule::Daily { hour, minute, second });
        for (text, expected) in [
            ("09:30", at(9, 30, 0)),
            ("9:30", at(9, 30, 0)),
            ("23:59:59", at(23, 59, 59)),
            ("00:00", at(0, 0, 0)),
            ("24:00", None),
            ("09:60", None),
            ("09:30:60", None),
            ("09:3", None),
            ("0930", None),
            ("09:30:15:00", None),
            ("09:30:", None),
            (":30", None),
            ("+9:30", None),
            ("", None),
            ("noon", None),
        ] {
            assert_eq!(time_of_day(text), expected, "{text}");
        }
    }

    #[test]
    fn rules_are_shown_in_words_that_read_back_the_same() {
        for json in [
            r#"{"cron":"30 9 * * 1-5"}"#,
            r#"{"cron":"H H * * *"}"#,
            r#"{"every":"90s"}"#,
            r#"{"every":"90s","anchor":"2026-01-01T00:00:00Z"}"#,
            r#"{"daily":"09:30"}"#,
            r#"{"daily":"09:30:15"}"#,
            r#"{"at":"2026-12-24T18:00:00+01:00"}"#,
            r#"{"rules":[{"cron":"0 9 * * *"},{"every":"1h"},{"daily":"12:00"}]}"#,
        ] {
            let request: ScheduleRequest = serde_json::from_str(json).unwrap();
            let rules = read(&request).unwrap();
            let mut again = ScheduleRequest::default();
            write(&rules, &mut again);
            assert_eq!(serde_json::to_string(&again).unwrap(), serde_json::to_string(&request).unwrap());
            assert_eq!(read(&again).unwrap(), rules);
        }
        let names: ScheduleRequest = serde_json::from_str(r#"{"cron":"30 9 * * MON-FRI"}"#).unwrap();
        assert_eq!(written(&read(&names).unwrap()[0]).cron.as_deref(), Some("30 9 * * 1-5"));
    }
}
