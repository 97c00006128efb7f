//! What a fleet costs its servers, and how evenly it is spread over them.

use std::time::Duration;

use futures_util::future::join_all;
use punctual_api::{ServerView, Stats};
use punctual_client::Client;
use tokio::time::Instant;

use crate::cluster::Cluster;

/// The workers of each server that is alive, the fewest first.
pub(super) async fn workers_of_servers(client: &Client) -> Vec<u32> {
    let servers = client.servers().await.map(|list| list.servers).unwrap_or_default();
    let alive = servers.iter().filter(|server: &&ServerView| server.state == "alive");
    let mut workers: Vec<u32> = alive.map(|server| server.workers).collect();
    workers.sort_unstable();
    workers
}

pub(super) fn spread(workers: &[u32]) -> String {
    let at = |place: usize| workers.get(place).copied().unwrap_or(0);
    let (least, median, most) = (at(0), at(workers.len() / 2), at(workers.len().saturating_sub(1)));
    let sum: u32 = workers.iter().sum();
    format!("{sum} streams to {} servers: {least} (fewest), {median} (median), {most} (most)", workers.len())
}

/// The fewest workers of a server that the documentation promises.
pub(super) fn least_expected(workers: usize, connections: u32, servers: usize) -> f64 {
    let mean = workers as f64 * f64::from(connections) / servers as f64;
    (mean - 4.0 * mean.sqrt()).max(0.0)
}

/// Watches servers that have nothing to do, and says what that takes.
pub(super) async fn idle_cost(cluster: &Cluster, seconds: u64) -> String {
    let before = all_stats(cluster).await;
    let begun = Instant::now();
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let after = all_stats(cluster).await;
    let wall_us = begun.elapsed().as_micros() as f64;
    let cpu: Vec<f64> = before
        .iter()
        .zip(&after)
        .map(|(before, after)| (after.cpu_us - before.cpu_us) as f64 / wall_us * 100.0)
        .collect();
    let memory = after.iter().map(|stats| stats.rss_bytes as f64 / f64::from(1 << 20));
    let (memory_sum, memory_most) = memory.fold((0.0, 0.0_f64), |(sum, most), mib| (sum + mib, most.max(mib)));
    let mean = |sum: f64| sum / after.len().max(1) as f64;
    format!(
        "idle servers: {:.2} % of a core and {:.0} MiB each, on average; {memory_most:.0} MiB at most",
        mean(cpu.iter().sum()),
        mean(memory_sum)
    )
}

pub(super) async fn memory_mib(cluster: &Cluster) -> f64 {
    let stats = all_stats(cluster).await;
    stats.iter().map(|stats| stats.rss_bytes as f64).sum::<f64>() / f64::from(1 << 20)
}

async fn all_stats(cluster: &Cluster) -> Vec<Stats> {
    join_all(cluster.servers.iter().map(|server| server.stats())).await.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_promise_is_the_mean_less_four_times_its_root() {
        assert_eq!(least_expected(2000, 5, 20).round(), 411.0);
        assert_eq!(least_expected(2, 1, 20), 0.0);
    }
}
