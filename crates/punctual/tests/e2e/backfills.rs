//! Past times of schedules, run after all by a real server and a real worker.
//!
//! A witness inside the executed task writes down when it begins and ends; what it says is what happened.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::checked::Checked;
use crate::harness::{Home, PUNCTUAL, Server, eventually};

/// Begins and ends in the order in which they were written.
#[derive(Debug, Default)]
struct Witnessed {
    begins: BTreeMap<String, usize>,
    running: BTreeSet<String>,
    /// The most at a time.
    most: usize,
}

fn witnessed(path: &Path) -> Witnessed {
    let mut seen = Witnessed::default();
    for line in std::fs::read_to_string(path).unwrap_or_default().lines() {
        let mut words = line.split_whitespace();
        let (Some(job), Some(_), Some(what)) = (words.next(), words.next(), words.next()) else { continue };
        match what {
            "begin" => {
                *seen.begins.entry(job.to_owned()).or_default() += 1;
                seen.running.insert(job.to_owned());
                seen.most = seen.most.max(seen.running.len());
            }
            _ => _ = seen.running.remove(job),
        }
    }
    seen
}

/// A schedule `tick` for every second, whose runs take so long.
async fn make_tick(api: &Checked, witness: &Path, sleep: &str) -> Value {
    let probe = json!({ "sleep": sleep, "witness": witness.to_str().expect("the path is UTF-8") });
    api.put("/v1/tasks/slow", json!({ "run": { "probe": probe } })).await.expect(201);
    let tick = json!({ "name": "tick", "task": "slow", "every": "1s", "zone": "UTC" });
    api.post("/v1/schedules", tick).await.expect(201).body
}

async fn start(api: &Checked, body: Value) -> String {
    let started = api.post("/v1/schedules/tick/backfills", body).await.expect(201);
    assert_eq!(started.header("location"), Some(format!("/v1/backfills/{}", started.str("/id")).as_str()));
    started.str("/id").to_owned()
}

async fn read(api: &Checked, id: &str) -> Value {
    api.get(&format!("/v1/backfills/{id}")).await.expect(200).body
}

async fn ended(api: &Checked, id: &str) -> Value {
    eventually("the backfill ends", || async {
        let now = read(api, id).await;
        now["state"] != "running" && now["running"] == 0
    })
    .await;
    read(api, id).await
}

