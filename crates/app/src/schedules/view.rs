//! Schedules as people see them.

use std::sync::Arc;

use jiff::tz::TimeZone;
use punctual_api::{
    Moves, PauseView, PlannedStart, ScheduleChangeView, ScheduleList, ScheduleQuery, ScheduleStanding, ScheduleSummary,
    ScheduleView,
};
use punctual_core::namespace::NamespaceId;
use punctual_core::schedule::recurrence::Calendar;
use punctual_core::schedule::{Plan, PlanError, ScheduleChange, ScheduleRow, ScheduleSpec, seed_of};
use punctual_core::{TaskId, Timestamp};
use punctual_store::ScheduleFilter;

use crate::jobs::task_ref;
use crate::principal::By;
use crate::principal::permission::ViewSchedules;
use crate::schedules::calendars::done_by;
use crate::schedules::plans::Plans;
use crate::schedules::{definition, explain, zone};
use crate::{App, AppError, Checked, Faults, Result, cut, parameters, validate};

const STARTS_SHOWN: usize = 5;
const CHANGES_SHOWN: usize = 20;

/// What a definition means at this moment.
pub(super) struct Described {
    explanation: String,
    zone: String,
    standing: ScheduleStanding,
    reason: Option<String>,
    next: Vec<PlannedStart>,
}

impl App {
    /// By name or by id.
    pub async fn schedule(&self, by: &By<ViewSchedules>, name: &str) -> Result<ScheduleView> {
        let row = self.read_schedule(by.namespace(), name).await?;
        Ok(cut::schedule(by, self.view_schedule(row).await?))
    }

    pub(super) async fn view_schedule(&self, row: ScheduleRow) -> Result<ScheduleView> {
        let changes = self.0.store.schedule_changes(row.id, CHANGES_SHOWN).await?;
        let task = self.tasks_by_id(std::iter::once(row.edit.task)).await?.remove(&row.edit.task);
        let former = changes.iter().filter_map(|change| read_spec(change.former_spec.as_deref()?));
        let former_names: Vec<String> =
            former.flat_map(|spec| spec.calendars.names().cloned().collect::<Vec<_>>()).collect();
        let calendars = self.calendars_named(row.namespace, row.edit.calendars.iter()).await?;
        let plan = Plan::read(&row.edit.spec, &calendars, seed_of(&row.name)).map(Arc::new);
        let decided = self.decided(std::iter::once(row.id)).await?.until(row.id, self.now());
        let described = describe(&row, &plan, task.is_some(), decided, STARTS_SHOWN);
        let spec = read_spec(&row.edit.spec);
        let is_active = described.standing == ScheduleStanding::Active;
        let warnings = self.placement_warnings(task.iter().filter(|_| is_active)).await;
        let definition = spec.as_ref().map(|spec| definition::write(spec, &row.edit, task.as_deref()));
        Ok(ScheduleView {
            id: row.id,
            task: task_ref(row.edit.task, task.as_deref()),
            definition: definition.unwrap_or_default(),
            explanation: described.explanation,
            zone: described.zone,
            state: described.standing,
            reason: described.reason,
            next: described.next,
            pause: row.state.pause.map(|pause| PauseView { at: pause.by.at, who: pause.by.who, note: pause.note }),
            skip_until: row.state.skip_until.filter(|until| *until > self.now()),
            runs: spec.as_ref().and_then(|spec| spec.max_runs).map(|_| row.state.runs),
            failures: spec.as_ref().and_then(|spec| spec.pause_after_failures).map(|_| row.state.failures),
            created: done_by(row.created),
            changed: done_by(row.changed),
            revision: row.state.revision,
            changes: changes.into_iter().map(|change| change_view(change, &row.name, &former_names)).collect(),
            moves: None,
            warnings,
            name: row.name,
        })
    }

    /// In order of name.
    pub async fn list_schedules(&self, by: &By<ViewSchedules>, query: ScheduleQuery) -> Result<ScheduleList> {
        let (limit, after, is_paused) = read_list(&query)?;
        let task = match &query.task {
            Some(name) => Some(self.task_named(by.namespace(), name).await?.id),
            None => None,
        };
        let filter = ScheduleFilter { namespace: by.namespace(), task, is_paused, prefix: query.prefix };
        let (rows, next_cursor) = self.0.store.list_schedules(filter, after, limit).await?;
        let next_cursor = next_cursor.as_deref().map(parameters::write_name_cursor);
        Ok(ScheduleList { schedules: self.summarize_schedules(by.namespace(), rows).await?, next_cursor })
    }

