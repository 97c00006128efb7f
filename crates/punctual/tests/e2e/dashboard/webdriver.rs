//! A real browser: headless Chromium, driven by WebDriver over plain HTTP.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::checked::plain_http;
use crate::harness::{Process, processes_below};

/// What does not appear on a page by then never will.
const PATIENCE: Duration = Duration::from_secs(30);
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";
const FLAGS: [&str; 9] = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
];

pub(crate) struct Browser {
    http: reqwest::Client,
    session: String,
    home: String,
    driver: Process,
    _profile: TempDir,
}

impl Drop for Browser {
    /// Chromium outlives a driver that is killed.
    fn drop(&mut self) {
        for pid in processes_below(self.driver.id()) {
            if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}

impl Browser {
    /// A new browser without a past. `home` is the server that it looks at.
    pub(crate) async fn start(home: &str) -> Self {
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromedriver is not installed; run: apt-get install chromium chromium-driver");
        let lines = BufReader::new(driver.stdout.take().expect("stdout is piped")).lines();
        let port = lines
            .map_while(Result::ok)
            .find_map(|line| {
                line.split_once("successfully on port ").map(|(_, port)| port.trim_end_matches('.').to_owned())
            })
            .expect("chromedriver names its port");
        let driver = Process::from(driver);
        let profile = tempfile::Builder::new().prefix("punctual-browser-").tempdir().expect("a temporary folder");
        let mut flags: Vec<String> = FLAGS.map(str::to_owned).to_vec();
        flags.push(format!("--user-data-dir={}", profile.path().display()));
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": { "args": flags },
            "goog:loggingPrefs": { "browser": "ALL" },
        } } });
        let http = plain_http();
        let started = command(&http, &format!("http://127.0.0.1:{port}/session"), Some(&wanted)).await;
        let started = started.expect("chromium starts");
        let session = format!("http://127.0.0.1:{port}/session/{}", started["sessionId"].as_str().expect("a session"));
        Self { http, session, home: home.to_owned(), driver, _profile: profile }
    }

    async fn try_post(&self, path: &str, body: Value) -> Result<Value, String> {
        command(&self.http, &format!("{}{path}", self.session), Some(&body)).await
    }

    #[track_caller]
    fn told<T>(what: &str, result: Result<T, String>) -> T {
        result.unwrap_or_else(|error| panic!("{what}: {error}"))
    }

    pub(crate) async fn open(&self, path: &str) {
        let url = format!("{}{path}", self.home);
        Self::told(path, self.try_post("/url", json!({ "url": url })).await);
    }

    pub(crate) async fn reload(&self) {
        Self::told("reload", self.try_post("/refresh", json!({})).await);
    }

    pub(crate) async fn back(&self) {
        Self::told("back", self.try_post("/back", json!({})).await);
    }

    /// Path, query and fragment of the page.
    pub(crate) async fn place(&self) -> String {
        let url = self.script("return location.pathname + location.search + location.hash").await;
        url.as_str().expect("an address").to_owned()
    }

    /// What a function with this body returns.
    pub(crate) async fn script(&self, body: &str) -> Value {
        Self::told(body, self.try_post("/execute/sync", json!({ "script": body, "args": [] })).await)
    }

    /// A command of the developer tools.
    pub(crate) async fn devtools(&self, name: &str, parameters: Value) {
        let body = json!({ "cmd": name, "params": parameters });
        Self::told(name, self.try_post("/goog/cdp/execute", body).await);
    }

    async fn find(&self, css: &str) -> Result<String, String> {
        let found = self.try_post("/element", json!({ "using": "css selector", "value": css })).await?;
        Ok(found[ELEMENT].as_str().expect("an element").to_owned())
    }

    /// Does something with an element, and again if the page was renewed meanwhile.
    async fn with(&self, css: &str, path: &str, body: Value) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let done = match self.find(css).await {
                Ok(id) => self.try_post(&format!("/element/{id}{path}"), body.clone()).await,
                Err(error) => Err(error),
            };
            match done {
                Ok(_) => return,
                Err(error) if Instant::now() > deadline => panic!("{css}{path}: {error}\n{}", self.text("body").await),
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }

    pub(crate) async fn click(&self, css: &str) {
        self.with(css, "/click", json!({})).await;
    }

    /// Types into a field in place of what it holds.
    pub(crate) async fn fill(&self, css: &str, text: &str) {
        self.with(css, "/clear", json!({})).await;
        self.with(css, "/value", json!({ "text": text })).await;
    }

    /// Presses keys where somebody is on the page.
    pub(crate) async fn press(&self, keys: &str) {
        let actions: Vec<Value> = keys
            .chars()
            .flat_map(|key| {
                [
                    json!({ "type": "keyDown", "value": key.to_string() }),
                    json!({ "type": "keyUp", "value": key.to_string() }),
                ]
            })
            .collect();
        let body = json!({ "actions": [{ "type": "key", "id": "keyboard", "actions": actions }] });
        Self::told(keys, self.try_post("/actions", body).await);
    }

    /// Chooses an option of a list.
    pub(crate) async fn choose(&self, css: &str, value: &str) {
        self.click(&format!("{css} option[value=\"{value}\"]")).await;
    }

    /// The text of the first element that fits, as it is shown; empty if there is none.
    pub(crate) async fn text(&self, css: &str) -> String {
        let body = json!({ "script": "const e = document.querySelector(arguments[0]); return e ? e.innerText ?? e.textContent : ''", "args": [css] });
        let text = self.try_post("/execute/sync", body).await;
        text.ok().and_then(|text| text.as_str().map(str::to_owned)).unwrap_or_default()
    }

    pub(crate) async fn count(&self, css: &str) -> usize {
        let body = json!({ "script": "return document.querySelectorAll(arguments[0]).length", "args": [css] });
        let count = Self::told(css, self.try_post("/execute/sync", body).await);
        usize::try_from(count.as_u64().expect("a number")).expect("a small one")
    }

    /// Waits until an element says this.
    pub(crate) async fn sees(&self, css: &str, part: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !self.text(css).await.contains(part) {
            if Instant::now() > deadline {
                panic!("{css} never says {part:?}, but: {}\nin: {}", self.text(css).await, self.text("body").await);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until a script answers true.
    pub(crate) async fn holds(&self, script: &str) {
        let deadline = Instant::now() + PATIENCE;
        while self.script(&format!("return Boolean({script})")).await != Value::Bool(true) {
            assert!(Instant::now() < deadline, "never: {script}\nin: {}", self.text("body").await);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits for the page at a place that begins so.
    pub(crate) async fn arrives(&self, start: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !self.place().await.starts_with(start) {
            if Instant::now() > deadline {
                panic!("it is at {} and not at {start}: {}", self.place().await, self.text("main").await);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub(crate) async fn set_width(&self, width: u32) {
        let size = json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false });
        self.devtools("Emulation.setDeviceMetricsOverride", size).await;
    }

    /// What the browser complained of since it was asked last: scripts that fail, and what the policies of a page forbid.
    pub(crate) async fn complaints(&self) -> Vec<String> {
        let log = Self::told("log", self.try_post("/se/log", json!({ "type": "browser" })).await);
        let lines = log.as_array().expect("a list").iter();
        let severe = lines.filter(|line| line["level"] == "SEVERE" || line["level"] == "WARNING");
        severe.map(|line| line["message"].as_str().unwrap_or_default().to_owned()).collect()
    }

    pub(crate) async fn assert_no_complaints(&self) {
        assert_eq!(self.complaints().await, Vec::<String>::new());
    }

    /// Ends the browser.
    pub(crate) async fn end(self) {
        self.http.delete(&self.session).send().await.expect("the browser ends");
    }
}

/// Sends a command to the driver.
async fn command(http: &reqwest::Client, url: &str, body: Option<&Value>) -> Result<Value, String> {
    let request = match body {
        Some(body) => http.post(url).header("content-type", "application/json").body(body.to_string()),
        None => http.get(url),
    };
    let response = request.send().await.map_err(|error| error.to_string())?;
    let is_success = response.status().is_success();
    let text = response.text().await.map_err(|error| error.to_string())?;
    let mut answer: Value = serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))?;
    let value = answer["value"].take();
    if is_success { Ok(value) } else { Err(value["message"].as_str().unwrap_or(&text).to_owned()) }
}
