//! What every store is held to: one list of cases, a model in memory that keeps
//! the same promises in the plainest way, and random operations that compare two
//! stores. For tests only; knows no concrete store.

pub mod archiving;
mod columns;
pub mod conformance;
pub mod fixture;
pub mod model;
pub mod random;
pub mod report_fixture;
pub mod schedule_fixture;
pub mod unreadable;

pub use columns::check_columns;
