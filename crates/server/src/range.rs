//! The header `Range`, as far as it is granted: one range of bytes.

use std::ops::Range;

use http::HeaderValue;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ByteRange {
    Part(Range<u64>),
    /// Bytes that are not there.
    Nothing,
    /// What is not one range of bytes is passed over, as HTTP has it.
    Whole,
}

pub(crate) fn range(value: &HeaderValue, size: u64) -> ByteRange {
    let text = value.to_str().ok().and_then(|text| text.strip_prefix("bytes="));
    let Some((first, last)) = text.and_then(|text| text.split_once('-')) else { return ByteRange::Whole };
    let number =
        |text: &str| -> Option<u64> { text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())? };
    let part = match (number(first), number(last)) {
        (Some(first), Some(last)) if first <= last => first..size.min(last.saturating_add(1)),
        (Some(first), None) if last.is_empty() => first..size,
        // The last so many.
        (None, Some(count)) if first.is_empty() => size.saturating_sub(count)..size,
        _ => return ByteRange::Whole,
    };
    if part.is_empty() { ByteRange::Nothing } else { ByteRange::Part(part) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_http_has_them() {
        for (text, expected) in [
            ("bytes=0-3", ByteRange::Part(0..4)),
            ("bytes=5-", ByteRange::Part(5..10)),
            ("bytes=-3", ByteRange::Part(7..10)),
            ("bytes=-30", ByteRange::Part(0..10)),
            ("bytes=8-99999999999999999999", ByteRange::Whole),
            ("bytes=8-18446744073709551615", ByteRange::Part(8..10)),
            ("bytes=10-", ByteRange::Nothing),
            ("bytes=-0", ByteRange::Nothing),
            ("bytes=3-2", ByteRange::Whole),
            ("bytes=0-1,4-5", ByteRange::Whole),
            ("bytes=-", ByteRange::Whole),
            ("bytes=+1-2", ByteRange::Whole),
            ("lines=1-2", ByteRange::Whole),
            ("", ByteRange::Whole),
        ] {
            assert_eq!(range(&text.parse().unwrap(), 10), expected, "{text}");
        }
    }
}
