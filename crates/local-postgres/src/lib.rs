//! A private PostgreSQL for tests and measurements: made in a folder of its own, on a free
//! port of this machine, gone with the process that started it. Synchronous, and knows
//! nothing of what it is used for.
//!
//! ```no_run
//! # fn main() -> std::io::Result<()> {
//! let postgres = punctual_local_postgres::Settings::test().start()?;
//! let url = postgres.create_database("jobs")?;
//! # Ok(()) }
//! ```

mod address;
mod find;
mod process;
mod server;
mod settings;
mod shared;

pub use address::Address;
pub use find::{Binaries, ensure_installed};
pub use server::{Postgres, Stop};
pub use settings::Settings;
pub use shared::{TEST_SERVER, shared};

fn failed(text: impl Into<String>) -> std::io::Error {
    std::io::Error::other(text.into())
}
