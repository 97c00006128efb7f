//! What must hold of servers, workers and files over the whole run.

use std::collections::{BTreeMap, BTreeSet};

use punctual_core::JobId;

use crate::history::{Fact, History};

/// By the audit: a job that is due starts while a worker is idle, and a job that runs has a worker.
pub(super) fn nothing_is_neglected(history: &History) -> Vec<(Option<JobId>, String)> {
    let seen = history.iter().filter_map(|(_, fact)| match fact {
        Fact::Neglected { id, late } => {
            Some((Some(*id), format!("due for {late} while a worker that could run it was idle")))
        }
        Fact::Orphaned { id, worker, gone } => {
            Some((Some(*id), format!("runs on record, and {worker} has been gone for {gone}")))
        }
        _ => None,
    });
    seen.collect()
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
            Fact::Committed { batch, .. } => {
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

/// Of jobs that clients submitted.
pub(super) fn a_job_runs_only_where_its_namespace_is_served(history: &History) -> Vec<(Option<JobId>, String)> {
    let (mut namespace_of, mut served, mut found) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
    for (_, fact) in history.iter() {
        match fact {
            Fact::Submit { jobs, task, .. } => namespace_of.extend(jobs.iter().map(|id| (*id, task.namespace))),
            Fact::Joined { worker, namespaces, .. } => _ = served.insert(*worker, namespaces),
            Fact::Begin { id, worker, .. } => {
                let namespace = namespace_of.get(id).copied();
                if let Some(namespace) = namespace.filter(|namespace| !served[worker].serves(*namespace)) {
                    found.push((Some(*id), format!("{worker} does not serve {namespace}")));
                }
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
            Fact::Joined { worker, slots: granted, .. } => {
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
