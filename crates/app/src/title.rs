//! What jobs are called. A named task gives its name; a job of a schedule has that of its schedule; any other is called by
//! what it runs. Titles go into lists, mails and logs of others: they are short and hold no secrets.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, RwLock};

use futures_util::future::join_all;
use punctual_core::run::Command;
use punctual_core::schedule::Source;
use punctual_core::task::{Email, HttpCall, Run, Task};
use punctual_core::{ArtifactId, ScheduleId, TaskId};
use url::Url;

use crate::App;
use crate::notify::delivered_rule;

/// A column of a list and the subject of a mail have room for this.
const TITLE_CHARS_MAX: usize = 64;
/// Names that are looked up at a time.
const LOOKUPS_AT_ONCE: usize = 32;
/// Beyond this a cache starts anew.
const NAMES_MAX: usize = 10_000;

/// Names that never change, once they were read. `None`: there is no such row, or it has no name.
pub(crate) struct Names<K>(RwLock<HashMap<K, Option<Arc<str>>>>);

impl<K> Default for Names<K> {
    fn default() -> Self {
        Self(RwLock::default())
    }
}

impl<K: Copy + Eq + std::hash::Hash> Names<K> {
    /// What is known of them, and what is not.
    fn split(&self, ids: BTreeSet<K>) -> (HashMap<K, Arc<str>>, Vec<K>) {
        let names = self.0.read().expect("no panic while the lock is held");
        let (mut known, mut unknown) = (HashMap::new(), Vec::new());
        for id in ids {
            match names.get(&id) {
                Some(Some(name)) => drop(known.insert(id, Arc::clone(name))),
                Some(None) => {}
                None => unknown.push(id),
            }
        }
        (known, unknown)
    }

    fn put(&self, id: K, name: Option<Arc<str>>) {
        let mut names = self.0.write().expect("no panic while the lock is held");
        if names.len() >= NAMES_MAX {
            names.clear();
        }
        names.insert(id, name);
    }
}

/// A job as far as its title depends on it.
#[derive(Clone, Copy)]
pub(crate) struct Titled<'a> {
    pub(crate) id: TaskId,
    pub(crate) task: Option<&'a Task>,
    pub(crate) source: Option<Source>,
    pub(crate) tracing_id: Option<&'a str>,
}

/// The names that the titles of some jobs need.
#[derive(Default)]
pub(crate) struct Titles {
    schedules: HashMap<ScheduleId, Arc<str>>,
    programs: HashMap<ArtifactId, Arc<str>>,
}

impl Titles {
    pub(crate) fn of(&self, job: Titled<'_>) -> String {
        let Some(task) = job.task else { return job.id.to_string() };
        if let Some(rule) = delivered_rule(job.tracing_id, task) {
            return cut(&format!("notification {rule}"));
        }
        if let Some(name) = &task.name {
            return name.clone();
        }
        match job.source.and_then(|source| self.schedules.get(&source.schedule)) {
            Some(schedule) => schedule.to_string(),
            None => self.of_task(task),
        }
    }

    /// Of a task, whatever made its jobs.
    pub(crate) fn of_task(&self, task: &Task) -> String {
        let program = task.spec.run.artifact().and_then(|id| self.programs.get(&id));
        task.name.clone().unwrap_or_else(|| what(&task.spec.run, program.map(|name| &**name)))
    }

    pub(crate) fn schedule(&self, id: ScheduleId) -> Option<String> {
        self.schedules.get(&id).map(|name| name.to_string())
    }
}

