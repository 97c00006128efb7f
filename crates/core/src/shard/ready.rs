//! Due jobs that wait for a worker, and the workers that wait for jobs.
//!
//! Jobs are grouped in classes: those of one class can run on the same workers.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;

use crate::id::{JobId, WorkerId};
use crate::job::JobKey;
use crate::shard::live::{Denial, Run, Stage};
use crate::shard::workers::{Worker, Workers};
use crate::shard::write::{CancelMark, JobWrite, Start};
use crate::shard::{Config, Owner, planted};
use crate::task::Task;
use crate::time::Timestamp;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct ClassId(usize);

/// What a worker must offer.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Needs {
    queue: String,
    capability: String,
    labels: BTreeMap<String, String>,
}

/// What a task asks for whose file has not arrived. No worker has it: what workers name has no
/// such character in it.
const ARRIVAL: &str = "\0arrival";

impl Needs {
    fn of(task: &Task, ignores_arrivals: bool) -> Self {
        let waits = task.waits_for.is_some() && !ignores_arrivals;
        Self {
            queue: task.spec.queue.clone(),
            capability: if waits { ARRIVAL.to_owned() } else { task.spec.run.capability() },
            labels: task.spec.labels.clone(),
        }
    }

    fn are_met_by(&self, worker: &Worker) -> bool {
        self.capability != ARRIVAL
            && worker.spec.queues.contains(&self.queue)
            && worker.spec.capabilities.contains(&self.capability)
            && self.labels.iter().all(|(key, value)| worker.spec.labels.get(key) == Some(value))
    }
}

struct Class {
    needs: Needs,
    /// Jobs whose time has not come, the next one first.
    waiting: BTreeSet<JobKey>,
    /// Jobs that are due, the lowest rank first.
    jobs: BTreeSet<(i64, JobId)>,
    /// Workers with a free slot.
    idle: BTreeSet<WorkerId>,
    /// Who was served last: the turn goes round.
    served: Option<WorkerId>,
}

#[derive(Default)]
pub(super) struct Ready {
    classes: Vec<Class>,
    by_needs: HashMap<Needs, ClassId>,
    /// The classes of tasks seen lately, so that a job costs no comparison of texts.
    by_task: HashMap<(crate::id::TaskId, u32), ClassId>,
    /// A planted bug.
    ignores_arrivals: bool,
}

/// One turn of matching takes at most so many jobs of a class, so that classes
/// which share workers share them in order of age.
const TURN_MAX: usize = 64;

/// Beyond this the cache of tasks starts anew.
const TASK_CACHE_MAX: usize = 4096;

impl Ready {
    pub(super) fn new(config: &Config) -> Self {
        Self { ignores_arrivals: planted!(config, FileNotAwaited), ..Self::default() }
    }

    pub(super) fn class_of(&mut self, task: &Task, workers: &mut Workers) -> ClassId {
        if let Some(&class) = self.by_task.get(&(task.id, task.revision)) {
            return class;
        }
        let needs = Needs::of(task, self.ignores_arrivals);
        let class = match self.by_needs.get(&needs) {
            Some(&class) => class,
            None => self.add_class(needs, workers),
        };
        if self.by_task.len() >= TASK_CACHE_MAX {
            self.by_task.clear();
        }
        self.by_task.insert((task.id, task.revision), class);
        class
    }

    fn add_class(&mut self, needs: Needs, workers: &mut Workers) -> ClassId {
        let id = ClassId(self.classes.len());
        let mut idle = BTreeSet::new();
        for (worker_id, worker) in workers.iter_mut() {
            if needs.are_met_by(worker) {
                worker.classes.push(id);
                if worker.free() > 0 {
                    idle.insert(worker_id);
                }
            }
        }
        self.by_needs.insert(needs.clone(), id);
        self.classes.push(Class { needs, waiting: BTreeSet::new(), jobs: BTreeSet::new(), idle, served: None });
        id
    }

    /// The classes that a worker can serve.
    pub(super) fn classes_for(&self, worker: &Worker) -> Vec<ClassId> {
        let serves = |(place, class): (usize, &Class)| class.needs.are_met_by(worker).then_some(ClassId(place));
        self.classes.iter().enumerate().filter_map(serves).collect()
    }

    /// Whether a job in the window waits for its file.
    pub(super) fn awaits_arrivals(&self) -> bool {
        let holds_jobs = |class: &Class| !class.waiting.is_empty() || !class.jobs.is_empty();
        self.classes.iter().any(|class| class.needs.capability == ARRIVAL && holds_jobs(class))
    }

    /// How many jobs of the class are in the window, due or not.
    pub(super) fn in_window(&self, class: ClassId) -> usize {
        self.classes[class.0].waiting.len() + self.classes[class.0].jobs.len()
    }

