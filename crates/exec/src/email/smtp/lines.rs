//! Commands and answers of SMTP, line by line.

use std::fmt;
use std::io;
use std::time::Duration;

use punctual_core::attempt::FailureClass;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::time::timeout;

use crate::dial::Stream;

/// Eight times what RFC 5321 allows.
const LINE_BYTES_MAX: u64 = 4096;
const ANSWER_LINES_MAX: usize = 128;

/// The length to which an answer's text is cut in reasons.
const SHOWN_CHARS_MAX: usize = 200;

pub(super) struct Lines(BufReader<Box<dyn Stream>>);

/// What a server said: a code and its lines.
#[derive(Debug)]
pub(super) struct SmtpReply {
    pub(super) code: u16,
    pub(super) lines: Vec<String>,
}

impl SmtpReply {
    /// 5xx: the same mail will be refused again.
    pub(super) fn is_final(&self) -> bool {
        self.code >= 500
    }
}

impl fmt::Display for SmtpReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text: String = self.lines.join(" ").chars().take(SHOWN_CHARS_MAX).collect();
        write!(f, "{} {text}", self.code)
    }
}

/// Why a conversation cannot go on.
#[derive(Debug)]
pub(super) enum SmtpError {
    Refused(SmtpReply),
    Broken(io::Error),
    Late,
    Nonsense(&'static str),
    /// Our own command would have been more than one.
    Unfit,
}

impl SmtpError {
    pub(super) fn class(&self) -> FailureClass {
        match self {
            Self::Refused(_) | Self::Unfit => FailureClass::Task,
            Self::Broken(_) | Self::Nonsense(_) => FailureClass::Network,
            Self::Late => FailureClass::Timeout,
        }
    }

    pub(super) fn is_final(&self) -> bool {
        match self {
            Self::Refused(answer) => answer.is_final(),
            Self::Unfit => true,
            Self::Broken(_) | Self::Late | Self::Nonsense(_) => false,
        }
    }
}

impl fmt::Display for SmtpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(answer) => answer.fmt(f),
            Self::Broken(error) => error.fmt(f),
            Self::Late => f.write_str("no answer in time"),
            Self::Nonsense(what) => f.write_str(what),
            Self::Unfit => f.write_str("an address has characters that a mail server would read as a command"),
        }
    }
}

impl Lines {
    pub(super) fn new(stream: Box<dyn Stream>) -> Self {
        Self(BufReader::new(stream))
    }

    /// Gives the stream back, if nothing that was read is left over.
    pub(super) fn into_stream(self) -> Result<Box<dyn Stream>, SmtpError> {
        if !self.0.buffer().is_empty() {
            return Err(SmtpError::Nonsense("it said more before the encryption than it may"));
        }
        Ok(self.0.into_inner())
    }

    pub(super) async fn command(&mut self, command: &str, limit: Duration) -> Result<SmtpReply, SmtpError> {
        if command.contains(|letter: char| letter.is_control()) {
            return Err(SmtpError::Unfit);
        }
        self.write(format!("{command}\r\n").as_bytes(), limit).await?;
        self.answer(limit).await
    }

    pub(super) async fn write(&mut self, bytes: &[u8], limit: Duration) -> Result<(), SmtpError> {
        let written = timeout(limit, async {
            self.0.write_all(bytes).await?;
            self.0.flush().await
        });
        written.await.map_err(|_| SmtpError::Late)?.map_err(SmtpError::Broken)
    }

    pub(super) async fn answer(&mut self, limit: Duration) -> Result<SmtpReply, SmtpError> {
        timeout(limit, self.read()).await.map_err(|_| SmtpError::Late)?
    }

    async fn read(&mut self) -> Result<SmtpReply, SmtpError> {
        let mut lines = Vec::new();
        let mut first_code = None;
        loop {
            let line = self.line().await?;
            let code = line.get(..3).and_then(|code| code.parse::<u16>().ok()).filter(|code| (200..600).contains(code));
            let code = code.ok_or(SmtpError::Nonsense("its answer is not SMTP"))?;
            if *first_code.get_or_insert(code) != code {
                return Err(SmtpError::Nonsense("its answer has two codes"));
            }
            let is_last = match line.as_bytes().get(3) {
                None | Some(b' ') => true,
                Some(b'-') => false,
                Some(_) => return Err(SmtpError::Nonsense("its answer is not SMTP")),
            };
            lines.push(line.get(4..).unwrap_or_default().trim().to_owned());
            if is_last {
                return Ok(SmtpReply { code, lines });
            }
            if lines.len() >= ANSWER_LINES_MAX {
                return Err(SmtpError::Nonsense("its answer has no end"));
            }
        }
    }

    /// One line, without what would steer a terminal or break a log.
    async fn line(&mut self) -> Result<String, SmtpError> {
        let mut bytes = Vec::new();
        (&mut self.0).take(LINE_BYTES_MAX).read_until(b'\n', &mut bytes).await.map_err(SmtpError::Broken)?;
        if bytes.last() != Some(&b'\n') {
            return Err(if bytes.len() as u64 >= LINE_BYTES_MAX {
                SmtpError::Nonsense("its answer has a line without an end")
            } else {
                SmtpError::Broken(io::Error::new(io::ErrorKind::UnexpectedEof, "the connection was closed"))
            });
        }
        let text = String::from_utf8_lossy(&bytes);
        Ok(text.trim_end().chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect())
    }
}
