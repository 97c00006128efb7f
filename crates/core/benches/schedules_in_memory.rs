//! What schedules cost an owner in memory and in time, as a takeover loads them:
//! `cargo bench -p punctual-core --bench schedules_in_memory -- [schedules]`.
//!
//! Reads the size of its own process, so it needs Linux.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Instant;

use punctual_core::schedule::recurrence::{self, Calendar};
use punctual_core::schedule::{Plan, ScheduleSpec, ScheduleState};
use punctual_core::shard::event::{Event, LoadedSchedule, TakenSchedules};
use punctual_core::shard::write::Epoch;
use punctual_core::shard::{Config, Owner};
use punctual_core::task::{Probe, Run, Task, TaskSpec};
use punctual_core::{NamespaceId, ScheduleId, ServerId, ShardId, TaskId, Timestamp};

const SHARD: ShardId = ShardId(0);
const PAGE: u64 = 1000;
const ZONES: [&str; 4] = ["Europe/Berlin", "America/New_York", "Asia/Tokyo", "UTC"];
const CALENDAR: &str = "holidays";

/// The expression of the schedule with this number.
type Expression = fn(u64) -> String;

fn main() {
    let count: u64 = std::env::args().nth(1).and_then(|arg| arg.parse().ok()).unwrap_or(1_000_000);
    let cases: [(&str, Expression, usize); 6] = [
        ("720 plain ones", |n| format!("{} {} * * *", n % 60, 3 + n / 60 % 3), 0),
        ("H H * * *", |_| "H H * * *".to_owned(), 0),
        ("H H(0-7) * * H", |_| "H H(0-7) * * H".to_owned(), 0),
        ("H H H H H", |_| "H H H H H".to_owned(), 0),
        ("400 plain ones, 1,000 dates", |n| format!("{} {} * * *", n % 50, 3 + n / 50 % 2), 1_000),
        ("H H * * *, 10,000 dates", |_| "H H * * *".to_owned(), 10_000),
    ];
    println!("| {count} schedules | plans | bytes each | µs each |\n|---|---|---|---|");
    for (name, expression, dates) in cases {
        let before = resident_bytes();
        let begun = Instant::now();
        let (owner, plans) = load(count, expression, dates);
        let spent = begun.elapsed();
        let bytes = resident_bytes().saturating_sub(before);
        let micros = spent.as_secs_f64() * 1e6 / count as f64;
        println!("| {name} | {plans} | {} | {micros:.2} |", bytes / count);
        // What the next case gets must not come out of what this one leaves behind.
        std::mem::forget(owner);
    }
}

fn load(count: u64, expression: Expression, dates: usize) -> (Owner, usize) {
    let now = Timestamp::parse("2026-11-15T12:00:00Z").expect("a time");
    let task = Arc::new(Task {
        namespace: NamespaceId::DEFAULT,
        id: TaskId::new(now, 1),
        name: None,
        revision: 1,
        created_at: now,
        updated_at: now,
        spec: TaskSpec::new(Run::Probe(Probe::default())),
        waits_for: None,
        created_by: None,
        changed_by: None,
    });
    let calendars = calendars(dates);
    let mut plans: HashMap<String, Arc<Plan>> = HashMap::new();
    let mut owner = Owner::new(ServerId::new(now, 1), Config::default(), 7);
    let schedules = TakenSchedules::default();
    owner.handle(
        Event::Acquired {
            shard: SHARD,
            epoch: Epoch(1),
            running: vec![],
            spent: vec![],
            whole_since: Epoch(0),
            schedules,
        },
        now,
    );
    let mut first = 0;
    while let Some(load) = owner.take_effects().schedule_loads.pop() {
        let numbers = first..(first + PAGE).min(count);
        first = numbers.end;
        let rows: Vec<LoadedSchedule> = numbers
            .map(|n| LoadedSchedule {
                id: ScheduleId::new(now, SHARD, n),
                plan: plan(&mut plans, &expression(n), ZONES[n as usize / 7 % 4], &calendars),
                task: Arc::clone(&task),
                name: format!("tenant-{n:07}").into(),
                priority: None,
                has_input: false,
                state: ScheduleState::new(now),
            })
            .collect();
        let next = rows.last().map(|row| row.id).filter(|_| first < count);
        owner.handle(Event::Schedules { load, rows, next, calendars: 0 }, now);
    }
    assert_eq!(owner.schedule_counts(), (count as usize, 0));
    (owner, plans.len())
}

fn calendars(dates: usize) -> BTreeMap<String, Arc<Calendar>> {
    let first = jiff::civil::date(2000, 1, 1);
    let dates = first.series(jiff::Span::new().days(2)).take(dates).collect();
    BTreeMap::from([(CALENDAR.to_owned(), Arc::new(Calendar { name: CALENDAR.to_owned(), dates }))])
}

/// Equal specs share one, as they do in a server.
fn plan(
    plans: &mut HashMap<String, Arc<Plan>>,
    expression: &str,
    zone: &str,
    calendars: &BTreeMap<String, Arc<Calendar>>,
) -> Arc<Plan> {
    let make = || {
        let rule = expression.parse().expect("a good expression");
        let mut spec = ScheduleSpec::new(recurrence::ScheduleSpec::new(rule, zone));
        if !calendars[CALENDAR].dates.is_empty() {
            spec.calendars.exclude = vec![CALENDAR.to_owned()];
        }
        Arc::new(Plan::shared(spec, calendars).expect("a good spec"))
    };
    Arc::clone(plans.entry(format!("{expression} {zone}")).or_insert_with(make))
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("the size of a process");
    let kib: u64 = line.trim().trim_end_matches(" kB").trim().parse().expect("a number");
    kib * 1024
}
