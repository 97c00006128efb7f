//! All that is known of one job, from every side.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use crate::clock::Moment;
use crate::history::{Answer, Asked, Call, FinalAttempt, FinalJob, History, Rules, What};
use crate::witness::{Ended, Seen};

/// The job that a key stands for.
pub(super) struct Story<'a> {
    pub(super) key: &'a str,
    pub(super) rules: &'a Rules,
    pub(super) fail_first: u32,
    /// When the client wanted it to run.
    pub(super) run_at_us: Option<i64>,
    /// Tries to submit it.
    pub(super) submits: Vec<&'a Call>,
    /// Deletes and cancels.
    pub(super) orders: Vec<&'a Call>,
    pub(super) job: Option<&'a FinalJob>,
    /// In the order in which they began.
    pub(super) executions: Vec<Execution>,
    pub(super) world: Rc<World<'a>>,
}

/// One time that the handler really ran.
#[derive(Debug, Clone, Copy)]
pub(super) struct Execution {
    pub(super) attempt: u32,
    pub(super) pid: u32,
    pub(super) begin: Moment,
    /// Absent when the process died first.
    pub(super) end: Option<(Moment, Ended)>,
}

/// What was done to the system.
#[derive(Default)]
pub(super) struct World<'a> {
    pub(super) died: HashMap<u32, Moment>,
    /// Since when a living worker was out of reach, the first time.
    pub(super) cut_off: HashMap<u32, Moment>,
    pub(super) first_fault: Option<Moment>,
    /// When the database lost its last commits.
    pub(super) went_back: Option<Moment>,
    /// From when on everything should be as usual.
    pub(super) well_again: Option<Moment>,
    pid_of: HashMap<&'a str, u32>,
}

impl World<'_> {
    pub(super) fn pid_of(&self, worker: &str) -> Option<u32> {
        self.pid_of.get(worker).copied()
    }
}

impl<'a> Story<'a> {
    pub(super) fn name(&self) -> &str {
        self.job.map_or(self.key, |job| &job.id)
    }

    pub(super) fn record(&self, attempt: u32) -> Option<&'a FinalAttempt> {
        self.job?.attempts.iter().find(|record| record.attempt == attempt)
    }

    pub(super) fn state(&self) -> &str {
        self.job.map_or("absent", |job| &job.state)
    }

    /// Whether nobody had asked for it before that moment.
    pub(super) fn is_from_after(&self, moment: Moment) -> bool {
        self.submits.iter().all(|call| call.invoked.real_us > moment.real_us)
    }

    /// The first time it was acknowledged, and when it is due by that.
    pub(super) fn acknowledged(&self) -> Option<(Moment, i64)> {
        self.submits.iter().find_map(|call| match call.answer {
            Answer::Ok { due_us, .. } => Some((call.returned?, due_us?)),
            _ => None,
        })
    }

    pub(super) fn execution(&self, attempt: u32) -> Option<&Execution> {
        self.executions.iter().find(|execution| execution.attempt == attempt)
    }

    /// Whether someone asked for it, and was not refused.
    pub(super) fn was_asked(&self, is_it: fn(&Asked) -> bool) -> bool {
        self.orders.iter().any(|call| is_it(&call.asked) && !matches!(call.answer, Answer::Fail { .. }))
    }
}

pub(super) fn is_delete(asked: &Asked) -> bool {
    matches!(asked, Asked::Delete { .. })
}

pub(super) fn is_cancel(asked: &Asked) -> bool {
    matches!(asked, Asked::Cancel { .. })
}

pub(super) fn stories(history: &History) -> Vec<Story<'_>> {
    let world = Rc::new(world(history));
    let mut stories: BTreeMap<&str, Story<'_>> = BTreeMap::new();
    let mut key_of: HashMap<&str, &str> = HashMap::new();
    for call in &history.calls {
        let Asked::Submit { key, task, run_at_us, fail_first } = &call.asked else { continue };
        let story = stories.entry(key).or_insert_with(|| Story {
            key,
            rules: &history.tasks[task],
            fail_first: *fail_first,
            run_at_us: *run_at_us,
            submits: Vec::new(),
            orders: Vec::new(),
            job: None,
            executions: Vec::new(),
            world: Rc::clone(&world),
        });
        story.submits.push(call);
        if let Answer::Ok { job, .. } = &call.answer {
            key_of.insert(job, key);
        }
    }
    for job in &history.jobs {
        // What belongs to nobody is found by the conservation of jobs.
        if let Some(story) = stories.get_mut(job.key.as_str()) {
            story.job = Some(job);
            key_of.insert(&job.id, story.key);
        }
    }
    for call in &history.calls {
        let (Asked::Delete { job } | Asked::Cancel { job }) = &call.asked else { continue };
        if let Some(story) = key_of.get(job.as_str()).and_then(|key| stories.get_mut(key)) {
            story.orders.push(call);
        }
    }
    for told in &history.witness {
        let Some(story) = key_of.get(told.job.as_str()).and_then(|key| stories.get_mut(key)) else { continue };
        let (attempt, pid) = (told.attempt, told.pid);
        match told.seen {
            Seen::Begin => story.executions.push(Execution { attempt, pid, begin: told.at, end: None }),
            Seen::End(ended) => {
                let open = story.executions.iter_mut().rev();
                let open = open.filter(|execution| execution.attempt == attempt && execution.pid == pid);
                if let Some(execution) = open.into_iter().find(|execution| execution.end.is_none()) {
                    execution.end = Some((told.at, ended));
                }
            }
        }
    }
    stories.into_values().collect()
}

fn world(history: &History) -> World<'_> {
    let mut world = World::default();
    for fault in &history.faults {
        match fault.what {
            What::WorkerDied { pid } => {
                world.died.insert(pid, fault.at);
            }
            What::WorkerOutOfReach { pid } => {
                world.cut_off.entry(pid).or_insert(fault.at);
            }
            What::Healed { within_ms } => world.well_again = Some(fault.at.plus_ms(within_ms)),
            What::WorkerLeft { .. } | What::WorkerInReach { .. } | What::Begin | What::End => {}
            What::WentBack => world.went_back = Some(fault.at),
        }
        if !matches!(fault.what, What::Healed { .. }) {
            world.first_fault.get_or_insert(fault.at);
        }
    }
    let ran: HashMap<(&str, u32), u32> =
        history.witness.iter().map(|told| ((told.job.as_str(), told.attempt), told.pid)).collect();
    for job in &history.jobs {
        for record in &job.attempts {
            if let Some(pid) = ran.get(&(job.id.as_str(), record.attempt)) {
                world.pid_of.insert(&record.worker, *pid);
            }
        }
    }
    world
}
