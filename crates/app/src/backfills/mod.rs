//! Backfills: planned times of the past that somebody wants to run now.
//!
//! A request is checked and becomes a row. From then on the server that owns the schedule's shard advances it,
//! [step](mod@step) by step. The ledger of the schedule is read and never touched.

mod ends;
mod judge;
mod notes;
mod ran_times;
mod record;
mod request;
mod spec;
mod step;
mod view;

pub(crate) use ran_times::RanTimes;
pub use request::Backfilling;
pub use step::{AbortedJobs, BackfillAdvance};
