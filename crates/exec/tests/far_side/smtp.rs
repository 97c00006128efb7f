//! A mail server that says what a test wants at each step.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::secure::Identity;

/// A place in the conversation where a test may have another answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Greeting,
    Ehlo,
    StartTls,
    Auth,
    Mail,
    /// The nth address, from 0.
    Rcpt(usize),
    Data,
    /// In the middle of the mail.
    Body,
    /// After the dot that ends the mail.
    Dot,
}

/// What happens at a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Does {
    Says(&'static str),
    /// Closes the connection without a word.
    Hangs,
}

#[derive(Clone, Default)]
pub(crate) struct Script {
    pub(crate) odd: Vec<(Step, Does)>,
    /// What EHLO offers, besides STARTTLS.
    pub(crate) offers: Vec<&'static str>,
    pub(crate) tls: Option<TlsAcceptor>,
    /// TLS from the first byte, without STARTTLS.
    pub(crate) implicit: bool,
}

impl Script {
    pub(crate) fn odd(step: Step, does: Does) -> Self {
        Self { odd: vec![(step, does)], ..Self::default() }
    }

    pub(crate) fn secured(identity: &Identity) -> Self {
        Self { tls: Some(identity.acceptor()), ..Self::default() }
    }

    fn does(&self, step: Step, usual: &'static str) -> Does {
        self.odd.iter().find(|(at, _)| *at == step).map_or(Does::Says(usual), |(_, does)| *does)
    }
}

/// Everything that was said to the server, in order, over all connections.
#[derive(Default)]
pub(crate) struct MailTraffic {
    pub(crate) commands: Vec<String>,
    /// As it came, dots and all.
    pub(crate) mails: Vec<String>,
    /// How many of the commands came before the encryption.
    pub(crate) in_the_clear: usize,
}

pub(crate) type SharedTraffic = Arc<Mutex<MailTraffic>>;

pub(crate) async fn mail_server(script: Script) -> (SocketAddr, SharedTraffic) {
    let heard = SharedTraffic::default();
    let ear = heard.clone();
    let socket = TcpSocket::new_v4().unwrap();
    // Small, so that a large mail is still on its way when its first line was read.
    socket.set_recv_buffer_size(4096).unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(64).unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            let (script, ear) = (script.clone(), ear.clone());
            tokio::spawn(async move { serve(socket, &script, &ear).await });
        }
    });
    (addr, heard)
}

/// `None` when the conversation is over.
async fn serve(socket: TcpStream, script: &Script, ear: &SharedTraffic) -> Option<()> {
    if script.implicit {
        let socket = script.tls.as_ref()?.accept(socket).await.ok()?;
        return converse(&mut BufReader::new(socket), script, ear, true, true).await.map(drop);
    }
    let mut plain = BufReader::new(socket);
    converse(&mut plain, script, ear, false, true).await?;
    // STARTTLS was said.
    let socket = script.tls.as_ref()?.accept(plain.into_inner()).await.ok()?;
    converse(&mut BufReader::new(socket), script, ear, true, false).await.map(drop)
}

/// Ends with `Some` when the client wants to go on encrypted.
async fn converse<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut BufReader<S>,
    script: &Script,
    ear: &SharedTraffic,
    is_encrypted: bool,
    greets: bool,
) -> Option<()> {
    if greets {
        act(stream, script.does(Step::Greeting, "220 mail.test ESMTP")).await?;
    }
    let mut recipients = 0;
    loop {
        let line = read_line(stream).await?;
        {
            let mut heard = ear.lock().unwrap();
            heard.commands.push(line.clone());
            heard.in_the_clear += usize::from(!is_encrypted);
        }
        let word = line.split([' ', ':']).next().unwrap_or_default().to_ascii_uppercase();
        match word.as_str() {
            "EHLO" => match script.does(Step::Ehlo, "") {
                Does::Says("") => {
                    let mut offers = script.offers.clone();
                    if script.tls.is_some() && !is_encrypted {
                        offers.push("STARTTLS");
                    }
                    let mut lines = vec!["mail.test"];
                    lines.extend(offers);
                    let last = lines.len() - 1;
                    for (at, line) in lines.into_iter().enumerate() {
                        let sign = if at == last { ' ' } else { '-' };
                        say(stream, &format!("250{sign}{line}")).await?;
                    }
                }
                odd => act(stream, odd).await?,
            },
            "STARTTLS" => {
                act(stream, script.does(Step::StartTls, "220 go on")).await?;
                return Some(());
            }
            "AUTH" => {
                if line == "AUTH LOGIN" {
                    for question in ["334 VXNlcm5hbWU6", "334 UGFzc3dvcmQ6"] {
                        say(stream, question).await?;
                        let answer = read_line(stream).await?;
                        ear.lock().unwrap().commands.push(answer);
                    }
                }
                act(stream, script.does(Step::Auth, "235 welcome")).await?;
            }
            "MAIL" => act(stream, script.does(Step::Mail, "250 ok")).await?,
            "RCPT" => {
                act(stream, script.does(Step::Rcpt(recipients), "250 ok")).await?;
                recipients += 1;
            }
            "DATA" => {
                let does = script.does(Step::Data, "354 go on");
                act(stream, does).await?;
                if does == Does::Says("354 go on") {
                    take_mail(stream, script, ear).await?;
                }
            }
            "QUIT" => {
                let _ = say(stream, "221 bye").await;
                return None;
            }
            _ => say(stream, "500 what?").await?,
        }
    }
}

async fn take_mail<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut BufReader<S>,
    script: &Script,
    ear: &SharedTraffic,
) -> Option<()> {
    if script.does(Step::Body, "") == Does::Hangs {
        let _ = read_line(stream).await;
        return None;
    }
    let mut mail = String::new();
    loop {
        let line = read_line(stream).await?;
        if line == "." {
            break;
        }
        mail += &line;
        mail += "\r\n";
    }
    ear.lock().unwrap().mails.push(mail);
    act(stream, script.does(Step::Dot, "250 2.0.0 queued as 17")).await
}

async fn act<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut BufReader<S>, does: Does) -> Option<()> {
    match does {
        Does::Says(line) => say(stream, line).await,
        Does::Hangs => None,
    }
}

async fn say<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut BufReader<S>, line: &str) -> Option<()> {
    stream.write_all(format!("{line}\r\n").as_bytes()).await.ok()?;
    stream.flush().await.ok()
}

/// A line that ends with CR LF; a bare LF does not end one.
async fn read_line<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut BufReader<S>) -> Option<String> {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n") {
        let read = stream.take(1 << 20).read_until(b'\n', &mut bytes).await.ok()?;
        if read == 0 {
            return None;
        }
    }
    bytes.truncate(bytes.len() - 2);
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
