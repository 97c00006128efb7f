//! What parameters mean: numbers, times, words of a list.

use punctual_api::limits;
use punctual_core::run::Run;
use punctual_core::schedule::Verdict;
use punctual_core::{JobState, TaskId};
use serde_json::{Value, json};

/// The header that names the namespace of a request.
pub(super) const NAMESPACE: &str = "Punctual-Namespace";

/// Gives every parameter of an operation its type, a description and an example.
pub(super) fn complete(operation: &mut Value) {
    let reads = operation["operationId"].as_str().is_some_and(|id| id.starts_with("get_"));
    let tag = operation["tags"][0].as_str().unwrap_or_default().to_owned();
    for parameter in operation.get_mut("parameters").and_then(Value::as_array_mut).into_iter().flatten() {
        let name = parameter["name"].as_str().unwrap_or_default().to_owned();
        let place = parameter["in"].as_str().unwrap_or_default().to_owned();
        let Some(known) = known(&name, &place, &tag, reads) else { continue };
        if known.is_list {
            // Several with commas in one parameter. The server takes them in several parameters, too.
            parameter["style"] = json!("form");
            parameter["explode"] = json!(false);
        }
        parameter["schema"] = known.schema;
        parameter["example"] = known.example;
        if parameter.get("description").is_none() {
            parameter["description"] = json!(known.description);
        }
    }
}

struct Known {
    schema: Value,
    example: Value,
    description: String,
    is_list: bool,
}

impl Known {
    fn new(schema: Value, example: impl Into<Value>, description: impl Into<String>) -> Self {
        Self { schema, example: example.into(), description: description.into(), is_list: false }
    }

    fn list(words: Vec<&str>, example: &str, description: &str) -> Self {
        let schema = json!({ "type": "array", "items": { "type": "string", "enum": words } });
        Self { is_list: true, ..Self::new(schema, json!([example]), description) }
    }
}

fn text() -> Value {
    json!({ "type": "string" })
}

fn number(least: u64) -> Value {
    json!({ "type": "integer", "format": "int64", "minimum": least })
}

