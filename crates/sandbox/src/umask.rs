//! The permissions of new files: none but the owner's for ours, and the usual ones for those of commands.

use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::Mode;

/// No mask has this value.
const UNCHANGED: u32 = u32::MAX;

/// What the process was started with.
static STARTED_WITH: AtomicU32 = AtomicU32::new(UNCHANGED);

/// From now on only this user can read the files that this process makes. Commands that it starts keep the mask that it was
/// started with. To be called once, before there are other threads.
pub fn keep_files_private() {
    let before = rustix::process::umask(Mode::RWXG | Mode::RWXO);
    STARTED_WITH.store(before.bits(), Ordering::Relaxed);
}

/// For a child before its exec.
pub(crate) fn restore() {
    let mask = STARTED_WITH.load(Ordering::Relaxed);
    if mask != UNCHANGED {
        rustix::process::umask(Mode::from_bits_truncate(mask));
    }
}
