//! Texts of users on a page: escaped by `maud`, apart from what surrounds them, and without invisible tricks.

use maud::{Markup, html};

/// Control characters as symbols. What would change the order of text around it is replaced: attributes, titles and drawings
/// have nothing that could keep it in.
pub(crate) fn clean(text: &str) -> String {
    let shown = |character: char| match character {
        '\t' | '\n' => character,
        '\r' => '\u{240d}',
        '\u{0}'..='\u{1f}' => char::from_u32(0x2400 + u32::from(character)).unwrap_or('\u{fffd}'),
        '\u{7f}' => '\u{2421}',
        '\u{80}'..='\u{9f}'
        | '\u{61c}'
        | '\u{200e}'
        | '\u{200f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        other => other,
    };
    text.chars().map(shown).collect()
}

/// A text of a user.
pub(crate) fn user(text: &str) -> Markup {
    html! { bdi { (clean(text)) } }
}

/// The same, if there is one.
pub(crate) fn maybe(text: Option<&str>) -> Markup {
    html! { @if let Some(text) = text { (user(text)) } }
}

/// A code or an id of a user's choice.
pub(crate) fn code(text: &str) -> Markup {
    html! { code { bdi { (clean(text)) } } }
}

/// Cut for a place that is small. The whole belongs into a title.
pub(crate) fn short(text: &str, chars_max: usize) -> String {
    let text = clean(text);
    if text.chars().count() <= chars_max {
        return text;
    }
    text.chars().take(chars_max - 1).chain(['…']).collect()
}

/// A name as a part of a path or a value of a query.
pub fn escaped(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~');
    text.bytes().fold(String::new(), |mut out, byte| {
        if is_plain(byte) {
            out.push(char::from(byte));
        } else {
            out.push('%');
            out.push_str(&format!("{byte:02X}"));
        }
        out
    })
}

/// An address with those parameters that have a value.
pub(crate) fn address<const N: usize>(path: &str, parameters: [(&str, Option<&str>); N]) -> String {
    let given = parameters
        .iter()
        .filter_map(|(name, value)| Some(format!("{name}={}", escaped(value.filter(|value| !value.is_empty())?))));
    let given: Vec<String> = given.collect();
    if given.is_empty() { path.to_owned() } else { format!("{path}?{}", given.join("&")) }
}

/// A number of bytes for people.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut unit = 0;
    let mut size = count as f64;
    while size >= 1024.0 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{count} B") } else { format!("{size:.1} {}", UNITS[unit]) }
}

/// A number with its noun.
pub(crate) fn count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// A word as a shell reads it.
pub(crate) fn shell(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:@=,+%".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_is_shown_as_what_it_is() {
        assert_eq!(
            clean("a\u{0}\u{1b}[31m\u{202e}b\u{7f}\r\n\t"),
            "a\u{2400}\u{241b}[31m\u{fffd}b\u{2421}\u{240d}\n\t"
        );
    }

    #[test]
    fn a_word_for_a_shell_is_one_word() {
        for (word, quoted) in
            [("plain", "plain"), ("", "''"), ("it's $HOME", "'it'\\''s $HOME'"), ("a b", "'a b'"), ("`x`", "'`x`'")]
        {
            assert_eq!(shell(word), quoted);
        }
    }

    #[test]
    fn an_address_escapes_what_it_is_given() {
        assert_eq!(
            address("/jobs", [("task", Some("a&b=ü")), ("queue", None), ("state", Some(""))]),
            "/jobs?task=a%26b%3D%C3%BC"
        );
        assert_eq!(escaped("../x?"), "..%2Fx%3F");
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!([bytes(0), bytes(1023), bytes(1536), bytes(3 << 30)], ["0 B", "1023 B", "1.5 KiB", "3.0 GiB"]);
    }
}
