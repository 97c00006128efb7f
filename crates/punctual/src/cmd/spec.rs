//! A task in flags, for `task apply` and one-off jobs.

use std::collections::BTreeMap;

use clap::Args;
use punctual_core::Span;
use punctual_core::task::{
    Delivery, Handler, HttpCall, Method, OnLost, Priority, Probe, Run, TaskSpec, default_http_timeout,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::text_or_file;
use crate::exit::usage;
use crate::when::parse_span;

#[derive(Debug, Default, Args)]
#[command(next_help_heading = "What to run")]
pub(crate) struct SpecFlags {
    /// Call this address
    #[arg(long, value_name = "URL", group = "what")]
    http: Option<String>,
    /// Sleep, print or fail on demand, for trying things out: '{"sleep":"1s","output":"hi"}'.
    /// Fields: sleep (a time), fail_times (the first so many attempts fail), output (a text),
    /// report_time (true: output the worker's clock), witness (a file to append to), crash (true: kill
    /// the whole worker process, and in `punctual dev` the server with it)
    #[arg(long, value_name = "JSON", group = "what")]
    probe: Option<String>,
    /// Call this function of a worker of your own
    #[arg(long, value_name = "NAME", group = "what")]
    handler: Option<String>,
    /// GET, HEAD, POST, PUT, PATCH or DELETE [default: GET; POST if there is a body or an input]
    #[arg(long, requires = "http")]
    method: Option<String>,
    /// A header of the request, as 'Name: value'; may be repeated
    #[arg(short = 'H', long = "header", value_name = "HEADER", requires = "http")]
    headers: Vec<String>,
    /// The body of the request: text, @file, or - for stdin. Without it, the job's input
    #[arg(long, value_name = "BODY", requires = "http")]
    body: Option<String>,
    /// Status codes that count as success; any 2xx unless told
    #[arg(long, value_name = "CODES", value_delimiter = ',', requires = "http")]
    expect_status: Vec<u16>,
    /// For one request [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = parse_span, requires = "http")]
    request_timeout: Option<Span>,
    #[command(flatten)]
    rules: Rules,
}

#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Rules")]
struct Rules {
    /// Attempts after the first [default: 3]
    #[arg(long, value_name = "N")]
    retries: Option<u16>,
    /// The wait before the first retry; it doubles each time [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    retry_wait: Option<Span>,
    /// No attempt outlives this [default: 20m]
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    timeout: Option<Span>,
    /// Fail a job that has not started this long after it was due
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    queue_timeout: Option<Span>,
    /// The queue that workers serve [default: default]
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,
    /// A label that a worker must carry, as key=value; may be repeated
    #[arg(long = "label", value_name = "LABEL")]
    labels: Vec<String>,
    /// at_least_once, at_most_once or exactly_once [default: at_least_once]
    #[arg(long, value_name = "MODE", value_parser = word::<Delivery>)]
    delivery: Option<Delivery>,
    /// What becomes of an exactly_once job in doubt: hold, fail or rerun [default: hold]
    #[arg(long, value_name = "POLICY", value_parser = word::<OnLost>)]
    on_lost: Option<OnLost>,
}

/// Whether the job comes with an input, which a request without a body would drop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JobInput {
    None,
    Given,
}

/// Reads one of the words that the wire format knows.
fn word<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let written = Value::String(text.replace('-', "_"));
    serde_json::from_value(written).map_err(|error| error.to_string())
}

/// Reads a priority, from -100 to 100.
pub(crate) fn priority(text: &str) -> Result<Priority, String> {
    text.parse().ok().and_then(Priority::new).ok_or_else(|| "a priority is a number from -100 to 100".to_owned())
}

impl SpecFlags {
    /// Whether any of them was written.
    pub(crate) fn are_given(&self) -> bool {
        self.says_what() || self.rules.are_given()
    }

    pub(crate) fn says_what(&self) -> bool {
        self.http.is_some() || self.probe.is_some() || self.handler.is_some()
    }

    /// The task that the flags describe; `None` when they do not say what to run.
    pub(crate) fn spec(&self, input: JobInput) -> anyhow::Result<Option<TaskSpec>> {
        let run = if let Some(url) = &self.http {
            Run::Http(self.http_call(url, input)?)
        } else if let Some(probe) = &self.probe {
            Run::Probe(read_probe(&text_or_file(probe)?)?)
        } else if let Some(name) = &self.handler {
            Run::Handler(Handler { name: name.clone() })
        } else {
            return Ok(None);
        };
        let mut spec = TaskSpec::new(run);
        self.rules.apply(&mut spec)?;
        Ok(Some(spec))
    }

    fn http_call(&self, url: &str, input: JobInput) -> anyhow::Result<HttpCall> {
        let method = match &self.method {
            Some(method) => word(&method.to_ascii_uppercase()).map_err(|_| {
                usage(format!("--method: there is no `{method}`"), "write GET, POST, PUT, PATCH, DELETE or HEAD")
            })?,
            None if self.body.is_some() || input == JobInput::Given => Method::Post,
            None => Method::Get,
        };
        let unsent = match (&self.body, input) {
            _ if method.takes_body() => None,
            (Some(_), _) => Some("--body"),
            (None, JobInput::Given) => Some("--input"),
            (None, JobInput::None) => None,
        };
        if let Some(flag) = unsent {
            return Err(usage(
                format!("a {} request has no body, so {flag} would not be sent", method.as_str()),
                format!("use --method POST, or leave out {flag}"),
            ));
        }
        let headers = self.headers.iter().map(|header| {
            let (name, value) = header
                .split_once(':')
                .ok_or_else(|| usage(format!("--header: `{header}` has no colon"), "write it like 'Name: value'"))?;
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        });
        Ok(HttpCall {
            url: url.to_owned(),
            method,
            headers: headers.collect::<anyhow::Result<BTreeMap<_, _>>>()?,
            body: self.body.as_deref().map(text_or_file).transpose()?,
            expect_status: self.expect_status.clone(),
            timeout: self.request_timeout.unwrap_or(default_http_timeout()),
        })
    }
}

