//! What the process keeps of memory that it needs no more.

/// Blocks of this size come from the system and go back to it. Buffers of requests and batches stay below.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const OWN_MAPPING_BYTES: i32 = 1 << 20;

/// So much may stay at the end of a heap.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const KEPT_BYTES: i32 = 4 << 20;

/// Left alone, glibc raises both limits with each large block that is freed, up to 64 MiB, and keeps that for each of
/// its heaps: a server that took a million schedules held 40 MB for nothing. Measured with `bench`: no slower.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "glibc's settings have no safe interface")]
pub(crate) fn give_back_what_is_freed() {
    // SAFETY: called first in `main`, while there is one thread; it reads two numbers and sets two.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, OWN_MAPPING_BYTES);
        libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT_BYTES);
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn give_back_what_is_freed() {}
