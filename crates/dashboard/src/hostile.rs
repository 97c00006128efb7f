//! Texts of users on every page: nothing of them becomes markup, an address of a script, or moves what stands around them.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use punctual_api::{
    Job, JobList, ListQuery, NodeView, OccurrenceList, Preview, QueueView, RunView, ScheduleView, TaskView, WorkerView,
};
use punctual_core::Timestamp;
use punctual_core::access::Rights;
use serde_json::{Value, json};

use crate::{JobForm, JobPage, JobPreview, LogPiece, Page, ScheduleForm, SchedulePreview, Theme, Viewer};

const TEXTS: [&str; 40] = [
    "<script>alert(1)</script>",
    "\"><script>alert(1)</script>",
    "'><img src=x onerror=alert(1)>",
    "</title><script>alert(1)</script>",
    "</textarea><script>alert(1)</script>",
    "</style><script>alert(1)</script>",
    "</svg><script>alert(1)</script>",
    "<svg onload=alert(1)>",
    "<img src=x onerror=alert(1)>",
    "<iframe src=javascript:alert(1)>",
    "javascript:alert(1)",
    "\" onmouseover=\"alert(1)",
    "' onfocus='alert(1)' autofocus='",
    "\" autofocus onfocus=alert(1) x=\"",
    "<base href=//evil.example>",
    "<meta http-equiv=refresh content=0;url=//evil.example>",
    "<form action=//evil.example>",
    "<!-- ",
    "-->",
    "<![CDATA[",
    "&lt;script&gt;",
    "&#60;script&#62;",
    "&quot;&gt;<b>",
    "{{constructor.constructor('alert(1)')()}}",
    "${alert(1)}",
    "`${alert(1)}`",
    "<math><mtext><script>alert(1)</script>",
    "<template><script>alert(1)</script>",
    "<object data=data:text/html,x>",
    "<a href=\"javascript:alert(1)\">",
    "\u{0}<script>",
    "\u{1b}[31mred\u{1b}[0m",
    "\u{1b}]8;;http://evil.example\u{7}link\u{1b}]8;;\u{7}",
    "\u{202e}gpj.exe",
    "\u{2066}\u{202e}reversed\u{2069}",
    "\u{200f}abc\u{200e}",
    "a\r\nSet-Cookie: x=1",
    "../../../etc/passwd?x=1#y",
    "//evil.example/",
    "ﷺ\u{301}\u{301}\u{301}\u{301}\u{301}\u{301} 𝕏 \u{feff}",
];

fn viewer(text: &str) -> Viewer {
    Viewer {
        who: text.to_owned(),
        namespace: text.to_owned(),
        namespaces: vec![text.to_owned(), "default".to_owned()],
        rights: Rights::all(),
        has_session: true,
        zone: TimeZone::UTC,
        has_chosen_zone: true,
        theme: Theme::System,
        address: "/jobs".to_owned(),
        home: "http://127.0.0.1:8020".to_owned(),
        now: at(),
    }
}

fn at() -> Timestamp {
    Timestamp::parse("2026-11-19T20:00:00Z").unwrap()
}

const JOB: &str = "job_01m7et433kee4803yssgvaf2fh";
const RUN: &str = "run_01m7et433kee4803yssgvaf2fh";

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn by(text: &str) -> Value {
    json!({ "at": at(), "who": text })
}

fn task_ref(text: &str) -> Value {
    json!({ "id": "task_01m7et433kee4803yssgvaf2fh", "name": text, "kind": "http", "queue": text })
}

fn summary(text: &str) -> Value {
    json!({
        "id": JOB, "title": text, "task": task_ref(text), "state": "failed", "priority": 0, "submitted_at": at(),
        "scheduled_at": at(), "due_at": at(), "attempt_count": 1, "reason": text,
    })
}

fn job(text: &str) -> Page {
    let related = json!([{ "node": text, "state": "succeeded", "job": JOB }]);
    let job: Job = read(json!({
        "id": JOB, "title": text, "task": task_ref(text), "state": "failed", "explanation": format!("{text}. 2026-11-19T20:00:00Z {text}"),
        "priority": 1, "submitted_at": at(), "submitted_by": { "kind": "person", "name": text }, "scheduled_at": at(), "due_at": at(),
        "finished_at": at(), "cancel_requested": true, "tracing_id": text, "reason": text, "input": { text: text }, "output": text,
        "schedule": { "id": "schedule_01m7et433kee4803yssgvaf2fh", "name": text, "at": at(), "kind": "planned" },
        "workflow": { "run": RUN, "workflow": text, "version": 1, "node": text, "before": related, "after": related },
        "actions": [{ "at": at(), "action": text, "by": { "kind": "person", "name": text } }],
        "attempts": [{ "attempt": 1, "state": "failed", "worker_name": text, "worker_host": "host", "due_at": at(), "picked_up_at": at(),
            "started_at": at(), "finished_at": at(), "reason": text, "details": { "limit": text, "sandbox": text } }],
        "late_outcomes": [{ "attempt": 1, "worker": "worker_01m7et433kee4803yssgvaf2fh", "at": at(), "outcome": text }],
    }));
    let lines = read(json!([{ "offset": 0, "time": at(), "stream": "stderr", "text": text }]));
    let log = LogPiece { attempt: 1, lines, first_line: 1, next_offset: Some(9), ..LogPiece::default() };
    crate::job(&viewer(text), &JobPage { job, log: Some(log) }, None)
}

