//! Which questions of peers were answered already, so that whoever recorded one cannot ask it again.
//!
//! A question counts for a short time, and its number once. Of each peer the latest numbers are remembered as bits; numbers
//! before them are refused. Nothing is remembered of a peer whose last question is too old to be asked again.

use std::collections::HashMap;
use std::sync::Mutex;

use punctual_core::{ServerId, Span, Timestamp};

use crate::Question;

/// How far the time of a question may be from now. Servers go by the store's clock, so they agree within milliseconds; a
/// question may wait for its connection, and no call lasts longer than this before it is sent.
const AGE_MAX: Span = Span::from_secs(30);

/// Questions of one peer that may be under way at a time, some of them overtaken by others: 4 KiB of bits.
const NUMBERS_MAX: u64 = 1 << 15;
const WORD_BITS: u64 = u64::BITS as u64;

/// More servers than any cluster has, also while all of them restart. Only who knows the cluster's secret takes a place.
const PEERS_MAX: usize = 1024;

/// Why a question with a valid proof is not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StaleQuestion {
    /// Its time is too far from now.
    Old,
    /// It was asked before, or is too far behind the peer's latest to tell.
    Repeated,
    TooManyPeers,
}

/// What is remembered of the questions of all peers.
#[derive(Default)]
pub struct Replays(Mutex<HashMap<ServerId, Asked>>);

/// The numbers that one peer has used.
struct Asked {
    /// The largest.
    latest: u64,
    /// For each of the last numbers, by its remainder, whether it was used.
    used: Box<[u64]>,
    last_asked_at: Timestamp,
}

impl Asked {
    fn new(latest: u64) -> Self {
        let used = vec![0; (NUMBERS_MAX / WORD_BITS) as usize].into();
        Self { latest, used, last_asked_at: Timestamp::EPOCH }
    }

    fn bit(&mut self, number: u64) -> (&mut u64, u64) {
        let place = number % NUMBERS_MAX;
        (&mut self.used[(place / WORD_BITS) as usize], 1 << (place % WORD_BITS))
    }

    /// False if it was used before, or nobody knows.
    fn is_first(&mut self, number: u64) -> bool {
        if number > self.latest {
            if number - self.latest >= NUMBERS_MAX {
                self.used.fill(0);
            } else {
                for passed in self.latest + 1..=number {
                    let (word, bit) = self.bit(passed);
                    *word &= !bit;
                }
            }
            self.latest = number;
        } else if self.latest - number >= NUMBERS_MAX {
            return false;
        }
        let (word, bit) = self.bit(number);
        let is_first = *word & bit == 0;
        *word |= bit;
        is_first
    }
}

impl Replays {
    /// Takes note of a question whose proof is valid, and says why it must not be answered.
    pub fn check(&self, question: Question, now: Timestamp) -> Result<(), StaleQuestion> {
        let Question { from, asked_at, number, .. } = question;
        if asked_at + AGE_MAX < now || now + AGE_MAX < asked_at {
            return Err(StaleQuestion::Old);
        }
        let mut peers = self.0.lock().expect("no panic while the lock is held");
        if !peers.contains_key(&from) && peers.len() >= PEERS_MAX {
            // What is forgotten here would be refused for its age.
            peers.retain(|_, asked| asked.last_asked_at + AGE_MAX >= now);
            if peers.len() >= PEERS_MAX {
                return Err(StaleQuestion::TooManyPeers);
            }
        }
        let asked = peers.entry(from).or_insert_with(|| Asked::new(number));
        asked.last_asked_at = asked.last_asked_at.max(asked_at);
        if asked.is_first(number) { Ok(()) } else { Err(StaleQuestion::Repeated) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(from: u64, number: u64) -> Question {
        let server = |number| ServerId::new(Timestamp::EPOCH, number);
        Question { from: server(from), to: server(0), asked_at: now(), number }
    }

    fn now() -> Timestamp {
        Timestamp::from_micros(1_700_000_000_000_000).unwrap()
    }

    #[test]
    fn each_number_of_a_peer_counts_once_in_any_order() {
        let replays = Replays::default();
        for number in [3, 0, 2, 1, 70, 69, 40_000, 39_999, 40_000 - NUMBERS_MAX + 1, u64::MAX, u64::MAX - 1] {
            assert_eq!(replays.check(question(1, number), now()), Ok(()), "{number}");
            assert_eq!(replays.check(question(1, number), now()), Err(StaleQuestion::Repeated), "{number}");
        }
        assert_eq!(replays.check(question(1, 5), now()), Err(StaleQuestion::Repeated), "too far behind to tell");
        assert_eq!(replays.check(question(2, 3), now()), Ok(()), "another peer counts for itself");
    }

    #[test]
    fn a_number_is_not_forgotten_when_others_pass_it() {
        let replays = Replays::default();
        for number in (0..5 * NUMBERS_MAX).step_by(7) {
            assert_eq!(replays.check(question(1, number), now()), Ok(()), "{number}");
            if let Some(earlier) = number.checked_sub(7 * 100) {
                assert_eq!(replays.check(question(1, earlier), now()), Err(StaleQuestion::Repeated), "{earlier}");
            }
        }
    }

    #[test]
    fn an_old_question_is_refused_and_one_of_the_future() {
        let replays = Replays::default();
        let minute = Span::from_secs(60);
        assert_eq!(replays.check(question(1, 1), now() + minute), Err(StaleQuestion::Old));
        assert_eq!(replays.check(question(1, 1), now() - minute), Err(StaleQuestion::Old));
        assert_eq!(replays.check(question(1, 1), now() + AGE_MAX), Ok(()));
    }

    #[test]
    fn only_peers_that_may_be_repeated_take_memory() {
        let replays = Replays::default();
        for peer in 0..PEERS_MAX as u64 {
            assert_eq!(replays.check(question(peer, 1), now()), Ok(()));
        }
        assert_eq!(replays.check(question(5000, 1), now()), Err(StaleQuestion::TooManyPeers));
        assert_eq!(replays.check(question(5, 2), now()), Ok(()), "those that are known go on");
        let later = now() + AGE_MAX + Span::from_secs(1);
        assert_eq!(replays.check(Question { asked_at: later, ..question(5000, 1) }, later), Ok(()));
        assert_eq!(replays.0.lock().unwrap().len(), 1);
    }
}
