//! What `MAILTO` becomes: a rule for each list of addresses, about the schedules of the lines below it.
//!
//! Cron mails whatever a command prints. These rules mail when a run fails or does not take place; what it prints
//! is in its log.

use std::collections::BTreeMap;

use comfy_table::Cell;
use punctual_api::{EmailChannel, ErrorKind, NotificationRequest, NotificationView};
use punctual_client::{Client, ClientError, IfMatch};
use punctual_core::hex;
use punctual_core::notice::NoticeKind;
use punctual_core::schedule::recurrence::crontab::{CrontabEntry, Severity, mail_to};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::line::{Line, Problem};
use super::of_line;
use super::reading::Reading;
use crate::cmd::notify::as_request;
use crate::field_flags::{Flags, in_flags};
use crate::output::{Output, Row};
use crate::table::Yield;

/// What a rule may name; a longer list makes several rules.
const SCHEDULES_OF_RULE_MAX: usize = 100;

/// What cron would have had to tell, but for the output.
const ON: [NoticeKind; 4] = [NoticeKind::Failed, NoticeKind::Lost, NoticeKind::Quarantined, NoticeKind::Missed];

const OF_MAILTO: Flags = &[("/email/to", "MAILTO"), ("/rule/email/to", "MAILTO"), ("name", "--prefix")];

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
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
                name: part_name(&name, place),
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

/// The name of the first rule for a list of addresses.
fn rule_name(prefix: &str, key: &str) -> String {
    format!("{}{}", beginning(prefix), digest(key))
}

/// The name of one of the rules of a long list, counted from 0.
fn part_name(first: &str, place: usize) -> String {
    if place == 0 { first.to_owned() } else { format!("{first}-{}", place + 1) }
}

/// Whether a rule is the first of a list or one of the others.
fn is_part(name: &str, first: &str) -> bool {
    let is_count = |rest: &str| rest.strip_prefix('-').is_some_and(|count| count.parse::<usize>().is_ok());
    name.strip_prefix(first).is_some_and(|rest| rest.is_empty() || is_count(rest))
}

/// A key for a list of addresses that does not depend on their order and case.
fn key(addresses: &[String]) -> String {
    let mut sorted: Vec<String> = addresses.iter().map(|address| address.to_ascii_lowercase()).collect();
    sorted.sort_unstable();
    sorted.join(",")
}

fn digest(key: &str) -> String {
    hex::encode(&Sha256::digest(key)[..4])
}

impl MailRule {
    fn request(&self) -> NotificationRequest {
        NotificationRequest {
            on: Some(ON.to_vec()),
            schedules: self.schedules.clone(),
            email: Some(EmailChannel { to: self.to.clone(), cc: Vec::new(), requester: false }),
            ..NotificationRequest::default()
        }
    }

    /// The rule that there is, about what the crontab says now. The rest of it is its owner's.
    fn changed(&self, stored: NotificationView, reading: &Reading) -> NotificationRequest {
        let mut request = as_request(stored);
        let is_about_all = request.tasks.is_empty() && request.queues.is_empty() && request.schedules.is_empty();
        // Names would take what is left out this time from a rule that its owner made about everything.
        if !is_about_all || reading.broken() == 0 {
            request.schedules.clone_from(&self.schedules);
        }
        if let Some(email) = &mut request.email {
            email.to.clone_from(&self.to);
        }
        request
    }

    fn refused(&self, error: ClientError) -> ClientError {
        let error = in_flags(error, OF_MAILTO);
        match self.lines.first() {
            Some(line) => of_line(*line, error),
            None => error,
        }
    }
}

/// Whether the server would take them. Makes nothing.
pub(super) async fn check(rules: &[MailRule], client: &Client) -> Result<(), ClientError> {
    for rule in rules {
        client.preview_notification(&rule.request()).await.map_err(|error| rule.refused(error))?;
    }
    Ok(())
}

