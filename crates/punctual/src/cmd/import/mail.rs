//! What `MAILTO` becomes: a rule for each list of addresses, about the schedules of the lines below it.
//!
//! Cron mails whatever a command prints. These rules mail when a run fails or does not take place; what it prints
//! is in its log.

use std::collections::BTreeMap;

use comfy_table::Cell;
use punctual_api::{EmailChannel, ErrorKind, NotificationRequest, NotificationView};
use punctual_client::{Client, ClientError, IfMatch};
use punctual_core::notice::NoticeKind;
use punctual_core::schedule::recurrence::crontab::{CrontabEntry, Severity, mail_to};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::line::{Line, Problem};
use super::of_line;
use crate::cmd::flags::{Flags, in_flags};
use crate::cmd::notify::as_request;
use crate::output::{Output, Row};
use crate::table::Yield;

/// What a rule may name; a longer list makes several rules.
const SCHEDULES_OF_RULE_MAX: usize = 100;

/// What cron would have had to tell, but for the output.
const ON: [NoticeKind; 4] = [NoticeKind::Failed, NoticeKind::Lost, NoticeKind::Quarantined, NoticeKind::Missed];

const OF_MAILTO: Flags = &[("/email/to", "MAILTO"), ("/rule/email/to", "MAILTO"), ("name", "--prefix")];

#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct MailRule {
    pub(super) name: String,
    pub(super) to: Vec<String>,
    pub(super) schedules: Vec<String>,
    pub(super) lines: Vec<usize>,
}

/// The addresses that a line's `MAILTO` names. Mailboxes of its machine are told by the parser.
pub(super) fn addresses(entry: &CrontabEntry) -> Vec<String> {
    let value = entry.env.get("MAILTO").map_or("", AsRef::as_ref);
    let mut found: Vec<String> = Vec::new();
    for address in mail_to(value).filter(|name| name.contains('@')) {
        if !found.iter().any(|known| known.eq_ignore_ascii_case(address)) {
            found.push(address.to_owned());
        }
    }
    found
}

/// Lists that no mail can go to, each told of at the first line below it. The lines themselves are fine.
pub(super) fn problems(lines: &[Line]) -> Vec<Problem> {
    let told = by_list(lines).into_values().filter_map(|lines| {
        let message = list_problem(&lines[0].mail_to)?;
        Some(Problem { line: lines[0].number, severity: Severity::Error, message })
    });
    told.collect()
}

fn list_problem(list: &[String]) -> Option<String> {
    /// An address may be of any length.
    const SHOWN_CHARS: usize = 64;
    let error = punctual_app::check_mail_to(list).err()?;
    let field = error.errors.first()?;
    let place: Option<usize> = field.pointer.rsplit('/').next().and_then(|place| place.parse().ok());
    let about = match place.and_then(|place| list.get(place)) {
        Some(address) => format!("`{}` ", address.chars().take(SHOWN_CHARS).collect::<String>()),
        None => String::new(),
    };
    let hint = error.hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default();
    Some(format!("MAILTO: {about}{}{hint}", field.detail))
}

/// The lines that can be imported, by the list of addresses above them.
fn by_list(lines: &[Line]) -> BTreeMap<String, Vec<&Line>> {
    let mut by_list: BTreeMap<String, Vec<&Line>> = BTreeMap::new();
    for line in lines.iter().filter(|line| line.becomes.is_ok() && !line.mail_to.is_empty()) {
        by_list.entry(key(&line.mail_to)).or_default().push(line);
    }
    by_list
}

/// One for each list of addresses that mails can go to.
pub(super) fn rules(prefix: &str, lines: &[Line]) -> Vec<MailRule> {
    let mut rules = Vec::new();
    for (key, lines) in by_list(lines) {
        if list_problem(&lines[0].mail_to).is_some() {
            continue;
        }
        let name = rule_name(prefix, &key);
        for (place, part) in lines.chunks(SCHEDULES_OF_RULE_MAX).enumerate() {
            rules.push(MailRule {
                name: if place == 0 { name.clone() } else { format!("{name}-{}", place + 1) },
                to: part[0].mail_to.clone(),
                schedules: part.iter().map(|line| line.name.clone()).collect(),
                lines: part.iter().map(|line| line.number).collect(),
            });
        }
    }
    rules.sort_by_key(|rule| rule.lines[0]);
    rules
}

/// What the names of all rules of a prefix begin with.
fn beginning(prefix: &str) -> String {
    format!("{prefix}mail-")
}

