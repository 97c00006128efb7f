//! What others wrote, so that it is seen and not obeyed: names, reasons and logs come from users and programs, and a
//! terminal does what it reads.

use punctual_core::characters::{is_misleading, push_shown};

/// The text with codes in place of what would steer a terminal or hide something. Line breaks and tabs stay.
pub(crate) fn shown(text: &str) -> String {
    cleaned(text, |_| None)
}

/// The cleaned text, with the colors that we add ourselves.
pub(crate) fn shown_in_color(text: &str) -> String {
    cleaned(text, own_color)
}

/// How long the colour is that a text begins with, if we use it.
fn own_color(text: &str) -> Option<usize> {
    const OWN: [&str; 11] = ["0", "1", "2", "22", "31", "32", "33", "36", "39", "49", "4"];
    let rest = text.strip_prefix("\x1b[")?;
    let end = rest.find('m')?;
    let code = &rest[..end];
    let is_own = OWN.contains(&code)
        || code.strip_prefix("38;5;").is_some_and(|color| color.parse::<u8>().is_ok_and(|color| color < 16));
    is_own.then_some("\x1b[".len() + end + 1)
}

fn cleaned(text: &str, allowed: impl Fn(&str) -> Option<usize>) -> String {
    // Nearly all texts are clean.
    if !text.chars().any(|letter| is_misleading(letter) && !matches!(letter, '\n' | '\t')) {
        return text.to_owned();
    }
    let mut clean = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let len = match letter {
            '\n' | '\t' => {
                clean.push(letter);
                1
            }
            // The line breaks of other systems.
            '\r' if rest.starts_with("\r\n") => 1,
            '\x1b' => match allowed(rest) {
                Some(len) => {
                    clean.push_str(&rest[..len]);
                    len
                }
                None => {
                    push_shown(&mut clean, letter);
                    1
                }
            },
            _ => {
                push_shown(&mut clean, letter);
                letter.len_utf8()
            }
        };
        rest = &rest[len..];
    }
    clean
}

/// JSON with escapes in place of characters that JSON allows and a terminal obeys. It means the same.
pub(crate) fn json(text: &str) -> String {
    let is_plain = |letter: char| letter == '\n' || !is_misleading(letter);
    if text.chars().all(is_plain) {
        return text.to_owned();
    }
    let mut clean = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        if is_plain(letter) {
            clean.push(letter);
            continue;
        }
        let mut units = [0; 2];
        for unit in letter.encode_utf16(&mut units) {
            clean.push_str(&format!("\\u{unit:04x}"));
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_are_shown_and_our_own_colours_stay() {
        let hostile = "a\x1b[2Jb\x1b]0;title\x07\x1b[8mhidden\u{202e}\rover\r\nnext\tcolumn\x1b[31mred\x1b[0m";
        assert_eq!(shown(hostile), "a^[[2Jb^[]0;title^G^[[8mhidden<U+202E>^Mover\nnext\tcolumn^[[31mred^[[0m");
        let colored = shown_in_color(hostile);
        assert!(colored.ends_with("\x1b[31mred\x1b[0m") && colored.contains("^[[8m"), "{colored:?}");
        assert_eq!(shown_in_color("\x1b[38;5;9mx\x1b[39m"), "\x1b[38;5;9mx\x1b[39m");
        assert_eq!(shown_in_color("\x1b[38;5;9999mx\x1b["), "^[[38;5;9999mx^[[");
    }

    #[test]
    fn json_means_the_same_after_it_was_cleaned() {
        let value = serde_json::json!({ "a\u{202e}": "\u{1b}[2J\u{9b}\u{7f}\u{e0041}é" });
        let text = json(&serde_json::to_string_pretty(&value).unwrap());
        assert!(text.chars().all(|letter| letter == '\n' || !is_misleading(letter)), "{text:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
