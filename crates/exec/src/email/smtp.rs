//! A conversation with a mail server.
//!
//! Knows at every step whether the server can have taken the mail: not before the dot that ends
//! it was sent, certainly after it was acknowledged, and in between nobody can say. Answers are
//! bounded, and nothing that has a line break in it becomes a command.

mod lines;

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use punctual_core::attempt::{Failure, FailureClass, Last, Ran};
use tokio::time::Instant;

use super::server::{Encryption, Login, MailServer};
use crate::dial::{NotConnected, Outbound};
use lines::{Lines, SmtpError, SmtpReply};

/// The time limit of each command. RFC 5321 allows minutes, which dates from slow lines.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);

/// Servers look at a mail before they take it. A shorter wait would leave more in doubt.
const TAKEN_TIMEOUT: Duration = Duration::from_secs(300);

pub(super) struct Session {
    lines: Lines,
    /// What the server offers, in capital letters.
    offers: Vec<String>,
}

/// The server took the mail.
pub(super) struct MailReceipt {
    pub(super) answer: String,
    /// Who was refused for good; everyone else has it.
    pub(super) refused: Vec<RefusedRecipient>,
}

pub(super) struct RefusedRecipient {
    pub(super) address: String,
    pub(super) answer: String,
}

impl Session {
    pub(super) async fn open(outbound: &Outbound, server: &MailServer) -> Result<Self, Failure> {
        let host = server.host();
        let deadline = || Instant::now() + COMMAND_TIMEOUT;
        let tcp = outbound.connect_as_set(&host, server.port, deadline()).await.map_err(|e| not_connected(&e))?;
        let own_name = tcp.local_addr().map_or_else(
            |_| "localhost".to_owned(),
            |local| match local.ip().to_canonical() {
                std::net::IpAddr::V4(address) => format!("[{address}]"),
                std::net::IpAddr::V6(address) => format!("[IPv6:{address}]"),
            },
        );
        let lines = match server.encryption {
            Encryption::Tls => {
                let tls = outbound.encrypt(tcp, &host, deadline()).await.map_err(|e| not_connected(&e))?;
                Lines::new(Box::new(tls))
            }
            Encryption::StartTls | Encryption::None => Lines::new(Box::new(tcp)),
        };
        let mut session = Self { lines, offers: Vec::new() };
        let greeting = session.lines.answer(COMMAND_TIMEOUT).await;
        settled(greeting, 220, "did not greet us")?;
        session.hello(&own_name).await?;
        if server.encryption == Encryption::StartTls {
            session = session.encrypt(outbound, server).await?;
            session.hello(&own_name).await?;
        }
        if let Some(login) = &server.login {
            session.log_in(login).await?;
        }
        Ok(session)
    }

    async fn hello(&mut self, own_name: &str) -> Result<(), Failure> {
        let answer = self.lines.command(&format!("EHLO {own_name}"), COMMAND_TIMEOUT).await;
        let answer = settled(answer, 250, "refused our EHLO")?;
        self.offers = answer.lines.iter().skip(1).map(|line| line.to_ascii_uppercase()).collect();
        Ok(())
    }

    async fn encrypt(mut self, outbound: &Outbound, server: &MailServer) -> Result<Self, Failure> {
        if !self.offers.iter().any(|offer| offer == "STARTTLS") {
            return Err(Failure {
                class: FailureClass::Environment,
                last: Last::Yes,
                ran: Ran::No,
                ..Failure::new("the mail server offers no STARTTLS, and nothing is sent in the clear")
            });
        }
        let answer = self.lines.command("STARTTLS", COMMAND_TIMEOUT).await;
        settled(answer, 220, "refused STARTTLS")?;
        // What came with the answer was not encrypted, and may be from anyone.
        let stream = self.lines.into_stream().map_err(|trouble| settings_failure("broke STARTTLS", trouble))?;
        let deadline = Instant::now() + COMMAND_TIMEOUT;
        let tls = outbound.encrypt(stream, &server.host(), deadline).await.map_err(|e| not_connected(&e))?;
        Ok(Self { lines: Lines::new(Box::new(tls)), offers: Vec::new() })
    }

