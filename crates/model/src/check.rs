//! Runs the checker and reports its findings.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use stateright::{Checker, Expectation, HasDiscoveries, Model};

use crate::actions::Action;
use crate::cluster::Cluster;
use crate::properties::Invariant;

#[derive(Debug)]
pub struct Report {
    pub states: usize,
    pub depth: usize,
    pub took: Duration,
    /// The time was over before every state was visited.
    pub is_cut_short: bool,
    pub findings: Vec<Finding>,
}

#[derive(Debug)]
pub struct Finding {
    pub property: &'static str,
    pub expectation: Expectation,
    /// The way to a counterexample or to an example, whichever the property is about.
    pub way: Option<Vec<Action>>,
}

impl Finding {
    pub fn is_good(&self) -> bool {
        self.way.is_some() == (self.expectation == Expectation::Sometimes)
    }
}

impl Report {
    pub fn is_good(&self) -> bool {
        !self.is_cut_short && self.findings.iter().all(Finding::is_good)
    }

    pub fn counterexample(&self, invariant: Invariant) -> Option<&[Action]> {
        let finding = self.findings.iter().find(|finding| finding.property == invariant.name());
        finding.and_then(|finding| finding.way.as_deref())
    }
}

/// Visits every state, unless the time is over first.
pub fn check(cluster: Cluster, within: Duration) -> Report {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    run(cluster, threads, within, HasDiscoveries::AnyFailures)
}

/// Looks for a counterexample to this invariant, whatever else breaks on the way. On one
/// thread, so that it is found breadth first and hardly longer than need be.
pub fn refute(cluster: Cluster, invariant: Invariant, within: Duration) -> Report {
    run(cluster, 1, within, HasDiscoveries::AnyOf(BTreeSet::from([invariant.name()])))
}

fn run(cluster: Cluster, threads: usize, within: Duration, finish_when: HasDiscoveries) -> Report {
    let begun = Instant::now();
    let properties = cluster.properties();
    let checker = cluster.checker().threads(threads).timeout(within).finish_when(finish_when).spawn_bfs().join();
    let took = begun.elapsed();
    let mut ways = checker.discoveries();
    let findings = properties.into_iter().map(|property| Finding {
        property: property.name,
        expectation: property.expectation,
        way: ways.remove(property.name).map(stateright::Path::into_actions),
    });
    Report {
        states: checker.unique_state_count(),
        depth: checker.max_depth(),
        took,
        is_cut_short: took >= within,
        findings: findings.collect(),
    }
}
