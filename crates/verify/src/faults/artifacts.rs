//! Faults of stored files.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context;
use futures_util::stream;
use punctual_api::{ArtifactKind, ArtifactRequest, Job, JobRequest, OverdueQuery};
use punctual_client::Client;
use punctual_core::{ArtifactId, JobId, hex};
use sha2::{Digest, Sha256};

use super::Injecting;
use super::arena::Arena;
use crate::clients::patiently;
use crate::cluster::{PATIENCE, Process, eventually};

const JOBS: usize = 12;
/// Instead of 20 by default, so that the end is seen.
const START_RETRIES: u32 = 4;

/// The file of a program disappears from the storage: its jobs are late meanwhile, say why, and fail when their budget
/// of starts is used up; everybody else goes on.
pub(super) fn lose(arena: &mut Arena) -> Injecting<'_> {
    Box::pin(async {
        let _worker = arena.program_worker()?;
        let client = arena.cluster.servers[0].client()?;
        let artifact = upload(&client, &program()).await?;
        arena.begin("a program", "removed from the storage:");
        std::fs::remove_file(arena.stored(artifact)).context("the program is in the storage")?;
        let mut jobs = Vec::new();
        for number in 0..JOBS {
            let servers = &arena.cluster.servers;
            let submitted = servers[number % servers.len()].client()?.submit(&request(artifact)?).await?;
            jobs.push(submitted.id);
        }
        eventually("every job to be overdue, with its reason", PATIENCE, async || are_overdue(&client, &jobs).await)
            .await?;
        for id in &jobs {
            let ended = ended(&client, *id).await?;
            let environment = ended.attempts.last().and_then(|attempt| attempt.details.as_ref()?.class.clone());
            let text = format!("{id}: {} after {} attempts, {environment:?}", ended.state, ended.attempts.len());
            anyhow::ensure!(ended.state == "failed" && environment.as_deref() == Some("environment"), text);
            anyhow::ensure!(ended.attempts.len() == START_RETRIES as usize + 1, text);
            anyhow::ensure!(ended.attempts.iter().all(|attempt| attempt.state == "not_started"), text);
        }
        arena.note(format!("{JOBS} jobs without their program were late, and failed after {START_RETRIES} retries"));
        arena.end("a program", "no job waits for it");
        arena.healed(Duration::ZERO);
        Ok(())
    })
}

impl Arena {
    /// The worker that users run: the others of a cell run nothing but the witness.
    fn program_worker(&self) -> anyhow::Result<Process> {
        let cluster = &self.cluster;
        let mut command = Command::new(&cluster.programs.punctual);
        command.args(["worker", "--exit-with-stdin", "--name", "programs", "--spool-dir"]);
        command.arg(cluster.file("spool-programs"));
        cluster.lead_worker(&mut command, "programs")?;
        command.current_dir(cluster.path()).stdout(Stdio::null());
        Process::start(command, "the worker for programs", &cluster.file("worker-programs.log"))
    }

    fn stored(&self, artifact: ArtifactId) -> PathBuf {
        self.cluster.file("data").join("storage/artifacts").join(artifact.to_string())
    }
}

async fn upload(client: &Client, bytes: &[u8]) -> anyhow::Result<ArtifactId> {
    let sha256 = hex::encode(Sha256::digest(bytes));
    let declared = ArtifactRequest { name: None, size: bytes.len() as u64, sha256, kind: ArtifactKind::default() };
    let declared = client.create_artifact(&declared).await?;
    let target = declared.upload.context("a new file is to be uploaded")?;
    let bytes = bytes.to_vec().into();
    client.upload(&target, declared.size, stream::iter([Ok(bytes)])).await?;
    Ok(declared.id)
}

fn request(artifact: ArtifactId) -> anyhow::Result<JobRequest> {
    let inline = serde_json::json!({
        "run": { "binary": { "artifact": artifact } },
        "retry": { "max": 3 },
        "start_retry": { "max": START_RETRIES },
    });
    Ok(serde_json::from_value(serde_json::json!({ "inline": inline }))?)
}

/// At some time, each of them: they wait longer each time.
async fn are_overdue(client: &Client, jobs: &[JobId]) -> bool {
    let Ok(overdue) = client.overdue(&OverdueQuery { after: Some("1s".to_owned()) }).await else { return false };
    let is_named = |id: &JobId| overdue.jobs.iter().any(|late| late.job == *id && late.why.contains("given back"));
    jobs.iter().all(is_named)
}

async fn ended(client: &Client, id: JobId) -> anyhow::Result<Job> {
    eventually(&format!("{id} to end"), PATIENCE * 2, async || {
        client.job(id).await.is_ok_and(|job| job.finished_at.is_some())
    })
    .await?;
    patiently(async || client.job(id).await).await
}

/// The smallest file that passes for a static program. It is never run.
fn program() -> Vec<u8> {
    let mut bytes = vec![0_u8; 4096];
    bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
    let machine = if cfg!(target_arch = "aarch64") { 0xb7 } else { 0x3e };
    // An executable for this machine, with one program header right behind this one: a segment that is the whole file.
    for (place, byte) in [(0x10, 2), (0x12, machine), (0x19, 0x10), (0x20, 64), (0x36, 56), (0x38, 1), (64, 1)] {
        bytes[place] = byte;
    }
    bytes[64 + 0x20..64 + 0x28].copy_from_slice(&4096_u64.to_le_bytes());
    bytes
}
