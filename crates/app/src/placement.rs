//! Whether some connected worker can run a task: one answer, in the same words, for submissions, lists, explanations and
//! notification rules. Does not decide where a job runs; see core::shard::ready.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use futures_util::future::join_all;
use punctual_api::Warning;
use punctual_core::run::{Binary, Network};
use punctual_core::shard::event::WorkerSpec;
use punctual_core::task::{Run, Task, TaskSpec, default_queue};
use punctual_core::{NamespaceId, ShardId, TaskId};
use punctual_engine::WorkerInfo;
use punctual_store::HotJob;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::cluster::Place;
use crate::peers::WorkersThere;
use crate::reach::{ConnectedWorker, divide, is_loopback};
use crate::secrets::plain_credentials;
use crate::shard_workers::ShardWorkers;
use crate::{App, WorkerProgram, explain};

/// What other servers said of their workers is believed for this long.
const BELIEVED: Duration = Duration::from_secs(1);
/// Tasks of one request that are looked at.
const TASKS_MAX: usize = 100;
/// Reasons that one answer gives.
const WARNINGS_MAX: usize = 10;
/// Tasks whose workers were looked for and are remembered. Beyond it the memory starts anew.
const FOUND_MAX: usize = 1024;

/// The connected workers of the other servers; `None` if not all of them answered.
pub(crate) type Answer = Option<Arc<[ConnectedWorker]>>;

/// What the other servers said of their workers a moment ago.
#[derive(Default)]
pub(crate) struct Seen {
    latest: RwLock<Option<(Instant, Answer)>>,
    /// Held by whoever asks them.
    asking: Mutex<()>,
    /// By task and revision, with the number of connection changes of this server. Each submission asks, and most are of
    /// few tasks.
    found: RwLock<HashMap<(TaskId, u32), (u64, Found)>>,
}

/// What was found when workers for a task were looked for.
struct Found {
    /// The workers of the other servers. `None`: a worker of this server can run the task.
    elsewhere: Option<Arc<[ConnectedWorker]>>,
    lack: Option<String>,
}

impl Seen {
    /// `None` if it is too old to be believed.
    fn latest(&self) -> Option<Answer> {
        let latest = self.latest.read().unwrap_or_else(PoisonError::into_inner);
        latest.as_ref().filter(|(at, _)| at.elapsed() <= BELIEVED).map(|(_, answer)| answer.clone())
    }

    /// What is known of a task. `None`: other workers are connected by now.
    fn found(&self, task: &Task, changes: u64) -> Option<Option<String>> {
        let all = self.found.read().unwrap_or_else(PoisonError::into_inner);
        let (_, found) = all.get(&(task.id, task.revision)).filter(|(then, _)| *then == changes)?;
        let is_current = match &found.elsewhere {
            None => true,
            Some(then) => matches!(self.latest(), Some(Some(now)) if Arc::ptr_eq(then, &now)),
        };
        is_current.then(|| found.lack.clone())
    }

    fn remember(&self, task: &Task, changes: u64, found: Found) {
        let mut all = self.found.write().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= FOUND_MAX {
            all.clear();
        }
        all.insert((task.id, task.revision), (changes, found));
    }

    fn put(&self, answer: Answer) {
        *self.latest.write().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), answer));
    }
}

/// The workers that a tenant knows of: those that serve its namespace.
pub(crate) fn of_tenant(namespace: NamespaceId, workers: &[WorkerSpec]) -> Vec<WorkerSpec> {
    workers.iter().filter(|worker| worker.namespaces.serves(namespace)).cloned().collect()
}

/// Why a job waits if several namespaces share the workers and none serves its own. Tells nothing of the workers of others.
pub(crate) const NAMESPACE_UNSERVED: &str = "no connected worker serves its namespace; an administrator lets one serve it with a \
                                             token of `punctual worker token create --namespace NAME`, or starts `punctual \
                                             worker` on a server's machine";

pub(crate) fn can_run(spec: &TaskSpec, worker: &WorkerSpec) -> bool {
    serves(spec, worker) && worker.capabilities.contains(&spec.run.capability()) && carries(spec, worker)
}

fn serves(spec: &TaskSpec, worker: &WorkerSpec) -> bool {
    worker.queues.contains(&spec.queue)
}

fn carries(spec: &TaskSpec, worker: &WorkerSpec) -> bool {
    spec.labels.iter().all(|(key, value)| worker.labels.get(key) == Some(value))
}

