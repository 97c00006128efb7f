//! What people do to schedules meanwhile: pause, resume, edit, skip and run them, through any server.
//!
//! An edit names the revision that it replaces and is repeated, as it is, until the system has said yes or has moved on
//! from that revision: so the definition of every revision is known, whatever became of the answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use punctual_api::{ErrorKind, RunRequest};
use punctual_client::{Client, ClientError, IfMatch};
use punctual_core::random::SplitMix64;
use tokio::task::JoinHandle;

use super::chosen;
use super::definition::{Definition, Policy};
use super::record::Confirmation;

/// After this the answer does not matter any more.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
const BETWEEN_TRIES: Duration = Duration::from_millis(700);
/// All servers may be down for a while.
const TRIES_MAX: usize = 100;
/// So that all its changes are shown in the end, those of repeated calls included.
const ORDERS_MAX: usize = 8;

/// One schedule, as those know it who give orders.
#[derive(Debug, Clone)]
pub(super) struct Subject {
    pub(super) name: String,
    pub(super) policy: Policy,
    pub(super) definitions: Vec<Definition>,
    orders: usize,
    is_paused: bool,
}

impl Subject {
    pub(super) fn new(name: String, policy: Policy, first: Definition) -> Self {
        Self { name, policy, definitions: vec![first], orders: 0, is_paused: false }
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tally {
    pub(super) edits: usize,
    pub(super) pauses: usize,
    pub(super) skips: usize,
    pub(super) runs: usize,
    /// Calls whose answer did not come, or was that somebody should try again.
    pub(super) unanswered: usize,
}

/// What became of it.
pub(super) struct Done {
    pub(super) subjects: Vec<Subject>,
    pub(super) confirmations: Vec<Confirmation>,
    pub(super) tally: Tally,
}

pub(super) struct User {
    clients: Vec<Client>,
    chance: SplitMix64,
    task: String,
    /// How long after one order the next one follows.
    pause: Duration,
    done: Done,
}

/// Users who do not get into each other's way: each has schedules of its own.
pub(super) struct Users {
    stop: Arc<AtomicBool>,
    at_work: Vec<JoinHandle<anyhow::Result<Done>>>,
}

impl Users {
    pub(super) fn start(subjects: Vec<Subject>, count: usize, clients: &[Client], task: &str, seed: u64) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut shares: Vec<Vec<Subject>> = vec![Vec::new(); count];
        for (number, subject) in subjects.into_iter().enumerate() {
            shares[number % count].push(subject);
        }
        let once = |client: &Client| client.clone().with_repeat_budget(Duration::ZERO);
        let at_work = shares.into_iter().zip(1..).map(|(subjects, number)| {
            let user = User {
                clients: clients.iter().map(once).collect(),
                chance: SplitMix64::new(seed.wrapping_mul(1000) + number),
                task: task.to_owned(),
                pause: Duration::from_millis(500),
                done: Done { subjects, confirmations: Vec::new(), tally: Tally::default() },
            };
            tokio::spawn(user.work(Arc::clone(&stop)))
        });
        Self { at_work: at_work.collect(), stop }
    }

    /// Lets them finish what they are at, and resume what they have paused.
    pub(super) async fn stop(self) -> anyhow::Result<Done> {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Done { subjects: Vec::new(), confirmations: Vec::new(), tally: Tally::default() };
        for user in self.at_work {
            let Done { subjects, confirmations, tally } = user.await??;
            all.subjects.extend(subjects);
            all.confirmations.extend(confirmations);
            all.tally.edits += tally.edits;
            all.tally.pauses += tally.pauses;
            all.tally.skips += tally.skips;
            all.tally.runs += tally.runs;
            all.tally.unanswered += tally.unanswered;
        }
        all.subjects.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
    }
}

impl User {
    async fn work(mut self, stop: Arc<AtomicBool>) -> anyhow::Result<Done> {
        let count = self.done.subjects.len() as u64;
        while !stop.load(Ordering::Relaxed) {
            tokio::time::sleep(self.pause).await;
            let place = self.chance.below(count) as usize;
            if self.done.subjects[place].orders >= ORDERS_MAX {
                continue;
            }
            self.done.subjects[place].orders += 1;
            self.order(place).await?;
        }
        for place in 0..self.done.subjects.len() {
            if self.done.subjects[place].is_paused {
                self.set_paused(place, false).await?;
            }
        }
        Ok(self.done)
    }

