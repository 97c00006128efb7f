//! Pages that are drawn from the program itself. `UPDATE_DOCS=1` redraws them.

use std::fmt::Write as _;

use punctual_api::{ErrorKind, FieldCode};
use serde_json::Value;

use crate::checked::plain_http;
use crate::harness::Home;
use crate::openapi::Document;

#[track_caller]
fn check(name: &str, page: &str) {
    let path = format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, page).expect("the page is written");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    if page == written {
        return;
    }
    let differs = page.lines().zip(written.lines()).find(|(drawn, written)| drawn != written);
    panic!("run the tests with UPDATE_DOCS=1 to redraw docs/{name}; first difference: {differs:#?}");
}

#[tokio::test]
async fn the_interface_is_the_one_in_the_docs() {
    let home = Home::new();
    let server = home.server();
    let served = plain_http().get(format!("{}/openapi.json", server.url)).send().await.expect("it is served");
    let document: Value = served.json().await.expect("it is JSON");
    for (path, operations) in document["paths"].as_object().expect("paths") {
        for (method, operation) in operations.as_object().expect("operations") {
            let responses = operation["responses"].as_object().expect("an operation has answers");
            let told = responses.values().all(|response| response["description"].is_string());
            assert!(told, "{method} {path}: OpenAPI 3.1 wants each answer described");
            assert!(operation["summary"].is_string(), "{method} {path} does not say what it does");
        }
    }
    check("openapi.json", &format!("{document:#}\n"));
}

#[tokio::test]
async fn every_example_of_the_interface_fits_its_schema() {
    let home = Home::new();
    let server = home.server();
    let served = plain_http().get(format!("{}/openapi.json", server.url)).send().await.expect("it is served");
    let document: Value = served.json().await.expect("it is JSON");
    let judge = Document::new(&document);
    for (path, operations) in document["paths"].as_object().expect("paths") {
        for (method, operation) in operations.as_object().expect("operations") {
            let request = operation["requestBody"]["content"].as_object().into_iter().flatten();
            let responses = operation["responses"].as_object().into_iter().flatten();
            let answers = responses.flat_map(|(_, response)| response["content"].as_object().into_iter().flatten());
            for media in request.chain(answers).map(|(_, media)| media).filter(|media| media.get("example").is_some()) {
                let misfits = judge.misfits(&media["schema"], &media["example"]);
                assert!(misfits.is_empty(), "{method} {path}: {misfits:#?} in {:#}", media["example"]);
            }
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                let misfits = judge.misfits(&parameter["schema"], &parameter["example"]);
                assert!(misfits.is_empty(), "{method} {path}: {parameter:#} {misfits:#?}");
            }
        }
    }
}

#[tokio::test]
async fn the_head_of_the_interface_has_the_length_of_its_body() {
    let home = Home::new();
    let server = home.server();
    let url = format!("{}/openapi.json", server.url);
    let whole = plain_http().get(&url).send().await.expect("it is served").bytes().await.expect("a body");
    let head = plain_http().head(&url).send().await.expect("it is served");
    let length = head.headers().get("content-length").and_then(|length| length.to_str().ok()).map(str::to_owned);
    assert_eq!((head.status().as_u16(), length), (200, Some(whole.len().to_string())));
}

#[test]
fn the_errors_are_those_of_the_docs() {
    let mut page = String::from(
        "# Errors\n\nDrawn from `ErrorKind` in `crates/api/src/error.rs`; a test keeps the two alike. The codes are \
         stable. Answers are `application/problem+json` (RFC 9457); what the command line exits with is told by \
         `punctual exit-codes`. A request that is *retryable* may succeed later as it is.\n\n\
         | code | HTTP status | exit code | retryable | title |\n|---|---|---|---|---|\n",
    );
    for kind in ErrorKind::ALL {
        let retryable = if kind.is_retryable() { "yes" } else { "" };
        let (code, status, exit, title) = (kind.code(), kind.http_status(), kind.exit_code(), kind.title());
        writeln!(page, "| `{code}` | {status} | {exit} | {retryable} | {title} |").expect("a String takes it");
    }
    page += "\n## Fields\n\nEach field in `errors` of an `invalid_request` has a code. See \
             [Invalid requests](api-conventions.md#invalid-requests).\n\n| code | meaning |\n|---|---|\n";
    for code in FieldCode::ALL {
        writeln!(page, "| `{}` | {} |", code.as_str(), code.meaning()).expect("a String takes it");
    }
    check("errors.md", &page);
}
