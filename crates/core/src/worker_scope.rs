//! What an enrolled worker may do. An administrator says so when the worker is invited; what the worker says of itself can
//! only narrow it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::shard::event::WorkerSpec;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerScope {
    pub namespace: String,
    pub queues: Vec<String>,
    pub labels: BTreeMap<String, String>,
    /// Kinds of tasks, such as `binary`. `handler` is every handler, and `handler:resize` that one.
    pub kinds: Vec<String>,
}

/// What the worker asked for and may not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutOfScope {
    /// None of its queues.
    Queues,
    /// Nothing of what it can execute.
    Kinds,
}

impl WorkerScope {
    /// What a worker may do that can do `offered`. One that names no queue serves all that it may. Its labels are those of
    /// the scope: a label is a promise about the worker that jobs are sent by.
    pub fn narrow(&self, offered: WorkerSpec) -> Result<WorkerSpec, OutOfScope> {
        let WorkerSpec { queues, capabilities, labels: _, credit } = offered;
        let queues = match queues.is_empty() {
            true => self.queues.clone(),
            false => queues.into_iter().filter(|queue| self.queues.contains(queue)).collect(),
        };
        if queues.is_empty() {
            return Err(OutOfScope::Queues);
        }
        let capabilities: Vec<String> = capabilities.into_iter().filter(|offered| self.permits(offered)).collect();
        if capabilities.is_empty() {
            return Err(OutOfScope::Kinds);
        }
        Ok(WorkerSpec { queues, capabilities, labels: self.labels.clone(), credit })
    }

    /// Whether the worker may execute what needs this capability.
    pub fn permits(&self, capability: &str) -> bool {
        let kind = capability.split_once(':').map_or(capability, |(kind, _)| kind);
        self.kinds.iter().any(|permitted| permitted == capability || permitted == kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    fn scope() -> WorkerScope {
        WorkerScope {
            namespace: "default".to_owned(),
            queues: texts(&["a", "b"]),
            labels: BTreeMap::from([("gpu".to_owned(), "true".to_owned())]),
            kinds: texts(&["binary", "handler:resize"]),
        }
    }

    fn offered(queues: &[&str], capabilities: &[&str]) -> WorkerSpec {
        let labels = BTreeMap::from([("gpu".to_owned(), "false".to_owned()), ("vault".to_owned(), "true".to_owned())]);
        WorkerSpec { queues: texts(queues), capabilities: texts(capabilities), labels, credit: 7 }
    }

    #[test]
    fn a_worker_gets_no_more_than_its_scope() {
        let narrowed = scope().narrow(offered(&["c", "b"], &["command", "binary", "handler:pay", "handler:resize"]));
        let narrowed = narrowed.unwrap();
        assert_eq!(narrowed.queues, ["b"]);
        assert_eq!(narrowed.capabilities, ["binary", "handler:resize"]);
        assert_eq!(narrowed.labels, scope().labels, "also the value of a label is the administrator's");
        assert_eq!(narrowed.credit, 7);
        assert_eq!(scope().narrow(offered(&[], &["binary"])).unwrap().queues, ["a", "b"]);
    }

    #[test]
    fn a_worker_that_offers_nothing_of_its_scope_is_refused() {
        assert_eq!(scope().narrow(offered(&["c"], &["binary"])), Err(OutOfScope::Queues));
        assert_eq!(scope().narrow(offered(&["a"], &["command"])), Err(OutOfScope::Kinds));
        assert_eq!(scope().narrow(offered(&["a"], &[])), Err(OutOfScope::Kinds));
    }

    #[test]
    fn a_kind_permits_all_of_its_kind_and_a_name_only_itself() {
        let handlers = WorkerScope { kinds: texts(&["handler"]), ..scope() };
        assert!(handlers.permits("handler:pay") && !handlers.permits("handlers:pay") && !handlers.permits("binary"));
        assert!(scope().permits("handler:resize") && !scope().permits("handler") && !scope().permits("handler:re"));
    }
}
