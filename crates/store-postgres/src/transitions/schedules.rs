//! What a batch does to schedules and their ledger, as statements for many rows each. They come before
//! those about jobs, in the order edit and drop, add, set, decide, release, started late, watermark.
//!
//! As with jobs, the rows of one statement do not see each other: where one thing appears twice,
//! the second time goes into a statement of its own.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::Hash;

use punctual_core::schedule::{By, ScheduleChange, ScheduleEdit, ScheduleRow, ScheduleState};
use punctual_core::shard::write::{Batch, Decision, LateStart, ScheduleWrite};
use punctual_core::{ScheduleId, ShardId, Timestamp};

use super::columns::Statement;
use super::decide;
use super::named::{Named, Step, Unfit};
use crate::codec::{self, Uuid, namespace_number, shard_number};
use crate::pipeline::{Blob, Param, column};
use crate::sql;
use crate::trouble::Trouble;

struct Edit<'b> {
    id: ScheduleId,
    edit: &'b ScheduleEdit,
    state: &'b ScheduleState,
    change: &'b ScheduleChange,
}

struct Set<'b> {
    id: ScheduleId,
    state: &'b ScheduleState,
    /// Who asked for something last, if anybody did.
    changed: Option<&'b By>,
}

type Change<'b> = (ScheduleId, &'b ScheduleChange);

/// What begins a batch.
enum Definition<'b> {
    Edit(Edit<'b>),
    Drop(Change<'b>),
}

impl Definition<'_> {
    fn id(&self) -> ScheduleId {
        match self {
            Self::Edit(edit) => edit.id,
            Self::Drop((id, _)) => *id,
        }
    }
}

