//! A job leaves the hot table for history.

use std::collections::BTreeMap;

use punctual_core::attempt::{AttemptRecord, Ending};
use punctual_core::shard::write::Settle;
use punctual_core::{Counters, JobKey, JobState, ScheduleId, ServerId, Timestamp};
use punctual_store::codes;

use super::columns::{Statement, expected, is_early, is_moved, places};
use crate::codec::{self, Uuid, attempt_number, shard_number};
use crate::nodes::Numbers;
use crate::pipeline::{Blob, Param, column};
use crate::sql;
use crate::trouble::Trouble;

pub(super) fn statements(settles: &[&Settle], nodes: &Numbers, wanted: &mut Vec<Statement>) -> Result<(), Trouble> {
    let server = settles.iter().find_map(|settle| settle.attempt.as_ref()).map(|ran| ran.server);
    let mut plain = Vec::with_capacity(settles.len());
    let mut other = Vec::new();
    for settle in settles {
        match plain_success(settle, server) {
            Some(ran) => plain.push((*settle, ran)),
            None => other.push(*settle),
        }
    }
    if let Some((_, ran)) = plain.first() {
        wanted.push(Statement::new(sql!("settle_plain"), plain_columns(&plain, ran.server, nodes)?));
    }
    if !other.is_empty() {
        wanted.push(Statement::new(sql!("settle"), columns(&other, nodes)?));
    }
    keep_successes(settles, wanted);
    Ok(())
}

/// One row for each schedule: a row can be updated once by a statement.
fn keep_successes(settles: &[&Settle], wanted: &mut Vec<Statement>) {
    let mut latest: BTreeMap<ScheduleId, Timestamp> = BTreeMap::new();
    for &(schedule, at) in settles.iter().filter_map(|settle| settle.success_of.as_deref()) {
        let known = latest.entry(schedule).or_insert(at);
        *known = at.max(*known);
    }
    if !latest.is_empty() {
        let params: Vec<Param> = vec![
            column(latest.keys().map(|id| shard_number(id.shard()))),
            column(latest.keys().map(|id| Uuid::from(*id))),
            column(latest.values().map(|at| at.as_micros())),
        ];
        wanted.push(Statement::new(sql!("schedule_succeeded"), params));
    }
}

/// The attempt of a job of which `settle_plain` knows the rest.
fn plain_success(settle: &Settle, server: Option<ServerId>) -> Option<&AttemptRecord> {
    let Settle { key, state, finished_at, counters, attempt, reason: _, output, .. } = settle;
    let ran = attempt.as_ref()?;
    let is_plain = *state == JobState::Succeeded
        && ran.ending == Ending::Succeeded
        && ran.reason.is_none()
        && ran.details.is_none()
        && output.is_none()
        && Some(ran.server) == server
        && *counters == (Counters { next_attempt: ran.attempt.next(), failures: 0, node_failures: 0 })
        && !is_moved(key.id, key.due_at)
        && !is_early(key.id, *finished_at);
    is_plain.then_some(ran)
}

fn plain_columns(
    plain: &[(&Settle, &AttemptRecord)],
    server: ServerId,
    nodes: &Numbers,
) -> Result<Vec<Param>, Trouble> {
    let keys: Vec<JobKey> = plain.iter().map(|(settle, _)| settle.key).collect();
    let workers = plain.iter().map(|(_, ran)| number(nodes, ran.worker.into()));
    let mut params = places(&keys);
    params.extend([
        column(plain.iter().map(|(_, ran)| attempt_number(ran.attempt))),
        column(plain.iter().map(|(settle, _)| settle.finished_at.as_micros())),
        Box::new(workers.collect::<Result<Vec<i32>, Trouble>>()?),
        column(plain.iter().map(|(_, ran)| ran.picked_up_at.as_micros())),
        column(plain.iter().map(|(_, ran)| ran.started_at.as_micros())),
        Box::new(number(nodes, server.into())?),
    ] as [Param; 6]);
    Ok(params)
}

fn columns(settles: &[&Settle], nodes: &Numbers) -> Result<Vec<Param>, Trouble> {
    let keys: Vec<JobKey> = settles.iter().map(|settle| settle.key).collect();
    let states = settles.iter().map(|settle| final_state(settle)).collect::<Result<Vec<i16>, _>>()?;
    let ran = || settles.iter().map(|settle| settle.attempt.as_ref());
    let workers = ran().map(|ran| ran.map(|ran| number(nodes, ran.worker.into())).transpose());
    let servers = ran().map(|ran| ran.map(|ran| number(nodes, ran.server.into())).transpose());
    let reasons = settles.iter().map(|settle| settle.attempt.as_ref().map_or(&settle.reason, |ran| &ran.reason));
    let mut params = places(&keys);
    params.extend([
        column(settles.iter().map(|settle| attempt_number(expected(&settle.attempt, settle.counters.next_attempt)))),
        column(settles.iter().map(|settle| settle.finished_at.as_micros())),
        Box::new(states),
        column(settles.iter().map(|settle| is_early(settle.key.id, settle.finished_at))),
        column(keys.iter().map(|key| is_moved(key.id, key.due_at).then(|| key.due_at.as_micros()))),
        column(settles.iter().map(|settle| attempt_number(settle.counters.next_attempt))),
        column(settles.iter().map(|settle| settle.counters.failures as i16)),
        column(settles.iter().map(|settle| settle.counters.node_failures as i16)),
        column(ran().map(|ran| ran.map(|ran| attempt_number(ran.attempt)))),
        Box::new(workers.collect::<Result<Vec<Option<i32>>, Trouble>>()?),
        Box::new(servers.collect::<Result<Vec<Option<i32>>, Trouble>>()?),
        column(ran().map(|ran| ran.map(|ran| ran.picked_up_at.as_micros()))),
        column(ran().map(|ran| ran.map(|ran| ran.started_at.as_micros()))),
        column(ran().map(|ran| ran.map(|ran| codes::ending_code(ran.ending)))),
        column(reasons.map(|reason| reason.as_deref().map(codec::text))),
        column(settles.iter().map(|settle| settle.output.clone().map(Blob))),
        column(ran().map(|ran| codec::details_text(ran.and_then(|ran| ran.details.as_deref())))),
    ] as [Param; 17]);
    Ok(params)
}

fn number(nodes: &Numbers, id: Uuid) -> Result<i32, Trouble> {
    nodes.get(&id).copied().ok_or_else(|| Trouble::inconsistent("a node has no number"))
}

fn final_state(settle: &Settle) -> Result<i16, Trouble> {
    codes::state_code(settle.state)
        .ok_or_else(|| Trouble::inconsistent(format!("{} cannot end as {}", settle.key.id, settle.state)))
}
