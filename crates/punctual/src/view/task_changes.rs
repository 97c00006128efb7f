//! What an update changed in a task's definition.

use std::collections::BTreeSet;

use punctual_api::make_durations_friendly;
use punctual_core::task::TaskSpec;
use serde_json::Value;

/// The fields that differ: `timeout 20m → 30s`.
pub(crate) fn task_changes(before: &TaskSpec, after: &TaskSpec) -> Vec<String> {
    let json = |spec: &TaskSpec| {
        let mut spec = serde_json::to_value(spec).unwrap_or_default();
        make_durations_friendly(&mut spec);
        spec
    };
    let mut found = Vec::new();
    compare("", Some(&json(before)), Some(&json(after)), &mut found);
    found
}

fn compare(path: &str, before: Option<&Value>, after: Option<&Value>, found: &mut Vec<String>) {
    if before == after {
        return;
    }
    if let (Some(Value::Object(before)), Some(Value::Object(after))) = (before, after) {
        let keys: BTreeSet<_> = before.keys().chain(after.keys()).collect();
        for key in keys {
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            compare(&path, before.get(key), after.get(key), found);
        }
        return;
    }
    // They hold secrets, or are long.
    const PRIVATE: [&str; 7] = [
        "run.http.headers",
        "run.http.body",
        "run.slack.webhook",
        "run.slack.text",
        "run.telegram.text",
        "run.email.text",
        "run.email.html",
    ];
    let is_private = PRIVATE.iter().any(|private| path.starts_with(private));
    found.push(match (before, after) {
        (None, Some(Value::Object(_))) => format!("{path} added"),
        (Some(Value::Object(_)), None) => format!("{path} removed"),
        (None, Some(_)) if is_private => format!("{path} added"),
        (Some(_), None) if is_private => format!("{path} removed"),
        _ if is_private => format!("{path} changed"),
        _ => format!("{path} {} → {}", shown(before), shown(after)),
    });
}

fn shown(value: Option<&Value>) -> String {
    match value {
        None => "none".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(before: &str, after: &str, wanted: &[&str]) {
        let spec = |text: &str| serde_json::from_str(text).unwrap();
        assert_eq!(task_changes(&spec(before), &spec(after)), wanted);
    }

    #[test]
    fn an_update_is_told_field_by_field_and_without_secrets() {
        let ping = r#"{"run":{"http":{"url":"http://h/"}}}"#;
        check(ping, ping, &[]);
        check(
            r#"{"run":{"http":{"url":"http://h/"}},"timeout":"30s","labels":{"zone":"eu"},"retry":{"max":5}}"#,
            ping,
            &["labels removed", "retry.max 5 → 3", "timeout 30s → 20m"],
        );
        check(
            ping,
            r#"{"run":{"http":{"url":"http://h/2","headers":{"Authorization":"secret"}}},"queue_timeout":"1h"}"#,
            &["queue_timeout none → 1h", "run.http.headers added", "run.http.url http://h/ → http://h/2"],
        );
        check(
            r#"{"run":{"slack":{"webhook":"ops"}}}"#,
            r#"{"run":{"slack":{"webhook":"https://hooks.slack.com/services/secret"}}}"#,
            &["run.slack.webhook changed"],
        );
        check(ping, r#"{"run":{"probe":{}}}"#, &["run.http removed", "run.probe added"]);
    }
}
