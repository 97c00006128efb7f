//! `driver <workload> --url URL [--jobs N] [--seconds S] [--clients 1,16,64] [--handshake]`

use anyhow::{Context, bail};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workload {
    Drain,
    SubmitSingle,
    SubmitBulk,
    Pickup,
    Precision,
}

impl Workload {
    const ALL: [Self; 5] = [Self::Drain, Self::SubmitSingle, Self::SubmitBulk, Self::Pickup, Self::Precision];

    pub fn name(self) -> &'static str {
        match self {
            Self::Drain => "drain",
            Self::SubmitSingle => "submit-single",
            Self::SubmitBulk => "submit-bulk",
            Self::Pickup => "pickup",
            Self::Precision => "precision",
        }
    }
}

#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) workload: Workload,
    pub(crate) url: String,
    pub(crate) jobs: u32,
    pub(crate) seconds: f64,
    pub(crate) clients: Vec<u32>,
    pub(crate) handshake: bool,
}

pub(crate) fn parse(mut args: impl Iterator<Item = String>) -> anyhow::Result<Options> {
    let name = args.next().context("the first argument is the workload")?;
    let workload = Workload::ALL.into_iter().find(|workload| workload.name() == name);
    let workload = workload.with_context(|| format!("there is no workload `{name}`"))?;
    let mut options =
        Options { workload, url: String::new(), jobs: 1000, seconds: 5.0, clients: vec![1, 16, 64], handshake: false };
    while let Some(arg) = args.next() {
        if arg == "--handshake" {
            options.handshake = true;
            continue;
        }
        let value = args.next().with_context(|| format!("{arg} needs a value"))?;
        match arg.as_str() {
            "--url" => options.url = value,
            "--jobs" => options.jobs = value.parse()?,
            "--seconds" => options.seconds = value.parse()?,
            "--clients" => options.clients = value.split(',').map(str::parse).collect::<Result<_, _>>()?,
            _ => bail!("there is no option `{arg}`"),
        }
    }
    Ok(options)
}
