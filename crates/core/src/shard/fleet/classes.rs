//! Classes of jobs: those of one class can run on the same workers.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;

use crate::id::{TaskId, WorkerId};
use crate::shard::event::WorkerSpec;
use crate::shard::{Config, planted};
use crate::task::Task;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(in crate::shard) struct JobClass(usize);

impl JobClass {
    /// Its place among all classes, counted from 0 in the order in which they were seen first.
    pub(in crate::shard) fn place(self) -> usize {
        self.0
    }

    pub(in crate::shard) fn at(place: usize) -> Self {
        Self(place)
    }
}

/// What a worker must offer.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Needs {
    queue: String,
    capability: String,
    labels: BTreeMap<String, String>,
}

/// What a task asks for whose file has not arrived. No worker has it: what workers name has no
/// such character in it.
const ARRIVAL: &str = "\0arrival";

impl Needs {
    fn of(task: &Task, arrivals: Arrivals) -> Self {
        let waits = task.waits_for.is_some() && arrivals == Arrivals::Awaited;
        Self {
            queue: task.spec.queue.clone(),
            capability: if waits { ARRIVAL.to_owned() } else { task.spec.run.capability() },
            labels: task.spec.labels.clone(),
        }
    }

    pub(super) fn are_met_by(&self, worker: &WorkerSpec) -> bool {
        self.capability != ARRIVAL
            && worker.queues.contains(&self.queue)
            && worker.capabilities.contains(&self.capability)
            && self.labels.iter().all(|(key, value)| worker.labels.get(key) == Some(value))
    }
}

/// Whether a job waits for its task's file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Arrivals {
    Awaited,
    /// A planted bug.
    Ignored,
}

struct Class {
    needs: Needs,
    /// Workers with a free slot.
    idle: BTreeSet<WorkerId>,
    /// The worker that was served last: the turn goes round.
    served: Option<WorkerId>,
}

/// All classes that were seen, and the workers of each that have a free slot.
pub(super) struct Classes {
    all: Vec<Class>,
    by_needs: HashMap<Needs, JobClass>,
    /// The classes of tasks seen lately, so that a job costs no comparison of texts.
    by_task: HashMap<(TaskId, u32), JobClass>,
    arrivals: Arrivals,
}

/// Beyond this the cache of tasks starts anew.
const TASK_CACHE_MAX: usize = 4096;

impl Classes {
    pub(super) fn new(config: &Config) -> Self {
        let arrivals = if planted!(config, FileNotAwaited) { Arrivals::Ignored } else { Arrivals::Awaited };
        Self { all: Vec::new(), by_needs: HashMap::new(), by_task: HashMap::new(), arrivals }
    }

    /// The class of a task. One that was not seen before is added by `add`.
    pub(super) fn of(&mut self, task: &Task, add: impl FnOnce(JobClass, &Needs) -> BTreeSet<WorkerId>) -> JobClass {
        if let Some(&class) = self.by_task.get(&(task.id, task.revision)) {
            return class;
        }
        let needs = Needs::of(task, self.arrivals);
        let class = match self.by_needs.get(&needs) {
            Some(&class) => class,
            None => {
                let class = JobClass(self.all.len());
                let idle = add(class, &needs);
                self.by_needs.insert(needs.clone(), class);
                self.all.push(Class { needs, idle, served: None });
                class
            }
        };
        if self.by_task.len() >= TASK_CACHE_MAX {
            self.by_task.clear();
        }
        self.by_task.insert((task.id, task.revision), class);
        class
    }

    /// The classes that a worker can serve.
    pub(super) fn served_by(&self, worker: &WorkerSpec) -> Vec<JobClass> {
        let serves = |(place, class): (usize, &Class)| class.needs.are_met_by(worker).then_some(JobClass(place));
        self.all.iter().enumerate().filter_map(serves).collect()
    }

    /// Whether its jobs wait for a file.
    pub(super) fn awaits_arrival(&self, class: JobClass) -> bool {
        self.all.get(class.0).is_some_and(|class| class.needs.capability == ARRIVAL)
    }

    pub(super) fn set_idle(&mut self, worker: WorkerId, classes: &[JobClass]) {
        for &class in classes {
            self.all[class.0].idle.insert(worker);
        }
    }

    pub(super) fn set_busy(&mut self, worker: WorkerId, classes: &[JobClass]) {
        for &class in classes {
            self.all[class.0].idle.remove(&worker);
        }
    }

    /// How many workers of the class have a free slot.
    pub(super) fn idle(&self, class: JobClass) -> usize {
        self.all.get(class.0).map_or(0, |class| class.idle.len())
    }

    /// The worker with a free slot whose turn it is.
    pub(super) fn next_worker(&mut self, class: JobClass) -> Option<WorkerId> {
        let class = &mut self.all[class.0];
        let after = class.served.map_or(Bound::Unbounded, Bound::Excluded);
        let next = class.idle.range((after, Bound::Unbounded)).next().or_else(|| class.idle.first()).copied();
        class.served = next;
        next
    }
}
