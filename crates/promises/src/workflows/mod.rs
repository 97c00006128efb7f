//! The promises of docs/workflows.md about runs. A [`Reference`] says what must follow from what happened.

mod definition;
mod reference;
mod values;

pub use definition::Definition;
pub use reference::{Due, Happening, JobEnd, NodeStatus, Reference, Refused, RunStatus, Try};
