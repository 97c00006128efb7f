//! What linters and generators of clients ask of the document.

use serde_json::{Value, json};

fn document() -> Value {
    crate::openapi()
}

fn operations(document: &Value) -> impl Iterator<Item = &Value> {
    let paths = document["paths"].as_object().expect("there are paths").values();
    paths.flat_map(|path| path.as_object().expect("a path has methods").values())
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().filter(|text| !text.trim().is_empty()).unwrap_or_else(|| panic!("no {key} in {value:#}"))
}

/// Every object in a value, with the way to it.
fn each_object(value: &Value, path: &str, visit: &mut impl FnMut(&str, &serde_json::Map<String, Value>)) {
    match value {
        Value::Object(fields) => {
            visit(path, fields);
            fields.iter().for_each(|(key, inner)| each_object(inner, &format!("{path}/{key}"), visit));
        }
        Value::Array(values) => {
            values.iter().enumerate().for_each(|(place, inner)| each_object(inner, &format!("{path}/{place}"), visit));
        }
        _ => {}
    }
}

#[test]
fn the_document_says_where_it_holds_and_who_may_use_it() {
    let document = document();
    assert_eq!(document["servers"][0]["url"], "/");
    assert_eq!(document["security"], json!([{}, { "bearer": [] }]));
    assert_eq!(document["components"]["securitySchemes"]["bearer"]["scheme"], "bearer");
    // As `access` has it.
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let method = method.to_uppercase().parse().unwrap();
            let is_open = crate::access::is_open(&method, path);
            let expected = match operation["tags"][0].as_str() {
                Some("agents") => json!([{ "attempt": [] }]),
                _ if is_open => json!([]),
                _ => Value::Null,
            };
            assert_eq!(operation["security"], expected, "{path}");
        }
    }
    assert!(document["info"]["contact"]["name"].is_string() && document["info"]["license"]["name"].is_string());
}

#[test]
fn every_operation_has_an_id_a_known_tag_a_summary_and_a_description() {
    let document = document();
    let tags: Vec<&str> = document["tags"].as_array().unwrap().iter().map(|tag| text(tag, "name")).collect();
    document["tags"].as_array().unwrap().iter().for_each(|tag| drop(text(tag, "description").to_owned()));
    let mut ids = std::collections::BTreeSet::new();
    for operation in operations(&document) {
        let id = text(operation, "operationId");
        assert!(ids.insert(id), "{id} twice");
        assert!(operation["tags"].as_array().unwrap().iter().all(|tag| tags.contains(&tag.as_str().unwrap())), "{id}");
        assert!(text(operation, "summary").len() <= 120, "{id}: {}", text(operation, "summary"));
        assert!(!text(operation, "summary").ends_with('.'), "{id}");
        text(operation, "description");
    }
}

#[test]
fn every_operation_says_what_success_looks_like() {
    for operation in operations(&document()) {
        let statuses: Vec<&str> = operation["responses"].as_object().unwrap().keys().map(String::as_str).collect();
        let has = |start: &str| statuses.iter().any(|status| status.starts_with(start));
        // What Redocly and Spectral ask for.
        let is_clear = has("2") != (has("3") && has("default")) && has("4XX");
        assert!(is_clear, "{}: {statuses:?}", operation["operationId"]);
    }
}

/// A generated client takes the first content type of a response, and accepts any. So it must be what the server sends to it.
#[test]
fn a_response_is_json_or_text_and_never_either() {
    for operation in operations(&document()) {
        let id = text(operation, "operationId");
        for (status, response) in operation["responses"].as_object().unwrap() {
            let types: Vec<_> = response["content"].as_object().into_iter().flatten().collect();
            for (content_type, media) in &types {
                let is_text = content_type.starts_with("text/");
                assert!(!is_text || media["schema"]["type"] == "string", "{id} {status}: {media:#}");
            }
            // Events are sent only if they are asked for.
            let usual: Vec<_> = types.iter().filter(|(content_type, _)| *content_type != "text/event-stream").collect();
            assert!(usual.len() <= 1, "{id} {status}: {types:?}");
            if let ([(usual, _)], Some((first, _))) = (&usual[..], types.first()) {
                let same_kind = usual.starts_with("text/") == first.starts_with("text/");
                assert!(same_kind, "{id} {status}: clients take {first} and get {usual}");
            }
        }
    }
}

