//! What somebody writes into the form of a job, and the request that it means.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::FormFault;

macro_rules! kinds {
    ($($variant:ident $name:literal $title:literal;)*) => {
        /// What a job of a form does.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum JobKind { $($variant),* }

        impl JobKind {
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// In addresses and forms.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }

            /// For people.
            pub const fn title(self) -> &'static str {
                match self { $(Self::$variant => $title),* }
            }
        }
    };
}

kinds! {
    Task "task" "Stored task";
    Http "http" "HTTP call";
    Ping "ping" "Ping";
    Webhook "webhook" "Webhook";
    Email "email" "Email";
    Slack "slack" "Slack";
    Telegram "telegram" "Telegram";
    Command "command" "Command";
    Binary "binary" "Binary";
    Handler "handler" "Handler";
    Workflow "workflow" "Workflow";
    Probe "probe" "Test";
}

impl JobKind {
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.name() == text)
    }
}

/// The fields of the form, as they were written. What is empty is left out of the request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct JobForm {
    pub kind: String,
    pub task: String,
    pub url: String,
    pub method: String,
    pub headers: String,
    pub body: String,
    pub to: String,
    pub cc: String,
    pub subject: String,
    pub text: String,
    pub channel: String,
    pub chat: String,
    pub bot: String,
    pub line: String,
    pub artifact: String,
    pub args: String,
    pub environment: String,
    pub handler: String,
    pub workflow: String,
    pub sleep: String,
    pub output: String,
    pub fail_times: String,
    pub queue: String,
    pub timeout: String,
    pub retries: String,
    pub delivery: String,
    pub input: String,
    pub priority: String,
    pub tracing_id: String,
    /// `now`, `at` or `in`.
    pub when: String,
    /// As clocks in `zone` show it: `2026-12-24T18:00`.
    pub at: String,
    pub zone: String,
    pub delay: String,
    /// Made anew with each form, so that a form that is sent twice makes one job.
    pub once: String,
}

fn given(text: &str) -> Option<&str> {
    let text = text.trim();
    (!text.is_empty()).then_some(text)
}

/// The parts of a list with commas or lines.
fn parts(text: &str) -> Vec<&str> {
    text.split([',', '\n']).map(str::trim).filter(|part| !part.is_empty()).collect()
}

fn fault(detail: impl Into<String>, hint: &str) -> FormFault {
    FormFault { detail: detail.into(), hint: Some(hint.to_owned()) }
}

/// Pairs, one a line.
fn pairs(text: &str, mark: char, what: &str) -> Result<Map<String, Value>, FormFault> {
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let pair = |line: &str| {
        let (name, value) = line
            .split_once(mark)
            .ok_or_else(|| fault(format!("{what}: `{}` has no `{mark}`", line.trim()), "write one a line"))?;
        let value = if mark == ':' { value.trim() } else { value.trim_end_matches('\r') };
        Ok((name.trim().to_owned(), Value::from(value)))
    };
    lines.map(pair).collect()
}

fn number(text: &str, what: &str) -> Result<Option<Value>, FormFault> {
    let Some(text) = given(text) else { return Ok(None) };
    let number: i64 = text.parse().map_err(|_| fault(format!("{what} must be a whole number"), "or leave it empty"))?;
    Ok(Some(number.into()))
}

/// The instant at which clocks in a zone show this, as RFC 3339. A time that the clocks leave out is the one after the change.
pub(crate) fn instant(local: &str, zone: &str) -> Result<String, FormFault> {
    let zone = TimeZone::get(zone)
        .map_err(|_| fault(format!("there is no time zone `{zone}`"), "use a name such as Europe/Berlin or UTC"))?;
    let time: DateTime =
        local.parse().map_err(|_| fault("the time must have a date and a time of day", "such as 2026-12-24T18:00"))?;
    let zoned =
        time.to_zoned(zone).map_err(|_| fault("the time is out of range", "choose a time within this century"))?;
    Ok(zoned.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string())
}

impl JobForm {
    pub fn kind(&self) -> JobKind {
        JobKind::parse(&self.kind).unwrap_or(JobKind::Http)
    }

    /// Whether it does not say yet what to run.
    pub(crate) fn is_blank(&self) -> bool {
        let main = match self.kind() {
            JobKind::Task => &self.task,
            JobKind::Http | JobKind::Ping | JobKind::Webhook => &self.url,
            JobKind::Email => &self.to,
            JobKind::Slack => &self.channel,
            JobKind::Telegram => &self.chat,
            JobKind::Command => &self.line,
            JobKind::Binary => &self.artifact,
            JobKind::Handler => &self.handler,
            JobKind::Workflow => &self.workflow,
            JobKind::Probe => return false,
        };
        main.trim().is_empty()
    }

