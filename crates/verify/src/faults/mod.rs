//! `verify faults`: what a cluster does while its parts are killed, stopped, cut off, slowed
//! down and confused. One cell is one fault under load, its healing, and a verdict.
//!
//! A cell counts only if the fault hit something: it says what was under way at that moment.

mod arena;
mod artifacts;
mod cells;
mod clients;
mod clocks;
mod databases;
mod hosts;
mod links;
mod measure;
mod netns;
mod run;
mod servers;
mod workers;

use std::future::Future;
use std::pin::Pin;

use arena::Arena;
pub use cells::CELLS;
pub use netns::enter_own_network;
pub use run::{CellReport, Faults, Timing};

type Injecting<'a> = Pin<Box<dyn Future<Output = anyhow::Result<()>> + 'a>>;

/// One fault.
pub struct Cell {
    pub name: &'static str,
    pub about: &'static str,
    /// Among the few that stand for all.
    pub quick: bool,
    needs: Needs,
    inject: for<'a> fn(&'a mut Arena) -> Injecting<'a>,
}

/// What a cell's cluster needs beside the usual.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Needs {
    Nothing,
    /// Load before the servers have shared out the shards.
    LoadAtOnce,
    /// One server to begin with.
    OneServer,
    /// A server that only answers clients.
    ApiServer,
    FakeClock,
    Standby,
    /// A standby that commits do not wait for.
    AsynchronousStandby,
    /// Packets are dropped by the kernel, which needs a network of our own.
    OwnNetwork,
    /// Each server and each worker on a host of its own, with TLS and credentials.
    Hosts,
    /// No hint is sent.
    DroppedHints,
    /// Every hint is sent twice.
    RepeatedHints,
    /// Its clients speak plain HTTP.
    PlainHttp,
}
