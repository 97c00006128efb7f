//! How often each interesting window was really hit. A run that never hit a
//! window has shown nothing about it.

use std::collections::BTreeMap;

use punctual_core::JobState;
use punctual_core::attempt::{AttemptRecord, Ending};
use punctual_core::notice::NoticeKind;
use punctual_core::schedule::{ChangeKind, Marks, Verdict};
use punctual_core::shard::event::{Refusal, Reply};
use punctual_core::shard::write::{Decision, JobWrite, Requeue, ScheduleWrite, Settle, Void, Write};
use punctual_core::task::{DeliveryMode, Task, TaskSpec};

use crate::history::{Fact, History};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Window {
    CrashBetweenApplyAndAnswer,
    DeadServersBatchApplied,
    DeadServersBatchDropped,
    BatchUnknownApplied,
    BatchUnknownNotApplied,
    BatchFenced,
    BatchPartlyFenced,
    ZombieWoke,
    ShardStolen,
    ShardLeft,
    StartAdopted,
    AdoptedStartHeld,
    NeverReceived,
    StaleOutcome,
    WorkerLost,
    LateResultForLost,
    Overdue,
    QueueTimeout,
    /// A job failed because it was given back too often.
    GiveBacksUsedUp,
    /// A failure that had retries left was final because of its class.
    ExceptedFailure,
    Quarantined,
    DeleteBeforeStart,
    DeleteRefusedStarted,
    CancelWhileStarting,
    CancelAsked,
    RunNow,
    Rerun,
    FullWindow,
    VoidStart,
    VoidOrder,
    StaleAssignmentRefused,
    HelloOutdated,
    /// A hello was read after a later one of the same worker.
    HelloOvertaken,
    NoFreeSlot,
    HintLost,
    HintLate,
    HintTwice,
    SpoolReplayed,
    /// A server without a worker for its jobs got one that is connected to another.
    WorkerInvited,
    /// A worker closed its stream to a server that did not need it any more.
    ServerLeftByWorker,
    OutcomeRepeated,
    SubmitReplayed,
    CommandNotOwner,
    MessageLost,
    StaleRead,
    CreditMoved,
    LaneOvertaken,
    LaneInDoubtAlone,
    ShardRetired,
    ShardRetiredLoudly,
    SelfFenced,
    /// A file arrived that due jobs waited for.
    ArrivalAwaited,
    /// An agent's word counted.
    AgentReported,
    /// An agent spoke of an attempt that was over.
    AgentRefused,
    /// A batch with verdicts was refused because of another shard.
    SchedulesInDoubt,
    /// A verdict came a second time.
    VerdictVoid,
    OccurrenceQueued,
    OccurrenceSkipped,
    OccurrencePaused,
    OccurrenceReplayed,
    OccurrenceMissed,
    QueuedReleased,
    ScheduleEdited,
    /// A server learned that a calendar had changed.
    Replanned,
    /// A schedule was on its way when others were told of that.
    CalendarMissed,
    OccurrenceClosed,
    /// The clocks left it out.
    OccurrenceInGap,
    /// It waited, and the schedule ran as often as it may.
    OccurrenceUsedUp,
    /// A run that somebody asked for waits for another one.
    ManualQueued,
    /// What waited was skipped.
    QueueCleared,
    /// Times that the clocks left out ran as one.
    OccurrencesMerged,
    /// A success after a failure was told.
    RecoveryTold,
    /// Starts that were late were told.
    LatenessTold,
    RunGateDecided,
    RunNodeSkipped,
    RunCancelled,
    RunResumed,
    /// A node of a run started again.
    RunNodeAgain,
    /// A node of a run has several jobs.
    RunListFannedOut,
    RunRequestRefused,
    /// An attempt of a job started a run.
    RunOfJob,
    /// Another server had started it before.
    RunOfJobStartedBefore,
    /// Its end was told to its job once more.
    RunOfJobReportedAgain,
    /// All who own shards confirmed that a queue is paused.
    PauseInForce,
}

