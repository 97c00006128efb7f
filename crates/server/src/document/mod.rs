//! The OpenAPI document: what the routes say of themselves, and what tools that read it need besides. Parameters
//! arrive as text and are read strictly by the app; here they get the types that they stand for.

mod examples;
mod parameters;

#[cfg(test)]
mod tests;

use serde_json::{Value, json};

/// Each with what it is about, in the order of a reader's interest.
const TAGS: [(&str, &str); 18] = [
    ("tasks", "Definitions of what to run, by which rules. A job is one run of a task."),
    ("jobs", "Submit work, follow it, and change its course."),
    ("batches", "Jobs that are stored, started and ended together."),
    ("schedules", "When a task runs again and again, and what became of each planned time."),
    ("backfills", "Run a schedule for a range of past times."),
    ("workflows", "Graphs of tasks, and their runs."),
    ("calendars", "Dates that schedules leave out or keep to."),
    ("queues", "What waits and runs in a queue, whether its jobs start, and the defaults of its tasks."),
    ("secrets", "Named values that tasks refer to and that nobody can read again."),
    ("notifications", "Who is notified of failures, late and missed runs; and what is late now."),
    ("artifacts", "Uploaded files that tasks run or read."),
    ("namespaces", "Tenants that share the cluster and see nothing of each other."),
    ("audit", "Who changed what, and what was refused."),
    ("nodes", "The servers and workers of the cluster."),
    ("identities", "API keys, people, their sessions, and on whose behalf a request is made."),
    ("logins", "Logging in at a provider of OpenID Connect, by browser and by device code."),
    ("agents", "For agents, which run one attempt each with a token of their own. Bodies are protobuf messages."),
    ("health", "Probes, kinds of problems, and this document."),
];

/// Completes the document that the routes make.
pub(crate) fn complete(mut document: Value) -> Value {
    document["info"]["contact"] = json!({ "name": "The Punctual project" });
    document["servers"] = json!([{ "url": "/", "description": "The server that serves this document" }]);
    document["components"]["securitySchemes"] = json!({
        BEARER: {
            "type": "http",
            "scheme": "bearer",
            "description": "A key (`punctual_key_…`), the token of a session (`punctual_session_…`), or the access token: the content of \
                the file `token` in the server's `data_dir`.",
        },
        ATTEMPT: {
            "type": "http",
            "scheme": "bearer",
            "description": "The token of one attempt, which its agent gets at its start.",
        },
    });
    // Without a credential, the server answers its own user on loopback.
    document["security"] = json!([{}, { BEARER: [] }]);
    document["tags"] =
        TAGS.iter().map(|(name, description)| json!({ "name": name, "description": description })).collect();
    name_variants(&mut document["components"]["schemas"]);
    let parts = unite_parts(&mut document["components"]["schemas"]);
    drop_united_parts(&mut document, &parts);
    type_durations(&mut document["components"]["schemas"]);
    let components = document["components"].clone();
    for operation in operations_mut(&mut document) {
        describe(operation);
        name_what_is_left(operation);
        describe_streams(operation);
        secure(operation);
        choose_namespace(operation);
        parameters::complete(operation);
        examples::complete(operation, &components);
    }
    document
}

/// Writes an object that consists of others as one object: generated clients and checks of unknown fields read that better than
/// `allOf`.
fn unite_parts(schemas: &mut Value) -> Vec<String> {
    let (known, mut names) = (schemas.clone(), Vec::new());
    for schema in schemas.as_object_mut().into_iter().flat_map(|all| all.values_mut()) {
        let Some(parts) = schema.as_object_mut().and_then(|schema| schema.remove("allOf")) else { continue };
        let (mut properties, mut required) = (serde_json::Map::new(), Vec::new());
        for part in parts.as_array().into_iter().flatten() {
            let name = part["$ref"].as_str().and_then(|path| path.rsplit('/').next());
            names.extend(name.map(str::to_owned));
            let part = name.map_or(part, |name| &known[name]);
            properties.extend(
                part["properties"].as_object().into_iter().flatten().map(|(name, of)| (name.clone(), of.clone())),
            );
            required.extend(part["required"].as_array().into_iter().flatten().cloned());
        }
        schema["type"] = json!("object");
        schema["properties"] = properties.into();
        schema["required"] = required.into();
    }
    names
}

/// Removes schemas of which nothing is left but their fields in others.
fn drop_united_parts(document: &mut Value, parts: &[String]) {
    for name in parts {
        let reference = format!("\"#/components/schemas/{name}\"");
        if !document.to_string().contains(&reference)
            && let Some(schemas) = document["components"]["schemas"].as_object_mut()
        {
            schemas.remove(name);
        }
    }
}

