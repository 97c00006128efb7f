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

/// How often a server looks at what it could give back.
const LOOK_EVERY: std::time::Duration = std::time::Duration::from_secs(10);

/// So much that is free is left where it is: it is needed again soon.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const FREE_BYTES_MAX: usize = 4 << 20;

/// Gives memory back that lies free between what is in use, for as long as the process runs. glibc gives back only the end of
/// each heap by itself: after 10,000 connections were closed, a server kept 160 MB for nothing.
pub(crate) fn keep_giving_back() {
    let keep = || {
        let mut left = 0;
        loop {
            std::thread::sleep(LOOK_EVERY);
            left = give_back(left);
        }
    };
    // Without the thread the process is larger than it needs to be, and nothing else.
    let _ = std::thread::Builder::new().name("memory".to_owned()).spawn(keep);
}

/// `left` is what could not be given back the last time, and the answer what could not now.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "glibc's heaps have no safe interface")]
fn give_back(left: usize) -> usize {
    let now = free_bytes();
    if now <= left + FREE_BYTES_MAX {
        return left.min(now);
    }
    // SAFETY: may be called by any thread at any time; it locks what it looks at.
    unsafe { libc::malloc_trim(0) };
    free_bytes()
}

/// Memory of the process that is resident and not in use. What glibc itself calls free includes what was given back already:
/// it says nothing about how much there is to give back.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "glibc's heaps have no safe interface")]
fn free_bytes() -> usize {
    // SAFETY: may be called by any thread at any time; it locks what it looks at.
    let heaps = unsafe { libc::mallinfo2() };
    resident_bytes().saturating_sub(heaps.uordblks + heaps.hblkhd)
}

/// Without the pages of files, such as the program itself. 0 where the system does not tell.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let mut pages = statm.split_ascii_whitespace().skip(1).map_while(|field| field.parse::<usize>().ok());
    let (resident, shared) = (pages.next().unwrap_or(0), pages.next().unwrap_or(0));
    resident.saturating_sub(shared) * rustix::param::page_size()
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn give_back(left: usize) -> usize {
    left
}

#[cfg(all(test, target_os = "linux", target_env = "gnu"))]
mod tests {
    use super::{FREE_BYTES_MAX, free_bytes, give_back};

    const BLOCK: usize = 4 << 10;

    /// Many small blocks, of which the last stays: the end of the heap is never free.
    fn use_and_free(bytes: usize) -> Vec<u8> {
        let mut blocks: Vec<Vec<u8>> = (0..bytes / BLOCK).map(|_| vec![1; BLOCK]).collect();
        blocks.pop().expect("there are some")
    }

    #[test]
    fn what_was_given_back_once_is_given_back_when_it_was_used_again() {
        let mut left = give_back(0);
        for _ in 0..3 {
            let _last = use_and_free(64 << 20);
            assert!(free_bytes() > left + (32 << 20), "{} bytes are free", free_bytes());
            left = give_back(left);
            assert!(left < 2 * FREE_BYTES_MAX, "{left} bytes are left");
        }
    }
}
