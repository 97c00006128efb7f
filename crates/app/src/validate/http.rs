//! Checks of tasks that call an address.

use punctual_api::{FieldCode, limits};
use punctual_core::Span;
use punctual_core::run::begins_with_secret;
use punctual_core::task::{HttpCall, Method};
use regex::RegexBuilder;

use super::{TIMEOUT_MAX, name};
use crate::faults::Faults;
use crate::{AppError, Result};

const STATUSES_MAX: usize = 100;
const EXPECT_BODY_CHARS_MAX: usize = 1024;

pub(super) fn check(call: &HttpCall) -> Result<()> {
    let mut faults = Faults::default();
    faults.check(url("/run/http/url", &call.url));
    if call.timeout == Span::ZERO || call.timeout > TIMEOUT_MAX {
        let error = AppError::field("/run/http/timeout", "must be more than 0 and at most 30 days");
        faults.check(Err(error.code(FieldCode::OutOfRange)));
    }
    faults.check(headers(call));
    faults.check(body(call));
    faults.check(statuses("/run/http/expect_status", &call.expect_status));
    faults.check(statuses("/run/http/retry_status", &call.retry_status));
    faults.check(expect_body(call));
    if call.follow_redirects > HttpCall::REDIRECTS_MAX {
        let detail = format!("must be at most {}", HttpCall::REDIRECTS_MAX);
        faults.check(Err(AppError::field("/run/http/follow_redirects", detail).code(FieldCode::OutOfRange)));
    }
    if let Some(key) = &call.sign_with {
        faults.check(name("/run/http/sign_with", key));
    }
    faults.finish()
}

fn headers(call: &HttpCall) -> Result<()> {
    const POINTER: &str = "/run/http/headers";
    if call.headers.len() > limits::HEADERS_MAX {
        return Err(AppError::too_long(POINTER, format!("must be at most {}", limits::HEADERS_MAX)));
    }
    for (key, value) in &call.headers {
        header(key, value)?;
    }
    let headers_bytes: usize = call.headers.iter().map(|(key, value)| key.len() + value.len()).sum();
    if headers_bytes > limits::HEADERS_BYTES_MAX {
        let detail = format!("must be at most {} bytes together", limits::HEADERS_BYTES_MAX);
        return Err(AppError::too_long(POINTER, detail));
    }
    Ok(())
}

fn body(call: &HttpCall) -> Result<()> {
    const POINTER: &str = "/run/http/body";
    let Some(body) = &call.body else { return Ok(()) };
    if !call.method.takes_body() {
        let detail = format!("a {} request has no body", call.method.as_str());
        return Err(AppError::field(POINTER, detail).hint("use method POST"));
    }
    if body.len() > limits::HTTP_BODY_BYTES_MAX {
        return Err(AppError::too_long(POINTER, format!("must be at most {} bytes", limits::HTTP_BODY_BYTES_MAX)));
    }
    Ok(())
}

fn statuses(pointer: &str, codes: &[u16]) -> Result<()> {
    if codes.len() > STATUSES_MAX {
        return Err(AppError::too_long(pointer, format!("must be at most {STATUSES_MAX} codes")));
    }
    if let Some(code) = codes.iter().find(|code| !(100..=599).contains(*code)) {
        return Err(AppError::out_of_range(pointer, format!("{code} is not an HTTP status")));
    }
    Ok(())
}

fn expect_body(call: &HttpCall) -> Result<()> {
    const POINTER: &str = "/run/http/expect_body";
    let Some(pattern) = &call.expect_body else { return Ok(()) };
    if call.method == Method::Head {
        return Err(AppError::field(POINTER, "the answer to a HEAD request has no body").hint("use method GET"));
    }
    if pattern.chars().count() > EXPECT_BODY_CHARS_MAX {
        return Err(AppError::too_long(POINTER, format!("must be at most {EXPECT_BODY_CHARS_MAX} characters")));
    }
    let compiled = RegexBuilder::new(pattern).size_limit(HttpCall::EXPECT_BODY_COMPILED_BYTES_MAX).build();
    compiled.map(drop).map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => AppError::field(POINTER, "needs too much memory when it is compiled")
            .hint("repeat less: x{1000} is a thousand times x"),
        error => AppError::field(POINTER, format!("is not a regular expression: {}", last_line(&error.to_string())))
            .hint("put a backslash before signs that stand for themselves, such as \\. and \\{"),
    })
}

