//! One line of a crontab.

use super::CrontabFormat;
use crate::rule::Rule;

const TIME_FIELDS: usize = 5;
const NAME_BYTES_MAX: usize = 256;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum CrontabLine<'a> {
    /// Empty, or a comment.
    Blank,
    Variable {
        name: &'a str,
        value: String,
        column: usize,
    },
    Entry(Box<EntryLine>),
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct EntryLine {
    pub(super) schedule: Rule,
    pub(super) user: Option<String>,
    pub(super) command: CommandText,
    /// The line began with `-`, which asks cron not to log it.
    pub(super) is_quiet: bool,
    pub(super) flags: Flags,
}

/// The flags that the crons of the BSDs read between the time and the command.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Flags {
    /// `-n`: no mail after a success.
    pub(super) mail_on_failure: bool,
    /// `-q`: no line in cron's log.
    pub(super) quiet: bool,
    /// `-s`: never two runs at once.
    pub(super) single: bool,
}

/// A command with its `%` resolved.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CommandText {
    pub(super) command: String,
    pub(super) stdin: Option<String>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct LineProblem {
    pub(super) column: usize,
    pub(super) message: String,
}

fn problem<T>(column: usize, message: impl Into<String>) -> Result<T, LineProblem> {
    Err(LineProblem { column, message: message.into() })
}

impl<'a> CrontabLine<'a> {
    pub(super) fn parse(text: &'a str, format: CrontabFormat) -> Result<Self, LineProblem> {
        let line = skip_blanks(text);
        if line.is_empty() || line.starts_with('#') {
            return Ok(Self::Blank);
        }
        if line.contains('\0') {
            return problem(1, "the line has a NUL character; remove it");
        }
        if let Some(variable) = variable(text, line)? {
            return Ok(variable);
        }
        entry(text, line, format)
    }
}

/// `NAME = value`, either side quoted or not. `None` if the line is something else.
fn variable<'a>(text: &'a str, line: &'a str) -> Result<Option<CrontabLine<'a>>, LineProblem> {
    let Some((name, rest)) = quoted(line).or_else(|| unquoted_name(line)) else { return Ok(None) };
    let Some(value) = skip_blanks(rest).strip_prefix('=') else { return Ok(None) };
    let column = column_of(text, line);
    let is_name_start = |letter: char| letter.is_ascii_alphabetic() || letter == '_';
    let is_name = name.starts_with(is_name_start) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if !is_name || name.len() > NAME_BYTES_MAX {
        return problem(column, "this is no variable name; use letters, digits and _, not beginning with a digit");
    }
    let value = value.trim_matches(is_blank);
    let value = match quoted(value) {
        Some((inside, "")) => inside,
        Some(_) | None if value.starts_with(['"', '\'']) => {
            let advice = "the quote is not closed at the end of the line; close it, or drop it";
            return problem(column_of(text, value), advice);
        }
        Some(_) | None => value,
    };
    Ok(Some(CrontabLine::Variable { name, value: value.to_owned(), column }))
}

fn unquoted_name(line: &str) -> Option<(&str, &str)> {
    let end = line.find(|letter: char| is_blank(letter) || letter == '=')?;
    (end > 0).then(|| line.split_at(end))
}

/// The text within the quotes at the beginning, and the rest after them.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let quote = text.chars().next().filter(|letter| matches!(letter, '"' | '\''))?;
    text[1..].split_once(quote)
}

