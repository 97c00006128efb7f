//! Agents as real processes, against a server that a test tells what to answer.

mod far_side;
mod reports;
mod silence;
