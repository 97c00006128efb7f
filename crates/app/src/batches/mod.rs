//! Batches: requests are checked and stored here, and batches are cancelled and looked at.
//!
//! When members start is decided by the owner of their shard, and what follows from the end of one by the core, in the
//! transaction of the store that ends it. Here are the requests of people, and what no transaction of an owner does: the jobs of a
//! batch that stops are cancelled, and compensations are stored.

mod create;
mod keep;
mod placing;
mod view;

pub use keep::BatchKeeper;