/// The parser draws the place over several lines and says in the last what is wrong.
fn last_line(text: &str) -> &str {
    text.trim().lines().last().unwrap_or_default().trim_start_matches("error: ")
}

/// What is wrong with an address, in words of our own.
fn url_fault(error: url::ParseError) -> &'static str {
    use url::ParseError;
    match error {
        ParseError::RelativeUrlWithoutBase | ParseError::RelativeUrlWithCannotBeABaseBase => {
            "it does not begin with http:// or https://"
        }
        ParseError::EmptyHost => "it names no host",
        ParseError::InvalidPort => "its port is not a number from 0 to 65535",
        ParseError::InvalidIpv4Address | ParseError::InvalidIpv6Address => "its IP address is not one",
        ParseError::IdnaError | ParseError::InvalidDomainCharacter => "its host name has characters that none can have",
        _ => "its form is not known",
    }
}

pub(super) fn url(pointer: &str, value: &str) -> Result<()> {
    if value.chars().count() > limits::URL_CHARS_MAX {
        let detail = format!("must be at most {} characters", limits::URL_CHARS_MAX);
        return Err(AppError::too_long(pointer, detail));
    }
    // The parser would drop them, and the task would call another place than it shows.
    if value.chars().any(char::is_control) {
        let error = AppError::field(pointer, "must not contain control characters");
        return Err(error.code(FieldCode::ForbiddenCharacter));
    }
    // The worker checks the whole address before it connects.
    if begins_with_secret(value) {
        return Ok(());
    }
    let parsed = url::Url::parse(value).map_err(|error| {
        AppError::field(pointer, format!("is not a URL: {}", url_fault(error)))
            .hint("write it in full, such as https://example.com/hook")
    })?;
    if !matches!(parsed.scheme(), "http" | "https") {
        return Err(AppError::field(pointer, "must begin with http:// or https://"));
    }
    if parsed.host_str().is_none_or(str::is_empty) {
        return Err(AppError::field(pointer, "must name a host"));
    }
    if !parsed.username().is_empty() || parsed.password().is_some() {
        return Err(AppError::field(pointer, "must not contain a user name or password")
            .hint("send credentials in an Authorization header"));
    }
    Ok(())
}

