//! Creating schedules and replacing their definitions: one, or up to 10,000 at once.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use punctual_api::{
    ErrorKind, IfExists, ScheduleBulkAnswer, ScheduleBulkRequest, ScheduleRequest, ScheduleView, limits,
};
use punctual_core::namespace::NamespaceId;
use punctual_core::run::{Run, WorkflowRun};
use punctual_core::schedule::{
    NewSchedule, Plan, ScheduleCommand, ScheduleEdit, ScheduleReply, ScheduleRow, ScheduleSpec,
};
use punctual_core::task::TaskSpec;
use punctual_core::{ScheduleId, ShardId, TaskId};

use crate::cluster::Place;
use crate::principal::By;
use crate::principal::permission::EditSchedules;
use crate::schedules::{RequestZone, not_found, refused, request, rules};
use crate::submit::WantedTask;
use crate::workflows::task_of_workflow;
use crate::{App, AppError, Checked, Faults, Precondition, Result, cut, task_rights};

/// Names of an error; the others are like them.
const NAMES_SHOWN_MAX: usize = 10;
/// Names of an answer.
const NAMES_TAKEN_MAX: usize = 100;
/// Others may create and delete under the same names meanwhile; whoever does that all the time is told.
const ROUNDS_MAX: usize = 4;

/// What an error about a schedule calls it.
pub(super) const WHAT: &str = "schedule";

/// Some milliseconds of work, even if each has many rules.
const CHECKS_AT_A_TIME: usize = 256;

/// Whether a schedule was new.
#[derive(Debug)]
pub enum Put {
    Created(Box<ScheduleView>),
    Replaced(Box<ScheduleView>),
}

/// What a user asked for, ready to be stored.
struct Ready {
    new: NewSchedule,
    spec: ScheduleSpec,
}

impl App {
    /// Creates a schedule whose name nobody has.
    pub async fn create_schedule(
        &self,
        by: &By<EditSchedules>,
        request: ScheduleRequest,
        zone: Option<&RequestZone>,
    ) -> Result<ScheduleView> {
        let who = by.who();
        check_rights(by, std::slice::from_ref(&request))?;
        let ready =
            self.prepare(by.namespace(), std::slice::from_ref(&request), zone, "").await?.pop().expect("one request");
        self.check_future(&ready.spec)?;
        let (id, name) = (ready.new.id, ready.new.name.clone());
        by.changes(&name);
        let answer = self.store_all(vec![ready.new], IfExists::Fail, who).await?;
        if answer.created == 0 {
            return Err(name_taken(&[name]));
        }
        let row = self.0.store.schedule(id).await?.ok_or_else(|| not_found(&name))?;
        Ok(cut::schedule(by, self.view_schedule(row).await?))
    }

    /// Creates many. If anything is wrong with one of them, none is stored.
    pub async fn create_schedules(
        &self,
        by: &By<EditSchedules>,
        request: ScheduleBulkRequest,
        zone: Option<&RequestZone>,
    ) -> Result<ScheduleBulkAnswer> {
        let who = by.who();
        let ScheduleBulkRequest { schedules, if_exists } = request;
        if schedules.is_empty() || schedules.len() > limits::BULK_SCHEDULES_MAX {
            let detail = format!("must be 1 to {} schedules, not {}", limits::BULK_SCHEDULES_MAX, schedules.len());
            return Err(AppError::length("/schedules", detail, schedules.len()));
        }
        check_rights(by, &schedules)?;
        let ready = self.prepare(by.namespace(), &schedules, zone, "/schedules").await?;
        let mut places: HashMap<&str, usize> = HashMap::with_capacity(ready.len());
        for (place, Ready { new, spec }) in ready.iter().enumerate() {
            self.check_future(spec).map_err(|error| error.under(&format!("/schedules/{place}")))?;
            if let Some(first) = places.insert(&new.name, place) {
                let detail = format!("is the name of /schedules/{first}, too");
                return Err(AppError::field(format!("/schedules/{place}/name"), detail));
            }
        }
        by.changes(format!("{} schedules", ready.len()));
        let tasks: Vec<TaskId> = ready.iter().map(|ready| ready.new.edit.task).collect();
        let answer = self.store_all(ready.into_iter().map(|ready| ready.new).collect(), if_exists, who).await?;
        let known = self.tasks_by_id(tasks.iter().copied()).await?;
        let warnings = self.placement_warnings(tasks.iter().filter_map(|id| known.get(id))).await;
        Ok(ScheduleBulkAnswer { warnings, ..answer })
    }

