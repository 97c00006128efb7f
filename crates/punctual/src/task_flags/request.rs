//! The flags of an HTTP call.

use std::collections::BTreeMap;

use clap::Args;
use punctual_core::Span;
use punctual_core::task::{HttpCall, Method, default_http_timeout};

use super::{JobInput, word};
use crate::exit::usage;
use crate::input::{read_file, text_or_file};
use crate::secret_files;
use crate::when::{parse_span, whole};

/// What is no call. That a call is required does not keep clap from taking these instead.
const OTHERS: [&str; 5] = ["message", "probe", "handler", "command", "workflow"];

#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Calls")]
pub(super) struct RequestFlags {
    /// GET, HEAD, POST, PUT, PATCH or DELETE [default: GET; POST if there is a body or an input]
    #[arg(long, requires = "http", conflicts_with_all = ["ping", "webhook", "message", "probe", "handler", "command", "workflow"])]
    method: Option<String>,
    /// A header of the request, as 'Name: value', or @file with one a line, so that values are not in the arguments; may be
    /// repeated
    #[arg(short = 'H', long = "header", value_name = "HEADER", requires = "request", conflicts_with_all = OTHERS)]
    headers: Vec<String>,
    /// The body of the request: text, @file, or - for stdin. Without it, the job's input
    #[arg(long, value_name = "BODY", requires = "request", conflicts_with_all = OTHERS)]
    body: Option<String>,
    /// Status codes that count as success [default: any 2xx]
    #[arg(long, value_name = "CODES", value_delimiter = ',', value_parser = whole::<u16, 100, 599>, requires = "request", conflicts_with_all = OTHERS)]
    expect_status: Vec<u16>,
    /// A regular expression that the start of the answer must match
    #[arg(long, value_name = "REGEX", requires = "request", conflicts_with_all = OTHERS)]
    expect_body: Option<String>,
    /// Status codes that are tried again [default: 408, 425, 429 and all but 3xx and 4xx]
    #[arg(long, value_name = "CODES", value_delimiter = ',', value_parser = whole::<u16, 100, 599>, requires = "request", conflicts_with_all = OTHERS)]
    retry_status: Vec<u16>,
    /// Redirects to follow, at most 10 [default: 0]
    #[arg(long, value_name = "N", value_parser = whole::<u8, 0, 10>)]
    #[arg(requires = "request", conflicts_with_all = OTHERS)]
    follow_redirects: Option<u8>,
    /// Let a redirect with 307 or 308 send the body to another host or port
    #[arg(long, requires = "request", conflicts_with_all = OTHERS)]
    forward_body: bool,
    /// Sign the request by Standard Webhooks with this key of the worker
    #[arg(long, value_name = "KEY", requires = "request", conflicts_with_all = OTHERS)]
    sign_with: Option<String>,
    /// For one request [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = parse_span, requires = "request", conflicts_with_all = OTHERS)]
    request_timeout: Option<Span>,
}

/// What a call is for, by the flag that names its address.
#[derive(Debug, Clone, Copy)]
pub(super) enum Means {
    AsTold,
    Ping,
    Webhook,
}

impl RequestFlags {
    pub(super) fn call(&self, url: &str, means: Means, input: JobInput) -> anyhow::Result<HttpCall> {
        let method = self.method(means, input)?;
        let unsent = match (&self.body, input) {
            _ if method.takes_body() => None,
            (Some(_), _) => Some("--body"),
            (None, JobInput::Given) => Some("--input"),
            (None, JobInput::None) => None,
        };
        if let Some(flag) = unsent {
            let (what, instead) = match means {
                Means::Ping => ("a ping is a GET request, which".to_owned(), "--webhook"),
                Means::AsTold | Means::Webhook => (format!("a {} request", method.as_str()), "--method POST"),
            };
            return Err(usage(
                format!("{what} has no body, so {flag} would not be sent"),
                format!("use {instead}, or leave out {flag}"),
            ));
        }
        Ok(HttpCall {
            method,
            headers: self.headers()?,
            body: self.body.as_deref().map(text_or_file).transpose()?,
            expect_status: self.expect_status.clone(),
            expect_body: self.expect_body.clone(),
            retry_status: self.retry_status.clone(),
            follow_redirects: self.follow_redirects.unwrap_or(0),
            forward_body: self.forward_body,
            sign_with: self.sign_with.clone(),
            timeout: self.request_timeout.unwrap_or(default_http_timeout()),
            ..HttpCall::new(url)
        })
    }

    fn headers(&self) -> anyhow::Result<BTreeMap<String, String>> {
        let mut headers = BTreeMap::new();
        for written in &self.headers {
            let Some(file) = written.strip_prefix('@') else {
                let header = header(written).ok_or_else(|| {
                    usage(format!("--header: `{written}` has no colon"), "write it like 'Name: value'")
                })?;
                headers.extend([header]);
                continue;
            };
            secret_files::warn(file);
            for (number, line) in (1..).zip(read_file(file)?.lines()) {
                if line.trim().is_empty() {
                    continue;
                }
                // The line may be a password.
                let header = header(line).ok_or_else(|| {
                    usage(format!("--header: line {number} of {file} has no colon"), "write it like 'Name: value'")
                })?;
                headers.extend([header]);
            }
        }
        Ok(headers)
    }

    fn method(&self, means: Means, input: JobInput) -> anyhow::Result<Method> {
        Ok(match (&self.method, means) {
            (Some(method), _) => word(&method.to_ascii_uppercase()).map_err(|_| {
                usage(format!("--method: there is no `{method}`"), "write GET, POST, PUT, PATCH, DELETE or HEAD")
            })?,
            (None, Means::Ping) => Method::Get,
            (None, Means::Webhook) => Method::Post,
            (None, Means::AsTold) if self.body.is_some() || input == JobInput::Given => Method::Post,
            (None, Means::AsTold) => Method::Get,
        })
    }
}

fn header(text: &str) -> Option<(String, String)> {
    let (name, value) = text.split_once(':')?;
    Some((name.trim().to_owned(), value.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn headers_are_read_from_arguments_and_files() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        write!(file, "Authorization: Bearer s3cret:x\r\n\nX-B: 2\n").unwrap();
        let path = file.path().to_str().unwrap().to_owned();
        let read = |headers: &[&str]| {
            let headers = headers.iter().map(|header| (*header).to_owned()).collect();
            RequestFlags { headers, ..RequestFlags::default() }.headers().map_err(|error| error.to_string())
        };
        let expected = [("Authorization", "Bearer s3cret:x"), ("X-A", "1"), ("X-B", "2")];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        assert_eq!(read(&["X-A: 1", &format!("@{path}")]), Ok(expected));
        writeln!(file, "s3cret").unwrap();
        let refused = read(&[&format!("@{path}")]).unwrap_err();
        assert!(refused.contains("line 4 of") && !refused.contains("s3cret"), "{refused}");
        assert!(read(&["X-A"]).unwrap_err().contains("`X-A` has no colon"));
    }
}
