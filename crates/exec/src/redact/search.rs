//! Looks for many patterns at once, byte by byte, and knows how much of the text may be the beginning of one.

use aho_corasick::Anchored;
use aho_corasick::automaton::{Automaton, StateID};
use aho_corasick::nfa::noncontiguous::NFA;

use super::Pattern;

pub(super) struct Search {
    automaton: NFA,
    pub(super) patterns: Vec<Pattern>,
    pub(super) longest: usize,
    start: StateID,
    /// For each state, how many of the last bytes are the beginning of a pattern.
    depths: Vec<u32>,
}

impl Search {
    pub(super) fn new(patterns: Vec<Pattern>) -> Self {
        let texts = patterns.iter().map(|pattern| &**pattern.text);
        let automaton = NFA::builder().build(texts).expect("values are far below the gigabytes that are too much");
        let start = automaton.start_state(Anchored::No).expect("the automaton searches anywhere");
        let mut depths = vec![0; start.as_usize() + 1];
        for pattern in &patterns {
            let mut state = start;
            for (place, byte) in pattern.text.iter().enumerate() {
                state = automaton.next_state(Anchored::No, state, *byte);
                if depths.len() <= state.as_usize() {
                    depths.resize(state.as_usize() + 1, 0);
                }
                depths[state.as_usize()] = place as u32 + 1;
            }
        }
        let longest = patterns.iter().map(|pattern| pattern.text.len()).max().unwrap_or_default();
        Self { automaton, patterns, longest, start, depths }
    }

    pub(super) fn start(&self) -> StateID {
        self.start
    }

    pub(super) fn next(&self, state: StateID, byte: u8) -> StateID {
        self.automaton.next_state(Anchored::No, state, byte)
    }

    pub(super) fn depth(&self, state: StateID) -> usize {
        self.depths.get(state.as_usize()).map_or(0, |depth| *depth as usize)
    }

    /// The longest pattern that ends here.
    pub(super) fn ended(&self, state: StateID) -> Option<&Pattern> {
        if !self.automaton.is_match(state) {
            return None;
        }
        let ended = (0..self.automaton.match_len(state)).map(|n| self.automaton.match_pattern(state, n));
        ended.map(|id| &self.patterns[id.as_usize()]).max_by_key(|pattern| pattern.text.len())
    }
}
