//! Names the flag where the server names a field of the request.

use punctual_client::ClientError;

/// Places in a request, each with the flag that fills it.
pub(crate) type Flags = &'static [(&'static str, &'static str)];

pub(crate) const OF_LISTS: Flags = &[
    ("state", "--state"),
    ("task", "--task"),
    ("kind", "--kind"),
    ("queue", "--queue"),
    ("tracing_id", "--tracing-id"),
    ("scheduled_from", "--scheduled-from"),
    ("scheduled_before", "--scheduled-before"),
    ("order", "--asc"),
    ("limit", "--limit"),
    ("cursor", "--cursor"),
];

pub(crate) const OF_NAMES: Flags = &[("name", "the task's name"), ("If-Match", "--if-revision")];

pub(crate) const OF_TASKS: Flags = &[
    ("name", "the task's name"),
    ("If-Match", "--if-revision"),
    ("/run/http/url", "--http"),
    ("/run/http/method", "--method"),
    ("/run/http/headers", "--header"),
    ("/run/http/body", "--body"),
    ("/run/http/expect_status", "--expect-status"),
    ("/run/http/expect_body", "--expect-body"),
    ("/run/http/retry_status", "--retry-status"),
    ("/run/http/follow_redirects", "--follow-redirects"),
    ("/run/http/forward_body", "--forward-body"),
    ("/run/http/sign_with", "--sign-with"),
    ("/run/http/timeout", "--request-timeout"),
    ("/run/email/to", "--email"),
    ("/run/email/cc", "--cc"),
    ("/run/email/bcc", "--bcc"),
    ("/run/email/reply_to", "--reply-to"),
    ("/run/email/subject", "--subject"),
    ("/run/email/text", "--text"),
    ("/run/email/html", "--html"),
    ("/run/slack/webhook", "--slack"),
    ("/run/slack/text", "--text"),
    ("/run/telegram/bot", "--bot"),
    ("/run/telegram/chat", "--telegram"),
    ("/run/telegram/text", "--text"),
    ("/run/telegram/parse_mode", "--parse-mode"),
    ("/run/binary/args", "what stands behind --"),
    ("/run/binary/env", "--env"),
    ("/run/binary/limits/memory", "--memory"),
    ("/run/binary/limits/cpu", "--cpu"),
    ("/run/binary/limits/pids", "--pids"),
    ("/run/binary/limits/disk", "--disk"),
    ("/run/binary/limits/output", "--output-max"),
    ("/run/binary/grace", "--grace"),
    ("/run/probe", "--probe"),
    ("/run/handler", "--handler"),
    ("/run/command", "--command"),
    ("/queue", "--queue"),
    ("/labels", "--label"),
    ("/priority", "--priority"),
    // Its other parts are not in flags, and so are never wrong.
    ("/retry", "--retries"),
    ("/timeout", "--timeout"),
    ("/queue_timeout", "--queue-timeout"),
    ("/delivery", "--delivery"),
    ("/on_lost", "--on-lost"),
];

pub(crate) const OF_JOBS: Flags = &[
    ("/task", "the task's name"),
    ("/run_at", "--at"),
    ("/input", "--input"),
    ("/priority", "--priority"),
    ("/tracing_id", "--tracing-id"),
    ("Idempotency-Key", "--idempotency-key"),
];

pub(crate) const OF_SCHEDULES: Flags = &[
    ("name", "the schedule's name"),
    ("/name", "the schedule's name"),
    ("/task", "--task"),
    ("/cron", "--cron"),
    ("/every", "--every"),
    ("/anchor", "--anchor"),
    ("/daily", "--daily"),
    ("/at", "--at"),
    ("/zone", "--zone"),
    ("/start_at", "--start-at"),
    ("/end_at", "--end-at"),
    ("/gap", "--gap"),
    ("/fold", "--fold"),
    ("/jitter", "--jitter"),
    ("/calendars/exclude", "--exclude"),
    ("/calendars/include", "--include"),
    ("/calendars/on_closed_day", "--on-closed-day"),
    ("/overlap", "--overlap"),
    ("/catch_up/mode", "--catch-up"),
    ("/catch_up/max", "--catch-up-max"),
    ("/catch_up/window", "--catch-up-window"),
    ("/catch_up/per_minute", "--catch-up-rate"),
    ("/max_runs", "--max-runs"),
    ("/pause_after_failures", "--pause-after-failures"),
    ("/late_after", "--late-after"),
    ("/missed_after", "--missed-after"),
    ("/input", "--input"),
    ("/priority", "--priority"),
    ("/note", "--note"),
    ("/count", "--count"),
    ("count", "--count"),
    ("from", "--from"),
    ("before", "--to"),
    ("verdict", "--verdict"),
    ("prefix", "--prefix"),
    ("task", "--task"),
    ("limit", "--limit"),
    ("cursor", "--cursor"),
];

