//! What a run is found to have done wrong, and how that is printed.

use std::collections::BTreeMap;

use crate::check::{Lateness, Violation, check};
use crate::history::{History, RunFolder};

/// Violations of one kind that are shown in full.
const SHOWN_MAX: usize = 5;

#[derive(Debug, Clone, Default)]
pub struct Findings {
    /// One sentence for each.
    pub faults: Vec<String>,
}

impl Findings {
    pub fn of(history: &History) -> Self {
        Self::from_violations(check(history))
    }

    pub(crate) fn from_violations(violations: Vec<Violation>) -> Self {
        let mut kinds: BTreeMap<&str, Vec<Violation>> = BTreeMap::new();
        for violation in violations {
            kinds.entry(violation.promise).or_default().push(violation);
        }
        let mut findings = Self::default();
        for (kind, violations) in kinds {
            for violation in violations.iter().take(SHOWN_MAX) {
                let subject = violation.subject.as_deref().unwrap_or("the run");
                findings.add(format!("{kind}: {subject}: {}", violation.text));
            }
            if violations.len() > SHOWN_MAX {
                findings.add(format!("{kind}: and {} more", violations.len() - SHOWN_MAX));
            }
        }
        findings
    }

    pub fn is_good(&self) -> bool {
        self.faults.is_empty()
    }

    pub fn add(&mut self, fault: impl Into<String>) {
        self.faults.push(fault.into());
    }

    pub fn expect(&mut self, holds: bool, fault: impl FnOnce() -> String) {
        if !holds {
            self.add(fault());
        }
    }

    /// Prints them on stderr, and where the evidence is.
    pub fn print(&self, folder: &RunFolder) {
        for fault in &self.faults {
            eprintln!("  WRONG  {fault}");
        }
        if !self.is_good() {
            eprintln!("  kept: {} (judge it again: verify check {0})", folder.path().display());
        }
    }
}

/// `p50 0.8, p99 2.1, max 7.0 ms of 5000`.
pub(crate) fn summary(lateness: &Lateness) -> String {
    format!(
        "p50 {:.1}, p99 {:.1}, max {:.1} ms of {}",
        lateness.at(0.5),
        lateness.at(0.99),
        lateness.at(1.0),
        lateness.count()
    )
}
