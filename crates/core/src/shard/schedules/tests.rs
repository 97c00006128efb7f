//! Facts about schedules, one step at a time. The simulator looks for what these did not think of.

mod changes;
mod late;
mod missed;
mod overlaps;

use crate::NamespaceId;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::attempt::{AttemptNo, Failure, Outcome};
use crate::id::{JobId, ScheduleId, ServerId, ShardId, TaskId, WorkerId};
use crate::schedule::{
    NewSchedule, OccurrenceRow, Plan, ScheduleCommand, ScheduleEdit, ScheduleReply, ScheduleSpec, ScheduleState,
    Source, SourceKind, Verdict, seed_of,
};
use crate::shard::event::{Event, LoadedSchedule, Made, Report, Send, StreamId, TakenSchedules, Token, WorkerSpec};
use crate::shard::write::{Batch, Decision, Epoch, ScheduleWrite, Void, Write};
use crate::shard::{Answer, Ask, Config, Owner};
use crate::task::{Probe, Run, Task, TaskSpec};
use crate::time::{Span, Timestamp};

const SHARD: ShardId = ShardId(0);
const EVERY: &str = "schedule";

fn at(text: &str) -> Timestamp {
    Timestamp::parse(&format!("2026-11-15T{text}Z")).unwrap()
}

fn secs(secs: i64) -> Span {
    Span::from_secs(secs)
}

fn spec(rule: &str) -> ScheduleSpec {
    let when = punctual_recurrence::ScheduleSpec::new(rule.parse().unwrap(), "UTC");
    ScheduleSpec::new(when)
}

/// An owner of one shard with one worker, and what the store has of it.
struct Bench {
    owner: Owner,
    now: Timestamp,
    task: Arc<Task>,
    ledger: BTreeMap<Timestamp, OccurrenceRow>,
    states: BTreeMap<ScheduleId, ScheduleState>,
    watermark: Timestamp,
    replies: Vec<ScheduleReply>,
    /// What runs, with its attempt.
    running: Vec<(JobId, AttemptNo)>,
    cancels: Vec<JobId>,
    writes: Vec<Write>,
}

impl Bench {
    fn new(now: Timestamp) -> Self {
        let task = Task {
            namespace: NamespaceId::DEFAULT,
            id: TaskId::new(now, 1),
            name: None,
            revision: 1,
            created_at: now,
            updated_at: now,
            spec: TaskSpec::new(Run::Probe(Probe::default())),
            waits_for: None,
            created_by: None,
            changed_by: None,
        };
        let owner = Owner::new(ServerId::new(now, 1), Config::default(), 7);
        let mut bench = Self {
            owner,
            now,
            task: Arc::new(task),
            ledger: BTreeMap::new(),
            states: BTreeMap::new(),
            watermark: Timestamp::EPOCH,
            replies: Vec::new(),
            running: Vec::new(),
            cancels: Vec::new(),
            writes: Vec::new(),
        };
        bench.acquire(Epoch(1), TakenSchedules::default(), Vec::new());
        bench
    }

    fn acquire(&mut self, epoch: Epoch, schedules: TakenSchedules, rows: Vec<LoadedSchedule>) {
        let acquired =
            Event::Acquired { shard: SHARD, epoch, running: vec![], spent: vec![], whole_since: Epoch(0), schedules };
        self.owner.handle(acquired, self.now);
        let load = self.owner.take_effects().schedule_loads.pop().expect("a takeover reads schedules");
        self.owner.handle(Event::Schedules { load, rows, next: None, calendars: 0 }, self.now);
        let spec = WorkerSpec {
            namespaces: crate::namespace::ServedNamespaces::All,
            queues: vec!["default".into()],
            capabilities: vec!["probe".into()],
            labels: BTreeMap::default(),
            credit: 100,
        };
        let worker = WorkerId::new(Timestamp::EPOCH, 1);
        self.owner.handle(Event::WorkerHello { worker, stream: StreamId(epoch.0), spec, held: vec![] }, self.now);
    }

    fn made(&self, spec: &ScheduleSpec) -> Made {
        let seed = seed_of(EVERY);
        let plan = Plan::new(spec.clone(), &BTreeMap::new(), seed).unwrap();
        Made { plan: Arc::new(plan), task: Arc::clone(&self.task), calendars: 0 }
    }

    /// What a store returns for this schedule.
    fn loaded(&self, id: ScheduleId, spec: &ScheduleSpec) -> LoadedSchedule {
        let Made { plan, task, .. } = self.made(spec);
        LoadedSchedule {
            id,
            plan,
            task,
            name: EVERY.into(),
            priority: None,
            has_input: false,
            state: self.states[&id].clone(),
        }
    }

