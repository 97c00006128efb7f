//! The authorities that issue the cluster's certificates. There is one, and two while one follows the other.

use async_trait::async_trait;
use punctual_core::Timestamp;

use crate::Result;

/// An authority as it is stored. Its private key is sealed: whoever reads the database alone cannot use it.
#[derive(Clone, PartialEq, Eq)]
pub struct AuthorityRow {
    /// Counts the authorities of the cluster, from 1.
    pub generation: u32,
    /// In DER.
    pub certificate: Vec<u8>,
    pub sealed_key: Vec<u8>,
    pub created_at: Timestamp,
    /// From then on it issues nothing and is not trusted. `None` for the latest.
    pub retired_at: Option<Timestamp>,
}

impl std::fmt::Debug for AuthorityRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { generation, created_at, retired_at, .. } = self;
        write!(f, "AuthorityRow({generation}, created {created_at}, retired {retired_at:?})")
    }
}

#[async_trait]
pub trait Authorities: Send + Sync + 'static {
    /// All that there ever were, in order of generation.
    async fn authorities(&self) -> Result<Vec<AuthorityRow>>;

    /// Stores the next generation, and retires those before it that are not retired at `retire_others`. `false`, and nothing
    /// is changed, if the generation is there already: another server was first. A crash leaves both or neither.
    async fn add_authority(&self, row: AuthorityRow, retire_others: Timestamp) -> Result<bool>;
}
