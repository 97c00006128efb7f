//! Delete, cancel, run now and rerun: decided here, in the owner's one order, and
//! answered when they are durable.

use crate::id::{JobId, ShardId};
use crate::job::Counters;
use crate::lifecycle::{self, JobEvent, JobState, Next};
use crate::shard::answers::Forgotten;
use crate::shard::event::{Command, Found, Refusal, Reply, Token};
use crate::shard::live::{Live, Shard, Stage};
use crate::shard::lookups::{Lookup, OpenLookup};
use crate::shard::write::{CancelMark, JobWrite, Requeue, Rerun, Settle};
use crate::shard::{Answer, Owner, planted};

impl Command {
    const fn event(self) -> JobEvent {
        match self {
            Self::Delete => JobEvent::Delete,
            Self::Cancel => JobEvent::Cancel,
            Self::RunNow => JobEvent::RunNow,
            Self::Rerun | Self::RerunOnce(_) => JobEvent::Rerun,
        }
    }
}

impl Owner {
    pub(super) fn command(&mut self, token: Token, id: JobId, command: Command) {
        let Some(shard) = self.shard_mut(id.shard()).filter(|shard| !shard.is_retiring) else {
            self.answer_now(token, Answer::NotOwner);
            return;
        };
        let is_ending = shard.jobs.get(&id).is_some_and(|live| matches!(live.stage, Stage::Ending { .. }));
        if is_ending || shard.busy.contains(&id) {
            shard.deferred.push((token, id, command));
            return;
        }
        let Some(live) = shard.jobs.get(&id) else {
            self.look_up(id, Lookup::Command { token, command });
            return;
        };
        match live.stage {
            Stage::Waiting | Stage::Ready => self.command_waiting(token, id, command),
            Stage::Starting(_) | Stage::Running(_) => self.command_running(token, id, command),
            Stage::Ending { .. } => unreachable!("deferred above"),
        }
    }

    fn command_waiting(&mut self, token: Token, id: JobId, command: Command) {
        let now = self.now;
        let live = self.live(id);
        let (key, counters, give_backs) = (live.key, live.counters, live.give_backs.clone());
        match command {
            // A job that waits for a retry has started before.
            Command::Delete if counters.has_started() => {
                self.refuse(token, JobState::Scheduled, Refusal::AlreadyStarted);
            }
            Command::Delete | Command::Cancel => {
                let state = self.settle_waiting(id, command.event(), None);
                self.reply_after(id, token, Reply::Done(state));
            }
            Command::RunNow if key.due_at <= now => {
                self.answer_now(token, Reply::Done(JobState::Scheduled));
            }
            Command::RunNow => {
                self.dequeue(id);
                self.live_mut(id).stage = Stage::MOVING;
                let cancel = CancelMark::None;
                self.push(JobWrite::Requeue(Requeue { key, due_at: now, counters, give_backs, attempt: None, cancel }));
                self.reply_after(id, token, Reply::Done(JobState::Scheduled));
            }
            Command::Rerun | Command::RerunOnce(_) => {
                self.refuse(token, JobState::Scheduled, Refusal::NotFinished);
            }
        }
    }

