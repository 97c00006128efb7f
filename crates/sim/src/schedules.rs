//! Schedules, and those who make, change and delete them while servers come and go.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use punctual_core::schedule::recurrence::Rule;
use punctual_core::schedule::{
    CatchUp, CatchUpMode, NewSchedule, Overlap, ScheduleCommand, ScheduleEdit, ScheduleSpec, recurrence, seed_of,
};
use punctual_core::shard::Answer;
use punctual_core::shard::event::{Made, Token};
use punctual_core::shard::write::{ScheduleWrite, SharedBatch, Void, Write};
use punctual_core::task::Task;
use punctual_core::{ScheduleId, ShardId, Span, Timestamp};

use crate::calendars::CALENDAR;
use crate::history::Fact;
use crate::server::ServerStep;
use crate::simulation::{Action, Health, Simulation};

/// Times of a schedule that runs one after the other, at most: all of them must have ended in the end.
const QUEUED_TIMES: i64 = 20;

const ASK_AGAIN: Span = Span::from_secs(2);

#[derive(Default)]
pub(crate) struct Schedules {
    /// Those that were asked for, with the tasks that they run.
    asked: BTreeMap<ScheduleId, Arc<Task>>,
    /// Creations that nobody has confirmed.
    unconfirmed: BTreeMap<ScheduleId, Box<NewSchedule>>,
    tokens: BTreeMap<Token, ScheduleId>,
    asked_count: u64,
    /// Until when any of them fires.
    end: Timestamp,
    now: Timestamp,
}

pub(crate) enum ScheduleStep {
    Create,
    /// Once more, under a new id: no answer came.
    CreateAgain(ScheduleId),
    Change,
    /// The calendar closes, or opens again.
    Flip,
    Answered {
        token: Token,
        answer: Answer,
    },
}

/// Clients count theirs from 1, and agents from 2 to the power of 62.
const TOKENS: std::ops::Range<u64> = 1 << 61..1 << 62;

impl Schedules {
    /// Whether it was about a schedule that this was asked.
    pub(crate) fn have_asked(token: Token) -> bool {
        TOKENS.contains(&token.0)
    }

    pub(crate) fn all(&self) -> Vec<ScheduleId> {
        self.asked.keys().copied().collect()
    }

    pub(crate) fn set_now(&mut self, now: Timestamp) {
        self.now = now;
    }

    pub(crate) fn are_over(&self) -> bool {
        self.asked.is_empty() || self.now > self.end + Span::from_secs(30)
    }
}

impl Simulation {
    pub(crate) fn plan_schedules(&mut self) {
        let chaos_ms = self.plan.chaos.as_micros() / 1000;
        self.schedules.end = self.now + self.plan.chaos + Span::from_secs(20);
        let count = *self.rng.pick(&[0, 2, 4, 8, 12]);
        for _ in 0..count {
            let at = self.rng.millis(0, chaos_ms / 2);
            self.after(at, Action::Schedules(ScheduleStep::Create));
            for _ in 0..self.rng.range(0, 4) {
                let at = self.rng.millis(chaos_ms / 4, chaos_ms);
                self.after(at, Action::Schedules(ScheduleStep::Change));
            }
        }
    }

