//! The workers for the jobs of one shard, as explanations need them: those that are connected to its owner, those that are
//! connected to other servers, and what the owner asks other servers for.

use punctual_core::ShardId;
use punctual_core::shard::WorkerNeeds;
use punctual_core::shard::event::WorkerSpec;
use punctual_core::task::{Run, Task, default_queue};

use crate::cluster::Place;
use crate::peers::WorkersThere;
use crate::placement::{NAMESPACE_UNSERVED, busy, can_run, lack, of_tenant};
use crate::quotas::RunningQuota;
use crate::reach::{ConnectedWorker, CutOffWorkers, divide};
use crate::{App, WorkerProgram, WorkerRequest};

#[derive(Default)]
pub(crate) struct ShardWorkers {
    /// Connected to the owner of the shard.
    pub(crate) here: Vec<WorkerSpec>,
    /// Of these, those that have a free slot for jobs of the owner.
    pub(crate) idle: Vec<WorkerSpec>,
    /// Connected to any server, and able to connect to the owner.
    pub(crate) anywhere: Vec<WorkerSpec>,
    /// Connected to other servers alone.
    pub(crate) cut_off: CutOffWorkers,
    pub(crate) requests: Vec<WorkerRequest>,
    /// Whether several namespaces share the workers.
    pub(crate) has_tenants: bool,
    /// If the running attempts of the job's namespace are limited.
    pub(crate) quota: Option<RunningQuota>,
    /// That the queue of the job is paused.
    pub(crate) paused: Option<String>,
}

impl ShardWorkers {
    /// What a due job of this task waits for.
    pub(crate) fn waits_for(&self, task: &Task, program: WorkerProgram) -> String {
        if let Some(paused) = &self.paused {
            return paused.clone();
        }
        let spec = &task.spec;
        if matches!(spec.run, Run::Workflow(_)) {
            return "its server runs as many workflows of schedules and jobs as it may, and starts it when one of them ends"
                .to_owned();
        }
        let here = of_tenant(task.namespace, &self.here);
        if here.iter().any(|worker| can_run(spec, worker)) {
            return self.waits_for_slot(task);
        }
        let anywhere = of_tenant(task.namespace, &self.anywhere);
        if !anywhere.iter().any(|worker| can_run(spec, worker))
            && let Some(cut_off) = self.cut_off.explain(task.namespace, spec)
        {
            return cut_off;
        }
        if anywhere.is_empty() && self.has_tenants {
            return NAMESPACE_UNSERVED.to_owned();
        }
        let asked = self.request(task).map(asked);
        match (lack(spec, &anywhere, program), asked) {
            (Some(lack), Some(asked)) => format!("{lack}; {asked}"),
            (Some(lack), None) => lack,
            (None, Some(asked)) => {
                format!("the server of its shard has no connection to a worker that can run it yet; {asked}")
            }
            (None, None) => "the server of its shard has no connection to a worker that can run it yet, and asks the \
                             other servers for one"
                .to_owned(),
        }
    }

    /// Why a job waits although a worker that is connected to its owner can run it.
    fn waits_for_slot(&self, task: &Task) -> String {
        let is_idle = || of_tenant(task.namespace, &self.idle).iter().any(|worker| can_run(&task.spec, worker));
        match &self.quota {
            Some(quota) if quota.is_reached() || is_idle() => quota.explain(),
            Some(_) | None => busy(),
        }
    }

    fn request(&self, task: &Task) -> Option<&WorkerRequest> {
        self.requests.iter().find(|request| is_for(&request.needs, task)).filter(|request| request.servers > 0)
    }

    /// Whether a worker must be started, or another one, for a job of this task to run.
    pub(crate) fn is_unserved(&self, task: &Task) -> bool {
        let can_run = |worker: &WorkerSpec| worker.namespaces.serves(task.namespace) && can_run(&task.spec, worker);
        let needs_worker = !matches!(task.spec.run, Run::Workflow(_));
        // A worker would not help while the queue is paused.
        needs_worker
            && task.waits_for.is_none()
            && self.paused.is_none()
            && !self.here.iter().chain(&self.anywhere).any(can_run)
    }
}

