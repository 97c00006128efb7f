//! A network of our own, in which the kernel may drop packets without harm to the machine.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use anyhow::Context;

use super::Injecting;
use super::arena::Arena;
use super::measure::Measure;
use crate::cluster::OWN_ADDRESS;
use crate::history::FaultEvent;

/// Set for the process that was started inside.
const INSIDE: &str = "VERIFY_OWN_NETWORK";

pub(super) fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

pub(super) fn missing() -> Option<String> {
    if !is_inside() {
        return Some("packets are only dropped in a network of our own, which takes root and unshare".to_owned());
    }
    let has_nft = Command::new("nft").arg("--version").output().is_ok_and(|output| output.status.success());
    (!has_nft).then(|| "nft is not installed (apt-get install nftables)".to_owned())
}

/// Starts this program again in a network of its own, where that is allowed; returns only
/// where it is not.
pub fn enter_own_network() -> anyhow::Result<()> {
    let is_root = rustix::process::geteuid().is_root();
    let may = || Command::new("unshare").args(["--net", "true"]).output().is_ok_and(|output| output.status.success());
    if is_inside() || !is_root || !may() {
        return Ok(());
    }
    let own = std::env::current_exe().context("cannot find this program")?;
    // Clusters with TLS listen at an address that is not loopback.
    let script = format!("ip link set lo up && ip address add {OWN_ADDRESS}/32 dev lo && exec \"$0\" \"$@\"");
    let error = Command::new("unshare")
        .args(["--net", "--", "sh", "-c", &script])
        .arg(own)
        .args(std::env::args_os().skip(1))
        .env(INSIDE, "1")
        .exec();
    Err(error).context("cannot enter a network of our own")
}

fn nft(rule: &str) -> anyhow::Result<()> {
    let output = Command::new("nft").args(rule.split(' ')).output().context("cannot run nft")?;
    anyhow::ensure!(output.status.success(), "nft {rule}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

impl Arena {
    async fn lose(&mut self, percent: u32, limit: Duration, recovery: Duration) -> anyhow::Result<()> {
        let from = self.begin("of all packets", format!("{percent} % lost"));
        if percent >= 30 {
            // Heartbeats may then stay away for long.
            for worker in &self.cluster.workers {
                self.record(FaultEvent::WorkerOutOfReach { pid: worker.pid() }, worker.name(), "");
            }
        }
        nft("add table inet verify")?;
        nft("add chain inet verify loss { type filter hook input priority 0 ; }")?;
        nft(&format!("add rule inet verify loss meta l4proto tcp numgen random mod 100 < {percent} counter drop"))?;
        let lasts = Duration::from_secs(15);
        tokio::time::sleep(lasts).await;
        let listed = Command::new("nft").args(["list", "chain", "inet", "verify", "loss"]).output()?;
        nft("delete table inet verify")?;
        let dropped = String::from_utf8_lossy(&listed.stdout).into_owned();
        let dropped =
            dropped.split("packets ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap_or("?").to_owned();
        self.note(format!("the kernel dropped {dropped} packets"));
        let since = self.end("packets", "all arrive");
        self.healed(recovery);
        self.measure(Measure::Latest { what: "latest begin meanwhile", from, within: lasts, limit });
        self.measure(Measure::Recovered { since, limit: recovery });
        Ok(())
    }
}

// Afterwards, retransmissions that were put off again and again come within so long.

/// Six losses in a row on one connection to the database, which happen in one run of a few, take TCP past the time that a
/// statement may last. Then the shards of its batch are taken over anew.
const LOST_STATEMENT: Duration = Duration::from_millis(10_500);
const TAKEOVER: Duration = Duration::from_secs(5);

pub(super) fn loss_10(arena: &mut Arena) -> Injecting<'_> {
    Box::pin(arena.lose(10, LOST_STATEMENT + TAKEOVER, Duration::from_secs(15)))
}

pub(super) fn loss_30(arena: &mut Arena) -> Injecting<'_> {
    Box::pin(arena.lose(30, Duration::from_secs(60), Duration::from_secs(30)))
}
