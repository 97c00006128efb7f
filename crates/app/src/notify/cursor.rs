//! How far one rule has looked for jobs that wait too long: by its own limit, and by longer ones that schedules set
//! for themselves.

use std::collections::BTreeSet;

use punctual_core::notice::{NoticeKind, RuleSpec};
use punctual_core::{JobId, JobKey, Span, Timestamp, hex};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::event::Event;
use super::scan_progress::{End, ScanProgress};

/// Longer limits of schedules that a rule looks for at a time: the ones that runs were late by last. Runs of others are
/// told when they start.
const OWN_MAX: usize = 8;
/// A longer limit is forgotten when no run was late by it for so long. One that still waits then is told when it starts.
const OWN_KEPT: Span = Span::from_secs(86_400);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct LateCursor {
    #[serde(flatten)]
    pub(super) progress: ScanProgress,
    pub(super) looked_at: Timestamp,
    /// Of the rule, when it began to ask what it asks.
    #[serde(default)]
    pub(super) revision: u32,
    /// What that is, in short. Earlier versions do not write it, and take each revision for another question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) question: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) own: Vec<OwnProgress>,
}

/// For runs of schedules with this limit of their own. It is found when one of them waits for longer than the rule's limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct OwnProgress {
    pub(super) late_after: Span,
    pub(super) found_at: Timestamp,
    #[serde(flatten)]
    pub(super) progress: ScanProgress,
}

/// Whether a rule wants to know of what is late.
pub(super) fn is_watching(rule: &RuleSpec) -> bool {
    rule.enabled && rule.wants(NoticeKind::Late)
}

/// What a rule asks about lateness. Whom it tells, when and in which words is no part of it.
fn question_of(rule: &RuleSpec) -> String {
    let RuleSpec {
        tasks,
        queues,
        schedules,
        late_after,
        on: _,
        channel: _,
        window: _,
        templates: _,
        queue: _,
        enabled: _,
    } = rule;
    let asked = (late_after, in_order(tasks), in_order(queues), in_order(schedules));
    let json = serde_json::to_vec(&asked).expect("names are JSON");
    hex::encode(&Sha256::digest(json)[..16])
}

fn in_order(names: &[String]) -> BTreeSet<&String> {
    names.iter().collect()
}

impl LateCursor {
    /// What is late already when a rule begins is not told.
    pub(super) fn begin(rule: &RuleSpec, revision: u32, now: Timestamp) -> Self {
        let (progress, question) = (ScanProgress::begin(now - rule.late_after), Some(question_of(rule)));
        Self { progress, looked_at: now, revision, question, own: Vec::new() }
    }

    fn place(&self) -> (u32, End, Timestamp) {
        (self.revision, self.progress.end(), self.looked_at)
    }

    /// From what is stored, and what this server knows of its last look. Mostly it knows more: not each look is stored.
    /// But another server may have looked meanwhile, or the answer to our own write got lost.
    pub(super) fn go_on(&self, known: Option<&Self>) -> Self {
        match known {
            Some(known) if known.place() >= self.place() => known.clone(),
            Some(_) | None => self.clone(),
        }
    }

    /// A rule that asks something else now looks anew: what it passed over before was not told. After any other change
    /// of it, what was told is not told again.
    pub(super) fn of_rule(self, rule: &RuleSpec, revision: u32, now: Timestamp) -> Self {
        let late_after = rule.late_after;
        let question = question_of(rule);
        let is_same = match &self.question {
            Some(asked) => *asked == question,
            None => self.revision == revision,
        };
        let question = Some(question);
        if is_same {
            return Self { question, ..self };
        }
        let again = |own: OwnProgress| OwnProgress { progress: own.progress.begin_again(now - own.late_after), ..own };
        let longer = self.own.into_iter().filter(|own| own.late_after > late_after);
        Self {
            progress: self.progress.begin_again(now - late_after),
            looked_at: now,
            revision,
            question,
            own: longer.map(again).collect(),
        }
    }

    /// All that is looked for.
    pub(super) fn scans(&self, late_after: Span) -> impl Iterator<Item = (Span, &ScanProgress)> {
        let own = self.own.iter().map(|own| (own.late_after, &own.progress));
        std::iter::once((late_after, &self.progress)).chain(own)
    }

    /// A run waits that is late by its schedule's own limit only later.
    pub(super) fn find(&mut self, late_after: Span, job: JobKey, now: Timestamp) {
        if let Some(own) = self.own.iter_mut().find(|own| own.late_after == late_after) {
            own.found_at = now;
        } else {
            if self.own.len() >= OWN_MAX
                && let Some(oldest) = (0..self.own.len()).min_by_key(|place| self.own[*place].found_at)
            {
                self.own.swap_remove(oldest);
            }
            self.own.push(OwnProgress { late_after, found_at: now, progress: ScanProgress::begin(job.due_at) });
        }
    }

    pub(super) fn forget_unused(&mut self, now: Timestamp) {
        self.own.retain(|own| now < own.found_at + own.late_after + OWN_KEPT);
    }

    /// Whether jobs that started late were told while they waited. `own` is what their schedule says of when it is late.
    pub(super) fn was_told(&self, started: &Event, late_after: Span, own: Option<Span>) -> bool {
        let Some(longer) = own.filter(|own| *own > late_after) else {
            return self.progress.was_told(started, late_after);
        };
        let own = self.own.iter().find(|own| own.late_after == longer);
        own.is_some_and(|own| own.progress.was_told(started, longer))
    }
}

/// What one look found, for all rules and schedules with the same limit.
pub(super) struct LateLook {
    pub(super) found: Vec<(JobKey, Event)>,
    pub(super) end: End,
    /// When it was over.
    pub(super) at: Timestamp,
}

impl LateLook {
    pub(super) fn events(&self) -> impl Iterator<Item = &Event> {
        self.found.iter().map(|(_, event)| event)
    }
}

/// Where a look goes on that ended here.
pub(super) fn after(end: End) -> Option<JobKey> {
    end.job.map(|id: JobId| JobKey { due_at: end.upto, id })
}

#[cfg(test)]
#[path = "cursor_tests.rs"]
mod tests;