/// What no connected worker has that the task needs, and how to start one that does; `None` if some can run it.
pub(crate) fn lack(spec: &TaskSpec, workers: &[WorkerSpec], program: WorkerProgram) -> Option<String> {
    // Servers start the runs of workflows.
    if matches!(spec.run, Run::Workflow(_)) || workers.iter().any(|worker| can_run(spec, worker)) {
        return None;
    }
    let capability = spec.run.capability();
    let in_queue = || workers.iter().filter(|worker| serves(spec, worker));
    let of_queue = if spec.queue == default_queue() { String::new() } else { format!(" of queue {}", spec.queue) };
    Some(if workers.is_empty() {
        format!("no worker is connected; {}", start(spec, program))
    } else if in_queue().next().is_none() {
        format!("no connected worker serves queue {}; {}", spec.queue, start(spec, program))
    } else if in_queue().any(|worker| worker.capabilities.contains(&capability)) {
        format!("no connected worker{of_queue} that {} has {}; {}", does(&spec.run), labels(spec), start(spec, program))
    } else {
        format!("no connected worker{of_queue} {}; {}", does(&spec.run), start(spec, program))
    })
}

pub(crate) fn busy() -> String {
    "the workers that can run it are busy".to_owned()
}

/// What a job waits for, given what its task waits for: that workers could not start it says more than that they are busy.
pub(crate) fn job_waits_for(job: &HotJob, of_task: Option<String>) -> Option<String> {
    match of_task {
        Some(lack) if lack != busy() => Some(lack),
        busy => explain::could_not_start(job).or(busy),
    }
}

fn does(run: &Run) -> String {
    match run {
        Run::Binary(Binary { network: Network::Host, .. }) => "gives programs a network".to_owned(),
        Run::Binary(_) => "runs programs".to_owned(),
        Run::Http(_) => "sends HTTP requests".to_owned(),
        Run::Email(_) => "sends mail".to_owned(),
        Run::Slack(_) => "posts to Slack".to_owned(),
        Run::Telegram(_) => "sends Telegram messages".to_owned(),
        Run::Probe(_) => "runs probes".to_owned(),
        Run::Handler(handler) => format!("has the handler {}", handler.name),
        Run::Command(_) => "runs commands".to_owned(),
        Run::Workflow(_) => "runs workflows".to_owned(),
    }
}

/// How to start a worker that can run it.
fn start(spec: &TaskSpec, program: WorkerProgram) -> String {
    let mut flags = String::new();
    match &spec.run {
        Run::Command(_) => flags += " --allow-commands",
        Run::Binary(Binary { network: Network::Host, .. }) => flags += " --allow-network",
        _ => {}
    }
    if spec.queue != default_queue() {
        // What is named replaces what `dev` serves, and its jobs of the default queue would wait then.
        let beside = if program == WorkerProgram::Dev { "default," } else { "" };
        flags += &format!(" --queues {beside}{}", spec.queue);
    }
    if !spec.labels.is_empty() {
        flags += &format!(" --labels {}", labels(spec));
    }
    let (start_one, start) = match program {
        WorkerProgram::Worker => ("start one with `punctual worker", "start `punctual worker"),
        WorkerProgram::Dev => ("restart the server with `punctual dev", "restart `punctual dev"),
    };
    match &spec.run {
        Run::Handler(handler) => {
            format!("start a worker of your own that has the handler {}{}", handler.name, with_flags(spec))
        }
        Run::Email(_) => format!("set smtp_url and smtp_from and {start}{flags}`; see docs/email.md"),
        Run::Telegram(_) => format!("set telegram_bots and {start}{flags}`; see docs/http.md"),
        Run::Binary(_) | Run::Http(_) | Run::Slack(_) | Run::Probe(_) | Run::Command(_) | Run::Workflow(_) => {
            format!("{start_one}{flags}`")
        }
    }
}

/// What a worker in code of the user's own has to say of itself.
fn with_flags(spec: &TaskSpec) -> String {
    let queue = (spec.queue != default_queue()).then(|| format!("queue {}", spec.queue));
    let labels = (!spec.labels.is_empty()).then(|| labels(spec));
    let parts: Vec<String> = queue.into_iter().chain(labels).collect();
    if parts.is_empty() { String::new() } else { format!(", with {}", parts.join(" and ")) }
}

fn labels(spec: &TaskSpec) -> String {
    spec.labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
}

impl App {
    /// What no worker of the cluster has that the task needs. `None` if one can run it, or if not all servers answered.
    pub(crate) async fn lack_of(&self, namespace: NamespaceId, spec: &TaskSpec) -> Option<String> {
        self.look_for_workers(&self.place_for_new_jobs(), namespace, spec).await?.lack
    }

