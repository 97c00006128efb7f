//! What a run learns about itself: one list for the environment of programs, the headers of requests, and placeholders.

use std::borrow::Cow;
use std::collections::BTreeSet;

use crate::attempt::AttemptNo;
use crate::id::JobId;
use crate::run::Run;
use crate::schedule::ScheduledRun;
use crate::secret::{SecretValues, is_secret_name};

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

/// The header that has the fact `job_id`. Every request that a worker sends for a task carries it, and no task can change it: a
/// server knows by it that the user of the connection is a worker's, who did not write the request.
pub const JOB_ID_HEADER: &str = "punctual-job-id";

/// Placeholders of one text, at most: each may take the place of a few characters with a hundred.
pub const PLACEHOLDERS_MAX: usize = 64;

const OPEN: &str = "{{";
const CLOSE: &str = "}}";
/// Braces around anything but these are left alone: they belong to somebody else's templates.
const PREFIXES: [(&str, Source); 2] = [("punctual.", Source::Fact), ("secret.", Source::Secret)];

/// Where the value of a placeholder comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Fact,
    Secret,
}

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

    /// Replaces the facts of a text by values. Everything else stays, and so do secrets: whoever writes an input, or what
    /// becomes part of one, must not get them.
    pub fn expand<'a>(&self, text: &'a str, escape: Escape) -> Cow<'a, str> {
        self.expand_with(text, escape, None)
    }

    fn expand_with<'a>(&self, text: &'a str, escape: Escape, secrets: Option<&SecretValues>) -> Cow<'a, str> {
        if !has_placeholder(text) {
            return Cow::Borrowed(text);
        }
        let mut expanded = String::with_capacity(text.len());
        let mut rest = text;
        for _ in 0..PLACEHOLDERS_MAX {
            let Some(found) = FoundPlaceholder::first(rest) else { break };
            expanded.push_str(&rest[..found.start]);
            let is_first = expanded.is_empty();
            // What was put in is not looked at again, so a value cannot bring placeholders of its own.
            match (found.source, found.name) {
                (Source::Fact, Some(name)) if self.get(name).is_some() => {
                    escape.push(self.get(name).unwrap_or_default(), &mut expanded);
                }
                (Source::Secret, Some(name)) if secrets.is_some_and(|secrets| secrets.get(name).is_some()) => {
                    let value = secrets.and_then(|secrets| secrets.get(name)).map_or("", |value| value.expose());
                    // A secret at the begin of a URL is the URL, or the part of it that has the host.
                    let escape = if is_first { Escape::None } else { escape };
                    escape.push(value, &mut expanded);
                }
                (Source::Fact | Source::Secret, _) => expanded.push_str(&rest[found.start..found.end]),
            }
            rest = &rest[found.end..];
        }
        expanded.push_str(rest);
        Cow::Owned(expanded)
    }

    /// Expands every text of a task that may have placeholders. `None` if it has none.
    pub fn expand_run(&self, run: &Run, secrets: &SecretValues) -> Option<Run> {
        if !run.has_placeholders() {
            return None;
        }
        let mut run = run.clone();
        run.each_text(|_, escape, text| *text = self.expand_with(text, escape, Some(secrets)).into_owned());
        Some(run)
    }
}

/// How a value is written where it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Escape {
    /// No escaping: no fact has a quote, a backslash, an angle bracket or a control character, and a secret is used as it
    /// is.
    None,
    /// Percent-encoded: `+` would be read as a space.
    Url,
}

impl Escape {
    fn push(self, value: &str, text: &mut String) {
        if self == Self::None {
            return text.push_str(value);
        }
        for byte in value.bytes() {
            match byte {
                b'-' | b'.' | b'_' | b'~' => text.push(char::from(byte)),
                byte if byte.is_ascii_alphanumeric() => text.push(char::from(byte)),
                byte => text.push_str(&format!("%{byte:02X}")),
            }
        }
    }
}

/// A pair of braces that begins as a placeholder does.
struct FoundPlaceholder<'a> {
    start: usize,
    end: usize,
    source: Source,
    /// `None` if it does not end as a placeholder.
    name: Option<&'a str>,
}

impl<'a> FoundPlaceholder<'a> {
    fn first(text: &'a str) -> Option<Self> {
        let mut from = 0;
        while let Some(place) = text[from..].find(OPEN) {
            let start = from + place;
            let inner = text[start + OPEN.len()..].trim_start();
            let named = PREFIXES.iter().find_map(|(prefix, source)| Some((inner.strip_prefix(prefix)?, *source)));
            let Some((named, source)) = named else {
                from = start + OPEN.len();
                continue;
            };
            let name_at = text.len() - named.len();
            let is_of_name = |byte: &u8| match source {
                Source::Fact => byte.is_ascii_alphanumeric() || *byte == b'_',
                Source::Secret => byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'),
            };
            let len = named.bytes().take_while(is_of_name).count();
            let after = named[len..].trim_start_matches([' ', '\t']);
            let name = after.starts_with(CLOSE).then(|| &named[..len]);
            let end = if name.is_some() { text.len() - after.len() + CLOSE.len() } else { name_at + len };
            return Some(Self { start, end, source, name });
        }
        None
    }
}

fn has_placeholder(text: &str) -> bool {
    text.contains(OPEN) && PREFIXES.iter().any(|(prefix, _)| text.contains(prefix))
}

