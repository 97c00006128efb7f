//! Notifications as people meet them: real servers, real workers, and the far side of real conversations.

mod deaths;
mod planned;
mod storms;
mod told;
mod unsent;
mod webhooks;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::{Home, PATIENCE, PUNCTUAL, Process, Server};
use crate::mailbox::{Mail, Mailbox};

/// A server, a worker that has a mail server, and that mail server.
struct Office {
    home: Home,
    server: Server,
    worker: Process,
    mailbox: Mailbox,
}

/// What a command said.
struct CommandOutput {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Office {
    fn new() -> Self {
        Self::with_mailbox(Mailbox::open())
    }

    fn with_mailbox(mailbox: Mailbox) -> Self {
        let home = Home::new();
        let settings = format!(
            "smtp_url = \"smtp://{}\"\nsmtp_from = \"Punctual <punctual@example.org>\"\n\
             webhook_keys = {{ pager = \"whsec_{}\" }}\nlease_ttl = \"3s\"\n",
            mailbox.address(),
            webhooks::KEY
        );
        home.set(&settings);
        let server = home.server();
        let worker =
            home.worker(&server, &["--queues", "default,slow", "--slots", "500", "--http-deny", "hooks.slack.com"]);
        Self { home, server, worker, mailbox }
    }

    /// Runs a line; its words are parted by blanks, those in quotes are one.
    fn say(&self, line: &str) -> CommandOutput {
        say(&self.home, &self.server, line)
    }

    #[track_caller]
    fn ok(&self, line: &str) -> String {
        let said = self.say(line);
        assert_eq!(said.code, Some(0), "{line}: {}{}", said.out, said.err);
        said.out.trim_end().to_owned()
    }

    #[track_caller]
    fn json(&self, line: &str) -> Value {
        serde_json::from_str(&self.ok(&format!("{line} -o json"))).expect("it is JSON")
    }

    /// The next server of this folder, at the same address, after this one was killed.
    fn after_a_crash(self) -> Self {
        let Self { home, server, worker, mailbox } = self;
        let address = server.address();
        server.kill();
        let server = home.server_at(&address, &[]);
        Self { home, server, worker, mailbox }
    }

    /// A job of a task without retries that fails at once.
    #[track_caller]
    fn fails(&self, task: &str) -> String {
        let job = self.ok(&format!("run {task} -o name"));
        let said = self.say(&format!("wait {job} --timeout 30s"));
        assert_eq!(said.code, Some(3), "{}{}", said.out, said.err);
        job
    }

    /// Waits until there are mails that pass.
    fn mails(&self, what: &str, are_there: impl Fn(&[Mail]) -> bool) -> Vec<Mail> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let mails = self.mailbox.mails();
            if are_there(&mails) {
                return mails;
            }
            assert!(Instant::now() < deadline, "{what}: not within {PATIENCE:?}; there are {mails:#?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn say(home: &Home, server: &Server, line: &str) -> CommandOutput {
    let words = line.split('\'').enumerate().flat_map(|(place, part)| match place % 2 {
        0 => part.split_whitespace().collect::<Vec<_>>(),
        _ => vec![part],
    });
    let output = Command::new(PUNCTUAL)
        .args(["--server", &server.url])
        .args(words)
        .env("TZ", "Europe/Berlin")
        .current_dir(home.path())
        .stdin(Stdio::null())
        .output()
        .expect("the program starts");
    CommandOutput {
        code: output.status.code(),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Of a probe that fails once, and is not tried again.
const BROKEN: &str = "--probe '{\"fail_times\":1}' --retries 0";
