//! What an enrolled worker may do. An administrator says so when the worker is invited; what the worker says of itself can
//! only narrow it.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Deserializer, Serialize};

use crate::namespace::ServedNamespaces;
use crate::shard::event::WorkerSpec;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerScope {
    /// The names of the namespaces whose jobs it may run. Versions that knew one namespace wrote it as `namespace`.
    #[serde(alias = "namespace", deserialize_with = "one_or_many")]
    pub namespaces: Vec<String>,
    pub queues: Vec<String>,
    pub labels: BTreeMap<String, String>,
    /// Kinds of tasks, such as `binary`. `handler` is every handler, and `handler:resize` that one.
    pub kinds: Vec<String>,
}

/// What the worker asked for and may not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutOfScope {
    /// None of its namespaces.
    Namespaces,
    /// None of its queues.
    Queues,
    /// Nothing of what it can execute.
    Kinds,
}

impl WorkerScope {
    /// What a worker may do that can do `offered`. One that names no queue serves all that it may. Its labels are those of
    /// the scope: a label is a promise about the worker that jobs are sent by. `permitted` are the namespaces of the scope
    /// that there are.
    pub fn narrow(&self, offered: WorkerSpec, permitted: ServedNamespaces) -> Result<WorkerSpec, OutOfScope> {
        let WorkerSpec { namespaces, queues, capabilities, labels: _, credit } = offered;
        let namespaces = namespaces.and(permitted);
        if namespaces == ServedNamespaces::Only(BTreeSet::new()) {
            return Err(OutOfScope::Namespaces);
        }
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
        Ok(WorkerSpec { namespaces, queues, capabilities, labels: self.labels.clone(), credit })
    }

    /// Whether the worker may execute what needs this capability.
    pub fn permits(&self, capability: &str) -> bool {
        let kind = capability.split_once(':').map_or(capability, |(kind, _)| kind);
        self.kinds.iter().any(|permitted| permitted == capability || permitted == kind)
    }
}

fn one_or_many<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        One(String),
        Many(Vec<String>),
    }
    Ok(match Written::deserialize(from)? {
        Written::One(name) => vec![name],
        Written::Many(names) => names,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::NamespaceId;

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    fn scope() -> WorkerScope {
        WorkerScope {
            namespaces: texts(&["default"]),
            queues: texts(&["a", "b"]),
            labels: BTreeMap::from([("gpu".to_owned(), "true".to_owned())]),
            kinds: texts(&["binary", "handler:resize"]),
        }
    }

    fn offered(queues: &[&str], capabilities: &[&str]) -> WorkerSpec {
        let labels = BTreeMap::from([("gpu".to_owned(), "false".to_owned()), ("vault".to_owned(), "true".to_owned())]);
        let namespaces = ServedNamespaces::All;
        WorkerSpec { namespaces, queues: texts(queues), capabilities: texts(capabilities), labels, credit: 7 }
    }

    fn permitted() -> ServedNamespaces {
        ServedNamespaces::Only([NamespaceId::DEFAULT].into())
    }

    #[test]
    fn a_scope_that_knew_one_namespace_is_read() {
        let old =
            r#"{"namespace":"default","queues":["a","b"],"labels":{"gpu":"true"},"kinds":["binary","handler:resize"]}"#;
        assert_eq!(serde_json::from_str::<WorkerScope>(old).unwrap(), scope());
        let written = serde_json::to_string(&scope()).unwrap();
        assert!(written.contains(r#""namespaces":["default"]"#), "{written}");
        assert_eq!(serde_json::from_str::<WorkerScope>(&written).unwrap(), scope());
    }

    #[test]
    fn a_worker_whose_namespaces_are_gone_is_refused() {
        let none = ServedNamespaces::Only(BTreeSet::new());
        assert_eq!(scope().narrow(offered(&["a"], &["binary"]), none), Err(OutOfScope::Namespaces));
    }

    #[test]
    fn a_worker_gets_no_more_than_its_scope() {
        let narrowed =
            scope().narrow(offered(&["c", "b"], &["command", "binary", "handler:pay", "handler:resize"]), permitted());
        let narrowed = narrowed.unwrap();
        assert_eq!(narrowed.queues, ["b"]);
        assert_eq!(narrowed.namespaces, permitted());
        assert_eq!(narrowed.capabilities, ["binary", "handler:resize"]);
        assert_eq!(narrowed.labels, scope().labels, "also the value of a label is the administrator's");
        assert_eq!(narrowed.credit, 7);
        assert_eq!(scope().narrow(offered(&[], &["binary"]), permitted()).unwrap().queues, ["a", "b"]);
    }

    #[test]
    fn a_worker_that_offers_nothing_of_its_scope_is_refused() {
        assert_eq!(scope().narrow(offered(&["c"], &["binary"]), permitted()), Err(OutOfScope::Queues));
        assert_eq!(scope().narrow(offered(&["a"], &["command"]), permitted()), Err(OutOfScope::Kinds));
        assert_eq!(scope().narrow(offered(&["a"], &[]), permitted()), Err(OutOfScope::Kinds));
    }

    #[test]
    fn a_kind_permits_all_of_its_kind_and_a_name_only_itself() {
        let handlers = WorkerScope { kinds: texts(&["handler"]), ..scope() };
        assert!(handlers.permits("handler:pay") && !handlers.permits("handlers:pay") && !handlers.permits("binary"));
        assert!(scope().permits("handler:resize") && !scope().permits("handler") && !scope().permits("handler:re"));
    }
}