    fn command_running(&mut self, token: Token, id: JobId, command: Command) {
        #[cfg(feature = "planted-bugs")]
        if command == Command::Delete && planted!(self.config, DeleteIgnoresRunning) {
            self.delete_running(token, id);
            return;
        }
        match lifecycle::next(JobState::Running, command.event()) {
            Next::Ask => {
                let live = self.live_mut(id);
                let key = live.key;
                match &mut live.stage {
                    // Not sent yet: it is taken back as soon as its start is durable.
                    Stage::Starting(run) => {
                        run.cancel = CancelMark::Recorded;
                        self.reply_after(id, token, Reply::Done(JobState::Cancelled));
                    }
                    Stage::Running(run) if run.cancel == CancelMark::Recorded => {
                        // An earlier request to cancel may still be on its way to the store.
                        if self.answers.has_command(id) {
                            self.answers.add_command(id, token, Reply::Asked);
                        } else {
                            self.answer_now(token, Reply::Asked);
                        }
                    }
                    Stage::Running(run) => {
                        run.cancel = CancelMark::Recorded;
                        self.push(JobWrite::RequestCancel { key });
                        self.reply_after(id, token, Reply::Asked);
                    }
                    Stage::Waiting | Stage::Ready | Stage::Ending { .. } => {
                        unreachable!("only called for a job with an attempt")
                    }
                }
            }
            Next::Refused | Next::Stale | Next::To(_) => {
                let refusal = match command {
                    Command::Rerun | Command::RerunOnce(_) => Refusal::NotFinished,
                    Command::Delete | Command::Cancel | Command::RunNow => Refusal::AlreadyStarted,
                };
                self.refuse(token, JobState::Running, refusal);
            }
        }
    }

    /// The answer to a lookup. The job may have come into memory meanwhile.
    pub(super) fn found(&mut self, token: Token, id: JobId, found: Found) {
        let Some(OpenLookup { epoch, read, lookup }) = self.lookups.answered(token) else { return };
        let ghosts = planted!(self.config, GhostRows);
        // Asked under an older epoch, it says nothing about what was taken over since.
        let is_ours = |shard: &&mut Shard| shard.epoch == epoch && !shard.is_retiring;
        let is_outdated = match self.shard_mut(id.shard()).filter(is_ours) {
            None => {
                if let Lookup::Command { token, .. } = lookup {
                    self.answer_now(token, Answer::NotOwner);
                }
                return;
            }
            Some(shard) => {
                let moved_on = shard.jobs.contains_key(&id)
                    || shard.busy.contains(&id)
                    || (shard.sweeps.is_outdated(read, id) && !ghosts);
                shard.sweeps.end_read(read);
                moved_on
            }
        };
        match lookup {
            Lookup::Command { token, command } if is_outdated => self.command(token, id, command),
            Lookup::LateReport { worker, report } if is_outdated => self.report(worker, report),
            Lookup::LateReport { worker, report } => self.late_report(worker, report, found),
            Lookup::Held { worker, attempt } if is_outdated => self.stop_if_superseded(worker, id, attempt),
            Lookup::Held { worker, attempt } => self.stop_if_over(worker, id, attempt, &found),
            Lookup::Command { token, command } => self.command_found(token, id, command, found),
        }
    }

    fn command_found(&mut self, token: Token, id: JobId, command: Command, found: Found) {
        match found {
            Found::Absent => self.answer_now(token, Reply::NotFound),
            Found::Waiting(job) => {
                // Taken into memory for the command alone, outside the window's count:
                // the commit takes it out again.
                let pool = self.fleet.pool_of(&job.task);
                let mut live = Live::new(job, pool, self.now);
                live.stage = Stage::MOVING;
                self.command_far(token, id, command, live);
            }
            Found::Finished { state, counters, .. } => {
                self.command_finished(token, id, command, state, counters);
            }
        }
    }

