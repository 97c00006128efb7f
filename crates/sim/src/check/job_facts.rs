//! The facts of a history that are about one job, in order.

use std::collections::BTreeMap;
use std::sync::Arc;

use punctual_core::attempt::{AttemptRecord, Details, Outcome};
use punctual_core::shard::event::{Command, Reply, Token};
use punctual_core::shard::write::{JobWrite, Requeue, Rerun, ResolveLost, Settle, Start, Void, Write};
use punctual_core::task::Task;
use punctual_core::{AttemptNo, JobId, Timestamp, WorkerId};
use punctual_promises::StartRecord;
use punctual_store::JobRecord;

use crate::history::{ExecutionEnd, Fact, History, job_of};

#[derive(Debug)]
pub struct JobFacts<'a> {
    pub id: JobId,
    pub task: Arc<Task>,
    pub acknowledged_at: Option<Timestamp>,
    pub facts: Vec<(Timestamp, JobFact<'a>)>,
    /// When the run ended.
    pub end: Timestamp,
}

#[derive(Debug, Clone, Copy)]
pub enum JobFact<'a> {
    Started(&'a Start),
    Settled(&'a Settle),
    Requeued(&'a Requeue),
    Rerun(&'a Rerun),
    CancelRequested,
    Resolved(&'a ResolveLost),
    Stale(AttemptNo),
    Begin { attempt: AttemptNo, worker: WorkerId, start: StartRecord },
    End { attempt: AttemptNo, how: &'a ExecutionEnd },
    Acked(AttemptNo),
    Asked { token: Token, command: Command },
    Answered { token: Token, reply: Reply },
    Final(Option<&'a JobRecord>),
}

impl JobFacts<'_> {
    /// What the worker said when the attempt was over.
    pub fn reported(&self, attempt: AttemptNo) -> Option<(Timestamp, &Outcome, bool)> {
        self.facts.iter().find_map(|(at, fact)| match fact {
            JobFact::End { attempt: of, how: ExecutionEnd::Reported { outcome, timed_out, .. } } if *of == attempt => {
                Some((*at, outcome, *timed_out))
            }
            _ => None,
        })
    }

    /// What else the worker said then.
    pub fn reported_details(&self, attempt: AttemptNo) -> Option<&Details> {
        self.facts.iter().find_map(|(_, fact)| match fact {
            JobFact::End { attempt: of, how: ExecutionEnd::Reported { details, .. } } if *of == attempt => {
                details.as_deref()
            }
            _ => None,
        })
    }
}

impl<'a> JobFact<'a> {
    /// The attempt that this write ended.
    pub fn ended(&self) -> Option<&'a AttemptRecord> {
        match self {
            Self::Settled(settle) => settle.attempt.as_ref(),
            Self::Requeued(requeue) => requeue.attempt.as_ref(),
            _ => None,
        }
    }
}

pub(super) fn facts_by_job(history: &History) -> BTreeMap<JobId, JobFacts<'_>> {
    let mut facts_by_job: BTreeMap<JobId, JobFacts<'_>> = BTreeMap::new();
    let mut asked = BTreeMap::new();
    let end = history.iter().last().map_or(Timestamp::EPOCH, |(at, _)| at);
    for (at, fact) in history.iter() {
        match fact {
            Fact::Submit { jobs, task, .. } => {
                for &id in jobs {
                    let task = Arc::clone(task);
                    facts_by_job.insert(id, JobFacts { id, task, acknowledged_at: None, facts: Vec::new(), end });
                }
            }
            Fact::SubmitOk { jobs, .. } => {
                for id in jobs {
                    let job_facts = facts_by_job.get_mut(id).expect("only what was asked for is acknowledged");
                    job_facts.acknowledged_at.get_or_insert(at);
                }
            }
            Fact::Ask { token, id, command } => {
                asked.insert(*token, *id);
                add(&mut facts_by_job, *id, at, JobFact::Asked { token: *token, command: *command });
            }
            Fact::Answer { token, reply } => {
                add(&mut facts_by_job, asked[token], at, JobFact::Answered { token: *token, reply: *reply });
            }
            Fact::Begin { id, attempt, worker, start } => {
                add(&mut facts_by_job, *id, at, JobFact::Begin { attempt: *attempt, worker: *worker, start: *start });
            }
            Fact::End { id, attempt, how, .. } => {
                add(&mut facts_by_job, *id, at, JobFact::End { attempt: *attempt, how })
            }
            Fact::Acked { id, attempt } => add(&mut facts_by_job, *id, at, JobFact::Acked(*attempt)),
            Fact::Committed { batch, void } => {
                for write in &batch.writes {
                    if let (Some(id), Some(fact)) = (job_of(write), fact_of(write, void)) {
                        add(&mut facts_by_job, id, at, fact);
                    }
                }
            }
            Fact::Final { id, record } => add(&mut facts_by_job, *id, at, JobFact::Final(record.as_ref())),
            Fact::Joined { .. }
            | Fact::Neglected { .. }
            | Fact::Orphaned { .. }
            | Fact::Leased { .. }
            | Fact::Fenced { .. }
            | Fact::Broken { .. }
            | Fact::Fault(_)
            | Fact::WentBack { .. }
            | Fact::Healed
            | Fact::OverCredit { .. }
            | Fact::JobCount(_)
            | Fact::AskSchedule { .. }
            | Fact::AnswerSchedule { .. }
            | Fact::Notices { .. }
            | Fact::Calendar { .. }
            | Fact::Ledger { .. }
            | Fact::RunStarted { .. }
            | Fact::RunChanged { .. }
            | Fact::Released { .. }
            | Fact::RunFinal { .. }
            | Fact::BatchStored { .. }
            | Fact::BatchCancelled { .. }
            | Fact::CompensationStored { .. }
            | Fact::BatchFinal { .. }
            | Fact::Arrived { .. }
            | Fact::Queue { .. } => {}
        }
    }
    facts_by_job
}

fn add<'a>(facts_by_job: &mut BTreeMap<JobId, JobFacts<'a>>, id: JobId, at: Timestamp, fact: JobFact<'a>) {
    if let Some(job_facts) = facts_by_job.get_mut(&id) {
        job_facts.facts.push((at, fact));
    }
}

fn fact_of<'a>(write: &'a Write, void: &Void) -> Option<JobFact<'a>> {
    Some(match write {
        Write::Job(
            JobWrite::Start(Start { key, .. })
            | JobWrite::Settle(Settle { key, attempt: None, .. })
            | JobWrite::Requeue(Requeue { key, attempt: None, .. }),
        ) if void.jobs.contains(&key.id) => {
            return None;
        }
        Write::Job(JobWrite::Start(start)) => JobFact::Started(start),
        Write::Job(JobWrite::Settle(settle)) => JobFact::Settled(settle),
        Write::Job(JobWrite::Requeue(requeue)) => JobFact::Requeued(requeue),
        Write::Job(JobWrite::Rerun(rerun)) => JobFact::Rerun(rerun),
        Write::Job(JobWrite::RequestCancel { .. }) => JobFact::CancelRequested,
        Write::Job(JobWrite::ResolveLost(resolve)) => JobFact::Resolved(resolve),
        Write::Job(JobWrite::Stale(stale)) => JobFact::Stale(stale.attempt),
        Write::Job(JobWrite::CloseStarts(_)) | Write::Schedule(_) | Write::Notice(_) => return None,
    })
}
