//! Those who submit jobs and give orders. They write down what they asked and
//! what they were told, and nothing else: no answer means that they do not know.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use punctual_core::job::Input;
use punctual_core::shard::Answer;
use punctual_core::shard::event::{Command, Loaded, Token};
use punctual_core::task::{Priority, Task};
use punctual_core::{Counters, JobId, JobKey, JobRow, ShardId, Span, Timestamp};
use punctual_store::{IdempotencyKey, IdempotentAnswer, NewJob, Submission, Submitted};

use crate::coverage::Window;
use crate::history::{Fact, RequestNo};
use crate::options::Planted;
use crate::plan::START;
use crate::server::ServerStep;
use crate::simulation::{Action, Health, Node, Simulation};
use crate::storage::StoreCall;

#[derive(Default)]
pub(crate) struct Clients {
    /// Every job that was ever asked for, stored or not.
    jobs: Vec<JobId>,
    requests: u64,
    tokens: u64,
    unanswered: BTreeMap<Token, (JobId, Command)>,
    submitted: BTreeSet<RequestNo>,
}

#[derive(Clone)]
pub(crate) struct Request {
    no: RequestNo,
    task: Arc<Task>,
    jobs: Vec<NewJob>,
}

pub(crate) enum ClientStep {
    Submit {
        jobs: usize,
    },
    /// Nothing was heard: ask again under the same key.
    SubmitAgain {
        no: RequestNo,
        task: Arc<Task>,
        jobs: usize,
    },
    /// The store has answered the server.
    Stored {
        by: Node,
        no: RequestNo,
        jobs: Vec<JobId>,
        rows: Vec<Loaded>,
    },
    Command,
    Order {
        id: JobId,
        command: Command,
    },
    Answered {
        token: Token,
        answer: Answer,
    },
    GiveUp {
        token: Token,
    },
}

const ANSWER_WITHIN: Span = Span::from_secs(20);

impl Clients {
    pub(crate) fn are_done(&self) -> bool {
        self.unanswered.is_empty()
    }

    /// A schedule made a job; clients may give orders about it as about any other.
    pub(crate) fn add(&mut self, id: JobId) -> RequestNo {
        self.jobs.push(id);
        self.requests += 1;
        RequestNo(self.requests)
    }

    pub(crate) fn all_jobs(&self) -> Vec<JobId> {
        self.jobs.clone()
    }
}

impl Simulation {
    pub(crate) fn plan_clients(&mut self) {
        let chaos_ms = self.plan.chaos.as_micros() / 1000;
        for _ in 0..self.plan.submissions {
            let at = self.rng.millis(0, chaos_ms);
            let jobs = *self.rng.pick(&[1, 1, 1, 1, 2, 3, 8, 25]);
            self.after(at, Action::Client(ClientStep::Submit { jobs }));
        }
        for _ in 0..self.plan.commands {
            let at = self.rng.millis(0, chaos_ms);
            self.after(at, Action::Client(ClientStep::Command));
        }
        // After the faults, to see that everything flows again.
        for jobs in [1, 1, 5, 40] {
            let at = self.now + self.plan.chaos + self.rng.millis(15_000, 35_000);
            self.at(at, Action::Client(ClientStep::Submit { jobs }));
        }
    }

    pub(crate) fn client_step(&mut self, step: ClientStep) {
        match step {
            ClientStep::Submit { jobs } => {
                self.clients.requests += 1;
                let no = RequestNo(self.clients.requests);
                let task = Arc::clone(self.rng.pick(&self.plan.tasks));
                let task = self.flows.instead(15, None).unwrap_or(task);
                self.submit(no, task, jobs);
            }
            ClientStep::SubmitAgain { no, task, jobs } => {
                if !self.clients.submitted.contains(&no) && self.rng.percent(70) {
                    self.submit(no, task, jobs);
                }
            }
            ClientStep::Stored { by, no, jobs, rows } => {
                if self.is_server_alive(by) && self.servers[by.place].health == Health::Up {
                    self.hint(rows);
                    self.acknowledge(no, jobs);
                }
            }
            ClientStep::Command => {
                if let Some(&id) = self.clients.jobs.get(self.rng.below(self.clients.jobs.len().max(1))) {
                    let command = self.draw_command();
                    self.order(id, command);
                }
            }
            ClientStep::Order { id, command } => self.order(id, command),
            ClientStep::Answered { token, answer } => self.answered(token, &answer),
            ClientStep::GiveUp { token } => drop(self.clients.unanswered.remove(&token)),
        }
    }