impl App {
    /// Looks names up that are not known yet. What cannot be read has no name: nobody would see a list for it.
    pub(crate) async fn titles<'a>(
        &self,
        tasks: impl Iterator<Item = &'a Task>,
        schedules: impl Iterator<Item = ScheduleId>,
    ) -> Titles {
        let unnamed = tasks.filter(|task| task.name.is_none());
        let (mut programs, unknown) =
            self.0.programs.split(unnamed.filter_map(|task| task.spec.run.artifact()).collect());
        for part in unknown.chunks(LOOKUPS_AT_ONCE) {
            let read = join_all(part.iter().map(|id| self.0.store.artifact(*id))).await;
            for (id, read) in part.iter().zip(read) {
                let Ok(read) = read else { continue };
                let name = read.and_then(|artifact| artifact.name).map(Arc::<str>::from);
                self.0.programs.put(*id, name.clone());
                programs.extend(name.map(|name| (*id, name)));
            }
        }
        let (mut schedule_names, unknown) = self.0.schedule_names.split(schedules.collect());
        for part in unknown.chunks(LOOKUPS_AT_ONCE) {
            let read = join_all(part.iter().map(|id| self.schedule_name(*id))).await;
            for (id, read) in part.iter().zip(read) {
                let Ok(read) = read else { continue };
                let name = read.map(Arc::<str>::from);
                self.0.schedule_names.put(*id, name.clone());
                schedule_names.extend(name.map(|name| (*id, name)));
            }
        }
        Titles { schedules: schedule_names, programs }
    }
}

/// What a task without a name runs, in a word or two.
fn what(run: &Run, program: Option<&str>) -> String {
    cut(&match run {
        Run::Binary(_) => program.map_or_else(|| "binary".to_owned(), |name| file_name(name).to_owned()),
        Run::Http(call) => http(call),
        Run::Email(mail) => email(mail),
        Run::Slack(message) if message.is_address() => "Slack message".to_owned(),
        Run::Slack(message) => format!("Slack {}", message.webhook),
        // The id of a chat may be that of a person.
        Run::Telegram(message) if message.chat.starts_with('@') => format!("Telegram {}", message.chat),
        Run::Telegram(_) => "Telegram message".to_owned(),
        Run::Probe(_) => "probe".to_owned(),
        Run::Handler(handler) => handler.name.clone(),
        Run::Workflow(workflow) => workflow.name.clone(),
        Run::Command(command) => {
            command.name.as_deref().or_else(|| first_program(command)).unwrap_or("command").to_owned()
        }
    })
}

/// Without user info and query, which may be secrets.
fn http(call: &HttpCall) -> String {
    let method = call.method.as_str();
    let Ok(url) = Url::parse(&call.url) else { return format!("{method} request") };
    let host = url.host_str().unwrap_or_default();
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    let path = if hides_path(&url) { "" } else { url.path().trim_end_matches('/') };
    format!("{method} {host}{port}{path}")
}

/// Whoever knows the path of an incoming webhook can post to it.
pub(crate) fn hides_path(url: &Url) -> bool {
    url.host_str().is_some_and(|host| host.starts_with("hooks.")) || url.path().contains("/webhooks/")
}

/// The domain of the first recipient: addresses are personal.
fn email(mail: &Email) -> String {
    let domain = mail.to.first().and_then(|address| address.trim_end_matches('>').rsplit_once('@'));
    let domain = domain.map_or("somebody", |(_, domain)| domain);
    match mail.to.len() + mail.cc.len() + mail.bcc.len() {
        0 | 1 => format!("mail to {domain}"),
        more => format!("mail to {domain} and {} more", more - 1),
    }
}

/// The first program of a line, without variables that are set for it, which may be secrets, without the change of folder
/// and the options of the shell before it, and without comments.
fn first_program(command: &Command) -> Option<&str> {
    let is_assignment = |word: &str| {
        let name = word.split_once('=').map(|(name, _)| name);
        name.is_some_and(|name| {
            !name.is_empty() && name.chars().all(|sign| sign.is_ascii_alphanumeric() || sign == '_')
        })
    };
    let lines = command.line.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    let mut parts = lines.flat_map(|line| line.split("&&")).flat_map(|part| part.split(';')).map(str::trim).peekable();
    while let Some(part) = parts.next() {
        let mut words = part.split_whitespace().skip_while(|word| is_assignment(word));
        match words.next() {
            Some("cd" | "set") | None if parts.peek().is_some() => {}
            word => return word.map(file_name).filter(|name| !name.is_empty()),
        }
    }
    None
}

