//! The systems that are measured, the workloads, and how many jobs each gets.

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
    /// Redis with `appendfsync everysec`. Weaker than PostgreSQL: a crash may lose the last second of acknowledged writes.
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
    /// A tenth of the jobs, because a run with the usual number would take minutes.
    Slow,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct System {
    /// The name of the system and of its folder in bench/comparison.
    pub(crate) name: &'static str,
    pub(crate) language: Language,
    pub(crate) store: Store,
    pub(crate) pace: Pace,
}

const fn system(name: &'static str, language: Language, store: Store, pace: Pace) -> System {
    System { name, language, store, pace }
}

/// The systems that Punctual is compared with. Bare SQL (`raw`) is among them as the ceiling.
pub(crate) const SYSTEMS: &[System] = &[
    system("raw", Language::Rust, Store::Postgres, Pace::Usual),
    system("graphile-worker", Language::Node, Store::Postgres, Pace::Usual),
    system("graphile_worker", Language::Rust, Store::Postgres, Pace::Usual),
    system("pg-boss", Language::Node, Store::Postgres, Pace::Usual),
    system("apalis-postgres", Language::Rust, Store::Postgres, Pace::Usual),
    system("awa", Language::Rust, Store::Postgres, Pace::Usual),
    system("procrastinate", Language::Python, Store::Postgres, Pace::Slow),
    system("bullmq", Language::Node, Store::Redis, Pace::Usual),
    system("celery", Language::Python, Store::Redis, Pace::Slow),
];

impl System {
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
    /// The number of jobs; `None` for the workload that is limited by time.
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

    /// How long each number of clients submits, the same as in `punctual bench`.
    pub(crate) fn seconds(self) -> u32 {
        if self.quick { 1 } else { 5 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_system_has_a_driver() {
        let drivers = std::path::Path::new(crate::setup::DRIVERS);
        for system in SYSTEMS {
            let file = match system.language {
                Language::Rust => "src/main.rs",
                Language::Node => "driver.mjs",
                Language::Python => "driver.py",
            };
            assert!(drivers.join(system.name).join(file).exists(), "{}", system.name);
        }
    }

    #[test]
    fn slow_systems_get_a_tenth_of_the_jobs() {
        let sizes = Sizes { quick: false, jobs: None };
        assert_eq!(sizes.jobs(Workload::Drain, Pace::Usual), Some(200_000));
        assert_eq!(sizes.jobs(Workload::Drain, Pace::Slow), Some(20_000));
        assert_eq!(sizes.jobs(Workload::SubmitSingle, Pace::Usual), None);
    }
}