    /// The same for a stored task, from memory as long as the same workers are connected.
    async fn lack_of_task(&self, task: &Task) -> Option<String> {
        let changes = self.0.engine.connection_changes();
        if let Some(lack) = self.0.workers_seen.found(task, changes) {
            return lack;
        }
        let found = self.look_for_workers(&self.place_for_new_jobs(), task.namespace, &task.spec).await?;
        let lack = found.lack.clone();
        self.0.workers_seen.remember(task, changes, found);
        lack
    }

    /// Jobs are submitted to shards of this server, if it owns any.
    fn place_for_new_jobs(&self) -> Place {
        if self.0.cluster.owned_here().is_empty() { Place::Nowhere } else { Place::Here }
    }

    /// For jobs that are decided about at this place. `None` if not all servers answered.
    async fn look_for_workers(&self, place: &Place, namespace: NamespaceId, spec: &TaskSpec) -> Option<Found> {
        // From memory: nearly always some worker here can.
        let owner = self.0.cluster.address(place);
        let lets_all_in = *place == Place::Here || owner.as_deref().is_none_or(is_loopback);
        if self.0.engine.any_connected(|worker| {
            let WorkerInfo { spec: offered, has_certificate, .. } = worker;
            (lets_all_in || *has_certificate) && offered.namespaces.serves(namespace) && can_run(spec, offered)
        }) {
            return Some(Found { elsewhere: None, lack: None });
        }
        let elsewhere = self.workers_elsewhere().await?;
        // Those of this server again: one may have connected meanwhile.
        let mut workers = self.connected_here();
        workers.extend(elsewhere.iter().cloned());
        let (workers, cut_off) = divide(workers, owner.as_deref());
        let of_tenant = of_tenant(namespace, &workers);
        let cut_off = || cut_off.explain(namespace, spec);
        let lack = if !of_tenant.iter().any(|worker| can_run(spec, worker))
            && let Some(cut_off) = cut_off()
        {
            Some(cut_off)
        } else if of_tenant.is_empty() && self.has_tenants() {
            Some(NAMESPACE_UNSERVED.to_owned())
        } else {
            lack(spec, &of_tenant, self.0.settings.worker_program)
        };
        Some(Found { elsewhere: Some(elsewhere), lack })
    }

    /// Whether several namespaces share workers that may serve some of them. The worker of `punctual dev` serves all.
    pub(crate) fn has_tenants(&self) -> bool {
        self.0.settings.worker_program == WorkerProgram::Worker
            && self.0.namespaces.revision().is_some()
            && !self.0.namespaces.is_single()
    }

    /// The workers that are connected to this server.
    pub(crate) fn connected_here(&self) -> Vec<ConnectedWorker> {
        let address = self.0.cluster.address(&Place::Here).unwrap_or_default();
        let infos = self.0.engine.connected_infos().into_iter();
        infos.map(|info| ConnectedWorker::new(info, &address)).collect()
    }

    /// The workers that are connected to other servers, as of a moment ago; `None` if not all servers answered.
    pub(crate) async fn workers_elsewhere(&self) -> Answer {
        match self.0.workers_seen.latest() {
            Some(seen) => seen,
            None => Box::pin(self.ask_elsewhere()).await,
        }
    }

    async fn ask_elsewhere(&self) -> Answer {
        let seen = &self.0.workers_seen;
        let _asking = seen.asking.lock().await;
        // Whoever waited for the same question has its answer.
        if let Some(workers) = seen.latest() {
            return workers;
        }
        let places = self.0.cluster.schedulers();
        let others = places.iter().filter(|place| **place != Place::Here);
        let answers = join_all(others.map(async |place| Some((place, self.workers_at(place).await?)))).await;
        let answers: Option<Vec<_>> = answers.into_iter().collect();
        let workers = answers.map(|answers| {
            let of_place = |(place, there): (&Place, WorkersThere)| {
                let address = self.0.cluster.address(place).unwrap_or_default();
                let connected = there.known.into_iter().filter(|(status, _)| status.is_connected);
                connected.map(move |(_, info)| ConnectedWorker::new(info, &address))
            };
            answers.into_iter().flat_map(of_place).collect()
        });
        seen.put(workers.clone());
        workers
    }

