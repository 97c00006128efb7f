//! Task definitions as the server sends them, parsed once for each revision.

use std::collections::HashMap;
use std::sync::Arc;

use punctual_core::id::TaskId;
use punctual_core::namespace::NamespaceId;
use punctual_core::task::Run;
use punctual_core::time::Span;
use punctual_exec::{Executor, Executors};
use punctual_proto::worker as wire;

/// Every one-off job has a definition of its own; beyond this number the cache is emptied.
const TASKS_LEN_MAX: usize = 1024;

/// A task and the executor that runs it.
pub(crate) struct RunnableTask {
    pub(crate) namespace: NamespaceId,
    pub(crate) name: Arc<str>,
    pub(crate) run: Arc<Run>,
    /// The task's timeout; `None` if the server sent none.
    pub(crate) timeout: Option<Span>,
    pub(crate) executor: Arc<dyn Executor>,
    pub(crate) has_placeholders: bool,
}

pub(crate) struct Tasks {
    executors: Executors,
    known: HashMap<(TaskId, u32), Arc<RunnableTask>>,
}

impl Tasks {
    pub(crate) fn new(executors: Executors) -> Self {
        Self { executors, known: HashMap::new() }
    }

    /// Parses a definition. The error is the reason for which assignments of this task are given back.
    pub(crate) fn read(&mut self, definition: &wire::TaskDefinition) -> Result<Arc<RunnableTask>, String> {
        let id = TaskId::from_bytes(&definition.task_id).ok_or("the task's id is not one")?;
        let key = (id, definition.revision);
        if let Some(task) = self.known.get(&key) {
            return Ok(task.clone());
        }
        let task = Arc::new(self.parse(definition)?);
        if self.known.len() >= TASKS_LEN_MAX {
            self.known.clear();
        }
        self.known.insert(key, task.clone());
        Ok(task)
    }

    fn parse(&self, definition: &wire::TaskDefinition) -> Result<RunnableTask, String> {
        let run: Run = serde_json::from_slice(&definition.run)
            .map_err(|error| format!("this worker cannot read the task: {error}"))?;
        let executor =
            self.executors.get(&run).ok_or_else(|| format!("this worker does not run {} tasks", run.kind()))?.clone();
        let timeout = match i64::try_from(definition.timeout_us) {
            Ok(0) => None,
            Ok(micros) => Some(Span::from_micros(micros).min(Span::MAX)),
            Err(_) => Some(Span::MAX),
        };
        let has_placeholders = run.has_placeholders();
        let (namespace, name) = (NamespaceId(definition.namespace), definition.name.as_str().into());
        Ok(RunnableTask { namespace, name, run: Arc::new(run), timeout, executor, has_placeholders })
    }
}
