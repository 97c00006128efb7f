//! The users of this machine that programs may run as.

use std::ops::RangeInclusive;

/// Whether programs can run as each user and group of this range. That takes root, of the machine or of a user namespace
/// in which these numbers exist, such as that of a container.
pub fn may_run_as(range: RangeInclusive<u32>) -> bool {
    rustix::process::geteuid().is_root()
        && ["/proc/self/uid_map", "/proc/self/gid_map"]
            .into_iter()
            .all(|path| std::fs::read_to_string(path).is_ok_and(|map| is_mapped(&map, &range)))
}

/// A line has the first number inside, the first number outside, and how many there are.
fn is_mapped(map: &str, range: &RangeInclusive<u32>) -> bool {
    let mut parts: Vec<(u64, u64)> = map
        .lines()
        .filter_map(|line| {
            let mut numbers = line.split_whitespace().map(|number| number.parse::<u64>().ok());
            let (first, _outside, count) = (numbers.next()??, numbers.next()??, numbers.next()??);
            Some((first, first + count))
        })
        .collect();
    parts.sort_unstable();
    // Neighbouring parts cover a range together.
    let (mut next, last) = (u64::from(*range.start()), u64::from(*range.end()));
    for (first, end) in parts {
        if (first..end).contains(&next) {
            next = end;
        }
    }
    next > last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_can_be_used_where_all_of_it_is_mapped() {
        let machine = "         0          0 4294967295\n";
        let container = "0 1000 1\n1 100000 65536\n";
        for (map, range, expected) in [
            (machine, 1_900_000_000..=2_099_999_999, true),
            (container, 1_900_000_000..=2_099_999_999, false),
            (container, 0..=65536, true),
            (container, 60_000..=65_536, true),
            (container, 60_000..=65_537, false),
            ("1 100000 65536\n0 1000 1\n", 0..=10, true),
            ("0 1000 1\n2 100000 10\n", 0..=5, false),
            ("", 1..=1, false),
            ("half a line 1\n", 1..=1, false),
        ] {
            assert_eq!(is_mapped(map, &range), expected, "{map}: {range:?}");
        }
    }
}
