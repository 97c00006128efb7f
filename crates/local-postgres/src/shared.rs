use std::sync::OnceLock;

use crate::address::Address;
use crate::server::Postgres;
use crate::settings::Settings;

/// Names a database of a server on which tests may make databases of their own.
pub const TEST_SERVER: &str = "PUNCTUAL_TEST_POSTGRES";

/// The server that all tests share: the one that [`TEST_SERVER`] names, or else one that
/// lives as long as this process.
///
/// # Panics
/// If there is none and none can be started.
pub fn shared() -> &'static Address {
    static SHARED: OnceLock<(Address, Option<Postgres>)> = OnceLock::new();
    let (address, _) = SHARED.get_or_init(|| match std::env::var(TEST_SERVER) {
        Ok(url) if !url.is_empty() => (Address::new(url), None),
        _ => {
            let server = Settings::test().start().unwrap_or_else(|error| panic!("no PostgreSQL for tests: {error}"));
            (server.address().clone(), Some(server))
        }
    });
    address
}