#[derive(Default)]
struct Sorted<'b> {
    definitions: Vec<Definition<'b>>,
    adds: Vec<(usize, &'b ScheduleRow)>,
    sets: Vec<Set<'b>>,
    changes: Vec<Change<'b>>,
    decides: Vec<(usize, &'b Decision)>,
    releases: Vec<(usize, &'b Decision)>,
    started_late: Vec<&'b LateStart>,
    watermarks: BTreeMap<ShardId, Timestamp>,
}

/// None for a batch without any of it, which most are.
pub(super) fn statements(batch: &Batch, unfit: Unfit) -> Result<Vec<Statement>, Trouble> {
    let sorted = sort(batch);
    let mut wanted = Vec::new();
    for run in runs(&sorted.definitions, Definition::id) {
        define(&run, &mut wanted);
    }
    for run in runs(&sorted.adds, |(_, row)| row.id) {
        add(&run, &mut wanted);
    }
    if !sorted.sets.is_empty() {
        wanted.push(Statement::new(sql!("set_schedules"), set_columns(&sorted.sets)));
    }
    if !sorted.changes.is_empty() {
        wanted.push(Statement::new(sql!("keep_schedule_changes"), change_columns(&sorted.changes)));
    }
    for (step, decisions) in [(Step::Decide, &sorted.decides), (Step::Release, &sorted.releases)] {
        for run in runs(decisions, |(_, decision)| (decision.occurrence.schedule, decision.occurrence.at)) {
            let run: Vec<_> = run.into_iter().copied().collect();
            wanted.push(decide::statement(step, unfit, &run)?);
        }
    }
    for run in runs(&sorted.started_late, |late| (late.schedule, late.at)) {
        wanted.push(Statement::new(sql!("started_late"), late_columns(&run)));
    }
    if !sorted.watermarks.is_empty() {
        let shards = column(sorted.watermarks.keys().map(|shard| shard_number(*shard)));
        let times = column(sorted.watermarks.values().map(|at| at.as_micros()));
        wanted.push(Statement::new(sql!("raise_watermarks"), vec![shards, times]));
    }
    Ok(wanted)
}

fn sort(batch: &Batch) -> Sorted<'_> {
    let mut sorted = Sorted::default();
    let mut places_of_sets: HashMap<ScheduleId, usize> = HashMap::new();
    for (place, write) in batch.schedule_writes() {
        match write {
            ScheduleWrite::Edit { id, edit, state, change } => {
                sorted.definitions.push(Definition::Edit(Edit { id: *id, edit, state, change }));
            }
            ScheduleWrite::Drop { id, change } => sorted.definitions.push(Definition::Drop((*id, change))),
            ScheduleWrite::Add(row) => sorted.adds.push((place, row)),
            ScheduleWrite::Set { id, state, change } => {
                // The last state counts, and everything that somebody asked for is on record.
                let last = *places_of_sets.entry(*id).or_insert_with(|| {
                    sorted.sets.push(Set { id: *id, state, changed: None });
                    sorted.sets.len() - 1
                });
                sorted.sets[last].state = state;
                if let Some(change) = change {
                    sorted.sets[last].changed = Some(&change.by);
                    sorted.changes.push((*id, change));
                }
            }
            ScheduleWrite::Decide(decision) => sorted.decides.push((place, decision)),
            ScheduleWrite::Release(decision) => sorted.releases.push((place, decision)),
            ScheduleWrite::StartedLate(late) => sorted.started_late.push(late),
            ScheduleWrite::Watermark { shard, at } => {
                let latest = sorted.watermarks.entry(*shard).or_insert(*at);
                *latest = (*latest).max(*at);
            }
        }
    }
    sorted
}

/// Cut where a key comes again.
fn runs<T, K: Eq + Hash + Copy>(all: &[T], key: impl Fn(&T) -> K) -> Vec<Vec<&T>> {
    let mut runs: Vec<Vec<&T>> = Vec::new();
    let mut seen = HashSet::with_capacity(all.len());
    for one in all {
        let key = key(one);
        if !seen.insert(key) {
            seen.clear();
            seen.insert(key);
            runs.push(Vec::new());
        }
        match runs.last_mut() {
            Some(run) => run.push(one),
            None => runs.push(vec![one]),
        }
    }
    runs
}

fn define(run: &[&Definition<'_>], wanted: &mut Vec<Statement>) {
    let ids = run.iter().map(|definition| definition.id());
    wanted.push(Statement::new(sql!("forget_calendars"), places(ids)));
    let mut edits = Vec::new();
    let mut drops = Vec::new();
    for definition in run {
        match definition {
            Definition::Edit(edit) => edits.push(edit),
            Definition::Drop(change) => drops.push(*change),
        }
    }
    if !edits.is_empty() {
        wanted.push(Statement::new(sql!("edit_schedules"), edit_columns(&edits)));
        use_calendars(edits.iter().map(|edit| (edit.id, edit.edit)), wanted);
    }
    if !drops.is_empty() {
        wanted.push(Statement::new(sql!("drop_schedules"), change_columns(&drops)));
    }
}

fn add(run: &[&(usize, &ScheduleRow)], wanted: &mut Vec<Statement>) {
    let mut rows: Vec<&ScheduleRow> = run.iter().map(|(_, row)| *row).collect();
    // In one order, so that two who store the same names do not wait for each other. Of two with one name
    // the first stays first.
    rows.sort_by(|one, other| (one.namespace, &one.name).cmp(&(other.namespace, &other.name)));
    let named = Named::Schedules(run.iter().map(|(place, row)| (*place, row.id)).collect());
    wanted.push(Statement { text: sql!("add_schedules"), params: add_columns(&rows), named });
    use_calendars(rows.iter().map(|row| (row.id, &row.edit)), wanted);
}

fn use_calendars<'b>(edits: impl Iterator<Item = (ScheduleId, &'b ScheduleEdit)>, wanted: &mut Vec<Statement>) {
    let uses: Vec<(ScheduleId, String)> =
        edits.flat_map(|(id, edit)| edit.calendars.iter().map(move |name| (id, codec::text(name)))).collect();
    if uses.is_empty() {
        return;
    }
    let mut params = places(uses.iter().map(|(id, _)| *id));
    params.push(column(uses.into_iter().map(|(_, name)| name)));
    wanted.push(Statement::new(sql!("use_calendars"), params));
}

fn places(ids: impl Iterator<Item = ScheduleId> + Clone) -> Vec<Param> {
    vec![column(ids.clone().map(|id| shard_number(id.shard()))), column(ids.map(Uuid::from))]
}

fn add_columns(rows: &[&ScheduleRow]) -> Vec<Param> {
    let each = || rows.iter();
    let mut params = places(each().map(|row| row.id));
    params.push(column(each().map(|row| codec::text(&row.name))));
    params.extend(definition_columns(each().map(|row| &row.edit)));
    params.extend(state_columns(each().map(|row| &row.state)));
    params.push(column(each().map(|row| row.state.runs as i32)));
    params.extend(by_columns(each().map(|row| &row.created)));
    params.extend(by_columns(each().map(|row| &row.changed)));
    params.push(column(each().map(|row| namespace_number(row.namespace))));
    params
}