    async fn log_in(&mut self, Login { user, password }: &Login) -> Result<(), Failure> {
        const REFUSED: &str = "refused the login";
        let offers = |mechanism: &str| {
            let mut words = self.offers.iter().filter_map(|offer| offer.strip_prefix("AUTH"));
            words.any(|rest| rest.split([' ', '=']).any(|word| word == mechanism))
        };
        if offers("PLAIN") {
            let secret = STANDARD.encode(format!("\0{user}\0{password}"));
            let answer = self.lines.command(&format!("AUTH PLAIN {secret}"), COMMAND_TIMEOUT).await;
            return settled(answer, 235, REFUSED).map(drop);
        }
        if offers("LOGIN") {
            let answer = self.lines.command("AUTH LOGIN", COMMAND_TIMEOUT).await;
            settled(answer, 334, REFUSED)?;
            let answer = self.lines.command(&STANDARD.encode(user), COMMAND_TIMEOUT).await;
            settled(answer, 334, REFUSED)?;
            let answer = self.lines.command(&STANDARD.encode(password), COMMAND_TIMEOUT).await;
            return settled(answer, 235, REFUSED).map(drop);
        }
        Err(Failure {
            class: FailureClass::Environment,
            last: Last::Yes,
            ran: Ran::No,
            ..Failure::new("the mail server offers neither AUTH PLAIN nor AUTH LOGIN")
        })
    }

    pub(super) async fn deliver(&mut self, from: &str, to: &[String], mail: &[u8]) -> Result<MailReceipt, Failure> {
        let size = if self.offers.iter().any(|offer| offer == "SIZE" || offer.starts_with("SIZE ")) {
            format!(" SIZE={}", mail.len())
        } else {
            String::new()
        };
        let answer = self.lines.command(&format!("MAIL FROM:<{from}>{size}"), COMMAND_TIMEOUT).await;
        not_taken(answer, 250, "refused the sender")?;
        let refused = self.recipients(to).await?;
        let answer = self.lines.command("DATA", COMMAND_TIMEOUT).await;
        not_taken(answer, 354, "refused the mail")?;
        self.lines
            .write(&stuffed(mail), COMMAND_TIMEOUT)
            .await
            .map_err(|trouble| failure("broke off while the mail was sent", trouble, Ran::No))?;
        // From here on the server may have it.
        let end = match self.lines.write(b".\r\n", COMMAND_TIMEOUT).await {
            Ok(()) => self.lines.answer(TAKEN_TIMEOUT).await,
            Err(trouble) => Err(trouble),
        };
        match end {
            Ok(answer) if answer.code == 250 => Ok(MailReceipt { answer: answer.to_string(), refused }),
            Ok(answer) => Err(failure("refused the mail", SmtpError::Refused(answer), Ran::No)),
            Err(trouble) => Err(failure("did not say whether it took the mail", trouble, Ran::Unknown)),
        }
    }

    /// Names everyone the mail is for. Goes on without those who are refused for good, unless that
    /// is everyone. One who may be taken later holds the mail back, so that a retry reaches all.
    async fn recipients(&mut self, to: &[String]) -> Result<Vec<RefusedRecipient>, Failure> {
        let mut refused = Vec::new();
        for address in to {
            match self.lines.command(&format!("RCPT TO:<{address}>"), COMMAND_TIMEOUT).await {
                Ok(SmtpReply { code: 250..=252, .. }) => {}
                Ok(answer) if answer.is_final() => {
                    refused.push(RefusedRecipient { address: address.clone(), answer: answer.to_string() });
                }
                Ok(answer) => {
                    let what = format!("does not take mail for {address} now");
                    return Err(failure(&what, SmtpError::Refused(answer), Ran::No));
                }
                Err(trouble) => return Err(failure("broke off before the mail was sent", trouble, Ran::No)),
            }
        }
        if refused.len() < to.len() {
            return Ok(refused);
        }
        let all: Vec<_> =
            refused.iter().map(|RefusedRecipient { address, answer }| format!("{address} ({answer})")).collect();
        let reason = format!("the mail server refused every address: {}", all.join(", "));
        Err(Failure { last: Last::Yes, ran: Ran::No, ..Failure::new(reason) })
    }