#[test]
fn every_json_body_has_an_example() {
    let document = document();
    for operation in operations(&document) {
        let id = text(operation, "operationId");
        let request = operation["requestBody"]["content"].as_object().into_iter().flatten();
        let responses = operation["responses"].as_object().into_iter().flatten();
        let answers = responses.flat_map(|(_, response)| response["content"].as_object().into_iter().flatten());
        for (content_type, media) in request.chain(answers) {
            if content_type.ends_with("json") {
                assert!(media.get("example").is_some_and(|example| !example.is_null()), "{id} {content_type}");
            }
        }
    }
}

#[test]
fn every_parameter_has_a_type_a_description_and_an_example() {
    let document = document();
    for operation in operations(&document) {
        let id = text(operation, "operationId");
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            let name = text(parameter, "name");
            text(parameter, "description");
            let kind = text(&parameter["schema"], "type");
            assert!(parameter.get("example").is_some(), "{id}: {name}");
            let expected = match (parameter["in"].as_str().unwrap(), name) {
                (
                    _,
                    "limit" | "port" | "count" | "attempt" | "offset" | "marks" | "size" | "expires" | "revision"
                    | "after_seq",
                ) => "integer",
                (_, "paused" | "skip_unsupported" | "force" | "moved") => "boolean",
                (_, "state" | "verdict") if !id.contains("login") && !id.contains("batch") => "array",
                _ => "string",
            };
            assert_eq!(kind, expected, "{id}: {name}");
        }
    }
}

#[test]
fn every_variant_has_a_name() {
    each_object(&document(), "", &mut |path, fields| {
        for variant in ["oneOf", "anyOf"].into_iter().filter_map(|key| fields.get(key)?.as_array()).flatten() {
            let is_named = variant.get("$ref").is_some() || variant.get("title").is_some() || variant["type"] == "null";
            assert!(is_named, "{path}: {variant:#}");
        }
    });
}

#[test]
fn durations_are_texts_or_seconds_in_requests() {
    let document = document();
    let schemas = &document["components"]["schemas"];
    for (pointer, types) in [
        ("/JobRequest/properties/delay", json!(["string", "number", "null"])),
        ("/TaskSpec/properties/timeout", json!(["string", "number"])),
        ("/RetryPolicy/properties/initial", json!(["string", "number"])),
        ("/ScheduleRequest/properties/every", json!(["string", "number", "null"])),
        ("/NotificationRequest/properties/window", json!(["string", "number", "null"])),
        // Answers have one form.
        ("/NotificationView/properties/window", json!("string")),
    ] {
        assert_eq!(schemas.pointer(pointer).map(|field| &field["type"]), Some(&types), "{pointer}");
    }
    // JSON Schema's format `duration` knows no fractions of a second.
    for pointer in ["/NotificationView/properties/window", "/Job/properties/late_by"] {
        assert_eq!(schemas.pointer(pointer).map(|field| &field["pattern"]), Some(&json!("^-?P")), "{pointer}");
    }
    each_object(&document, "", &mut |path, fields| {
        let is_marked = fields.get("format").is_some_and(|format| format == super::DURATION);
        assert!(!is_marked, "{path}");
    });
}

#[test]
fn every_schema_is_described_and_used() {
    let document = document();
    let mut used = std::collections::BTreeSet::new();
    each_object(&document, "", &mut |_, fields| {
        if let Some(name) = fields.get("$ref").and_then(Value::as_str).and_then(|name| name.rsplit('/').next()) {
            used.insert(name.to_owned());
        }
    });
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        assert!(used.contains(name), "nothing refers to {name}");
        assert!(schema["description"].is_string(), "{name} is not described");
    }
}

/// With the variable `UPDATE_DOCS`, it writes the file.
#[test]
fn the_file_in_docs_is_what_servers_serve() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
    let served = format!("{:#}\n", document());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(file, &served).unwrap();
    }
    let written = std::fs::read_to_string(file).unwrap();
    let place = served.lines().zip(written.lines()).position(|(served, written)| served != written);
    assert!(served == written, "docs/openapi.json differs, first in line {:?}", place.map(|place| place + 1));
}
