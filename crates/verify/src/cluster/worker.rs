//! A worker of a cluster: this program itself, with the public worker library and the
//! witness as its handler.

use std::process::{Command, Stdio};

use super::{Cluster, Process};

pub struct Worker {
    pub number: usize,
    pub process: Process,
}

impl Worker {
    pub(super) fn start(number: usize, cluster: &Cluster) -> anyhow::Result<Self> {
        let name = format!("worker-{number}");
        let mut command = Command::new(&cluster.programs.verify);
        command.args(["worker", "--name", &name]);
        cluster.lead_worker(&mut command, &number.to_string())?;
        command.args(["--slots", &cluster.shape.slots.to_string()]);
        command.arg("--witness").arg(cluster.folder.witness(&name));
        command.arg("--spool-dir").arg(cluster.file(&format!("spool-{number}")));
        command.current_dir(cluster.path()).stdout(Stdio::null());
        let process = Process::start(command, &format!("worker {number}"), &cluster.file(&format!("{name}.log")))?;
        Ok(Self { number, process })
    }

    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    pub fn name(&self) -> String {
        format!("worker {}", self.number)
    }

    pub async fn stop(&mut self) -> anyhow::Result<()> {
        self.process.stop().await
    }
}
