//! A worker of a cluster: this program itself, with the public worker library and the
//! witness as its handler.

use std::process::{Command, Stdio};

use super::{Cluster, Host, Process};

pub struct Worker {
    pub number: usize,
    pub process: Process,
    /// Where it runs, if not beside everything else.
    pub host: Option<Host>,
}

impl Worker {
    pub(super) fn start(number: usize, cluster: &mut Cluster) -> anyhow::Result<Self> {
        let host = cluster.add_host()?;
        let name = format!("worker-{number}");
        let program = &cluster.programs.verify;
        let mut command = host.as_ref().map_or_else(|| Command::new(program), |host| host.program(program));
        command.args(["worker", "--name", &name]);
        cluster.lead_worker(&mut command, &number.to_string())?;
        command.args(["--slots", &cluster.shape.slots.to_string()]);
        command.arg("--witness").arg(cluster.folder.witness(&name));
        command.arg("--spool-dir").arg(cluster.file(&format!("spool-{number}")));
        command.current_dir(cluster.path()).stdout(Stdio::null());
        let process = Process::start(command, &format!("worker {number}"), &cluster.file(&format!("{name}.log")))?;
        Ok(Self { number, process, host })
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
