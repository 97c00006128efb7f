//! The lines of an iCalendar file: unfolded, and cut into name, parameters and value.

/// A line with the number of its first part in the file.
pub(super) struct Unfolded {
    number: usize,
    text: String,
}

/// Joins lines that were folded: one that begins with a space or a tab goes on with the line before it.
pub(super) fn unfold(text: &str) -> impl Iterator<Item = Unfolded> + '_ {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut parts = text.lines().enumerate().peekable();
    std::iter::from_fn(move || {
        let (place, first) = parts.next()?;
        let mut whole = first.to_owned();
        while let Some((_, part)) = parts.next_if(|(_, part)| part.starts_with([' ', '\t'])) {
            whole.push_str(&part[1..]);
        }
        Some(Unfolded { number: place + 1, text: whole })
    })
}

/// `NAME;PARAMETER=…:value`
pub(super) struct Line<'a> {
    pub(super) number: usize,
    /// In capitals.
    pub(super) name: String,
    pub(super) value: &'a str,
}

impl<'a> Line<'a> {
    /// `None` for what is no such line; files have comments and blank lines that no rule knows.
    pub(super) fn read(line: &'a Unfolded) -> Option<Self> {
        // A parameter in quotes may hold a colon.
        let mut in_quotes = false;
        let is_colon = |byte: &u8| {
            in_quotes ^= *byte == b'"';
            *byte == b':' && !in_quotes
        };
        let colon = line.text.as_bytes().iter().position({
            let mut is_colon = is_colon;
            move |byte| is_colon(byte)
        })?;
        let (head, value) = (&line.text[..colon], &line.text[colon + 1..]);
        let name = head.split(';').next().unwrap_or_default().trim();
        Some(Self { number: line.number, name: name.to_ascii_uppercase(), value })
    }
}
