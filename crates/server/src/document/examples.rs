//! An example for every JSON body. Requests that people write are written by hand; the others follow from their schemas:
//! what is required, and what names an example of its own.

use serde_json::{Map, Value, json};

/// Schemas refer to each other in circles nowhere, and this deep at most.
const DEPTH_MAX: usize = 16;

pub(super) fn complete(operation: &mut Value, components: &Value) {
    let id = operation["operationId"].as_str().unwrap_or_default().to_owned();
    let request_body = operation.get_mut("requestBody").and_then(content_mut);
    for (content_type, media) in request_body.into_iter().flatten() {
        if content_type == "application/json" {
            media["example"] = request(&id).unwrap_or_else(|| of(&media["schema"], "", components, 0));
        }
    }
    let responses = operation.get_mut("responses").and_then(Value::as_object_mut);
    for (status, response) in responses.into_iter().flatten() {
        for (content_type, media) in content_mut(response).into_iter().flatten() {
            let is_json = content_type.ends_with("json") && media.get("schema").is_some();
            if let Some(problem) = problem(status).filter(|_| content_type == "application/problem+json") {
                media["example"] = problem;
            } else if is_json {
                media["example"] = of(&media["schema"], "", components, 0);
            }
        }
    }
}

/// Not by index, which would add what is not there.
fn content_mut(value: &mut Value) -> Option<&mut Map<String, Value>> {
    value.get_mut("content")?.as_object_mut()
}

fn request(operation: &str) -> Option<Value> {
    let task = json!({ "run": { "http": { "url": "https://example.com/hook", "method": "POST" } } });
    let schedule = json!({
        "name": "nightly", "task": "report", "rules": [{ "cron": "0 2 * * *" }], "zone": "Europe/Berlin"
    });
    Some(match operation {
        "create_job" => json!({ "task": "report", "delay": "90s", "input": { "month": "2026-11" } }),
        "create_jobs" => json!({ "jobs": [{ "task": "report" }, { "task": "report", "delay": "1h" }] }),
        "create_task" => json!({ "name": "report", "spec": task }),
        "apply_task" => task,
        "create_schedule" | "apply_schedule" | "preview" => schedule,
        "apply_notification" => json!({ "on": ["failed", "lost"], "email": { "to": ["ops@example.com"] } }),
        "apply_workflow" => {
            json!({ "nodes": [{ "name": "extract", "task": "report" }, { "name": "load", "task": "load", "needs": ["extract"] }] })
        }
        "create_worker_token" => json!({ "queues": ["images"], "kinds": ["binary"], "expires_in": "1h" }),
        "create_schedules" => json!({ "schedules": [schedule] }),
        "create_backfill" => json!({ "from": "2026-11-01", "to": "2026-11-08" }),
        "apply_queue" => json!({ "description": "Mails to customers", "defaults": { "timeout": "30s" } }),
        "pause_queue" | "resume_queue" | "drain_queue" => json!({ "note": "the provider is down" }),
        "create_key" => json!({ "name": "deploy", "role": "operator", "expires_in": "90d" }),
        "rotate_key" => json!({ "overlap": "24h" }),
        "create_user" => json!({ "name": "ana", "role": "developer", "mail": "ana@example.com" }),
        "edit_user" => json!({ "role": "operator" }),
        "set_password" => json!({ "password": "correct horse battery staple" }),
        "login" => json!({ "name": "ana", "password": "correct horse battery staple" }),
        _ => return None,
    })
}