fn jobs(text: &str) -> Page {
    let all = || Some(text.to_owned());
    let query = ListQuery {
        state: all(),
        task: all(),
        kind: all(),
        queue: all(),
        tracing_id: all(),
        scheduled_from: all(),
        scheduled_before: all(),
        order: all(),
        limit: all(),
        cursor: all(),
    };
    let list: JobList = read(json!({ "jobs": [summary(text)], "next_cursor": text }));
    crate::jobs(&viewer(text), &query, &list, None)
}

fn run(text: &str) -> Page {
    let node = |name: &str, needs: Value| {
        read::<NodeView>(
            json!({ "name": name, "kind": "gate", "needs": needs, "state": "open", "reason": text, "waiting_for": text, "decided": by(text) }),
        )
    };
    let run: RunView = read(json!({
        "id": RUN, "workflow": text, "version": 1, "state": "running", "created": by(text), "deadline": at(), "timed_out": false,
        "reason": text, "explanation": text, "cancelled": by(text), "input": text, "output": text, "nodes": [],
    }));
    crate::run(&viewer(text), &RunView { nodes: vec![node(text, json!([])), node("b", json!([text]))], ..run }, None)
}

fn schedule(text: &str) -> Page {
    let schedule: ScheduleView = read(json!({
        "id": "schedule_01m7et433kee4803yssgvaf2fh", "name": text, "task": task_ref(text), "definition": {}, "explanation": text, "zone": text,
        "state": "paused", "reason": text, "next": [], "pause": { "at": at(), "who": text, "note": text }, "created": by(text), "changed": by(text),
        "revision": 1, "changes": [{ "at": at(), "who": text, "kind": text, "note": text }],
        "warnings": [{ "code": "x", "detail": text }],
    }));
    let past: OccurrenceList =
        read(json!({ "zone": text, "occurrences": [{ "at": at(), "local": text, "start_at": at(), "verdict": text,
        "explanation": text, "decided_at": at(), "requested_by": text, "marks": [text] }] }));
    let preview: Preview = read(
        json!({ "explanation": text, "zone": text, "occurrences": [{ "at": at(), "local": text, "start_at": at(), "note": text }],
        "clock_changes": [{ "at": at(), "explanation": text, "effects": [text] }] }),
    );
    crate::schedule(&viewer(text), &schedule, &past, &preview, None)
}

fn forms(text: &str) -> [Page; 3] {
    let form = |kind: &str| {
        let mut fields: BTreeMap<&str, &str> = [
            "task",
            "url",
            "method",
            "headers",
            "body",
            "to",
            "cc",
            "subject",
            "text",
            "channel",
            "chat",
            "bot",
            "line",
            "artifact",
            "args",
            "environment",
            "handler",
            "workflow",
            "sleep",
            "output",
            "queue",
            "timeout",
            "delivery",
            "tracing_id",
            "zone",
            "delay",
            "at",
            "once",
        ]
        .into_iter()
        .map(|name| (name, text))
        .collect();
        fields.insert("kind", kind);
        read::<JobForm>(json!(fields))
    };
    let fault = || Some(crate::FormFault { detail: text.to_owned(), hint: Some(text.to_owned()) });
    let new = |kind: &str| {
        crate::new_job(&viewer(text), &JobPreview { form: form(kind), tasks: vec![text.to_owned()], fault: fault() })
    };
    let all: BTreeMap<&str, &str> = [
        "name", "what", "target", "rule", "value", "zone", "start_at", "overlap", "jitter", "input", "revision", "rest",
    ]
    .into_iter()
    .map(|name| (name, text))
    .collect();
    let schedule = SchedulePreview {
        form: read::<ScheduleForm>(json!(all)),
        tasks: vec![text.to_owned()],
        next: fault().map(Err),
        fault: fault(),
    };
    [new("email"), new("command"), crate::edit_schedule(&viewer(text), &schedule)]
}