    /// Creates the schedule of this name, or replaces its definition.
    pub async fn put_schedule(
        &self,
        by: &By<EditSchedules>,
        name: &str,
        request: ScheduleRequest,
        when: Precondition,
        zone: Option<&RequestZone>,
    ) -> Result<Put> {
        let who = by.who();
        if request.name.as_ref().is_some_and(|written| written != name) {
            let error = AppError::field("/name", "is not the name in the path");
            return Err(error.hint("leave it out; a schedule cannot be renamed"));
        }
        let by_id = name.parse::<ScheduleId>().is_ok();
        if !by_id && let Err(error) = request::name("name", name) {
            let mut faults = Faults::default();
            faults.check(Err(error));
            faults.check(ScheduleRequest { name: None, ..request }.check());
            return Err(faults.finish().expect_err("the name is wrong"));
        }
        let request = ScheduleRequest { name: (!by_id).then(|| name.to_owned()), ..request };
        check_rights(by, std::slice::from_ref(&request))?;
        let Ready { mut new, spec } =
            self.prepare(by.namespace(), std::slice::from_ref(&request), zone, "").await?.pop().expect("one request");
        for _ in 0..ROUNDS_MAX {
            let known = match self.read_schedule(by.namespace(), name).await {
                Ok(row) => Some(row),
                Err(error) if error.kind == ErrorKind::ScheduleNotFound && !by_id => None,
                Err(error) => return Err(error),
            };
            if known.as_ref().is_none_or(|known| known.edit.spec != new.edit.spec) {
                self.check_future(&spec)?;
            }
            match known {
                Some(known) if known.id == new.id => {
                    // The answer to an earlier round was lost.
                    return Ok(Put::Created(Box::new(cut::schedule(by, self.view_schedule(known).await?))));
                }
                Some(known) => {
                    when.check(WHAT, name, Some(known.state.revision))?;
                    by.was(format!("revision {}", known.state.revision));
                    if by_id {
                        // Only now is it known whose slots they are.
                        let calendars = self.calendars_named(known.namespace, spec.calendars.names()).await?;
                        request::check_name(&request, &request::plan(&request, &spec, &calendars)?, &known.name)?;
                    }
                    if let Some(view) = self.replace(known, &new.edit, when, who).await? {
                        return Ok(Put::Replaced(Box::new(cut::schedule(by, view))));
                    }
                }
                None => {
                    when.check(WHAT, name, None)?;
                    match self.store_all(vec![new.clone()], IfExists::Fail, who).await {
                        Ok(done) if done.created == 1 => {
                            if let Some(row) = self.0.store.schedule(new.id).await? {
                                return Ok(Put::Created(Box::new(cut::schedule(by, self.view_schedule(row).await?))));
                            }
                        }
                        // Somebody else was quicker.
                        Ok(_) => {}
                        Err(error) if error.kind == ErrorKind::ScheduleNameTaken => {}
                        Err(error) => return Err(error),
                    }
                    new.id = self.new_schedule_ids(1).next().expect("one id");
                }
            }
        }
        Err(changed_by_many(name))
    }

