//! Errors that keep a worker from starting. A server that cannot be reached is not one: the worker waits for it.

use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    #[error("`{0}` is not the address of a server, such as http://127.0.0.1:8020")]
    BadServer(String),
    #[error("{0} is another machine, and plain http would show the jobs and the access token to the network")]
    PlainHttp(String),
    #[error("a worker needs between 1 and {max} slots")]
    BadSlots { max: u32 },
    #[error("a worker needs a handler or an executor, or there is nothing it can run")]
    NothingToRun,
    #[error("cannot use the spool folder {}", .dir.display())]
    Spool { dir: PathBuf, source: io::Error },
    #[error("cannot start a thread")]
    Thread(#[source] io::Error),
    #[error("the system gave no randomness")]
    Randomness(#[source] io::Error),
}