    /// The body of `POST /v1/jobs`. The input is passed on as it was written.
    pub fn request(&self) -> Result<String, FormFault> {
        let mut request = Map::new();
        match self.kind() {
            JobKind::Task => {
                request.insert("task".to_owned(), self.task.trim().into());
            }
            kind => {
                request.insert("inline".to_owned(), self.inline(kind)?);
            }
        }
        match self.when.as_str() {
            "at" => {
                request.insert("run_at".to_owned(), instant(self.at.trim(), self.zone.trim())?.into());
            }
            "in" => {
                request.insert("delay".to_owned(), self.delay.trim().into());
            }
            _ => {}
        }
        if let Some(priority) = number(&self.priority, "the priority")? {
            request.insert("priority".to_owned(), priority);
        }
        if let Some(tracing_id) = given(&self.tracing_id) {
            request.insert("tracing_id".to_owned(), tracing_id.into());
        }
        let mut text = serde_json::to_string(&Value::Object(request)).expect("a request is JSON");
        if let Some(input) = given(&self.input) {
            let raw: &RawValue = serde_json::from_str(input).map_err(|error| {
                fault(
                    format!("the input is not valid JSON: {error}"),
                    "write a JSON value, such as {\"day\": \"monday\"}",
                )
            })?;
            // Numbers keep their digits: nothing reads and writes them again.
            text.truncate(text.len() - 1);
            text.push_str(if text.len() > 1 { ",\"input\":" } else { "\"input\":" });
            text.push_str(raw.get());
            text.push('}');
        }
        Ok(text)
    }

    fn inline(&self, kind: JobKind) -> Result<Value, FormFault> {
        let mut spec = Map::from_iter([("run".to_owned(), json!({ self.tag(kind): self.run(kind)? }))]);
        for (name, value) in [("queue", &self.queue), ("timeout", &self.timeout), ("delivery", &self.delivery)] {
            if let Some(value) = given(value) {
                spec.insert(name.to_owned(), value.into());
            }
        }
        if let Some(retries) = number(&self.retries, "the number of retries")? {
            spec.insert("retry".to_owned(), json!({ "max": retries }));
        }
        Ok(Value::Object(spec))
    }

