//! Flags of `punctual run FILE`.

use std::path::PathBuf;

use clap::Args;
use punctual_core::run::{Binary, Limits, Network, Run, default_grace};
use punctual_core::size::ByteSize;
use punctual_core::{ArtifactId, Span};

use crate::when::{parse_span, whole};

#[derive(Debug, Args)]
#[command(next_help_heading = "Binaries")]
pub(crate) struct BinaryFlags {
    /// What the binary finds in its environment; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    env: Vec<(String, String)>,
    /// A file that the binary or command reads, uploaded and found in $PUNCTUAL_FILES; may be repeated
    #[arg(long = "file", value_name = "[NAME=]PATH", value_parser = read_file)]
    files: Vec<(String, PathBuf)>,
    /// Let it use this machine's network
    #[arg(long)]
    network: bool,
    /// The memory it may use [default: 512MiB]
    #[arg(long, value_name = "SIZE")]
    memory: Option<ByteSize>,
    /// The cores it may use [default: 1]
    #[arg(long, value_name = "CORES", value_parser = cores)]
    cpu: Option<f64>,
    /// The processes and threads it may start [default: 64]
    #[arg(long, value_name = "N", value_parser = whole::<u32, 1, 4_294_967_295>)]
    pids: Option<u32>,
    /// What it may write to /tmp [default: 64MiB]
    #[arg(long, value_name = "SIZE")]
    disk: Option<ByteSize>,
    /// What it may print [default: 10MiB]
    #[arg(long, value_name = "SIZE")]
    output_max: Option<ByteSize>,
    /// The time from SIGTERM to SIGKILL [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    grace: Option<Span>,
}

impl BinaryFlags {
    pub(crate) fn are_given(&self) -> bool {
        // Commands have files, too.
        let Self { env, files: _, network, memory, cpu, pids, disk, output_max, grace } = self;
        let sizes = [memory, disk, output_max];
        !env.is_empty()
            || *network
            || sizes.iter().any(|size| size.is_some())
            || cpu.is_some()
            || pids.is_some()
            || grace.is_some()
    }

    /// The files to be read, each with the name that it gets.
    pub(crate) fn files(&self) -> &[(String, PathBuf)] {
        &self.files
    }

    pub(crate) fn run(&self, artifact: ArtifactId, args: Vec<String>) -> Run {
        let usual = Limits::default();
        Run::Binary(Binary {
            artifact,
            args,
            env: self.env.iter().cloned().collect(),
            files: Vec::new(),
            network: if self.network { Network::Host } else { Network::None },
            limits: Limits {
                memory: self.memory.unwrap_or(usual.memory),
                cpu: self.cpu.unwrap_or(usual.cpu),
                pids: self.pids.unwrap_or(usual.pids),
                output: self.output_max.unwrap_or(usual.output),
                disk: self.disk.unwrap_or(usual.disk),
                open_files: usual.open_files,
            },
            grace: self.grace.unwrap_or(default_grace()),
        })
    }
}

fn read_file(text: &str) -> Result<(String, PathBuf), String> {
    let named = text.split_once('=').filter(|(name, _)| !name.contains('/'));
    let path = PathBuf::from(named.map_or(text, |(_, path)| path));
    let own_name = || Some(path.file_name()?.to_str()?.to_owned());
    let name = named.map(|(name, _)| name.to_owned()).or_else(own_name).ok_or("write it as NAME=PATH")?;
    Ok((name, path))
}

fn cores(text: &str) -> Result<f64, String> {
    let cores = text.parse::<f64>().ok().filter(|cores| cores.is_finite() && *cores > 0.0);
    cores.ok_or_else(|| "it is not a number of cores, such as 2 or 0.5".to_owned())
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write it as NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}