    /// Of schedules of one namespace.
    async fn summarize_schedules(
        &self,
        namespace: NamespaceId,
        rows: Vec<ScheduleRow>,
    ) -> Result<Vec<ScheduleSummary>> {
        let tasks = self.tasks_by_id(rows.iter().map(|row| row.edit.task)).await?;
        let calendars = self.calendars_named(namespace, rows.iter().flat_map(|row| &row.edit.calendars)).await?;
        let decided = self.decided(rows.iter().map(|row| row.id)).await?;
        let now = self.now();
        let summarize = move || {
            let mut plans = Plans::new(&calendars);
            let summarize = |row: ScheduleRow| {
                let task: Option<&Arc<punctual_core::task::Task>> = tasks.get(&row.edit.task);
                let described = describe(&row, &plans.get(&row), task.is_some(), decided.until(row.id, now), 1);
                summary(row, task.map(|task| &**task), described)
            };
            rows.into_iter().map(summarize).collect()
        };
        // Plans take a while to make, and a page may have a thousand different ones.
        let summaries = tokio::task::spawn_blocking(summarize).await;
        summaries.map_err(|_| AppError::new(punctual_api::ErrorKind::Internal, "the list could not be made"))
    }

    /// How the next starts move from one definition to another.
    pub(super) async fn moves(&self, before: &ScheduleRow, after: &ScheduleRow) -> Result<Moves> {
        let names = before.edit.calendars.iter().chain(&after.edit.calendars);
        let calendars = self.calendars_named(after.namespace, names).await?;
        let decided = self.decided(std::iter::once(before.id)).await?.until(before.id, self.now());
        let starts = |row: &ScheduleRow| {
            let plan = Plan::read(&row.edit.spec, &calendars, seed_of(&row.name));
            plan.map(|plan| starts(&plan, row, decided, STARTS_SHOWN)).unwrap_or_default()
        };
        Ok(Moves { before: starts(before), after: starts(after) })
    }
}

/// How many a page has, after which name it begins, and whether they are paused.
fn read_list(query: &ScheduleQuery) -> Result<(usize, Option<String>, Option<bool>)> {
    let mut faults = Faults::default();
    let page = parameters::page(query.limit.as_deref(), query.cursor.as_deref(), parameters::name_cursor);
    let page = faults.value(page);
    for (field, name) in [("prefix", &query.prefix), ("task", &query.task)] {
        faults.check(name.as_ref().map_or(Ok(()), |name| validate::name(field, name)));
    }
    let is_paused = faults.value(parameters::flag("paused", query.paused.as_deref())).flatten();
    faults.finish()?;
    let (limit, after) = page.unwrap_or_default();
    Ok((limit, after, is_paused))
}

impl Checked for ScheduleQuery {
    fn check(&self) -> Result<()> {
        read_list(self).map(drop)
    }
}

fn summary(row: ScheduleRow, task: Option<&punctual_core::task::Task>, described: Described) -> ScheduleSummary {
    let task_id: TaskId = row.edit.task;
    ScheduleSummary {
        id: row.id,
        name: row.name,
        task: task_ref(task_id, task),
        explanation: described.explanation,
        zone: described.zone,
        state: described.standing,
        reason: described.reason,
        next: described.next.into_iter().take(1).collect(),
        changed: done_by(row.changed),
        revision: row.state.revision,
    }
}

pub(super) fn describe(
    row: &ScheduleRow,
    plan: &std::result::Result<Arc<Plan>, PlanError>,
    has_task: bool,
    decided: Timestamp,
    count: usize,
) -> Described {
    let spec = read_spec(&row.edit.spec);
    let explanation = match (plan, &spec) {
        (Ok(plan), _) => explain::plan(plan, seed_of(&row.name)),
        (Err(_), Some(spec)) => explain_spec(spec, &row.name, &row.edit.calendars),
        (Err(_), None) => "its definition cannot be read".to_owned(),
    };
    let zone = spec.map_or_else(|| "UTC".to_owned(), |spec| spec.when.zone);
    let next = match plan {
        Ok(plan) => starts(plan, row, decided, count),
        Err(_) => Vec::new(),
    };
    let (standing, reason) = standing(row, plan, has_task, !next.is_empty());
    let next = if standing == ScheduleStanding::Active { next } else { Vec::new() };
    Described { explanation, zone, standing, reason, next }
}

