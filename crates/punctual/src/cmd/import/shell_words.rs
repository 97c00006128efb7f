//! A shell line that needs no shell: words, quotes, and output that is thrown away.
//!
//! What a shell would do more than that (variables, pipes, patterns) is refused, never guessed.

use std::iter::Peekable;
use std::str::Chars;

/// The words of a line, and the files that it wrote its output to.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plain {
    pub(super) words: Vec<String>,
    pub(super) output_files: Vec<String>,
}

/// `Err` says what needs a shell.
pub(super) fn plain(line: &str) -> Result<Plain, String> {
    let mut reader = Reader { letters: line.chars().peekable(), word: None, is_quoted: false, words: Vec::new() };
    let mut output_files = Vec::new();
    while let Some(letter) = reader.letters.next() {
        match letter {
            ' ' | '\t' => reader.end_word(),
            // A comment, as it begins a word.
            '#' if reader.word.is_none() => break,
            '>' => {
                reader.drop_descriptor();
                output_files.extend(reader.redirection()?);
            }
            '&' if reader.letters.next_if_eq(&'>').is_some() => {
                reader.end_word();
                output_files.extend(reader.redirection()?);
            }
            _ => reader.take(letter)?,
        }
    }
    reader.end_word();
    let words = reader.words;
    match words.first() {
        None => Err("there is no command".to_owned()),
        Some(first) if is_assignment(first) => Err("a variable is set before the command".to_owned()),
        Some(_) => Ok(Plain { words, output_files }),
    }
}

/// `NAME=…`
pub(super) fn is_assignment(word: &str) -> bool {
    let is_name = |name: &str| {
        !name.is_empty()
            && !name.starts_with(|letter: char| letter.is_ascii_digit())
            && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
    };
    word.split_once('=').is_some_and(|(name, _)| is_name(name))
}

struct Reader<'a> {
    letters: Peekable<Chars<'a>>,
    word: Option<String>,
    /// Whether any of the word was in quotes.
    is_quoted: bool,
    words: Vec<String>,
}

