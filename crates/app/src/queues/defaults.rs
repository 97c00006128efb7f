//! What tasks of a queue are given whose definition does not say otherwise.
//!
//! Stored definitions name all of their policies, so defaults are copied into a task when it is created or applied. A change of
//! them holds for definitions that are written after it.

use punctual_api::QueueDefaults;
use punctual_core::task::{Probe, Run, TaskSpec};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::Spec;
use crate::principal::By;
use crate::principal::permission::EditTasks;
use crate::{App, Result, validate};

/// Which policies a definition names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GivenPolicies {
    priority: bool,
    retry: bool,
    node_retry: bool,
    timeout: bool,
    queue_timeout: bool,
}

/// The fields of a definition that a queue has defaults for. `null` counts as given: it says that there is none.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Fields {
    #[serde(deserialize_with = "given")]
    priority: bool,
    #[serde(deserialize_with = "given")]
    retry: bool,
    #[serde(deserialize_with = "given")]
    node_retry: bool,
    #[serde(deserialize_with = "given")]
    timeout: bool,
    #[serde(deserialize_with = "given")]
    queue_timeout: bool,
}

fn given<'de, D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<bool, D::Error> {
    IgnoredAny::deserialize(deserializer).map(|_| true)
}

impl From<Fields> for GivenPolicies {
    fn from(fields: Fields) -> Self {
        let Fields { priority, retry, node_retry, timeout, queue_timeout } = fields;
        Self { priority, retry, node_retry, timeout, queue_timeout }
    }
}

impl GivenPolicies {
    /// Those of a definition in JSON that was read before.
    pub fn of_spec(json: &[u8]) -> Self {
        serde_json::from_slice::<Fields>(json).unwrap_or_default().into()
    }

    /// Those of the definition in the field `spec`.
    pub fn of_request(json: &[u8]) -> Self {
        #[derive(Deserialize)]
        struct Request {
            spec: Fields,
        }
        serde_json::from_slice::<Request>(json).map(|request| request.spec.into()).unwrap_or_default()
    }
}

impl App {
    /// A definition with the defaults of its queue where it names no policy.
    pub async fn with_queue_defaults(
        &self,
        by: &By<EditTasks>,
        spec: TaskSpec,
        given: GivenPolicies,
    ) -> Result<TaskSpec> {
        // Another server may just have set them.
        self.0.engine.refresh_queues().await?;
        let known = self.0.engine.queues();
        let Some(row) = known.get(by.namespace(), &spec.queue) else { return Ok(spec) };
        Ok(with_defaults(spec, Spec::read(row).defaults, given))
    }

    /// Whether a task could have these policies on this server.
    pub(super) fn check_queue_defaults(&self, defaults: &QueueDefaults) -> Result<()> {
        let task = TaskSpec::new(Run::Probe(Probe::default()));
        let task = with_defaults(task, defaults.clone(), GivenPolicies::default());
        let checked = validate::spec(&task).and_then(|()| self.check_limits(&task));
        checked.map_err(|error| error.under("/defaults"))
    }
}

fn with_defaults(mut spec: TaskSpec, defaults: QueueDefaults, given: GivenPolicies) -> TaskSpec {
    let QueueDefaults { priority, retry, node_retry, timeout, queue_timeout } = defaults;
    if let Some(priority) = priority.filter(|_| !given.priority) {
        spec.priority = priority;
    }
    if let Some(retry) = retry.filter(|_| !given.retry) {
        spec.retry = retry;
    }
    if let Some(node_retry) = node_retry.filter(|_| !given.node_retry) {
        spec.node_retry = node_retry;
    }
    if let Some(timeout) = timeout.filter(|_| !given.timeout) {
        spec.timeout = timeout;
    }
    if !given.queue_timeout {
        spec.queue_timeout = queue_timeout.or(spec.queue_timeout);
    }
    spec
}

#[cfg(test)]
mod tests {
    use punctual_core::Span;
    use punctual_core::task::Priority;

    use super::*;

    #[test]
    fn what_a_definition_names_is_kept_and_what_it_leaves_out_is_that_of_its_queue() {
        let defaults = QueueDefaults {
            priority: Priority::new(7),
            timeout: Some(Span::from_secs(5)),
            queue_timeout: Some(Span::from_secs(60)),
            ..QueueDefaults::default()
        };
        for (given, expected) in [
            ("", (7, 5, Some(60))),
            (r#","priority":0"#, (0, 5, Some(60))),
            (r#","timeout":"1200s","queue_timeout":null"#, (7, 1200, None)),
            (r#","queue_timeout":"1s""#, (7, 5, Some(1))),
        ] {
            let json = format!(r#"{{"run":{{"probe":{{}}}}{given}}}"#);
            let spec: TaskSpec = serde_json::from_str(&json).unwrap();
            let request = format!(r#"{{"name":"a","spec":{json}}}"#);
            let policies = GivenPolicies::of_spec(json.as_bytes());
            assert_eq!(GivenPolicies::of_request(request.as_bytes()), policies);
            let spec = with_defaults(spec, defaults.clone(), policies);
            let secs = |span: Span| span.as_micros() / 1_000_000;
            assert_eq!((spec.priority.get(), secs(spec.timeout), spec.queue_timeout.map(secs)), expected, "{json}");
        }
    }
}