    pub(super) fn wait(&mut self, class: ClassId, key: JobKey) {
        self.classes[class.0].waiting.insert(key);
    }

    pub(super) fn stop_waiting(&mut self, class: ClassId, key: JobKey) {
        self.classes[class.0].waiting.remove(&key);
    }

    /// The job of the class whose time is farthest away.
    pub(super) fn last_waiting(&self, class: ClassId) -> Option<JobKey> {
        self.classes[class.0].waiting.last().copied()
    }

    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.classes.iter().filter_map(|class| class.waiting.first().map(|key| key.due_at)).min()
    }

    /// Takes out what is due by `limit`.
    pub(super) fn take_due(&mut self, limit: Timestamp) -> Vec<JobKey> {
        let mut due = Vec::new();
        for class in &mut self.classes {
            while class.waiting.first().is_some_and(|key| key.due_at <= limit) {
                due.extend(class.waiting.pop_first());
            }
        }
        due
    }

    pub(super) fn insert(&mut self, class: ClassId, rank: (i64, JobId)) {
        self.classes[class.0].jobs.insert(rank);
    }

    pub(super) fn remove(&mut self, class: ClassId, rank: (i64, JobId)) {
        self.classes[class.0].jobs.remove(&rank);
    }

    pub(super) fn set_idle(&mut self, id: WorkerId, worker: &Worker) {
        for &class in &worker.classes {
            self.classes[class.0].idle.insert(id);
        }
    }

    pub(super) fn set_busy(&mut self, id: WorkerId, worker: &Worker) {
        for &class in &worker.classes {
            self.classes[class.0].idle.remove(&id);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.classes.iter().map(|class| class.jobs.len()).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.classes.iter().all(|class| class.jobs.is_empty())
    }

    /// How many jobs of these classes wait for a worker.
    pub(super) fn waiting_in(&self, classes: &[ClassId]) -> usize {
        classes.iter().map(|class| self.classes[class.0].jobs.len()).sum()
    }

    /// Classes that have both jobs and workers; the one with the oldest job first.
    fn servable(&self) -> Vec<ClassId> {
        let mut classes: Vec<_> = (self.classes.iter().enumerate())
            .filter(|(_, class)| !class.idle.is_empty())
            .filter_map(|(place, class)| class.jobs.first().map(|&rank| (rank, ClassId(place))))
            .collect();
        classes.sort_unstable();
        classes.into_iter().map(|(_, class)| class).collect()
    }
}

impl Class {
    fn next_worker(&mut self) -> Option<WorkerId> {
        let after = self.served.map_or(Bound::Unbounded, Bound::Excluded);
        let next = self.idle.range((after, Bound::Unbounded)).next().or_else(|| self.idle.first()).copied();
        self.served = next;
        next
    }
}

impl Owner {
    /// Gives due jobs to free slots, the oldest first.
    pub(super) fn match_ready(&mut self) {
        loop {
            let classes = self.ready.servable();
            if classes.is_empty() {
                return;
            }
            for class in classes {
                self.match_class(class);
            }
        }
    }

    fn match_class(&mut self, class_id: ClassId) {
        let class = &mut self.ready.classes[class_id.0];
        // An earlier class may have taken the last slot.
        let Some(worker_id) = class.next_worker() else { return };
        let worker = self.workers.get(worker_id).expect("an idle worker is known");
        let fair_share = class.jobs.len().div_ceil(class.idle.len());
        let turn = fair_share.min(worker.free()).min(TURN_MAX);
        let mut taken = Vec::with_capacity(turn);
        for _ in 0..turn {
            taken.extend(class.jobs.pop_first().map(|(_, id)| id));
        }
        for id in taken {
            self.start(id, worker_id);
        }
    }

    fn start(&mut self, id: JobId, worker: WorkerId) {
        let now = self.now;
        let shard = self.shards[usize::from(id.shard().0)].as_deref_mut().expect("ready jobs are of owned shards");
        let live = shard.jobs.get_mut(&id).expect("a ready job is in memory");
        let attempt = live.counters.next_attempt;
        let start = Start { key: live.key, attempt, worker, picked_up_at: live.picked_up_at, started_at: now };
        let deadline = now + live.task.spec.time_to_end();
        let cancel = CancelMark::None;
        live.stage = Stage::Starting(Run {
            attempt,
            worker,
            started_at: now,
            deadline,
            starts: None,
            cancel,
            denial: Denial::Proves,
        });
        let planned = live.first_run_of();
        self.window_len -= 1;
        self.workers.occupy(worker, id, &mut self.ready);
        if let Some(source) = planned {
            self.run_starts(source, id);
        }
        self.push(JobWrite::Start(start));
        #[cfg(feature = "planted-bugs")]
        self.send_before_durable(id, worker);
    }
}
