//! `punctual artifact`.

use std::process::{Command, Output};

use serde_json::Value;

use super::{World, binary, program};
use crate::harness::PUNCTUAL;

fn punctual(world: &World, args: &[&str]) -> Output {
    let command = Command::new(PUNCTUAL)
        .args(["artifact"])
        .args(args)
        .args(["--server", &world.server.url])
        .current_dir(world.home.path())
        .output();
    command.expect("the command runs")
}

fn said(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
    (text(&output.stdout), text(&output.stderr))
}

#[tokio::test]
async fn a_file_is_uploaded_once_and_then_recognized() {
    let world = World::new().await;
    std::fs::write(world.home.file("report"), program(400_000, 1)).unwrap();
    let first = punctual(&world, &["create", "report"]);
    let (id, told) = said(&first);
    assert!(first.status.success(), "{told}");
    assert!(told.contains("for x86_64"), "{told}");
    let id = id.trim();
    assert_eq!(world.state(id).await, "ready");
    let (again, told) = said(&punctual(&world, &["create", "report", "--name", "other"]));
    assert_eq!(again.trim(), id);
    assert!(told.contains("nothing was sent"), "{told}");

    let (shown, _) = said(&punctual(&world, &["get", id]));
    for part in [id, "ready", "name     report", "400000 bytes", "machine  x86_64"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let (listed, _) = said(&punctual(&world, &["list", "-o", "json"]));
    let listed: Value = serde_json::from_str(&listed).expect("JSON");
    assert_eq!(listed["artifacts"][0]["id"], id);
    let (table, _) = said(&punctual(&world, &["list"]));
    assert!(table.contains("report") && table.contains("ready"), "{table}");

    world.api.put("/v1/tasks/report", binary(id)).await.expect(201);
    let refused = punctual(&world, &["delete", id]);
    assert_eq!(refused.status.code(), Some(6), "{:?}", said(&refused));
    world.api.put("/v1/tasks/report", serde_json::json!({ "run": { "probe": {} } })).await.expect(200);
    assert!(punctual(&world, &["delete", id]).status.success());
    let gone = punctual(&world, &["get", id]);
    assert_eq!(gone.status.code(), Some(5), "{:?}", said(&gone));
}

#[tokio::test]
async fn what_cannot_be_uploaded_is_said_in_one_sentence() {
    let world = World::new().await;
    std::fs::write(world.home.file("script"), "#!/bin/sh\n").unwrap();
    std::fs::write(world.home.file("snake"), "#!/usr/bin/env python3\n").unwrap();
    std::fs::write(world.home.file("empty"), "").unwrap();
    for (file, code, reason) in [
        ("missing", 2, "cannot read missing"),
        (".", 2, "is not a file"),
        ("empty", 2, "empty cannot run in the sandbox: the file is empty"),
        ("script", 2, "it is a script, not a compiled program. Run it outside of the sandbox with `--command @script`"),
        ("snake", 2, "with `--command`, on a worker with --allow-commands that has snake"),
        (
            "/bin/true",
            2,
            "/bin/true cannot run in the sandbox: it is linked dynamically; link it statically: `gcc -static`",
        ),
    ] {
        let refused = punctual(&world, &["create", file]);
        let (stdout, told) = said(&refused);
        assert_eq!(refused.status.code(), Some(code), "{file}: {told}");
        assert!(told.contains(reason) && stdout.is_empty(), "{file}: {told}");
    }
    let listed = world.api.get("/v1/artifacts").await.expect(200);
    assert_eq!(listed.body["artifacts"], serde_json::json!([]), "nothing was even declared");
    assert!(world.files().is_empty());
}