fn standing(
    row: &ScheduleRow,
    plan: &std::result::Result<Arc<Plan>, PlanError>,
    has_task: bool,
    has_next: bool,
) -> (ScheduleStanding, Option<String>) {
    let plan = match plan {
        Ok(plan) => plan,
        Err(error) => return (ScheduleStanding::Broken, Some(error.to_string())),
    };
    if !has_task {
        return (ScheduleStanding::Broken, Some("its task cannot be read".to_owned()));
    }
    if let Some(reason) = used_up(row, plan) {
        return (ScheduleStanding::Ended, Some(reason));
    }
    if let Some(reason) = paused(row) {
        return (ScheduleStanding::Paused, Some(reason));
    }
    if !has_next {
        return (ScheduleStanding::Ended, Some("it has no more planned times".to_owned()));
    }
    (ScheduleStanding::Active, None)
}

/// Why it does not fire although it has planned times.
pub(super) fn held_up(row: &ScheduleRow, plan: &Plan) -> Option<String> {
    used_up(row, plan).or_else(|| paused(row))
}

fn used_up(row: &ScheduleRow, plan: &Plan) -> Option<String> {
    let max = plan.spec.max_runs.filter(|max| row.state.runs >= *max)?;
    let runs = if max == 1 { "run" } else { "runs" };
    Some(format!("it has reached its limit of {max} {runs} (max_runs)"))
}

fn paused(row: &ScheduleRow) -> Option<String> {
    let pause = row.state.pause.as_ref()?;
    let note = pause.note.as_deref().map(|note| format!(": {note}")).unwrap_or_default();
    Some(format!("{} paused it at {}{note}", pause.by.who, pause.by.at))
}

/// The next starts, after those that are decided and those that are skipped.
fn starts(plan: &Plan, row: &ScheduleRow, decided: Timestamp, count: usize) -> Vec<PlannedStart> {
    let seed = seed_of(&row.name);
    let zone = plan.zone();
    let left = plan.spec.max_runs.map_or(count, |max| count.min(max.saturating_sub(row.state.runs) as usize));
    // One that waits out its jitter has not started yet.
    let after = (decided - plan.jitter()).max(row.state.since).max(row.state.skip_until.unwrap_or(Timestamp::EPOCH));
    let fires = plan.fires_after(after, seed).map(|occurrence| zone::from_jiff(occurrence.at));
    let starts = fires.map(|at| (at, plan.slot(at, seed))).filter(|(_, slot)| *slot > decided);
    starts.take(left).map(|(at, slot)| planned_start(at, slot, zone)).collect()
}

pub(super) fn planned_start(at: Timestamp, slot: Timestamp, zone: &TimeZone) -> PlannedStart {
    PlannedStart { at, local: zone::local(at, zone), start_at: slot }
}

pub(crate) fn read_spec(text: &str) -> Option<ScheduleSpec> {
    serde_json::from_str(text).ok()
}

/// What a definition says, whatever became of its calendars.
fn explain_spec(spec: &ScheduleSpec, name: &str, calendars: &[String]) -> String {
    let names = calendars.iter().chain(spec.calendars.names());
    let hollow = |name: &String| Arc::new(Calendar { name: name.clone(), ..Calendar::default() });
    let known = names.map(|name| (name.clone(), hollow(name))).collect();
    let seed = seed_of(name);
    let plan = Plan::new(spec.clone(), &known, seed);
    plan.map_or_else(|error| error.to_string(), |plan| explain::plan(&plan, seed))
}

fn change_view(change: ScheduleChange, name: &str, calendars: &[String]) -> ScheduleChangeView {
    let former = change.former_spec.as_deref().map(|text| {
        read_spec(text).map_or_else(|| "it cannot be read".to_owned(), |spec| explain_spec(&spec, name, calendars))
    });
    ScheduleChangeView {
        at: change.by.at,
        who: change.by.who,
        kind: change.kind.as_str().to_owned(),
        note: change.note,
        former,
    }
}