    fn draw_command(&mut self) -> Command {
        *self.rng.pick(&[
            Command::Delete,
            Command::Delete,
            Command::Cancel,
            Command::Cancel,
            Command::RunNow,
            Command::Rerun,
        ])
    }

    fn submit(&mut self, no: RequestNo, task: Arc<Task>, len: usize) {
        let again = ClientStep::SubmitAgain { no, task: Arc::clone(&task), jobs: len };
        self.after(Span::from_secs(3), Action::Client(again));
        let up: Vec<Node> =
            self.servers.iter().filter(|server| server.health == Health::Up).map(|server| server.node()).collect();
        if up.is_empty() {
            return;
        }
        let by = *self.rng.pick(&up);
        let jobs = self.draw_jobs(&task, len);
        let ids: Vec<JobId> = jobs.iter().map(|job| job.id).collect();
        self.note(Fact::Submit { request: no, jobs: ids.clone(), task: Arc::clone(&task) });
        for &id in &ids {
            self.plan_orders(id);
        }
        self.clients.jobs.extend(&ids);
        let mut stored_at = self.now + self.rng.millis(0, self.plan.message_ms_max) + self.store_delay();
        if self.has(Planted::SubmitAckedFirst) {
            self.acknowledge(no, ids);
            stored_at = stored_at + self.rng.millis(0, 1000);
        }
        self.at(stored_at, Action::Store(by, StoreCall::Submit(Request { no, task, jobs })));
    }

    fn draw_jobs(&mut self, task: &Task, len: usize) -> Vec<NewJob> {
        let together = self.rng.percent(60).then(|| self.draw_due());
        let shard = self.rng.percent(30).then(|| self.draw_shard());
        let mut jobs = Vec::with_capacity(len);
        for _ in 0..len {
            let due_at = together.unwrap_or_else(|| self.draw_due());
            let shard = shard.unwrap_or_else(|| self.draw_shard());
            let priority = *self.rng.pick(&[0, 0, 0, 0, 1, 5, -3]);
            jobs.push(NewJob {
                namespace: task.namespace,
                id: JobId::new(due_at, shard, self.rng.next()),
                task: task.id,
                priority: Priority::new(priority).expect("it is a priority"),
                submitted_at: self.now,
                tracing_id: None,
                source: None,
                requester: None,
                node: None,
                member: None,
                input: None,
            });
        }
        jobs
    }

    fn draw_shard(&mut self) -> ShardId {
        ShardId(self.rng.below(usize::from(self.plan.shards)) as u16)
    }

    fn draw_due(&mut self) -> Timestamp {
        let (now, far) = (self.now, Span::from_secs(7200));
        match self.rng.below(100) {
            0..15 => (now - self.rng.millis(0, 5_000)).max(START),
            15..50 => now + self.rng.millis(0, 1_000),
            50..75 => now + self.rng.millis(1_000, 10_000),
            75..95 => now + self.rng.millis(10_000, 50_000),
            _ => now + far + self.rng.millis(0, 60_000),
        }
    }

    /// Some jobs are fought over at the moment they are due.
    fn plan_orders(&mut self, id: JobId) {
        if self.rng.percent(30) {
            let at = (id.due_at() + self.rng.millis(0, 1_200)) - Span::from_millis(400);
            let command = self.draw_command();
            let copies = if self.rng.percent(25) { 3 } else { 1 };
            for _ in 0..copies {
                let at = at + self.rng.millis(0, 30);
                self.at(at, Action::Client(ClientStep::Order { id, command }));
            }
        }
        if self.rng.percent(8) {
            for _ in 0..self.rng.range(1, 3) {
                let at = id.due_at().max(self.now) + self.rng.millis(500, 40_000);
                self.at(at, Action::Client(ClientStep::Order { id, command: Command::Rerun }));
            }
        }
    }