impl Window {
    pub const ALL: [Self; 84] = [
        Self::CrashBetweenApplyAndAnswer,
        Self::DeadServersBatchApplied,
        Self::DeadServersBatchDropped,
        Self::BatchUnknownApplied,
        Self::BatchUnknownNotApplied,
        Self::BatchFenced,
        Self::BatchPartlyFenced,
        Self::ZombieWoke,
        Self::ShardStolen,
        Self::ShardLeft,
        Self::StartAdopted,
        Self::AdoptedStartHeld,
        Self::NeverReceived,
        Self::StaleOutcome,
        Self::WorkerLost,
        Self::LateResultForLost,
        Self::Overdue,
        Self::QueueTimeout,
        Self::GiveBacksUsedUp,
        Self::ExceptedFailure,
        Self::Quarantined,
        Self::DeleteBeforeStart,
        Self::DeleteRefusedStarted,
        Self::CancelWhileStarting,
        Self::CancelAsked,
        Self::RunNow,
        Self::Rerun,
        Self::FullWindow,
        Self::VoidStart,
        Self::VoidOrder,
        Self::StaleAssignmentRefused,
        Self::HelloOutdated,
        Self::HelloOvertaken,
        Self::NoFreeSlot,
        Self::HintLost,
        Self::HintLate,
        Self::HintTwice,
        Self::SpoolReplayed,
        Self::WorkerInvited,
        Self::ServerLeftByWorker,
        Self::OutcomeRepeated,
        Self::SubmitReplayed,
        Self::CommandNotOwner,
        Self::MessageLost,
        Self::StaleRead,
        Self::CreditMoved,
        Self::LaneOvertaken,
        Self::LaneInDoubtAlone,
        Self::ShardRetired,
        Self::ShardRetiredLoudly,
        Self::SelfFenced,
        Self::ArrivalAwaited,
        Self::AgentReported,
        Self::AgentRefused,
        Self::SchedulesInDoubt,
        Self::VerdictVoid,
        Self::OccurrenceQueued,
        Self::OccurrenceSkipped,
        Self::OccurrencePaused,
        Self::OccurrenceReplayed,
        Self::OccurrenceMissed,
        Self::QueuedReleased,
        Self::ScheduleEdited,
        Self::Replanned,
        Self::CalendarMissed,
        Self::OccurrenceClosed,
        Self::OccurrenceInGap,
        Self::OccurrenceUsedUp,
        Self::ManualQueued,
        Self::QueueCleared,
        Self::OccurrencesMerged,
        Self::RecoveryTold,
        Self::LatenessTold,
        Self::RunGateDecided,
        Self::RunNodeSkipped,
        Self::RunCancelled,
        Self::RunResumed,
        Self::RunNodeAgain,
        Self::RunListFannedOut,
        Self::RunRequestRefused,
        Self::RunOfJob,
        Self::RunOfJobStartedBefore,
        Self::RunOfJobReportedAgain,
        Self::PauseInForce,
    ];
}

#[derive(Debug, Clone, Default)]
pub struct Coverage(BTreeMap<Window, u64>);

impl Coverage {
    pub fn hit(&mut self, window: Window) {
        *self.0.entry(window).or_default() += 1;
    }

    pub fn of(&self, window: Window) -> u64 {
        self.0.get(&window).copied().unwrap_or(0)
    }

    pub fn add(&mut self, other: &Self) {
        for (&window, hits) in &other.0 {
            *self.0.entry(window).or_default() += hits;
        }
    }

    pub fn missed(&self) -> Vec<Window> {
        Window::ALL.into_iter().filter(|&window| self.of(window) == 0).collect()
    }

    pub fn table(&self) -> String {
        Window::ALL.into_iter().map(|window| format!("{:>9}  {window:?}\n", self.of(window))).collect()
    }
}

impl Coverage {
    /// Adds what can be told from the history alone.
    pub(crate) fn add_history(&mut self, history: &History) {
        let mut tasks = BTreeMap::new();
        for (_, fact) in history.iter() {
            match fact {
                Fact::Submit { jobs, task, .. } => tasks.extend(jobs.iter().map(|id| (*id, task))),
                Fact::Committed { batch, void } => {
                    for write in &batch.writes {
                        self.add_write(write, void);
                        if let Write::Job(JobWrite::Settle(settle)) = write
                            && tasks.get(&settle.key.id).is_some_and(|task| is_excepted(settle, task))
                        {
                            self.hit(Window::ExceptedFailure);
                        }
                    }
                }
                Fact::Answer { reply: Reply::Done(JobState::Deleted), .. } => self.hit(Window::DeleteBeforeStart),
                Fact::Answer { reply: Reply::Refused(_, Refusal::AlreadyStarted), .. } => {
                    self.hit(Window::DeleteRefusedStarted);
                }
                Fact::Answer { reply: Reply::Asked, .. } => self.hit(Window::CancelAsked),
                _ => {}
            }
        }
    }

