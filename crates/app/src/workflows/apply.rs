//! Definitions of workflows.

use std::borrow::Cow;
use std::collections::HashMap;

use punctual_api::{
    DoneBy, ErrorKind, VersionQuery, WorkflowApplied, WorkflowList, WorkflowQuery, WorkflowSummary, WorkflowView,
};
use punctual_core::NamespaceId;
use punctual_core::run::{Run, WorkflowRun};
use punctual_core::schedule::By as DoneAt;
use punctual_core::task::TaskSpec;
use punctual_core::workflow::{Graph, GraphFault, WorkflowSpec};
use punctual_store::{VERSIONS_MAX, WORKFLOWS_MAX, WorkflowRow, WorkflowStored};

use super::start::NESTING_MAX;
use crate::parameters::{name_cursor, page, write_name_cursor};
use crate::principal::By;
use crate::principal::permission::{EditTasks, ViewTasks};
use crate::{App, AppError, Checked, Faults, Result, cut, task_rights, validate};

/// Other workflows that one runs, by whatever way.
const NESTED_MAX: usize = 100;

/// A task of a definition: where it stands, its name, or what is defined there.
pub(super) struct TaskPlace<'s> {
    pub(super) pointer: String,
    pub(super) name: Option<&'s str>,
    pub(super) inline: Option<Cow<'s, TaskSpec>>,
}

/// A task that runs a workflow, once: whoever wants its runs to be tried again says so.
pub(crate) fn task_of_workflow(name: &str) -> TaskSpec {
    let mut spec = TaskSpec::new(Run::Workflow(WorkflowRun { name: name.to_owned(), version: None }));
    spec.retry.max = 0;
    spec
}

/// The tasks of all nodes and handlers, in the order of the nodes of the graph; a gate has neither name nor definition.
pub(super) fn task_places(spec: &WorkflowSpec) -> Vec<TaskPlace<'_>> {
    let nodes = spec.nodes.iter().enumerate().map(|(place, node)| TaskPlace {
        pointer: format!("/nodes/{place}"),
        name: node.task.as_deref(),
        inline: match &node.workflow {
            Some(workflow) => Some(Cow::Owned(task_of_workflow(workflow))),
            None => node.inline.as_deref().map(Cow::Borrowed),
        },
    });
    let handlers = [("on_failure", &spec.on_failure), ("on_success", &spec.on_success), ("on_end", &spec.on_end)];
    let handlers = handlers.into_iter().flat_map(|(field, handlers)| {
        handlers.iter().enumerate().map(move |(place, handler)| TaskPlace {
            pointer: format!("/{field}/{place}"),
            name: handler.task.as_deref(),
            inline: handler.inline.as_deref().map(Cow::Borrowed),
        })
    });
    nodes.chain(handlers).collect()
}

impl App {
    /// Stores a definition as a new version, unless it is the newest one.
    pub async fn apply_workflow(&self, by: &By<EditTasks>, name: &str, spec: &WorkflowSpec) -> Result<WorkflowApplied> {
        validate::name("name", name)?;
        check(spec)?;
        let mut faults = Faults::default();
        for place in task_places(spec) {
            faults.check(self.check_task(by, &place).await);
            if faults.is_full() {
                break;
            }
        }
        faults.finish()?;
        self.check_nested(by.namespace(), name, spec).await?;
        let row = WorkflowRow {
            namespace: by.namespace(),
            name: name.to_owned(),
            version: 0,
            spec: serde_json::to_string(spec).expect("a definition is JSON"),
            made: DoneAt { at: self.now(), who: by.who().to_owned() },
        };
        let (version, is_new) = match self.0.store.put_workflow(row).await? {
            WorkflowStored::New(version) => (version, true),
            WorkflowStored::Unchanged(version) => (version, false),
            WorkflowStored::Full => {
                let detail = format!("there may be {WORKFLOWS_MAX} workflows, and {VERSIONS_MAX} versions of each");
                return Err(AppError::new(ErrorKind::TooManyWorkflows, detail).hint("use one that is there"));
            }
        };
        Ok(WorkflowApplied { name: name.to_owned(), version, is_new })
    }

    /// Refuses a definition whose nodes run workflows that are not there, that run it, or that are nested too deep.
    async fn check_nested(&self, namespace: NamespaceId, name: &str, spec: &WorkflowSpec) -> Result<()> {
        let mut known: HashMap<String, Vec<String>> = HashMap::new();
        for (place, node) in spec.nodes.iter().enumerate() {
            let Some(first) = &node.workflow else { continue };
            let pointer = format!("/nodes/{place}/workflow");
            // Depth first, with the way from this workflow to where we are.
            let mut ways = vec![vec![name.to_owned(), first.clone()]];
            while let Some(way) = ways.pop() {
                let last = way.last().expect("a way has an end").clone();
                if last == name {
                    let error = AppError::field(&pointer, format!("the workflows run each other: {}", way.join(" > ")));
                    return Err(error.hint("a workflow cannot run itself"));
                }
                if way.len() > NESTING_MAX {
                    let detail = format!("workflows may run each other {NESTING_MAX} deep, not {}", way.join(" > "));
                    return Err(AppError::field(&pointer, detail));
                }
                if !known.contains_key(&last) {
                    if known.len() >= NESTED_MAX {
                        let detail = format!("it may run {NESTED_MAX} other workflows, those that they run included");
                        return Err(AppError::field(&pointer, detail));
                    }
                    let row = self.read_workflow(namespace, &last, None).await.map_err(|error| match error.kind {
                        ErrorKind::WorkflowNotFound if way.len() == 2 => {
                            let error = AppError::field(&pointer, error.detail);
                            error.hint("apply the other workflow first")
                        }
                        _ => error,
                    })?;
                    let nodes = read_spec(&row)?.nodes;
                    let mut next: Vec<String> = nodes.into_iter().filter_map(|node| node.workflow).collect();
                    next.sort_unstable();
                    next.dedup();
                    known.insert(last.clone(), next);
                }
                for next in &known[&last] {
                    ways.push([&way[..], std::slice::from_ref(next)].concat());
                }
            }
        }
        Ok(())
    }