    pub(crate) fn schedule_step(&mut self, step: ScheduleStep) {
        match step {
            ScheduleStep::Create => {
                let task = Arc::clone(self.rng.pick(&self.plan.tasks));
                let task = self.flows.instead(30, None).unwrap_or(task);
                // Now and then two of the same name, of which one may be stored.
                let name = format!("schedule-{}", self.rng.below(12));
                let edit = self.draw_edit(&task);
                self.create(task, name, edit);
            }
            ScheduleStep::CreateAgain(id) => {
                let unconfirmed = self.schedules.unconfirmed.remove(&id);
                if let Some(new) = unconfirmed.filter(|_| !self.is_calm()) {
                    let task = Arc::clone(&self.schedules.asked[&id]);
                    self.create(task, new.name, new.edit);
                }
            }
            ScheduleStep::Change => {
                let all = self.schedules.all();
                if !all.is_empty() {
                    let id = *self.rng.pick(&all);
                    let command = self.draw_change(id);
                    self.ask_schedule(id, command);
                }
            }
            ScheduleStep::Flip => self.flip_calendar(),
            ScheduleStep::Answered { token, answer } => {
                let Some(id) = self.schedules.tokens.remove(&token) else { return };
                if let Answer::Schedule(reply) = answer {
                    self.schedules.unconfirmed.remove(&id);
                    self.note(Fact::AnswerSchedule { token, reply });
                }
            }
        }
    }

    fn create(&mut self, task: Arc<Task>, name: String, edit: ScheduleEdit) {
        let shard = ShardId(self.rng.below(usize::from(self.plan.shards)) as u16);
        let id = ScheduleId::new(self.now, shard, self.rng.next());
        let new = Box::new(NewSchedule { namespace: task.namespace, id, name, edit });
        self.schedules.asked.insert(id, task);
        self.schedules.unconfirmed.insert(id, new.clone());
        self.ask_schedule(id, ScheduleCommand::Create(new));
        self.after(ASK_AGAIN, Action::Schedules(ScheduleStep::CreateAgain(id)));
    }

    fn draw_change(&mut self, id: ScheduleId) -> ScheduleCommand {
        match self.rng.below(10) {
            0 => ScheduleCommand::Delete,
            1 | 2 => ScheduleCommand::Pause { note: None },
            3 | 4 => ScheduleCommand::Resume { note: None },
            5 => ScheduleCommand::SkipNext { count: self.rng.range(1, 3) as u32 },
            6 => {
                let overlap = *self.rng.pick(&[
                    None,
                    None,
                    Some(Overlap::Allow),
                    Some(Overlap::Skip),
                    Some(Overlap::CancelPrevious),
                ]);
                ScheduleCommand::RunNow { overlap }
            }
            7 => ScheduleCommand::ClearQueue,
            _ => {
                let task = Arc::clone(&self.schedules.asked[&id]);
                let edit = self.draw_edit(&task);
                ScheduleCommand::Edit { revision: None, edit: Box::new(edit) }
            }
        }
    }

    fn draw_edit(&mut self, task: &Task) -> ScheduleEdit {
        let overlap = *self.rng.pick(&[
            Overlap::Allow,
            Overlap::Skip,
            Overlap::QueueOne,
            Overlap::QueueAll,
            Overlap::CancelPrevious,
        ]);
        let chaos_secs = self.plan.chaos.as_micros() / 1_000_000;
        let shortest = if overlap == Overlap::QueueAll { chaos_secs / QUEUED_TIMES } else { 2 };
        let every = self.rng.range(shortest.max(2), 25);
        let anchor = jiff::Timestamp::from_microsecond(self.now.as_micros()).expect("it is our time");
        let cron = |text: String| text.parse().expect("it is an expression");
        let rule = match self.rng.below(8) {
            0..4 => Rule::Interval { every: jiff::SignedDuration::from_secs(every), anchor: Some(anchor) },
            4 | 5 => cron(format!("*/{every} * * * * *")),
            // Fixed times, a whole hour of which the clocks leave out; and with others at its end or not.
            6 => cron(format!("*/{every} 0-59 1-4 * * *")),
            _ => cron(format!("*/{every} 0-59 1,2,4 * * *")),
        };
        let mut when = recurrence::ScheduleSpec::new(rule, "Europe/Berlin");
        when.gap = *self.rng.pick(&[recurrence::GapPolicy::Shift, recurrence::GapPolicy::Skip]);
        when.end_at = Some(jiff::Timestamp::from_microsecond(self.schedules.end.as_micros()).expect("likewise"));
        when.jitter = self.rng.percent(40).then(|| jiff::SignedDuration::from_secs(self.rng.range(1, 12)));
        let mut spec = ScheduleSpec::new(when);
        spec.overlap = overlap;
        spec.catch_up = CatchUp {
            mode: *self.rng.pick(&[CatchUpMode::None, CatchUpMode::Last, CatchUpMode::All]),
            max: self.rng.range(1, 6) as u32,
            window: self.rng.percent(80).then(|| Span::from_secs(self.rng.range(5, 120))),
            per_minute: *self.rng.pick(&[6, 60, 600]),
        };
        spec.max_runs = self.rng.percent(20).then(|| self.rng.range(1, 10) as u32);
        spec.pause_after_failures = self.rng.percent(20).then(|| self.rng.range(1, 4) as u16);
        spec.missed_after = self.rng.percent(30).then(|| Span::from_secs(self.rng.range(2, 30)));
        let obeys: Vec<String> = self.rng.percent(30).then(|| CALENDAR.to_owned()).into_iter().collect();
        spec.calendars.exclude.clone_from(&obeys);
        let spec = serde_json::to_string(&spec).expect("a spec is JSON");
        ScheduleEdit { task: task.id, spec: spec.into(), calendars: obeys, priority: None, input: None }
    }

