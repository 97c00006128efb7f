//! What must hold at the end, and over all jobs.

use std::collections::{BTreeMap, BTreeSet};

use punctual_core::{JobId, JobState};
use punctual_store::JobRecord;

use super::story::{Line, Story, stories};
use crate::history::{Fact, History};

pub(super) fn no_acknowledged_job_is_lost(story: &Story<'_>) -> Option<String> {
    let record = story.lines.iter().find_map(|(_, line)| match line {
        Line::Final(record) => Some(*record),
        _ => None,
    })?;
    match record {
        None if story.is_acknowledged => Some("acknowledged, and not there".to_owned()),
        None => None,
        Some(JobRecord::Hot { job, .. }) => (job.key.due_at <= story.end)
            .then(|| format!("due since {} and never ended", story.end.since(job.key.due_at))),
        Some(JobRecord::Finished { job, .. }) => {
            let needs_reason = matches!(job.state, JobState::Lost | JobState::Quarantined);
            (needs_reason && job.reason.is_none()).then(|| format!("{} without a reason", job.state))
        }
    }
}

pub(super) fn nothing_is_neglected(story: &Story<'_>) -> Option<String> {
    story.lines.iter().find_map(|(_, line)| match line {
        Line::Neglected(late) => Some(format!("due for {late} while a worker that could run it was idle")),
        Line::Orphaned(worker, gone) => Some(format!("runs on record, and {worker} has been gone for {gone}")),
        _ => None,
    })
}

pub(super) fn nothing_is_broken(history: &History) -> Vec<(Option<JobId>, String)> {
    let broken = |fact: &Fact| match fact {
        Fact::Broken { text } => Some((named_in(text), text.clone())),
        _ => None,
    };
    history.iter().filter_map(|(_, fact)| broken(fact)).collect()
}

fn named_in(text: &str) -> Option<JobId> {
    text.split_whitespace().find_map(|word| word.parse().ok())
}

pub(super) fn old_epochs_write_nothing(history: &History) -> Vec<(Option<JobId>, String)> {
    let mut current = BTreeMap::new();
    let mut found = Vec::new();
    for (_, fact) in history.iter() {
        match fact {
            Fact::Leased { owned, .. } => {
                current.insert(owned.shard, owned.epoch);
            }
            Fact::Took { batch, .. } => {
                for (shard, epoch) in &batch.fences {
                    if current.get(shard).is_some_and(|current| epoch < current) {
                        found.push((None, format!("shard {shard} was written under {epoch:?}, an old one")));
                    }
                }
            }
            _ => {}
        }
    }
    found
}

pub(super) fn nothing_begins_before_its_file_is_there(history: &History) -> Vec<(Option<JobId>, String)> {
    let (mut task_of, mut arrived, mut found) = (BTreeMap::new(), BTreeSet::new(), Vec::new());
    for (_, fact) in history.iter() {
        match fact {
            Fact::Submit { jobs, task, .. } if task.waits_for.is_some() => {
                task_of.extend(jobs.iter().map(|id| (*id, task.id)));
            }
            Fact::Arrived { task } => _ = arrived.insert(*task),
            Fact::Begin { id, attempt, .. } if task_of.get(id).is_some_and(|task| !arrived.contains(task)) => {
                found.push((Some(*id), format!("attempt {attempt} began and its file was not there")));
            }
            _ => {}
        }
    }
    found
}

pub(super) fn no_worker_gets_more_than_it_granted(history: &History) -> Vec<(Option<JobId>, String)> {
    let (mut slots, mut running) = (BTreeMap::new(), BTreeMap::new());
    let mut found = Vec::new();
    for (_, fact) in history.iter() {
        match fact {
            Fact::Joined { worker, slots: granted } => {
                slots.insert(*worker, i64::from(*granted));
            }
            Fact::Begin { id, worker, .. } => {
                let now = running.entry(*worker).or_insert(0);
                *now += 1;
                if *now > slots[worker] {
                    found.push((Some(*id), format!("{worker} runs {now} in {} slots", slots[worker])));
                }
            }
            Fact::End { worker, .. } => *running.entry(*worker).or_insert(0) -= 1,
            Fact::OverCredit { worker, running, credit } => {
                found.push((None, format!("{worker} granted {credit} and was given {running}")));
            }
            _ => {}
        }
    }
    found
}

/// All of a request's jobs exist or none; and repeating it makes no others.
pub(super) fn one_request_makes_one_set_of_jobs(history: &History) -> Vec<(Option<JobId>, String)> {
    let mut exists = BTreeMap::new();
    for (_, fact) in history.iter() {
        if let Fact::Final { id, record } = fact {
            exists.insert(*id, record.is_some());
        }
    }
    let mut made = BTreeMap::new();
    let mut found = Vec::new();
    for (_, fact) in history.iter() {
        let Fact::Submit { request, jobs, .. } = fact else { continue };
        let stored = jobs.iter().filter(|id| exists.get(id) == Some(&true)).count();
        if stored == 0 {
            continue;
        }
        if stored < jobs.len() {
            found.push((jobs.first().copied(), format!("{stored} of {} jobs of {request:?} are there", jobs.len())));
        }
        if made.insert(*request, ()).is_some() {
            found.push((jobs.first().copied(), format!("{request:?} made its jobs twice")));
        }
    }
    found
}

