//! What a run learns about itself: one list for the environment of programs, the headers of requests, and placeholders.

use std::borrow::Cow;

use crate::attempt::AttemptNo;
use crate::id::JobId;
use crate::run::Run;
use crate::schedule::ScheduledRun;

/// The kind of run of a job that no schedule made.
const ONE_OFF: &str = "one_off";

/// Every name that there is. Environment variables have it in upper case after `PUNCTUAL_`, headers with dashes after
/// `Punctual-`, placeholders as `{{ punctual.NAME }}`.
pub const FACT_NAMES: [&str; 12] = [
    "job_id",
    "attempt",
    "scheduled_at",
    "run_type",
    "schedule",
    "schedule_id",
    "planned_at",
    "planned_at_local",
    "time_zone",
    "interval_start",
    "interval_end",
    "last_success",
];

/// Placeholders of one text, at most: each may take the place of a few characters with a hundred.
pub const PLACEHOLDERS_MAX: usize = 64;

const OPEN: &str = "{{";
const CLOSE: &str = "}}";
/// Braces around anything else are left alone: they belong to somebody else's templates.
const PREFIX: &str = "punctual.";

/// The facts of one attempt. A name without a value is left out.
#[derive(Debug, Clone)]
pub struct Facts(Vec<(&'static str, String)>);

impl Facts {
    pub fn new(job: JobId, attempt: AttemptNo, run: Option<&ScheduledRun>) -> Self {
        let mut facts = vec![
            ("job_id", job.to_string()),
            ("attempt", attempt.to_string()),
            ("scheduled_at", job.due_at().to_string()),
            ("run_type", run.map_or(ONE_OFF, |run| run.kind.as_str()).to_owned()),
        ];
        if let Some(run) = run {
            let interval = run.interval_start.map(|start| start.to_string());
            let known = [
                ("schedule", run.name.clone()),
                ("schedule_id", Some(run.schedule.to_string())),
                ("planned_at", Some(run.planned_at.to_string())),
                ("planned_at_local", run.planned_local.clone()),
                ("time_zone", run.time_zone.clone()),
                // An interval without a start has no end either.
                ("interval_end", interval.as_ref().map(|_| run.planned_at.to_string())),
                ("interval_start", interval),
                ("last_success", run.last_success.map(|at| at.to_string())),
            ];
            facts.extend(known.into_iter().filter_map(|(name, value)| Some((name, value?))));
        }
        Self(facts)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().map(|(name, value)| (*name, value.as_str()))
    }

    fn get(&self, name: &str) -> Option<&str> {
        if !FACT_NAMES.contains(&name) {
            return None;
        }
        // Known, and without a value for this run.
        Some(self.iter().find(|(known, _)| *known == name).map_or("", |(_, value)| value))
    }

    /// Replaces the placeholders of a text by values. Everything else stays.
    pub fn expand<'a>(&self, text: &'a str, escape: Escape) -> Cow<'a, str> {
        if !has_placeholder(text) {
            return Cow::Borrowed(text);
        }
        let mut expanded = String::with_capacity(text.len());
        let mut rest = text;
        for _ in 0..PLACEHOLDERS_MAX {
            let Some(found) = FoundPlaceholder::first(rest) else { break };
            match found.name.and_then(|name| self.get(name)) {
                Some(value) => {
                    expanded.push_str(&rest[..found.start]);
                    escape.push(value, &mut expanded);
                }
                None => expanded.push_str(&rest[..found.end]),
            }
            rest = &rest[found.end..];
        }
        expanded.push_str(rest);
        Cow::Owned(expanded)
    }

    /// Expands every text of a task that may have placeholders. `None` if it has none.
    pub fn expand_run(&self, run: &Run) -> Option<Run> {
        if !run.has_placeholders() {
            return None;
        }
        let mut run = run.clone();
        run.each_text(|_, escape, text| *text = self.expand(text, escape).into_owned());
        Some(run)
    }
}

/// How a value is written where it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Escape {
    /// No escaping: no value has a quote, a backslash, an angle bracket or a control character.
    None,
    /// Percent-encoded: `+` would be read as a space.
    Url,
}

impl Escape {
    fn push(self, value: &str, text: &mut String) {
        for byte in value.bytes() {
            let is_plain = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
            match self {
                Self::Url if !is_plain => text.push_str(&format!("%{byte:02X}")),
                Self::Url | Self::None => text.push(char::from(byte)),
            }
        }
    }
}

/// A pair of braces that begins as a placeholder does.
struct FoundPlaceholder<'a> {
    start: usize,
    end: usize,
    /// `None` if it does not end as a placeholder.
    name: Option<&'a str>,
}

impl<'a> FoundPlaceholder<'a> {
    fn first(text: &'a str) -> Option<Self> {
        let mut from = 0;
        while let Some(place) = text[from..].find(OPEN) {
            let start = from + place;
            let inner = text[start + OPEN.len()..].trim_start();
            let inner_at = text.len() - inner.len();
            let Some(named) = inner.strip_prefix(PREFIX) else {
                from = start + OPEN.len();
                continue;
            };
            let name_at = inner_at + PREFIX.len();
            let len = named.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
            let after = named[len..].trim_start_matches([' ', '\t']);
            let name = after.starts_with(CLOSE).then(|| &named[..len]);
            let end = if name.is_some() { text.len() - after.len() + CLOSE.len() } else { name_at + len };
            return Some(Self { start, end, name });
        }
        None
    }
}

fn has_placeholder(text: &str) -> bool {
    text.contains(OPEN) && text.contains(PREFIX)
}

