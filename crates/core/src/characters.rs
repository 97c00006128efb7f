//! Characters that steer a terminal or make a text look like another: controls, direction marks and invisible ones.
//!
//! Names and ids must not contain them, nor characters that look like a space. Whatever shows a text of others shows those that
//! steer or hide as codes.

/// Invisible characters and marks of direction, in order. Those that change the look of a visible neighbour, such as the
/// variation selectors of emoji, are not among them.
const INVISIBLE: [(u32, u32); 20] = [
    (0x00AD, 0x00AD),
    (0x034F, 0x034F),
    (0x061C, 0x061C),
    (0x115F, 0x1160),
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x200B, 0x200F),
    (0x2028, 0x202E),
    (0x2060, 0x206F),
    (0x3164, 0x3164),
    (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0),
    (0xFFF0, 0xFFFC),
    (0xFFFE, 0xFFFF),
    (0x13430, 0x1343F),
    (0x16FE4, 0x16FE4),
    (0x1BCA0, 0x1BCA3),
    (0x1D159, 0x1D159),
    (0x1D173, 0x1D17A),
    (0xE0000, 0xE0FFF),
];

/// Whether a character is a control, a mark of direction or invisible. Line breaks and tabs are controls.
pub fn is_misleading(character: char) -> bool {
    let code = u32::from(character);
    character.is_control() || INVISIBLE.iter().any(|(first, last)| (*first..=*last).contains(&code))
}

/// The braille pattern without dots, which looks like a space and is none.
pub const BRAILLE_BLANK: char = '\u{2800}';

/// Whether a character shows nothing and takes room, as a space does, and is not the space. Texts that differ by it look
/// alike.
pub fn is_blank(character: char) -> bool {
    let is_space = character.is_whitespace() && character != ' ';
    (is_space || character == BRAILLE_BLANK) && !is_misleading(character)
}

/// The first character of a name that misleads: one by itself, one that looks like a space, or a variation selector that
/// has nothing to change.
pub fn misleading(text: &str) -> Option<char> {
    let mut before = ' ';
    for character in text.chars() {
        if is_misleading(character) || is_blank(character) || (is_selector(character) && !is_varied(before)) {
            return Some(character);
        }
        before = character;
    }
    None
}

fn is_selector(character: char) -> bool {
    matches!(character, '\u{fe00}'..='\u{fe0f}')
}

/// Whether a variation selector may change the look of a character: of ASCII, those that key caps are made of.
fn is_varied(character: char) -> bool {
    if character.is_ascii() { matches!(character, '0'..='9' | '#' | '*') } else { !is_selector(character) }
}

/// A character by its code, and by its name where it has one that people know: `U+202E (right-to-left override)`.
pub fn named(character: char) -> String {
    let code = u32::from(character);
    let name = match code {
        0x00 => "null",
        0x07 => "bell",
        0x08 => "backspace",
        0x09 => "tab",
        0x0A => "line feed",
        0x0D => "carriage return",
        0x1B => "escape",
        0x20 => "space",
        0x7F => "delete",
        0xA0 => "no-break space",
        0xAD => "soft hyphen",
        0x061C => "Arabic letter mark",
        0x200B => "zero width space",
        0x200C => "zero width non-joiner",
        0x200D => "zero width joiner",
        0x200E => "left-to-right mark",
        0x200F => "right-to-left mark",
        0x2028 => "line separator",
        0x2029 => "paragraph separator",
        0x202A => "left-to-right embedding",
        0x202B => "right-to-left embedding",
        0x202C => "pop directional formatting",
        0x202D => "left-to-right override",
        0x202E => "right-to-left override",
        0x202F => "narrow no-break space",
        0x2060 => "word joiner",
        0x2066 => "left-to-right isolate",
        0x2067 => "right-to-left isolate",
        0x2068 => "first strong isolate",
        0x2069 => "pop directional isolate",
        0x2800 => "braille pattern blank",
        0x3000 => "ideographic space",
        0xFEFF => "byte order mark",
        _ if character.is_control() => "a control character",
        _ if is_misleading(character) => "an invisible character",
        _ if is_blank(character) => "a blank character",
        _ if is_selector(character) => "a variation selector",
        _ => return format!("`{character}`"),
    };
    format!("U+{code:04X} ({name})")
}

/// Appends a character so that it is seen and does nothing: `^[` for escape, `<U+202E>` for what has no such form.
pub fn push_shown(text: &mut String, character: char) {
    match character {
        '\0'..='\u{1f}' => {
            text.push('^');
            text.push(char::from(character as u8 + b'@'));
        }
        '\u{7f}' => text.push_str("^?"),
        character if is_misleading(character) => text.push_str(&format!("<U+{:04X}>", u32::from(character))),
        character => text.push(character),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_or_hides_is_found_and_named() {
        for (text, name) in [
            ("a\u{1b}[2J", "U+001B (escape)"),
            ("a\nb", "U+000A (line feed)"),
            ("a\u{9b}31m", "U+009B (a control character)"),
            ("abc\u{202e}cba", "U+202E (right-to-left override)"),
            ("a\u{2066}b", "U+2066 (left-to-right isolate)"),
            ("pay\u{200b}pal", "U+200B (zero width space)"),
            ("a\u{feff}", "U+FEFF (byte order mark)"),
            ("a\u{3164}", "U+3164 (an invisible character)"),
            ("a\u{e0041}", "U+E0041 (an invisible character)"),
            ("\u{fffc}", "U+FFFC (an invisible character)"),
            ("a\u{16fe4}", "U+16FE4 (an invisible character)"),
            ("\u{1d159}", "U+1D159 (an invisible character)"),
            ("\u{2800}", "U+2800 (braille pattern blank)"),
            ("a\u{a0}b", "U+00A0 (no-break space)"),
            ("a\u{2003}b", "U+2003 (a blank character)"),
            ("a\u{202f}b", "U+202F (narrow no-break space)"),
            ("a\u{3000}b", "U+3000 (ideographic space)"),
            ("\u{fe0f}", "U+FE0F (a variation selector)"),
            ("a\u{fe0f}", "U+FE0F (a variation selector)"),
            ("❤\u{fe0f}\u{fe0f}", "U+FE0F (a variation selector)"),
        ] {
            assert_eq!(misleading(text).map(named).as_deref(), Some(name), "{text:?}");
        }
        for text in ["nightly", "Jürgen", "日本語", "עברית", "❤\u{fe0f}", "1\u{fe0f}\u{20e3}", "⠿⠋", "a b", "ﷺ", "🧑"]
        {
            assert_eq!(misleading(text), None, "{text}");
        }
    }

    #[test]
    fn they_are_shown_as_codes() {
        let shown = |text: &str| {
            let mut shown = String::new();
            text.chars().for_each(|character| push_shown(&mut shown, character));
            shown
        };
        assert_eq!(shown("a\u{1b}]52;c;x\u{7}b"), "a^[]52;c;x^Gb");
        assert_eq!(shown("\0\t\r\n\u{7f}"), "^@^I^M^J^?");
        assert_eq!(shown("\u{9b}2J\u{202e}é"), "<U+009B>2J<U+202E>é");
    }
}
