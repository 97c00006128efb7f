//! The end of what an agent wrote to stderr, for people.

use std::collections::VecDeque;

const BYTES_MAX: usize = 4 << 10;
const LINES_MAX: usize = 5;

#[derive(Debug, Default)]
pub(super) struct LastWords(VecDeque<u8>);

impl LastWords {
    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.0.extend(bytes);
        let surplus = self.0.len().saturating_sub(BYTES_MAX);
        self.0.drain(..surplus);
    }

    /// The last lines, joined into one.
    pub(super) fn text(&self) -> String {
        let bytes: Vec<u8> = self.0.iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let printable = |line: &str| line.chars().filter(|c| !c.is_control()).collect::<String>();
        let kept = lines[lines.len().saturating_sub(LINES_MAX)..].iter().map(|line| printable(line));
        kept.collect::<Vec<_>>().join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept_and_no_more() {
        let mut words = LastWords::default();
        assert_eq!(words.text(), "");
        for n in 0..10_000 {
            words.add(format!("line {n}\n").as_bytes());
        }
        assert!(words.0.len() <= BYTES_MAX);
        assert_eq!(words.text(), "line 9995; line 9996; line 9997; line 9998; line 9999");
        words.add(b"\x1b[31mred\xff\n\n");
        assert!(words.text().ends_with("line 9999; [31mred\u{fffd}"), "{}", words.text());
    }
}
