//! Questions to the store about jobs that are not in memory, and what each answer is for.

use std::collections::BTreeMap;

use crate::attempt::AttemptNo;
use crate::id::WorkerId;
use crate::shard::event::{Command, Report, Token};
use crate::shard::sweeps::ReadNo;
use crate::shard::write::Epoch;

/// What a job is looked up for.
pub(super) enum Lookup {
    Command {
        token: Token,
        command: Command,
    },
    LateReport {
        worker: WorkerId,
        report: Report,
    },
    /// A worker holds an attempt of a job that is not in memory.
    Held {
        worker: WorkerId,
        attempt: AttemptNo,
    },
}

/// A lookup under way.
pub(super) struct OpenLookup {
    /// The epoch of the shard when it was asked.
    pub(super) epoch: Epoch,
    pub(super) read: ReadNo,
    pub(super) lookup: Lookup,
}

#[derive(Default)]
pub(super) struct Lookups {
    open: BTreeMap<Token, OpenLookup>,
    made: u64,
}

impl Lookups {
    pub(super) fn ask(&mut self, lookup: OpenLookup) -> Token {
        self.made += 1;
        let token = Token(self.made);
        self.open.insert(token, lookup);
        token
    }

    /// The lookup that was answered, if it was asked here.
    pub(super) fn answered(&mut self, token: Token) -> Option<OpenLookup> {
        self.open.remove(&token)
    }
}
