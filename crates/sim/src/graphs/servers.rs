//! The servers that play one run, and what they know of it: as the PostgreSQL store does, a server works out a step on what it
//! wrote last, and it is written only if that is still there.

use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use punctual_core::workflow::{RunState, Step};
use punctual_core::{RunId, Span};

use crate::rng::Rng;

/// What goes wrong while a run is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Faults {
    None,
    Some,
    /// As `Some`, with a mistake that the comparison must find: a step is written whatever is there.
    Unchecked,
}

/// A run in the store.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Stored {
    pub(super) state: Vec<u8>,
    pub(super) outputs: BTreeMap<(u16, u32), Bytes>,
}

impl Stored {
    pub(super) fn state(&self, run: RunId) -> Result<RunState, String> {
        RunState::from_bytes(&self.state, run).ok_or_else(|| format!("{:?} is no state", self.state))
    }

    pub(super) fn of_node(&self, node: u16) -> impl Iterator<Item = (u32, &Bytes)> {
        self.outputs.range((node, 0)..=(node, u32::MAX)).map(|((_, item), output)| (*item, output))
    }

    pub(super) fn write(&mut self, step: &Step, run: RunId) {
        self.state = step.state.to_bytes(run);
        self.outputs.extend(step.kept.iter().map(|(node, output)| ((node.node, node.item), output.clone())));
    }
}

/// What a server knows of the run, and how far its clock is behind.
struct Server {
    known: Option<Rc<Stored>>,
    lag: Span,
}

pub(super) struct Servers {
    faults: Faults,
    servers: [Server; 2],
    turn: usize,
}

impl Servers {
    pub(super) fn new(faults: Faults, rng: &mut Rng) -> Self {
        let lag_max = if faults == Faults::None { 0 } else { 500 };
        let servers = [(); 2].map(|()| {
            let lag = if lag_max == 0 { Span::ZERO } else { rng.millis(0, lag_max) };
            Server { known: None, lag }
        });
        Self { faults, servers, turn: 0 }
    }

    pub(super) fn have_faults(&self) -> bool {
        self.faults != Faults::None
    }

    /// Whether the other server goes on.
    pub(super) fn take_turns(&mut self, rng: &mut Rng) -> bool {
        let takes_over = self.have_faults() && rng.percent(10);
        self.turn ^= usize::from(takes_over);
        takes_over
    }

    pub(super) fn lag(&self) -> Span {
        self.servers[self.turn].lag
    }

    pub(super) fn known(&self) -> Option<Rc<Stored>> {
        self.servers[self.turn].known.clone()
    }

    /// A step may be lost on its way. Its server may take it for done until it hears otherwise.
    pub(super) fn lose(&mut self, from: &Stored, step: &Step, run: RunId, rng: &mut Rng) -> bool {
        if !self.have_faults() || !rng.percent(15) {
            return false;
        }
        if rng.percent(50) {
            self.note(from, step, run)
        } else {
            self.forget()
        }
        true
    }

    /// Whether the store takes a step that was worked out on `from`.
    pub(super) fn may_commit(&self, from: &Stored, store: &Stored) -> bool {
        self.faults == Faults::Unchecked || from.state == store.state
    }

    /// What was committed is known, unless the answer is lost.
    pub(super) fn learn(&mut self, from: &Stored, step: &Step, run: RunId, rng: &mut Rng) {
        match (self.faults, step.refused) {
            (Faults::None, _) => {}
            (_, None) if rng.percent(80) => self.note(from, step, run),
            (_, None) => self.forget(),
            (_, Some(_)) => {}
        }
    }

    pub(super) fn forget(&mut self) {
        self.servers[self.turn].known = None;
    }

    fn note(&mut self, from: &Stored, step: &Step, run: RunId) {
        let mut known = from.clone();
        known.write(step, run);
        self.servers[self.turn].known = Some(Rc::new(known));
    }
}