fn problem(status: &str) -> Option<Value> {
    let (code, title, number, detail, hint, retryable) = match status {
        "4XX" => (
            "invalid_request",
            "Invalid request",
            400,
            "/priority: must be a whole number from -100 to 100, not 101",
            None,
            false,
        ),
        "5XX" | super::OTHERWISE => {
            ("unavailable", "Unavailable", 503, "the store does not answer", Some("try again in a while"), true)
        }
        _ => return None,
    };
    let mut problem = json!({
        "type": format!("/problems/{code}"),
        "title": title,
        "status": number,
        "detail": detail,
        "code": code,
        "request_id": "req_06bpwz2d0e5kx8r4n7v1t3m9qc",
        "retryable": retryable,
    });
    if let Some(hint) = hint {
        problem["hint"] = json!(hint);
    }
    Some(problem)
}

/// A value that fits a schema. `name` is the property that it is for.
fn of(schema: &Value, name: &str, components: &Value, depth: usize) -> Value {
    if depth > DEPTH_MAX {
        return Value::Null;
    }
    if let Some(reference) = schema["$ref"].as_str() {
        let resolved = reference.strip_prefix("#/components").and_then(|path| components.pointer(path));
        return resolved.map_or(Value::Null, |resolved| of(resolved, name, components, depth + 1));
    }
    let own = [&schema["example"], &schema["examples"][0], &schema["const"], &schema["enum"][0]];
    if let Some(own) = own.into_iter().find(|value| !value.is_null()) {
        return own.clone();
    }
    if let Some(variants) = schema["oneOf"].as_array().or_else(|| schema["anyOf"].as_array()) {
        let chosen = variants.iter().find(|variant| variant["type"] != "null");
        return chosen.map_or(Value::Null, |chosen| of(chosen, name, components, depth + 1));
    }
    if let Some(parts) = schema["allOf"].as_array() {
        let values = parts.iter().map(|part| of(part, name, components, depth + 1));
        let fields = values.filter_map(|value| value.as_object().cloned()).flatten();
        return Value::Object(fields.collect());
    }
    match type_of(schema) {
        "object" => object(schema, components, depth),
        "array" => json!([of(&schema["items"], name, components, depth + 1)]),
        "string" => string(schema, name),
        "integer" => schema.get("minimum").filter(|least| least.as_i64() > Some(0)).cloned().unwrap_or(json!(1)),
        "number" => json!(1.0),
        "boolean" => json!(false),
        "null" => Value::Null,
        // Any JSON.
        _ => json!({ "month": "2026-11" }),
    }
}

fn type_of(schema: &Value) -> &str {
    let named = match &schema["type"] {
        Value::Array(types) => types.iter().find_map(|one| one.as_str().filter(|one| *one != "null")),
        one => one.as_str(),
    };
    named.unwrap_or(if schema.get("properties").is_some() { "object" } else { "" })
}

fn object(schema: &Value, components: &Value, depth: usize) -> Value {
    let is_required = |name: &String| {
        schema["required"].as_array().is_some_and(|required| required.iter().any(|one| one == name.as_str()))
    };
    let has_example = |property: &Value| property.get("example").is_some() || property.get("examples").is_some();
    let mut fields = Map::new();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        if is_required(name) || has_example(property) {
            fields.insert(name.clone(), of(property, name, components, depth + 1));
        }
    }
    Value::Object(fields)
}

fn string(schema: &Value, name: &str) -> Value {
    let by_format = match schema["format"].as_str() {
        Some("date-time") => Some("2026-11-16T08:00:00Z"),
        Some("date") => Some("2026-12-24"),
        _ => None,
    };
    let by_name = match name {
        "name" | "schedule" => "nightly",
        "task" | "title" => "report",
        "queue" => "default",
        "zone" => "Europe/Berlin",
        "kind" => "http",
        "url" => "https://example.com/hook",
        "version" => env!("CARGO_PKG_VERSION"),
        "address" => "http://127.0.0.1:8020",
        "local" => "2026-11-16T09:00:00+01:00[Europe/Berlin]",
        "sha256" => "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "to" => "ops@example.com",
        "who" => "local",
        "roles" => "api",
        "dates" => "2026-12-24",
        _ => "text",
    };
    json!(by_format.unwrap_or(by_name))
}
