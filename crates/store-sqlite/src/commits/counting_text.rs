//! The text of the file beside the database while the server runs: only the count in it changes.

use std::ops::Range;

use super::{Record, checksum, checksum_from};

const COUNT_DIGITS: usize = 20;
/// Of the check sum, in hex.
const CHECK_DIGITS: usize = 16;

/// The text of a record of which only the count changes. Each commit writes one.
pub(super) struct CountingText {
    text: Vec<u8>,
    /// Where the digits of the count are.
    count: Range<usize>,
    /// Where the check sum is, after all that it is of.
    check: Range<usize>,
    /// Of what stands before the count.
    sum_before: u64,
}

impl CountingText {
    pub(super) fn of(record: &Record) -> Self {
        let text = record.text();
        let place = |name: &str, len: usize| {
            let begin = text.find(name).expect("the text has all fields") + name.len();
            begin..begin + len
        };
        let (count, check) = (place("\ncommits ", COUNT_DIGITS), place("\ncheck ", CHECK_DIGITS));
        let sum_before = checksum(&text[..count.start]);
        Self { text: text.into_bytes(), count, check, sum_before }
    }

    pub(super) fn with_count(&mut self, commits: i64) -> &[u8] {
        let mut left = commits;
        for digit in self.text[self.count.clone()].iter_mut().rev() {
            *digit = b'0' + (left % 10) as u8;
            left /= 10;
        }
        let checked = self.count.start..self.check.start - "check ".len();
        let sum = checksum_from(self.sum_before, &self.text[checked]);
        for (place, digit) in self.text[self.check.clone()].iter_mut().enumerate() {
            *digit = b"0123456789abcdef"[(sum >> (4 * (CHECK_DIGITS - 1 - place))) as usize & 15];
        }
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::record;
    use super::*;

    #[test]
    fn a_text_with_another_count_is_that_of_the_whole_record() {
        for stopped in [record().stopped, None] {
            let mut text = CountingText::of(&Record { stopped, ..record() });
            for commits in [0, 1, 12_346, i64::MAX] {
                let expected = Record { commits, stopped, ..record() }.text();
                assert_eq!(text.with_count(commits), expected.as_bytes());
            }
        }
    }
}