impl Reader<'_> {
    fn end_word(&mut self) {
        self.words.extend(self.word.take());
        self.is_quoted = false;
    }

    fn push(&mut self, letter: char) {
        self.word.get_or_insert_default().push(letter);
    }

    fn take(&mut self, letter: char) -> Result<(), String> {
        match letter {
            '\'' => return self.single_quotes(),
            '"' => return self.double_quotes(),
            '\\' => {
                let escaped = self.letters.next().ok_or("the line ends with a backslash")?;
                self.is_quoted = true;
                self.push(escaped);
                return Ok(());
            }
            // A shell leaves it alone unless a file's name matches, and no file is called like an address.
            '?' if self.word.as_deref().is_some_and(|word| word.contains("://")) => {}
            '~' if self.word.is_some() => {}
            '|' | '&' | ';' | '(' | ')' | '<' | '$' | '`' | '*' | '?' | '[' | ']' | '{' | '}' | '~' | '!' => {
                return Err(format!("`{letter}` needs a shell"));
            }
            _ if letter.is_control() => return Err("a control character needs a shell".to_owned()),
            _ => {}
        }
        self.push(letter);
        Ok(())
    }

    fn single_quotes(&mut self) -> Result<(), String> {
        self.begin_quotes();
        loop {
            match self.letters.next() {
                Some('\'') => return Ok(()),
                Some(letter) => self.push(letter),
                None => return Err("a quote is not closed".to_owned()),
            }
        }
    }

    fn double_quotes(&mut self) -> Result<(), String> {
        self.begin_quotes();
        loop {
            match self.letters.next() {
                Some('"') => return Ok(()),
                Some(letter @ ('$' | '`')) => return Err(format!("`{letter}` needs a shell")),
                Some('\\') => {
                    let escaped = self.letters.next_if(|next| matches!(next, '$' | '`' | '"' | '\\'));
                    self.push(escaped.unwrap_or('\\'));
                }
                Some(letter) => self.push(letter),
                None => return Err("a quote is not closed".to_owned()),
            }
        }
    }

    /// Even an empty pair of quotes is a word.
    fn begin_quotes(&mut self) {
        self.is_quoted = true;
        self.word.get_or_insert_default();
    }

    /// In `2>file`, the 2 is no word.
    fn drop_descriptor(&mut self) {
        if !self.is_quoted && matches!(self.word.as_deref(), Some("1" | "2")) {
            self.word = None;
        }
        self.end_word();
    }

    /// What follows a `>`: the file, unless the output is thrown away or goes where the other one does.
    fn redirection(&mut self) -> Result<Option<String>, String> {
        // `>>`
        self.letters.next_if_eq(&'>');
        if self.letters.next_if_eq(&'&').is_some() {
            return match self.letters.next() {
                Some('1' | '2') => Ok(None),
                Some(_) | None => Err("`>&` needs a shell".to_owned()),
            };
        }
        while self.letters.next_if(|letter| matches!(letter, ' ' | '\t')).is_some() {}
        let ends = |letter: &char| matches!(letter, ' ' | '\t' | '>' | '&' | ';' | '|');
        while let Some(letter) = self.letters.next_if(|letter| !ends(letter)) {
            self.take(letter)?;
        }
        self.is_quoted = false;
        match self.word.take() {
            None => Err("`>` has no file after it".to_owned()),
            Some(file) if file == "/dev/null" => Ok(None),
            Some(file) => Ok(Some(file)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simple_lines_are_read_like_a_shell_reads_them() {
        for (line, words, files) in [
            ("/usr/local/bin/backup --full", &["/usr/local/bin/backup", "--full"][..], &[][..]),
            ("a  'b c'\t\"d e\" f\\ g ''", &["a", "b c", "d e", "f g", ""], &[]),
            (r#"a "x\"y\z" 'it'"'"'s'"#, &["a", r#"x"y\z"#, "it's"], &[]),
            ("a >/dev/null 2>&1", &["a"], &[]),
            ("a > /dev/null 2> /dev/null", &["a"], &[]),
            ("a &>/dev/null", &["a"], &[]),
            ("a b2>>/var/log/a.log 2>&1 c", &["a", "b2", "c"], &["/var/log/a.log"]),
            ("a 12 > '/tmp/x y'", &["a", "12"], &["/tmp/x y"]),
            ("curl http://h/cron.php?key=a~b # hourly", &["curl", "http://h/cron.php?key=a~b"], &[]),
            ("a b#c", &["a", "b#c"], &[]),
            ("a 'NAME=x'", &["a", "NAME=x"], &[]),
        ] {
            let read = plain(line).expect(line);
            assert_eq!(read.words, words, "{line}");
            assert_eq!(read.output_files, files, "{line}");
        }
    }

    #[test]
    fn what_needs_a_shell_is_named() {
        for (line, reason) in [
            ("cd / && a", "`&` needs a shell"),
            ("a | b", "`|` needs a shell"),
            ("a; b", "`;` needs a shell"),
            ("a $HOME", "`$` needs a shell"),
            ("a \"$HOME\"", "`$` needs a shell"),
            ("a `date`", "``` needs a shell"),
            ("rm *.log", "`*` needs a shell"),
            ("a ?", "`?` needs a shell"),
            ("a ~/x", "`~` needs a shell"),
            ("a < file", "`<` needs a shell"),
            ("A=1 b", "a variable is set before the command"),
            ("a 'b", "a quote is not closed"),
            ("a \"b", "a quote is not closed"),
            ("a \\", "the line ends with a backslash"),
            ("a >", "`>` has no file after it"),
            ("a >&3", "`>&` needs a shell"),
            ("# nothing", "there is no command"),
        ] {
            assert_eq!(plain(line), Err(reason.to_owned()), "{line}");
        }
    }
}
