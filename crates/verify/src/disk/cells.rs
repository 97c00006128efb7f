//! The faults.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Duration;

use tokio::time::Instant;

use super::load::{Load, code_of};
use super::own_mounts::FILLER;
use super::{Cell, Place};
use crate::cluster::{Cluster, PATIENCE, eventually};
use crate::findings::Findings;

pub static CELLS: &[Cell] = &[
    Cell {
        name: "disk-full",
        about: "the disk fills up, and is emptied again",
        place: Place::SmallDisk,
        inject: |cluster, findings| Box::pin(disk_full(cluster, findings)),
    },
    Cell {
        name: "folder-moved",
        about: "the data folder is moved away under load, and back",
        place: Place::Anywhere,
        inject: |cluster, findings| Box::pin(folder_moved(cluster, findings)),
    },
    Cell {
        name: "files-deleted",
        about: "the files are deleted under load; the server is started again",
        place: Place::Anywhere,
        inject: |cluster, findings| Box::pin(files_deleted(cluster, findings)),
    },
    Cell {
        name: "pages-damaged",
        about: "pages are overwritten between a stop and a start",
        place: Place::Anywhere,
        inject: |cluster, findings| Box::pin(pages_damaged(cluster, findings)),
    },
    Cell {
        name: "log-damaged",
        about: "64 bytes in the middle of the write-ahead log are overwritten after a kill",
        place: Place::Anywhere,
        inject: |cluster, findings| Box::pin(log_damaged(cluster, findings)),
    },
    Cell {
        name: "log-removed",
        about: "the write-ahead log is removed after a kill",
        place: Place::Anywhere,
        inject: |cluster, findings| Box::pin(log_removed(cluster, findings)),
    },
    Cell {
        name: "lock-removed",
        about: "the lock file is removed, and a second server started",
        place: Place::Anywhere,
        inject: |cluster, findings| Box::pin(lock_removed(cluster, findings)),
    },
];

const DATABASE: &str = "data/punctual.db";
const LOG: &str = "data/punctual.db-wal";
/// By then a server has noticed what became of its files.
const NOTICED_WITHIN: Duration = Duration::from_secs(1);
const PAGE_BYTES: u64 = 4096;

fn load(cluster: &Cluster, input_bytes: usize) -> anyhow::Result<Load> {
    Ok(Load::start(cluster.servers[0].client()?, input_bytes))
}

async fn some_load(cluster: &Cluster, jobs: usize) -> anyhow::Result<Load> {
    let load = load(cluster, 4000)?;
    eventually("jobs to be acknowledged", PATIENCE, async || load.acknowledged() >= jobs).await?;
    Ok(load)
}

/// The code that readiness fails with; empty if it does not.
async fn readiness(cluster: &Cluster) -> anyhow::Result<String> {
    Ok(cluster.servers[0].client()?.ready().await.err().as_ref().map(code_of).unwrap_or_default())
}

async fn becomes(cluster: &Cluster, code: &'static str) -> anyhow::Result<()> {
    let what = format!("readiness to say `{code}`");
    eventually(&what, PATIENCE, async || readiness(cluster).await.is_ok_and(|found| found == code)).await
}

/// Starts the server, which should refuse and say this.
async fn refuses_to_start(cluster: &mut Cluster, words: &str, findings: &mut Findings) -> anyhow::Result<()> {
    let started = cluster.start_server(0).await;
    findings.expect(started.is_err(), || "the server started".to_owned());
    cluster.servers[0].kill();
    let log = fs::read_to_string(cluster.file("server-1.log"))?;
    let last = log.lines().last().unwrap_or_default().to_owned();
    eprintln!("  it says: {last}");
    findings.expect(last.contains(words), || format!("it does not say `{words}`: {last}"));
    Ok(())
}

async fn disk_full(cluster: &mut Cluster, findings: &mut Findings) -> anyhow::Result<()> {
    let mut load = load(cluster, 20_000)?;
    becomes(cluster, "disk_full").await?;
    let client = cluster.servers[0].client()?.with_repeat_budget(Duration::ZERO);
    let some = client.first_jobs(&punctual_api::ListQuery::default(), 1).await?.list.jobs;
    for job in some {
        let refused = client.delete_job(job.id).await;
        let code = refused.as_ref().err().map(code_of).unwrap_or_default();
        findings.expect(code.is_empty() || code == "disk_full", || format!("a delete was refused as {code}"));
    }
    // It would fill what is freed before anybody looks.
    load.stop().await;
    let full_at = Instant::now();
    fs::remove_file(cluster.file("data").join(FILLER))?;
    becomes(cluster, "").await?;
    eprintln!("  ready {} ms after there was space", full_at.elapsed().as_millis());
    some_load(cluster, 10).await?.stop().await;
    findings.expect(load.refusals() == ["disk_full"], || format!("writes were refused as {:?}", load.refusals()));
    eprintln!("  {} acknowledged jobs are there", load.all_are_there(findings).await);
    Ok(())
}

