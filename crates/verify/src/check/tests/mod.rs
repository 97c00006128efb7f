//! Recorded runs made by hand, to see each promise about jobs fail.

mod begins;
mod endings;
mod lateness;
mod orders;
mod retries;
mod whole;