/// Checks that every fact of a text exists, and that every secret has a name. The error is a sentence.
pub fn check_placeholders(text: &str) -> Result<(), String> {
    let mut rest = text;
    let mut count = 0;
    while let Some(found) = FoundPlaceholder::first(rest) {
        let shown: String = rest[found.start..].chars().take(40).collect();
        let name = found.name.ok_or_else(|| format!("has a placeholder that does not end: {shown}"))?;
        match found.source {
            Source::Fact if !FACT_NAMES.contains(&name) => {
                return Err(format!("has the unknown placeholder {{{{ punctual.{name} }}}}"));
            }
            Source::Secret if !is_secret_name(name) => {
                return Err(format!("has a placeholder without the name of a secret: {shown}"));
            }
            Source::Fact | Source::Secret => {}
        }
        count += 1;
        if count > PLACEHOLDERS_MAX {
            return Err(format!("has more than {PLACEHOLDERS_MAX} placeholders"));
        }
        rest = &rest[found.end..];
    }
    Ok(())
}

/// The names of the secrets that a text refers to, in order of their places. Of an input too, where they are not replaced.
pub fn secrets_in(text: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut rest = text;
    while names.len() < PLACEHOLDERS_MAX
        && let Some(found) = FoundPlaceholder::first(rest)
    {
        if let (Source::Secret, Some(name)) = (found.source, found.name) {
            names.push(name);
        }
        rest = &rest[found.end..];
    }
    names
}

/// Whether a text begins with a secret. At the begin of a URL a secret is used as it is, and elsewhere percent-encoded.
pub fn begins_with_secret(text: &str) -> bool {
    let first = FoundPlaceholder::first(text);
    first.is_some_and(|first| first.start == 0 && first.source == Source::Secret && first.name.is_some())
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
            Self::Slack(message) => {
                message.text.iter_mut().for_each(|text| plain("/run/slack/text", text));
                visit("/run/slack/webhook", Escape::Url, &mut message.webhook);
            }
            Self::Telegram(message) => message.text.iter_mut().for_each(|text| plain("/run/telegram/text", text)),
            Self::Probe(probe) => probe.output.iter_mut().for_each(|output| plain("/run/probe/output", output)),
            Self::Handler(_) | Self::Workflow(_) => {}
        }
    }

    pub fn has_placeholders(&self) -> bool {
        let mut found = false;
        self.clone().each_text(|_, _, text| found |= has_placeholder(text));
        found
    }

    /// The names of the secrets that it refers to.
    pub fn secrets(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        self.clone().each_text(|_, _, text| names.extend(secrets_in(text).into_iter().map(str::to_owned)));
        names
    }

    /// Where it refers to secrets, and to which: the path in the definition with each name.
    pub fn secret_places(&self) -> Vec<(String, String)> {
        let mut places = Vec::new();
        self.clone().each_text(|place, _, text| {
            places.extend(secrets_in(text).into_iter().map(|name| (place.to_owned(), name.to_owned())));
        });
        places
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
        run = facts().expand_run(&run, &SecretValues::default()).unwrap();
        let Run::Http(call) = run else { unreachable!() };
        assert_eq!(call.url, "https://example.com/?at=2026-11-16T09%3A00%3A00%2B01%3A00");
    }

    fn secrets() -> SecretValues {
        let value = |name: &str, value: &str| (name.to_owned(), crate::secret::SecretValue::new(value));
        SecretValues::from_iter([value("api-key", "k/ü{{ punctual.attempt }}"), value("hook", "https://h.example/x y")])
    }

    #[test]
    fn secrets_take_the_place_of_placeholders_in_a_definition_and_not_in_an_input() {
        let mut call = HttpCall::new("{{ secret.hook }}?k={{secret.api-key}}");
        call.headers.insert("authorization".to_owned(), "Bearer {{ secret.api-key }} {{ secret.gone }}".to_owned());
        let run = Run::Http(call);
        assert_eq!(run.secrets().into_iter().collect::<Vec<_>>(), ["api-key", "gone", "hook"]);
        let Some(Run::Http(call)) = facts().expand_run(&run, &secrets()) else { unreachable!() };
        assert_eq!(call.url, "https://h.example/x y?k=k%2F%C3%BC%7B%7B%20punctual.attempt%20%7D%7D");
        // Neither a value nor what is not known is looked at again.
        assert_eq!(call.headers["authorization"], "Bearer k/ü{{ punctual.attempt }} {{ secret.gone }}");
        let input = r#"{"key":"{{ secret.api-key }}","attempt":{{ punctual.attempt }}}"#;
        assert_eq!(facts().expand(input, Escape::None), r#"{"key":"{{ secret.api-key }}","attempt":2}"#);
    }

    #[test]
    fn the_places_of_secrets_are_known() {
        let mut command = Command::new("echo {{ secret.not-here }}");
        command.environment.insert("KEY".to_owned(), "{{ secret.a }}{{ secret.b.c }}".to_owned());
        let place = |name: &str| ("/run/command/environment".to_owned(), name.to_owned());
        assert_eq!(Run::Command(command).secret_places(), [place("a"), place("b.c")]);
    }

    #[test]
    fn the_line_of_a_command_is_left_to_the_shell() {
        let run = Run::Command(Command::new("docker inspect -f '{{ punctual.attempt }}'"));
        assert!(facts().expand_run(&run, &SecretValues::default()).is_none());
    }

    #[test]
    fn a_placeholder_that_there_is_not_is_refused() {
        for good in ["", "{{ job.id }}", "{{ punctual.planned_at }} {{punctual.job_id}}", "a {{ b", "{{secret.db-1.x}}"]
        {
            assert_eq!(check_placeholders(good), Ok(()), "{good}");
        }
        for (bad, word) in [
            ("{{ punctual.planed_at }}", "unknown"),
            ("{{ punctual.job_id", "does not end"),
            ("{{punctual.}}", "unknown"),
            ("{{ secret.db", "does not end"),
            ("{{ secret. }}", "without the name"),
            ("{{ secret.-a }}", "without the name"),
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