fn edit_columns(edits: &[&Edit<'_>]) -> Vec<Param> {
    let each = || edits.iter();
    let mut params = places(each().map(|edit| edit.id));
    params.extend(definition_columns(each().map(|edit| edit.edit)));
    params.extend(state_columns(each().map(|edit| edit.state)));
    params.extend(by_columns(each().map(|edit| &edit.change.by)));
    params.push(column(each().map(|edit| edit.change.kind as i16)));
    params.push(column(each().map(|edit| edit.change.note.as_deref().map(codec::text))));
    params
}

fn set_columns(sets: &[Set<'_>]) -> Vec<Param> {
    let mut params = places(sets.iter().map(|set| set.id));
    params.extend(state_columns(sets.iter().map(|set| set.state)));
    params.push(column(sets.iter().map(|set| set.changed.map(|by| by.at.as_micros()))));
    params.push(column(sets.iter().map(|set| set.changed.map(|by| codec::text(&by.who)))));
    params
}

fn change_columns(changes: &[Change<'_>]) -> Vec<Param> {
    let each = || changes.iter().map(|(_, change)| *change);
    let mut params = places(changes.iter().map(|(id, _)| *id));
    params.extend(by_columns(each().map(|change| &change.by)));
    params.push(column(each().map(|change| change.kind as i16)));
    params.push(column(each().map(|change| change.note.as_deref().map(codec::text))));
    params.push(column(each().map(|change| change.former_spec.as_deref().map(codec::text))));
    params
}

fn late_columns(starts: &[&&LateStart]) -> Vec<Param> {
    let each = || starts.iter();
    // So that only the partitions between the first and the last time are looked into.
    let times = || each().map(|late| late.at.as_micros());
    vec![
        column(each().map(|late| Uuid::from(late.schedule))),
        column(times()),
        column(each().map(|late| Uuid::from(late.job))),
        column(each().map(|late| late.started_at.as_micros())),
        column(each().map(|late| late.marks.0 as i16)),
        Box::new(times().min()),
        Box::new(times().max()),
    ]
}

fn definition_columns<'b>(edits: impl Iterator<Item = &'b ScheduleEdit> + Clone) -> [Param; 5] {
    let each = || edits.clone();
    [
        column(each().map(|edit| Uuid::from(edit.task))),
        column(each().map(|edit| codec::text(&edit.spec))),
        column(each().map(|edit| edit.priority.map(|priority| i16::from(priority.get())))),
        column(each().map(|edit| edit.input.clone().map(Blob))),
        column(each().map(calendars_text)),
    ]
}

fn calendars_text(edit: &ScheduleEdit) -> Option<String> {
    if edit.calendars.is_empty() {
        return None;
    }
    let names: Vec<String> = edit.calendars.iter().map(|name| codec::text(name)).collect();
    Some(serde_json::to_string(&names).expect("names are JSON"))
}

/// Without the number of runs, which verdicts alone change.
fn state_columns<'b>(states: impl Iterator<Item = &'b ScheduleState> + Clone) -> [Param; 7] {
    let each = || states.clone();
    let pauses = || states.clone().map(|state| state.pause.as_ref());
    [
        column(each().map(|state| state.revision as i32)),
        column(each().map(|state| state.since.as_micros())),
        column(pauses().map(|pause| pause.map(|pause| pause.by.at.as_micros()))),
        column(pauses().map(|pause| pause.map(|pause| codec::text(&pause.by.who)))),
        column(pauses().map(|pause| pause.and_then(|pause| pause.note.as_deref()).map(codec::text))),
        column(each().map(|state| state.skip_until.map(Timestamp::as_micros))),
        column(each().map(|state| state.failures as i16)),
    ]
}

fn by_columns<'b>(each: impl Iterator<Item = &'b By> + Clone) -> [Param; 2] {
    [column(each.clone().map(|by| by.at.as_micros())), column(each.map(|by| codec::text(&by.who)))]
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_core::ServerId;
    use punctual_core::shard::write::{BatchSeq, Epoch, JobWrite, StartsId, Write};

    fn batch(writes: Vec<Write>) -> Batch {
        let (seq, at) = (BatchSeq(1), Timestamp::EPOCH);
        Batch { seq, server: ServerId::new(at, 1), fences: Vec::new(), at, writes }
    }

    #[test]
    fn a_batch_without_schedules_has_no_statement_more() {
        let close = JobWrite::CloseStarts(StartsId { shard: ShardId(1), epoch: Epoch(1), seq: BatchSeq(1) });
        assert!(statements(&batch(vec![close.into()]), Unfit::LeaveOut).unwrap().is_empty());
        let mark =
            |at| ScheduleWrite::Watermark { shard: ShardId(1), at: Timestamp::saturating_from_micros(at) }.into();
        assert_eq!(statements(&batch(vec![mark(1), mark(2)]), Unfit::LeaveOut).unwrap().len(), 1);
    }

    #[test]
    fn what_comes_twice_has_a_statement_of_its_own() {
        let cut = |all: &[i32]| runs(all, |one| *one).into_iter().map(|run| run.len()).collect::<Vec<_>>();
        assert!(cut(&[]).is_empty());
        assert_eq!(cut(&[1, 2, 3]), [3]);
        assert_eq!(cut(&[1, 2, 1, 1, 3]), [2, 1, 2]);
    }
}