pub(crate) const OF_FORECASTS: Flags =
    &[("from", "--from"), ("to", "--to"), ("assume", "--assume"), ("prefix", "--prefix")];

pub(crate) const OF_BACKFILLS: Flags = &[
    ("name", "the schedule's name"),
    ("schedule", "--schedule"),
    ("/from", "--from"),
    ("/to", "--to"),
    ("/overlap", "--overlap"),
    ("/max_active", "--max-active"),
    ("/unknown", "--older"),
    ("limit", "--limit"),
    ("cursor", "--cursor"),
];

pub(crate) const OF_KEYS: Flags = &[
    ("/name", "the key's name"),
    ("/role", "--role"),
    ("/rights", "--right"),
    ("/expires_in", "--expires-in"),
    ("/overlap", "--overlap"),
];

pub(crate) const OF_USERS: Flags = &[
    ("/name", "the user's name"),
    ("/mail", "--mail"),
    ("/role", "--role"),
    ("/namespace_roles", "--namespace-role"),
    ("/password", "the password"),
    ("/current", "the present password"),
];

pub(crate) const OF_NAMESPACES: Flags = &[
    ("/name", "the namespace's name"),
    ("/description", "--description"),
    ("/quotas/stored_jobs", "--quota stored_jobs"),
    ("/quotas/running_attempts", "--quota running_attempts"),
    ("/quotas/submissions_per_second", "--quota submissions_per_second"),
    ("/quotas/schedules", "--quota schedules"),
    ("/quotas/artifact_bytes", "--quota artifact_bytes"),
    ("/quotas/log_bytes", "--quota log_bytes"),
    ("/quotas/retention", "--quota retention"),
    ("If-Match", "--if-revision"),
];

pub(crate) const OF_QUEUES: Flags = &[
    ("name", "the queue's name"),
    ("/note", "--note"),
    ("/description", "--description"),
    ("/defaults/priority", "--default-priority"),
    ("/defaults/retry", "--default-retries"),
    ("/defaults/node_retry", "--default-node-retries"),
    ("/defaults/timeout", "--default-timeout"),
    ("/defaults/queue_timeout", "--default-queue-timeout"),
    ("If-Match", "--if-revision"),
    ("limit", "--limit"),
    ("cursor", "--cursor"),
];

pub(crate) const OF_CALENDARS: Flags = &[
    ("name", "the calendar's name"),
    ("If-Match", "--if-revision"),
    ("/dates", "--date"),
    ("zone", "--zone"),
    ("skip_unsupported", "--skip-unsupported"),
];

pub(crate) const OF_NOTIFICATIONS: Flags = &[
    ("name", "the rule's name"),
    ("If-Match", "--if-revision"),
    ("/on", "--on"),
    ("/tasks", "--task"),
    ("/queues", "--queue"),
    ("/schedules", "--schedule"),
    ("/late_after", "--late-after"),
    ("/email/to", "--email"),
    ("/email/cc", "--cc"),
    ("/slack/webhook", "--slack"),
    ("/telegram/bot", "--bot"),
    ("/telegram/chat", "--telegram"),
    ("/webhook/url", "--webhook"),
    ("/webhook/sign_with", "--sign-with"),
    ("/window", "--window"),
    ("/templates/subject", "--subject-template"),
    ("/templates/text", "--text-template"),
    // A preview wraps the rule.
    ("/rule/templates/subject", "--subject-template"),
    ("/rule/templates/text", "--text-template"),
    ("/queue", "--send-queue"),
    ("limit", "--limit"),
    ("cursor", "--cursor"),
];

