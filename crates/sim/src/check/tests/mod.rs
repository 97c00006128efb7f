//! Histories made by hand, as a simulation records them, to see each promise about jobs fail.

mod begins;
mod endings;
mod losses;
mod orders;
mod retries;
mod whole;
