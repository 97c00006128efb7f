//! What processes and the machine say about themselves, from /proc.

use std::collections::HashMap;
use std::fs::read_to_string;

/// Linux reports CPU times to user space in hundredths of a second, whatever the kernel's own tick.
const TICK_US: u64 = 10_000;
const PAGE_MIB: f64 = 4096.0 / 1_048_576.0;

/// A process with all its descendants.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Tree {
    /// CPU time, including that of children which have exited and were waited for.
    pub(crate) cpu_us: u64,
    /// Resident memory. Pages that processes share are counted once for each process.
    pub(crate) rss_mib: f64,
}

#[derive(Debug, Clone, Copy)]
struct Process {
    parent: u32,
    cpu_us: u64,
    rss_mib: f64,
}

/// The CPU time and memory that `root` and its descendants use.
pub(crate) fn tree(root: u32) -> Tree {
    let all = processes();
    let mut sum = Tree::default();
    for (&pid, process) in &all {
        if descends(&all, pid, root) {
            sum.cpu_us += process.cpu_us;
            sum.rss_mib += process.rss_mib;
        }
    }
    sum
}

/// `root` and its descendants.
pub(crate) fn members(root: u32) -> Vec<u32> {
    let all = processes();
    all.keys().copied().filter(|&pid| descends(&all, pid, root)).collect()
}

fn processes() -> HashMap<u32, Process> {
    let folders = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    folders
        .filter_map(|folder| {
            let pid = folder.file_name().to_str()?.parse().ok()?;
            Some((pid, parse(&read_to_string(folder.path().join("stat")).ok()?)?))
        })
        .collect()
}

fn descends(all: &HashMap<u32, Process>, mut pid: u32, root: u32) -> bool {
    while pid != root {
        match all.get(&pid) {
            Some(process) if process.parent != 0 => pid = process.parent,
            _ => return false,
        }
    }
    true
}

fn parse(stat: &str) -> Option<Process> {
    // The name in parentheses may hold anything, even parentheses.
    let (_, after_name) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    // User and system time, and those of children that were waited for.
    let ticks: u64 = (11..15).map(number).sum::<Option<u64>>()?;
    let parent = fields.get(1)?.parse().ok()?;
    Some(Process { parent, cpu_us: ticks * TICK_US, rss_mib: number(21)? as f64 * PAGE_MIB })
}

/// The load average of the last minute: how many processes wanted to run.
pub(crate) fn load() -> f64 {
    let text = read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().and_then(|load| load.parse().ok()).unwrap_or_default()
}

/// CPU time of the whole machine, and the part of it that the host took (steal).
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

    pub(crate) fn percent_since(self, earlier: Self) -> f64 {
        let total = self.total.saturating_sub(earlier.total).max(1);
        100.0 * self.stolen.saturating_sub(earlier.stolen) as f64 / total as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_a_process_and_its_ended_children_are_added() {
        let stat = "42 (a) b (c) S 7 42 42 0 -1 4194560 100 0 0 0 150 50 20 30 20 0 4 0 100 1 512 0";
        let process = parse(stat).unwrap();
        assert_eq!((process.parent, process.cpu_us, process.rss_mib), (7, 2_500_000, 2.0));
    }

    #[test]
    fn a_tree_holds_descendants_only() {
        let process = |parent| Process { parent, cpu_us: 1, rss_mib: 0.0 };
        let all = HashMap::from([(1, process(0)), (2, process(1)), (3, process(2)), (4, process(1))]);
        assert!(descends(&all, 3, 2) && descends(&all, 2, 2));
        assert!(!descends(&all, 4, 2) && !descends(&all, 1, 2));
        assert!(members(std::process::id()).contains(&std::process::id()));
    }

    #[test]
    fn stolen_time_is_a_part_of_all_time() {
        let before = Steal::parse("cpu  100 0 100 800 0 0 0 0 0 0\ncpu0 …").unwrap();
        let after = Steal::parse("cpu  150 0 140 900 0 0 0 10 50 0\ncpu0 …").unwrap();
        assert_eq!(after.percent_since(before), 5.0);
    }
}
