//! `punctual artifact …`.

use std::io::{BufRead, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use bytes::BytesMut;
use clap::{Args, Subcommand};
use comfy_table::Cell;
use indicatif::{ProgressBar, ProgressStyle};
use punctual_api::{ArtifactKind, ArtifactRequest, ArtifactView, ErrorKind};
use punctual_client::Client;
use punctual_core::ArtifactId;
use punctual_sandbox::{ElfProblem, Machine, check_elf};
use sha2::{Digest, Sha256};
use tokio::io::AsyncReadExt;

use super::Context;
use super::flags::{self, in_flags};
use super::io_reason;
use crate::exit::{Exit, failed, usage};
use crate::output::{Format, Output, Row, size_words};
use crate::table::Yield;
use crate::when::whole;

#[derive(Debug, Subcommand)]
pub(crate) enum ArtifactVerb {
    /// Upload a static binary for tasks to run, or with --data a file for tasks to read
    ///
    /// A file that was uploaded before is recognized and not sent again.
    #[command(aliases = ["push", "add", "upload"])]
    Create(CreateArgs),
    /// List artifacts, the newest first
    #[command(aliases = ["ls"])]
    List {
        /// How many, at most; 1 to 1000
        #[arg(short = 'n', long, value_name = "N", default_value_t = 50, value_parser = whole::<u16, 1, 1000>)]
        limit: u16,
        /// Go on where another list ended
        #[arg(long, value_name = "CURSOR")]
        cursor: Option<String>,
    },
    /// Show an artifact, and whether its file has arrived
    #[command(aliases = ["show"])]
    Get {
        #[arg(value_name = "ID")]
        id: ArtifactId,
    },
    /// Delete artifacts that no task, schedule or unfinished job needs
    #[command(aliases = ["remove", "rm"])]
    Delete {
        #[arg(required = true, value_name = "ID")]
        ids: Vec<ArtifactId>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// A name for people [default: the file's]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Any content, for tasks to read
    #[arg(long)]
    data: bool,
}

/// Storage that the server does not see into is looked at every few seconds.
const ARRIVAL_LIMIT: Duration = Duration::from_secs(120);
const ARRIVAL_LOOK: Duration = Duration::from_millis(500);

const PIECE_BYTES: usize = 256 << 10;

pub(crate) async fn run(verb: ArtifactVerb, context: &Context) -> anyhow::Result<Exit> {
    let client = context.client()?;
    let out = &context.out;
    match verb {
        ArtifactVerb::Create(args) => create(&args, &client, out).await?,
        ArtifactVerb::List { limit, cursor } => {
            let page = client.artifacts(Some(limit.into()), cursor.as_deref()).await;
            let page = page.map_err(|error| in_flags(error, flags::OF_LISTS))?;
            out.rows(&page.artifacts, &page)?;
            match &page.next_cursor {
                Some(cursor) => out.hint_more(page.artifacts.len(), "artifact", cursor),
                None if page.artifacts.is_empty() => {
                    out.hint("No artifacts. Upload one: punctual artifact create FILE")
                }
                None => {}
            }
        }
        ArtifactVerb::Get { id } => show(out, &client.artifact(id).await?)?,
        ArtifactVerb::Delete { ids } => {
            for id in ids {
                client.delete_artifact(id).await?;
                out.hint(&format!("{id} is deleted."));
            }
        }
    }
    Ok(Exit::Ok)
}

async fn create(args: &CreateArgs, client: &Client, out: &Output) -> anyhow::Result<()> {
    let kind = if args.data { ArtifactKind::File } else { ArtifactKind::Binary };
    let Upload { artifact, was_sent } = upload(client, &args.file, args.name.clone(), kind).await?;
    tell(out, &artifact)?;
    if !was_sent {
        out.hint("This file was uploaded before; nothing was sent.");
        return Ok(());
    }
    let machine = artifact.machine.as_deref().map(|machine| format!(", for {machine}")).unwrap_or_default();
    out.hint(&format!("Uploaded {}{machine}.", size_words(artifact.size)));
    Ok(())
}

pub(crate) struct Upload {
    /// It has arrived and can be run.
    pub(crate) artifact: ArtifactView,
    /// Or was there already.
    pub(crate) was_sent: bool,
}

/// Uploads a file, unless the server has it.
pub(crate) async fn upload(
    client: &Client,
    path: &Path,
    name: Option<String>,
    kind: ArtifactKind,
) -> anyhow::Result<Upload> {
    if kind == ArtifactKind::Binary {
        check(path)?;
    }
    let (size, sha256) = digest(path)?;
    let name = name.or_else(|| Some(path.file_name()?.to_string_lossy().into_owned()));
    let request = ArtifactRequest { name, size, sha256, kind };
    let artifact = client.create_artifact(&request).await?;
    let Some(target) = &artifact.upload else { return Ok(Upload { artifact, was_sent: false }) };
    let bar = bar(size, "uploading");
    let file = tokio::fs::File::open(path).await.with_context(|| format!("cannot read {}", path.display()))?;
    let progress = bar.clone();
    let bytes = futures_util::stream::try_unfold(file, move |mut file| {
        let progress = progress.clone();
        async move {
            let mut piece = BytesMut::with_capacity(PIECE_BYTES);
            let read = file.read_buf(&mut piece).await?;
            progress.inc(read as u64);
            Ok::<_, std::io::Error>((read > 0).then(|| (piece.freeze(), file)))
        }
    });
    let sent = client.upload(target, size, bytes).await;
    bar.finish_and_clear();
    if let Err(error) = sent {
        let hint = "upload it again: a file that has not arrived whole leaves nothing behind";
        // What the server said is told as it is.
        if error.kind().is_some() {
            return Err(error.into());
        }
        // It may know that its storage is away.
        if let Err(known) = client.artifact(artifact.id).await
            && known.kind() == Some(ErrorKind::Unavailable)
        {
            return Err(known.into());
        }
        return Err(failed(format!("the file was not uploaded: {error}"), hint));
    }
    let artifact = arrival(client, artifact.id).await?;
    if artifact.state == "refused" {
        let reason = artifact.reason.as_deref().unwrap_or("no reason was given");
        return Err(failed(format!("the file was refused: {reason}"), "build it again and upload the result"));
    }
    Ok(Upload { artifact, was_sent: true })
}

/// Storage that is not the server's own tells nobody that a file has arrived.
async fn arrival(client: &Client, id: ArtifactId) -> anyhow::Result<ArtifactView> {
    let begun = tokio::time::Instant::now();
    loop {
        let artifact = client.artifact(id).await?;
        if artifact.state != "pending" {
            return Ok(artifact);
        }
        if begun.elapsed() > ARRIVAL_LIMIT {
            let hint = format!("look again later: punctual artifact get {id}");
            return Err(failed(format!("{id} was sent and is not checked yet"), hint));
        }
        tokio::time::sleep(ARRIVAL_LOOK).await;
    }
}

/// The server would refuse it, too, but only when all of it has been sent.
fn check(path: &Path) -> anyhow::Result<()> {
    let (mut file, _) = open(path)?;
    check_program(&mut file).map_err(|problem| {
        let hint = match problem {
            ElfProblem::Script => script_hint(path),
            _ => "nothing was uploaded; `punctual artifact create --data` uploads data for tasks to read".to_owned(),
        };
        usage(format!("{} cannot run in the sandbox: {problem}", path.display()), hint)
    })
}

/// What to do with a script instead. A shell can be given its text; other interpreters need the file.
fn script_hint(path: &Path) -> String {
    let first = std::fs::File::open(path).ok().and_then(|file| {
        let mut line = String::new();
        // A path is shorter than this, and a file without lines may be long.
        std::io::BufReader::new(file.take(4096)).read_line(&mut line).ok()?;
        Some(line)
    });
    let words = first.as_deref().unwrap_or_default().trim_start_matches("#!").split_whitespace();
    let is_shell = words.map(|word| word.rsplit('/').next().unwrap_or(word)).any(|name| name.ends_with("sh"));
    let shown = path.display();
    if is_shell {
        format!("run it outside of the sandbox with `--command @{shown}`, on a worker with --allow-commands")
    } else {
        format!("run it outside of the sandbox with `--command`, on a worker with --allow-commands that has {shown}")
    }
}

/// Why a file cannot run in the sandbox, if so.
pub(crate) fn program_problem(path: &Path) -> Option<String> {
    match open(path) {
        Ok((mut file, _)) => check_program(&mut file).err().map(|problem| problem.to_string()),
        Err(error) => Some(error.to_string()),
    }
}

/// Workers may be of either kind.
fn check_program(file: &mut std::fs::File) -> Result<(), ElfProblem> {
    let Err(problem) = check_elf(file, Machine::X86_64) else { return Ok(()) };
    let ElfProblem::OtherMachine { .. } = problem else { return Err(problem) };
    match check_elf(file, Machine::Aarch64) {
        Ok(_) => Ok(()),
        Err(ElfProblem::OtherMachine { .. }) => Err(problem),
        Err(other) => Err(other),
    }
}

fn open(path: &Path) -> anyhow::Result<(std::fs::File, std::fs::Metadata)> {
    let refused = |error| cannot_read(path, &error);
    let file = std::fs::File::open(path).map_err(refused)?;
    let metadata = file.metadata().map_err(refused)?;
    if !metadata.is_file() {
        return Err(usage(format!("{} is not a file", path.display()), "name a file"));
    }
    Ok((file, metadata))
}

fn cannot_read(path: &Path, error: &std::io::Error) -> anyhow::Error {
    usage(format!("cannot read {}: {}", path.display(), io_reason(error)), "name a file that you may read")
}

/// The size and the SHA-256 of a file.
fn digest(path: &Path) -> anyhow::Result<(u64, String)> {
    let (mut file, metadata) = open(path)?;
    let bar = bar(metadata.len(), "reading");
    let (mut digest, mut size) = (Sha256::new(), 0);
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let read = file.read(&mut piece).map_err(|error| cannot_read(path, &error))?;
        if read == 0 {
            break;
        }
        digest.update(&piece[..read]);
        size += read as u64;
        bar.inc(read as u64);
    }
    bar.finish_and_clear();
    Ok((size, digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()))
}

/// On stderr, and only if that is a terminal.
fn bar(size: u64, what: &'static str) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg} {wide_bar} {bytes}/{total_bytes} {eta}");
    let bar = ProgressBar::new(size).with_message(what);
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

fn tell(out: &Output, artifact: &ArtifactView) -> anyhow::Result<()> {
    match out.format {
        Format::Json | Format::Jsonl => out.json(artifact),
        Format::Name | Format::Table => out.line(&artifact.id.to_string()),
    }
}

fn show(out: &Output, artifact: &ArtifactView) -> anyhow::Result<()> {
    match out.format {
        Format::Json | Format::Jsonl => return out.json(artifact),
        Format::Name => return out.line(&artifact.id.to_string()),
        Format::Table => {}
    }
    let mut text = format!("{}  {}\n", artifact.id, artifact.state);
    let mut line = |name: &str, value: String| text += &format!("  {name:<8} {value}\n");
    if let Some(name) = &artifact.name {
        line("name", printable(name));
    }
    line("kind", if artifact.kind == ArtifactKind::File { "file" } else { "binary" }.to_owned());
    line("size", format!("{} ({} bytes)", size_words(artifact.size), artifact.size));
    line("sha256", artifact.sha256.clone());
    line("created", out.zone.show(artifact.created_at));
    if let Some(at) = artifact.settled_at {
        line(if artifact.state == "ready" { "arrived" } else { "refused" }, out.zone.show(at));
    }
    if let Some(machine) = &artifact.machine {
        line("machine", machine.clone());
    }
    if let Some(path) = &artifact.path {
        line("path", printable(path));
    }
    if let Some(reason) = &artifact.reason {
        line("reason", printable(reason));
    }
    out.write(&text)
}

/// Without what would break a line or steer a terminal.
fn printable(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

impl Row for ArtifactView {
    const HEADER: &'static [&'static str] = &["ID", "NAME", "STATE", "SIZE", "MACHINE", "CREATED"];
    const YIELDS: &'static [Yield] = &[
        Yield::ShortTimes,
        Yield::Cut("NAME", 20),
        Yield::Drop("MACHINE"),
        Yield::Drop("CREATED"),
        Yield::Drop("SIZE"),
        Yield::Cut("NAME", 8),
        Yield::Drop("NAME"),
    ];

    fn name(&self) -> String {
        self.id.to_string()
    }

    fn cells(&self, out: &Output) -> Vec<Cell> {
        vec![
            Cell::new(self.id),
            Cell::new(printable(self.name.as_deref().unwrap_or("-"))),
            Cell::new(&self.state),
            Cell::new(size_words(self.size)),
            Cell::new(self.machine.as_deref().unwrap_or("-")),
            Cell::new(out.time(self.created_at)),
        ]
    }
}
