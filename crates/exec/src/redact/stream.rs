//! A text that comes in pieces, with secrets that may be spread over several of them.

use std::sync::Arc;

use aho_corasick::automaton::StateID;

use super::Redactor;

/// Gives on what cannot be a part of a secret any more. It holds back what may be the beginning of one: mostly nothing, since
/// few texts end as a secret begins, and at most about twice the longest form of a secret.
pub struct RedactingStream {
    redactor: Redactor,
    plain: StateID,
    /// Of the text without its line breaks.
    unbroken: StateID,
    /// What was not given on yet.
    pub(super) held: Vec<u8>,
    /// Parts of `held` that are secrets, in order and apart from each other.
    found: Vec<Found>,
}

struct Found {
    from: usize,
    to: usize,
    mark: Arc<str>,
}

impl RedactingStream {
    pub(super) fn new(redactor: Redactor) -> Self {
        let (plain, unbroken) = (redactor.0.plain.start(), redactor.0.unbroken.start());
        Self { redactor, plain, unbroken, held: Vec::new(), found: Vec::new() }
    }

    /// Takes the next piece, and answers what can be given on.
    pub fn push(&mut self, piece: &[u8]) -> Vec<u8> {
        let redactor = Arc::clone(&self.redactor.0);
        for byte in piece {
            self.held.push(*byte);
            self.plain = redactor.plain.next(self.plain, *byte);
            if let Some(pattern) = redactor.plain.ended(self.plain) {
                self.find(self.held.len() - pattern.text.len(), &pattern.mark);
            }
            if is_line_break(*byte) {
                continue;
            }
            self.unbroken = redactor.unbroken.next(self.unbroken, *byte);
            if let Some(pattern) = redactor.unbroken.ended(self.unbroken) {
                self.find(self.back(pattern.text.len()), &pattern.mark);
            }
        }
        let plain = self.held.len() - redactor.plain.depth(self.plain).min(self.held.len());
        let unbroken = self.back(redactor.unbroken.depth(self.unbroken));
        // Somebody may write line breaks without end.
        let most = self.held.len().saturating_sub(self.held_max());
        self.release(plain.min(unbroken).max(most))
    }

    /// The end of the text. A secret of which only the beginning came goes too, if that is long enough to be one.
    pub fn finish(&mut self) -> Vec<u8> {
        let redactor = self.redactor.clone();
        if let Some((len, pattern)) = redactor.cut_at_end(&self.held) {
            self.find(self.held.len() - len, &pattern.mark);
        }
        (self.plain, self.unbroken) = (redactor.0.plain.start(), redactor.0.unbroken.start());
        self.release(self.held.len())
    }

    pub(super) fn held_max(&self) -> usize {
        2 * self.redactor.0.plain.longest
    }

    /// Where the last `count` bytes begin that are no line breaks.
    fn back(&self, count: usize) -> usize {
        let mut left = count;
        let mut at = self.held.len();
        while left > 0 && at > 0 {
            at -= 1;
            left -= usize::from(!is_line_break(self.held[at]));
        }
        at
    }

    /// What is held from there on is a secret. It becomes one with those that it overlaps.
    fn find(&mut self, from: usize, mark: &Arc<str>) {
        let mut found = Found { from, to: self.held.len(), mark: Arc::clone(mark) };
        while let Some(last) = self.found.pop_if(|last| last.to > found.from) {
            if last.from < found.from {
                (found.from, found.mark) = (last.from, last.mark);
            }
        }
        // What is inside of it is needed no more, but for matches that begin there and end later.
        let len = found.to - found.from;
        if len > 2 * self.held_max() {
            let gone = len - self.held_max();
            self.held.drain(found.from..found.from + gone);
            found.to -= gone;
        }
        self.found.push(found);
    }

    /// Gives on what is before `until`, but no part of a secret that goes on behind it.
    fn release(&mut self, until: usize) -> Vec<u8> {
        let cut = self.found.iter().find(|found| found.from < until && found.to > until);
        let until = cut.map_or(until, |cut| cut.from);
        let mut given = Vec::with_capacity(until);
        let mut at = 0;
        let whole = self.found.iter().take_while(|found| found.to <= until).count();
        for found in self.found.drain(..whole) {
            given.extend_from_slice(&self.held[at..found.from]);
            given.extend_from_slice(found.mark.as_bytes());
            at = found.to;
        }
        given.extend_from_slice(&self.held[at..until]);
        self.held.drain(..until);
        for found in &mut self.found {
            found.from -= until;
            found.to -= until;
        }
        given
    }
}

fn is_line_break(byte: u8) -> bool {
    matches!(byte, b'\r' | b'\n')
}