pub(crate) const OF_OVERDUE: Flags = &[("after", "--after")];

/// Words of requests, each with what people write here.
pub(crate) type Words = &'static [(&'static str, &'static str)];

pub(crate) const BACKFILL_WORDS: Words = &[
    ("GET /v1/schedules/{name}/preview?from=…", "`punctual schedule preview NAME --from TIME`"),
    ("`max_active`", "--max-active"),
    ("`overlap`", "--overlap"),
    ("`from`", "--from"),
    ("`to`", "--to"),
];

pub(crate) const SCHEDULE_WORDS: Words = &[
    ("PUT /v1/calendars/{name} makes one", "`punctual calendar apply` makes one"),
    ("GET /v1/calendars lists them", "`punctual calendar list` shows them"),
    ("`end_at`", "--end-at"),
    ("`start_at`", "--start-at"),
    ("`every`", "--every"),
    ("`at`", "--at"),
    ("set the mode of catch-up to `all`", "use --catch-up all"),
    ("`max_runs`", "--max-runs"),
];

pub(crate) const KEY_WORDS: Words = &[
    ("GET /v1/keys lists them", "`punctual key list` shows them"),
    ("GET /v1/keys shows", "`punctual key list` shows"),
];

pub(crate) const USER_WORDS: Words = &[
    (
        "GET /v1/users lists them; POST /v1/users adds one",
        "`punctual user list` shows them; `punctual user create` adds one",
    ),
    ("GET /v1/sessions lists them", "`punctual session list` shows them"),
];

pub(crate) const CALENDAR_WORDS: Words = &[
    ("skip_unsupported=true", "--skip-unsupported"),
    ("`zone`", "--zone"),
    ("send the dates as JSON: {\"dates\": [\"2026-12-25\"]}", "write the dates into a file, one a line"),
];

pub(crate) const NAMESPACE_WORDS: Words = &[(
    "GET /v1/namespaces lists yours; the header `Punctual-Namespace` chooses one",
    "`punctual namespace list` shows yours; --namespace chooses one",
)];

pub(crate) const QUEUE_WORDS: Words = &[(
    "GET /v1/queues lists those that there are; PUT /v1/queues/{name} describes one before it is used",
    "`punctual queue list` shows those that there are; `punctual queue edit` describes one before it is used",
)];

pub(crate) const SECRET_WORDS: Words = &[
    ("or delete it anyway with force=true", "or delete it anyway with --force"),
    ("GET /v1/secrets", "`punctual secret list`"),
];

pub(crate) const FORECAST_WORDS: Words = &[("`from`", "--from")];

pub(crate) const NOTIFICATION_WORDS: Words = &[
    ("POST /v1/notifications/preview", "`punctual notify preview`"),
    ("PUT /v1/notifications/{name}", "`punctual notify apply`"),
];

/// Hints of the server that any command may show.
const REQUEST_WORDS: Words = &[
    ("GET /openapi.json describes what is expected", "see the command with --help"),
    ("GET /openapi.json lists the parameters", "see the command with --help"),
    ("PUT /v1/workflows/{name} stores one", "`punctual workflow apply NAME FILE` stores one"),
    ("GET /v1/workflows lists what there is", "`punctual workflow list` shows what there is"),
    ("POST /v1/artifacts", "`punctual artifact create`"),
    ("POST /v1/notifications/preview", "`punctual notify preview`"),
    ("GET /v1/audit", "`punctual audit list`"),
    ("GET /v1/backfills/{id}/runs", "`punctual backfill runs`"),
    ("PUT /v1/secrets/", "`punctual secret set`: "),
];

/// A hint of the server in words of the command line.
pub(crate) fn of_command(hint: &str) -> String {
    REQUEST_WORDS.iter().fold(hint.to_owned(), |hint, (of_request, of_command)| hint.replace(of_request, of_command))
}

/// Replaces words of the REST interface in an error by those of the command line.
pub(crate) fn in_words(mut error: ClientError, words: Words) -> ClientError {
    let ClientError::Problem(problem) = &mut error else {
        return error;
    };
    let details = problem.errors.iter_mut().map(|field| &mut field.detail);
    for text in details.chain([&mut problem.detail]).chain(&mut problem.hint) {
        for (of_request, of_command) in words {
            *text = text.replace(of_request, of_command);
        }
    }
    error
}

