//! The `Retry-After` header: seconds, or a date.

use http::HeaderMap;
use http::header::RETRY_AFTER;
use punctual_core::{Span, Timestamp};

/// How long the receiver asks to wait; `None` if the header is missing or unclear.
pub(crate) fn read(headers: &HeaderMap, now: Timestamp) -> Option<Span> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(secs) = text.parse::<u32>() {
        return Some(Span::from_secs(i64::from(secs)).min(Span::MAX));
    }
    let date = jiff::fmt::rfc2822::parse(text).ok()?;
    Some(Timestamp::saturating_from_micros(date.timestamp().as_microsecond()).since(now).min(Span::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<Span>) {
        let now = Timestamp::parse("2026-11-16T23:00:00Z").unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, text.parse().unwrap());
        assert_eq!(read(&headers, now), expected, "{text}");
    }

    #[test]
    fn seconds_and_dates_are_read_and_nonsense_is_ignored() {
        check("120", Some(Span::from_secs(120)));
        check(" 0 ", Some(Span::ZERO));
        check("4294967295", Some(Span::MAX));
        check("Mon, 16 Nov 2026 23:02:00 GMT", Some(Span::from_secs(120)));
        check("Mon, 16 Nov 2026 22:00:00 GMT", Some(Span::ZERO));
        check("-5", None);
        check("soon", None);
        check("", None);
    }
}
