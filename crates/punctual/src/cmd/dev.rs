//! `punctual dev`: a server and a worker in one process, over the real protocol on
//! loopback.

use std::fs::Permissions;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use punctual_app::WorkerProgram;
use punctual_exec::Account;
use punctual_worker::PlainHttp;
use tempfile::TempDir;
use tokio::sync::oneshot;

use super::Context;
use super::server::{StartFlags, bind, ready_json, until_ready};
use super::worker::{commands_allowed, host_name};
use crate::access::TrustedUsers;
use crate::config::{Database, DevFlags, Origin, ServerSettings, TlsMode, WorkerSettings, guard_in_dev};
use crate::exit::{Exit, usage};
use crate::folders::make_data_dir;
use crate::output::Format;
use crate::signals::{Stop, Until};
use crate::trust::TrustedAuthorities;
use crate::wiring::{self, ServerOptions, ServerReady, WorkerOptions};

#[derive(Debug, Args)]
pub(crate) struct DevArgs {
    #[command(flatten)]
    pub(crate) settings: DevFlags,
    /// Keep everything in a folder that is removed at the end
    #[arg(long, conflicts_with_all = ["database", "data_dir"])]
    ephemeral: bool,
    #[command(flatten)]
    start: StartFlags,
}

/// How many ports after the usual one are tried.
const PORTS_TRIED: u16 = 20;

/// The folder of the database. A temporary one is removed with this, or by [`Stop`].
enum DataDir {
    Kept(PathBuf),
    Ephemeral(TempDir),
}

impl DataDir {
    fn path(&self) -> &Path {
        match self {
            Self::Kept(path) => path,
            Self::Ephemeral(dir) => dir.path(),
        }
    }
}

pub(crate) async fn run(args: DevArgs, context: &Context) -> anyhow::Result<Exit> {
    context.start_logging("warn")?;
    let mut settings = ServerSettings::new(&context.config)?;
    check_local(&settings)?;
    let mut worker_settings = WorkerSettings::new(&context.config)?;
    // What people try first runs on their own machine.
    worker_settings.sandbox = worker_settings.sandbox.or_none();
    worker_settings.sending.guard = guard_in_dev(&context.config)?;
    let stop = Stop::listen(Until::Signal, &context.out)?;
    let listener = match context.config.value("listen").origin {
        Origin::Default => bind_or_next(settings.listen)?,
        // A port that was asked for is the one that others will call.
        _ => bind(settings.listen)?,
    };
    let data_dir = if args.ephemeral {
        DataDir::Ephemeral(ephemeral_dir()?)
    } else {
        make_data_dir(&settings.data_dir, "--data-dir")?;
        DataDir::Kept(settings.data_dir.clone())
    };
    if let DataDir::Ephemeral(dir) = &data_dir {
        stop.remove_when_forced(dir.path());
    }
    settings.data_dir = data_dir.path().to_owned();
    if args.ephemeral {
        settings.database = Database::Embedded;
        worker_settings.spool_dir = data_dir.path().join("spool");
        worker_settings.programs.folder = data_dir.path().join("programs");
        worker_settings.agents.folder = data_dir.path().join("agents");
    }
    let database = settings.database.clone();
    make_data_dir(&worker_settings.spool_dir, "--spool-dir")?;

    // The server outlives the worker, which has outcomes to report while it drains.
    let (worker_gone, server_stop) = oneshot::channel::<()>();
    let (ready_sender, ready) = oneshot::channel();
    let server_stop = async {
        let _ = server_stop.await;
    };
    let asked = settings.listen;
    let data_loss = args.start.data_loss();
    let options = ServerOptions { listener, settings, data_loss, worker_program: WorkerProgram::Dev };
    let mut server = tokio::spawn(wiring::run_server(options, ready_sender, server_stop));
    let ready = until_ready(ready, &mut server).await?;
    let url = ready.url.clone();
    if worker_settings.allow_commands {
        context.out.hint(&commands_allowed(&Account::own().name));
    }
    let options = WorkerOptions {
        authorities: TrustedAuthorities::new(&context.config, [url.clone()])?,
        servers: vec![url],
        name: host_name(),
        settings: worker_settings,
        token: context.token_source()?,
        trusted_users: TrustedUsers::OWN,
        plain_http: PlainHttp::LoopbackOnly,
        join: None,
    };
    let mut worker = tokio::spawn(wiring::run_worker(options, stop.requested()));
    announce(&ready, asked, &database, &data_dir, context)?;

    let worked = tokio::select! {
        worked = &mut worker => worked.context("the worker broke down")?,
        served = &mut server => {
            served.context("the server broke down")??;
            anyhow::bail!("the server ended by itself")
        }
    };
    drop(worker_gone);
    server.await.context("the server broke down")??;
    worked?;
    context.out.hint("Stopped; nothing was left running.");
    Ok(Exit::Ok)
}

