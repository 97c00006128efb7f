//! Why jobs wait: the reasons of many jobs, the most frequent first.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::output::counted;

/// More reasons than these are left to the list of jobs.
const SHOWN_MAX: usize = 3;

/// One sentence for each of the most frequent reasons, and one that counts what is left out.
pub(crate) fn most_frequent<'a>(
    reasons: impl Iterator<Item = &'a str>,
    sentence: impl Fn(&str, usize) -> String,
) -> Vec<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for reason in reasons {
        *counts.entry(reason).or_default() += 1;
    }
    let mut counts: Vec<(&str, usize)> = counts.into_iter().collect();
    // Stable: reasons of as many jobs stay in the order of their words.
    counts.sort_by_key(|(_, jobs)| Reverse(*jobs));
    let others = counts.split_off(counts.len().min(SHOWN_MAX));
    let mut sentences: Vec<String> = counts.into_iter().map(|(reason, jobs)| sentence(reason, jobs)).collect();
    if !others.is_empty() {
        let jobs = others.iter().map(|(_, jobs)| jobs).sum();
        let (wait, reasons) = (if jobs == 1 { "waits" } else { "wait" }, counted(others.len(), "other reason"));
        sentences.push(format!("{} {wait} for {reasons}", counted(jobs, "more job")));
    }
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_frequent_reasons_come_first_and_the_others_are_counted() {
        let told = |reasons: &[(&str, usize)]| {
            let all = reasons.iter().flat_map(|(reason, jobs)| std::iter::repeat_n(*reason, *jobs));
            most_frequent(all, |reason, jobs| format!("{jobs} {reason}"))
        };
        assert_eq!(told(&[]), Vec::<String>::new());
        assert_eq!(told(&[("h1", 1), ("h2", 1), ("runs commands", 10)]), ["10 runs commands", "1 h1", "1 h2"]);
        assert_eq!(
            told(&[("h1", 1), ("h2", 1), ("h3", 1), ("h4", 2), ("runs commands", 10)]),
            ["10 runs commands", "2 h4", "1 h1", "2 more jobs wait for 2 other reasons"]
        );
        assert_eq!(told(&[("a", 2), ("b", 2), ("c", 2), ("d", 1)])[3], "1 more job waits for 1 other reason");
    }
}
