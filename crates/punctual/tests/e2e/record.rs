//! What is on record of a job when it is over: what it ran, by which rules, who ran it, and what came too late to count.

use std::process::Command;

use serde_json::json;

use crate::checked::Checked;
use crate::harness::{Home, PUNCTUAL, Server, eventually};

fn say(home: &Home, server: &Server, words: &[&str]) -> (Option<i32>, String) {
    let words = [&["--server", &server.url], words].concat();
    let said = Command::new(PUNCTUAL).args(words).current_dir(home.path()).output().expect("the program starts");
    (said.status.code(), String::from_utf8_lossy(&said.stdout).into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_one_off_job_ran_can_be_read_back() {
    let home = Home::new();
    let server = home.server();
    let api = Checked::new(&server).await;
    let _worker = home.worker(&server, &["--name", "ci-7"]);
    let inline = json!({
        "run": { "http": { "url": "http://127.0.0.1:9/hook/a?token=s3cret&day=1", "method": "POST", "body": "{}",
            "headers": { "Authorization": "Bearer s3cret" } } },
        "retry": { "max": 1, "initial": "50ms" }, "timeout": "7s", "labels": {},
    });
    let id = api.submit(json!({ "inline": inline, "tracing_id": "order-4711" })).await;
    let job = api.finished(&id).await;
    assert_eq!((job.str("/state"), job.str("/title")), ("failed", "POST 127.0.0.1:9/hook/a"), "{}", job.text);
    assert!(!job.text.contains("s3cret"), "{}", job.text);
    let spec = &job.body["definition"]["spec"];
    assert_eq!(spec["run"]["http"]["url"], "http://127.0.0.1:9/hook/a?token=***&day=1");
    assert_eq!(spec["run"]["http"]["headers"]["Authorization"], "***");
    assert_eq!((&spec["timeout"], &spec["retry"]["max"]), (&json!("PT7S"), &json!(1)));
    assert_eq!(job.body["definition"]["revision"], 1);
    assert_eq!((&job.body["retries"], &job.body["node_retries"]["used"]), (&json!({ "used": 1, "max": 1 }), &json!(0)));
    assert_eq!(job.str("/attempts/0/worker_name"), "ci-7");
    assert!(!job.str("/attempts/0/worker_host").is_empty());

    let (_, shown) = say(&home, &server, &["job", "get", &id]);
    for part in ["POST 127.0.0.1:9/hook/a (one-off, http, queue default)", "timeout     7s", "1 of 1 used", "on ci-7"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(!shown.contains("s3cret"), "{shown}");
    let (_, explained) = say(&home, &server, &["explain", &id]);
    assert!(explained.contains("Definition: http POST http://127.0.0.1:9/hook/a"), "{explained}");
    assert!(explained.contains("Retries: 1 of 1 used."), "{explained}");
    let (_, listed) = say(&home, &server, &["ps"]);
    assert!(listed.contains("POST 127.0.0.1:9/hook/a"), "{listed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_is_called_by_its_file_and_shown_as_it_was_written() {
    let home = Home::new();
    let server = home.server();
    let api = Checked::new(&server).await;
    let _worker = home.worker(&server, &["--allow-commands"]);
    for (file, script) in [("sc.sh", "#!/bin/sh\necho multi\necho line\n"), ("two", "0 1 2\n")] {
        std::fs::write(home.file(file), script).expect("written");
        let (_, id) = say(&home, &server, &["run", "--command", &format!("@./{file}"), "--retries", "0"]);
        let job = api.finished(id.trim()).await;
        assert_eq!(job.str("/title"), file, "{}", job.text);
        let (_, shown) = say(&home, &server, &["job", "get", id.trim()]);
        let indented: String = script.lines().map(|line| format!("    {line}\n")).collect();
        assert!(shown.contains(&format!("  script\n{indented}")), "{shown}");
    }
    let (_, listed) = say(&home, &server, &["ps", "--kind", "command", "-o", "json"]);
    assert!(listed.contains("\"sc.sh\"") && listed.contains("\"two\""), "{listed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ps_shows_what_was_cancelled_long_before_its_time() {
    let home = Home::new();
    let server = home.server();
    let far = ["run", "--probe", "{}", "--at", "2031-12-24 18:00 Europe/Berlin", "-o", "name"];
    let (_, cancelled) = say(&home, &server, &far);
    let (_, waiting) = say(&home, &server, &far);
    assert_eq!(say(&home, &server, &["cancel", cancelled.trim()]).0, Some(0));
    for order in [&["ps", "-o", "name"][..], &["ps", "-o", "name", "--asc"]] {
        let (_, listed) = say(&home, &server, order);
        assert_eq!(listed, cancelled, "what waits is left out, and nothing is listed twice");
    }
    let (_, listed) = say(&home, &server, &["ps"]);
    assert!(listed.contains("cancelled") && !listed.contains(" in "), "its time does not come: {listed}");
    let (_, all) = say(&home, &server, &["ps", "--all", "-o", "name"]);
    assert!(all.contains(cancelled.trim()) && all.contains(waiting.trim()), "{all}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_a_schedule_is_called_by_its_name() {
    let home = Home::new();
    let server = home.server();
    let api = Checked::new(&server).await;
    let _worker = home.worker(&server, &[]);
    let schedule = json!({ "cron": "0 0 1 1 *", "inline": { "run": { "probe": {} } } });
    api.put("/v1/schedules/new-year", schedule).await.expect(201);
    let id = api.command("/v1/schedules/new-year/run").await.expect(200).str("/job").to_owned();
    assert_eq!(api.finished(&id).await.str("/title"), "new-year");
    let list = api.get("/v1/jobs").await.expect(200);
    assert_eq!((list.str("/jobs/0/title"), list.str("/jobs/0/schedule/name")), ("new-year", "new-year"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_outcome_and_a_dead_worker_stay_on_record() {
    let home = Home::new();
    std::fs::write(home.file("punctual.toml"), "worker_dead_after = \"2s\"\nheartbeat = \"500ms\"\n").expect("written");
    let server = home.server();
    let api = Checked::new(&server).await;
    let frozen = home.worker_with_spool(&server, "frozen", &["--name", "frozen"]);
    let probe = json!({ "run": { "probe": { "sleep": "1s" } }, "node_retry": { "max": 3, "initial": "10ms" } });
    let id = api.submit(json!({ "inline": probe })).await;
    let path = format!("/v1/jobs/{id}");
    eventually("it runs", || async { api.get(&path).await.expect(200).str("/state") == "running" }).await;
    assert_eq!(api.get(&path).await.expect(200).str("/attempts/0/worker_name"), "frozen");
    frozen.signal("-STOP");
    let _second = home.worker_with_spool(&server, "second", &["--name", "second"]);
    let job = api.finished(&id).await;
    assert_eq!((job.str("/state"), job.str("/attempts/0/state")), ("succeeded", "worker_lost"), "{}", job.text);
    assert_eq!((job.str("/attempts/0/worker_name"), job.str("/attempts/1/worker_name")), ("frozen", "second"));
    assert!(job.body.get("late_outcomes").is_none(), "{}", job.text);

    frozen.signal("-CONT");
    eventually("the late outcome is shown", || async {
        api.get(&path).await.expect(200).body["late_outcomes"].as_array().is_some_and(|late| !late.is_empty())
    })
    .await;
    let job = api.get(&path).await.expect(200);
    let late = &job.body["late_outcomes"][0];
    assert_eq!((&late["attempt"], &late["worker_name"]), (&json!(1), &json!("frozen")), "{}", job.text);
    assert_eq!((job.str("/state"), job.str("/late_outcomes/0/outcome")), ("succeeded", "succeeded"));
    for verb in [&["job", "get"][..], &["explain"]] {
        let (_, shown) = say(&home, &server, &[verb, &[id.as_str()]].concat());
        assert!(shown.contains("late outcome from frozen at "), "{shown}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_is_run_for_its_name_prints_that_alone() {
    let home = Home::new();
    let server = home.server();
    let api = Checked::new(&server).await;
    let _worker = home.worker(&server, &[]);
    let program =
        crate::binaries::compile_c(&home, "talks", "#include <stdio.h>\nint main(void) { puts(\"words\"); return 5; }");
    let path = program.to_str().expect("the path is UTF-8");
    let (code, printed) = say(&home, &server, &["run", path, "-o", "name", "--retries", "0"]);
    let id = printed.trim_end();
    assert!(code == Some(5) && printed.lines().count() == 1 && id.starts_with("job_"), "{code:?}: {printed}");
    let job = api.get(&format!("/v1/jobs/{id}")).await.expect(200);
    assert_eq!(job.str("/title"), "talks");
    let limits = &job.body["definition"]["spec"]["run"]["binary"]["limits"];
    assert_eq!(limits["memory"], "512MiB", "{}", job.text);
    let (_, shown) = say(&home, &server, &["job", "get", id]);
    assert!(shown.contains("talks (one-off, binary, queue default)") && shown.contains("memory 512MiB"), "{shown}");
}