fn read_probe(text: &str) -> anyhow::Result<Probe> {
    const HINT: &str = "write it like '{\"sleep\":\"1s\",\"output\":\"hi\"}'; the fields are sleep, fail_times, \
                        output, report_time, witness and crash";
    let value: Value = serde_json::from_str(text)
        .map_err(|error| usage(format!("--probe is not JSON ({error}): {}", text.trim()), HINT))?;
    if !value.is_object() {
        return Err(usage(format!("--probe is not a JSON object: {}", text.trim()), HINT));
    }
    serde_json::from_value(value).map_err(|error| usage(format!("--probe: {error}"), HINT))
}

impl Rules {
    fn are_given(&self) -> bool {
        self.retries.is_some()
            || self.retry_wait.is_some()
            || self.timeout.is_some()
            || self.queue_timeout.is_some()
            || self.queue.is_some()
            || !self.labels.is_empty()
            || self.delivery.is_some()
            || self.on_lost.is_some()
    }

    fn apply(&self, spec: &mut TaskSpec) -> anyhow::Result<()> {
        spec.retry.max = self.retries.unwrap_or(spec.retry.max);
        spec.retry.initial = self.retry_wait.unwrap_or(spec.retry.initial);
        spec.timeout = self.timeout.unwrap_or(spec.timeout);
        spec.queue_timeout = self.queue_timeout;
        spec.delivery = self.delivery.unwrap_or_default();
        spec.on_lost = self.on_lost.unwrap_or_default();
        if let Some(queue) = &self.queue {
            spec.queue.clone_from(queue);
        }
        for label in &self.labels {
            let (key, value) = label
                .split_once('=')
                .ok_or_else(|| usage(format!("--label: `{label}` has no equals sign"), "write it like zone=eu"))?;
            spec.labels.insert(key.to_owned(), value.to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Only {
        #[command(flatten)]
        flags: SpecFlags,
    }

    fn spec(args: &[&str]) -> Result<Value, String> {
        let parsed = Only::try_parse_from([&["x"], args].concat()).map_err(|error| error.to_string())?;
        let spec = parsed.flags.spec(JobInput::None).map_err(|error| error.to_string())?;
        Ok(serde_json::to_value(spec).unwrap())
    }

    #[test]
    fn flags_become_the_task_that_they_describe() {
        let args = "--http http://h/ --method put -H A:b --expect-status 200,404 --retries 5 --timeout 30s \
                    --queue q --label zone=eu --delivery exactly-once --queue-timeout 1d";
        let spec = spec(&args.split_whitespace().collect::<Vec<_>>()).unwrap();
        insta::assert_snapshot!(serde_json::to_string_pretty(&spec).unwrap());
    }

    #[test]
    fn a_call_with_a_body_is_a_post() {
        let spec = spec(&["--http", "http://h/", "--body", "hello"]).unwrap();
        assert_eq!(spec["run"]["http"]["method"], "POST");
        assert_eq!(spec["run"]["http"]["body"], "hello");
    }

    #[test]
    fn an_input_is_sent_or_the_command_is_refused() {
        let flags = |method: &[&str]| Only::parse_from([&["x", "--http", "http://h/"], method].concat()).flags;
        let method = |spec: TaskSpec| match spec.run {
            Run::Http(call) => call.method,
            run => panic!("{run:?}"),
        };
        let spec = flags(&[]).spec(JobInput::Given).unwrap().unwrap();
        assert_eq!(method(spec), Method::Post);
        let spec = flags(&[]).spec(JobInput::None).unwrap().unwrap();
        assert_eq!(method(spec), Method::Get);
        let spec = flags(&["--method", "put"]).spec(JobInput::Given).unwrap().unwrap();
        assert_eq!(method(spec), Method::Put);
        let refused = flags(&["--method", "get"]).spec(JobInput::Given).unwrap_err().to_string();
        assert_eq!(refused, "a GET request has no body, so --input would not be sent");
    }

    #[test]
    fn flags_that_make_no_task_are_refused_with_a_reason() {
        for (args, reason) in [
            (&["--http", "u", "--probe", "{}"][..], "cannot be used with"),
            (&["--method", "GET"], "--http"),
            (&["--http", "u", "--method", "SHOUT"], "there is no `SHOUT`"),
            (&["--http", "u", "-H", "nonsense"], "has no colon"),
            (&["--probe", "{\"slep\":\"1s\"}"], "slep"),
            (&["--probe", "hello"], "--probe is not JSON"),
            (&["--probe", "\"hello\""], "--probe is not a JSON object"),
            (&["--http", "u", "--method", "get", "--body", "x"], "a GET request has no body, so --body"),
            (&["--probe", "@/nowhere"], "cannot read /nowhere"),
            (&["--http", "u", "--label", "eu"], "has no equals sign"),
            (&["--http", "u", "--delivery", "maybe"], "unknown variant"),
            (&["--http", "u", "--timeout", "soon"], "is not a duration"),
        ] {
            let refused = spec(args).expect_err(&args.join(" "));
            assert!(refused.contains(reason), "{refused}");
        }
        assert_eq!(spec(&[]), Ok(Value::Null));
    }
}
