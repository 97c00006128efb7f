//! What clients do: calls that are on record before they are sent, the load of a run, and
//! the question at the end how everything went.

mod calls;
mod dump;
mod leave;
mod mix;
mod tasks;

pub(crate) use calls::{Caller, Order};
pub(crate) use dump::{counted, dump, patiently, wait_until_all_ended};
pub(crate) use leave::{LEFT, STAYED, half_leave};
pub(crate) use mix::{Mix, MixLoad};
pub(crate) use tasks::define_tasks;