fn is_for(needs: &WorkerNeeds, task: &Task) -> bool {
    let spec = &task.spec;
    needs.namespace == task.namespace
        && needs.queue == spec.queue
        && needs.labels == spec.labels
        && needs.capability == spec.run.capability()
}

/// Such as: asked 19 servers for workers with label gpu=yes since 2026-11-18T12:00:00Z, 1 worker was told to connect
fn asked(request: &WorkerRequest) -> String {
    let WorkerRequest { needs, since, servers, invited } = request;
    let servers = if *servers == 1 { "1 server".to_owned() } else { format!("{servers} servers") };
    let mut kinds: Vec<String> = Vec::new();
    if needs.queue != default_queue() {
        kinds.push(format!("of queue {}", needs.queue));
    }
    if needs.labels.is_empty() {
        kinds.push(format!("that can run {}", needs.capability));
    } else {
        let labels: Vec<String> = needs.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        kinds.push(format!("with label {}", labels.join(",")));
    }
    let mut text = format!("asked {servers} for workers {} since {since}", kinds.join(" "));
    match invited {
        0 => {}
        1 => text += ", and 1 worker was told to connect",
        more => text += &format!(", and {more} workers were told to connect"),
    }
    text
}

impl App {
    /// The workers for the jobs of this shard.
    pub(crate) async fn workers_of(&self, shard: ShardId) -> ShardWorkers {
        let place = self.0.cluster.place(shard);
        let WorkersThere { known, requests } = self.workers_at(&place).await.unwrap_or_default();
        let (mut here, mut idle) = (Vec::new(), Vec::new());
        for (status, info) in known.into_iter().filter(|(status, _)| status.is_connected) {
            if status.running < status.credit {
                idle.push(info.spec.clone());
            }
            here.push(info.spec);
        }
        let mut all: Vec<ConnectedWorker> = self.connected_here();
        if place != Place::Nowhere
            && let Some(elsewhere) = self.workers_elsewhere().await
        {
            all.extend(elsewhere.iter().cloned());
        }
        let (mut anywhere, cut_off) = divide(all, self.0.cluster.address(&place).as_deref());
        anywhere.extend(here.iter().cloned());
        let has_tenants = self.has_tenants();
        ShardWorkers { here, idle, anywhere, cut_off, requests, has_tenants, quota: None, paused: None }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use punctual_core::namespace::{NamespaceId, ServedNamespaces};
    use punctual_core::task::{Probe, Run, TaskSpec};
    use punctual_core::{TaskId, Timestamp};

    use super::*;

    fn worker(labels: &[(&str, &str)]) -> WorkerSpec {
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        WorkerSpec {
            namespaces: ServedNamespaces::All,
            queues: vec!["default".to_owned()],
            capabilities: vec!["probe".to_owned()],
            labels,
            credit: 1,
        }
    }

    fn gpu_task() -> Task {
        let labels = BTreeMap::from([("gpu".to_owned(), "yes".to_owned())]);
        Task {
            id: TaskId::new(Timestamp::EPOCH, 1),
            namespace: NamespaceId::DEFAULT,
            name: None,
            revision: 1,
            created_at: Timestamp::EPOCH,
            updated_at: Timestamp::EPOCH,
            spec: TaskSpec { labels, ..TaskSpec::new(Run::Probe(Probe::default())) },
            waits_for: None,
            created_by: None,
            changed_by: None,
        }
    }

    fn request(invited: u32) -> WorkerRequest {
        let Task { namespace, spec, .. } = gpu_task();
        let needs = WorkerNeeds { namespace, queue: spec.queue, capability: "probe".to_owned(), labels: spec.labels };
        WorkerRequest { needs, since: Timestamp::EPOCH, servers: 19, invited }
    }

    fn check(workers: ShardWorkers, expected: &str) {
        assert_eq!(workers.waits_for(&gpu_task(), WorkerProgram::Worker), expected);
    }

    #[test]
    fn a_job_whose_owner_has_no_worker_says_who_was_asked() {
        let gpu = || worker(&[("gpu", "yes")]);
        check(
            ShardWorkers { here: vec![gpu()], anywhere: vec![gpu()], ..ShardWorkers::default() },
            "the workers that can run it are busy",
        );
        check(
            ShardWorkers {
                here: vec![worker(&[])],
                anywhere: vec![worker(&[])],
                requests: vec![request(0)],
                ..ShardWorkers::default()
            },
            "no connected worker that runs probes has gpu=yes; start one with `punctual worker --labels gpu=yes`; asked \
             19 servers for workers with label gpu=yes since 1970-01-01T00:00:00.000000Z",
        );
        check(
            ShardWorkers { here: vec![], anywhere: vec![gpu()], requests: vec![request(1)], ..ShardWorkers::default() },
            "the server of its shard has no connection to a worker that can run it yet; asked 19 servers for workers with \
             label gpu=yes since 1970-01-01T00:00:00.000000Z, and 1 worker was told to connect",
        );
        check(
            ShardWorkers { anywhere: vec![gpu()], ..ShardWorkers::default() },
            "the server of its shard has no connection to a worker that can run it yet, and asks the other servers for one",
        );
    }

    #[test]
    fn a_job_that_a_worker_could_run_says_that_its_namespace_runs_as_much_as_it_may() {
        let gpu = || vec![worker(&[("gpu", "yes")])];
        let quota = |running| Some(RunningQuota { namespace: "team-a".to_owned(), running, quota: 20 });
        let reached = "namespace team-a runs 20 of 20 attempts (quota running_attempts)";
        check(ShardWorkers { here: gpu(), anywhere: gpu(), quota: quota(20), ..ShardWorkers::default() }, reached);
        let idle = ShardWorkers { here: gpu(), idle: gpu(), ..ShardWorkers::default() };
        check(
            ShardWorkers { quota: quota(0), ..idle },
            "namespace team-a runs 0 of 20 attempts (quota running_attempts), and its share of this quota is being assigned to the server that owns the job",
        );
        check(
            ShardWorkers { here: gpu(), quota: quota(0), ..ShardWorkers::default() },
            "the workers that can run it are busy",
        );
        // Without a worker, more places would not help.
        check(ShardWorkers { quota: quota(20), has_tenants: true, ..ShardWorkers::default() }, NAMESPACE_UNSERVED);
    }

    #[test]
    fn a_job_whose_only_worker_cannot_connect_to_its_owner_is_unserved_and_says_why() {
        let there = |has_certificate| {
            let (spec, server) = (worker(&[("gpu", "yes")]), "https://host1.example:8020".to_owned());
            let all = [ConnectedWorker { name: "w1".to_owned(), spec, has_certificate, server }];
            let (anywhere, cut_off) = divide(all, Some("https://host2.example:8020"));
            ShardWorkers { anywhere, cut_off, requests: vec![request(1)], ..ShardWorkers::default() }
        };
        let told = there(false).waits_for(&gpu_task(), WorkerProgram::Worker);
        assert!(
            told.starts_with("worker w1 could run it, but is connected to https://host1.example:8020 alone"),
            "{told}"
        );
        assert!(there(false).is_unserved(&gpu_task()));
        assert!(!there(true).is_unserved(&gpu_task()));
    }

    #[test]
    fn a_job_of_a_paused_queue_says_so_before_anything_else() {
        let paused = "queue default is paused since 2026-11-19T12:00:00.000000Z by user:ana: the provider is down";
        check(ShardWorkers { paused: Some(paused.to_owned()), ..ShardWorkers::default() }, paused);
    }

    #[test]
    fn a_job_of_a_namespace_that_no_worker_serves_says_so() {
        let theirs = WorkerSpec { namespaces: ServedNamespaces::Only([NamespaceId(2)].into()), ..worker(&[]) };
        let anywhere = vec![theirs];
        check(ShardWorkers { anywhere, has_tenants: true, ..ShardWorkers::default() }, NAMESPACE_UNSERVED);
        check(ShardWorkers { has_tenants: true, ..ShardWorkers::default() }, NAMESPACE_UNSERVED);
    }
}
