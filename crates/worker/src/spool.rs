//! Outcomes on disk, for when no server can be reached and the worker may not live to tell.
//!
//! Written and deleted by a thread of its own, so that no task waits for a disk. A crash
//! before an outcome is written loses it, and the server then counts the attempt as lost; a
//! crash after it leaves a file that the next worker in the folder reads and delivers. A
//! file is deleted when all of its outcomes are acknowledged. Logs are not spooled.

mod file;

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SendError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::{fs, io, thread};

use punctual_core::id::WorkerId;

use crate::ledger::{Kept, Key, KeyedOutcome, Ledger, UNACKED_LEN_MAX};
use file::SpoolFile;

/// A worker that cannot reach a server is given no more work, so this is never reached by one
/// outage; it bounds many. The number of records has the same bound as those in memory.
const FILE_BYTES_MAX: u64 = 64 << 20;

const EXTENSION: &str = "spool";

pub(crate) struct Spool {
    orders: Sender<Order>,
    thread: Mutex<Option<thread::JoinHandle<()>>>,
}

enum Order {
    Keep { ledger: Arc<Ledger>, outcomes: Vec<KeyedOutcome> },
    Forget(Vec<Key>),
    Close,
}

/// What earlier workers left in the folder.
pub(crate) type Leftovers = Vec<KeyedOutcome>;

impl Spool {
    /// Takes over the files in `dir` that no living worker holds.
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
        let keeper = Keeper { dir: dir.to_owned(), worker, own: None, leftovers: files, health: Health::Good };
        let thread = thread::Builder::new().name("punctual-spool".to_owned()).spawn(move || keeper.run(received))?;
        Ok((Self { orders, thread: Mutex::new(Some(thread)) }, leftovers))
    }

    /// Writes what the ledger has in memory only and cannot send; answers how much that is.
    /// The ledger is told how it went.
    pub(crate) fn keep(&self, ledger: &Arc<Ledger>) -> usize {
        let outcomes = ledger.take_unspooled();
        let len = outcomes.len();
        if len > 0 {
            self.order(Order::Keep { ledger: ledger.clone(), outcomes });
        }
        len
    }

    pub(crate) fn forget(&self, keys: Vec<Key>) {
        self.order(Order::Forget(keys));
    }

    /// Returns when everything that was ordered before is done.
    pub(crate) fn close(&self) {
        self.order(Order::Close);
        let thread = self.thread.lock().ok().and_then(|mut thread| thread.take());
        if let Some(thread) = thread
            && thread.join().is_err()
        {
            tracing::error!("the spool's thread panicked");
        }
    }

    fn order(&self, order: Order) {
        if let Err(SendError(order)) = self.orders.send(order) {
            tracing::error!("the spool's thread is gone: outcomes are kept in memory only");
            if let Order::Keep { ledger, outcomes } = order {
                ledger.spooled(&outcomes, Kept::InMemory);
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

/// The thread's side.
struct Keeper {
    dir: PathBuf,
    worker: WorkerId,
    own: Option<SpoolFile>,
    leftovers: Vec<SpoolFile>,
    health: Health,
}

/// How the last write went: it is tried again and again, and said once.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Health {
    Good,
    Failing,
}

impl Keeper {
    fn run(mut self, orders: Receiver<Order>) {
        for order in orders {
            match order {
                Order::Keep { ledger, outcomes } => {
                    let kept = self.keep_or_say(&outcomes);
                    ledger.spooled(&outcomes, kept);
                }
                Order::Forget(keys) => self.forget(&keys),
                Order::Close => return,
            }
        }
    }

    fn keep_or_say(&mut self, outcomes: &[KeyedOutcome]) -> Kept {
        match self.keep(outcomes) {
            Ok(()) => {
                self.health = Health::Good;
                Kept::OnDisk
            }
            Err(error) => {
                if self.health == Health::Good {
                    let dir = self.dir.display();
                    tracing::error!(%dir, %error, outcomes = outcomes.len(), "cannot spool outcomes: they are in memory only");
                }
                self.health = Health::Failing;
                Kept::InMemory
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