    /// Why jobs of these tasks would wait if they were due now, and what else should be done about those that were defined
    /// inline, each reason once.
    pub(crate) async fn placement_warnings<'a>(&self, tasks: impl Iterator<Item = &'a Arc<Task>>) -> Vec<Warning> {
        let mut distinct: Vec<&Arc<Task>> = Vec::new();
        for task in tasks.filter(|task| task.waits_for.is_none()) {
            if distinct.len() == TASKS_MAX {
                break;
            }
            // Nearly always the last one: the jobs of a request are of few tasks.
            if !distinct.iter().rev().any(|known| known.id == task.id) {
                distinct.push(task);
            }
        }
        distinct.sort_unstable_by_key(|task| task.id);
        let mut warnings: Vec<Warning> = Vec::new();
        for task in distinct {
            // A task with a name warns where it is defined.
            let credentials = if task.name.is_none() { plain_credentials(&task.spec) } else { Vec::new() };
            for warning in self.lack_of_task(task).await.map(no_worker).into_iter().chain(credentials) {
                if !warnings.contains(&warning) && warnings.len() < WARNINGS_MAX {
                    warnings.push(warning);
                }
            }
        }
        warnings
    }

    /// What each of these tasks' due jobs wait for, by their shards.
    pub(crate) async fn waiting_reasons<'a>(
        &self,
        tasks: impl Iterator<Item = (ShardId, &'a Arc<Task>)>,
    ) -> BTreeMap<(TaskId, ShardId), String> {
        let mut reasons = BTreeMap::new();
        // Jobs of a task wait for the same in all shards of one server.
        let mut known: BTreeMap<(TaskId, Option<String>), String> = BTreeMap::new();
        for (shard, task) in tasks {
            let key = (task.id, shard);
            if reasons.contains_key(&key) {
                continue;
            }
            let owner = self.0.cluster.address(&self.0.cluster.place(shard));
            let reason = match known.entry((task.id, owner)) {
                Entry::Occupied(known) => known.get().clone(),
                Entry::Vacant(unknown) => unknown.insert(self.waiting_reason(shard, task).await).clone(),
            };
            reasons.insert(key, reason);
        }
        reasons
    }

    async fn waiting_reason(&self, shard: ShardId, task: &Task) -> String {
        match (self.queue_paused(task), task.waits_for) {
            (Some(paused), _) => return paused,
            (None, Some(artifact)) => return format!("waits for {artifact} to arrive"),
            (None, None) => {}
        }
        let place = self.0.cluster.place(shard);
        let found = self.look_for_workers(&place, task.namespace, &task.spec).await;
        if let Some(lack) = found.and_then(|found| found.lack) {
            return lack;
        }
        // If that cannot be read now, it says less.
        match self.running_quota(task.namespace).await.ok().flatten() {
            Some(quota) if quota.is_reached() => quota.explain(),
            Some(quota) => {
                let workers = ShardWorkers { quota: Some(quota), ..self.workers_of(shard).await };
                workers.waits_for(task, self.0.settings.worker_program)
            }
            None => busy(),
        }
    }
}

