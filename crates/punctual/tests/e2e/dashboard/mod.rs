//! The dashboard in a real browser. One browser for each test, and several scenarios in it: starting one takes longer than a
//! scenario.

mod access;
mod plain;
mod schedules;
mod webdriver;
mod work;

use punctual_core::JobId;
use serde_json::{Value, json};

use crate::harness::{Home, Process, Server};
use webdriver::Browser;

/// A server and a worker for it that also runs commands, and a browser that looks at it.
struct World {
    browser: Browser,
    server: Server,
    _worker: Process,
    home: Home,
}

impl World {
    async fn new() -> Self {
        let home = Home::new();
        let server = home.server();
        let worker = home.worker(&server, &["--allow-commands"]);
        let browser = Browser::start(&server.url).await;
        Self { browser, server, _worker: worker, home }
    }

    /// Submits a job over the API.
    async fn submit(&self, job: Value) -> JobId {
        self.server.client().submit(&job).await.expect("the job is accepted").id
    }

    async fn state(&self, id: JobId) -> String {
        self.server.client().job(id).await.expect("the job").state
    }

    /// Waits until the job has ended.
    async fn ended(&self, id: JobId) {
        self.server.client().wait_finished(id, None).await.expect("the job ends");
    }

    async fn end(self) {
        self.browser.assert_no_complaints().await;
        self.browser.end().await;
    }
}

fn probe(sleep: &str, output: &str) -> Value {
    json!({ "inline": { "run": { "probe": { "sleep": sleep, "output": output } } } })
}