/// Checks that every placeholder of a text exists. The error is a sentence.
pub fn check_placeholders(text: &str) -> Result<(), String> {
    let mut rest = text;
    let mut count = 0;
    while let Some(found) = FoundPlaceholder::first(rest) {
        let shown: String = rest[found.start..].chars().take(40).collect();
        let name = found.name.ok_or_else(|| format!("has a placeholder that does not end: {shown}"))?;
        if !FACT_NAMES.contains(&name) {
            return Err(format!("has the unknown placeholder {{{{ punctual.{name} }}}}"));
        }
        count += 1;
        if count > PLACEHOLDERS_MAX {
            return Err(format!("has more than {PLACEHOLDERS_MAX} placeholders"));
        }
        rest = &rest[found.end..];
    }
    Ok(())
}

impl Run {
    /// Visits every text that may have placeholders, with its path in the definition. The line of a command is not
    /// among them: a shell reads variables itself, and would interpret what it finds in the line.
    pub fn each_text(&mut self, mut visit: impl FnMut(&str, Escape, &mut String)) {
        let mut plain = |place: &str, text: &mut String| visit(place, Escape::None, text);
        match self {
            Self::Binary(binary) => {
                binary.args.iter_mut().for_each(|arg| plain("/run/binary/args", arg));
                binary.env.values_mut().for_each(|value| plain("/run/binary/env", value));
            }
            Self::Command(command) => {
                command.stdin.iter_mut().for_each(|stdin| plain("/run/command/stdin", stdin));
                command.environment.values_mut().for_each(|value| plain("/run/command/environment", value));
            }
            Self::Http(call) => {
                call.headers.values_mut().for_each(|value| plain("/run/http/headers", value));
                call.body.iter_mut().for_each(|body| plain("/run/http/body", body));
                visit("/run/http/url", Escape::Url, &mut call.url);
            }
            Self::Email(mail) => {
                plain("/run/email/subject", &mut mail.subject);
                mail.text.iter_mut().for_each(|text| plain("/run/email/text", text));
                mail.html.iter_mut().for_each(|html| plain("/run/email/html", html));
            }
            Self::Slack(message) => message.text.iter_mut().for_each(|text| plain("/run/slack/text", text)),
            Self::Telegram(message) => message.text.iter_mut().for_each(|text| plain("/run/telegram/text", text)),
            Self::Probe(probe) => probe.output.iter_mut().for_each(|output| plain("/run/probe/output", output)),
            Self::Handler(_) => {}
        }
    }

    pub fn has_placeholders(&self) -> bool {
        let mut found = false;
        self.clone().each_text(|_, _, text| found |= has_placeholder(text));
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{ScheduleId, ShardId};
    use crate::run::{Command, HttpCall};
    use crate::schedule::SourceKind;
    use crate::time::Timestamp;

    fn facts() -> Facts {
        let at = |text| Timestamp::parse(text).unwrap();
        let planned_at = at("2026-11-16T08:00:00Z");
        let run = ScheduledRun {
            schedule: ScheduleId::new(planned_at, ShardId(1), 7),
            name: Some("nightly".to_owned()),
            kind: SourceKind::Backfill,
            planned_at,
            planned_local: Some("2026-11-16T09:00:00+01:00".to_owned()),
            time_zone: Some("Europe/Berlin".to_owned()),
            interval_start: Some(at("2026-11-15T08:00:00Z")),
            last_success: None,
        };
        Facts::new(JobId::new(planned_at, ShardId(1), 9), AttemptNo(2), Some(&run))
    }

    #[test]
    fn values_take_the_place_of_placeholders_and_nothing_else_changes() {
        let check = |text: &str, expected: &str| assert_eq!(facts().expand(text, Escape::None), expected, "{text}");
        check("from {{ punctual.interval_start }} on", "from 2026-11-15T08:00:00.000000Z on");
        check("{{punctual.schedule}}/{{ punctual.attempt\t}}", "nightly/2");
        check("[{{ punctual.last_success }}]", "[]");
        check("{{ punctual.run_type }}", "backfill");
        for other in ["{{ job.id }}", "{{.State}}", "{{ punctual.", "{{ punctual.no }}", "{{ punctual.schedule", "{{"] {
            check(other, other);
        }
        check("{{ {{ punctual.attempt }} }}", "{{ 2 }}");
    }

    #[test]
    fn a_value_in_a_url_is_percent_encoded() {
        let mut run = Run::Http(HttpCall::new("https://example.com/?at={{ punctual.planned_at_local }}"));
        run = facts().expand_run(&run).unwrap();
        let Run::Http(call) = run else { unreachable!() };
        assert_eq!(call.url, "https://example.com/?at=2026-11-16T09%3A00%3A00%2B01%3A00");
    }

    #[test]
    fn the_line_of_a_command_is_left_to_the_shell() {
        let run = Run::Command(Command::new("docker inspect -f '{{ punctual.attempt }}'"));
        assert!(facts().expand_run(&run).is_none());
    }

    #[test]
    fn a_placeholder_that_there_is_not_is_refused() {
        for good in ["", "{{ job.id }}", "{{ punctual.planned_at }} {{punctual.job_id}}", "a {{ b"] {
            assert_eq!(check_placeholders(good), Ok(()), "{good}");
        }
        for (bad, word) in [
            ("{{ punctual.planed_at }}", "unknown"),
            ("{{ punctual.job_id", "does not end"),
            ("{{punctual.}}", "unknown"),
        ] {
            let refused = check_placeholders(bad).unwrap_err();
            assert!(refused.contains(word), "{bad}: {refused}");
        }
        let many = "{{punctual.attempt}}".repeat(PLACEHOLDERS_MAX + 1);
        assert!(check_placeholders(&many).unwrap_err().contains("more than"));
        for name in FACT_NAMES {
            assert_eq!(check_placeholders(&format!("{{{{ punctual.{name} }}}}")), Ok(()));
        }
    }
}