pub(crate) fn no_worker(detail: String) -> Warning {
    Warning { code: Warning::NO_WORKER.to_owned(), detail }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_core::give_backs::{GiveBacks, TakenBack};
    use punctual_core::id::ArtifactId;
    use punctual_core::namespace::ServedNamespaces;
    use punctual_core::run::Command;
    use punctual_core::task::{Handler, Priority};
    use punctual_core::{Counters, JobId, JobKey, Timestamp};

    fn worker(queue: &str, capability: &str, labels: &[(&str, &str)]) -> WorkerSpec {
        WorkerSpec {
            namespaces: punctual_core::namespace::ServedNamespaces::All,
            queues: vec![queue.to_owned()],
            capabilities: vec![capability.to_owned()],
            labels: labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
            credit: 1,
        }
    }

    #[test]
    fn a_tenant_knows_only_the_workers_that_serve_it() {
        let all = worker("default", "probe", &[]);
        let theirs = WorkerSpec { namespaces: ServedNamespaces::Only([NamespaceId(2)].into()), ..all.clone() };
        let workers = [theirs.clone(), all.clone()];
        assert_eq!(of_tenant(NamespaceId(1), &workers), std::slice::from_ref(&all));
        assert_eq!(of_tenant(NamespaceId(2), &workers), [theirs, all]);
    }

    #[test]
    fn a_job_that_workers_could_not_start_says_so_unless_they_lack_something() {
        let due_at = Timestamp::EPOCH;
        let reason = "cannot fetch the program: the storage answered 404";
        let mut job = HotJob {
            key: JobKey { due_at, id: JobId::new(due_at, ShardId(0), 1) },
            namespace: NamespaceId::DEFAULT,
            task: TaskId::new(due_at, 1),
            priority: Priority::default(),
            counters: Counters::NEW,
            submitted_at: due_at,
            tracing_id: None,
            source: None,
            give_backs: None,
            cancel_requested: false,
        };
        let lack = "no worker is connected".to_owned();
        assert_eq!(job_waits_for(&job, Some(busy())), Some(busy()));
        assert_eq!(job_waits_for(&job, None), None);
        job.give_backs = Some(Box::new(GiveBacks::after(None, TakenBack::GivenBack, due_at, reason)));
        let told = format!("workers could not start it, last because: {reason}");
        assert_eq!(job_waits_for(&job, None).as_deref(), Some(&*told));
        assert_eq!(job_waits_for(&job, Some(busy())).as_deref(), Some(&*told));
        assert_eq!(job_waits_for(&job, Some(lack.clone())), Some(lack));
    }

    #[test]
    fn what_is_lacking_is_named_with_the_next_step() {
        let mut handler = TaskSpec::new(Run::Handler(Handler { name: "resize".to_owned() }));
        handler.labels.insert("gpu".to_owned(), "yes".to_owned());
        let mut command = TaskSpec::new(Run::Command(Command::new("date")));
        let artifact = ArtifactId::new(Timestamp::EPOCH, 1);
        let networked = serde_json::json!({ "binary": { "artifact": artifact.to_string(), "network": "host" } });
        let networked = TaskSpec::new(serde_json::from_value(networked).unwrap());
        let email = TaskSpec::new(serde_json::from_str(r#"{"email":{"to":["a@b.org"],"subject":"x"}}"#).unwrap());
        let probe =
            TaskSpec { queue: "slow".to_owned(), ..TaskSpec::new(serde_json::from_str(r#"{"probe":{}}"#).unwrap()) };
        let http = || worker("default", "http", &[]);
        for (spec, workers, expected) in [
            (&command, vec![], "no worker is connected; start one with `punctual worker --allow-commands`"),
            (
                &command,
                vec![http()],
                "no connected worker runs commands; start one with `punctual worker --allow-commands`",
            ),
            (
                &networked,
                vec![worker("default", "binary", &[])],
                "no connected worker gives programs a network; start one with `punctual worker --allow-network`",
            ),
            (
                &email,
                vec![http()],
                "no connected worker sends mail; set smtp_url and smtp_from and start `punctual worker`; see docs/email.md",
            ),
            (
                &probe,
                vec![http()],
                "no connected worker serves queue slow; start one with `punctual worker --queues slow`",
            ),
            (
                &probe,
                vec![worker("slow", "http", &[])],
                "no connected worker of queue slow runs probes; start one with `punctual worker --queues slow`",
            ),
            (
                &handler,
                vec![http()],
                "no connected worker has the handler resize; start a worker of your own that has the handler resize, \
                 with gpu=yes",
            ),
            (
                &handler,
                vec![worker("default", "handler:resize", &[])],
                "no connected worker that has the handler resize has gpu=yes; start a worker of your own that has the \
                 handler resize, with gpu=yes",
            ),
        ] {
            assert_eq!(lack(spec, &workers, WorkerProgram::Worker).as_deref(), Some(expected));
        }
        let lack = |spec: &TaskSpec, workers: &[WorkerSpec]| lack(spec, workers, WorkerProgram::Worker);
        assert_eq!(lack(&handler, &[worker("default", "handler:resize", &[("gpu", "yes")])]), None);
        assert_eq!(lack(&command, &[worker("default", "command", &[])]), None);
        assert_eq!(lack(&networked, &[worker("default", "binary:network", &[])]), None);
        command.queue = "slow".to_owned();
        command.labels.insert("disk".to_owned(), "ssd".to_owned());
        let told = lack(&command, &[worker("slow", "http", &[])]).unwrap();
        assert!(told.ends_with("`punctual worker --allow-commands --queues slow --labels disk=ssd`"), "{told}");
    }

    #[test]
    fn in_dev_the_next_step_is_to_restart_it_with_the_flag() {
        let lacking = |json: &str, queue: &str| {
            let spec = TaskSpec { queue: queue.to_owned(), ..TaskSpec::new(serde_json::from_str(json).unwrap()) };
            lack(&spec, &[worker("default", "http", &[])], WorkerProgram::Dev).unwrap()
        };
        assert_eq!(
            lacking(r#"{"command":{"line":"date"}}"#, "default"),
            "no connected worker runs commands; restart the server with `punctual dev --allow-commands`"
        );
        assert_eq!(
            lacking(r#"{"email":{"to":["a@b.org"],"subject":"x"}}"#, "default"),
            "no connected worker sends mail; set smtp_url and smtp_from and restart `punctual dev`; see docs/email.md"
        );
        assert_eq!(
            lacking(r#"{"probe":{}}"#, "slow"),
            "no connected worker serves queue slow; restart the server with `punctual dev --queues default,slow`"
        );
    }
}