/// What people try first is for this machine alone.
fn check_local(settings: &ServerSettings) -> anyhow::Result<()> {
    let fix = "use `punctual server` and `punctual worker`; see docs/tls.md";
    if settings.tls != TlsMode::Off {
        return Err(usage("`punctual dev` has no TLS, and the setting `tls` asks for it", fix));
    }
    if !settings.listen.ip().is_loopback() {
        return Err(usage(
            format!("`punctual dev` listens on this machine alone, and not on {}", settings.listen),
            fix,
        ));
    }
    Ok(())
}

/// For this user alone, whatever the umask.
fn ephemeral_dir() -> anyhow::Result<TempDir> {
    let private = Permissions::from_mode(0o700);
    tempfile::Builder::new().prefix("punctual-").permissions(private).tempdir().context("cannot make a folder")
}

fn bind_or_next(usual: SocketAddr) -> anyhow::Result<TcpListener> {
    for port in usual.port()..usual.port().saturating_add(PORTS_TRIED) {
        match TcpListener::bind(SocketAddr::new(usual.ip(), port)) {
            Err(error) if error.kind() == ErrorKind::AddrInUse => {}
            Err(_) => break,
            Ok(listener) => return Ok(listener),
        }
    }
    bind(usual)
}

fn announce(
    ready: &ServerReady,
    asked: SocketAddr,
    database: &Database,
    data_dir: &DataDir,
    context: &Context,
) -> anyhow::Result<()> {
    let mut place = database.place(data_dir.path());
    match context.out.format {
        Format::Json | Format::Jsonl => context.out.line(&ready_json(ready, &place)),
        Format::Table | Format::Name => {
            if let DataDir::Ephemeral(_) = data_dir {
                place += " (removed at the end)";
            }
            let calls = match context.config.value("http_allow").origin {
                Origin::Default => "the public internet and this machine",
                _ => "the public internet and what http_allow names",
            };
            context.out.hint(&welcome(ready, asked, context.config.text("server"), &place, calls));
            Ok(())
        }
    }
}

/// `usual` is the server that commands talk to unless they are told otherwise.
fn welcome(ready: &ServerReady, asked: SocketAddr, usual: &str, place: &str, calls: &str) -> String {
    let url = format!("http://{}", ready.address);
    // Port 0 asked for any.
    let taken = ready.address.port() != asked.port() && asked.port() != 0;
    let why_other = if taken { format!(" ({} was taken)", asked.port()) } else { String::new() };
    let server = if url == usual.trim_end_matches('/') { String::new() } else { format!(" --server {url}") };
    format!(
        "Punctual is ready: a server and a worker\n\n  \
         dashboard  {url}/{why_other}, only reachable from this machine\n  \
         data       {place} ({store})\n  \
         calls      tasks may call {calls}\n\n\
         Try, in another terminal:\n  \
         punctual run{server} --probe '{{\"output\":\"hello\"}}' --wait\n  \
         punctual run{server} --http {url}/livez --in 5s\n  \
         punctual ps{server}\n\n\
         Ctrl-C stops it.",
        store = ready.store,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_is_followed_by_the_next_free_one() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let next = bind_or_next(address).unwrap().local_addr().unwrap();
        assert_ne!(next.port(), address.port());
        assert!(bind(address).unwrap_err().to_string().contains("address in use"));
    }

    #[test]
    fn the_welcome_names_the_address_the_folder_and_what_to_try() {
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let ready = |port| ServerReady {
            address: at(port),
            url: format!("http://{}", at(port)),
            store: "sqlite, synchronous=full".to_owned(),
        };
        let kept = ".punctual";
        let server = "http://127.0.0.1:8020";
        let calls = "the public internet and this machine";
        let usual = welcome(&ready(8020), at(8020), server, kept, calls);
        let other = welcome(&ready(8021), at(8020), server, kept, calls);
        insta::assert_snapshot!(format!("{usual}\n----\n{other}"));
    }

    #[test]
    fn an_unusual_address_is_named_in_every_command_to_try() {
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let kept = ".punctual";
        for asked in [9201, 0] {
            let ready = ServerReady { address: at(9201), url: String::new(), store: String::new() };
            let text = welcome(&ready, at(asked), "http://127.0.0.1:8020", kept, "");
            assert_eq!(text.matches("--server http://127.0.0.1:9201").count(), 3, "{text}");
            assert!(!text.contains("was taken"), "{text}");
            assert!(!welcome(&ready, at(asked), "http://127.0.0.1:9201/", kept, "").contains("--server"));
        }
    }
}