    pub(crate) fn store_submit(&mut self, by: Node, request: Request) {
        let Request { no, task, mut jobs } = request;
        if self.has(Planted::TornSubmission) && jobs.len() > 1 && self.rng.percent(2) {
            // Its server dies between the two.
            jobs.truncate(jobs.len() / 2);
            self.store.submit(Submission { jobs, idempotency: None, batch: None });
            return;
        }
        let ids: Vec<JobId> = jobs.iter().map(|job| job.id).collect();
        let answer = IdempotentAnswer {
            key: IdempotencyKey { namespace: task.namespace, key: no.0.to_string() },
            fingerprint: [0; 32],
            answer: ids.iter().flat_map(|id| id.to_bytes()).collect::<Vec<u8>>().into(),
            now: self.now,
            expires_at: self.now + Span::from_secs(86_400),
        };
        let rows: Vec<Loaded> = jobs.iter().map(|job| Loaded { row: row_of(job), task: Arc::clone(&task) }).collect();
        let (jobs, rows) = match self.store.submit(Submission { jobs, idempotency: Some(answer), batch: None }) {
            Submitted::Done => (ids, rows),
            Submitted::Replayed { answer } => {
                self.hit(Window::SubmitReplayed);
                (ids_in(&answer), Vec::new())
            }
            Submitted::KeyReused => unreachable!("a repeated request has the same fingerprint"),
        };
        let delay = self.store_delay();
        self.after(delay, Action::Client(ClientStep::Stored { by, no, jobs, rows }));
    }

    fn acknowledge(&mut self, request: RequestNo, jobs: Vec<JobId>) {
        self.clients.submitted.insert(request);
        self.note(Fact::SubmitOk { request, jobs });
    }

    /// Tells whoever believes to own the shards. Nothing depends on it.
    pub(crate) fn hint(&mut self, rows: Vec<Loaded>) {
        let weather = self.plan.hints;
        for place in 0..self.servers.len() {
            let owned = self.servers[place].owner.owned_shards();
            let is_for_it = |job: &&Loaded| owned.iter().any(|(shard, _)| *shard == job.row.key.shard());
            let jobs: Vec<Loaded> = rows.iter().filter(is_for_it).cloned().collect();
            if jobs.is_empty() {
                continue;
            }
            if self.rng.percent(weather.lost_percent) {
                self.hit(Window::HintLost);
                continue;
            }
            let is_late = self.rng.percent(weather.late_percent);
            let at = self.now + if is_late { self.rng.millis(100, 20_000) } else { self.rng.millis(0, 5) };
            let node = self.servers[place].node();
            if is_late {
                self.hit(Window::HintLate);
            }
            if self.rng.percent(weather.twice_percent) {
                self.hit(Window::HintTwice);
                let later = at + self.rng.millis(0, 10_000);
                self.at(later, Action::Server(node, ServerStep::Hinted(jobs.clone())));
            }
            self.at(at, Action::Server(node, ServerStep::Hinted(jobs)));
        }
    }

    pub(crate) fn order(&mut self, id: JobId, command: Command) {
        let is_owner = |place: &usize| {
            let server = &self.servers[*place];
            server.health != Health::Down && server.owner.owned_shards().iter().any(|(shard, _)| *shard == id.shard())
        };
        let owners: Vec<usize> = (0..self.servers.len()).filter(is_owner).collect();
        let place = if owners.is_empty() || self.rng.percent(5) {
            self.rng.below(self.servers.len())
        } else {
            *self.rng.pick(&owners)
        };
        self.clients.tokens += 1;
        let token = Token(self.clients.tokens);
        self.note(Fact::Ask { token, id, command });
        self.clients.unanswered.insert(token, (id, command));
        let node = self.servers[place].node();
        let delay = self.rng.millis(0, self.plan.message_ms_max);
        self.after(delay, Action::Server(node, ServerStep::Command { token, id, command }));
        self.after(ANSWER_WITHIN, Action::Client(ClientStep::GiveUp { token }));
    }

    fn answered(&mut self, token: Token, answer: &Answer) {
        let Some((id, command)) = self.clients.unanswered.remove(&token) else { return };
        match answer {
            Answer::Job(reply) => self.note(Fact::Answer { token, reply: *reply }),
            Answer::NotOwner => {
                self.hit(Window::CommandNotOwner);
                if self.rng.percent(70) {
                    let delay = self.rng.millis(100, 1_500);
                    self.after(delay, Action::Client(ClientStep::Order { id, command }));
                }
            }
            Answer::Schedule(_) | Answer::Agent(_) | Answer::Gang(_) => unreachable!("a client asked about a job"),
        }
    }
}

fn row_of(job: &NewJob) -> JobRow {
    JobRow {
        key: JobKey::original(job.id),
        task: job.task,
        priority: job.priority,
        counters: Counters::NEW,
        submitted_at: job.submitted_at,
        tracing_id: None,
        source: None,
        node: job.node.map(Box::new),
        member: job.member.map(Box::new),
        give_backs: None,
        input: Input::None,
    }
}

fn ids_in(answer: &Bytes) -> Vec<JobId> {
    answer.chunks(16).map(|id| JobId::from_bytes(id).expect("the answer holds ids")).collect()
}
