//! Backfills: planned times of the past that somebody wants to run now.
//!
//! A request is checked and becomes a row. From then on the server that owns the schedule's shard advances it,
//! [step](mod@step) by step. The ledger of the schedule is read and never touched.

mod ends;
mod judge;
mod notes;
mod record;
mod request;
mod shown;
mod spec;
mod step;
mod view;

pub use request::Backfilling;
pub(crate) use shown::Beside;
pub use step::{AbortedJobs, BackfillAdvance};
