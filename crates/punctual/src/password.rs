//! Asks for passwords: on the terminal without showing them, or from stdin. Never in a flag, which everybody can read.

use std::fs::File;
use std::io::{self, BufRead, IsTerminal, Read, Write};

use punctual_api::{SecretText, limits};
use rustix::termios::{self, LocalModes, OptionalActions, SpecialCodeIndex, Termios};

use crate::exit::{failed, usage};

/// Where a password comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asking {
    Terminal,
    /// A line of stdin for each.
    Stdin,
}

impl Asking {
    pub(crate) fn new(from_stdin: bool) -> Self {
        if from_stdin { Self::Stdin } else { Self::Terminal }
    }

    /// Asks for one.
    pub(crate) fn ask(self, prompt: &str) -> anyhow::Result<SecretText> {
        match self {
            Self::Terminal => ask_on_terminal(prompt),
            Self::Stdin => read_line(&mut io::stdin().lock()),
        }
    }

    /// Asks for a new one, on the terminal twice.
    pub(crate) fn ask_new(self, prompt: &str) -> anyhow::Result<SecretText> {
        let password = self.ask(prompt)?;
        if self == Self::Terminal && self.ask("Again: ")? != password {
            return Err(usage("the two passwords differ", "try again"));
        }
        Ok(password)
    }
}

fn read_line(input: &mut impl BufRead) -> anyhow::Result<SecretText> {
    let mut line = Vec::new();
    // And the end of the line.
    let most = limits::PASSWORD_BYTES_MAX as u64 + 2;
    let refused = |error: io::Error| failed(format!("cannot read the password: {error}"), "try again");
    input.take(most).read_until(b'\n', &mut line).map_err(refused)?;
    if line.is_empty() {
        return Err(usage("stdin has no password", "write one on a line of its own"));
    }
    if line.last() == Some(&b'\n') {
        line.pop();
        if line.last() == Some(&b'\r') {
            line.pop();
        }
    }
    text(line)
}

fn text(bytes: Vec<u8>) -> anyhow::Result<SecretText> {
    if bytes.len() > limits::PASSWORD_BYTES_MAX {
        return Err(usage(
            format!("a password has at most {} bytes", limits::PASSWORD_BYTES_MAX),
            "choose a shorter one",
        ));
    }
    let text = String::from_utf8(bytes);
    text.map(SecretText)
        .map_err(|_| usage("the password is not valid UTF-8", "type it on a terminal that speaks UTF-8"))
}

/// The terminal as it was.
struct Quiet<'t> {
    terminal: &'t File,
    former: Termios,
}

impl Drop for Quiet<'_> {
    fn drop(&mut self) {
        let _ = termios::tcsetattr(self.terminal, OptionalActions::Flush, &self.former);
    }
}

fn ask_on_terminal(prompt: &str) -> anyhow::Result<SecretText> {
    let no_terminal = || usage("there is no terminal to ask for the password", "use --password-stdin");
    let mut terminal = File::options().read(true).write(true).open("/dev/tty").map_err(|_| no_terminal())?;
    if !terminal.is_terminal() {
        return Err(no_terminal());
    }
    let former = termios::tcgetattr(&terminal).map_err(|_| no_terminal())?;
    let mut quiet = former.clone();
    // Keys come one by one, also Ctrl-C: if that ended the program here, the terminal would stay silent.
    quiet.local_modes -= LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG | LocalModes::IEXTEN;
    quiet.special_codes[SpecialCodeIndex::VMIN] = 1;
    quiet.special_codes[SpecialCodeIndex::VTIME] = 0;
    let reader = terminal.try_clone().map_err(|_| no_terminal())?;
    let typed = {
        termios::tcsetattr(&terminal, OptionalActions::Flush, &quiet).map_err(|_| no_terminal())?;
        let _restored = Quiet { terminal: &reader, former };
        let _ = terminal.write_all(prompt.as_bytes());
        let typed = read_keys(&mut &reader);
        let _ = terminal.write_all(b"\r\n");
        typed
    };
    match typed {
        Ok(Some(bytes)) => text(bytes),
        Ok(None) => Err(failed("no password was given", "try again")),
        Err(error) => Err(failed(format!("cannot read the password: {error}"), "use --password-stdin")),
    }
}

/// `None` if it was given up.
fn read_keys(keys: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    const INTERRUPT: u8 = 3;
    const END: u8 = 4;
    const BACKSPACE: [u8; 2] = [8, 0x7f];
    const CLEAR: u8 = 0x15;
    let mut typed: Vec<u8> = Vec::new();
    let mut key = [0];
    while keys.read(&mut key)? == 1 {
        match key[0] {
            b'\r' | b'\n' => return Ok(Some(typed)),
            INTERRUPT => return Ok(None),
            END if typed.is_empty() => return Ok(None),
            CLEAR => typed.clear(),
            key if BACKSPACE.contains(&key) => {
                // The whole character.
                while typed.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {}
            }
            // What is too long is refused when it is complete.
            key if typed.len() <= limits::PASSWORD_BYTES_MAX => typed.push(key),
            _ => {}
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_make_a_password() {
        for (keys, password) in [
            ("secret\r", Some("secret")),
            ("secreü\u{7f}t\n", Some("secret")),
            ("wrong\u{15}secret\n", Some("secret")),
            ("\n", Some("")),
            ("secret\u{3}", None),
            ("\u{4}", None),
            ("secret", None),
        ] {
            let typed = read_keys(&mut keys.as_bytes()).unwrap();
            assert_eq!(typed.as_deref(), password.map(str::as_bytes), "{keys:?}");
        }
    }

    #[test]
    fn a_line_of_stdin_is_a_password() {
        let mut input = "first one \r\nsecond\nlast".as_bytes();
        let mut next = || read_line(&mut input).map(|SecretText(text)| text);
        assert_eq!(next().unwrap(), "first one ");
        assert_eq!(next().unwrap(), "second");
        assert_eq!(next().unwrap(), "last");
        assert!(next().is_err());
        assert!(read_line(&mut "x".repeat(2000).as_bytes()).is_err());
    }
}