/// Of the first rule for a list of addresses.
fn rule_name(prefix: &str, key: &str) -> String {
    format!("{}{}", beginning(prefix), digest(key))
}

/// The same for the same addresses, whatever their order and case.
fn key(addresses: &[String]) -> String {
    let mut sorted: Vec<String> = addresses.iter().map(|address| address.to_ascii_lowercase()).collect();
    sorted.sort_unstable();
    sorted.join(",")
}

fn digest(key: &str) -> String {
    Sha256::digest(key).iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}

impl MailRule {
    fn request(&self) -> NotificationRequest {
        NotificationRequest {
            on: Some(ON.to_vec()),
            schedules: self.schedules.clone(),
            email: Some(EmailChannel { to: self.to.clone(), cc: Vec::new() }),
            ..NotificationRequest::default()
        }
    }

    /// The rule that there is, about what the crontab says now. The rest of it is its owner's.
    fn changed(&self, stored: NotificationView, lines: &[Line]) -> NotificationRequest {
        let mut request = as_request(stored);
        // What was imported before and is left out this time still runs.
        let is_left_out = |name: &String| lines.iter().any(|line| line.becomes.is_err() && line.name == *name);
        let left_out: Vec<String> = request.schedules.drain(..).filter(is_left_out).collect();
        request.schedules.clone_from(&self.schedules);
        request.schedules.extend(left_out);
        request.schedules.truncate(SCHEDULES_OF_RULE_MAX);
        if let Some(email) = &mut request.email {
            email.to.clone_from(&self.to);
        }
        request
    }

    fn refused(&self, error: ClientError) -> ClientError {
        of_line(self.lines[0], in_flags(error, OF_MAILTO))
    }
}

/// Whether the server would take them. Makes nothing.
pub(super) async fn check(rules: &[MailRule], client: &Client) -> Result<(), ClientError> {
    for rule in rules {
        client.preview_notification(&rule.request()).await.map_err(|error| rule.refused(error))?;
    }
    Ok(())
}

/// Makes those that are not there and changes the others. Gives the names of those that somebody has silenced.
pub(super) async fn store(rules: &[MailRule], lines: &[Line], client: &Client) -> Result<Vec<String>, ClientError> {
    let mut silent = Vec::new();
    for rule in rules {
        let (request, when) = match client.notification(&rule.name).await {
            Ok(stored) => {
                let revision = stored.revision;
                (rule.changed(stored, lines), IfMatch::Revision(revision))
            }
            Err(error) if error.kind() == Some(ErrorKind::NotificationNotFound) => (rule.request(), IfMatch::Any),
            Err(error) => return Err(rule.refused(error)),
        };
        let stored = client.put_notification(&rule.name, &request, when).await;
        if !stored.map_err(|error| rule.refused(error))?.enabled {
            silent.push(rule.name.clone());
        }
    }
    Ok(silent)
}

/// Rules of the prefix that this import did not make, and that no line is under which was left out.
pub(super) async fn left_over(
    prefix: &str,
    rules: &[MailRule],
    lines: &[Line],
    client: &Client,
) -> Result<Vec<String>, ClientError> {
    let beginning = beginning(prefix);
    let left_out = lines.iter().filter(|line| line.becomes.is_err() && !line.mail_to.is_empty());
    let kept: Vec<String> = left_out.map(|line| rule_name(prefix, &key(&line.mail_to))).collect();
    let stored = client.notifications().await?.notifications.into_iter().map(|rule| rule.name);
    let is_made = |name: &String| rules.iter().any(|rule| rule.name == *name);
    // A long list has several rules, whose names begin alike.
    let is_kept = |name: &String| kept.iter().any(|first| name.starts_with(first));
    Ok(stored.filter(|name| name.starts_with(&beginning) && !is_made(name) && !is_kept(name)).collect())
}

impl Row for MailRule {
    const HEADER: &'static [&'static str] = &["RULE", "MAILS TO", "ABOUT LINES"];
    const YIELDS: &'static [Yield] =
        &[Yield::Cut("ABOUT LINES", 12), Yield::Cut("MAILS TO", 16), Yield::Cut("RULE", 24)];

    fn name(&self) -> String {
        self.name.clone()
    }

    fn cells(&self, _: &Output) -> Vec<Cell> {
        let lines: Vec<String> = self.lines.iter().map(usize::to_string).collect();
        vec![Cell::new(&self.name), Cell::new(self.to.join(", ")), Cell::new(lines.join(", "))]
    }
}
