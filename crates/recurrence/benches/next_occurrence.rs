//! What the next occurrence costs: `cargo bench -p punctual-recurrence --bench next_occurrence`.

use std::hint::black_box;
use std::time::Instant;

use jiff::Timestamp;
use jiff::tz::TimeZoneDatabase;
use punctual_recurrence::{GapPolicy, Rule, Schedule, ScheduleSpec};

fn schedule(expressions: &[&str], zone: &str, gap: GapPolicy) -> Schedule {
    let rules = expressions.iter().map(|text| text.parse::<Rule>().expect("a valid rule"));
    let mut spec = ScheduleSpec::new(Rule::Once(Timestamp::UNIX_EPOCH), zone);
    spec.rules = rules.collect();
    spec.gap = gap;
    Schedule::with_database(spec, "bench", &TimeZoneDatabase::bundled()).expect("a valid schedule")
}

fn main() {
    let from: Timestamp = "2026-01-01T00:00:00Z".parse().expect("an instant");
    let many: Vec<String> = (0..32).map(|minute| format!("{minute} * * * *")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let in_gaps = ["30 2 * 3 0L"; 32];
    let by_second = ["0-59 0-59 0-23 30 12 *"; 32];
    let cases: [(&str, &[&str], &str, GapPolicy, usize); 11] = [
        ("every minute", &["* * * * *"], "Europe/Berlin", GapPolicy::Shift, 1_000_000),
        ("every second", &["* * * * * *"], "Europe/Berlin", GapPolicy::Shift, 1_000_000),
        ("workdays at 09:30", &["30 9 * * MON-FRI"], "Europe/Berlin", GapPolicy::Shift, 100_000),
        ("32 rules", &many, "Europe/Berlin", GapPolicy::Shift, 1_000_000),
        ("@every 90s", &["@every 90s"], "Europe/Berlin", GapPolicy::Shift, 1_000_000),
        ("29 February", &["0 0 29 2 *"], "Europe/Berlin", GapPolicy::Shift, 1_000),
        ("29 February on a Sunday", &["0 0 29 2 */7"], "Europe/Berlin", GapPolicy::Shift, 200),
        ("29 February on a Sunday, UTC", &["0 0 29 2 */7"], "UTC", GapPolicy::Shift, 200),
        ("only in skipped gaps, so never", &["30 2 * 3 0L"], "Europe/Berlin", GapPolicy::Skip, 20),
        ("the same 32 times", &in_gaps, "Europe/Berlin", GapPolicy::Skip, 20),
        ("Apia's missing day, 32 rules", &by_second, "Pacific/Apia", GapPolicy::Shift, 1),
    ];
    println!("{:<32} {:>14} {:>14} {:>14}", "schedule", "per step", "slowest step", "after() + 1");
    for (name, expressions, zone, gap, steps) in cases {
        let schedule = schedule(expressions, zone, gap);
        let from = if zone == "Pacific/Apia" { "2011-12-29T12:00:00Z".parse().expect("an instant") } else { from };
        // Unmeasured, so that the slowest step is the schedule's and not a cold cache's.
        let found = schedule.after(from).take(steps).count().max(1);
        let started = Instant::now();
        black_box(schedule.after(from).take(steps).last());
        let per_step = started.elapsed() / found as u32;
        let mut occurrences = schedule.after(from);
        let mut slowest = std::time::Duration::ZERO;
        for _ in 0..found.min(10_000) {
            let started = Instant::now();
            black_box(occurrences.next());
            slowest = slowest.max(started.elapsed());
        }
        let started = Instant::now();
        for offset in 0..100 {
            black_box(schedule.after(from + jiff::SignedDuration::from_secs(offset)).next());
        }
        println!("{name:<32} {per_step:>14.1?} {slowest:>14.1?} {:>14.1?}", started.elapsed() / 100);
    }
}