fn header(key: &str, value: &str) -> Result<()> {
    const POINTER: &str = "/run/http/headers";
    if key.len() > limits::HEADER_NAME_BYTES_MAX {
        let detail = format!("the name of a header must be at most {} bytes", limits::HEADER_NAME_BYTES_MAX);
        return Err(AppError::too_long(POINTER, detail));
    }
    let parsed = http::HeaderName::from_bytes(key.as_bytes())
        .map_err(|_| AppError::field(POINTER, "a header has a name that HTTP does not allow"))?;
    if HttpCall::is_reserved_header(parsed.as_str()) {
        return Err(AppError::field(POINTER, format!("{parsed} is set by Punctual")));
    }
    if value.len() > limits::HEADER_VALUE_BYTES_MAX {
        let detail = format!("the value of {parsed} must be at most {} bytes", limits::HEADER_VALUE_BYTES_MAX);
        return Err(AppError::too_long(POINTER, detail));
    }
    http::HeaderValue::from_str(value).map_err(|_| {
        AppError::field(POINTER, format!("the value of {parsed} has characters that HTTP does not allow"))
            .code(FieldCode::ForbiddenCharacter)
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate::spec;
    use punctual_core::task::{Run, TaskSpec};

    fn call(headers: &[(String, String)], body: Option<String>) -> TaskSpec {
        TaskSpec::new(Run::Http(HttpCall {
            method: Method::Post,
            headers: headers.iter().cloned().collect(),
            body,
            ..HttpCall::new("https://example.com/hook")
        }))
    }

    #[test]
    fn definitions_that_no_worker_could_take_are_refused_by_field() {
        let header = |n: usize, value_len: usize| (format!("x-{n}"), "v".repeat(value_len));
        let check = |headers: &[(String, String)], body: Option<String>| {
            spec(&call(headers, body)).map_err(|error| error.errors[0].pointer.clone())
        };
        let headers = Err("/run/http/headers".to_owned());
        assert_eq!(check(&[header(1, 8 << 10)], None), Ok(()));
        assert_eq!(check(&[header(1, (8 << 10) + 1)], None), headers);
        assert_eq!(check(&[("x".repeat(256), "v".to_owned())], None), Ok(()));
        assert_eq!(check(&[("x".repeat(257), "v".to_owned())], None), headers);
        let many = |count| (0..count).map(|n| header(n, 8000)).collect::<Vec<_>>();
        assert_eq!(check(&many(8), None), Ok(()));
        assert_eq!(check(&many(9), None), headers);
        // Each of these is one byte of text and six of JSON.
        assert_eq!(check(&[], Some("\u{1}".repeat(80 << 10))), Ok(()));
        assert_eq!(check(&[], Some("\u{1}".repeat(90 << 10))), Err("/run".to_owned()));
    }

    #[test]
    fn headers_that_are_ours_are_refused() {
        for name in [
            "Host",
            "idempotency-key",
            "Punctual-Job-Id",
            "punctual-attempt",
            "Proxy-Authorization",
            "te",
            "Webhook-Signature",
        ] {
            assert!(spec(&call(&[(name.to_owned(), "x".to_owned())], None)).is_err(), "{name}");
        }
        assert!(spec(&call(&[("Authorization".to_owned(), "x".to_owned())], None)).is_ok());
    }

    #[test]
    fn urls_that_could_not_be_called_are_refused() {
        for bad in [
            "",
            "example.com",
            "ftp://example.com",
            "http://",
            "http://user:pw@example.com",
            "file:///etc/passwd",
            "http://example.com/a\r\nHost: evil",
            "http://exam\tple.com/",
            "http://example.com/\0",
        ] {
            assert!(url("/url", bad).is_err(), "{bad}");
        }
        assert!(url("/url", "https://example.com/hook?x=1").is_ok());
    }

    #[test]
    fn an_expectation_that_cannot_be_checked_is_refused_and_says_why() {
        let check = |method, pattern: &str| {
            let expect_body = Some(pattern.to_owned());
            expect_body_of(&HttpCall { method, expect_body, ..HttpCall::new("https://example.com/") })
        };
        fn expect_body_of(call: &HttpCall) -> std::result::Result<(), String> {
            super::check(call).map_err(|error| error.errors[0].detail.clone())
        }
        assert_eq!(check(Method::Get, r#""status":\s*"ok""#), Ok(()));
        for (method, pattern, reason) in [
            (Method::Get, "(", "is not a regular expression: unclosed group"),
            (Method::Get, "a{1000}{1000}", "needs too much memory"),
            (Method::Get, r"(?=a)", "look-around"),
            (Method::Head, "a", "has no body"),
            (Method::Get, &"a".repeat(1025), "at most 1024 characters"),
        ] {
            let refused = check(method, pattern).unwrap_err();
            assert!(refused.contains(reason), "{pattern}: {refused}");
        }
    }

    #[test]
    fn more_redirects_than_any_honest_place_needs_are_refused() {
        let check = |follow_redirects| check(&HttpCall { follow_redirects, ..HttpCall::new("https://example.com/") });
        assert!(check(10).is_ok());
        assert!(check(11).is_err());
    }
}
