//! Random workflows: the simulated world runs them, and [`play`] compares what the core makes of them with what the reference
//! evaluator says, without a world around them and therefore by the ten thousands.

mod draw;
mod play;
mod servers;

pub(crate) use draw::{Drawing, EVENTS, draw_definition, draw_input, draw_output};
pub use play::{Played, play};
pub use servers::Faults;
