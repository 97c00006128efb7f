//! Batches in the form that their promises are judged by.

use std::collections::BTreeMap;

use punctual_core::batch::{BatchOutcome, BatchStart, MemberRole};
use punctual_core::shard::write::{JobWrite, Write};
use punctual_core::{BatchId, JobId, JobState};
use punctual_promises::batches::{BatchHistory, MemberEnd, MemberHistory};
use punctual_store::BatchRow;

use super::lost_commits;
use crate::history::{Fact, History};

/// All batches, unless the database has lost some of what was committed.
pub(super) fn batch_histories(history: &History) -> Vec<BatchHistory> {
    if lost_commits::lost_at(history).is_some() {
        return Vec::new();
    }
    let mut batches: BTreeMap<BatchId, BatchHistory> = BTreeMap::new();
    let mut members: BTreeMap<JobId, (BatchId, usize)> = BTreeMap::new();
    for (number, (_, fact)) in (0..).zip(history.iter()) {
        match fact {
            Fact::BatchStored { row } => {
                for place in 0..row.members.len() {
                    members.insert(row.member_job(place as u16), (row.id, place));
                }
                batches.insert(row.id, begun(row));
            }
            Fact::BatchCancelled { id } => {
                if let Some(batch) = batches.get_mut(id) {
                    batch.was_cancelled = true;
                }
            }
            Fact::CompensationStored { batch, place } => {
                let batch = batches.get_mut(batch).and_then(|batch| batch.members.get_mut(usize::from(*place)));
                if let Some(member) = batch {
                    member.compensations += 1;
                }
            }
            Fact::Committed { batch, void } => {
                for write in batch.writes.iter().filter(|write| !write.is_void(void)) {
                    let Write::Job(write) = write else { continue };
                    let Some((id, place)) = write.job().and_then(|job| members.get(&job)) else { continue };
                    let Some(member) = batches.get_mut(id).and_then(|batch| batch.members.get_mut(*place)) else {
                        continue;
                    };
                    match write {
                        // One that has ended was run again by somebody, and starts by itself.
                        JobWrite::Start(_) if member.end.is_none() => {
                            member.first_start.get_or_insert(number);
                        }
                        JobWrite::Settle(settle) => {
                            let is_member =
                                settle.member.as_ref().is_some_and(|member| member.role == MemberRole::Member);
                            let end = match settle.state {
                                JobState::Succeeded => MemberEnd::Succeeded,
                                _ => MemberEnd::Otherwise,
                            };
                            if is_member {
                                member.end.get_or_insert(end);
                            }
                        }
                        _ => {}
                    }
                }
            }
            Fact::BatchFinal { id, row } => {
                if let Some(batch) = batches.get_mut(id) {
                    batch.end = row.as_ref().map(|row| row.status).filter(|status| status.is_final());
                }
            }
            _ => {}
        }
    }
    batches.into_values().collect()
}

fn begun(row: &BatchRow) -> BatchHistory {
    let contract = row.state.contract;
    let member = |has_compensation| MemberHistory { has_compensation, ..MemberHistory::default() };
    BatchHistory {
        name: row.id.to_string(),
        is_gang: contract.start == BatchStart::Together,
        is_all_or_nothing: contract.outcome == BatchOutcome::AllOrNothing,
        was_cancelled: false,
        members: row.members.iter().map(|one| member(one.compensation.is_some())).collect(),
        end: None,
    }
}
