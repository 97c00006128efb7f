//! What processes and the machine say about themselves, from /proc.

use std::fs::read_to_string;

/// Linux reports CPU times to user space in hundredths of a second, whatever the kernel's own tick.
const TICK_US: u64 = 10_000;

/// CPU time that a process has used, in microseconds.
pub(crate) fn cpu_us(pid: u32) -> Option<u64> {
    parse_cpu_us(&read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn parse_cpu_us(stat: &str) -> Option<u64> {
    // The name in parentheses may hold anything, even parentheses.
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some((user + system) * TICK_US)
}

/// Memory of a process that is in RAM, in MiB.
pub(crate) fn rss_mib(pid: u32) -> Option<f64> {
    parse_rss_mib(&read_to_string(format!("/proc/{pid}/status")).ok()?)
}

fn parse_rss_mib(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: f64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib / 1024.0)
}

/// Time that the whole machine had, and that was taken from it by its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Steal {
    total: u64,
    stolen: u64,
}

impl Steal {
    pub(crate) fn now() -> Self {
        read_to_string("/proc/stat").ok().and_then(|stat| Self::parse(&stat)).unwrap_or_default()
    }

    fn parse(stat: &str) -> Option<Self> {
        let line = stat.lines().next()?.strip_prefix("cpu ")?;
        let fields: Vec<u64> = line.split_whitespace().filter_map(|field| field.parse().ok()).collect();
        // The two last fields are parts of the first two.
        Some(Self { total: fields.iter().take(8).sum(), stolen: *fields.get(7)? })
    }

    /// The part that was stolen since `earlier`. Above two percent, measure again.
    pub(crate) fn percent_since(self, earlier: Self) -> Option<f64> {
        let total = self.total.checked_sub(earlier.total).filter(|total| *total > 0)?;
        Some(100.0 * self.stolen.saturating_sub(earlier.stolen) as f64 / total as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_found_behind_any_name() {
        let stat = "42 (a) b (c) S 1 42 42 0 -1 4194560 100 0 0 0 150 50 0 0 20 0 4 0 100 1 2";
        assert_eq!(parse_cpu_us(stat), Some(2_000_000));
        assert!(cpu_us(std::process::id()).is_some());
    }

    #[test]
    fn memory_is_read_in_mebibytes() {
        assert_eq!(parse_rss_mib("Name:\tx\nVmRSS:\t    2048 kB\n"), Some(2.0));
        assert!(rss_mib(std::process::id()).is_some());
    }

    #[test]
    fn stolen_time_is_a_part_of_all_time() {
        let before = Steal::parse("cpu  100 0 100 800 0 0 0 0 0 0\ncpu0 …").unwrap();
        let after = Steal::parse("cpu  150 0 140 900 0 0 0 10 50 0\ncpu0 …").unwrap();
        assert_eq!(after.percent_since(before), Some(5.0));
        assert_eq!(before.percent_since(before), None);
    }
}