    async fn check_task(&self, by: &By<EditTasks>, place: &TaskPlace<'_>) -> Result<()> {
        if let Some(name) = place.name {
            let pointer = format!("{}/task", place.pointer);
            validate::name(&pointer, name)?;
            return match self.task_named(by.namespace(), name).await {
                Err(error) if error.kind == ErrorKind::TaskNotFound => {
                    let detail = format!("there is no task `{name}`");
                    Err(AppError::field(pointer, detail).hint("create the task first, or define it in `inline`"))
                }
                found => found.map(drop),
            };
        }
        let Some(spec) = place.inline.as_deref() else { return Ok(()) };
        let pointer = format!("{}/inline", place.pointer);
        self.check_limits(spec).map_err(|error| error.under(&pointer))?;
        task_rights::check(by, spec)?;
        self.check_secrets(by.namespace(), spec, &pointer).await
    }

    pub async fn workflow(&self, by: &By<ViewTasks>, name: &str, query: &VersionQuery) -> Result<WorkflowView> {
        let version = match &query.version {
            None => None,
            Some(text) => {
                let version = text.parse().map_err(|_| AppError::field("version", "must be a number from 1"))?;
                Some(version)
            }
        };
        let row = self.read_workflow(by.namespace(), name, version).await?;
        let spec = read_spec(&row)?;
        let created = done(&row.made);
        Ok(cut::workflow(by, WorkflowView { name: row.name, version: row.version, created, spec }))
    }

    pub async fn list_workflows(&self, by: &By<ViewTasks>, query: &WorkflowQuery) -> Result<WorkflowList> {
        let (limit, after) = page(query.limit.as_deref(), query.cursor.as_deref(), name_cursor)?;
        let rows = self.0.store.list_workflows(by.namespace(), after, limit).await?;
        let next_cursor = rows.last().filter(|_| rows.len() == limit).map(|last| write_name_cursor(&last.name));
        let summary = |row: WorkflowRow| {
            let nodes = read_spec(&row)?.nodes.len() as u32;
            Ok(WorkflowSummary { name: row.name, version: row.version, created: done(&row.made), nodes })
        };
        Ok(WorkflowList { workflows: rows.into_iter().map(summary).collect::<Result<_>>()?, next_cursor })
    }

    pub(crate) async fn read_workflow(
        &self,
        namespace: NamespaceId,
        name: &str,
        version: Option<u32>,
    ) -> Result<WorkflowRow> {
        validate::name("name", name)?;
        let found = match version.map(i32::try_from) {
            Some(Err(_)) => None,
            Some(Ok(_)) | None => self.0.store.workflow(namespace, name, version).await?,
        };
        found.ok_or_else(|| {
            let detail = match version {
                Some(version) => format!("there is no version {version} of a workflow {name}"),
                None => format!("there is no workflow {name}"),
            };
            AppError::new(ErrorKind::WorkflowNotFound, detail).hint("GET /v1/workflows lists what there is")
        })
    }
}

pub(super) fn done(by: &DoneAt) -> DoneBy {
    DoneBy { at: by.at, who: by.who.clone() }
}

pub(super) fn read_spec(row: &WorkflowRow) -> Result<WorkflowSpec> {
    serde_json::from_str(&row.spec).map_err(|error| {
        let detail = format!("version {} of the workflow {} cannot be read by this server", row.version, row.name);
        AppError::new(ErrorKind::Internal, detail).because(error)
    })
}

/// What can be said of a definition without looking anything up.
fn check(spec: &WorkflowSpec) -> Result<()> {
    let mut faults = Faults::default();
    for GraphFault { place, detail, hint } in Graph::of(spec).err().unwrap_or_default() {
        let error = AppError::field(place, detail);
        faults.check(Err(match hint {
            Some(hint) => error.hint(hint),
            None => error,
        }));
    }
    for place in task_places(spec) {
        if let Some(inline) = place.inline.as_deref() {
            faults.check(validate::spec(inline).map_err(|error| error.under(&format!("{}/inline", place.pointer))));
        }
    }
    faults.finish()
}

impl Checked for WorkflowSpec {
    fn check(&self) -> Result<()> {
        check(self)
    }
}
