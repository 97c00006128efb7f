//! The rules of runs a second time, as slowly and plainly as they can be written: by recursion over names, with no state but
//! what each node came to. It shares no code with the evaluator but the definition and the words for states.

use std::collections::BTreeMap;

use super::spec::{OnNodeFailure, Trigger, WorkflowSpec};
use super::state::NodeStatus;

/// Plays a run of nodes without conditions, gates and lists, and answers the state of each node.
pub(super) struct Reference<'a> {
    spec: &'a WorkflowSpec,
    pub(super) status: BTreeMap<String, NodeStatus>,
    /// How often each was started before.
    rounds: BTreeMap<String, u16>,
    is_cancelled: bool,
}

impl<'a> Reference<'a> {
    pub(super) fn begin(spec: &'a WorkflowSpec) -> Self {
        let status = spec.nodes.iter().map(|node| (node.name.clone(), NodeStatus::Waiting)).collect();
        let mut run = Self { spec, status, rounds: BTreeMap::new(), is_cancelled: false };
        run.settle();
        run
    }

    pub(super) fn ended(&mut self, name: &str, is_success: bool) {
        assert_eq!(self.status[name], NodeStatus::Active, "{name}");
        let retries = self.spec.nodes.iter().find(|node| node.name == name).unwrap().retries;
        let before = self.rounds.get(name).copied().unwrap_or(0);
        let next = if is_success {
            NodeStatus::Succeeded
        } else if before < retries && !self.stops() {
            self.rounds.insert(name.to_owned(), before + 1);
            NodeStatus::Waiting
        } else {
            NodeStatus::Failed
        };
        self.status.insert(name.to_owned(), next);
        self.settle();
    }

    pub(super) fn cancel(&mut self) {
        self.is_cancelled = true;
        self.settle();
    }

    pub(super) fn resume(&mut self) {
        self.is_cancelled = false;
        for status in self.status.values_mut() {
            if !matches!(status, NodeStatus::Succeeded | NodeStatus::Skipped) {
                *status = NodeStatus::Waiting;
            }
        }
        // Rounds go on, so that the retries of a node that used them up are not given again.
        for (name, status) in &self.status {
            if *status == NodeStatus::Waiting {
                *self.rounds.entry(name.clone()).or_default() += 1;
            }
        }
        self.settle();
    }

    pub(super) fn active(&self) -> Vec<String> {
        self.status.iter().filter(|(_, status)| **status == NodeStatus::Active).map(|(name, _)| name.clone()).collect()
    }

    pub(super) fn has_ended(&self) -> bool {
        self.status.values().all(|status| status.is_final())
    }

    fn stops(&self) -> bool {
        let failed = [NodeStatus::Failed, NodeStatus::Cancelled, NodeStatus::UpstreamFailed];
        let any_failed = self.status.values().any(|status| failed.contains(status));
        self.is_cancelled || (any_failed && self.spec.on_node_failure == OnNodeFailure::Stop)
    }

    /// Until nothing changes any more.
    fn settle(&mut self) {
        loop {
            let before = self.status.clone();
            if self.stops() {
                if self.active().is_empty() {
                    let waiting = self.status.values_mut().filter(|status| **status == NodeStatus::Waiting);
                    waiting.for_each(|status| *status = NodeStatus::NotRun);
                }
                return;
            }
            let next = self.spec.nodes.iter().find_map(|node| {
                let is_waiting = self.status[&node.name] == NodeStatus::Waiting;
                is_waiting.then(|| self.verdict(node.when, &node.needs)).flatten().map(|next| (node.name.clone(), next))
            });
            if let Some((name, next)) = next {
                self.status.insert(name, next);
            }
            if self.status == before {
                return;
            }
        }
    }

    fn verdict(&self, when: Trigger, needs: &[String]) -> Option<NodeStatus> {
        let parents: Vec<NodeStatus> = needs.iter().map(|need| self.status[need]).collect();
        let is_bad = |parent: &NodeStatus| {
            [NodeStatus::Failed, NodeStatus::Cancelled, NodeStatus::UpstreamFailed].contains(parent)
        };
        let any_good = parents.contains(&NodeStatus::Succeeded);
        let any_bad = parents.iter().any(is_bad);
        if (when == Trigger::OneFailed && any_bad) || (when == Trigger::OneSucceeded && any_good) {
            return Some(NodeStatus::Active);
        }
        if parents.iter().any(|parent| [NodeStatus::Waiting, NodeStatus::Active].contains(parent)) {
            return None;
        }
        let starts = match when {
            Trigger::AllDone => true,
            Trigger::AllSucceeded => parents.iter().all(|parent| *parent == NodeStatus::Succeeded),
            Trigger::NoneFailed => !any_bad,
            Trigger::NoneFailedOneSucceeded => any_good && !any_bad,
            Trigger::OneFailed | Trigger::OneSucceeded => false,
        };
        Some(match (starts, any_bad) {
            (true, _) => NodeStatus::Active,
            (false, true) => NodeStatus::UpstreamFailed,
            (false, false) => NodeStatus::Skipped,
        })
    }
}