fn file_name(path: &str) -> &str {
    path.trim_end_matches('/').rsplit('/').next().unwrap_or(path)
}

/// One line of at most [`TITLE_CHARS_MAX`].
fn cut(text: &str) -> String {
    let words: Vec<&str> =
        text.split(|sign: char| sign.is_control() || sign.is_whitespace()).filter(|word| !word.is_empty()).collect();
    let line = words.join(" ");
    match line.char_indices().nth(TITLE_CHARS_MAX) {
        None => line,
        Some(_) => line.chars().take(TITLE_CHARS_MAX - 1).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_core::task::{Handler, Method, Slack};

    fn run(json: &str) -> Run {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn a_task_without_a_name_is_called_by_what_it_runs() {
        for (json, expected) in [
            (
                r#"{"http":{"url":"https://me:s3cret@example.com:8443/health/?token=s3cret#x"}}"#,
                "GET example.com:8443/health",
            ),
            (
                r#"{"http":{"url":"https://hooks.slack.com/services/T1/B1/s3cret","method":"POST"}}"#,
                "POST hooks.slack.com",
            ),
            (r#"{"http":{"url":"https://discord.com/api/webhooks/1/s3cret"}}"#, "GET discord.com"),
            (r#"{"email":{"to":["Ops <ops@example.com>"],"subject":"hi"}}"#, "mail to example.com"),
            (r#"{"email":{"to":["a@b.org","c@d.org"],"cc":["e@f.org"],"subject":"hi"}}"#, "mail to b.org and 2 more"),
            (r#"{"slack":{"webhook":"https://hooks.slack.com/services/s3cret"}}"#, "Slack message"),
            (r#"{"slack":{"webhook":"ops"}}"#, "Slack ops"),
            (r#"{"telegram":{"chat":"@news"}}"#, "Telegram @news"),
            (r#"{"telegram":{"chat":12345}}"#, "Telegram message"),
            (r#"{"probe":{}}"#, "probe"),
            (r#"{"handler":{"name":"resize"}}"#, "resize"),
            (r#"{"command":{"line":"/usr/local/bin/backup.sh --all | gzip"}}"#, "backup.sh"),
            (r#"{"command":{"line":"PGPASSWORD=s3cret pg_dump shop"}}"#, "pg_dump"),
            (r#"{"command":{"line":"cd /srv/shop && ./backup.sh"}}"#, "backup.sh"),
            (r#"{"command":{"line":"cd /srv/shop"}}"#, "cd"),
            (r##"{"command":{"line":"#!/bin/sh\n# nightly\nset -eu\n/opt/dump; gzip"}}"##, "dump"),
            (r##"{"command":{"line":"#!/bin/sh\n"}}"##, "command"),
            (r#"{"command":{"line":"0 1 * * * x","name":"two"}}"#, "two"),
            (r#"{"command":{"line":"  \n "}}"#, "command"),
        ] {
            assert_eq!(what(&run(json), None), expected, "{json}");
        }
    }

    #[test]
    fn a_program_is_called_by_its_file_name() {
        let binary = run(r#"{"binary":{"artifact":"artifact_01m7et433kee4803yssgvaf2fh"}}"#);
        assert_eq!(what(&binary, Some("build/out/report")), "report");
        assert_eq!(what(&binary, None), "binary");
    }

    #[test]
    fn a_title_is_one_short_line() {
        let handler = Run::Handler(Handler { name: format!("a\nb\u{1b}[2J{}", "x".repeat(500)) });
        let title = what(&handler, None);
        assert_eq!(title.chars().count(), TITLE_CHARS_MAX);
        assert!(title.starts_with("a b [2Jx") && title.ends_with('…'), "{title}");
        let call = HttpCall { method: Method::Post, ..HttpCall::new("not an address") };
        assert_eq!(what(&Run::Http(call), None), "POST request");
        assert_eq!(what(&Run::Slack(Slack { webhook: String::new(), text: None }), None), "Slack");
    }
}