    fn edit(&self, spec: &ScheduleSpec) -> ScheduleEdit {
        let spec = serde_json::to_string(spec).unwrap().into();
        ScheduleEdit { task: self.task.id, spec, calendars: vec![], priority: None, input: None }
    }

    fn create(&mut self, spec: &ScheduleSpec) -> ScheduleId {
        let id = ScheduleId::new(self.now, SHARD, 1);
        let new = NewSchedule { namespace: NamespaceId::DEFAULT, id, name: EVERY.to_owned(), edit: self.edit(spec) };
        let made = Some(self.made(spec));
        self.tell(id, ScheduleCommand::Create(Box::new(new)), made);
        assert_eq!(self.replies.pop(), Some(ScheduleReply::Done { revision: 1 }));
        id
    }

    fn tell(&mut self, id: ScheduleId, command: ScheduleCommand, made: Option<Made>) {
        let event = Event::Ask { token: Token(1), ask: Ask::Schedule { id, command, who: "me".to_owned() }, made };
        self.owner.handle(event, self.now);
        self.settle();
    }

    fn ask(&mut self, id: ScheduleId, command: ScheduleCommand) -> ScheduleReply {
        self.tell(id, command, None);
        self.replies.pop().expect("it is answered when it is durable")
    }

    /// Lets everything that was decided commit, and what follows from it happen.
    fn settle(&mut self) {
        self.owner.tick(self.now);
        while let Some(batch) = self.owner.take_batch(self.now) {
            let void = self.store(&batch);
            self.owner.committed(batch.seq, &void, self.now);
            self.owner.tick(self.now);
        }
        let effects = self.owner.take_effects();
        self.replies.extend(effects.answers.into_iter().filter_map(|(_, answer)| match answer {
            Answer::Schedule(reply) => Some(reply),
            Answer::NotOwner | Answer::Job(_) | Answer::Agent(_) | Answer::Gang(_) => None,
        }));
        for (_, _, send) in effects.sends {
            match send {
                Send::Assign(assignment) => self.running.push((assignment.key.id, assignment.attempt)),
                Send::Cancel { id, .. } => self.cancels.push(id),
                Send::Ack { .. } | Send::Stop { .. } | Send::Credit(_) | Send::Demand(_) => {}
            }
        }
    }

    /// What a store does with it.
    fn store(&mut self, batch: &Batch) -> Void {
        let mut void = Void::default();
        for write in &batch.writes {
            self.writes.push(write.clone());
            match write {
                Write::Schedule(ScheduleWrite::Add(row)) => drop(self.states.insert(row.id, row.state.clone())),
                Write::Schedule(ScheduleWrite::Edit { id, state, .. } | ScheduleWrite::Set { id, state, .. }) => {
                    self.states.insert(*id, state.clone());
                }
                Write::Schedule(ScheduleWrite::Decide(decision)) => {
                    let Decision { occurrence, .. } = &**decision;
                    if self.ledger.contains_key(&occurrence.at) {
                        void.occurrences.push((occurrence.schedule, occurrence.at));
                        continue;
                    }
                    self.ledger.insert(occurrence.at, occurrence.clone());
                }
                Write::Schedule(ScheduleWrite::Release(decision)) => {
                    self.ledger.insert(decision.occurrence.at, decision.occurrence.clone());
                }
                Write::Schedule(ScheduleWrite::StartedLate(late)) => {
                    let row = self.ledger.get_mut(&late.at).expect("a time that runs has its row");
                    row.started_at = Some(late.started_at);
                    row.marks = row.marks.with(late.marks);
                }
                Write::Schedule(ScheduleWrite::Watermark { at, .. }) => self.watermark = *at,
                _ => {}
            }
        }
        void
    }

    /// Advances the time to a moment, stopping whenever the owner wants to be woken.
    fn pass_until(&mut self, until: Timestamp) {
        while self.now < until {
            let wake = self.owner.next_wake().max(self.now + Span::from_micros(1));
            self.now = wake.min(until);
            let workers = vec![WorkerId::new(Timestamp::EPOCH, 1)];
            self.owner.handle(Event::WorkersAlive { workers }, self.now);
            self.settle();
        }
    }

    /// Ends all running jobs.
    fn finish(&mut self, outcome: &Outcome) {
        let worker = WorkerId::new(Timestamp::EPOCH, 1);
        let report = |(id, attempt)| Report { id, attempt, outcome: outcome.clone(), timed_out: false, details: None };
        let reports = std::mem::take(&mut self.running).into_iter().map(report).collect();
        self.owner.handle(Event::Outcomes { worker, reports }, self.now);
        self.settle();
    }

    fn verdicts(&self) -> Vec<(Timestamp, Verdict)> {
        self.ledger.values().map(|row| (row.at, row.verdict)).collect()
    }

