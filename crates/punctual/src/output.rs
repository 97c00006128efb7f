//! Where output goes and what it looks like: data to stdout, everything else to
//! stderr; decoration only for a terminal; nothing cut off in a pipe.

use std::io::{ErrorKind, IsTerminal, Write};

use clap::ValueEnum;
use comfy_table::{Attribute, Cell, Color, ColumnConstraint, ContentArrangement, Table, presets};
use punctual_core::JobState;
use serde::Serialize;

use crate::exit::OutputClosed;
use crate::zone::Zone;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
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

#[derive(Debug, Clone)]
pub(crate) struct Output {
    pub(crate) format: Format,
    pub(crate) zone: Zone,
    pub(crate) chatter: Chatter,
    pub(crate) colored: bool,
    /// Whether stdout is a terminal.
    pub(crate) terminal: bool,
}

/// Something that has a line in a table.
pub(crate) trait Row: Serialize {
    const HEADER: &'static [&'static str];
    fn name(&self) -> String;
    fn cells(&self, out: &Output) -> Vec<Cell>;
}

impl Output {
    pub(crate) fn new(format: Format, color: ColorChoice, zone: Zone, chatter: Chatter) -> Self {
        let terminal = std::io::stdout().is_terminal();
        let colored = match color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            // https://no-color.org: set and not empty.
            ColorChoice::Auto => terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        };
        Self { format, zone, chatter, colored, terminal }
    }

    /// Writes to stdout at once, so that a reader at the other end of a pipe sees it.
    pub(crate) fn write(&self, text: &str) -> anyhow::Result<()> {
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
            Format::Jsonl => self.line(&serde_json::to_string(value)?),
            Format::Json | Format::Table | Format::Name => self.line(&serde_json::to_string_pretty(value)?),
        }
    }

    /// Tells people what happened or what to do next.
    pub(crate) fn hint(&self, text: &str) {
        if self.chatter == Chatter::Hints {
            note(text);
        }
    }

    /// A page of a list; `whole` is the answer as the server gave it.
    pub(crate) fn rows<T: Row>(&self, rows: &[T], whole: &impl Serialize) -> anyhow::Result<()> {
        match self.format {
            Format::Json => self.json(whole),
            Format::Jsonl => rows.iter().try_for_each(|row| self.json(row)),
            Format::Name => rows.iter().try_for_each(|row| self.line(&row.name())),
            Format::Table if rows.is_empty() => Ok(()),
            Format::Table => {
                let cells = rows.iter().map(|row| row.cells(self)).collect();
                self.line(&self.table(T::HEADER, cells))
            }
        }
    }

    pub(crate) fn table(&self, header: &[&str], rows: Vec<Vec<Cell>>) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        if self.terminal {
            table.set_content_arrangement(ContentArrangement::Dynamic);
        } else {
            table.force_no_tty().set_content_arrangement(ContentArrangement::Disabled);
        }
        if self.colored {
            table.enforce_styling();
        }
        table.set_header(header.iter().map(|title| self.styled(Cell::new(title), None, Attribute::Bold)));
        table.add_rows(rows);
        let last = header.len().saturating_sub(1);
        for (place, column) in table.column_iter_mut().enumerate() {
            column.set_padding((0, 2));
            // Only the last column, of free text, is folded on a narrow terminal: an id
            // in two pieces cannot be copied.
            if place != last {
                column.set_constraint(ColumnConstraint::ContentWidth);
            }
        }
        table.trim_fmt()
    }

    fn styled(&self, cell: Cell, color: Option<Color>, attribute: Attribute) -> Cell {
        if !self.colored {
            return cell;
        }
        let cell = cell.add_attribute(attribute);
        match color {
            Some(color) => cell.fg(color),
            None => cell,
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

    /// The same for running text.
    pub(crate) fn state_text(&self, state: &str) -> String {
        match tone(state) {
            Some((_, code)) if self.colored => format!("\x1b[{code}m{state}\x1b[0m"),
            _ => state.to_owned(),
        }
    }
}

fn tone(state: &str) -> Option<(Color, u8)> {
    match JobState::parse(state)? {
        JobState::Scheduled => None,
        JobState::Running => Some((Color::DarkCyan, 36)),
        JobState::Succeeded => Some((Color::DarkGreen, 32)),
        JobState::Failed | JobState::Lost | JobState::Quarantined => Some((Color::DarkRed, 31)),
        JobState::Cancelled | JobState::Deleted => Some((Color::DarkYellow, 33)),
    }
}

/// Writes a line to stderr. Nobody may be there to read it, and that is fine.
pub(crate) fn note(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz::TimeZone;

    fn piped() -> Output {
        Output {
            format: Format::Table,
            zone: Zone(TimeZone::UTC),
            chatter: Chatter::Hints,
            colored: false,
            terminal: false,
        }
    }

    #[test]
    fn a_piped_table_is_plain_and_whole() {
        let long = "x".repeat(500);
        let rows = vec![vec![Cell::new("a"), Cell::new(&long)], vec![Cell::new("bbb"), Cell::new("y")]];
        let text = piped().table(&["ID", "REASON"], rows);
        assert_eq!(text, format!("ID   REASON\na    {long}\nbbb  y"));
    }

    #[test]
    fn colour_is_added_only_where_it_was_asked_for() {
        let mut out = piped();
        assert_eq!(out.state_text("failed"), "failed");
        out.colored = true;
        assert_eq!(out.state_text("failed"), "\x1b[31mfailed\x1b[0m");
        assert_eq!(out.state_text("scheduled"), "scheduled");
        assert!(out.table(&["STATE"], vec![vec![out.state("failed")]]).contains("\x1b["));
    }
}
