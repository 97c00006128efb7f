//! Reads crontabs as Vixie cron and cronie do, to import them.
//!
//! A crontab is read line by line: comments, variables, and entries of a time and a command. Variables hold for the
//! entries after them. `CRON_TZ` sets the zone in which the entries after it are planned; `TZ` only reaches the
//! command's environment, as in cronie. What cannot be imported becomes a diagnostic with its line number, never a
//! guess and never a panic. Expressions may use everything that [`CronExpr`](crate::CronExpr) can.

mod line;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::rule::Rule;
use crate::zone::zone_refusal;
use line::{CommandText, CrontabLine, EntryLine, Flags};

/// A crontab this long is not written by hand, and whole it would have to stay in memory.
pub const CRONTAB_BYTES_MAX: usize = 1 << 20;
/// Each entry becomes a schedule; more are imported in parts.
pub const CRONTAB_ENTRIES_MAX: usize = 4096;
/// cronie itself keeps commands below this.
pub const CRONTAB_LINE_BYTES_MAX: usize = 16 * 1024;
/// Each entry carries the variables above it.
pub const CRONTAB_VARIABLES_MAX: usize = 128;
/// Enough messages to see what is wrong; a file with more is not a crontab.
pub const CRONTAB_DIAGNOSTICS_MAX: usize = 1000;

/// Whether the lines of a crontab name a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrontabFormat {
    /// `crontab -e`: time and command.
    User,
    /// `/etc/crontab` and `/etc/cron.d`: time, user and command.
    System,
}

pub type Variables = BTreeMap<Arc<str>, Arc<str>>;

/// Whom a value of `MAILTO` names: addresses, and mailboxes of the machine.
pub fn mail_to(value: &str) -> impl Iterator<Item = &str> {
    value.split(',').map(str::trim).filter(|name| !name.is_empty())
}

/// A line that became a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrontabEntry {
    /// Counted from 1.
    pub line: usize,
    pub schedule: Rule,
    /// The user, in the system format.
    pub user: Option<String>,
    /// The command for the shell, with `\%` already turned into `%`.
    pub command: String,
    /// The text after the first `%`, with a line break for each further `%`.
    pub stdin: Option<String>,
    /// The variables set above the entry, `MAILTO` and `SHELL` included.
    pub env: Arc<Variables>,
    /// The zone set by `CRON_TZ`; without it, the zone of the machine that ran the crontab.
    pub zone: Option<String>,
    pub overlap: CrontabOverlap,
}

/// Whether a run may start while the one before it still runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrontabOverlap {
    /// Runs may overlap, as in every cron, unless the line says otherwise.
    Allow,
    /// The line has the flag `-s` of OpenBSD's cron.
    Skip,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The line was imported, or has nothing to import, but means something to look at.
    Warning,
    /// The line was not imported.
    Error,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Counted from 1.
    pub line: usize,
    /// Counted from 1, in characters.
    pub column: usize,
    pub severity: Severity,
    pub message: String,
}

impl std::fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let severity = match self.severity {
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        write!(f, "line {}, column {}: {severity}: {}", self.line, self.column, self.message)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Crontab {
    pub entries: Vec<CrontabEntry>,
    pub diagnostics: Vec<Diagnostic>,
}

impl Crontab {
    /// Whether something in the file was not imported.
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
    }

    /// Reads a whole crontab. The zones named by `CRON_TZ` are checked against jiff's database.
    pub fn parse(text: &str, format: CrontabFormat) -> Self {
        let mut reader = Reader::new(format);
        if text.len() > CRONTAB_BYTES_MAX {
            let message = format!("the crontab is larger than {CRONTAB_BYTES_MAX} bytes; import it in parts");
            reader.report(Severity::Error, 1, message);
            return reader.crontab;
        }
        for (index, line) in text.lines().enumerate() {
            reader.line = index + 1;
            if reader.is_full() {
                break;
            }
            reader.read(line);
        }
        reader.crontab
    }
}

/// The zone in force while a crontab is read.
#[derive(Clone)]
enum Zone {
    Machine,
    Named(String),
    /// `CRON_TZ` named no zone, in this line. Entries after it are refused: in any other zone they would fire at the
    /// wrong time.
    Unknown {
        line: usize,
    },
}

struct Reader {
    format: CrontabFormat,
    line: usize,
    env: Arc<Variables>,
    zone: Zone,
    crontab: Crontab,
}

impl Reader {
    fn new(format: CrontabFormat) -> Self {
        Self { format, line: 1, env: Arc::default(), zone: Zone::Machine, crontab: Crontab::default() }
    }

    fn report(&mut self, severity: Severity, column: usize, message: impl Into<String>) {
        self.crontab.diagnostics.push(Diagnostic { line: self.line, column, severity, message: message.into() });
    }

