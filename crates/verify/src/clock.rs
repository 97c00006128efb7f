//! The clocks of this machine. The real ones: what is verified here is the real system.

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// One moment on two clocks: one that counts on through everything and is the same for
/// every process, and one that people set and jobs are due by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Moment {
    pub boot_us: i64,
    pub real_us: i64,
}

impl Moment {
    pub fn now() -> Self {
        Self { boot_us: read(ClockId::Boottime), real_us: read(ClockId::Realtime) }
    }

    /// Both clocks moved on by as much.
    #[must_use]
    pub fn plus_ms(self, ms: i64) -> Self {
        Self { boot_us: self.boot_us + ms * 1000, real_us: self.real_us + ms * 1000 }
    }

    pub fn ms_since(self, earlier: Self) -> i64 {
        (self.boot_us - earlier.boot_us) / 1000
    }
}

fn read(clock: ClockId) -> i64 {
    let time = clock_gettime(clock);
    time.tv_sec * 1_000_000 + time.tv_nsec / 1000
}