#[derive(Debug)]
pub(super) struct Stored {
    /// The rules as they are stored: also about schedules of earlier imports that still run.
    pub(super) rules: Vec<MailRule>,
    /// Names of those that somebody has silenced.
    pub(super) silent: Vec<String>,
}

/// Makes those that are not there and changes the others.
pub(super) async fn store(rules: &[MailRule], reading: &Reading, client: &Client) -> Result<Stored, ClientError> {
    if rules.is_empty() {
        return Ok(Stored { rules: Vec::new(), silent: Vec::new() });
    }
    let mut there = client.notifications().await?.notifications;
    let rules = with_kept(rules, &there, reading);
    let mut silent = Vec::new();
    for rule in &rules {
        let found = match there.iter().position(|stored| stored.name == rule.name) {
            Some(place) => Ok(there.swap_remove(place)),
            // One that the server cannot read is in no list, and is an error here instead of being replaced.
            None => client.notification(&rule.name).await,
        };
        let (request, when) = match found {
            Ok(stored) => {
                let revision = stored.revision;
                (rule.changed(stored, reading), IfMatch::Revision(revision))
            }
            Err(error) if error.kind() == Some(ErrorKind::NotificationNotFound) => (rule.request(), IfMatch::Absent),
            Err(error) => return Err(rule.refused(error)),
        };
        let stored = client.put_notification(&rule.name, &request, when).await;
        if !stored.map_err(|error| rule.refused(error))?.enabled {
            silent.push(rule.name.clone());
        }
    }
    Ok(Stored { rules, silent })
}

/// The rules, and behind the schedules of each list those that its rules keep; what is too much for them makes
/// further ones.
fn with_kept(rules: &[MailRule], there: &[NotificationView], reading: &Reading) -> Vec<MailRule> {
    let mut lists: BTreeMap<String, Vec<MailRule>> = BTreeMap::new();
    for rule in rules {
        lists.entry(key(&rule.to)).or_default().push(rule.clone());
    }
    for parts in lists.values_mut() {
        let (first, to) = (parts[0].name.clone(), parts[0].to.clone());
        let named = there.iter().filter(|rule| is_part(&rule.name, &first)).flat_map(|rule| &rule.schedules);
        for name in named.filter(|name| reading.keeps(name)) {
            if parts.iter().any(|part| part.schedules.contains(name)) {
                continue;
            }
            // Only the last has room.
            if parts.last().is_some_and(|part| part.schedules.len() >= SCHEDULES_OF_RULE_MAX) {
                let name = part_name(&first, parts.len());
                parts.push(MailRule { name, to: to.clone(), schedules: Vec::new(), lines: Vec::new() });
            }
            parts.last_mut().expect("each list has a rule").schedules.push(name.clone());
        }
    }
    lists.into_values().flatten().collect()
}

/// Rules of the prefix that this import did not store, and that neither stand above a line which was left out nor
/// name its schedule.
pub(super) async fn left_over(
    prefix: &str,
    stored: &[MailRule],
    reading: &Reading,
    client: &Client,
) -> Result<Vec<String>, ClientError> {
    let beginning = beginning(prefix);
    let is_stored = |name: &str| stored.iter().any(|rule| rule.name == name);
    // What is stored of a list has all that its other rules kept.
    let is_replaced = |name: &str| stored.iter().any(|rule| is_part(name, &rule.name));
    let left_out = reading.lines.iter().filter(|line| line.becomes.is_err() && !line.mail_to.is_empty());
    let lists: Vec<String> = left_out.map(|line| rule_name(prefix, &key(&line.mail_to))).collect();
    let is_kept = |rule: &NotificationView| {
        lists.iter().any(|first| is_part(&rule.name, first)) || rule.schedules.iter().any(|name| reading.keeps(name))
    };
    let there = client.notifications().await?.notifications.into_iter();
    let left_over = there.filter(|rule| {
        let name = rule.name.as_str();
        name.starts_with(&beginning) && !is_stored(name) && (is_replaced(name) || !is_kept(rule))
    });
    Ok(left_over.map(|rule| rule.name).collect())
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