    fn count(&self, verdict: Verdict) -> usize {
        self.ledger.values().filter(|row| row.verdict == verdict).count()
    }

    /// The server dies, and another one takes over at `when` with what the store has.
    fn take_over(&mut self, id: ScheduleId, spec: &ScheduleSpec, when: Timestamp) {
        self.take_over_quietly(id, spec, when);
        self.settle();
    }

    /// Takes over a shard while none of its decisions is durable yet.
    fn take_over_quietly(&mut self, id: ScheduleId, spec: &ScheduleSpec, when: Timestamp) {
        self.now = when;
        self.owner = Owner::new(ServerId::new(when, 2), Config::default(), 8);
        let row = self.loaded(id, spec);
        let queued = self.ledger.values().filter(|row| row.verdict == Verdict::Queued).cloned().collect();
        let tracked = if spec.is_tracked() {
            self.running.iter().map(|(job, _)| (source_of(id, job.due_at()), *job)).collect()
        } else {
            vec![]
        };
        self.acquire(Epoch(2), TakenSchedules { watermark: self.watermark, queued, tracked }, vec![row]);
        self.owner.tick(self.now);
    }
}

fn source_of(schedule: ScheduleId, at: Timestamp) -> Source {
    Source { schedule, at, kind: SourceKind::Planned, is_tracked: true }
}

fn succeeded() -> Outcome {
    Outcome::Succeeded { output: None }
}

fn failed() -> Outcome {
    Outcome::Failed(Failure { last: crate::attempt::Last::Yes, ..Failure::new("no luck") })
}

#[test]
fn a_planned_time_fires_at_its_moment_and_not_a_microsecond_before() {
    let mut bench = Bench::new(at("12:00:30"));
    bench.create(&spec("*/5 * * * *"));
    bench.pass_until(at("12:04:59.999999"));
    assert!(bench.ledger.is_empty() && bench.running.is_empty());
    assert_eq!(bench.owner.next_wake(), at("12:05:00"));
    bench.pass_until(at("12:05:00"));
    assert_eq!(bench.verdicts(), [(at("12:05:00"), Verdict::Fired)]);
    let (job, _) = bench.running[0];
    assert_eq!((job.due_at(), bench.ledger[&at("12:05:00")].job), (at("12:05:00"), Some(job)));
    bench.pass_until(at("12:20:00"));
    assert_eq!(bench.running.len(), 4);
    assert_eq!(bench.watermark, at("12:20:00"), "it goes along with the start");
}

#[test]
fn jitter_delays_each_run_by_a_stable_time_within_its_window() {
    let mut spec = spec("* * * * *");
    spec.when.jitter = Some(jiff::SignedDuration::from_secs(150));
    let mut bench = Bench::new(at("12:00:30"));
    bench.create(&spec);
    bench.pass_until(at("12:30:00"));
    let plan = Plan::new(spec, &BTreeMap::new(), seed_of(EVERY)).unwrap();
    let times = plan.times_after(at("11:50:00"), seed_of(EVERY));
    let expected: Vec<Timestamp> = times
        .take_while(|planned| planned.at < at("12:30:00"))
        .filter(|planned| planned.slot > at("12:00:30") && planned.slot <= at("12:30:00"))
        .map(|planned| planned.at)
        .collect();
    let fired: Vec<Timestamp> = bench.ledger.keys().copied().collect();
    assert_eq!(fired, expected, "also those whose minute came before it was created");
    for row in bench.ledger.values() {
        assert_eq!(row.job.unwrap().due_at(), row.slot);
        assert!(row.slot.since(row.at) < secs(150) && row.decided_at == row.slot);
    }
}

#[test]
fn a_limited_number_of_runs_is_kept_also_over_a_takeover() {
    let limited = ScheduleSpec { max_runs: Some(3), ..spec("* * * * *") };
    let mut bench = Bench::new(at("12:00:30"));
    let id = bench.create(&limited);
    bench.pass_until(at("12:02:10"));
    // The store counts.
    let counted = bench.writes.iter().filter(
        |write| matches!(write, Write::Schedule(ScheduleWrite::Decide(decision)) if decision.job.as_ref().is_some_and(|job| job.is_counted)),
    );
    bench.states.get_mut(&id).unwrap().runs = counted.count() as u32;
    bench.take_over(id, &limited, at("12:02:20"));
    bench.pass_until(at("12:20:00"));
    assert_eq!(bench.verdicts().len(), 3);
}

#[test]
fn an_entry_is_small() {
    // A million of them: with its place in the map, its timer and its name, some 170 bytes each.
    assert!(size_of::<super::table::ScheduleEntry>() <= 96, "{}", size_of::<super::table::ScheduleEntry>());
}
