//! Uploads files as artifacts.

use std::io::{BufRead, Read};
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use bytes::BytesMut;
use indicatif::{ProgressBar, ProgressStyle};
use punctual_api::{ArtifactKind, ArtifactRequest, ArtifactView, ErrorKind};
use punctual_client::Client;
use punctual_core::{ArtifactId, hex};
use punctual_sandbox::{ElfProblem, Machine, check_elf};
use sha2::{Digest, Sha256};
use tokio::io::AsyncReadExt;

use crate::exit::{failed, usage};
use crate::input::io_reason;

/// Storage that the server does not see into is looked at every few seconds.
const ARRIVAL_LIMIT: Duration = Duration::from_secs(120);
const ARRIVAL_LOOK: Duration = Duration::from_millis(500);

const PIECE_BYTES: usize = 256 << 10;

/// An upload that is complete.
pub(crate) struct Upload {
    /// The artifact, which has arrived and can be used.
    pub(crate) artifact: ArtifactView,
    /// Whether the file was sent; `false` if the server had it already.
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
        let because = error.unreachable_because().map(|because| format!(": {because}")).unwrap_or_default();
        let fix = error.tls_trouble().and_then(|trouble| trouble.fix);
        return Err(failed(format!("the file was not uploaded: {error}{because}"), fix.unwrap_or(hint)));
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
    Ok((size, hex::encode(digest.finalize())))
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