fn entry<'a>(text: &'a str, line: &'a str, format: CrontabFormat) -> Result<CrontabLine<'a>, LineProblem> {
    let is_quiet = line.starts_with('-');
    let line = line.strip_prefix('-').unwrap_or(line);
    let first_word = line.split(is_blank).next().unwrap_or_default();
    let fields = match first_word.starts_with('@') {
        true if first_word.eq_ignore_ascii_case("@every") => 2,
        true => 1,
        false => TIME_FIELDS,
    };
    let time_column = column_of(text, line);
    let Some((time, rest)) = split_fields(line, fields) else {
        return problem(time_column, "a time and a command are needed; write `minute hour day month weekday command`");
    };
    let schedule: Rule = match time.parse() {
        Ok(schedule) => schedule,
        Err(error) => {
            let field = error.field.map(|field| format!("{field} field: ")).unwrap_or_default();
            let message = format!("{field}{}; {}", error.problem, error.advice);
            return problem(time_column + error.column - 1, message);
        }
    };
    let (user, command) = match format {
        CrontabFormat::User => (None, rest),
        CrontabFormat::System => match split_fields(rest, 1) {
            Some((user, command)) => (Some(user.to_owned()), command),
            None if rest.is_empty() => return problem(column_of(text, rest), "a user and a command are needed"),
            None => {
                let message = "a command is needed after the user; is this a user's crontab, without a user column?";
                return problem(column_of(text, rest), message);
            }
        },
    };
    let (flags, command) = flags(text, command)?;
    if command.is_empty() {
        return problem(column_of(text, command), "a command is needed after the time");
    }
    Ok(CrontabLine::Entry(Box::new(EntryLine { schedule, user, command: command_text(command), is_quiet, flags })))
}

/// Reads `-n`, `-q` and `-s`, alone or together behind one dash, and returns the rest. A command never begins with a
/// dash.
fn flags<'a>(text: &str, command: &'a str) -> Result<(Flags, &'a str), LineProblem> {
    let mut flags = Flags::default();
    let mut rest = command;
    while let Some(letters) = rest.strip_prefix('-') {
        let end = letters.find(is_blank).unwrap_or(letters.len());
        let known = letters[..end].bytes().all(|letter| matches!(letter, b'n' | b'q' | b's'));
        if end == 0 || !known {
            let message = "no command begins with `-`; the flags that may stand before one are -n, -q and -s";
            return problem(column_of(text, rest), message);
        }
        flags.mail_on_failure |= letters[..end].contains('n');
        flags.quiet |= letters[..end].contains('q');
        flags.single |= letters[..end].contains('s');
        rest = skip_blanks(&letters[end..]);
    }
    Ok((flags, rest))
}

/// Splits off `count` fields and the blanks after them. `None` if there is nothing after them.
fn split_fields(line: &str, count: usize) -> Option<(&str, &str)> {
    let mut rest = line;
    let mut end = 0;
    for _ in 0..count {
        rest = skip_blanks(rest);
        rest = &rest[rest.find(is_blank)?..];
        end = line.len() - rest.len();
    }
    let command = skip_blanks(rest);
    (!command.is_empty()).then(|| (&line[..end], command))
}

/// Reads the command as cron does: in the command, `\%` is `%` and the first bare `%` ends it. After that, `\%` is `%`,
/// a bare `%` is a line break, and the text ends with one.
fn command_text(text: &str) -> CommandText {
    let mut command = String::with_capacity(text.len());
    let mut is_escaped = false;
    for (at, letter) in text.char_indices() {
        match letter {
            '%' if is_escaped => {
                command.pop();
                command.push('%');
            }
            '%' => return CommandText { command, stdin: Some(stdin(&text[at + 1..])) },
            _ => command.push(letter),
        }
        is_escaped = letter == '\\' && !is_escaped;
    }
    CommandText { command, stdin: None }
}

fn stdin(text: &str) -> String {
    let mut lines = String::with_capacity(text.len() + 1);
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' if letters.next_if_eq(&'%').is_some() => lines.push('%'),
            '%' => lines.push('\n'),
            _ => lines.push(letter),
        }
    }
    if !lines.is_empty() && !lines.ends_with('\n') {
        lines.push('\n');
    }
    lines
}

fn is_blank(letter: char) -> bool {
    letter == ' ' || letter == '\t'
}

fn skip_blanks(text: &str) -> &str {
    text.trim_start_matches(is_blank)
}

/// Where `rest`, a piece of `text`, begins; counted from 1 in characters.
fn column_of(text: &str, rest: &str) -> usize {
    let bytes = (rest.as_ptr() as usize).saturating_sub(text.as_ptr() as usize).min(text.len());
    text.get(..bytes).map_or(1, |before| before.chars().count() + 1)
}
