//! Which workers can connect to the server that owns a job.
//!
//! A server lets workers without a certificate in on its own machine only. One that a server on another machine has let in can
//! run the job, and yet never will.

use punctual_core::host;
use punctual_core::namespace::NamespaceId;
use punctual_core::shard::event::WorkerSpec;
use punctual_core::task::TaskSpec;
use punctual_engine::WorkerInfo;

use crate::placement::can_run;

/// A worker that is connected to some server.
#[derive(Debug, Clone)]
pub(crate) struct ConnectedWorker {
    pub(crate) name: String,
    pub(crate) spec: WorkerSpec,
    pub(crate) has_certificate: bool,
    /// The address of the server.
    pub(crate) server: String,
}

impl ConnectedWorker {
    pub(crate) fn new(info: WorkerInfo, server: &str) -> Self {
        let WorkerInfo { name, spec, has_certificate, .. } = info;
        Self { name, spec, has_certificate, server: server.to_owned() }
    }
}

/// Whether the address is reached from its own machine only.
pub(crate) fn is_loopback(address: &str) -> bool {
    let Some((_, rest)) = address.split_once("://") else { return false };
    let authority = rest.split('/').next().unwrap_or(rest);
    let has_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    let name = match authority.rsplit_once(':') {
        Some((name, port)) if has_port(port) => name,
        Some(_) | None => authority,
    };
    host::is_loopback(name)
}

/// Workers that cannot connect to the owner of a job.
#[derive(Debug, Clone, Default)]
pub(crate) struct CutOffWorkers {
    /// The address of the owner.
    owner: String,
    workers: Vec<ConnectedWorker>,
}

/// Divides connected workers into those that are connected to the owner or can connect to it, and the others.
pub(crate) fn divide(
    workers: impl IntoIterator<Item = ConnectedWorker>,
    owner: Option<&str>,
) -> (Vec<WorkerSpec>, CutOffWorkers) {
    // If nobody knows who owns the shard, the next owner may be any server.
    let Some(owner) = owner.filter(|owner| !is_loopback(owner)) else {
        return (workers.into_iter().map(|worker| worker.spec).collect(), CutOffWorkers::default());
    };
    let (can, cannot): (Vec<_>, Vec<_>) =
        workers.into_iter().partition(|worker| worker.has_certificate || worker.server == owner);
    let cut_off = CutOffWorkers { owner: owner.to_owned(), workers: cannot };
    (can.into_iter().map(|worker| worker.spec).collect(), cut_off)
}

impl CutOffWorkers {
    /// That the only workers which could run the task cannot connect to the owner, and what to do. `None` if there are none.
    pub(crate) fn explain(&self, namespace: NamespaceId, spec: &TaskSpec) -> Option<String> {
        let fits = |worker: &&ConnectedWorker| worker.spec.namespaces.serves(namespace) && can_run(spec, &worker.spec);
        let mut fitting: Vec<&ConnectedWorker> = self.workers.iter().filter(fits).collect();
        fitting.sort_unstable_by_key(|worker| (&worker.name, &worker.server));
        let ConnectedWorker { name, server, .. } = fitting.first()?;
        let owner = &self.owner;
        let who = match fitting.len() {
            1 => format!("worker {name} could run it, but is connected to {server} alone and has"),
            more => format!("{more} workers could run it, such as {name} at {server}, but have"),
        };
        Some(format!(
            "{who} no certificate, without which {owner}, the server that owns the job, lets no worker of another machine in; \
             make a token with `punctual worker token create`, and start the worker with `punctual worker --join FILE`"
        ))
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::namespace::ServedNamespaces;
    use punctual_core::task::{Probe, Run};

    use super::*;

    const OWNER: &str = "https://host2.example:8020";

    fn worker(name: &str, queue: &str, server: &str, has_certificate: bool) -> ConnectedWorker {
        let spec = WorkerSpec {
            namespaces: ServedNamespaces::All,
            queues: vec![queue.to_owned()],
            capabilities: vec!["probe".to_owned()],
            labels: Default::default(),
            credit: 1,
        };
        ConnectedWorker { name: name.to_owned(), spec, has_certificate, server: server.to_owned() }
    }

    #[test]
    fn a_worker_without_a_certificate_cannot_reach_an_owner_on_another_machine() {
        let spec = TaskSpec { queue: "lq".to_owned(), ..TaskSpec::new(Run::Probe(Probe::default())) };
        let local = || worker("w1", "lq", "https://host1.example:8020", false);
        let divided = |worker: ConnectedWorker, owner: Option<&str>| {
            let (can, cut_off) = divide([worker], owner);
            (can.len(), cut_off.explain(NamespaceId::DEFAULT, &spec))
        };
        let (can, told) = divided(local(), Some(OWNER));
        assert_eq!(can, 0);
        assert_eq!(
            told.as_deref(),
            Some(
                "worker w1 could run it, but is connected to https://host1.example:8020 alone and has no certificate, without \
                 which https://host2.example:8020, the server that owns the job, lets no worker of another machine in; make a \
                 token with `punctual worker token create`, and start the worker with `punctual worker --join FILE`"
            )
        );
        assert_eq!(divided(worker("w1", "other", "https://host1.example:8020", false), Some(OWNER)), (0, None));
        for (worker, owner) in [
            (ConnectedWorker { has_certificate: true, ..local() }, Some(OWNER)),
            (ConnectedWorker { server: OWNER.to_owned(), ..local() }, Some(OWNER)),
            (local(), Some("http://127.0.0.1:8021")),
            (local(), Some("https://[::1]:8021")),
            (local(), None),
        ] {
            assert_eq!(divided(worker, owner), (1, None));
        }
    }

    #[test]
    fn several_workers_without_a_certificate_are_counted() {
        let spec = TaskSpec { queue: "lq".to_owned(), ..TaskSpec::new(Run::Probe(Probe::default())) };
        let workers = ["w2", "w1"].map(|name| worker(name, "lq", "https://host1.example:8020", false));
        let told = divide(workers, Some(OWNER)).1.explain(NamespaceId::DEFAULT, &spec).unwrap();
        assert!(
            told.starts_with("2 workers could run it, such as w1 at https://host1.example:8020, but have no cert"),
            "{told}"
        );
    }
}