    fn tag(&self, kind: JobKind) -> &'static str {
        match kind {
            JobKind::Ping | JobKind::Webhook => "http",
            kind => kind.name(),
        }
    }

    fn run(&self, kind: JobKind) -> Result<Value, FormFault> {
        let mut run = Map::new();
        let mut put = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                run.insert(name.to_owned(), value);
            }
        };
        let text = |text: &str| given(text).map(Value::from);
        // What it is about is required: an empty one is refused with its place.
        let needed = |text: &str| Some(Value::from(text.trim()));
        let exact = |text: &str| (!text.is_empty()).then(|| Value::from(text.replace("\r\n", "\n")));
        match kind {
            JobKind::Task => {}
            JobKind::Http | JobKind::Ping | JobKind::Webhook => {
                put("url", needed(&self.url));
                put(
                    "method",
                    match kind {
                        JobKind::Webhook => Some("POST".into()),
                        JobKind::Ping => None,
                        _ => text(&self.method),
                    },
                );
                let headers = pairs(&self.headers, ':', "the headers")?;
                put("headers", (!headers.is_empty()).then_some(Value::Object(headers)));
                if kind != JobKind::Ping {
                    put("body", exact(&self.body));
                }
            }
            JobKind::Email => {
                put("to", Some(parts(&self.to).into()));
                let cc = parts(&self.cc);
                put("cc", (!cc.is_empty()).then(|| cc.into()));
                put("subject", needed(&self.subject));
                put("text", exact(&self.text));
            }
            JobKind::Slack => {
                put("webhook", needed(&self.channel));
                put("text", exact(&self.text));
            }
            JobKind::Telegram => {
                put("chat", needed(&self.chat));
                put("bot", text(&self.bot));
                put("text", exact(&self.text));
            }
            JobKind::Command => {
                put("line", Some(Value::from(self.line.replace("\r\n", "\n"))));
                let environment = pairs(&self.environment, '=', "the environment")?;
                put("environment", (!environment.is_empty()).then_some(Value::Object(environment)));
            }
            JobKind::Binary => {
                put("artifact", needed(&self.artifact));
                let args: Vec<&str> =
                    self.args.lines().map(|line| line.trim_end_matches('\r')).filter(|line| !line.is_empty()).collect();
                put("args", (!args.is_empty()).then(|| args.into()));
                let environment = pairs(&self.environment, '=', "the environment")?;
                put("env", (!environment.is_empty()).then_some(Value::Object(environment)));
            }
            JobKind::Handler => put("name", needed(&self.handler)),
            JobKind::Workflow => put("name", needed(&self.workflow)),
            JobKind::Probe => {
                put("sleep", text(&self.sleep));
                put("output", exact(&self.output));
                put("fail_times", number(&self.fail_times, "the number of failures")?);
            }
        }
        Ok(Value::Object(run))
    }

    /// The arguments of `punctual` that do the same. `None` if the command line has no words for it.
    pub(crate) fn words(&self) -> Option<Vec<String>> {
        let mut words = vec!["run".to_owned()];
        let mut put = |flag: &str, value: &str| {
            if !value.trim().is_empty() {
                words.extend([flag.to_owned(), value.trim().replace("\r\n", "\n")]);
            }
        };
        // The command line reads `@name` from a file.
        let from_file = |text: &str| text.trim_start().starts_with('@') || text.trim() == "-";
        if [&self.body, &self.text, &self.line, &self.input].into_iter().any(|text| from_file(text)) {
            return None;
        }
        match self.kind() {
            JobKind::Binary => return None,
            JobKind::Task => words.push(self.task.trim().to_owned()),
            JobKind::Http | JobKind::Ping | JobKind::Webhook => {
                put(&format!("--{}", self.kind().name()), &self.url);
                if self.kind() == JobKind::Http {
                    put("--method", &self.method);
                }
                self.headers.lines().for_each(|line| put("--header", line));
                if self.kind() != JobKind::Ping {
                    put("--body", &self.body);
                }
            }
            JobKind::Email => {
                parts(&self.to).into_iter().for_each(|to| put("--email", to));
                parts(&self.cc).into_iter().for_each(|cc| put("--cc", cc));
                put("--subject", &self.subject);
                put("--text", &self.text);
            }
            JobKind::Slack => {
                put("--slack", &self.channel);
                put("--text", &self.text);
            }
            JobKind::Telegram => {
                put("--telegram", &self.chat);
                put("--bot", &self.bot);
                put("--text", &self.text);
            }
            JobKind::Command if !self.environment.trim().is_empty() => return None,
            JobKind::Command => put("--command", &self.line),
            JobKind::Handler => put("--handler", &self.handler),
            JobKind::Workflow => put("--workflow", &self.workflow),
            JobKind::Probe => {
                let probe = self.run(JobKind::Probe).ok()?;
                put("--probe", &probe.to_string());
            }
        }
        let mut put = |flag: &str, value: &str| {
            if !value.trim().is_empty() {
                words.extend([flag.to_owned(), value.trim().to_owned()]);
            }
        };
        if self.kind() != JobKind::Task {
            put("--queue", &self.queue);
            put("--timeout", &self.timeout);
            put("--retries", &self.retries);
            put("--delivery", &self.delivery);
        }
        put("--input", &self.input);
        put("--priority", &self.priority);
        put("--tracing-id", &self.tracing_id);
        match self.when.as_str() {
            "at" => put("--at", &format!("{} {}", self.at.trim().replace('T', " "), self.zone.trim())),
            "in" => put("--in", &self.delay),
            _ => {}
        }
        Some(words)
    }
}

#[cfg(test)]
mod tests {
    use punctual_api::JobRequest;

    use super::*;

    fn form(kind: &str, change: impl FnOnce(&mut JobForm)) -> JobForm {
        let mut form = JobForm { kind: kind.to_owned(), ..JobForm::default() };
        change(&mut form);
        form
    }

    #[track_caller]
    fn check(form: &JobForm, request: Value, words: Option<&str>) {
        let body = form.request().unwrap();
        assert_eq!(serde_json::from_str::<Value>(&body).unwrap(), request);
        serde_json::from_str::<JobRequest>(&body).unwrap();
        assert_eq!(form.words().map(|words| words.join(" ")).as_deref(), words);
    }

