//! The history of one job, in order.

use std::collections::BTreeMap;
use std::sync::Arc;

use punctual_core::attempt::{AttemptRecord, Details, Outcome};
use punctual_core::shard::event::{Command, Reply, Token};
use punctual_core::shard::write::{JobWrite, Requeue, Rerun, ResolveLost, Settle, Start, Void, Write};
use punctual_core::task::Task;
use punctual_core::{AttemptNo, JobId, Span, Timestamp, WorkerId};
use punctual_promises::StartRecord;
use punctual_store::JobRecord;

use crate::history::{Fact, History, How, job_of};

#[derive(Debug)]
pub struct Story<'a> {
    pub id: JobId,
    pub task: Arc<Task>,
    pub acknowledged_at: Option<Timestamp>,
    pub lines: Vec<(Timestamp, Line<'a>)>,
    /// When the run ended.
    pub end: Timestamp,
}

#[derive(Debug, Clone, Copy)]
pub enum Line<'a> {
    Started(&'a Start),
    Settled(&'a Settle),
    Requeued(&'a Requeue),
    Rerun(&'a Rerun),
    CancelRequested,
    Resolved(&'a ResolveLost),
    Stale(AttemptNo),
    Begin { attempt: AttemptNo, worker: WorkerId, start: StartRecord },
    End { attempt: AttemptNo, how: &'a How },
    Acked(AttemptNo),
    Asked { token: Token, command: Command },
    Answered { token: Token, reply: Reply },
    Neglected(Span),
    Orphaned(WorkerId, Span),
    Final(Option<&'a JobRecord>),
}

impl Story<'_> {
    /// What the worker said when the attempt was over.
    pub fn reported(&self, attempt: AttemptNo) -> Option<(Timestamp, &Outcome, bool)> {
        self.lines.iter().find_map(|(at, line)| match line {
            Line::End { attempt: of, how: How::Reported { outcome, timed_out, .. } } if *of == attempt => {
                Some((*at, outcome, *timed_out))
            }
            _ => None,
        })
    }

    /// What else the worker said then.
    pub fn reported_details(&self, attempt: AttemptNo) -> Option<&Details> {
        self.lines.iter().find_map(|(_, line)| match line {
            Line::End { attempt: of, how: How::Reported { details, .. } } if *of == attempt => details.as_deref(),
            _ => None,
        })
    }
}

impl<'a> Line<'a> {
    /// The attempt that this write ended.
    pub fn ended(&self) -> Option<&'a AttemptRecord> {
        match self {
            Self::Settled(settle) => settle.attempt.as_ref(),
            Self::Requeued(requeue) => requeue.attempt.as_ref(),
            _ => None,
        }
    }
}

pub(super) fn stories(history: &History) -> BTreeMap<JobId, Story<'_>> {
    let mut stories: BTreeMap<JobId, Story<'_>> = BTreeMap::new();
    let mut asked = BTreeMap::new();
    let end = history.iter().last().map_or(Timestamp::EPOCH, |(at, _)| at);
    for (at, fact) in history.iter() {
        match fact {
            Fact::Submit { jobs, task, .. } => {
                for &id in jobs {
                    let task = Arc::clone(task);
                    stories.insert(id, Story { id, task, acknowledged_at: None, lines: Vec::new(), end });
                }
            }
            Fact::SubmitOk { jobs, .. } => {
                for id in jobs {
                    let story = stories.get_mut(id).expect("only what was asked for is acknowledged");
                    story.acknowledged_at.get_or_insert(at);
                }
            }
            Fact::Ask { token, id, command } => {
                asked.insert(*token, *id);
                tell(&mut stories, *id, at, Line::Asked { token: *token, command: *command });
            }
            Fact::Answer { token, reply } => {
                tell(&mut stories, asked[token], at, Line::Answered { token: *token, reply: *reply });
            }
            Fact::Begin { id, attempt, worker, start } => {
                tell(&mut stories, *id, at, Line::Begin { attempt: *attempt, worker: *worker, start: *start });
            }
            Fact::End { id, attempt, how, .. } => tell(&mut stories, *id, at, Line::End { attempt: *attempt, how }),
            Fact::Acked { id, attempt } => tell(&mut stories, *id, at, Line::Acked(*attempt)),
            Fact::Took { batch, void } => {
                for write in &batch.writes {
                    if let (Some(id), Some(line)) = (job_of(write), line_of(write, void)) {
                        tell(&mut stories, id, at, line);
                    }
                }
            }
            Fact::Neglected { id, late } => tell(&mut stories, *id, at, Line::Neglected(*late)),
            Fact::Orphaned { id, worker, gone } => tell(&mut stories, *id, at, Line::Orphaned(*worker, *gone)),
            Fact::Final { id, record } => tell(&mut stories, *id, at, Line::Final(record.as_ref())),
            Fact::Joined { .. }
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
            | Fact::Told { .. }
            | Fact::Calendar { .. }
            | Fact::Ledger { .. }
            | Fact::Arrived { .. } => {}
        }
    }
    stories
}

fn tell<'a>(stories: &mut BTreeMap<JobId, Story<'a>>, id: JobId, at: Timestamp, line: Line<'a>) {
    if let Some(story) = stories.get_mut(&id) {
        story.lines.push((at, line));
    }
}

fn line_of<'a>(write: &'a Write, void: &Void) -> Option<Line<'a>> {
    Some(match write {
        Write::Job(
            JobWrite::Start(Start { key, .. })
            | JobWrite::Settle(Settle { key, attempt: None, .. })
            | JobWrite::Requeue(Requeue { key, attempt: None, .. }),
        ) if void.jobs.contains(&key.id) => {
            return None;
        }
        Write::Job(JobWrite::Start(start)) => Line::Started(start),
        Write::Job(JobWrite::Settle(settle)) => Line::Settled(settle),
        Write::Job(JobWrite::Requeue(requeue)) => Line::Requeued(requeue),
        Write::Job(JobWrite::Rerun(rerun)) => Line::Rerun(rerun),
        Write::Job(JobWrite::RequestCancel { .. }) => Line::CancelRequested,
        Write::Job(JobWrite::ResolveLost(resolve)) => Line::Resolved(resolve),
        Write::Job(JobWrite::Stale(stale)) => Line::Stale(stale.attempt),
        Write::Job(JobWrite::CloseStarts(_)) | Write::Schedule(_) | Write::Notice(_) => return None,
    })
}
