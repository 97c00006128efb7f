//! A real provider of OpenID Connect: npm's `oidc-provider`, run by node.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

/// What is installed, and the program that runs it.
const FILES: [&str; 3] = ["package.json", "package-lock.json", "provider.mjs"];
/// As in `provider.mjs`.
pub(crate) const SECRET: &str = "a secret of the client: 100% & more";

/// Ends with its test.
pub(crate) struct Provider {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    pub(crate) issuer: String,
}

impl Provider {
    pub(crate) fn start() -> Self {
        let mut command = Command::new("node");
        command.arg("provider.mjs").current_dir(installed());
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut child = child.expect("node starts");
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take().expect("stdout is piped"));
        let mut it = Self { child, stdin, stdout: BufReader::new(stdout), issuer: String::new() };
        it.issuer = it.line()["issuer"].as_str().expect("an issuer").to_owned();
        it
    }

    /// The server's settings for it.
    pub(crate) fn settings(&self) -> Vec<(&'static str, String)> {
        let rules = json!([{ "group": "ops", "role": "operator" }, { "group": "dev", "role": "developer" }]);
        vec![
            ("PUNCTUAL_OPENID_ISSUER", self.issuer.clone()),
            ("PUNCTUAL_OPENID_CLIENT_SECRET", SECRET.to_owned()),
            ("PUNCTUAL_OPENID_RULES", rules.to_string()),
        ]
    }

    /// Where it may send browsers back to.
    pub(crate) fn serves(&mut self, urls: &[&str]) {
        let urls: Vec<String> = urls.iter().map(|url| format!("{url}/v1/login/oidc/callback")).collect();
        self.change(&json!({ "redirect_uris": urls }));
    }

    pub(crate) fn groups(&mut self, groups: &Value) {
        self.change(&json!({ "groups": groups }));
    }

    /// A new key, of another algorithm. The old one is withdrawn.
    pub(crate) fn rotate_key(&mut self) {
        self.change(&json!({ "rotate": "ES256" }));
    }

    fn change(&mut self, change: &Value) {
        writeln!(self.stdin.as_mut().expect("it runs"), "{change}").expect("it reads");
        assert_eq!(self.line(), json!({}));
    }

    fn line(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("it writes");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("the provider did not start: {error}: {line:?}"))
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The folder with the provider, installed as its lock file says. One test installs it for all.
fn installed() -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oidc-provider");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("oidc-provider");
    std::fs::create_dir_all(&folder).expect("a folder in the target folder");
    let lock = File::create(folder.join("lock")).expect("a file for the lock");
    lock.lock().expect("the lock");
    let is_same = |name: &str| std::fs::read(folder.join(name)).ok() == std::fs::read(source.join(name)).ok();
    let done = folder.join("node_modules/.package-lock.json");
    if done.exists() && FILES.iter().all(|name| is_same(name)) {
        return folder;
    }
    for name in FILES {
        std::fs::copy(source.join(name), folder.join(name)).expect("a copy");
    }
    if !answers("node") || !answers("npm") {
        install_node();
    }
    let _ = std::fs::remove_file(&done);
    let arguments = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
    let status = Command::new("npm").args(arguments).current_dir(&folder).status();
    let is_done = status.is_ok_and(|status| status.success());
    assert!(
        is_done,
        "npm cannot install oidc-provider, which the tests of OpenID Connect need; is npm's registry reachable?"
    );
    folder
}

fn answers(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

fn install_node() {
    eprintln!("node or npm is missing: installing them with apt-get");
    for arguments in [&["update"][..], &["install", "-y", "--no-install-recommends", "nodejs", "npm"]] {
        let mut command = Command::new("apt-get");
        let status = command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive").status();
        let is_done = status.is_ok_and(|status| status.success());
        assert!(
            is_done,
            "the tests of OpenID Connect need node and npm; install them, such as with: apt-get install nodejs npm"
        );
    }
}
