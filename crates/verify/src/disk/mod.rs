//! `verify disk`: what one server on the embedded database does when its disk is full and when its files are moved,
//! deleted or damaged. One cell is one fault under load, and a findings: what was acknowledged is there afterwards or its
//! loss is told, and readiness says what is wrong.

mod cells;
mod load;
mod own_mounts;

use std::future::Future;
use std::path::Path;
use std::pin::Pin;

use clap::Args;

use crate::cluster::{Cluster, DatabaseKind, Programs, Shape};
use crate::findings::Findings;
use crate::history::RunFolder;
pub use cells::CELLS;
pub use own_mounts::enter_own_mounts;

#[derive(Debug, Clone, Args)]
pub struct Disk {
    /// Only the cells whose names begin so
    #[arg(long, value_name = "NAME")]
    pub cell: Vec<String>,
    #[arg(long, default_value_t = 1)]
    pub rounds: u32,
}

type Injecting<'a> = Pin<Box<dyn Future<Output = anyhow::Result<()>> + 'a>>;

/// One fault.
pub struct Cell {
    pub name: &'static str,
    pub about: &'static str,
    place: Place,
    inject: for<'a> fn(&'a mut Cluster, &'a mut Findings) -> Injecting<'a>,
}

/// Where the data folder of a cell is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Anywhere,
    /// On a disk of its own, so small that it can be filled.
    SmallDisk,
}

impl Disk {
    pub(crate) fn chosen(&self) -> impl Iterator<Item = &'static Cell> {
        let is_named = |cell: &&Cell| self.cell.is_empty() || self.cell.iter().any(|name| cell.name.starts_with(name));
        CELLS.iter().filter(is_named)
    }

    /// True if all cells went well.
    pub async fn run(&self, keep: &Path) -> anyhow::Result<bool> {
        let programs = Programs::find()?;
        let mut all_good = true;
        for round in 1..=self.rounds {
            for cell in self.chosen() {
                eprintln!("disk, round {round} of {}: {}, {}", self.rounds, cell.name, cell.about);
                if cell.place == Place::SmallDisk && !own_mounts::is_inside() {
                    eprintln!("  skipped: a small disk is only made among mounts of our own, which takes unshare");
                    continue;
                }
                let folder = RunFolder::fresh(keep, &format!("disk-{}", cell.name))?;
                let findings = cell.run(&folder, &programs).await?;
                findings.print(&folder);
                all_good &= findings.is_good();
                if findings.is_good() {
                    folder.remove()?;
                }
            }
        }
        Ok(all_good)
    }
}

impl Cell {
    pub async fn run(&self, folder: &RunFolder, programs: &Programs) -> anyhow::Result<Findings> {
        let data = folder.file("data");
        if self.place == Place::SmallDisk {
            own_mounts::mount_small_disk(&data)?;
        }
        let shape = Shape::new(1, 0, DatabaseKind::Embedded);
        let mut cluster = Cluster::start(shape, folder.clone(), programs.clone()).await?;
        let mut findings = Findings::default();
        (self.inject)(&mut cluster, &mut findings).await?;
        cluster.stop().await?;
        if self.place == Place::SmallDisk {
            own_mounts::unmount(&data)?;
        }
        Ok(findings)
    }
}