    /// Asks whoever believes to own it, or somebody else now and then.
    fn ask_schedule(&mut self, id: ScheduleId, command: ScheduleCommand) {
        let is_owner = |place: &usize| {
            let server = &self.servers[*place];
            server.health != Health::Down && server.owner.owned_shards().iter().any(|(shard, _)| *shard == id.shard())
        };
        let owners: Vec<usize> = (0..self.servers.len()).filter(is_owner).collect();
        let is_astray = owners.is_empty() || self.rng.percent(5);
        let place = if is_astray { self.rng.below(self.servers.len()) } else { *self.rng.pick(&owners) };
        self.schedules.asked_count += 1;
        let token = Token(TOKENS.start + self.schedules.asked_count);
        self.schedules.tokens.insert(token, id);
        self.note(Fact::AskSchedule { token, id, command: command.clone() });
        let node = self.servers[place].node();
        let delay = self.rng.millis(0, self.plan.message_ms_max);
        self.after(delay, Action::Server(node, ServerStep::Schedule { token, id, command }));
    }

    /// What a server works out before it asks its owner.
    pub(crate) fn made(&self, id: ScheduleId, command: &ScheduleCommand) -> Option<Made> {
        let (edit, name) = match command {
            ScheduleCommand::Create(new) => (&new.edit, new.name.clone()),
            ScheduleCommand::Edit { edit, .. } => (&**edit, self.store.name_of(id)?),
            _ => return None,
        };
        let seed = seed_of(&name);
        let plan = self.store.plan(&edit.spec, seed);
        let calendars = self.store.calendar_changes() as u32;
        Some(Made { plan, task: Arc::clone(self.store.task(edit.task)), calendars })
    }

    /// What schedules make are jobs like others: everything that is promised of jobs is promised of them.
    pub(crate) fn jobs_of_schedules(&mut self, batch: &SharedBatch, void: &Void) {
        let void: BTreeSet<_> = void.occurrences.iter().copied().collect();
        for write in &batch.writes {
            let Write::Schedule(ScheduleWrite::Decide(decision) | ScheduleWrite::Release(decision)) = write else {
                continue;
            };
            let key = (decision.occurrence.schedule, decision.occurrence.at);
            let Some(job) = decision.job.as_ref().filter(|_| !void.contains(&key)) else { continue };
            let request = self.clients.add(job.id);
            let task = Arc::clone(self.store.task(job.task));
            self.note(Fact::Submit { request, jobs: vec![job.id], task });
            self.note(Fact::SubmitOk { request, jobs: vec![job.id] });
        }
    }
}
