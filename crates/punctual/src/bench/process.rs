//! Our own executable as a child: a server or a worker.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::Context;
use punctual_client::Client;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use super::secured::Secured;
use crate::root_key::ROOT_KEY_FILE;

pub(crate) const START_LIMIT: Duration = Duration::from_secs(120);

/// Our own executable, blind to the settings of this machine and this user.
pub(crate) fn punctual(dir: &Path, verb: &str, name: &str, settings: &[(String, String)]) -> anyhow::Result<Command> {
    let nothing = dir.join("empty.toml");
    std::fs::write(&nothing, "")?;
    let log = std::fs::File::create(log_path(dir, name))?;
    let mut command = Command::new(std::env::current_exe()?);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("PUNCTUAL_") {
            command.env_remove(name);
        }
    }
    command
        .arg(verb)
        .arg("--config")
        .arg(nothing)
        .args(["--quiet", "--output", "json", "--exit-with-stdin"])
        .envs(settings.iter().map(|(key, value)| (crate::config::variable(key), value)))
        // Its end tells the child that we are gone, even if we were killed.
        .stdin(Stdio::piped())
        .stderr(log)
        .kill_on_drop(true);
    Ok(command)
}

/// A server that is ready to serve, and what reaches it.
pub(crate) struct Spawned {
    pub(crate) child: Child,
    pub(crate) client: Client,
    pub(crate) secured: Option<Secured>,
}

/// Server number `place`.
pub(crate) async fn spawn_server(
    dir: &Path,
    place: usize,
    settings: &[(String, String)],
    tls: bool,
) -> anyhow::Result<Spawned> {
    let name = if place == 0 { "server".to_owned() } else { format!("server-{place}") };
    let mut command = punctual(dir, "server", &name, settings)?;
    let data = dir.join(format!("data-{place}"));
    command.args(["--listen", "127.0.0.1:0", "--data-dir"]).arg(&data).stdout(Stdio::piped());
    if tls {
        command.args(["--tls", "cluster"]);
    }
    // Servers of one database share a root key; each has a folder of its own.
    command.args(["--root-key", &format!("file:{}", dir.join(ROOT_KEY_FILE).display())]);
    let mut child = command.spawn().context("cannot start a server")?;
    let stdout = child.stdout.take().expect("it was just piped");
    let mut lines = BufReader::new(stdout).lines();
    let line = tokio::time::timeout(START_LIMIT, lines.next_line()).await.context("the server is not ready")??;
    let line = line.with_context(|| format!("the server ended at once{}", last_words(dir, &name)))?;
    let ready: serde_json::Value = serde_json::from_str(&line)?;
    let url = ready["url"].as_str().context("the server did not name its address")?.to_owned();
    let secured = if tls { Some(Secured::of_server(&data)?) } else { None };
    let client = match &secured {
        Some(secured) => secured.client(&url)?,
        None => Client::new(&url)?,
    };
    let ready = client.clone().with_repeat_budget(Duration::ZERO);
    let begun = Instant::now();
    while let Err(error) = ready.ready().await {
        if begun.elapsed() > START_LIMIT {
            return Err(error).context("the server is not ready");
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok(Spawned { child, client, secured })
}

fn log_path(dir: &Path, of: &str) -> PathBuf {
    dir.join(format!("{of}.log"))
}

pub(crate) fn last_words(dir: &Path, of: &str) -> String {
    let log = std::fs::read_to_string(log_path(dir, of)).unwrap_or_default();
    let lines: Vec<_> = log.lines().rev().take(5).collect();
    if lines.is_empty() {
        return String::new();
    }
    format!("; its log ends with:\n{}", lines.into_iter().rev().collect::<Vec<_>>().join("\n"))
}
