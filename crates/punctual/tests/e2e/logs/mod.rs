//! Logs of real programs: through deaths of servers and workers, into the storage, and back.

mod archive;
mod cluster;
mod deaths;
mod s3;

use std::path::Path;
use std::process::{Command, Output};

use punctual_client::Logs;
use punctual_core::JobId;

use crate::harness::{Home, PUNCTUAL, Server};

/// `punctual …`, until it ends.
fn punctual(home: &Home, server: &Server, args: &[&str]) -> Output {
    Command::new(PUNCTUAL)
        .args(args)
        .args(["--server", &server.url])
        .current_dir(home.path())
        .output()
        .expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Uploads a program and submits a job for it.
fn submit(home: &Home, server: &Server, program: &Path, flags: &[&str]) -> JobId {
    let program = program.to_str().expect("the path is UTF-8");
    let output = punctual(home, server, &[&["run", "-o", "name", "--detach", program], flags].concat());
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    out.trim().parse().unwrap_or_else(|_| panic!("no id in {out}{err}"))
}

/// All of an attempt's log, as far as it goes now.
async fn log(server: &Server, id: JobId, attempt: Option<u32>) -> String {
    let client = server.client();
    let mut logs = Logs { attempt, ..Logs::default() };
    let mut text = String::new();
    loop {
        let chunk = client.logs(id, logs).await.expect("the log can be read");
        if chunk.next_offset <= logs.offset {
            return text;
        }
        text += &chunk.text;
        logs = Logs { attempt: Some(chunk.attempt), offset: chunk.next_offset, ..logs };
    }
}

/// Where the log of an attempt is, once it is archived.
async fn path(server: &Server, id: JobId, attempt: u32) -> Option<String> {
    let job = server.client().job(id).await.ok()?;
    job.attempts.into_iter().find(|found| found.attempt == attempt)?.log_path
}

/// Prints so many numbered lines, one in so many microseconds.
fn printing(lines: u32, pause_us: u32) -> String {
    format!(
        "#include <stdio.h>\n#include <unistd.h>\n\
         int main() {{ for (int n = 1; n <= {lines}; n++) {{ printf(\"line %d\\n\", n); fflush(stdout); usleep({pause_us}); }} }}"
    )
}

fn printed(lines: u32) -> String {
    (1..=lines).map(|n| format!("line {n}\n")).collect()
}