    fn add_verdict(&mut self, decision: &Decision, void: &Void) {
        let row = &decision.occurrence;
        if void.occurrences.contains(&(row.schedule, row.at)) {
            self.hit(Window::VerdictVoid);
        }
        if row.marks.has(Marks::MANUAL) && row.verdict == Verdict::Queued {
            self.hit(Window::ManualQueued);
        }
        match row.verdict {
            Verdict::Fired if row.marks.has(Marks::REPLAYED) => self.hit(Window::OccurrenceReplayed),
            Verdict::Queued => self.hit(Window::OccurrenceQueued),
            Verdict::SkippedOverlap => self.hit(Window::OccurrenceSkipped),
            Verdict::SkippedPaused => self.hit(Window::OccurrencePaused),
            Verdict::Missed => self.hit(Window::OccurrenceMissed),
            Verdict::SkippedCalendar => self.hit(Window::OccurrenceClosed),
            Verdict::SkippedGap => self.hit(Window::OccurrenceInGap),
            Verdict::Fired if row.count > 1 => self.hit(Window::OccurrencesMerged),
            Verdict::Fired | Verdict::SkippedByRequest | Verdict::SkippedMaxRuns => {}
        }
    }

    fn add_write(&mut self, write: &Write, void: &Void) {
        match write {
            Write::Job(JobWrite::Start(start)) if void.jobs.contains(&start.key.id) => self.hit(Window::VoidStart),
            Write::Job(
                JobWrite::Settle(Settle { key, attempt: None, .. })
                | JobWrite::Requeue(Requeue { key, attempt: None, .. }),
            ) if void.jobs.contains(&key.id) => {
                self.hit(Window::VoidOrder);
            }
            Write::Job(JobWrite::Settle(settle)) => {
                match (settle.state, &settle.attempt, &settle.reason) {
                    (JobState::Quarantined, _, _) => self.hit(Window::Quarantined),
                    (JobState::Failed, None, Some(_)) => self.hit(Window::QueueTimeout),
                    _ => {}
                }
                if settle.notice.as_ref().is_some_and(|notice| notice.kind == NoticeKind::Recovered) {
                    self.hit(Window::RecoveryTold);
                }
                if let Some(record) = &settle.attempt {
                    self.add_ending(record, settle.state);
                }
            }
            Write::Job(JobWrite::Requeue(requeue)) => match &requeue.attempt {
                Some(record) => self.add_ending(record, JobState::Scheduled),
                None => self.hit(Window::RunNow),
            },
            Write::Job(JobWrite::Rerun(_)) => self.hit(Window::Rerun),
            Write::Job(JobWrite::ResolveLost(_)) => self.hit(Window::LateResultForLost),
            Write::Job(JobWrite::Stale(_)) => self.hit(Window::StaleOutcome),
            Write::Job(JobWrite::Start(_) | JobWrite::RequestCancel { .. } | JobWrite::CloseStarts(_))
            | Write::Schedule(
                ScheduleWrite::Add(_)
                | ScheduleWrite::Set { change: None, .. }
                | ScheduleWrite::Drop { .. }
                | ScheduleWrite::StartedLate(_)
                | ScheduleWrite::Watermark { .. },
            ) => {}
            Write::Notice(_) => self.hit(Window::LatenessTold),
            Write::Schedule(ScheduleWrite::Edit { .. }) => self.hit(Window::ScheduleEdited),
            Write::Schedule(ScheduleWrite::Set { change: Some(change), .. }) => {
                if change.kind == ChangeKind::QueueCleared {
                    self.hit(Window::QueueCleared);
                }
            }
            Write::Schedule(ScheduleWrite::Release(decision)) => {
                self.hit(Window::QueuedReleased);
                if decision.occurrence.verdict == Verdict::SkippedMaxRuns {
                    self.hit(Window::OccurrenceUsedUp);
                }
            }
            Write::Schedule(ScheduleWrite::Decide(decision)) => self.add_verdict(decision, void),
        }
    }

    fn add_ending(&mut self, record: &AttemptRecord, state: JobState) {
        let reason = record.reason.as_deref().unwrap_or_default();
        match record.ending {
            Ending::WorkerLost => self.hit(Window::WorkerLost),
            Ending::NotStarted if state == JobState::Cancelled => self.hit(Window::CancelWhileStarting),
            Ending::NotStarted if state == JobState::Failed => self.hit(Window::GiveBacksUsedUp),
            Ending::NotStarted if reason.contains("never received") => self.hit(Window::NeverReceived),
            Ending::TimedOut if reason.contains("grace period") => self.hit(Window::Overdue),
            _ => {}
        }
    }
}

fn is_excepted(settle: &Settle, task: &Task) -> bool {
    let TaskSpec { retry, delivery, .. } = &task.spec;
    let details = settle.attempt.as_ref().and_then(|record| record.details.as_deref());
    settle.state == JobState::Failed
        && *delivery == DeliveryMode::AtLeastOnce
        && settle.counters.failures <= retry.max
        && details.and_then(|details| details.class).is_some_and(|class| retry.except.contains(class))
}
