//! From pieces in the database to a file in the storage, as users see it.

use super::{log, path, punctual, submit, text};
use crate::binaries::compile_c;
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
async fn the_log_of_a_program_that_floods_ends_with_its_mark() {
    let home = Home::new();
    let server = home.server();
    let _worker = home.worker(&server, &[]);
    let loud = "#include <stdio.h>\nint main() { for (;;) puts(\"all work and no play\"); }";
    let program = compile_c(&home, "loud", loud);
    // Ended by its limit of output, which is far above what is kept of it.
    let id = submit(&home, &server, &program, &["--retries", "0", "--output-max", "5MiB"]);
    eventually("it has ended", || async { server.client().job(id).await.is_ok_and(|job| job.state == "failed") }).await;
    let job = server.client().job(id).await.expect("the job");
    let details = job.attempts[0].details.clone().expect("details");
    assert_eq!(details.limit.as_deref(), Some("output"));
    let check = async |when: &str| {
        let log = log(&server, id, None).await;
        assert!(log.ends_with("\n[log truncated at 1 MiB]\n"), "{when}: {:?}", &log[log.len() - 60..]);
        assert!(log.len() <= 1 << 20 && log.len() > (1 << 20) - 100, "{when}: {}", log.len());
        assert_eq!(log.matches("[log truncated").count(), 1, "{when}");
    };
    check("in the database").await;
    eventually("it is archived", || async { path(&server, id, 1).await.is_some() }).await;
    check("in the storage").await;
}