    /// A command on a job that waits outside the window.
    fn command_far(&mut self, token: Token, id: JobId, command: Command, live: Live) {
        let (now, key, counters) = (self.now, live.key, live.counters);
        let cancel = CancelMark::None;
        let (write, reply) = match command {
            Command::Delete if counters.has_started() => {
                return self.refuse(token, JobState::Scheduled, Refusal::AlreadyStarted);
            }
            Command::Rerun | Command::RerunOnce(_) => {
                return self.refuse(token, JobState::Scheduled, Refusal::NotFinished);
            }
            Command::Delete | Command::Cancel => {
                let Next::To(state) = lifecycle::next(JobState::Scheduled, command.event()) else {
                    unreachable!("{command:?} ends a scheduled job in the transition table")
                };
                let settle = Settle {
                    key,
                    state,
                    finished_at: now,
                    counters,
                    attempt: None,
                    reason: None,
                    output: None,
                    cancel,
                    notice: None,
                    success_of: None,
                    node: live.node.clone(),
                    member: live.member.clone(),
                };
                (JobWrite::Settle(settle), Reply::Done(state))
            }
            Command::RunNow if key.due_at <= now => {
                return self.answer_now(token, Reply::Done(JobState::Scheduled));
            }
            Command::RunNow => {
                let give_backs = live.give_backs.clone();
                let requeue = Requeue { key, due_at: now, counters, give_backs, attempt: None, cancel };
                (JobWrite::Requeue(requeue), Reply::Done(JobState::Scheduled))
            }
        };
        let shard = self.shard_mut(id.shard()).expect("the job's shard is owned");
        shard.jobs.insert(id, live);
        self.push(write);
        self.reply_after(id, token, reply);
    }

    fn command_finished(&mut self, token: Token, id: JobId, command: Command, state: JobState, counters: Counters) {
        match lifecycle::next(state, command.event()) {
            Next::To(_) if matches!(command, Command::RerunOnce(next) if next < counters.next_attempt) => {
                self.answer_now(token, Reply::Done(state));
            }
            Next::To(JobState::Scheduled) => {
                let due_at = self.now;
                self.set_busy(id);
                self.push(JobWrite::Rerun(Rerun { id, due_at, counters: counters.fresh() }));
                self.reply_after(id, token, Reply::Done(JobState::Scheduled));
            }
            Next::To(_) | Next::Ask | Next::Stale | Next::Refused => {
                // Asking twice for what is done is not a mistake.
                let is_repeated = matches!(
                    (command, state),
                    (Command::Delete, JobState::Deleted) | (Command::Cancel, JobState::Cancelled)
                );
                if is_repeated {
                    self.answer_now(token, Reply::Done(state));
                    return;
                }
                let refusal = match state {
                    JobState::Deleted => Refusal::Deleted,
                    _ => Refusal::AlreadyFinished,
                };
                self.refuse(token, state, refusal);
            }
        }
    }

    pub(super) fn look_up(&mut self, id: JobId, lookup: Lookup) {
        let shard = self.shards.get_mut(id.shard()).expect("lookups are for owned shards");
        let (epoch, read) = (shard.epoch, shard.sweeps.begin_read());
        let token = self.lookups.ask(OpenLookup { epoch, read, lookup });
        self.effects.lookups.push((token, id));
    }

    pub(super) fn set_busy(&mut self, id: JobId) {
        self.shard_mut(id.shard()).expect("the job's shard is owned").busy.insert(id);
    }

    fn refuse(&mut self, token: Token, state: JobState, refusal: Refusal) {
        self.answer_now(token, Reply::Refused(state, refusal));
    }

    /// Answers when the write that was just pushed for this job is durable.
    pub(super) fn reply_after(&mut self, id: JobId, token: Token, reply: Reply) {
        if planted!(self.config, AnswerBeforeDurable) {
            self.answer_now(token, reply);
            return;
        }
        self.answers.add_command(id, token, reply);
    }

    /// The shard is not ours any more: whoever waits for an answer asks the next owner.
    pub(super) fn answer_not_owner(&mut self, shard: ShardId, deferred: &[(Token, JobId, Command)]) {
        let Forgotten { tokens, slots } = self.answers.forget(shard);
        let deferred = deferred.iter().map(|(token, _, _)| *token);
        self.effects.answers.extend(tokens.into_iter().chain(deferred).map(|token| (token, Answer::NotOwner)));
        for (job, worker) in slots {
            self.fleet.release(worker, job);
        }
    }

    fn live(&self, id: JobId) -> &Live {
        self.shards.live(id).expect("the job is in memory")
    }

    pub(super) fn live_mut(&mut self, id: JobId) -> &mut Live {
        self.shards.live_mut(id).expect("the job is in memory")
    }
}
