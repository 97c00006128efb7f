//! Runs whole clusters of real processes under load and faults, and judges what happened
//! from what independent witnesses saw. Development only.
//!
//! A run has four records, made by parties that share nothing: what clients asked and were
//! told, what the executed work saw of itself ([`witness`]), what was done to the system,
//! and what the system says at the end ([`history`]). [`check`] reads them afterwards.

pub mod check;
mod clients;
mod clock;
pub mod cluster;
pub mod disk;
pub mod downtime;
pub mod exactly_once;
pub mod faults;
mod findings;
pub mod fleet;
pub mod floods;
pub mod history;
pub mod leavers;
pub mod lists;
pub mod load;
pub mod proxy;
pub mod schedules;
pub mod witness;
pub mod worker;
pub mod workflows;

pub use clock::Moment;
pub use findings::Findings;