/// All jobs that backfills made, each with the time that it stands for.
async fn jobs_of_backfills(api: &Checked) -> Vec<(String, String)> {
    let (mut jobs, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = api.get(&format!("/v1/jobs?limit=1000{cursor}")).await.expect(200);
        for job in page.body["jobs"].as_array().expect("a list") {
            if job["schedule"]["kind"] == "backfill" {
                let text = |value: &Value| value.as_str().expect("a text").to_owned();
                jobs.push((text(&job["schedule"]["at"]), text(&job["id"])));
            }
        }
        match page.body["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return jobs,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_never_overlap_unless_they_may_and_then_only_so_many() {
    let home = Home::new();
    let server = home.server();
    let _worker = home.worker(&server, &["--slots", "100"]);
    let api = &Checked::new(&server).await;
    let (alone, together) = (home.file("alone"), home.file("together"));
    make_tick(api, &alone, "20ms").await;
    api.command("/v1/schedules/tick/pause").await.expect(200);
    let range = json!({ "from": "2026-01-01T00:00:00Z", "to": "2026-01-01T00:01:00Z" });
    let id = start(api, range).await;
    let done = ended(api, &id).await;
    assert_eq!((&done["state"], &done["made"], &done["succeeded"]), (&json!("done"), &json!(60), &json!(60)), "{done}");
    let seen = witnessed(&alone);
    assert_eq!((seen.begins.len(), seen.most), (60, 1), "one after the other");
    let runs = api.get(&format!("/v1/backfills/{id}/runs?limit=1000")).await.expect(200);
    let runs = runs.body["runs"].as_array().expect("a list");
    assert!(runs.iter().map(|run| run["at"].as_str()).is_sorted_by(|a, b| a < b), "{runs:?}");

    let probe = json!({ "sleep": "300ms", "witness": together.to_str().expect("the path is UTF-8") });
    api.put("/v1/tasks/slow", json!({ "run": { "probe": probe } })).await.expect(200);
    let range =
        json!({ "from": "2026-01-02T00:00:00Z", "to": "2026-01-02T00:01:00Z", "overlap": "allow", "max_active": 8 });
    let done = ended(api, &start(api, range).await).await;
    assert_eq!((&done["state"], &done["succeeded"]), (&json!("done"), &json!(60)), "{done}");
    let seen = witnessed(&together);
    assert_eq!((seen.begins.len(), seen.most), (60, 8), "as many as may, and no more");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_in_the_middle_runs_every_time_once() {
    let home = Home::new();
    let witness = home.file("witness");
    let server = home.server();
    let address = server.address();
    let _worker = home.worker(&server, &["--slots", "100"]);
    let api = Checked::new(&server).await;
    let created = make_tick(&api, &witness, "50ms").await;
    let fired_path = "/v1/schedules/tick/occurrences?verdict=fired&limit=1000&order=asc";
    let fired = async |api: &Checked| {
        let list = api.get(fired_path).await.expect(200).body["occurrences"].clone();
        let at = |row: &Value| row["at"].as_str().expect("a time").to_owned();
        list.as_array().expect("a list").iter().map(at).collect::<BTreeSet<String>>()
    };
    eventually("it fires", || async { fired(&api).await.len() >= 3 }).await;
    api.command("/v1/schedules/tick/pause").await.expect(200);
    let fired = fired(&api).await;

    // Three minutes before it was made and what it ran by itself; and the half hour before that.
    let made_at: jiff::Timestamp = created["created"]["at"].as_str().expect("a time").parse().expect("a time");
    let before = |minutes| (made_at - jiff::SignedDuration::from_mins(minutes)).to_string();
    let to = fired.last().expect("it fired");
    let side_by_side = json!({ "from": before(33), "to": before(3), "overlap": "allow", "max_active": 20 });
    let one = start(&api, json!({ "from": before(3), "to": to })).await;
    let many = start(&api, side_by_side).await;
    eventually("both are under way", || async {
        let made = async |id: &str| read(&api, id).await["made"].as_u64().expect("a number");
        made(&one).await >= 20 && made(&many).await >= 100
    })
    .await;
    server.kill();
    let server = home.server_at(&address, &[]);
    let api = Checked::new(&server).await;
    assert_eq!(
        (&read(&api, &one).await["state"], &read(&api, &many).await["state"]),
        (&json!("running"), &json!("running"))
    );
    let (one, many) = (ended(&api, &one).await, ended(&api, &many).await);
    let number = |done: &Value, name: &str| done[name].as_u64().expect("a number") as usize;
    let mut times = BTreeSet::new();
    for (done, passed_over) in [(&one, fired.len() - 1), (&many, 0)] {
        assert_eq!((&done["state"], &done["remaining"]), (&json!("done"), &json!(0)), "{done}");
        assert_eq!(number(done, "succeeded"), number(done, "made"), "{done}");
        assert_eq!(number(done, "passed_over"), passed_over, "what fired is left alone: {done}");
        assert_eq!(number(done, "made") + passed_over, number(done, "total"), "{done}");
        let path = format!("/v1/backfills/{}/runs?limit=1000", done["id"].as_str().expect("an id"));
        let first = api.get(&path).await.expect(200).body;
        let mut runs = first["runs"].as_array().expect("a list").clone();
        if let Some(cursor) = first["next_cursor"].as_str() {
            let second = api.get(&format!("{path}&cursor={cursor}")).await.expect(200).body;
            runs.extend(second["runs"].as_array().expect("a list").clone());
        }
        assert_eq!(runs.len(), number(done, "made"));
        times.extend(runs.iter().map(|run| run["at"].as_str().expect("a time").to_owned()));
    }
    let jobs = jobs_of_backfills(&api).await;
    assert_eq!(jobs.len(), number(&one, "made") + number(&many, "made"), "a time has one job");
    assert_eq!(jobs.iter().map(|(at, _)| at.clone()).collect::<BTreeSet<_>>(), times);
    assert_eq!(times.len(), jobs.len());
    assert!(times.is_disjoint(&fired));
    let begins = witnessed(&witness).begins;
    for (at, job) in &jobs {
        assert_eq!(begins.get(job), Some(&1), "{at} ran as {job}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_starts_follows_and_aborts_a_backfill() {
    let home = Home::new();
    let server = home.server();
    let _worker = home.worker(&server, &[]);
    let api = &Checked::new(&server).await;
    make_tick(api, &home.file("witness"), "10ms").await;
    api.command("/v1/schedules/tick/pause").await.expect(200);
    let range = "--from 2026-01-01T00:00:00Z --to 2026-01-01T00:00:20Z";

    let said = say(&server, &format!("backfill create tick {range} --dry-run"));
    assert!(
        said.1.starts_with("tick has 20 planned times in this range, UTC: 20 to run\n  2026-01-01 00:00+00:00\n"),
        "{said:?}"
    );
    let said = say(&server, &format!("backfill create tick {range} --watch"));
    assert_eq!((said.0, said.2.lines().count()), (Some(0), 1), "one hint, and no progress beside a terminal: {said:?}");
    assert!(said.1.contains("20 of 20, 20 succeeded"), "{said:?}");
    let said = say(&server, &format!("backfill create tick {range} --watch"));
    assert!(said.0 == Some(0) && said.1.contains("20 of 20, 20 passed over"), "{said:?}");
    let said = say(&server, &format!("backfill create tick {range} --overlap skip"));
    assert_eq!(said.0, Some(2));
    assert!(said.2.contains("--overlap: `skip` is not one of queue_all, allow"), "{said:?}");
    let said = say(&server, "backfill create tick --from 2026-01-01T00:00:00.1Z --to 2026-01-01T00:00:00.2Z");
    assert!(said.2.contains("`punctual schedule preview NAME --from TIME` shows its times"), "{said:?}");

    // The schedule has no record of that day; its history tells of the runs all the same.
    let known = "not on record; backfilled as job_";
    let said = say(&server, "schedule history tick --on 2026-01-01");
    assert!(said.1.starts_with(&format!("2026-01-01 00:00+00:00  {known}")), "{said:?}");
    assert_eq!(said.1.matches(known).count(), 20, "{said:?}");
    assert!(said.1.contains("2026-01-01  nothing else is on record: the schedule was created later"), "{said:?}");
    let said = say(&server, &format!("schedule history tick {range}"));
    assert_eq!(said.1.matches(known).count(), 20, "{said:?}");

    api.put("/v1/tasks/slow", json!({ "run": { "probe": { "sleep": "5m" } } })).await.expect(200);
    let said = say(&server, &format!("backfill create tick {range} --all -o name"));
    let id = said.1.trim().to_owned();
    eventually("it runs", || async { read(api, &id).await["running"] == 1 }).await;
    let said = say(&server, &format!("backfill abort {id} --cancel"));
    assert!(said.0 == Some(0) && said.2.contains("19 planned times will not be run"), "{said:?}");
    let said = say(&server, &format!("backfill watch {id}"));
    assert_eq!(said.0, Some(3), "{said:?}");
    assert!(said.1.starts_with(&format!("{id}  aborted\n")) && said.1.contains("1 of 20, 1 cancelled"), "{said:?}");
    let said = say(&server, &format!("backfill runs {id}"));
    assert!(said.1.contains("2026-01-01 00:00+00:00  cancelled  job_"), "{said:?}");
    let said = say(&server, "backfill list --schedule tick -o name");
    assert_eq!(said.1.lines().count(), 3, "{said:?}");
    assert_eq!(say(&server, "backfill get backfill_01m7et433kee4803yssgvaf2fh").0, Some(5));
    assert_eq!(say(&server, "backfill get yesterday").0, Some(2));
}

/// The exit code, stdout and stderr.
fn say(server: &Server, line: &str) -> (Option<i32>, String, String) {
    let mut command = Command::new(PUNCTUAL);
    command.args(["--server", &server.url]).args(line.split_whitespace()).env("TZ", "UTC").stdin(Stdio::null());
    let output = command.output().expect("the program starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}
