//! Random workflows: the simulated world runs them, and [`play`] compares what the core makes of them with what the reference
//! evaluator says, without any faults and therefore by the ten thousands.

mod draw;
mod play;

pub(crate) use draw::{Drawing, EVENTS, draw_definition, draw_input, draw_output};
pub use play::{Played, play};