    async fn order(&mut self, place: usize) -> anyhow::Result<()> {
        if self.done.subjects[place].is_paused {
            return self.set_paused(place, false).await;
        }
        match self.chance.below(100) {
            0..30 => self.set_paused(place, true).await,
            30..60 => self.edit(place).await,
            60..80 => self.skip(place).await,
            _ => self.run(place).await,
        }
    }

    fn client(&mut self) -> Client {
        self.chance.pick(&self.clients).clone()
    }

    async fn set_paused(&mut self, place: usize, is_paused: bool) -> anyhow::Result<()> {
        let name = self.done.subjects[place].name.clone();
        for _ in 0..TRIES_MAX {
            let client = self.client();
            let called = async {
                if is_paused {
                    client.pause_schedule(&name, None).await
                } else {
                    client.resume_schedule(&name, None).await
                }
            };
            if self.answered(called).await?.is_some() {
                self.done.subjects[place].is_paused = is_paused;
                self.done.tally.pauses += usize::from(is_paused);
                return Ok(());
            }
            tokio::time::sleep(BETWEEN_TRIES).await;
        }
        anyhow::bail!("{name} can be neither paused nor resumed")
    }

    async fn edit(&mut self, place: usize) -> anyhow::Result<()> {
        let Subject { name, policy, definitions, .. } = self.done.subjects[place].clone();
        let revision = definitions.len() as u32;
        let end_us = definitions.last().context("there is a first definition")?.end_us;
        let next = chosen::definition(&policy, end_us, &mut self.chance);
        let request = next.request(&name, &self.task, policy);
        for _ in 0..TRIES_MAX {
            let client = self.client();
            let called = async { client.apply_schedule(&name, &request, IfMatch::Revision(revision)).await };
            let is_done = match self.answered(called).await {
                Ok(view) => view.is_some(),
                // An earlier try has done it.
                Err(error) if kind(&error) == Some(ErrorKind::RevisionConflict) => {
                    let now = client.schedule(&name).await.map(|view| view.revision).unwrap_or(revision);
                    anyhow::ensure!(now <= revision + 1, "{name} went from revision {revision} to {now} by itself");
                    now == revision + 1
                }
                Err(error) => return Err(error),
            };
            if is_done {
                self.done.subjects[place].definitions.push(next);
                self.done.tally.edits += 1;
                return Ok(());
            }
            tokio::time::sleep(BETWEEN_TRIES).await;
        }
        anyhow::bail!("{name} cannot be edited")
    }

    async fn skip(&mut self, place: usize) -> anyhow::Result<()> {
        let name = self.done.subjects[place].name.clone();
        let (client, count) = (self.client(), 1 + self.chance.below(2) as u32);
        let called = async { client.skip_schedule(&name, count).await };
        if let Some(answer) = self.answered(called).await? {
            let times_us = answer.skipped.iter().map(|start| start.at.as_micros()).collect();
            self.done.confirmations.push(Confirmation::Skipped { schedule: name, times_us });
            self.done.tally.skips += 1;
        }
        Ok(())
    }

    async fn run(&mut self, place: usize) -> anyhow::Result<()> {
        let name = self.done.subjects[place].name.clone();
        let client = self.client();
        let called = async { client.run_schedule(&name, &RunRequest::default()).await };
        if let Some(answer) = self.answered(called).await? {
            // One that met another waits or was skipped, as the schedule says.
            let job = answer.job.map(|job| job.to_string());
            self.done.confirmations.extend(job.map(|job| Confirmation::Run { schedule: name, job }));
            self.done.tally.runs += 1;
        }
        Ok(())
    }

    /// Nothing, if the answer did not come or was that one should try again. Other refusals are not expected.
    async fn answered<T>(&mut self, call: impl Future<Output = Result<T, ClientError>>) -> anyhow::Result<Option<T>> {
        match tokio::time::timeout(ANSWER_WITHIN, call).await {
            Ok(Ok(answer)) => return Ok(Some(answer)),
            Ok(Err(error)) if !may_come_true(&error) => return Err(error.into()),
            Ok(Err(_)) | Err(_) => {}
        }
        self.done.tally.unanswered += 1;
        Ok(None)
    }
}

/// What a cluster in trouble may answer.
fn may_come_true(error: &ClientError) -> bool {
    match error {
        ClientError::Problem(problem) => problem.retryable || problem.status >= 500,
        ClientError::Unreachable { .. } | ClientError::BadAnswer { .. } => true,
        ClientError::BadUrl { .. }
        | ClientError::UntrustedListener { .. }
        | ClientError::Setup(_)
        | ClientError::NoEntropy(_) => false,
    }
}

fn kind(error: &anyhow::Error) -> Option<ErrorKind> {
    error.downcast_ref::<ClientError>()?.kind()
}