    fn is_full(&mut self) -> bool {
        if self.crontab.diagnostics.len() >= CRONTAB_DIAGNOSTICS_MAX {
            self.report(Severity::Error, 1, "reading stopped after too many problems; is this a crontab?");
            return true;
        }
        if self.crontab.entries.len() >= CRONTAB_ENTRIES_MAX {
            let message = format!("reading stopped after {CRONTAB_ENTRIES_MAX} entries; import the rest on its own");
            self.report(Severity::Error, 1, message);
            return true;
        }
        false
    }

    fn read(&mut self, text: &str) {
        if text.len() > CRONTAB_LINE_BYTES_MAX {
            let message =
                format!("the line is longer than {CRONTAB_LINE_BYTES_MAX} bytes; move the command to a script");
            return self.report(Severity::Error, 1, message);
        }
        match CrontabLine::parse(text, self.format) {
            Ok(CrontabLine::Blank) => {}
            Ok(CrontabLine::Variable { name, value, column }) => self.set(name, value, column),
            Ok(CrontabLine::Entry(entry)) => {
                if entry.is_quiet {
                    self.report(Severity::Warning, 1, "the leading `-` only quiets cron's own log and is dropped");
                }
                self.report_flags(entry.flags);
                self.add(*entry);
            }
            Err(problem) => self.report(Severity::Error, problem.column, problem.message),
        }
    }

    fn report_flags(&mut self, flags: Flags) {
        for (is_set, message) in [
            (flags.mail_on_failure, "the flag `-n` is dropped: mails are only sent about runs that fail or are missed"),
            (flags.quiet, "the flag `-q` only quiets cron's own log and is dropped"),
            (flags.single, "the flag `-s` becomes the overlap policy `skip`"),
        ] {
            if is_set {
                self.report(Severity::Warning, 1, message);
            }
        }
    }

    fn set(&mut self, name: &str, value: String, column: usize) {
        let is_new = !self.env.contains_key(name);
        if is_new && self.env.len() >= CRONTAB_VARIABLES_MAX {
            let message = format!("more than {CRONTAB_VARIABLES_MAX} variables; set the others in a script");
            return self.report(Severity::Error, column, message);
        }
        match name {
            "CRON_TZ" => self.set_zone(&value, column),
            "TZ" => self.report(
                Severity::Warning,
                column,
                "TZ only reaches the command; cron plans by CRON_TZ, so set that (or the schedule's zone) if the times \
                 are meant in this zone",
            ),
            "MAILTO" => self.check_mailboxes(&value, column),
            "RANDOM_DELAY" => {
                self.report(Severity::Warning, column, "RANDOM_DELAY is not imported; give the schedules a jitter");
            }
            _ => {}
        }
        Arc::make_mut(&mut self.env).insert(name.into(), value.into());
    }

    /// Mail reaches an address; the mailboxes of the crontab's machine are elsewhere.
    fn check_mailboxes(&mut self, value: &str, column: usize) {
        for mailbox in mail_to(value).filter(|mailbox| !mailbox.contains('@')) {
            let shown: String = mailbox.chars().take(64).flat_map(char::escape_debug).collect();
            let message = format!(
                "nobody mails to `{shown}`, a mailbox of the machine of the crontab; write an address, such as \
                 ops@example.org"
            );
            self.report(Severity::Warning, column, message);
        }
    }

    fn set_zone(&mut self, value: &str, column: usize) {
        if value.is_empty() {
            self.zone = Zone::Machine;
            return;
        }
        let refusal = zone_refusal(value);
        if refusal.is_none() && jiff::tz::TimeZone::get(value).is_ok() {
            self.zone = Zone::Named(value.to_owned());
            return;
        }
        self.zone = Zone::Unknown { line: self.line };
        let message = refusal.unwrap_or_else(|| {
            let shown: String = value.chars().take(64).flat_map(char::escape_debug).collect();
            format!("`{shown}` is not a known time zone; use an IANA name such as Europe/Berlin")
        });
        self.report(Severity::Error, column, message);
    }

    fn add(&mut self, entry: EntryLine) {
        let zone = match &self.zone {
            Zone::Machine => None,
            Zone::Named(name) => Some(name.clone()),
            Zone::Unknown { line } => {
                let message = format!("not imported, because CRON_TZ in line {line} names no known time zone");
                return self.report(Severity::Error, 1, message);
            }
        };
        let EntryLine { schedule, user, command: CommandText { command, stdin }, flags, .. } = entry;
        let env = Arc::clone(&self.env);
        let overlap = if flags.single { CrontabOverlap::Skip } else { CrontabOverlap::Allow };
        self.crontab.entries.push(CrontabEntry { line: self.line, schedule, user, command, stdin, env, zone, overlap });
    }
}