fn pages(text: &str) -> Vec<Page> {
    let viewer = viewer(text);
    let queue: QueueView = read(
        json!({ "name": text, "state": "paused", "state_changed": by(text), "note": text, "description": text, "revision": 1,
        "waiting": 1, "running": 0, "is_served": false }),
    );
    let worker: WorkerView = read(
        json!({ "id": "worker_01m7et433kee4803yssgvaf2fh", "name": text, "host": "host", "version": text, "state": text, "queues": [text],
        "capabilities": [text], "labels": { text: text }, "slots": 1, "running": 1, "last_seen_at": at(), "commands_as": text }),
    );
    let task: TaskView = read(
        json!({ "id": "task_01m7et433kee4803yssgvaf2fh", "name": text, "revision": 1, "created_at": at(), "updated_at": at(),
        "changed_by": text, "spec": { "run": { "command": { "line": text } }, "queue": text }, "warnings": [{ "code": "x", "detail": text }] }),
    );
    let problem = read(
        json!({ "type": "about:blank", "title": text, "status": 400, "code": "x", "detail": text, "hint": text, "request_id": "1", "retryable": false,
        "errors": [{ "pointer": text, "code": "invalid_value", "detail": text }, { "pointer": text, "code": "invalid_value", "detail": text }] }),
    );
    let mut pages = vec![
        job(text),
        jobs(text),
        run(text),
        schedule(text),
        crate::queues(&viewer, &read(json!({ "queues": [queue] })), None),
        crate::workers(&viewer, &[worker]),
        crate::task(&viewer, &task, Some(&read(json!({ "jobs": [summary(text)] })))),
        crate::tasks(&viewer, &read(json!({ "tasks": [task], "next_cursor": text }))),
        crate::schedules(&viewer, Some(text), &read(json!({ "schedules": [], "next_cursor": text })), None, None),
        crate::runs(&viewer, Some(text), &read(json!({ "runs": [] }))),
        crate::problem(&problem),
        crate::login(text, Some(text)),
    ];
    pages.extend(forms(text));
    pages
}

/// The tags of a page in order, each as it stands between `<` and `>`. Quoted values may hold a `>`.
fn tags(html: &str) -> Vec<String> {
    let mut tags = Vec::new();
    let mut current: Option<String> = None;
    let mut is_quoted = false;
    for character in html.chars() {
        match (&mut current, character) {
            (None, '<') => current = Some(String::new()),
            (None, _) => {}
            (Some(_), '>') if !is_quoted => tags.push(current.take().unwrap()),
            (Some(tag), other) => {
                is_quoted ^= other == '"';
                tag.push(other);
            }
        }
    }
    assert!(current.is_none(), "a tag has no end");
    tags
}

/// A tag without the values of its attributes.
fn shape(tag: &str) -> String {
    tag.split('"').step_by(2).collect()
}

#[test]
fn a_text_of_a_user_never_becomes_markup() {
    let plain: Vec<Vec<String>> =
        pages("plain").iter().map(|page| tags(&page.0).iter().map(|tag| shape(tag)).collect()).collect();
    for text in TEXTS {
        for (page, plain) in pages(text).iter().zip(&plain) {
            let found = tags(&page.0);
            for tag in &found {
                let name = tag.split([' ', '/']).next().unwrap_or_default();
                assert!(!["iframe", "object", "base", "math", "style", "b"].contains(&name), "{text}: <{tag}>");
                assert!(!shape(tag).split_whitespace().any(|part| part.starts_with("on")), "{text}: <{tag}>");
                for attribute in ["href", "src", "action", "formaction"] {
                    let Some((_, value)) = tag.split_once(&format!(" {attribute}=\"")) else { continue };
                    let is_own = (value.starts_with('/') && !value.starts_with("//")) || value.starts_with('#');
                    assert!(is_own, "{text}: <{tag}>");
                }
            }
            // What a page consists of does not depend on the text, apart from parts that some texts have and others do not.
            let scripts = |tags: &[String]| tags.iter().filter(|tag| tag.starts_with("script")).count();
            assert_eq!(scripts(&found), scripts(plain), "{text}");
        }
    }
}

#[test]
fn nothing_of_a_text_moves_what_surrounds_it() {
    for text in TEXTS {
        for page in pages(text) {
            // Payloads are shown byte for byte, each in an element that keeps it apart, and so are the fields of a form.
            let outside = page.0.split("<bdi>").map(|part| part.split_once("</bdi>").map_or(part, |(_, after)| after));
            for part in outside {
                let shown: String = part
                    .split("<textarea")
                    .map(|part| part.split_once("</textarea>").map_or(part, |(_, after)| after))
                    .collect();
                let shown: String = shown
                    .split(" value=\"")
                    .enumerate()
                    .map(
                        |(index, part)| {
                            if index == 0 { part } else { part.split_once('"').map_or(part, |(_, after)| after) }
                        },
                    )
                    .collect();
                assert!(!shown.contains(['\u{202e}', '\u{2066}', '\u{200f}', '\u{1b}', '\u{0}']), "{text:?}: {part}");
            }
        }
    }
}

#[test]
fn no_style_and_no_script_is_inline() {
    for page in pages("plain") {
        for tag in tags(&page.0) {
            assert!(!tag.contains(" style=\""), "<{tag}>");
            assert!(!tag.starts_with("script") || tag.contains(" src=\"/assets/"), "<{tag}>");
        }
        assert_eq!(page.0.matches("<h1>").count(), 1);
        assert!(page.0.len() < 60_000, "{} bytes", page.0.len());
    }
}
