//! What programs print, on a terminal and in a pipe: real ones.

use std::fs::File;
use std::io::Read;
use std::process::{Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::json;

use crate::checked::Checked;
use crate::harness::{Home, PUNCTUAL, Server};

const HOSTILE: &str = "one\u{1b}]0;owned\u{7}\u{1b}[2J\u{1b}[31mred\u{9b}31m\u{202e}two\rover\ttab";

/// What the program writes to a terminal, which keeps line breaks as they are.
fn on_terminal(server: &Server, args: &[&str]) -> String {
    let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&controller).expect("a terminal");
    unlockpt(&controller).expect("a terminal");
    let name = ptsname(&controller, Vec::new()).expect("a name");
    let terminal = File::options().read(true).write(true).open(name.to_str().expect("UTF-8")).expect("a terminal");
    let mut command = Command::new(PUNCTUAL);
    command.args(args).args(["--server", &server.url]).stdout(terminal).stderr(Stdio::null());
    let mut child = command.spawn().expect("it starts");
    // Only the child keeps the terminal open; its end is the end of the text.
    drop(command);
    let mut text = Vec::new();
    let mut piece = [0; 4096];
    let mut controller = File::from(controller);
    while let Ok(read @ 1..) = controller.read(&mut piece) {
        text.extend_from_slice(&piece[..read]);
    }
    child.wait().expect("it ends");
    String::from_utf8(text).expect("UTF-8").replace("\r\n", "\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn sequences_in_logs_are_shown_on_a_terminal_and_kept_in_a_pipe() {
    let home = Home::new();
    let server = home.server();
    let _worker = home.worker(&server, &[]);
    let api = Checked::new(&server).await;
    let id = api.submit(json!({ "inline": { "run": { "probe": { "output": HOSTILE } } } })).await;
    api.finished(&id).await;
    let shown = "one^[]0;owned^G^[[2J^[[31mred<U+009B>31m<U+202E>two^Mover\ttab";
    // A terminal shows a tab as blanks.
    let spread = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    for args in [&["logs", &id][..], &["logs", "-f", &id], &["logs", "-n", "1", &id]] {
        let text = on_terminal(&server, args);
        assert!(spread(&text).contains(&spread(shown)), "{args:?}: {text:?}");
        assert!(!text.contains('\u{1b}') && !text.contains('\u{9b}') && !text.contains('\u{202e}'), "{text:?}");
    }
    let raw = on_terminal(&server, &["logs", "--raw", &id]);
    assert!(raw.contains("\u{1b}]0;owned\u{7}\u{1b}[2J"), "{raw:?}");
    let piped = Command::new(PUNCTUAL).args(["logs", &id, "--server", &server.url]).output().expect("it runs");
    assert!(String::from_utf8_lossy(&piped.stdout).contains(HOSTILE), "{:?}", piped.stdout);
    // Outputs, too.
    let detail = on_terminal(&server, &["job", "get", &id]);
    assert!(!detail.replace("\u{1b}[32m", "").replace("\u{1b}[0m", "").contains('\u{1b}'), "{detail:?}");
}
