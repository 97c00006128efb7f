//! The permissions of new files: none but the owner's for ours, and the usual ones for those of commands.

use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::Mode;

/// A value that no mask has.
const UNCHANGED: u32 = u32::MAX;

/// The mask with which the process was started.
static STARTED_WITH: AtomicU32 = AtomicU32::new(UNCHANGED);

/// Makes the files that this process creates readable only by its user. Commands that it starts keep the mask with
/// which it was started. Must be called once, before other threads start.
pub fn keep_files_private() {
    let before = rustix::process::umask(Mode::RWXG | Mode::RWXO);
    STARTED_WITH.store(before.bits(), Ordering::Relaxed);
}

/// Restores the mask in a child before its exec.
pub(crate) fn restore() {
    let mask = STARTED_WITH.load(Ordering::Relaxed);
    if mask != UNCHANGED {
        rustix::process::umask(Mode::from_bits_truncate(mask));
    }
}