    #[test]
    fn each_kind_is_a_request_and_a_command() {
        check(
            &form("ping", |form| form.url = " https://example.com/ ".into()),
            json!({ "inline": { "run": { "http": { "url": "https://example.com/" } } } }),
            Some("run --ping https://example.com/"),
        );
        check(
            &form("webhook", |form| {
                form.url = "https://example.com/hook".into();
                form.headers = "X-A: 1\r\nX-B: b:c".into();
                form.body = "{\r\n}".into();
                form.retries = "5".into();
            }),
            json!({ "inline": { "run": { "http": { "url": "https://example.com/hook", "method": "POST", "headers": { "X-A": "1", "X-B": "b:c" }, "body": "{\n}" } }, "retry": { "max": 5 } } }),
            Some("run --webhook https://example.com/hook --header X-A: 1 --header X-B: b:c --body {\n} --retries 5"),
        );
        check(
            &form("email", |form| {
                form.to = "a@example.com, b@example.com".into();
                form.subject = "Done".into();
                form.text = "All of it.".into();
            }),
            json!({ "inline": { "run": { "email": { "to": ["a@example.com", "b@example.com"], "subject": "Done", "text": "All of it." } } } }),
            Some("run --email a@example.com --email b@example.com --subject Done --text All of it."),
        );
        check(
            &form("slack", |form| (form.channel, form.text) = ("ops".into(), "hi".into())),
            json!({ "inline": { "run": { "slack": { "webhook": "ops", "text": "hi" } } } }),
            Some("run --slack ops --text hi"),
        );
        check(
            &form("telegram", |form| (form.chat, form.text) = ("@news".into(), "hi".into())),
            json!({ "inline": { "run": { "telegram": { "chat": "@news", "text": "hi" } } } }),
            Some("run --telegram @news --text hi"),
        );
        check(
            &form("command", |form| (form.line, form.queue) = ("df -h".into(), "host".into())),
            json!({ "inline": { "run": { "command": { "line": "df -h" } }, "queue": "host" } }),
            Some("run --command df -h --queue host"),
        );
        check(
            &form("binary", |form| {
                (form.artifact, form.args) = ("artifact_01m7et433kee4803yssgvaf2fh".into(), "-v\r\na b".into())
            }),
            json!({ "inline": { "run": { "binary": { "artifact": "artifact_01m7et433kee4803yssgvaf2fh", "args": ["-v", "a b"] } } } }),
            None,
        );
        check(
            &form("probe", |form| (form.sleep, form.output) = ("2s".into(), "hi".into())),
            json!({ "inline": { "run": { "probe": { "sleep": "2s", "output": "hi" } } } }),
            Some("run --probe {\"output\":\"hi\",\"sleep\":\"2s\"}"),
        );
        check(
            &form("task", |form| (form.task, form.tracing_id) = ("nightly".into(), "t-1".into())),
            json!({ "task": "nightly", "tracing_id": "t-1" }),
            Some("run nightly --tracing-id t-1"),
        );
    }

    #[test]
    fn a_number_in_the_input_keeps_its_digits() {
        let form =
            form("task", |form| (form.task, form.input) = ("t".into(), "{\"n\": 12345678901234567890123.50}".into()));
        assert_eq!(form.request().unwrap(), "{\"task\":\"t\",\"input\":{\"n\": 12345678901234567890123.50}}");
    }

    #[test]
    fn a_time_is_read_in_the_zone_of_the_form() {
        let at = |at: &str, zone: &str| instant(at, zone).map_err(|fault| fault.detail);
        assert_eq!(at("2026-12-24T18:00", "Europe/Berlin").unwrap(), "2026-12-24T18:00:00+01:00");
        // The clocks leave it out.
        assert_eq!(at("2027-03-28T02:30", "Europe/Berlin").unwrap(), "2027-03-28T03:30:00+02:00");
        assert_eq!(at("2027-03-28T02:30", "Mars/Base").unwrap_err(), "there is no time zone `Mars/Base`");
        assert_eq!(at("soon", "UTC").unwrap_err(), "the time must have a date and a time of day");
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        for (change, detail) in [
            (
                (|form: &mut JobForm| form.headers = "nonsense".into()) as fn(&mut JobForm),
                "the headers: `nonsense` has no `:`",
            ),
            (|form| form.retries = "many".into(), "the number of retries must be a whole number"),
            (|form| form.input = "{".into(), "the input is not valid JSON"),
        ] {
            let refused = form("http", change).request().unwrap_err();
            assert!(refused.detail.starts_with(detail), "{refused:?}");
        }
    }

    #[test]
    fn the_command_line_is_not_offered_where_it_would_read_a_file() {
        assert_eq!(form("slack", |form| form.text = "@here hi".into()).words(), None);
    }
}