fn known(name: &str, place: &str, tag: &str, reads: bool) -> Option<Known> {
    Some(match (place, name) {
        ("header", NAMESPACE) => {
            let description = "The namespace of the request; that of the key by default, or else `default`.";
            Known::new(text(), "default", description)
        }
        ("query", "namespace") => Known::new(text(), "team-a", "The name of a namespace."),
        ("path", "id") => Known::new(text(), an_id(tag), format!("The id of one of the {tag}.")),
        ("path", "name") => Known::new(text(), "nightly", format!("The name of one of the {tag}.")),
        ("path", "job") => Known::new(text(), an_id("jobs"), "The id of a job."),
        ("path", "key") => Known::new(text(), "deploy", "The id of a key, or the name that a valid key has."),
        ("path", "user") => Known::new(text(), "ana", "The name of a user."),
        ("path", "session") => Known::new(text(), "current", "The id of a session, or `current`."),
        ("path", "attempt") => Known::new(number(1), 1, "The number of an attempt."),
        ("path", "code") => Known::new(text(), "job_not_found", "The stable code of a kind of problem."),
        ("query", "limit") => {
            let (least, most, usual) = (1, limits::PAGE_LEN_MAX, limits::PAGE_LEN_DEFAULT);
            let schema = json!({ "type": "integer", "minimum": least, "maximum": most, "default": usual });
            Known::new(schema, usual, "How many to answer with at most.")
        }
        ("query", "count") => {
            let (most, usual) = (limits::PREVIEW_MAX, limits::PREVIEW_DEFAULT);
            let schema = json!({ "type": "integer", "minimum": 1, "maximum": most, "default": usual });
            Known::new(schema, usual, "How many planned times to answer with.")
        }
        ("query", "cursor") => Known::new(text(), "b2Zmc2V0", "`next_cursor` of the page before, unchanged."),
        ("query", "attempt") => Known::new(number(1), 1, "The number of an attempt."),
        ("query", "offset") => Known::new(number(0), 0, "Where to begin, in bytes."),
        ("query", "tracing_id") => Known::new(text(), "order-7", "Only jobs with exactly this tracing id."),
        ("query", "marks") => Known::new(number(0), 0, "How many bytes at the end are marks."),
        ("query", "size") => Known::new(number(0), 1024, "As the signed address has it."),
        ("query", "expires") => Known::new(number(0), 1_794_816_000_000_000_u64, "As the signed address has it."),
        ("query", "signature") => Known::new(text(), "2f0c…", "As the signed address has it."),
        ("query", "revision") => Known::new(number(1), 3, "Only if this is the revision by now."),
        ("query", "paused") => Known::new(flag(), true, "Only those that are paused, or only those that are not."),
        ("query", "skip_unsupported") => Known::new(flag(), true, "Leaves out what is not supported."),
        ("query", "force") => Known::new(flag(), true, "Deletes it although tasks refer to it."),
        ("query", "port") => Known::new(number(1024), 41_000, "Where the command line listens on loopback."),
        ("query", "challenge") => {
            let example = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
            Known::new(text(), example, "The SHA-256 of what only the command line knows, in base64url.")
        }
        ("query", "moved") => Known::new(flag(), true, "The browser comes from another address of the server."),
        ("query", "state") if tag == "logins" => Known::new(text(), "3f0c9a7be1d24c58", "Comes back as it is."),
        ("query", "code") => Known::new(text(), "Zm9v", "What the provider gave the browser."),
        ("query", "iss") => Known::new(text(), "https://id.example.com", "The issuer, if the provider says it."),
        ("query", "error" | "error_description") => Known::new(text(), "access_denied", "Why the provider refused."),
        ("query", "gone") => Known::new(words(&["none", "lost", "all"]), "lost", "Also workers that are gone."),
        ("query", "order") => Known::new(words(&["desc", "asc"]), "desc", "The latest first, or the earliest."),
        ("query", "state") if tag == "batches" => Known::new(text(), "failed", "Only those in this state."),
        ("query", "state") => {
            let states = JobState::ALL.iter().map(|state| state.as_str()).collect();
            Known::list(states, "failed", "One state, or several with commas.")
        }
        ("query", "verdict") => {
            let verdicts = Verdict::ALL.iter().map(|verdict| verdict.as_str()).collect();
            Known::list(verdicts, "missed", "One verdict, or several with commas.")
        }
        ("query", "kind") => Known::new(words(&Run::KINDS), "http", "The type of task."),
        ("query", "scheduled_from" | "scheduled_before") => {
            Known::new(json!({ "type": "string", "format": "date-time" }), "2026-11-16T08:00:00Z", "A time.")
        }
        ("query", "from" | "to" | "before") => Known::new(text(), "2026-11-16T08:00:00Z", "A time or a date."),
        ("query", "wait" | "after" | "assume") => Known::new(text(), "30s", "A duration, such as `30s` or `5m`."),
        ("query", "principal") => Known::new(text(), "user:ana", "Who did it."),
        ("query", "action") => Known::new(text(), "apply_task", "The `operationId` of what was done."),
        ("query", "object") => Known::new(text(), "nightly", "What it was done to."),
        ("query", "outcome") => Known::new(text(), "done", "`done`, or the code of an error."),
        ("query", "since" | "until") => {
            Known::new(json!({ "type": "string", "format": "date-time" }), "2026-11-16T08:00:00Z", "A time.")
        }
        ("query", "after_seq") => Known::new(number(0), 1000, "The number of the last line that is there already."),
        ("query", "version") => Known::new(text(), "3", "The number of a version; the newest one by default."),
        ("query", "task" | "schedule" | "workflow" | "prefix") => Known::new(text(), "nightly", "A name."),
        ("query", "queue") => Known::new(text(), "default", "The name of a queue."),
        ("query", "zone") => Known::new(text(), "Europe/Berlin", "The IANA name of a time zone."),
        ("header", "Idempotency-Key") => {
            let schema = json!({ "type": "string", "maxLength": limits::IDEMPOTENCY_KEY_CHARS_MAX });
            let description = "Repeating a request with its key submits nothing twice. Kept for 24 hours.";
            Known::new(schema, "order-4711", description)
        }
        ("header", "If-Match") => {
            let description = "Only if the definition still has this revision: an `ETag`, the revision in quotes, or `*` for \
                               any. 412 otherwise.";
            Known::new(text(), "\"3\"", description)
        }
        ("header", "If-None-Match") if reads => {
            Known::new(text(), "\"3-5f2c91aa03b7d4e8\"", "304 instead of the answer that this `ETag` came with.")
        }
        ("header", "If-None-Match") => {
            Known::new(text(), "*", "`*`: only if there is nothing of this name. 412 otherwise.")
        }
        ("header", "Range") => Known::new(text(), "bytes=0-1023", "One range of bytes."),
        ("header", "Time-Zone") => Known::new(text(), "Europe/Berlin", "The zone of a schedule that names none."),
        _ => return None,
    })
}

fn flag() -> Value {
    json!({ "type": "boolean" })
}

fn words(words: &[&str]) -> Value {
    json!({ "type": "string", "enum": words })
}

/// Of the kind of thing that the operations of a tag are about.
fn an_id(tag: &str) -> String {
    let kind = match tag {
        "jobs" => punctual_core::JobId::PREFIX,
        "artifacts" => punctual_core::ArtifactId::PREFIX,
        "backfills" => punctual_core::BackfillId::PREFIX,
        "batches" => punctual_core::BatchId::PREFIX,
        "workflows" => punctual_core::RunId::PREFIX,
        _ => TaskId::PREFIX,
    };
    format!("{kind}_06bpwz2d0e5kx8r4n7v1t3m9qc")
}
