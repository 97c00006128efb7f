//! Which job started when, and how often. Written by handlers, so without locks.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

#[derive(Default)]
struct Start {
    times: AtomicU32,
    at_us: AtomicU64,
}

static STARTS: OnceLock<Vec<Start>> = OnceLock::new();
static TOTAL: AtomicU64 = AtomicU64::new(0);

pub(crate) fn prepare(jobs: u32) {
    STARTS.get_or_init(|| (0..jobs).map(|_| Start::default()).collect());
}

pub(crate) fn us(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}

/// The first thing that a handler does.
pub fn started(place: u32) {
    let now = us(SystemTime::now());
    let start = STARTS.get().and_then(|starts| starts.get(place as usize));
    if let Some(start) = start {
        start.at_us.store(now, Ordering::Relaxed);
        start.times.fetch_add(1, Ordering::Relaxed);
    }
    TOTAL.fetch_add(1, Ordering::Release);
}

/// How many handlers have started, repetitions included.
pub(crate) fn total() -> u64 {
    TOTAL.load(Ordering::Acquire)
}

/// When each job started, in microseconds since 1970; zero if it never did.
pub(crate) fn at_us() -> Vec<u64> {
    STARTS.get().into_iter().flatten().map(|start| start.at_us.load(Ordering::Relaxed)).collect()
}

/// How many jobs never started, and how many more than once.
pub(crate) fn audit() -> (u64, u64) {
    let times = STARTS.get().into_iter().flatten().map(|start| start.times.load(Ordering::Relaxed));
    times.fold((0, 0), |(lost, twice), times| (lost + u64::from(times == 0), twice + u64::from(times > 1)))
}
