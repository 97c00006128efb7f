//! Where output goes and what it looks like: data to stdout, everything else to
//! stderr; decoration only for a terminal; nothing cut off in a pipe.

use std::io::{ErrorKind, IsTerminal, Write};

use comfy_table::{Cell, Color};
use punctual_core::{JobState, Timestamp};
use serde::Serialize;

use crate::clean;
use crate::clock::now;
use crate::exit::OutputClosed;
use crate::table::{self, Yield};
use crate::zone::{Zone, relative, relative_short};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// For people.
    Table,
    /// One JSON value.
    Json,
    /// One JSON value for each row, each on its own line.
    Jsonl,
    /// Ids or names alone, one on each line.
    Name,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ColorChoice {
    Auto,
    Always,
    Never,
}

/// Whether hints are welcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Chatter {
    Hints,
    Quiet,
}

/// Whether control sequences in the output of programs are passed to a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Raw {
    Yes,
    No,
}

impl From<bool> for Raw {
    fn from(is_raw: bool) -> Self {
        if is_raw { Self::Yes } else { Self::No }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Output {
    pub(crate) format: Format,
    pub(crate) zone: Zone,
    pub(crate) chatter: Chatter,
    pub(crate) colored: bool,
    /// What stdout is shown on, if that is a terminal.
    pub(crate) terminal: Option<Size>,
    short_times: bool,
}

/// The size of a terminal, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) columns: usize,
    pub(crate) rows: usize,
}

impl Size {
    /// The size of a terminal that does not report one.
    const USUAL: Self = Self { columns: 80, rows: 24 };

    /// The size of stdout; `None` if that is no terminal.
    fn of_stdout() -> Option<Self> {
        let stdout = std::io::stdout();
        stdout.is_terminal().then(|| Self::of(&stdout))
    }

    /// The size of stderr, which must be a terminal.
    pub(crate) fn of_stderr() -> Self {
        Self::of(&std::io::stderr())
    }

    fn of(terminal: &impl std::os::fd::AsFd) -> Self {
        let told = rustix::termios::tcgetwinsize(terminal).ok().filter(|size| size.ws_col > 0 && size.ws_row > 0);
        told.map_or(Self::USUAL, |size| Self { columns: size.ws_col.into(), rows: size.ws_row.into() })
    }
}

/// Something that has a line in a table.
pub(crate) trait Row: Serialize {
    const HEADER: &'static [&'static str];
    /// What to give up on a narrow terminal, in this order.
    const YIELDS: &'static [Yield];
    fn name(&self) -> String;
    fn cells(&self, out: &Output) -> Vec<Cell>;
}

