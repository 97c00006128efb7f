//! Errors that keep a worker from starting. A server that cannot be reached is not one: the worker waits for it.

use std::io;
use std::path::PathBuf;

use punctual_pki::PkiError;

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
    #[error("{0} is not https, and a worker with a certificate connects over TLS only")]
    JoinNeedsTls(String),
    #[error("there is no valid certificate in {}, and no join token", .0.display())]
    NotEnrolled(PathBuf),
    #[error("the servers do not let this worker in: {message}")]
    JoinRefused {
        /// Stable, as in docs/errors.md.
        code: String,
        message: String,
    },
    #[error("cannot use the identity folder {}", .dir.display())]
    Identity { dir: PathBuf, source: io::Error },
    #[error("cannot use the worker's certificate")]
    Certificate(#[source] PkiError),
    #[error("cannot start a thread")]
    Thread(#[source] io::Error),
    #[error("the system gave no randomness")]
    Randomness(#[source] io::Error),
}
