//! Outcomes on disk, for times when no server can be reached.
//!
//! A thread of its own writes and deletes them, so that no task waits for a disk. A crash before an outcome is written
//! loses it, and the server then counts the attempt as lost; a crash after it leaves a file that the next worker in the
//! folder reads and delivers. A file is deleted when all of its outcomes are acknowledged. Logs are not spooled.

mod file;

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SendError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::{fs, io, thread};

use punctual_core::id::WorkerId;

use crate::held::{HeldAttempts, Key, KeyedOutcome, SpoolState, UNACKED_LEN_MAX};
use file::SpoolFile;

/// The maximum size of one spool file. A worker that cannot reach a server gets no more work, so one outage never fills
/// a file; the limit bounds many outages. The number of records has the same bound as the outcomes in memory.
const FILE_BYTES_MAX: u64 = 64 << 20;

const EXTENSION: &str = "spool";

pub(crate) struct Spool {
    orders: Sender<SpoolOrder>,
    thread: Mutex<Option<thread::JoinHandle<()>>>,
}

enum SpoolOrder {
    Keep { held: Arc<HeldAttempts>, outcomes: Vec<KeyedOutcome> },
    Forget(Vec<Key>),
    Close,
}

/// Outcomes that earlier workers left in the folder.
pub(crate) type Leftovers = Vec<KeyedOutcome>;

impl Spool {
    /// Opens the spool and takes over the files in `dir` that no living worker holds.
    pub(crate) fn open(dir: &Path, worker: WorkerId) -> io::Result<(Self, Leftovers)> {
        fs::create_dir_all(dir)?;
        let mut leftovers = Vec::new();
        let mut files = Vec::new();
        for path in spool_files(dir)? {
            if leftovers.len() >= UNACKED_LEN_MAX {
                tracing::warn!(dir = %dir.display(), "some spool files are left for another start");
                break;
            }
            match SpoolFile::take_over(&path) {
                Ok(Some((file, outcomes))) => {
                    tracing::info!(path = %path.display(), outcomes = outcomes.len(), "found outcomes of an earlier worker");
                    leftovers.extend(outcomes);
                    files.push(file);
                }
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!(path = %path.display(), %error, "cannot read a spool file; it is left as it is")
                }
            }
        }
        let (orders, received) = channel();
        let writer =
            SpoolWriter { dir: dir.to_owned(), worker, own: None, leftovers: files, health: SpoolHealth::Good };
        let thread = thread::Builder::new().name("punctual-spool".to_owned()).spawn(move || writer.run(received))?;
        Ok((Self { orders, thread: Mutex::new(Some(thread)) }, leftovers))
    }

    /// Writes outcomes that are in memory only and cannot be sent, and reports the result to `held`. Returns their
    /// number.
    pub(crate) fn keep(&self, held: &Arc<HeldAttempts>) -> usize {
        let outcomes = held.take_unspooled();
        let len = outcomes.len();
        if len > 0 {
            self.order(SpoolOrder::Keep { held: held.clone(), outcomes });
        }
        len
    }

    pub(crate) fn forget(&self, keys: Vec<Key>) {
        self.order(SpoolOrder::Forget(keys));
    }

    /// Closes the spool. Returns when everything that was ordered before is done.
    pub(crate) fn close(&self) {
        self.order(SpoolOrder::Close);
        let thread = self.thread.lock().ok().and_then(|mut thread| thread.take());
        if let Some(thread) = thread
            && thread.join().is_err()
        {
            tracing::error!("the spool's thread panicked");
        }
    }

    fn order(&self, order: SpoolOrder) {
        if let Err(SendError(order)) = self.orders.send(order) {
            tracing::error!("the spool's thread is gone: outcomes are kept in memory only");
            if let SpoolOrder::Keep { held, outcomes } = order {
                held.spooled(&outcomes, SpoolState::InMemory);
            }
        }
    }
}

fn spool_files(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for found in fs::read_dir(dir)? {
        let path = found?.path();
        if path.extension().is_some_and(|extension| extension == EXTENSION) {
            paths.push(path);
        }
    }
    // Worker ids sort by time: the oldest first.
    paths.sort();
    Ok(paths)
}

/// Writes and deletes spool files on the spool's thread.
struct SpoolWriter {
    dir: PathBuf,
    worker: WorkerId,
    own: Option<SpoolFile>,
    leftovers: Vec<SpoolFile>,
    health: SpoolHealth,
}

/// The result of the last write. A failed write is retried until it succeeds, and logged once.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SpoolHealth {
    Good,
    Failing,
}

impl SpoolWriter {
    fn run(mut self, orders: Receiver<SpoolOrder>) {
        for order in orders {
            match order {
                SpoolOrder::Keep { held, outcomes } => {
                    let kept = self.keep_or_say(&outcomes);
                    held.spooled(&outcomes, kept);
                }
                SpoolOrder::Forget(keys) => self.forget(&keys),
                SpoolOrder::Close => return,
            }
        }
    }

    fn keep_or_say(&mut self, outcomes: &[KeyedOutcome]) -> SpoolState {
        match self.keep(outcomes) {
            Ok(()) => {
                self.health = SpoolHealth::Good;
                SpoolState::OnDisk
            }
            Err(error) => {
                if self.health == SpoolHealth::Good {
                    let dir = self.dir.display();
                    tracing::error!(%dir, %error, outcomes = outcomes.len(), "cannot spool outcomes: they are in memory only");
                }
                self.health = SpoolHealth::Failing;
                SpoolState::InMemory
            }
        }
    }

    fn keep(&mut self, outcomes: &[KeyedOutcome]) -> io::Result<()> {
        let own = match &mut self.own {
            Some(own) => own,
            None => {
                let path = self.dir.join(format!("{}.{EXTENSION}", self.worker));
                self.own.insert(SpoolFile::create(path)?)
            }
        };
        own.append(outcomes, FILE_BYTES_MAX)
    }

    fn forget(&mut self, keys: &[Key]) {
        let acknowledged = |file: &mut SpoolFile| {
            let done = file.forget(keys);
            if done && let Err(error) = file.delete() {
                tracing::warn!(%error, "cannot delete a spool file: its outcomes will be sent again");
            }
            done
        };
        self.own.take_if(acknowledged);
        self.leftovers.retain_mut(|file| !acknowledged(file));
    }
}
