//! What one seed looks like: how many of everything, how small the bounds, which
//! faults and how often. Each seed leaves some faults out, so that those which
//! would drown the others do not do so always.

use std::sync::Arc;

use punctual_core::attempt::FailureClass;
use punctual_core::retry::{FailureClasses, RetryPolicy};
use punctual_core::shard::Config;
use punctual_core::task::{DeliveryMode, OnLost, Probe, Run, Task, TaskSpec};
use punctual_core::{ArtifactId, NamespaceId, Span, TaskId, Timestamp};

use crate::options::{Options, Planted};
use crate::rng::Rng;

/// When every run begins, by the store's clock: 2027-03-28T00:59:00Z, a minute before the clocks of Europe go from 02:00
/// to 03:00.
pub const START: Timestamp = Timestamp::saturating_from_micros(1_806_195_540_000_000);
/// The measured offset to the store's clock is never so wrong that a server is
/// ahead of it: servers count from before the question was sent. So they lag, by
/// no more than this.
pub(crate) const CLOCK_LAG_MAX_MS: i64 = 20;
pub(crate) const LEASE_TTL: Span = Span::from_secs(10);
pub(crate) const RENEW_EVERY_MS: i64 = 3000;
pub(crate) const QUEUES: [&str; 2] = ["default", "other"];

#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub servers: usize,
    pub workers: usize,
    /// How many servers a worker connects to.
    pub links_max: usize,
    pub shards: u16,
    /// Faults happen for this long.
    pub chaos: Span,
    pub submissions: usize,
    pub commands: usize,
    pub config: Config,
    /// Servers stop acting when their lease may be over.
    pub self_fencing: bool,
    pub faults: Vec<(FaultKind, Span)>,
    /// Servers that crash or stop just after the store took their batch.
    pub struck_at_commit_per_mille: u32,
    pub store: StoreFaults,
    pub hints: HintFaults,
    pub message_ms_max: i64,
    pub tasks: Vec<Arc<Task>>,
    /// How many runs of workflows are started.
    pub runs: usize,
    /// When the files arrive that some of the tasks wait for.
    pub arrivals: Vec<(TaskId, Timestamp)>,
    /// In the order of the tasks.
    behaviors: Vec<TaskBehavior>,
}

