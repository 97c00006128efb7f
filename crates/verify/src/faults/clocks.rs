//! Faults of clocks.

use std::time::Duration;

use super::Injecting;
use super::arena::{Arena, Most};
use super::measure::Measure;
use crate::cluster::has_libfaketime;

pub(super) fn missing() -> Option<String> {
    (!has_libfaketime()).then(|| "libfaketime is not installed (apt-get install faketime)".to_owned())
}

impl Arena {
    /// The owner's clock is set to another time while it runs, and set right again.
    async fn jump(&mut self, offset: &str) -> anyhow::Result<()> {
        let place = self.server_by_shards(Most::Shards).await?;
        let name = self.cluster.servers[place].name();
        let from = self.begin(name.clone(), format!("clock set to {offset} of"));
        self.cluster.servers[place].set_clock(offset)?;
        // Long enough for its leases to be given up, if that is what it does.
        let lasts = self.timing.takeover() + Duration::from_secs(5);
        tokio::time::sleep(lasts).await;
        let owned = self.cluster.servers[place].shards_owned().await;
        self.note(format!("{name} owned {owned:?} shards before its clock was set right"));
        self.cluster.servers[place].set_clock("+0")?;
        let since = self.end(name, "clock set right");
        let limit = Duration::from_secs(5);
        self.healed(limit);
        let late = self.timing.takeover() + Duration::from_secs(3);
        self.measure(Measure::Latest { what: "latest begin meanwhile", from, within: lasts, limit: late });
        self.measure(Measure::Recovered { since, limit });
        tokio::time::sleep(limit).await;
        Ok(())
    }
}

pub(super) fn ahead(arena: &mut Arena) -> Injecting<'_> {
    Box::pin(arena.jump("+3600"))
}

pub(super) fn back(arena: &mut Arena) -> Injecting<'_> {
    Box::pin(arena.jump("-3600"))
}
