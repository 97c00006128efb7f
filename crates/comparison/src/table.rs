//! The result: medians and ranges, as Markdown.

use crate::record::Record;

/// Heading, field, digits.
const COLUMNS: &[(&str, &str, usize)] = &[
    ("jobs/s", "per_second", 0),
    ("p50 ms", "p50_ms", 2),
    ("p99 ms", "p99_ms", 2),
    ("max ms", "max_ms", 1),
    ("early", "early", 0),
    ("WAL B/job", "wal_bytes_per_job", 0),
    ("commits/job", "commits_per_job", 4),
    ("transactions/job, whole run", "run_transactions_per_job", 3),
    ("store CPU µs/job", "store_cpu_us_per_job", 1),
    ("clients CPU µs/job", "clients_cpu_us_per_job", 1),
    ("clients RSS MiB", "clients_rss_mib", 0),
];

/// One figure, as it comes.
pub(crate) fn line(record: &Record) -> String {
    let mut text = format!("{} {}", record.text("system"), record.text("workload"));
    for (heading, field, digits) in COLUMNS {
        if let Some(value) = record.number(field) {
            text += &format!(", {heading} {value:.digits$}");
        }
    }
    for field in ["lost", "twice"] {
        if record.number(field).is_some_and(|count| count > 0.0) {
            text += &format!(", {field} {}", record.number(field).unwrap_or_default());
        }
    }
    text
}

pub(crate) fn print(records: &[Record]) {
    for workload in distinct(records.iter().map(|record| record.text("workload"))) {
        println!("\n## {workload}\n");
        table(&records.iter().filter(|record| record.text("workload") == workload).collect::<Vec<_>>());
    }
    println!("\n## Settings\n");
    let good = || records.iter().filter(|record| !record.is_failed());
    let key =
        |record: &Record| [record.text("system"), record.text("settings"), record.text("store")].map(str::to_owned);
    for setting in distinct(good().map(key)) {
        let same = good().filter(|record| key(record) == setting);
        let workloads = same.map(|record| record.text("workload").split('/').next().unwrap_or_default());
        let [system, settings, store] = &setting;
        println!("- {system} ({store}), {}: {settings}", distinct(workloads).join(", "));
    }
}

/// In the order in which they come first.
fn distinct<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    all.fold(Vec::new(), |mut found, next| {
        if !found.contains(&next) {
            found.push(next);
        }
        found
    })
}

fn table(records: &[&Record]) {
    let headings: Vec<_> =
        COLUMNS.iter().filter(|column| records.iter().any(|r| r.number(column.1).is_some())).collect();
    let names: Vec<_> = headings.iter().map(|column| column.0).collect();
    println!("| system | jobs | {} | runs | notes |", names.join(" | "));
    println!("|---|---|{}---|---|", "---|".repeat(names.len()));
    for system in distinct(records.iter().map(|record| record.text("system"))) {
        let all: Vec<_> = records.iter().filter(|record| record.text("system") == system).collect();
        let good: Vec<_> = all.iter().filter(|record| !record.is_failed() && !record.is_discarded()).collect();
        let cells = headings.iter().map(|(_, field, digits)| {
            let values = good.iter().filter_map(|record| record.number(field)).collect();
            median_and_range(values, *digits)
        });
        let cells: Vec<_> = cells.collect();
        let jobs = good.first().map_or(0, |record| record.jobs());
        println!("| {system} | {jobs} | {} | {} | {} |", cells.join(" | "), good.len(), notes(&all));
    }
}

/// What speaks against a system's figures.
fn notes(records: &[&&Record]) -> String {
    let sum = |field: &str| records.iter().filter_map(|record| record.number(field)).sum::<f64>();
    let count = |is: fn(&Record) -> bool| records.iter().filter(|record| is(record)).count() as f64;
    let found = [
        ("lost", sum("lost")),
        ("twice", sum("twice")),
        ("failed runs", count(Record::is_failed)),
        ("discarded for steal", count(Record::is_discarded)),
    ];
    let found = found.iter().filter(|(_, count)| *count > 0.0).map(|(name, count)| format!("{name}: {count}"));
    found.collect::<Vec<_>>().join(", ")
}

/// The whole numbers get their thousands apart, as people read them.
fn shown(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut apart = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            apart.push(',');
        }
        apart.push(digit);
    }
    apart + rest
}

fn median_and_range(mut values: Vec<f64>, digits: usize) -> String {
    values.sort_by(f64::total_cmp);
    let (Some(first), Some(last)) = (values.first(), values.last()) else { return String::new() };
    let median = (values[(values.len() - 1) / 2] + values[values.len() / 2]) / 2.0;
    if values.len() == 1 {
        return shown(median, digits);
    }
    format!("{} [{}–{}]", shown(median, digits), shown(*first, digits), shown(*last, digits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_shown_with_their_range() {
        assert_eq!(median_and_range(vec![3.0, 1.0, 200_000.0], 0), "3 [1–200,000]");
        assert_eq!(median_and_range(vec![1.0, 2.0], 1), "1.5 [1.0–2.0]");
        assert_eq!(median_and_range(vec![1234.56], 2), "1,234.56");
        assert_eq!(median_and_range(vec![], 2), "");
    }
}
