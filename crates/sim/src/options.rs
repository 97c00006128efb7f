//! What a run is asked to do, apart from its seed.

use punctual_core::batch::BatchBug;
use punctual_core::shard::Bug;
use punctual_core::workflow::RunBug;

#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// A bug that the run has to find.
    pub bug: Option<Planted>,
    pub database: Database,
}

/// Whether what was committed stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Database {
    #[default]
    KeepsCommits,
    /// Once in a run it goes back by some seconds, as when a standby that lags is promoted.
    GoesBack,
}

impl Database {
    /// The word for it on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::KeepsCommits => "keeps-commits",
            Self::GoesBack => "goes-back",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        [Self::KeepsCommits, Self::GoesBack].into_iter().find(|database| database.name() == name)
    }
}

impl Options {
    /// For a run that has to find a bug.
    pub fn finding(bug: Planted) -> Self {
        let database = match bug {
            Planted::Core(Bug::OldStartBelieved) => Database::GoesBack,
            _ => Database::KeepsCommits,
        };
        Self { bug: Some(bug), database }
    }
}

/// Where a bug is planted: in the core, or in the world around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Planted {
    Core(Bug),
    /// In what follows from an event in a run of a workflow.
    Run(RunBug),
    /// In what follows from an event in a batch.
    Batch(BatchBug),
    /// The store applies a batch whatever epoch it carries.
    NoFence,
    /// A submission is acknowledged before it is stored.
    SubmitAckedFirst,
    /// A server sends its assignments again when a worker reconnects.
    AssignedAgain,
    /// A worker begins what a former owner assigned, after it told the new one that it holds nothing.
    WorkerIgnoresEpochs,
    /// A worker that reconnects names only what it runs, not what it finished.
    HelloForgetsFinished,
    /// A server goes by its own clock, which is 60 ms ahead.
    ClockAhead,
    /// A submission is stored in two transactions.
    TornSubmission,
    /// A takeover forgets that a job was asked to end.
    TakeoverForgetsCancel,
    /// A server that was replaced tells agents that their attempts are over.
    AgentDismissedByZombie,
    /// What follows from the end of a job is stored although the end is refused.
    RunStepUnfenced,
    /// Whoever takes a shard over releases the jobs of its runs again.
    TakeoverReleasesAgain,
    /// Gates that are open when a shard is taken over let pass.
    GatePassesAtTakeover,
}

impl Planted {
    pub const OUTSIDE: [Self; 12] = [
        Self::NoFence,
        Self::SubmitAckedFirst,
        Self::AssignedAgain,
        Self::WorkerIgnoresEpochs,
        Self::HelloForgetsFinished,
        Self::ClockAhead,
        Self::TornSubmission,
        Self::TakeoverForgetsCancel,
        Self::AgentDismissedByZombie,
        Self::RunStepUnfenced,
        Self::TakeoverReleasesAgain,
        Self::GatePassesAtTakeover,
    ];

    pub fn all() -> Vec<Self> {
        let of_core = Bug::ALL.into_iter().map(Self::Core).chain(RunBug::ALL.into_iter().map(Self::Run));
        of_core.chain(BatchBug::ALL.into_iter().map(Self::Batch)).chain(Self::OUTSIDE).collect()
    }

    /// The word for it on the command line.
    pub fn name(self) -> String {
        match self {
            Self::Core(bug) => format!("{bug:?}"),
            Self::Run(bug) => format!("{bug:?}"),
            Self::Batch(bug) => format!("{bug:?}"),
            outside => format!("{outside:?}"),
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::all().into_iter().find(|bug| bug.name() == name)
    }
}
