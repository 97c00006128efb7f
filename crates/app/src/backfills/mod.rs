//! Backfills: planned times of the past that somebody wants to run now.
//!
//! A request is checked and becomes a row. From then on the server that owns the schedule's shard drives it, step by
//! step; see [`driver`] and [`step`](mod@step). The ledger of the schedule is read and never touched.

mod driver;
mod ends;
mod judge;
mod notes;
mod overstayed;
mod record;
mod request;
mod settling;
mod shown;
mod spec;
mod step;
mod view;

pub(crate) use driver::keep;
pub use request::Backfilling;
pub(crate) use shown::Beside;