/// How the attempts of a task end.
#[derive(Debug, Clone, Copy)]
pub(crate) enum TaskBehavior {
    Mixed,
    Fails,
    NeverRuns,
    NobodyKnows,
    /// No worker can start it.
    Unstartable,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FaultKind {
    ServerCrash,
    ServerPause,
    ServerLeaves,
    /// A peer wrongly takes the owner for dead.
    Steal,
    /// A shard is given up for others to take, as when a server joins.
    Rebalance,
    WorkerCrash,
    WorkerPause,
    LinkCut,
    Partition,
}

impl FaultKind {
    const ALL: [Self; 9] = [
        Self::ServerCrash,
        Self::ServerPause,
        Self::ServerLeaves,
        Self::Steal,
        Self::Rebalance,
        Self::WorkerCrash,
        Self::WorkerPause,
        Self::LinkCut,
        Self::Partition,
    ];
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct StoreFaults {
    pub slow_per_mille: u32,
    /// How long a slow call takes at most.
    pub slow_ms_max: i64,
    /// Writes whose connection breaks.
    pub cut_per_mille: u32,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct HintFaults {
    pub lost_percent: u32,
    pub late_percent: u32,
    pub twice_percent: u32,
}

impl Plan {
    /// `few` draws what came later, so that the seeds from before mean what they meant.
    pub(crate) fn draw(rng: &mut Rng, few: &mut Rng, options: Options) -> Self {
        let servers = *rng.pick(&[1, 1, 2, 2, 3]);
        let chaos = Span::from_secs(rng.range(100, 240));
        let mut faults = Vec::new();
        for kind in FaultKind::ALL {
            if rng.percent(60) {
                faults.push((kind, rng.millis(5_000, 60_000)));
            }
        }
        let behaviors = (0..TASKS).map(|_| draw_behavior(rng)).collect();
        let tasks: Vec<Arc<Task>> = (0..TASKS).map(|number| Arc::new(draw_task(rng, number))).collect();
        let waiting = tasks.iter().filter(|task| task.waits_for.is_some());
        // Before the faults are over: then there is no excuse for jobs that wait.
        let arrivals =
            waiting.map(|task| (task.id, START + rng.millis(1_000, chaos.as_micros() / 1_000 - 1_000))).collect();
        Self {
            servers,
            workers: rng.range(2, 5) as usize,
            links_max: if few.percent(50) { few.range(1, 2) as usize } else { servers },
            shards: rng.range(1, 5) as u16,
            chaos,
            submissions: rng.range(30, 100) as usize,
            commands: rng.range(0, 60) as usize,
            config: draw_config(rng, options),
            self_fencing: rng.percent(50),
            faults,
            struck_at_commit_per_mille: *rng.pick(&[0, 5, 20]),
            store: StoreFaults {
                slow_per_mille: *rng.pick(&[0, 5, 50]),
                slow_ms_max: *rng.pick(&[500, 3_000, 12_000]),
                cut_per_mille: *rng.pick(&[0, 5, 30]),
            },
            hints: HintFaults {
                lost_percent: *rng.pick(&[0, 10, 100]),
                late_percent: *rng.pick(&[0, 10, 40]),
                twice_percent: *rng.pick(&[0, 20]),
            },
            message_ms_max: *rng.pick(&[2, 20, 200]),
            behaviors,
            tasks,
            runs: 0,
            arrivals,
        }
    }

    pub(crate) fn behavior_of(&self, task: TaskId) -> TaskBehavior {
        let place = self.tasks.iter().position(|known| known.id == task).expect("there are no other tasks");
        self.behaviors[place]
    }
}

const TASKS: u64 = 8;

fn draw_behavior(rng: &mut Rng) -> TaskBehavior {
    match rng.below(11) {
        0..7 => TaskBehavior::Mixed,
        7 => TaskBehavior::Fails,
        8 => TaskBehavior::NeverRuns,
        9 => TaskBehavior::Unstartable,
        _ => TaskBehavior::NobodyKnows,
    }
}

fn draw_config(rng: &mut Rng, options: Options) -> Config {
    let defaults = Config::default();
    Config {
        look_ahead: *rng.pick(&[defaults.look_ahead, Span::from_secs(5)]),
        window_max: *rng.pick(&[4, 8, 30, defaults.window_max]),
        page_len: *rng.pick(&[2, 5, defaults.page_len]),
        batch_max: *rng.pick(&[1, 3, defaults.batch_max]),
        lanes: *rng.pick(&[1, 2]),
        schedule_grace: *rng.pick(&[defaults.schedule_grace, Span::from_secs(5)]),
        worker_silence: *rng.pick(&[defaults.worker_silence, defaults.worker_silence, Span::from_secs(7)]),
        bug: match options.bug {
            Some(Planted::Core(bug)) => Some(bug),
            _ => None,
        },
        ..defaults
    }
}

/// Another namespace than the default one.
pub(crate) const TENANT: NamespaceId = NamespaceId(1);

fn draw_task(rng: &mut Rng, number: u64) -> Task {
    let mut spec = TaskSpec::new(Run::Probe(Probe::default()));
    spec.queue = rng.pick(&QUEUES).to_string();
    spec.delivery = *rng.pick(&[DeliveryMode::AtLeastOnce, DeliveryMode::AtMostOnce, DeliveryMode::ExactlyOnce]);
    spec.on_lost = *rng.pick(&[OnLost::Hold, OnLost::Fail, OnLost::Rerun]);
    spec.retry = draw_retry(rng);
    spec.node_retry = draw_retry(rng);
    if rng.percent(50) {
        spec.node_retry.initial = Span::ZERO;
    }
    // So many that a job whose workers have no room now and then still runs.
    spec.start_retry = RetryPolicy { max: rng.range(3, 8) as u16, except: FailureClasses::NONE, ..draw_retry(rng) };
    spec.timeout = *rng.pick(&[Span::from_secs(4), Span::from_secs(10), Span::from_secs(20)]);
    spec.queue_timeout = *rng.pick(&[None, None, None, Some(Span::from_secs(2)), Some(Span::from_secs(15))]);
    spec.quiet = rng.percent(10);
    let namespace = if rng.percent(30) { TENANT } else { NamespaceId::DEFAULT };
    let waits_for = rng.percent(20).then(|| ArtifactId::new(START, number));
    Task {
        namespace,
        id: TaskId::new(START, number),
        name: Some(format!("task-{number}")),
        revision: 1,
        created_at: START,
        updated_at: START,
        spec,
        waits_for,
        created_by: None,
        changed_by: None,
    }
}

fn draw_retry(rng: &mut Rng) -> RetryPolicy {
    RetryPolicy {
        max: rng.range(0, 3) as u16,
        initial: rng.millis(200, 2_000),
        factor: *rng.pick(&[1.0, 2.0]),
        // Now and then beyond the look-ahead, so that a retry leaves the window.
        cap: *rng.pick(&[Span::from_secs(3), Span::from_secs(20)]),
        jitter: *rng.pick(&[0.0, 0.2]),
        except: draw_except(rng),
    }
}

fn draw_except(rng: &mut Rng) -> FailureClasses {
    let percent = *rng.pick(&[0, 0, 40]);
    FailureClasses::from(FailureClass::ALL.into_iter().filter(|_| rng.percent(percent)).collect::<Vec<_>>())
}
