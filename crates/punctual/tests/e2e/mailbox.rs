//! A mail server of the simplest kind, and what it was sent, decoded.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

#[derive(Debug, Clone)]
pub(crate) struct Mail {
    pub(crate) arrived_at: SystemTime,
    /// To whom the envelope went.
    pub(crate) to: Vec<String>,
    /// By their names in lower case.
    headers: BTreeMap<String, String>,
    pub(crate) text: String,
}

impl Mail {
    #[track_caller]
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).unwrap_or_else(|| panic!("no header {name} in {:?}", self.headers))
    }

    pub(crate) fn subject(&self) -> &str {
        self.header("subject")
    }

    #[expect(clippy::disallowed_methods, reason = "a mail arrives when it does")]
    fn read(raw: &str, to: Vec<String>) -> Self {
        let (head, body) = raw.split_once("\n\n").unwrap_or((raw, ""));
        let head = head.replace("\n ", " ").replace("\n\t", " ");
        let headers: BTreeMap<String, String> = head
            .lines()
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_lowercase(), unworded(value)))
            .collect();
        let encoding = headers.get("content-transfer-encoding").map_or("7bit", String::as_str);
        let text = match encoding.to_lowercase().as_str() {
            "quoted-printable" => unquoted(&body.replace("=\n", "")),
            "base64" => unbased(&body.replace('\n', "")),
            _ => body.to_owned(),
        };
        Self { arrived_at: SystemTime::now(), to, headers, text }
    }
}

/// `=46` is an F.
fn unquoted(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'=' => {
                let code: String = rest.by_ref().take(2).map(char::from).collect();
                bytes.push(u8::from_str_radix(&code, 16).expect("two hexadecimal digits"));
            }
            other => bytes.push(other),
        }
    }
    String::from_utf8(bytes).expect("mails are UTF-8")
}

fn unbased(text: &str) -> String {
    String::from_utf8(BASE64_STANDARD.decode(text).expect("it is base64")).expect("mails are UTF-8")
}

/// Encoded words of a header (RFC 2047).
fn unworded(value: &str) -> String {
    let words = value.split(' ').map(|word| {
        let inner = word.strip_prefix("=?utf-8?b?").and_then(|word| word.strip_suffix("?="));
        inner.map_or_else(|| word.to_owned(), unbased)
    });
    words.collect::<Vec<_>>().join(" ")
}

#[derive(Debug)]
pub(crate) struct Mailbox {
    address: SocketAddr,
    mails: Arc<Mutex<Vec<Mail>>>,
}

impl Mailbox {
    pub(crate) fn open() -> Self {
        let closed = Self::closed();
        closed.listen();
        closed
    }

    /// Nobody listens at its address yet.
    pub(crate) fn closed() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        Self { address, mails: Arc::default() }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn mails(&self) -> Vec<Mail> {
        self.mails.lock().expect("no panic").clone()
    }

    pub(crate) fn listen(&self) {
        let listener = TcpListener::bind(self.address).expect("nobody took the port");
        let mails = self.mails.clone();
        std::thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let mails = mails.clone();
                std::thread::spawn(move || converse(socket, &mails));
            }
        });
    }
}

fn converse(socket: TcpStream, mails: &Mutex<Vec<Mail>>) {
    let mut writer = socket.try_clone().expect("a second handle");
    let mut say = |line: &str| writer.write_all(format!("{line}\r\n").as_bytes()).is_ok();
    say("220 mail.test");
    let mut mail: Option<String> = None;
    let mut to = Vec::new();
    for line in BufReader::new(socket).lines().map_while(Result::ok) {
        match (&mut mail, line.as_str()) {
            (Some(text), ".") => {
                mails.lock().expect("no panic").push(Mail::read(text, std::mem::take(&mut to)));
                mail = None;
                say("250 queued");
            }
            // A dot at the begin of a line was doubled on the way.
            (Some(text), line) => *text += &format!("{}\n", line.strip_prefix('.').unwrap_or(line)),
            (None, "DATA") => {
                mail = Some(String::new());
                say("354 go on");
            }
            (None, line) => {
                let rcpt = line.strip_prefix("RCPT TO:<").and_then(|rest| rest.split('>').next());
                to.extend(rcpt.map(str::to_owned));
                say("250 ok");
            }
        }
    }
}