pub(super) fn jobs_are_conserved(history: &History) -> Vec<(Option<JobId>, String)> {
    let is_there = |story: &Story<'_>| story.lines.iter().any(|(_, line)| matches!(line, Line::Final(Some(_))));
    let known = stories(history).values().filter(|story| is_there(story)).count();
    let counted = history.iter().find_map(|(_, fact)| match fact {
        Fact::JobCount(count) => Some(*count),
        _ => None,
    });
    match counted {
        Some(count) if count != known => vec![(None, format!("{known} jobs are known and {count} are there"))],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use punctual_core::shard::write::{CancelMark, JobWrite, Requeue, Write};
    use punctual_core::{Counters, JobId, JobKey, JobState, ShardId};

    use super::super::test_history::{Tale, secs, worker};
    use crate::history::{Fact, RequestNo};
    use crate::plan::START;

    #[test]
    fn an_acknowledged_job_that_is_not_there_is_found() {
        let invariant = "no acknowledged job is lost";
        Tale::new(|_| {}).gone().breaks(invariant);
        Tale::new(|_| {}).still_hot(START + secs(2)).breaks(invariant);
        Tale::new(|_| {}).finished(JobState::Lost, None).breaks(invariant);
        Tale::unacknowledged(|_| {}).gone().holds();
        Tale::new(|_| {}).still_hot(START + secs(999)).holds();
        Tale::new(|_| {}).finished(JobState::Lost, Some("the worker was silent")).holds();
    }

    #[test]
    fn what_the_onlookers_saw_is_found() {
        let invariant = "what is due starts, and what runs has a worker";
        let tale = Tale::new(|_| {});
        let id = tale.id;
        tale.tell(Fact::Neglected { id, late: secs(15) }).breaks(invariant);
        let orphaned = Fact::Orphaned { id, worker: worker(), gone: secs(61) };
        Tale::new(|_| {}).tell(orphaned).breaks(invariant);
    }

    #[test]
    fn a_broken_store_or_core_is_found() {
        Tale::new(|_| {}).tell(Fact::Broken { text: "panic: no".to_owned() }).breaks("nothing is broken");
    }

    #[test]
    fn a_write_under_an_old_epoch_is_found() {
        let invariant = "old epochs write nothing";
        let write = |tale: Tale, epoch| {
            let key = JobKey::original(tale.id);
            let due_at = tale.now() + secs(1);
            let requeue = Requeue {
                key,
                due_at,
                counters: Counters::NEW,
                give_backs: None,
                attempt: None,
                cancel: CancelMark::None,
            };
            tale.write_under(epoch, Write::Job(JobWrite::Requeue(requeue)))
        };
        write(Tale::new(|_| {}).lease(1).lease(2), 1).breaks(invariant);
        write(Tale::new(|_| {}).lease(7), 6).breaks(invariant);
        let tale = Tale::new(|_| {}).ask(punctual_core::shard::event::Command::RunNow).lease(1).lease(2);
        write(tale, 2).holds();
    }

    #[test]
    fn a_worker_with_too_much_to_do_is_found() {
        let invariant = "no worker gets more than it granted";
        Tale::new(|_| {}).start(1).begin(1).start(2).begin(2).breaks(invariant);
        let over = Fact::OverCredit { worker: worker(), running: 3, credit: 2 };
        Tale::new(|_| {}).tell(over).breaks(invariant);
    }

    #[test]
    fn a_request_that_made_jobs_twice_or_in_part_is_found() {
        let invariant = "one request makes one set of jobs";
        let again = |tale: Tale, jobs: Vec<JobId>| {
            let task = Arc::new(
                crate::plan::Plan::draw(&mut crate::rng::Rng::new(1), crate::Options::default()).tasks[0]
                    .as_ref()
                    .clone(),
            );
            tale.tell(Fact::Submit { request: RequestNo(1), jobs, task })
        };
        let other = JobId::new(START, ShardId(0), 2);
        let tale = Tale::new(|_| {}).still_hot(START + secs(999));
        let id = tale.id;
        again(tale, vec![id, other]).breaks(invariant);
        let twice = again(Tale::new(|_| {}).still_hot(START + secs(999)), vec![id]);
        twice.breaks(invariant);
    }

    #[test]
    fn a_job_from_nowhere_is_found() {
        let kept = || Tale::new(|_| {}).still_hot(START + secs(999));
        kept().tell(Fact::JobCount(1)).holds();
        kept().tell(Fact::JobCount(2)).breaks("jobs are conserved");
        kept().tell(Fact::JobCount(0)).breaks("jobs are conserved");
    }
}
