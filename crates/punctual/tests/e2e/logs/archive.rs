//! From pieces in the database to a file in the storage, as users see it.

use super::{log, path, punctual, submit, text};
use crate::binaries::compile_c;
use crate::checked::plain_http;
use crate::harness::{Home, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn a_log_is_one_file_some_seconds_after_the_end_and_reads_the_same() {
    let home = Home::new();
    let server = home.server();
    let _worker = home.worker(&server, &[]);
    let source = "#include <stdio.h>\n#include <stdlib.h>\n\
                  int main() { int first = getenv(\"PUNCTUAL_ATTEMPT\")[0] == '1';\n\
                  for (int n = 1; n <= 5; n++) printf(\"%s %d\\n\", first ? \"no\" : \"yes\", n); return first; }";
    let program = compile_c(&home, "twice", source);
    let id = submit(&home, &server, &program, &["--retries", "1", "--retry-wait", "100ms"]);
    let name = id.to_string();
    // Across attempts, from the first.
    let logs = |args: &[&str]| {
        let output = punctual(&home, &server, &[&["logs", name.as_str()], args].concat());
        (text(&output.stdout), text(&output.stderr), output.status.code())
    };
    let lines = |word: &str, from: u32| (from..=5).map(|n| format!("{word} {n}\n")).collect::<String>();
    let (followed, err, _) = logs(&["-f"]);
    assert!(followed.ends_with(&lines("yes", 1)), "{followed}{err}");
    for when in ["in the database", "in the storage"] {
        assert_eq!(logs(&[]).0, lines("yes", 1), "{when}");
        assert_eq!(logs(&["--attempt", "1"]).0, lines("no", 1), "{when}");
        assert_eq!(logs(&["--tail", "2"]).0, lines("yes", 4), "{when}");
        assert_eq!(logs(&["--tail", "2", "-f"]).0, lines("yes", 4), "{when}");
        assert_eq!(logs(&["--attempt", "1", "-n", "1"]).0, "no 5\n", "{when}");
        assert_eq!(logs(&["--range", "0-4"]).0, "yes 1", "{when}");
        assert_eq!(logs(&["--range", "-6"]).0, "yes 5\n", "{when}");
        assert_eq!(logs(&["--range", "24-"]).0, "yes 5\n", "{when}");
        let (out, err, code) = logs(&["--range", "30-"]);
        assert!(out.is_empty() && err.contains("has 30 bytes") && code == Some(2), "{when}: {code:?} {err}");
        eventually("both are archived", || async {
            path(&server, id, 1).await.is_some() && path(&server, id, 2).await.is_some()
        })
        .await;
    }
    let path = path(&server, id, 2).await.expect("it is archived");
    let file = home.file("data/storage").join(&path);
    assert_eq!(std::fs::read_to_string(file).expect("the file is there"), lines("yes", 1));
    let shown = text(&punctual(&home, &server, &["job", "get", &name]).stdout);
    assert!(shown.contains(&format!("log {path} (30 bytes)")), "{shown}");
    assert_eq!(logs(&["--range", "x"]).2, Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn of_the_log_of_a_program_that_floods_the_begin_and_the_end_are_kept() {
    let home = Home::new();
    let server = home.server();
    let _worker = home.worker(&server, &[]);
    let loud = "#include <stdio.h>\nint main() { for (int n = 0;; n++) printf(\"line %07d\\n\", n); }";
    let program = compile_c(&home, "loud", loud);
    // Ended by its limit of output, which is far above what is kept of it.
    let id = submit(&home, &server, &program, &["--retries", "0", "--output-max", "5MiB"]);
    eventually("it has ended", || async { server.client().job(id).await.is_ok_and(|job| job.state == "failed") }).await;
    let job = server.client().job(id).await.expect("the job");
    let details = job.attempts[0].details.clone().expect("details");
    assert_eq!(details.limit.as_deref(), Some("output"));
    let check = async |when: &str| {
        let log = log(&server, id, None).await;
        assert!(log.starts_with("line 0000000\nline 0000001\n"), "{when}");
        assert!(log.len() <= 1 << 20 && log.len() > (1 << 20) - 400, "{when}: {}", log.len());
        let lines: Vec<&str> = log.lines().collect();
        let numbers: Vec<usize> = lines.iter().filter_map(|line| line.strip_prefix("line ")?.parse().ok()).collect();
        // The last line of the program may be cut by its limit; the reason follows it.
        let last = *numbers.iter().rev().nth(1).expect("there are lines");
        assert!(last > 5 * (1 << 20) / 13 - 3, "{when}: the end is there, and it is {last}");
        let at = lines.iter().position(|line| line.contains("left out]")).expect("it says what was left out");
        assert!(lines[at - 1].starts_with("[log limit of 1 MiB reached: "), "{when}: {}", lines[at - 1]);
        let number = |line: &str| line.strip_prefix("line ").and_then(|number| number.parse::<usize>().ok());
        let (before, after) = (number(lines[at - 2]).expect("a line"), number(lines[at + 1]).expect("a line"));
        let gap = after - before - 1;
        assert_eq!(lines[at], format!("[{} bytes ({gap} lines) left out]", gap * 13), "{when}");
    };
    check("in the database").await;
    eventually("it is archived", || async { path(&server, id, 1).await.is_some() }).await;
    check("in the storage").await;
}

/// Before, output and errors came in any order, without times, and nobody could tell them apart.
#[tokio::test(flavor = "multi_thread")]
async fn lines_have_times_and_streams_in_the_database_and_in_the_storage() {
    let home = Home::new();
    let server = home.server();
    let _worker = home.worker(&server, &[]);
    let source = "#include <stdio.h>\n#include <unistd.h>\n\
                  int main() { for (int n = 1; n <= 3; n++) { printf(\"out %d\\n\", n); fflush(stdout); usleep(50000);\n\
                  fprintf(stderr, \"err %d\\n\", n); usleep(50000); }\n\
                  printf(\"no end\"); fflush(stdout); return 0; }";
    let program = compile_c(&home, "both", source);
    let id = submit(&home, &server, &program, &["--retries", "0"]);
    let name = id.to_string();
    let logs = |args: &[&str]| text(&punctual(&home, &server, &[&["logs", name.as_str()], args].concat()).stdout);
    let streams = |shown: &str| {
        let parts = |line: &str| line.splitn(3, ' ').map(str::to_owned).collect::<Vec<_>>();
        shown.lines().map(parts).collect::<Vec<_>>()
    };
    let expected = [
        ("stdout", "out 1"),
        ("stderr", "err 1"),
        ("stdout", "out 2"),
        ("stderr", "err 2"),
        ("stdout", "out 3"),
        ("stderr", "err 3"),
        ("stdout", "no end"),
    ];
    let plain: String = expected.map(|(_, text)| text).join("\n");
    let check = |shown: &str, from: usize, when: &str| {
        let lines = streams(shown);
        let found: Vec<(&str, &str)> = lines.iter().map(|line| (line[1].as_str(), line[2].as_str())).collect();
        assert_eq!(found, expected[from..], "{when}: {shown}");
        let times: Vec<&str> = lines.iter().map(|line| line[0].as_str()).collect();
        assert!(times.is_sorted() && times[0] < times[times.len() - 1], "{when}: {shown}");
        assert!(times.iter().all(|time| time.len() == 24 && time.ends_with('Z')), "{when}: {shown}");
    };
    check(&logs(&["-f", "--timestamps"]), 0, "as it comes");
    let http = plain_http();
    for when in ["in the database", "in the storage"] {
        check(&logs(&["--timestamps"]), 0, when);
        check(&logs(&["-t", "--tail", "3"]), 4, when);
        assert_eq!(logs(&[]), plain, "{when}: plain output stays plain");
        let url = format!("{}/v1/jobs/{id}/logs/lines?offset=6", server.url);
        let answer: serde_json::Value = http.get(url).send().await.expect("an answer").json().await.expect("JSON");
        let lines = answer["lines"].as_array().expect("lines");
        assert_eq!((lines[0]["offset"].as_u64(), lines[0]["stream"].as_str()), (Some(6), Some("stderr")), "{answer}");
        assert_eq!((lines[5]["partial"].as_bool(), lines[0].get("partial")), (Some(true), None), "{answer}");
        assert_eq!(answer["next_offset"].as_u64(), Some(plain.len() as u64), "{answer}");
        eventually("it is archived", || async { path(&server, id, 1).await.is_some() }).await;
    }
    // What most clients send, and what a generated one reads by the document.
    for (place, content_type) in [("logs", "text/plain; charset=utf-8"), ("logs/lines", "application/json")] {
        let url = format!("{}/v1/jobs/{id}/{place}", server.url);
        let answer = http.get(url).header("accept", "*/*").send().await.expect("an answer");
        assert_eq!(answer.headers()["content-type"], content_type, "{answer:?}");
    }
    let path = path(&server, id, 1).await.expect("it is archived");
    let file = home.file("data/storage").join(&path);
    assert_eq!(std::fs::read_to_string(&file).expect("the file is there"), plain, "the object is the text alone");
    assert!(file.with_extension("marks").exists(), "and the times lie beside it");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_size_of_logs_is_a_setting() {
    let home = Home::new();
    let server = home.server_at("127.0.0.1:0", &["--log-limit", "64KiB"]);
    let _worker = home.worker(&server, &[]);
    let program = compile_c(
        &home,
        "some",
        "#include <stdio.h>\nint main() { for (int n = 0; n < 20000; n++) printf(\"%d\\n\", n); }",
    );
    let id = submit(&home, &server, &program, &["--retries", "0"]);
    eventually("it has ended", || async { server.client().job(id).await.is_ok_and(|job| job.state == "succeeded") })
        .await;
    let log = log(&server, id, None).await;
    assert!(log.len() <= 64 << 10 && log.starts_with("0\n1\n") && log.ends_with("\n19999\n"), "{}", log.len());
    assert!(log.contains("[log limit of 64 KiB reached: "), "{log}");
}
