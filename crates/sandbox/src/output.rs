//! Reads a program's output, up to its limit. Nothing is buffered beyond the kernel's pipes: a program whose output is
//! not read blocks, as on any other pipe.

use std::io;
use std::os::fd::OwnedFd;

use bytes::Bytes;
use tokio::net::unix::pipe::Receiver;

use crate::exit::Output;

/// The capacity of a pipe.
const CHUNK_LEN_MAX: usize = 64 << 10;

/// The standard output and standard error of a program.
#[derive(Debug)]
pub struct Pipes {
    stdout: Option<Receiver>,
    stderr: Option<Receiver>,
    bytes_left: u64,
    flooded: bool,
    buffer: Vec<u8>,
    /// Which was read last.
    last: Stream,
}

#[derive(Clone, Copy, Debug)]
enum Stream {
    Stdout,
    Stderr,
}

impl Pipes {
    pub fn new(stdout: OwnedFd, stderr: OwnedFd, bytes_max: u64) -> io::Result<Self> {
        Ok(Self {
            stdout: Some(Receiver::from_owned_fd(stdout)?),
            stderr: Some(Receiver::from_owned_fd(stderr)?),
            bytes_left: bytes_max,
            flooded: false,
            buffer: Vec::new(),
            last: Stream::Stderr,
        })
    }

    /// Whether there was more than may be. Nothing is read any more then.
    pub fn flooded(&self) -> bool {
        self.flooded
    }

    /// `None` when there is no more to come. Nothing is lost if the future is dropped.
    pub async fn next(&mut self) -> Option<Output> {
        while !self.flooded {
            if self.stdout.is_none() && self.stderr.is_none() {
                return None;
            }
            let stdout = readable(self.stdout.as_ref(), Stream::Stdout);
            let stderr = readable(self.stderr.as_ref(), Stream::Stderr);
            // Two pipes do not say which was written first. If both were, output goes before errors, as programs mostly
            // write it; and neither waits while the other is flooded.
            let stream = match self.last {
                Stream::Stderr => tokio::select! { biased; stream = stdout => stream, stream = stderr => stream },
                Stream::Stdout => tokio::select! { biased; stream = stderr => stream, stream = stdout => stream },
            };
            self.last = stream;
            if let Some(output) = self.read(stream) {
                return Some(output);
            }
        }
        None
    }

    fn read(&mut self, stream: Stream) -> Option<Output> {
        let pipe = match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        self.buffer.resize(CHUNK_LEN_MAX, 0);
        let len = match pipe.as_ref()?.try_read(&mut self.buffer) {
            Ok(len @ 1..) => len,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
            Ok(_) | Err(_) => {
                *pipe = None;
                return None;
            }
        };
        let left = usize::try_from(self.bytes_left).unwrap_or(usize::MAX);
        if len > left {
            // The pipes stay open, or the program would be ended by SIGPIPE and not by us.
            self.flooded = true;
        }
        let kept = Bytes::copy_from_slice(&self.buffer[..len.min(left)]);
        self.bytes_left -= kept.len() as u64;
        match stream {
            _ if kept.is_empty() => None,
            Stream::Stdout => Some(Output::Stdout(kept)),
            Stream::Stderr => Some(Output::Stderr(kept)),
        }
    }
}

async fn readable(pipe: Option<&Receiver>, stream: Stream) -> Stream {
    match pipe {
        // An error shows again when it is read.
        Some(pipe) => drop(pipe.readable().await),
        None => std::future::pending().await,
    }
    stream
}
