//! The answer to a submission as JSON, written by hand: each submission writes one, and a general writer looks at each character
//! of it one by one, although nearly all of them are those of ids, times and names.

use punctual_api::{JobLinks, JobSubmitted, TaskRef, Warning};
use serde::Serialize;

/// Room for the answer, so that it is not made larger again and again.
const ANSWER_BYTES: usize = 1 << 10;

pub(crate) fn submitted_json(answer: &JobSubmitted) -> Vec<u8> {
    let JobSubmitted {
        id,
        state,
        title,
        task,
        tracing_id,
        scheduled_at,
        due_at,
        content,
        links: JobLinks { itself, logs, events },
        warnings,
        job,
    } = answer;
    let mut json = Json(Vec::with_capacity(ANSWER_BYTES));
    json.raw(r#"{"id":""#);
    id.with_text(|id| json.raw(id));
    json.raw(r#"","state":"#);
    json.text(state);
    json.raw(r#","title":"#);
    json.text(title);
    if let Some(task) = task {
        json.raw(r#","task":"#);
        json.task(task);
    }
    if let Some(tracing_id) = tracing_id {
        json.raw(r#","tracing_id":"#);
        json.text(tracing_id);
    }
    json.raw(r#","scheduled_at":"#);
    json.value(scheduled_at);
    json.raw(r#","due_at":"#);
    json.value(due_at);
    if !content.is_empty() {
        json.raw(r#","content":"#);
        json.value(content);
    }
    json.raw(r#","links":{"self":"#);
    json.text(itself);
    json.raw(r#","logs":"#);
    json.text(logs);
    json.raw(r#","events":"#);
    json.text(events);
    json.raw("}");
    if !warnings.is_empty() {
        json.warnings(warnings);
    }
    if let Some(job) = job {
        json.raw(r#","job":"#);
        json.value(job);
    }
    json.raw("}");
    json.0
}

struct Json(Vec<u8>);

impl Json {
    fn raw(&mut self, text: &str) {
        self.0.extend_from_slice(text.as_bytes());
    }

    fn value(&mut self, value: &impl Serialize) {
        serde_json::to_writer(&mut self.0, value).expect("an answer is JSON");
    }

    fn text(&mut self, text: &str) {
        // Of all bytes, and not up to the first that is found: then many are looked at together.
        let needs_escape = |byte: u8| byte < 0x20 || byte == b'"' || byte == b'\\';
        if text.bytes().fold(false, |found, byte| found | needs_escape(byte)) {
            return self.value(&text);
        }
        self.0.push(b'"');
        self.raw(text);
        self.0.push(b'"');
    }

    fn task(&mut self, TaskRef { id, name, kind, queue }: &TaskRef) {
        self.raw(r#"{"id":""#);
        id.with_text(|id| self.raw(id));
        self.raw("\"");
        if let Some(name) = name {
            self.raw(r#","name":"#);
            self.text(name);
        }
        self.raw(r#","kind":"#);
        self.text(kind);
        self.raw(r#","queue":"#);
        self.text(queue);
        self.raw("}");
    }

    fn warnings(&mut self, warnings: &[Warning]) {
        let mut before = r#","warnings":["#;
        for Warning { code, detail } in warnings {
            self.raw(before);
            self.raw(r#"{"code":"#);
            self.text(code);
            self.raw(r#","detail":"#);
            self.text(detail);
            self.raw("}");
            before = ",";
        }
        self.raw("]");
    }
}

#[cfg(test)]
mod tests {
    use punctual_api::JobContent;
    use punctual_core::{ArtifactId, JobId, ShardId, Span, TaskId, Timestamp};

    use super::*;

    /// With text that has to be escaped, of which some looks as if it need not be.
    const TEXTS: [&str; 5] = ["plain", "", "a \"quoted\" \\ \u{1}\n\u{7f}", "ä \u{2028} 漢字 🦀", "</script>"];

    fn answers() -> Vec<JobSubmitted> {
        let at = Timestamp::parse("2026-12-24T17:00:00.000001Z").unwrap();
        let id = JobId::new(at, ShardId(7), 9);
        let artifact = ArtifactId::new(at, 3);
        let plain = JobSubmitted {
            id,
            state: "scheduled".to_owned(),
            title: "ping".to_owned(),
            task: None,
            tracing_id: None,
            scheduled_at: at,
            due_at: at,
            content: Vec::new(),
            links: JobLinks::new(id),
            warnings: Vec::new(),
            job: None,
        };
        let mut answers = vec![plain.clone()];
        for text in TEXTS.map(str::to_owned) {
            let task = TaskRef {
                id: TaskId::new(at, 4),
                name: Some(text.clone()).filter(|name| !name.is_empty()),
                kind: "http".to_owned(),
                queue: text.clone(),
            };
            let warning = Warning { code: Warning::NO_WORKER.to_owned(), detail: text.clone() };
            answers.push(JobSubmitted {
                title: text.clone(),
                task: Some(task),
                tracing_id: Some(text.clone()),
                due_at: at + Span::from_secs(1),
                content: vec![JobContent { artifact, path: text.clone(), link: text }],
                warnings: vec![warning; 2],
                ..plain.clone()
            });
        }
        answers
    }

    #[test]
    fn what_is_written_by_hand_is_what_a_general_writer_writes() {
        for answer in answers() {
            let (by_hand, general) = (submitted_json(&answer), serde_json::to_vec(&answer).unwrap());
            assert_eq!(String::from_utf8(by_hand).unwrap(), String::from_utf8(general).unwrap());
        }
    }
}