fn operations_mut(document: &mut Value) -> impl Iterator<Item = &mut Value> {
    let paths = document.get_mut("paths").and_then(Value::as_object_mut).into_iter().flatten();
    paths.flat_map(|(_, path)| path.as_object_mut().into_iter().flatten().map(|(_, operation)| operation))
}

/// The access token.
const BEARER: &str = "bearer";
/// The token of an attempt.
const ATTEMPT: &str = "attempt";

/// Says which operations take another credential than most, or none.
fn secure(operation: &mut Value) {
    // Files have signed addresses.
    // A login has the password.
    const OPEN: [&str; 6] = ["live", "ready", "get_problem", "download_artifact", "upload_artifact", "login"];
    if operation["tags"][0] == "agents" {
        operation["security"] = json!([{ ATTEMPT: [] }]);
    } else if operation["tags"][0] == "logins" || OPEN.iter().any(|open| operation["operationId"] == *open) {
        operation["security"] = json!([]);
    }
}

/// What is done in one namespace can name it.
fn choose_namespace(operation: &mut Value) {
    const CHOOSING: [&str; 12] = [
        "tasks",
        "jobs",
        "batches",
        "schedules",
        "backfills",
        "workflows",
        "calendars",
        "queues",
        "secrets",
        "notifications",
        "artifacts",
        "audit",
    ];
    let is_open = operation["security"].as_array().is_some_and(Vec::is_empty);
    if is_open || !CHOOSING.iter().any(|tag| operation["tags"][0] == *tag) {
        return;
    }
    let header = json!({ "name": parameters::NAMESPACE, "in": "header", "required": false });
    match operation["parameters"].as_array_mut() {
        Some(known) => known.push(header),
        None => operation["parameters"] = json!([header]),
    }
}

/// The first sentence is what a list of operations has room for.
fn describe(operation: &mut Value) {
    let text = |key: &str| operation[key].as_str().unwrap_or_default().replace('\n', " ").trim().to_owned();
    let (summary, more) = (text("summary"), text("description"));
    let whole = [summary.as_str(), more.as_str()].join(" ").trim().to_owned();
    let first = summary.split_once(". ").map_or(summary.as_str(), |(first, _)| first);
    operation["summary"] = json!(first.trim_end_matches('.'));
    operation["description"] = json!(whole);
}

/// A stream of events is a text, of which the schema describes the data of each event. Generated clients would read all of it as
/// one object otherwise.
fn describe_streams(operation: &mut Value) {
    for response in operation["responses"].as_object_mut().into_iter().flat_map(|all| all.values_mut()) {
        let Some(media) = response.pointer_mut("/content/text~1event-stream") else { continue };
        if let Some(event) = media.get("schema").filter(|schema| schema.get("$ref").is_some()).cloned() {
            media["schema"] =
                json!({ "type": "string", "contentMediaType": "text/event-stream", "contentSchema": event });
        }
    }
}

/// The key of the response to every status that is not listed.
const OTHERWISE: &str = "default";

/// An operation whose only success is a redirect has failures of the server under `default`. Linters want a 2XX of every operation or
/// that, and a 2XX would be untrue.
fn name_what_is_left(operation: &mut Value) {
    let Some(responses) = operation["responses"].as_object_mut() else { return };
    if responses.keys().any(|status| status.starts_with('2')) {
        return;
    }
    if let Some(failure) = responses.remove("5XX") {
        responses.insert(OTHERWISE.to_owned(), failure);
    }
}

/// Variants of an enum that are objects with one property are called by it, with the enum's own name before: a generated
/// client has `RunBinary` and not `RunType0`.
fn name_variants(schemas: &mut Value) {
    for (name, schema) in schemas.as_object_mut().into_iter().flatten() {
        // Not by index, which would add what is not there.
        for variant in schema.get_mut("oneOf").and_then(Value::as_array_mut).into_iter().flatten() {
            let property = variant["required"].as_array().and_then(|required| required.first()?.as_str());
            let Some(property) = property.filter(|_| variant.get("title").is_none()) else { continue };
            variant["title"] = json!(format!("{name}{}", capitalized(property)));
        }
    }
}

/// What marks a field of a request that holds a duration.
const DURATION: &str = "x-duration";

/// Durations in requests are texts or numbers of seconds. Not as two variants, for which generated clients have a class.
fn type_durations(schema: &mut Value) {
    if schema.get("format").is_some_and(|format| format == DURATION)
        && let Some(fields) = schema.as_object_mut()
    {
        fields.remove("format");
        let or_null = fields["type"].is_array().then_some("null");
        fields["type"] = ["string", "number"].into_iter().chain(or_null).collect();
    }
    match schema {
        Value::Object(fields) => fields.values_mut().for_each(type_durations),
        Value::Array(values) => values.iter_mut().for_each(type_durations),
        _ => {}
    }
}

fn capitalized(word: &str) -> String {
    let (first, rest) = word.split_at(1.min(word.len()));
    first.to_ascii_uppercase() + rest
}
