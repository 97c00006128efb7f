//! Who is measured, at what, and with how many jobs.

use clap::ValueEnum;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Workload {
    Drain,
    SubmitSingle,
    SubmitBulk,
    Pickup,
    Precision,
}

impl Workload {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Drain => "drain",
            Self::SubmitSingle => "submit-single",
            Self::SubmitBulk => "submit-bulk",
            Self::Pickup => "pickup",
            Self::Precision => "precision",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    Rust,
    Node,
    Python,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Store {
    Postgres,
    /// Weaker: a crash may lose the last second of what was acknowledged.
    Redis,
}

impl Store {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Redis => "redis, fsync every second",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    Usual,
    /// With the usual numbers a single run would take minutes: a tenth of the jobs.
    Slow,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Peer {
    /// Also that of its folder in bench/peers.
    pub(crate) name: &'static str,
    pub(crate) language: Language,
    pub(crate) store: Store,
    pub(crate) pace: Pace,
}

const fn peer(name: &'static str, language: Language, store: Store, pace: Pace) -> Peer {
    Peer { name, language, store, pace }
}

/// Bare SQL is among them, as the ceiling.
pub(crate) const PEERS: &[Peer] = &[
    peer("raw", Language::Rust, Store::Postgres, Pace::Usual),
    peer("graphile-worker", Language::Node, Store::Postgres, Pace::Usual),
    peer("graphile_worker", Language::Rust, Store::Postgres, Pace::Usual),
    peer("pg-boss", Language::Node, Store::Postgres, Pace::Usual),
    peer("apalis-postgres", Language::Rust, Store::Postgres, Pace::Usual),
    peer("awa", Language::Rust, Store::Postgres, Pace::Usual),
    peer("procrastinate", Language::Python, Store::Postgres, Pace::Slow),
    peer("bullmq", Language::Node, Store::Redis, Pace::Usual),
    peer("celery", Language::Python, Store::Redis, Pace::Slow),
];

impl Peer {
    pub(crate) fn does(&self, workload: Workload) -> bool {
        // The ceiling knows no due times, and nobody wakes it.
        self.name != "raw" || !matches!(workload, Workload::Pickup | Workload::Precision)
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    pub(crate) quick: bool,
    pub(crate) jobs: Option<u64>,
}

impl Sizes {
    /// `None` for the workload that is limited by time.
    pub(crate) fn jobs(self, workload: Workload, pace: Pace) -> Option<u64> {
        let part = if pace == Pace::Slow { 10 } else { 1 };
        let many = self.jobs.unwrap_or(if self.quick { 20_000 } else { 200_000 });
        match workload {
            Workload::Drain | Workload::SubmitBulk => Some((many / part).max(1)),
            Workload::SubmitSingle => None,
            Workload::Pickup => Some(if self.quick { 150 } else { 1000 }),
            Workload::Precision => Some(if self.quick { 3000 } else { 10_000 }),
        }
    }

    /// As long as `punctual bench` takes for each number of clients.
    pub(crate) fn seconds(self) -> u32 {
        if self.quick { 1 } else { 5 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_peer_has_a_driver() {
        let drivers = std::path::Path::new(crate::setup::DRIVERS);
        for peer in PEERS {
            let file = match peer.language {
                Language::Rust => "src/main.rs",
                Language::Node => "driver.mjs",
                Language::Python => "driver.py",
            };
            assert!(drivers.join(peer.name).join(file).exists(), "{}", peer.name);
        }
    }

    #[test]
    fn slow_peers_get_a_tenth_of_the_jobs() {
        let sizes = Sizes { quick: false, jobs: None };
        assert_eq!(sizes.jobs(Workload::Drain, Pace::Usual), Some(200_000));
        assert_eq!(sizes.jobs(Workload::Drain, Pace::Slow), Some(20_000));
        assert_eq!(sizes.jobs(Workload::SubmitSingle, Pace::Usual), None);
    }
}
