//! How the running attempts that a namespace may have are divided among the servers.

use async_trait::async_trait;
use punctual_core::running_places::RunningReport;
use punctual_core::shard::write::Epoch;
use punctual_core::{NamespaceId, ServerId, ShardId, Timestamp};

use crate::Result;

#[async_trait]
pub trait RunningPlaces: Send + Sync + 'static {
    /// Takes in what a server says of its running attempts, and answers how many it may have in each namespace of the report
    /// ([`Accounts::exchange`](punctual_core::running_places::Accounts::exchange)). One exchange at a time in the cluster.
    ///
    /// `seq` rises with each report of a server. `None`: a later report came first, and nothing was changed. A crash after it means that places
    /// are kept for a server that does not know of them, until its next report.
    async fn exchange_places(
        &self,
        server: ServerId,
        seq: u64,
        report: RunningReport,
        now: Timestamp,
    ) -> Result<Option<Vec<(NamespaceId, u64)>>>;

    /// How many attempts of a namespace with such a quota run on all servers, by their last reports.
    async fn running_attempts(&self, namespace: NamespaceId) -> Result<u64>;
}

/// The shards of a report as a store keeps them.
pub fn shards_to_bytes(shards: &[(ShardId, Epoch)]) -> Vec<u8> {
    let bytes = shards.iter().flat_map(|(shard, epoch)| {
        let (shard, epoch) = (shard.0.to_be_bytes(), epoch.0.to_be_bytes());
        shard.into_iter().chain(epoch)
    });
    bytes.collect()
}

/// Nothing of what cannot be read: then its shards are not covered, and no places are added until the next report.
pub fn shards_from_bytes(bytes: &[u8]) -> Vec<(ShardId, Epoch)> {
    let (parts, _) = bytes.as_chunks::<10>();
    let read =
        |[a, b, epoch @ ..]: &[u8; 10]| (ShardId(u16::from_be_bytes([*a, *b])), Epoch(u64::from_be_bytes(*epoch)));
    parts.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_read_back_as_they_were_written() {
        let shards = [(ShardId(0), Epoch(1)), (ShardId(1023), Epoch(u64::MAX))];
        assert_eq!(shards_from_bytes(&shards_to_bytes(&shards)), shards);
        assert_eq!(shards_from_bytes(&[]), []);
    }
}