impl Output {
    pub(crate) fn new(format: Format, color: ColorChoice, zone: Zone, chatter: Chatter) -> Self {
        let terminal = Size::of_stdout();
        let colored = match color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            // https://no-color.org: set and not empty.
            ColorChoice::Auto => {
                terminal.is_some() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
            }
        };
        Self { format, zone, chatter, colored, terminal, short_times: false }
    }

    /// This output with the size that the terminal has now.
    pub(crate) fn resized(&self) -> Self {
        Self { terminal: self.terminal.and_then(|_| Size::of_stdout()), ..self.clone() }
    }

    pub(crate) fn with_short_times(&self, short_times: bool) -> Self {
        Self { short_times, ..self.clone() }
    }

    /// A time in a table.
    pub(crate) fn time(&self, at: Timestamp) -> String {
        if self.short_times { self.zone.show_short(at, now()) } else { self.zone.show(at) }
    }

    /// How long ago or from now, in a table.
    pub(crate) fn relative(&self, at: Timestamp) -> String {
        if self.short_times { relative_short(at, now()) } else { relative(at, now()) }
    }

    /// Writes text that may hold what others wrote, with nothing in it that would steer a terminal but our own colours.
    pub(crate) fn write(&self, text: &str) -> anyhow::Result<()> {
        self.write_raw(&if self.colored { clean::shown_in_color(text) } else { clean::shown(text) })
    }

    /// Writes the output of a program: to a pipe as it is; to a terminal in a form that does nothing there, unless
    /// somebody asked for it as it is.
    pub(crate) fn write_output_of_program(&self, text: &str, raw: Raw) -> anyhow::Result<()> {
        match (self.terminal, raw) {
            (Some(_), Raw::No) => self.write_raw(&clean::shown(text)),
            (Some(_), Raw::Yes) | (None, _) => self.write_raw(text),
        }
    }

    /// Writes to stdout at once, so that a reader at the other end of a pipe sees it.
    pub(crate) fn write_raw(&self, text: &str) -> anyhow::Result<()> {
        let mut stdout = std::io::stdout().lock();
        match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(OutputClosed.into()),
            result => Ok(result?),
        }
    }

    pub(crate) fn line(&self, text: &str) -> anyhow::Result<()> {
        self.write(&format!("{text}\n"))
    }

    pub(crate) fn json(&self, value: &impl Serialize) -> anyhow::Result<()> {
        match self.format {
            Format::Jsonl => self.line(&clean::json(&serde_json::to_string(value)?)),
            Format::Json | Format::Table | Format::Name => {
                self.line(&clean::json(&serde_json::to_string_pretty(value)?))
            }
        }
    }

    /// Tells people what happened or what to do next.
    pub(crate) fn hint(&self, text: &str) {
        if self.chatter == Chatter::Hints {
            note(text);
        }
    }

    /// Tells that a list goes on. Programs have the cursor already.
    pub(crate) fn hint_more(&self, shown: usize, what: &str, cursor: &str) {
        if self.format == Format::Table {
            self.hint(&format!("{}, and there are more: --cursor {cursor}", counted(shown, what)));
        }
    }

    /// A page of a list; `whole` is the answer as the server gave it.
    pub(crate) fn rows<T: Row>(&self, rows: &[T], whole: &impl Serialize) -> anyhow::Result<()> {
        match self.format {
            Format::Json => self.json(whole),
            Format::Jsonl => rows.iter().try_for_each(|row| self.json(row)),
            Format::Name => rows.iter().try_for_each(|row| self.line(&row.name())),
            Format::Table if rows.is_empty() => Ok(()),
            Format::Table => self.line(&table::draw(rows, self)),
        }
    }

    /// A job's state in its colour.
    pub(crate) fn state(&self, state: &str) -> Cell {
        let cell = Cell::new(state);
        match tone(state) {
            Some((color, _)) if self.colored => cell.fg(color),
            _ => cell,
        }
    }

    /// A state in its color, for running text.
    pub(crate) fn state_text(&self, state: &str) -> String {
        match tone(state) {
            Some((_, code)) if self.colored => format!("\x1b[{code}m{state}\x1b[0m"),
            _ => state.to_owned(),
        }
    }
}

fn tone(state: &str) -> Option<(Color, u8)> {
    // Nodes of workflows have states of their own.
    match state {
        "active" | "open" => return Some((Color::DarkCyan, 36)),
        "upstream_failed" => return Some((Color::DarkRed, 31)),
        "skipped" | "not_run" => return Some((Color::DarkYellow, 33)),
        _ => {}
    }
    match JobState::parse(state)? {
        JobState::Scheduled => None,
        JobState::Running => Some((Color::DarkCyan, 36)),
        JobState::Succeeded => Some((Color::DarkGreen, 32)),
        JobState::Failed | JobState::Lost | JobState::Quarantined => Some((Color::DarkRed, 31)),
        JobState::Cancelled | JobState::Deleted => Some((Color::DarkYellow, 33)),
    }
}

/// `1 job`, `2 jobs`.
pub(crate) fn counted(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// A size for people: `1.5 GiB`.
pub(crate) fn size_words(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut size = bytes as f64;
    let mut unit = 0;
    // What would be rounded up to 1024 is written in the next unit.
    while size >= 1023.95 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{size:.1} {}", UNITS[unit]) }
}

/// Writes a line to stderr. Nobody may be there to read it, and that is fine.
pub(crate) fn note(text: &str) {
    let _ = writeln!(std::io::stderr(), "{}", clean::shown(text));
}

#[cfg(test)]
impl Output {
    /// Plain, in UTC, to a pipe or to a terminal of so many columns.
    pub(crate) fn plain(columns: Option<usize>) -> Self {
        Self {
            format: Format::Table,
            zone: Zone(jiff::tz::TimeZone::UTC),
            chatter: Chatter::Hints,
            colored: false,
            terminal: columns.map(|columns| Size { columns, rows: 24 }),
            short_times: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (bytes, words) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1_048_575, "1.0 MiB"),
            (1_073_741_825, "1.0 GiB"),
            (u64::MAX, "16777216.0 TiB"),
        ] {
            assert_eq!(size_words(bytes), words);
        }
    }

    #[test]
    fn colour_is_added_only_where_it_was_asked_for() {
        let mut out = Output::plain(None);
        assert_eq!(out.state_text("failed"), "failed");
        out.colored = true;
        assert_eq!(out.state_text("failed"), "\x1b[31mfailed\x1b[0m");
        assert_eq!(out.state_text("scheduled"), "scheduled");
    }
}
