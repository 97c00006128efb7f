//! The lines of an iCalendar file: unfolded, and cut into name, parameters and value.

use super::Fault;

/// A line with the number of its first part in the file.
pub(super) struct Unfolded {
    number: usize,
    text: String,
}

/// Joins lines that were folded: one that begins with a space or a tab goes on with the line before it. Bytes are
/// joined before they are read as UTF-8, because a line may be folded inside a character.
pub(super) fn unfold(file: &[u8]) -> impl Iterator<Item = Result<Unfolded, Fault>> + '_ {
    let file = file.strip_prefix(b"\xef\xbb\xbf").unwrap_or(file);
    let mut parts = file.split(|byte| *byte == b'\n').map(without_return).enumerate().peekable();
    std::iter::from_fn(move || {
        let (place, first) = parts.next()?;
        let mut whole = first.to_vec();
        while let Some((_, part)) = parts.next_if(|(_, part)| part.starts_with(b" ") || part.starts_with(b"\t")) {
            whole.extend_from_slice(&part[1..]);
        }
        let number = place + 1;
        let unfolded = String::from_utf8(whole).map(|text| Unfolded { number, text });
        Some(unfolded.map_err(|_| Fault::of_file(number, "the line is not valid UTF-8; save the file as UTF-8")))
    })
}

fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// `NAME;PARAMETER=…:value`
pub(super) struct Line<'a> {
    pub(super) number: usize,
    /// In capitals.
    pub(super) name: String,
    /// All that stands before the colon, behind the name.
    parameters: &'a str,
    pub(super) value: &'a str,
}

impl<'a> Line<'a> {
    /// `None` for what is no such line; files have comments and blank lines that no rule knows.
    pub(super) fn read(line: &'a Unfolded) -> Option<Self> {
        let colon = unquoted(&line.text, b':')?;
        let (head, value) = (&line.text[..colon], &line.text[colon + 1..]);
        let (name, parameters) = head.split_once(';').unwrap_or((head, ""));
        Some(Self { number: line.number, name: name.trim().to_ascii_uppercase(), parameters, value })
    }

    /// The value of a parameter, without its quotes.
    pub(super) fn parameter(&self, name: &str) -> Option<&'a str> {
        let mut rest = self.parameters;
        while !rest.is_empty() {
            let end = unquoted(rest, b';').unwrap_or(rest.len());
            let (key, value) = rest[..end].split_once('=').unwrap_or((&rest[..end], ""));
            if key.trim().eq_ignore_ascii_case(name) {
                return Some(value.trim().trim_matches('"'));
            }
            rest = rest.get(end + 1..).unwrap_or_default();
        }
        None
    }
}

/// Where this byte is outside of quotes for the first time.
fn unquoted(text: &str, wanted: u8) -> Option<usize> {
    let mut in_quotes = false;
    text.bytes().position(|byte| {
        in_quotes ^= byte == b'"';
        byte == wanted && !in_quotes
    })
}