    /// `None`: it was deleted meanwhile.
    async fn replace(
        &self,
        known: ScheduleRow,
        edit: &ScheduleEdit,
        when: Precondition,
        who: &str,
    ) -> Result<Option<ScheduleView>> {
        let command = ScheduleCommand::Edit { revision: when.revision(), edit: Box::new(edit.clone()) };
        let decided = self.decide_schedule(known.id, command, who).await?;
        let now = self.0.store.schedule(known.id).await?;
        match decided.reply {
            ScheduleReply::Done { .. } => {}
            ScheduleReply::NotFound => return Ok(None),
            // An earlier try did it, and its answer was lost.
            ScheduleReply::Conflict { .. }
                if decided.is_repeated && now.as_ref().is_some_and(|now| now.edit == *edit) => {}
            ScheduleReply::Conflict { revision } => {
                return Err(when.refusal(WHAT, &known.name, Some(revision)));
            }
            ScheduleReply::Refused(reason) => return Err(refused(reason)),
            ScheduleReply::NameTaken
            | ScheduleReply::Fired(_)
            | ScheduleReply::Queued { .. }
            | ScheduleReply::CancelsPrevious { .. }
            | ScheduleReply::SkippedOverlap { .. }
            | ScheduleReply::Cleared { .. }
            | ScheduleReply::Skipping(_) => return Err(AppError::out_of_place()),
        }
        let Some(now) = now else { return Ok(None) };
        let moves = self.moves(&known, &now).await?;
        Ok(Some(ScheduleView { moves: Some(moves), ..self.view_schedule(now).await? }))
    }

    /// Checks all of them, and looks up what they refer to. `pointer` is where they are in the request, if
    /// there are many.
    async fn prepare(
        &self,
        namespace: NamespaceId,
        requests: &[ScheduleRequest],
        zone: Option<&RequestZone>,
        pointer: &str,
    ) -> Result<Vec<Ready>> {
        let under = |place: usize| if pointer.is_empty() { String::new() } else { format!("{pointer}/{place}") };
        let zone = zone.map(|zone| zone.0.as_str());
        let mut specs = Vec::with_capacity(requests.len());
        let mut all_faults = Faults::default();
        for (place, request) in requests.iter().enumerate() {
            let mut faults = Faults::default();
            faults.check(request::check(request));
            if let Some(spec) = request.inline.as_ref().filter(|_| faults.is_empty()) {
                faults.check(self.check_limits(spec).map_err(|error| error.under("/inline")));
            }
            specs.extend(faults.value(request::spec(request, zone)));
            all_faults.check(faults.finish().map_err(|error| error.under(&under(place))));
            if all_faults.is_full() {
                break;
            }
            let_others_work(place).await;
        }
        all_faults.finish()?;
        let known = self.calendars_named(namespace, specs.iter().flat_map(|spec| spec.calendars.names())).await?;
        let ids: Vec<ScheduleId> = self.new_schedule_ids(requests.len()).collect();
        // Equal specs share one text and one plan.
        let mut plans: HashMap<Arc<str>, Plan> = HashMap::new();
        let mut ready = Vec::with_capacity(requests.len());
        for (place, ((request, spec), id)) in requests.iter().zip(specs).zip(ids).enumerate() {
            let_others_work(place).await;
            let name = request.name.clone().unwrap_or_else(|| id.to_string());
            let text = serde_json::to_string(&spec).expect("a spec is JSON");
            let text = match plans.get_key_value(text.as_str()) {
                Some((text, _)) => Arc::clone(text),
                None => {
                    let plan = request::plan(request, &spec, &known).map_err(|error| error.under(&under(place)))?;
                    let text: Arc<str> = text.into();
                    plans.insert(Arc::clone(&text), plan);
                    text
                }
            };
            request::check_name(request, &plans[&text], &name).map_err(|error| error.under(&under(place)))?;
            let mut calendars: Vec<String> = spec.calendars.names().cloned().collect();
            calendars.sort_unstable();
            calendars.dedup();
            ready.push((id, name, text, calendars, spec));
        }
        let workflows: Vec<Option<TaskSpec>> =
            requests.iter().map(|request| request.workflow.as_deref().map(task_of_workflow)).collect();
        let wanted: Vec<WantedTask<'_>> = requests
            .iter()
            .zip(&workflows)
            .map(|(request, workflow)| WantedTask {
                name: request.task.as_deref(),
                inline: request.inline.as_ref().or(workflow.as_ref()),
            })
            .collect();
        self.check_workflows(namespace, requests, &wanted, &under).await?;
        for (place, spec) in wanted.iter().enumerate().filter_map(|(place, wanted)| Some((place, wanted.inline?))) {
            self.check_secrets(namespace, spec, &format!("{}/inline", under(place))).await?;
        }
        let tasks = self.resolve_tasks(namespace, &wanted, under).await?;
        let ready = ready.into_iter().zip(requests).zip(tasks);
        let build = |(((id, name, text, calendars, spec), request), task): (_, Arc<punctual_core::task::Task>)| {
            let request: &ScheduleRequest = request;
            let input = request.input.as_ref().map(|json| Bytes::copy_from_slice(json.get().as_bytes()));
            let edit = ScheduleEdit { task: task.id, spec: text, calendars, priority: request.priority, input };
            Ready { new: NewSchedule { id, namespace, name, edit }, spec }
        };
        Ok(ready.map(build).collect())
    }

