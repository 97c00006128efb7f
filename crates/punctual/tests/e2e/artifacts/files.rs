//! Files that tasks read: any content, found read-only where the task runs.

use std::process::Command;

use serde_json::{Value, json};

use super::{declaration, put};
use crate::binaries::compile_c;
use crate::checked::Checked;
use crate::harness::{Home, PUNCTUAL, Server};

/// Prints its file, and says what became of writing to it.
const READER: &str = r#"
    #include <stdio.h>
    #include <stdlib.h>
    int main(int argc, char **argv) {
        char path[256], line[64] = "";
        snprintf(path, sizeof path, "%s/rates.csv", getenv("PUNCTUAL_FILES"));
        FILE *in = fopen(path, "r");
        if (!in) return 9;
        fgets(line, sizeof line, in);
        FILE *out = fopen(getenv("PUNCTUAL_OUTPUT"), "w");
        fprintf(out, "%s %s", line, fopen(path, "w") ? "writable" : "read-only");
        fclose(out);
        return 0;
    }"#;

fn run(server: &Server, args: &[&str]) -> Value {
    let output = Command::new(PUNCTUAL).args(args).args(["--server", &server.url, "-o", "json"]).output();
    let output = output.expect("the command runs");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}"))
}

fn file(artifact: &str) -> Value {
    json!([{ "artifact": artifact, "name": "rates.csv" }])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_reads_an_uploaded_file_in_its_sandbox_and_by_an_agent() {
    for flags in [&[][..], &["--spawn", "process"]] {
        let home = Home::new();
        let server = home.server();
        let _worker = home.worker(&server, flags);
        let api = &Checked::new(&server).await;
        let tool = compile_c(&home, "tool", READER);
        let data = home.file("data.csv");
        std::fs::write(&data, "EUR,1.08").expect("it is written");
        let named = format!("rates.csv={}", data.display());
        let submitted = run(&server, &["run", tool.to_str().expect("text"), "--file", &named, "--detach"]);
        let job = api.finished(submitted["id"].as_str().expect("an id")).await;
        assert_eq!(
            (job.str("/state"), job.str("/output")),
            ("succeeded", "EUR,1.08 read-only"),
            "{flags:?} {}",
            job.text
        );
        // Both the program and the file are its content.
        let content = submitted["content"].as_array().expect("it has content");
        assert_eq!(content.len(), 2, "{submitted}");
        let read = job.str("/definition/spec/run/binary/files/0/artifact");
        assert_eq!(content[1]["artifact"], read);
        let artifact = api.get(&format!("/v1/artifacts/{read}")).await.expect(200);
        assert_eq!((artifact.str("/kind"), artifact.body.get("machine")), ("file", None));
        assert_eq!(content[1]["path"], artifact.str("/path"));
        // A second run fetches nothing anew, and works all the same.
        let again = run(&server, &["run", tool.to_str().expect("text"), "--file", &named, "--wait"]);
        assert_eq!(again["output"], "EUR,1.08 read-only", "{again}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_reads_an_uploaded_script_and_the_copy_goes_with_it() {
    let home = Home::new();
    let server = home.server();
    let _worker = home.worker(&server, &["--allow-commands"]);
    let api = &Checked::new(&server).await;
    let script = b"echo from $0 > $PUNCTUAL_OUTPUT\n".to_vec();
    let mut declared = declaration(&script);
    declared["kind"] = json!("file");
    let declared = api.post("/v1/artifacts", declared).await.expect(201);
    let id = declared.str("/id").to_owned();
    let task = json!({ "run": { "command": {
        "line": "sh $PUNCTUAL_FILES/rates.csv", "files": file(&id)
    } } });
    // A task cannot be defined before its file is there.
    let refused = api.put("/v1/tasks/report", task.clone()).await.refused(422, "unknown_artifact");
    assert_eq!(refused.str("/errors/0/pointer"), "/run/command/files/0/artifact");
    put(declared.str("/upload/url"), script).await.expect(200);
    api.put("/v1/tasks/report", task).await.expect(201);
    let job = api.finished(&api.submit(json!({ "task": "report" })).await).await;
    assert_eq!(job.str("/state"), "succeeded", "{}", job.text);
    let path = job.str("/output").trim().strip_prefix("from ").expect("its path").to_owned();
    assert!(path.ends_with("/files/rates.csv") && !std::path::Path::new(&path).exists(), "{path}");

    // It stays as long as a task reads it, and cannot be run.
    api.delete(&format!("/v1/artifacts/{id}")).await.refused(409, "artifact_in_use");
    let program = json!({ "run": { "binary": { "artifact": id } } });
    api.put("/v1/tasks/wrong", program).await.refused(422, "artifact_refused");
    let twice = json!({ "run": { "command": { "line": "true", "files": [file(&id)[0], file(&id)[0]] } } });
    api.put("/v1/tasks/wrong", twice).await.refused(400, "invalid_request");
    let outside = json!({ "run": { "command": { "line": "true", "files": [{ "artifact": id, "name": "../x" }] } } });
    api.put("/v1/tasks/wrong", outside).await.refused(400, "invalid_request");
}
