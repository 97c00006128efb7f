//! A program that runs: its output, and how it ends.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::unix::AsyncFd;

use crate::channel::{self, Packet};
use crate::exit::{Exit, LimitHit, Output, Status};
use crate::launcher::receive;
use crate::output::Pipes;
use crate::wire::{LauncherCommand, ProgramEnd, Report};

const RESULT_LEN_MAX: u64 = 1 << 20;
/// When the last process is gone, so are its pipes. This limit is for descriptors that another sandbox inherited at the
/// moment of its fork and has not closed yet.
const LAST_OUTPUT_TIME_MAX: Duration = Duration::from_secs(2);

/// Dropping it kills the program.
#[derive(Debug)]
pub struct RunningProgram {
    socket: AsyncFd<OwnedFd>,
    pipes: Pipes,
    /// The launcher's last message: how the program ended, or `None` if the launcher is gone.
    last_word: Option<Option<Packet>>,
    exit: Option<Exit>,
}

impl RunningProgram {
    pub(crate) fn new(socket: AsyncFd<OwnedFd>, pipes: Pipes) -> Self {
        Self { socket, pipes, last_word: None, exit: None }
    }

    /// Asks the program to end, with SIGTERM to its first process.
    pub fn terminate(&self) {
        self.command(LauncherCommand::Terminate);
    }

    /// Ends the program and everything it started. [`wait`](Self::wait) returns when they are gone.
    pub fn kill(&self) {
        self.command(LauncherCommand::Kill);
    }

    fn command(&self, command: LauncherCommand) {
        // Fails only if the launcher is gone, and the program with it.
        let _ = channel::send(self.socket.get_ref(), &command.encode(), &[]);
    }

    /// The next output; `None` after the end of both streams. A program whose output is not read blocks. Nothing is
    /// lost if the future is dropped.
    pub async fn next_output(&mut self) -> Option<Output> {
        let output = self.pipes.next().await;
        if self.pipes.flooded() {
            self.kill();
        }
        output
    }

    /// Waits until the program and everything it started are gone. Output that was not read
    /// before is dropped, but still counts. May be called again if the future was dropped.
    pub async fn wait(&mut self) -> Exit {
        if let Some(exit) = &self.exit {
            return exit.clone();
        }
        while self.last_word.is_none() {
            tokio::select! {
                word = receive(&self.socket, 128) => self.last_word = Some(word.unwrap_or_default()),
                Some(_) = self.pipes.next() => {}
            }
            if self.pipes.flooded() {
                self.kill();
            }
        }
        let rest = async { while self.pipes.next().await.is_some() {} };
        let _ = tokio::time::timeout(LAST_OUTPUT_TIME_MAX, rest).await;
        let exit = exit(self.last_word.take().flatten(), self.pipes.flooded());
        self.exit.insert(exit).clone()
    }
}

fn exit(word: Option<Packet>, flooded: bool) -> Exit {
    let Some(Packet { bytes, descriptors }) = word else { return lost() };
    let Ok(Report::Ended(ended)) = Report::decode(&bytes) else { return lost() };
    let left = descriptors.into_iter().next().map_or(ResultFound::Nothing, read_result);
    let (result, too_much) = match left {
        ResultFound::Nothing => (None, false),
        ResultFound::Result(result) => (Some(result), false),
        ResultFound::TooMuch => (None, true),
    };
    Exit {
        status: status(&ended),
        hit: match (flooded, too_much) {
            (true, _) => Some(LimitHit::Output),
            (false, true) => Some(LimitHit::Result),
            (false, false) => limit_hit(&ended),
        },
        peak_memory_bytes: ended.peak_memory_bytes,
        cpu: ended.cpu,
        wall: ended.wall,
        result,
    }
}

fn lost() -> Exit {
    let none = Duration::ZERO;
    Exit { status: Status::Lost, hit: None, peak_memory_bytes: 0, cpu: none, wall: none, result: None }
}

fn status(ended: &ProgramEnd) -> Status {
    // Killed as a whole, the first process had no time to say how the program ended.
    let status = ended.wait_status.unwrap_or(libc::SIGKILL);
    if libc::WIFEXITED(status) {
        Status::Code(libc::WEXITSTATUS(status))
    } else {
        Status::Signal(libc::WTERMSIG(status))
    }
}

fn limit_hit(ended: &ProgramEnd) -> Option<LimitHit> {
    [(ended.oom, LimitHit::Oom), (ended.pids, LimitHit::Pids), (ended.disk, LimitHit::Disk)]
        .into_iter()
        .find_map(|(hit, limit)| hit.then_some(limit))
}

/// The content of the result file.
#[derive(Debug, PartialEq, Eq)]
pub enum ResultFound {
    Nothing,
    Result(Bytes),
    /// More than 1 MiB.
    TooMuch,
}

/// Reads the result file. In a sandbox it is in memory, so this does not block, and it cannot change any more.
pub fn read_result(file: OwnedFd) -> ResultFound {
    let file = File::from(file);
    if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return ResultFound::Nothing;
    }
    let mut bytes = Vec::new();
    match file.take(RESULT_LEN_MAX + 1).read_to_end(&mut bytes) {
        Err(_) => ResultFound::Nothing,
        Ok(_) if bytes.len() as u64 > RESULT_LEN_MAX => ResultFound::TooMuch,
        Ok(_) => ResultFound::Result(bytes.into()),
    }
}
