//! What is measured of a cell, from its history.

use std::time::Duration;

use crate::check::{again_after_loss_ms, hits, latest_ms, recovered_ms};
use crate::clock::Moment;
use crate::history::History;
use crate::leavers;

pub(super) enum Measure {
    /// What was under way; of all workers or of one.
    Hits { what: String, at: Moment, of: Option<u32> },
    /// The latest begin of jobs that should have begun from `from` on for `within`.
    Latest { what: &'static str, from: Moment, within: Duration, limit: Duration },
    /// Until jobs begin in time again.
    Recovered { since: Moment, limit: Duration },
    /// From the death of a worker until its last job runs elsewhere.
    Again { pid: u32, since: Moment, limit: Duration },
    /// Measured already.
    Took { what: &'static str, took: Duration, limit: Duration },
    /// Jobs of clients that left, beside those of clients that stayed.
    Leavers,
}

/// A figure and whether it is good.
pub(super) struct Figure {
    pub(super) text: String,
    pub(super) wrong: Option<String>,
    pub(super) hit: bool,
}

impl Measure {
    /// `patience` times the limits are good enough.
    pub(super) fn take(&self, history: &History, patience: u32) -> Figure {
        let figure = |what: &str, ms: i64, limit: Duration| figure(what, ms, limit * patience);
        match self {
            Self::Hits { what, at, of } => {
                let hits = hits(history, *at, *of);
                Figure { text: format!("{what} with {hits}"), wrong: None, hit: hits.any() }
            }
            Self::Latest { what, from, within, limit } => figure(what, latest_ms(history, *from, *within), *limit),
            Self::Recovered { since, limit } => figure("in time again after", recovered_ms(history, *since), *limit),
            Self::Again { pid, since, limit } => match again_after_loss_ms(history, *pid, *since) {
                Some(ms) => figure("its jobs ran again after", ms, *limit),
                None => Figure { text: "it ran nothing to be run again".to_owned(), wrong: None, hit: false },
            },
            Self::Took { what, took, limit } => figure(what, took.as_millis() as i64, *limit),
            Self::Leavers => {
                let compared = leavers::compare(history);
                Figure { text: compared.text, wrong: compared.wrong, hit: false }
            }
        }
    }
}

fn figure(what: &str, ms: i64, limit: Duration) -> Figure {
    let text = format!("{what} {:.1} s", ms as f64 / 1e3);
    let is_good = ms <= limit.as_millis() as i64;
    let wrong = (!is_good).then(|| format!("{text}, and {:.1} s is the limit", limit.as_secs_f64()));
    Figure { text, wrong, hit: false }
}
