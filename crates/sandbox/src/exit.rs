//! A program's output, and how it ended.

use std::time::Duration;

use bytes::Bytes;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    Stdout(Bytes),
    Stderr(Bytes),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    pub status: Status,
    /// The limit that was reached. A program may reach one and go on: a fork that was refused
    /// does not end it. [`LimitHit::Output`] and [`LimitHit::Result`] always do.
    pub hit: Option<LimitHit>,
    pub peak_memory_bytes: u64,
    pub cpu: Duration,
    pub wall: Duration,
    /// The content of the file named by `PUNCTUAL_OUTPUT`.
    pub result: Option<Bytes>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Code(i32),
    Signal(i32),
    /// The launcher died, and the program with it; how far it came is not known.
    Lost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitHit {
    /// The kernel killed a process of the program because it ran out of memory.
    Oom,
    /// A process or thread was refused.
    Pids,
    /// Too much on stdout and stderr.
    Output,
    /// A result of more than 1 MiB.
    Result,
    /// `/tmp` was full when the program ended, or a file outgrew it.
    Disk,
}

impl LimitHit {
    /// The stable name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Oom => "oom",
            Self::Pids => "pids",
            Self::Output | Self::Result => "output",
            Self::Disk => "disk",
        }
    }
}