async fn folder_moved(cluster: &mut Cluster, findings: &mut Findings) -> anyhow::Result<()> {
    let mut load = some_load(cluster, 50).await?;
    let (data, elsewhere) = (cluster.file("data"), cluster.file("elsewhere"));
    fs::rename(&data, &elsewhere)?;
    tokio::time::sleep(NOTICED_WITHIN).await;
    let noticed = Instant::now();
    becomes(cluster, "database_file_replaced").await?;
    tokio::time::sleep(NOTICED_WITHIN).await;
    let late = load.acknowledged_since(noticed);
    findings.expect(late == 0, || format!("{late} jobs were acknowledged without a database"));
    fs::rename(&elsewhere, &data)?;
    becomes(cluster, "").await?;
    load.stop().await;
    let refusals = load.refusals();
    findings.expect(refusals == ["database_file_replaced"], || format!("writes were refused as {refusals:?}"));
    eprintln!("  {} acknowledged jobs are there", load.all_are_there(findings).await);
    Ok(())
}

async fn files_deleted(cluster: &mut Cluster, findings: &mut Findings) -> anyhow::Result<()> {
    let mut load = some_load(cluster, 50).await?;
    for file in fs::read_dir(cluster.file("data"))? {
        let path = file?.path();
        if path.is_file() {
            fs::remove_file(path)?;
        }
    }
    becomes(cluster, "database_file_replaced").await?;
    load.stop().await;
    cluster.servers[0].kill();
    refuses_to_start(cluster, "punctual.db is missing", findings).await
}

async fn pages_damaged(cluster: &mut Cluster, findings: &mut Findings) -> anyhow::Result<()> {
    let mut load = some_load(cluster, 200).await?;
    load.stop().await;
    cluster.servers[0].stop().await?;
    let file = File::options().write(true).open(cluster.file(DATABASE))?;
    let pages = file.metadata()?.len() / PAGE_BYTES;
    anyhow::ensure!(pages > 60, "there are only {pages} pages");
    for page in pages - 50..pages {
        file.write_all_at(&[0xa5; 8], page * PAGE_BYTES)?;
    }
    refuses_to_start(cluster, "the database is corrupt", findings).await
}

async fn killed_under_load(cluster: &mut Cluster) -> anyhow::Result<()> {
    let mut load = some_load(cluster, 200).await?;
    cluster.servers[0].kill();
    load.stop().await;
    Ok(())
}

async fn log_damaged(cluster: &mut Cluster, findings: &mut Findings) -> anyhow::Result<()> {
    killed_under_load(cluster).await?;
    let file = File::options().write(true).open(cluster.file(LOG))?;
    file.write_all_at(&[0xff; 64], 200_000)?;
    refuses_to_start(cluster, "has lost its last", findings).await
}

async fn log_removed(cluster: &mut Cluster, findings: &mut Findings) -> anyhow::Result<()> {
    killed_under_load(cluster).await?;
    fs::remove_file(cluster.file(LOG))?;
    refuses_to_start(cluster, "has lost its last", findings).await
}

async fn lock_removed(cluster: &mut Cluster, findings: &mut Findings) -> anyhow::Result<()> {
    let mut load = some_load(cluster, 50).await?;
    let lock: PathBuf = cluster.file("data/punctual.db.lock");
    fs::remove_file(lock)?;
    let second = cluster.add_server().await;
    findings.expect(second.is_err(), || "a second server opened the same database".to_owned());
    load.stop().await;
    findings.expect(load.refusals().is_empty(), || format!("writes were refused as {:?}", load.refusals()));
    eprintln!("  {} acknowledged jobs are there", load.all_are_there(findings).await);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::CELLS;

    #[test]
    fn names_are_unique() {
        let names: BTreeSet<_> = CELLS.iter().map(|cell| cell.name).collect();
        assert_eq!(names.len(), CELLS.len());
    }
}