    /// Says goodbye, and does not wait for an answer.
    pub(super) async fn close(mut self) {
        let _ = self.lines.write(b"QUIT\r\n", Duration::from_secs(1)).await;
    }
}

/// Ends every line of the mail with CR LF and doubles the dots at the start of lines, so that no
/// line of it is the end.
fn stuffed(mail: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(mail.len() + 16);
    let mut is_line_start = true;
    let mut rest = mail.iter().copied().peekable();
    while let Some(byte) = rest.next() {
        match byte {
            b'\r' | b'\n' => {
                if byte == b'\r' && rest.peek() == Some(&b'\n') {
                    rest.next();
                }
                bytes.extend_from_slice(b"\r\n");
                is_line_start = true;
                continue;
            }
            b'.' if is_line_start => bytes.extend_from_slice(b".."),
            byte => bytes.push(byte),
        }
        is_line_start = false;
    }
    if !is_line_start {
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

fn not_connected(reached: &NotConnected) -> Failure {
    Failure { class: FailureClass::Network, ran: Ran::No, ..Failure::new(format!("the mail server: {reached}")) }
}

/// An answer before it is about the mail: what is wrong then is the worker's settings.
fn settled(answer: Result<SmtpReply, SmtpError>, wanted: u16, what: &str) -> Result<SmtpReply, Failure> {
    match answer {
        Ok(answer) if answer.code == wanted => Ok(answer),
        Ok(answer) => Err(settings_failure(what, SmtpError::Refused(answer))),
        Err(trouble) => Err(settings_failure(what, trouble)),
    }
}

fn settings_failure(what: &str, trouble: SmtpError) -> Failure {
    let class = match &trouble {
        SmtpError::Refused(_) => FailureClass::Environment,
        SmtpError::Broken(_) | SmtpError::Late | SmtpError::Nonsense(_) | SmtpError::Unfit => trouble.class(),
    };
    Failure { class, ..failure(what, trouble, Ran::No) }
}

/// An answer before the server can have taken the mail.
fn not_taken(answer: Result<SmtpReply, SmtpError>, wanted: u16, what: &str) -> Result<SmtpReply, Failure> {
    match answer {
        Ok(answer) if answer.code == wanted => Ok(answer),
        Ok(answer) => Err(failure(what, SmtpError::Refused(answer), Ran::No)),
        Err(trouble) => Err(failure("broke off before the mail was sent", trouble, Ran::No)),
    }
}

fn failure(what: &str, trouble: SmtpError, ran: Ran) -> Failure {
    Failure {
        class: trouble.class(),
        last: if trouble.is_final() { Last::Yes } else { Last::No },
        ran,
        ..Failure::new(format!("the mail server {what}: {trouble}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_of_a_mail_ends_it() {
        for (mail, sent) in [
            ("", ""),
            ("a\r\nb", "a\r\nb\r\n"),
            (".\r\n", "..\r\n"),
            ("a\r\n.\r\nb", "a\r\n..\r\nb\r\n"),
            ("a\n.\nb", "a\r\n..\r\nb\r\n"),
            ("a\r.\rb", "a\r\n..\r\nb\r\n"),
            ("a\r\r\n.b", "a\r\n\r\n..b\r\n"),
            ("a.\r\n..", "a.\r\n...\r\n"),
        ] {
            assert_eq!(String::from_utf8(stuffed(mail.as_bytes())).unwrap(), sent, "{mail:?}");
        }
    }
}
