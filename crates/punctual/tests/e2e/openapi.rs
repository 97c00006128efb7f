//! The served OpenAPI document, as a judge of answers.
//!
//! An answer passes if its status is documented, its content type is, and its body
//! fits the schema. Objects are taken as closed: a field that the document does not
//! mention is a fault of the document.

use jsonschema::Validator;
use serde_json::{Map, Value, json};

pub(crate) struct Document {
    paths: Map<String, Value>,
    components: Value,
}

/// One documented method of one path.
pub(crate) struct Operation<'a> {
    document: &'a Document,
    pub(crate) id: &'a str,
    described: &'a Value,
}

impl Document {
    pub(crate) fn new(served: &Value) -> Self {
        assert!(served["openapi"].as_str().is_some_and(|version| version.starts_with("3.1")), "{}", served["openapi"]);
        let mut components = served["components"].clone();
        close(&mut components);
        Self { paths: served["paths"].as_object().expect("the document has paths").clone(), components }
    }

    pub(crate) fn operation_ids(&self) -> impl Iterator<Item = &str> {
        let operations = self.paths.values().flat_map(|path| path.as_object().expect("a path has methods").values());
        operations.map(|operation| operation["operationId"].as_str().expect("an operation has an id"))
    }

    /// What is documented at this path, without its query; `None` for what there is not.
    pub(crate) fn operation(&self, method: &str, path: &str) -> Option<Operation<'_>> {
        // A word goes before a parameter: `/v1/jobs/bulk` is not a job.
        let mut matching: Vec<_> = self.paths.iter().filter(|(template, _)| fits(template, path)).collect();
        matching.sort_by_key(|(template, _)| template.matches('{').count());
        let (_, methods) = matching.first()?;
        let described = methods.get(method.to_ascii_lowercase())?;
        Some(Operation { document: self, id: described["operationId"].as_str()?, described })
    }

    /// Why `value` does not fit the schema; empty if it does.
    pub(crate) fn misfits(&self, schema: &Value, value: &Value) -> Vec<String> {
        let errors = self.validator(schema);
        errors.iter_errors(value).map(|error| format!("{}: {error}", error.instance_path())).collect()
    }

    pub(crate) fn misfits_of(&self, component: &str, value: &Value) -> Vec<String> {
        self.misfits(&json!({ "$ref": format!("#/components/schemas/{component}") }), value)
    }

    fn validator(&self, schema: &Value) -> Validator {
        let mut schema = schema.clone();
        close(&mut schema);
        let whole = json!({ "components": self.components, "allOf": [schema] });
        jsonschema::options().should_validate_formats(true).build(&whole).expect("the schema is valid")
    }
}

impl Operation<'_> {
    /// Why such an answer is not documented; empty if it is.
    pub(crate) fn misfits(&self, status: u16, content_type: Option<&str>, body: &str) -> Vec<String> {
        let responses = &self.described["responses"];
        let range = format!("{}XX", status / 100);
        let Some(response) = responses.get(status.to_string()).or_else(|| responses.get(range)) else {
            return vec![format!("{} does not document status {status}", self.id)];
        };
        let Some(content) = response.get("content") else {
            let has_body = !body.is_empty() || content_type.is_some();
            return if has_body { vec![format!("{} documents no body for {status}", self.id)] } else { Vec::new() };
        };
        let essence = content_type.and_then(|text| text.split(';').next()).unwrap_or("").trim();
        let Some(media) = content.get(essence) else {
            return vec![format!("{} documents for {status} no content type `{essence}`", self.id)];
        };
        if !essence.ends_with("json") {
            return Vec::new();
        }
        match serde_json::from_str(body) {
            Ok(value) => self.document.misfits(&media["schema"], &value),
            Err(error) => vec![format!("not JSON: {error}")],
        }
    }

    /// Why such a request is not documented; empty if it is.
    pub(crate) fn request_misfits(&self, body: &Value) -> Vec<String> {
        match self.described.pointer("/requestBody/content/application~1json/schema") {
            Some(schema) => self.document.misfits(schema, body),
            None => vec![format!("{} documents no body", self.id)],
        }
    }
}

fn fits(template: &str, path: &str) -> bool {
    let (template, path) = (template.split('/'), path.split('/'));
    template.clone().count() == path.clone().count()
        && template.zip(path).all(|(wanted, found)| wanted == found || (wanted.starts_with('{') && !found.is_empty()))
}

/// Forbids what is not mentioned, at every level.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if fields.get("properties").is_some_and(Value::is_object) && !fields.contains_key("additionalProperties") {
                fields.insert("additionalProperties".to_owned(), Value::Bool(false));
            }
            fields.values_mut().for_each(close);
        }
        Value::Array(values) => values.iter_mut().for_each(close),
        _ => {}
    }
}

#[test]
fn the_judge_refuses_what_is_not_documented() {
    let answer = json!({ "type": "object", "required": ["id"], "properties": { "id": { "type": "string" } } });
    let content = json!({ "application/json": { "schema": { "$ref": "#/components/schemas/Answer" } } });
    let get = json!({ "operationId": "get", "responses": { "200": { "content": content }, "204": {} } });
    let document = Document::new(&json!({
        "openapi": "3.1.0",
        "paths": { "/v1/things/{id}": { "get": get } },
        "components": { "schemas": { "Answer": answer } },
    }));
    let operation = document.operation("GET", "/v1/things/7").expect("it is documented");
    for (status, content_type, body, fine) in [
        (200, Some("application/json"), r#"{"id":"a"}"#, true),
        (200, Some("application/json; charset=utf-8"), r#"{"id":"a"}"#, true),
        (204, None, "", true),
        (200, Some("application/json"), r#"{"id":7}"#, false),
        (200, Some("application/json"), "{}", false),
        (200, Some("application/json"), r#"{"id":"a","more":1}"#, false),
        (200, Some("application/json"), "{", false),
        (200, Some("text/plain"), r#"{"id":"a"}"#, false),
        (200, None, "", false),
        (201, Some("application/json"), r#"{"id":"a"}"#, false),
        (204, Some("application/json"), "{}", false),
    ] {
        assert_eq!(operation.misfits(status, content_type, body).is_empty(), fine, "{status} {content_type:?} {body}");
    }
    assert!(document.operation("PUT", "/v1/things/7").is_none());
    assert!(document.operation("GET", "/v1/things").is_none());
}
