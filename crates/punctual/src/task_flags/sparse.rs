//! Requests without the rules that nobody wrote, so that the defaults of the server and of the queue hold for them
//! and not those of this program.

use punctual_core::task::TaskSpec;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// The rules of a task that were not written.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Unset {
    pub(crate) timeout: bool,
    pub(crate) retry: bool,
    pub(crate) node_retry: bool,
    pub(crate) priority: bool,
}

/// A task's definition without what is unset.
pub(crate) fn sparse(spec: &TaskSpec, unset: Unset) -> Value {
    let mut json = serde_json::to_value(spec).expect("a task spec is JSON");
    let Unset { timeout, retry, node_retry, priority } = unset;
    if let Value::Object(fields) = &mut json {
        for (name, is_unset) in
            [("timeout", timeout), ("retry", retry), ("node_retry", node_retry), ("priority", priority)]
        {
            if is_unset {
                fields.remove(name);
            }
        }
    }
    json
}

/// A request, which has no inline task yet, with this one. Its other fields stay as they were written, digit by digit.
pub(crate) fn with_inline(request: &impl Serialize, inline: Option<Value>) -> Box<RawValue> {
    let text = serde_json::to_string(request).expect("a request is JSON");
    let text = match (inline, text.strip_suffix('}')) {
        (Some(inline), Some("{")) => format!("{{\"inline\":{inline}}}"),
        (Some(inline), Some(fields)) => format!("{fields},\"inline\":{inline}}}"),
        (None, _) | (_, None) => text,
    };
    RawValue::from_string(text).expect("it was JSON, and one more member leaves it so")
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_api::JobRequest;
    use punctual_core::task::{Probe, Run};

    #[test]
    fn only_what_was_written_is_sent() {
        let spec = TaskSpec::new(Run::Probe(Probe::default()));
        let all = Unset { timeout: true, retry: true, node_retry: true, priority: true };
        let fields = |unset| sparse(&spec, unset).as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert!(fields(Unset::default()).iter().any(|name| name == "timeout"));
        assert!(
            !fields(all).iter().any(|name| ["timeout", "retry", "node_retry", "priority"].contains(&name.as_str()))
        );
        let input = RawValue::from_string("[1.0, 100000000000000000000000000]".to_owned()).unwrap();
        let request = JobRequest { input: Some(input), ..JobRequest::default() };
        let sent = with_inline(&request, Some(serde_json::json!({ "run": {} })));
        assert_eq!(sent.get(), r#"{"input":[1.0, 100000000000000000000000000],"inline":{"run":{}}}"#);
        let empty = with_inline(&JobRequest::default(), Some(serde_json::json!({})));
        assert_eq!(empty.get(), r#"{"inline":{}}"#);
    }
}