/// Names the flag in place of the field that an error is about.
pub(crate) fn in_flags(mut error: ClientError, flags: Flags) -> ClientError {
    let ClientError::Problem(problem) = &mut error else {
        return error;
    };
    for field in &mut problem.errors {
        let (place, flags) = match field.pointer.strip_prefix("/inline") {
            Some(place) => (place, OF_TASKS),
            None => (field.pointer.as_str(), flags),
        };
        let is_within =
            |whole: &str| place.strip_prefix(whole).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        let Some((_, flag)) = flags.iter().find(|(whole, _)| is_within(whole)) else {
            continue;
        };
        if place == "cursor" {
            problem.hint = Some("copy it from the end of the list before, unchanged".to_owned());
        }
        (*flag).clone_into(&mut field.pointer);
    }
    error
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use punctual_api::{FieldError, Problem};

    use super::*;
    use crate::exit::Report;

    #[test]
    fn a_hint_of_the_server_names_commands_and_no_requests() {
        assert_eq!(of_command("GET /openapi.json lists the parameters"), "see the command with --help");
        let workflow = of_command("PUT /v1/workflows/{name} stores one");
        assert_eq!(workflow, "`punctual workflow apply NAME FILE` stores one");
        assert_eq!(of_command("create it with PUT /v1/secrets/db"), "create it with `punctual secret set`: db");
        assert_eq!(of_command("try again"), "try again");
    }

    fn said(pointer: &str, flags: Flags) -> String {
        let problem = Problem {
            type_uri: String::new(),
            title: String::new(),
            status: 400,
            detail: format!("{pointer}: is wrong"),
            code: "invalid_request".to_owned(),
            hint: None,
            request_id: String::new(),
            retryable: false,
            errors: vec![FieldError::new(pointer, "is wrong")],
        };
        Report::new(&in_flags(ClientError::Problem(Box::new(problem)), flags).into()).message
    }

    #[test]
    fn a_place_in_the_request_is_named_by_its_flag_and_only_once() {
        for (pointer, flags, message) in [
            ("/inline/run/http/url", OF_JOBS, "--http: is wrong"),
            ("/inline/timeout", OF_JOBS, "--timeout: is wrong"),
            ("/inline/queue_timeout", OF_JOBS, "--queue-timeout: is wrong"),
            ("/input", OF_JOBS, "--input: is wrong"),
            ("/run/probe/sleep", OF_TASKS, "--probe: is wrong"),
            ("/run/http/headers", OF_TASKS, "--header: is wrong"),
            ("/run/email/to/2", OF_TASKS, "--email: is wrong"),
            ("/inline/run/command/line", OF_JOBS, "--command: is wrong"),
            ("/run/slack/webhook", OF_TASKS, "--slack: is wrong"),
            ("state", OF_LISTS, "--state: is wrong"),
            ("limit", OF_LISTS, "--limit: is wrong"),
            ("name", OF_NAMES, "the task's name: is wrong"),
            // From a file, where this is the place.
            ("/timeout", OF_NAMES, "/timeout: is wrong"),
            ("", OF_JOBS, "is wrong"),
        ] {
            assert_eq!(said(pointer, flags), message, "{pointer}");
        }
    }

    /// A sentence that the server no longer uses would be replaced nowhere, and people would read words of REST.
    #[test]
    fn every_replaced_word_is_one_that_the_server_uses() {
        let words = [BACKFILL_WORDS, SCHEDULE_WORDS, CALENDAR_WORDS, FORECAST_WORDS, NOTIFICATION_WORDS].concat();
        let sources = sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../app/src"));
        for (of_request, _) in words {
            let in_source = of_request.replace('"', "\\\"");
            let is_used = |text: &String| text.contains(of_request) || text.contains(&in_source);
            assert!(sources.iter().any(is_used), "no error of the app says {of_request:?}");
        }
    }

    fn sources(folder: &Path) -> Vec<String> {
        let mut found = Vec::new();
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                found.extend(sources(&path));
            } else {
                found.push(fs::read_to_string(&path).unwrap());
            }
        }
        found
    }
}
