//! Who may do what: rights, sets of them, and the roles that bundle them.
//!
//! Says nothing about how somebody proves who they are, and does not check anything: the app does, with a principal.

mod reach;
mod right;
mod rights;
mod role;
mod table;

pub use reach::Reach;
pub use right::Right;
pub use rights::{Rights, UnknownRight};
pub use role::Role;
pub use table::table;