    /// Whether the workflows that they run are there.
    async fn check_workflows(
        &self,
        namespace: NamespaceId,
        requests: &[ScheduleRequest],
        wanted: &[WantedTask<'_>],
        under: &impl Fn(usize) -> String,
    ) -> Result<()> {
        let mut known: HashSet<(&str, Option<u32>)> = HashSet::new();
        for (place, (request, wanted)) in requests.iter().zip(wanted).enumerate() {
            let Some(Run::Workflow(WorkflowRun { name, version })) = wanted.inline.map(|spec| &spec.run) else {
                continue;
            };
            if !known.insert((name, *version)) {
                continue;
            }
            if let Err(error) = self.read_workflow(namespace, name, *version).await {
                let field = if request.workflow.is_some() { "workflow" } else { "inline/run/workflow/name" };
                return Err(match error.kind {
                    ErrorKind::WorkflowNotFound => {
                        let error = AppError::field(format!("{}/{field}", under(place)), error.detail);
                        error.hint("PUT /v1/workflows/{name} stores one")
                    }
                    _ => error,
                });
            }
        }
        Ok(())
    }

    /// Whether it can fire at all, as far as that is plain to see.
    fn check_future(&self, spec: &ScheduleSpec) -> Result<()> {
        if rules::is_over(&spec.when.rules, spec.when.end_at, self.now()) {
            let error = AppError::field("", "it would never fire: all its times have passed");
            return Err(error.hint("set a later `at` or `end_at`"));
        }
        Ok(())
    }

    /// Creates them, and replaces those that there are if that is wished for.
    async fn store_all(&self, new: Vec<NewSchedule>, if_exists: IfExists, who: &str) -> Result<ScheduleBulkAnswer> {
        let mut answer = ScheduleBulkAnswer::default();
        let mut open = new;
        for round in 0..ROUNDS_MAX {
            let known = self.known_names(&open).await?;
            if round == 0 && if_exists == IfExists::Fail && !known.is_empty() {
                let mut names: Vec<String> = known.into_keys().collect();
                names.sort_unstable();
                return Err(name_taken(&names));
            }
            let new_names = open.iter().filter(|new| !known.contains_key(&new.name)).count();
            let _turn = match open.first().map(|new| new.namespace) {
                Some(namespace) => Some(self.admit_schedules(namespace, new_names).await?),
                None => None,
            };
            let mut asked = Vec::with_capacity(open.len());
            for new in open {
                match known.get(&new.name) {
                    // The answer to an earlier round was lost.
                    Some(id) if *id == new.id => answer.created += 1,
                    None => asked.push((new.id, ScheduleCommand::Create(Box::new(new.clone())), new)),
                    Some(id) => match if_exists {
                        IfExists::Fail => answer.names_taken.push(new.name),
                        IfExists::Skip => answer.skipped += 1,
                        IfExists::Replace => {
                            let edit = Box::new(new.edit.clone());
                            asked.push((*id, ScheduleCommand::Edit { revision: None, edit }, new));
                        }
                    },
                }
            }
            let commands = asked.iter().map(|(id, command, _)| (*id, command.clone())).collect();
            let decided = self.decide_schedules(commands, who).await?;
            open = Vec::new();
            for ((id, _, new), decided) in asked.into_iter().zip(decided) {
                match decided.reply {
                    ScheduleReply::Done { .. } if id == new.id => answer.created += 1,
                    ScheduleReply::Done { .. } => answer.replaced += 1,
                    // Somebody else was quicker.
                    ScheduleReply::NameTaken | ScheduleReply::NotFound => open.push(new),
                    ScheduleReply::Refused(reason) => return Err(refused(format!("{}: {reason}", new.name))),
                    ScheduleReply::Conflict { .. }
                    | ScheduleReply::Fired(_)
                    | ScheduleReply::Queued { .. }
                    | ScheduleReply::CancelsPrevious { .. }
                    | ScheduleReply::SkippedOverlap { .. }
                    | ScheduleReply::Cleared { .. }
                    | ScheduleReply::Skipping(_) => return Err(AppError::out_of_place()),
                }
            }
            if open.is_empty() {
                break;
            }
        }
        answer.names_taken.extend(open.into_iter().map(|new| new.name));
        answer.names_taken.truncate(NAMES_TAKEN_MAX);
        Ok(answer)
    }

    async fn known_names(&self, new: &[NewSchedule]) -> Result<HashMap<String, ScheduleId>> {
        // They are of one request, which is made in one namespace.
        let Some(namespace) = new.first().map(|new| new.namespace) else { return Ok(HashMap::new()) };
        let names = new.iter().map(|new| new.name.clone()).collect();
        Ok(self.0.store.schedule_ids(namespace, names).await?.into_iter().collect())
    }

    /// New ids, spread over shards that this server owns; if it owns none, over those that somebody owns.
    fn new_schedule_ids(&self, count: usize) -> impl Iterator<Item = ScheduleId> {
        let mut shards: Vec<ShardId> = self.0.cluster.owned_here().to_vec();
        if shards.is_empty() {
            let all = (0..self.0.store.shard_count()).map(ShardId);
            shards = all.clone().filter(|shard| self.0.cluster.place(*shard) != Place::Nowhere).collect();
            if shards.is_empty() {
                shards = all.collect();
            }
        }
        let (now, first) = (self.now(), self.0.shard_turn.fetch_add(count as u64, Ordering::Relaxed));
        (0..count as u64).map(move |turn| {
            let shard = shards[((first + turn) % shards.len() as u64) as usize];
            ScheduleId::new(now, shard, self.random())
        })
    }
}

/// Whoever defines a task with a schedule needs the rights for that task.
fn check_rights(by: &By<EditSchedules>, requests: &[ScheduleRequest]) -> Result<()> {
    requests
        .iter()
        .filter_map(|request| request.inline.as_ref())
        .try_for_each(|spec| task_rights::check_inline(by, spec))
}

/// Thousands of checks take a while; other requests of the same thread come in between.
async fn let_others_work(place: usize) {
    if place % CHECKS_AT_A_TIME == CHECKS_AT_A_TIME - 1 {
        tokio::task::yield_now().await;
    }
}

fn name_taken(names: &[String]) -> AppError {
    let more = names.len().saturating_sub(NAMES_SHOWN_MAX);
    let mut shown = names[..names.len() - more].join(", ");
    if more > 0 {
        shown += &format!(" and {more} more");
    }
    let detail = if names.len() == 1 {
        format!("there is a schedule named {shown}")
    } else {
        format!("there are schedules of these names: {shown}")
    };
    AppError::new(ErrorKind::ScheduleNameTaken, detail)
        .hint("replace one with PUT /v1/schedules/{name}, or many with \"if_exists\": \"replace\"")
}

fn changed_by_many(name: &str) -> AppError {
    AppError::new(ErrorKind::Unavailable, format!("{name} is being changed by many at once")).hint("try again")
}
