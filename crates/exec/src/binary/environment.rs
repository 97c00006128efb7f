//! The environment variables of a program.

use std::collections::BTreeMap;

use crate::Call;

/// The task's own variables and Punctual's, which tasks cannot set.
pub(crate) fn of(theirs: &BTreeMap<String, String>, call: &Call) -> Vec<(String, String)> {
    let mut ours = vec![("PUNCTUAL_IDEMPOTENCY_KEY", call.job.to_string()), ("TRACEPARENT", traceparent(call))];
    if !call.task.is_empty() {
        ours.push(("PUNCTUAL_TASK", call.task.to_string()));
    }
    if let Some(tracing_id) = &call.tracing_id {
        ours.push(("PUNCTUAL_TRACING_ID", tracing_id.clone()));
    }
    let facts = call.facts();
    let facts = facts.iter().map(|(name, value)| (format!("PUNCTUAL_{}", name.to_ascii_uppercase()), value.to_owned()));
    let ours = ours.into_iter().map(|(name, value)| (name.to_owned(), value)).chain(facts);
    // A TRACEPARENT of the task's own is meant.
    let ours = ours.filter(|(name, _)| !theirs.contains_key(name));
    theirs.iter().map(|(name, value)| (name.clone(), value.clone())).chain(ours).collect()
}

/// The W3C Trace Context: the trace in which the job was submitted if its tracing id names one, otherwise a trace of
/// the job's own, with a span for each attempt.
fn traceparent(call: &Call) -> String {
    let id = call.job.as_u128();
    let trace = call.tracing_id.as_deref().and_then(trace_of).unwrap_or_else(|| format!("{id:032x}"));
    // Never zero: an id has its version in it.
    let span = (id as u64) ^ (u64::from(call.attempt.0) << 32);
    format!("00-{trace}-{span:016x}-01")
}

/// The trace in a tracing id that is a `traceparent` itself.
fn trace_of(tracing_id: &str) -> Option<String> {
    let mut parts = tracing_id.split('-');
    let (version, trace, span) = (parts.next()?, parts.next()?, parts.next()?);
    let is_hex = |text: &str, len: usize| text.len() == len && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_some = trace.bytes().any(|byte| byte != b'0');
    (is_hex(version, 2) && is_hex(trace, 32) && is_hex(span, 16) && is_some).then(|| trace.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trace_of_a_traceparent_is_carried_on() {
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
        assert_eq!(trace_of(&format!("00-{trace}-00f067aa0ba902b7-01")).as_deref(), Some(trace));
        for other in ["order 17", "00-00000000000000000000000000000000-00f067aa0ba902b7-01", "00-xyz-1-01", ""] {
            assert_eq!(trace_of(other), None, "{other}");
        }
    }
}
