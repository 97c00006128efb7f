//! Keys, people and sessions, from outside: real servers, real files, the real command line.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use punctual_api::{ErrorKind, KeyRequest, LoginRequest, SecretText, UserRequest};
use punctual_client::Client;
use serde_json::{Value, json};

use crate::checked::{Answer, Checked};
use crate::cluster::Cluster;
use crate::harness::{Home, PUNCTUAL, Server, eventually};

const PASSWORD: &str = "correct horse battery staple";

/// The command line of a person with settings of their own.
struct Person {
    home: PathBuf,
}

impl Person {
    fn new(home: &Home, name: &str) -> Self {
        let folder = home.file(name);
        std::fs::create_dir(&folder).expect("a home");
        Self { home: folder }
    }

    fn run(&self, arguments: &[&str], stdin: &str) -> Output {
        let mut command = Command::new(PUNCTUAL);
        command.args(arguments).env("HOME", &self.home).env("XDG_CONFIG_HOME", self.home.join("config"));
        command.current_dir(&self.home).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        std::io::Write::write_all(&mut child.stdin.take().expect("a pipe"), stdin.as_bytes()).expect("it reads");
        child.wait_with_output().expect("it ends")
    }

    #[track_caller]
    fn ok(&self, arguments: &[&str], stdin: &str) -> String {
        let output = self.run(arguments, stdin);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).expect("UTF-8").trim_end().to_owned()
    }

    #[track_caller]
    fn refused(&self, arguments: &[&str], stdin: &str, status: i32) -> String {
        let output = self.run(arguments, stdin);
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {output:?}");
        String::from_utf8(output.stderr).expect("UTF-8")
    }

    fn contexts(&self) -> PathBuf {
        self.home.join("config/punctual/contexts.toml")
    }
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).expect("it is there").permissions().mode() & 0o7777
}

/// A client with a key or a session.
fn with_token(server: &Server, token: &str) -> Client {
    let token = token.to_owned();
    server.client().with_tokens(move |_| Some(token.clone())).with_repeat_budget(Duration::ZERO)
}

/// Why it is not let in, if it is not.
async fn refusal(client: &Client) -> Option<ErrorKind> {
    client.whoami().await.err().map(|error| error.kind().unwrap_or_else(|| panic!("{error:?}")))
}

fn key(name: &str, role: &str) -> KeyRequest {
    KeyRequest { name: name.to_owned(), role: Some(role.to_owned()), ..KeyRequest::default() }
}

#[tokio::test]
async fn a_key_that_is_revoked_is_refused_by_another_server_within_5_seconds() {
    let cluster = Cluster::new();
    let [one, other] = cluster.pair().await;
    let made = one.client().create_key(&key("deploy", "viewer")).await.expect("a key");
    let SecretText(secret) = &made.secret;
    let there = with_token(&other, secret);
    eventually("the other server knows the key", || async { refusal(&there).await.is_none() }).await;
    let whoami = there.whoami().await.expect("it is let in");
    assert_eq!((whoami.kind.as_str(), whoami.name.as_str()), ("key", "key:deploy"));
    assert_eq!(whoami.credential.as_deref(), Some(made.key.id.as_str()));
    let revoked = Instant::now();
    one.client().revoke_key("deploy").await.expect("it is revoked");
    assert_eq!(refusal(&with_token(&one, secret)).await, Some(ErrorKind::CredentialRevoked), "here at once");
    eventually("the other server refuses it", || async { refusal(&there).await.is_some() }).await;
    assert!(revoked.elapsed() < Duration::from_secs(5), "{:?}", revoked.elapsed());
    assert_eq!(refusal(&there).await, Some(ErrorKind::CredentialRevoked));
    // A list at any server shows what happened at any other.
    let listed = other.client().keys().await.expect("a list").keys;
    assert!(listed[0].revoked.is_some(), "{listed:?}");
}

#[tokio::test]
async fn a_session_ends_at_every_server_with_its_password() {
    let cluster = Cluster::new();
    let [one, other] = cluster.pair().await;
    let password = SecretText(PASSWORD.to_owned());
    let ana = UserRequest {
        name: "ana".to_owned(),
        role: Some("operator".to_owned()),
        password: Some(password.clone()),
        ..UserRequest::default()
    };
    one.client().create_user(&ana).await.expect("a user");
    let login = LoginRequest { name: "ana".to_owned(), password: password.clone() };
    eventually("the other server knows ana", || async { other.client().login(&login).await.is_ok() }).await;
    let session = other.client().login(&login).await.expect("a session").token.0;
    let here = with_token(&one, &session);
    eventually("the session counts here", || async { refusal(&here).await.is_none() }).await;
    let new = punctual_api::PasswordRequest { password: SecretText("another long password".to_owned()), current: None };
    let changed = Instant::now();
    one.client().set_password("ana", &new).await.expect("a new password");
    assert_eq!(refusal(&here).await, Some(ErrorKind::CredentialRevoked));
    let there = with_token(&other, &session);
    eventually("the session ends there", || async { refusal(&there).await.is_some() }).await;
    assert!(changed.elapsed() < Duration::from_secs(5), "{:?}", changed.elapsed());
    eventually("the old password is refused there", || async { other.client().login(&login).await.is_err() }).await;
}

#[tokio::test]
async fn somebody_logs_in_uses_contexts_and_logs_out() {
    let home = Home::new();
    let server = home.server();
    let (admin, ana) = (Person::new(&home, "admin"), Person::new(&home, "ana"));
    let at = ["--server", server.url.as_str()];
    let with = |arguments: &[&'static str]| {
        let mut all: Vec<&str> = arguments.to_vec();
        all.extend(at);
        all
    };
    admin.ok(&with(&["user", "create", "ana", "--role", "operator", "--password-stdin"]), &format!("{PASSWORD}\n"));
    let login = with(&["login", "--user", "ana", "--password-stdin"]);
    let said = ana.refused(&login, "wrong\n", 4);
    assert!(said.contains("the name or the password is wrong"), "{said}");
    assert!(!ana.contexts().exists());
    ana.ok(&login, &format!("{PASSWORD}\n"));
    assert_eq!((mode(&ana.contexts()), mode(ana.contexts().parent().expect("a folder"))), (0o600, 0o700));
    // The context names the server, too.
    let whoami = ana.ok(&["whoami", "-o", "name"], "");
    assert_eq!(whoami, "user:ana");
    let listed: Value = serde_json::from_str(&ana.ok(&["context", "list", "-o", "json"], "")).expect("JSON");
    assert_eq!((&listed[0]["server"], &listed[0]["credential"]), (&json!(server.url), &json!("session")));
    let file = std::fs::read_to_string(ana.contexts()).expect("the file");
    let token = file.split('"').find(|text| text.starts_with("punctual_session_")).expect("a token").to_owned();
    for arguments in
        [&["context", "list", "-o", "json"][..], &["context", "show"], &["session", "list", "-o", "json"], &["config"]]
    {
        let shown = ana.ok(arguments, "");
        assert!(!shown.contains(&token[..60]), "{arguments:?} shows the token");
    }
    // The token is for its own server alone.
    let other_home = Home::new();
    let other = other_home.server();
    let is_no_person = |arguments: &[&str]| {
        // The server's own user, or with the token that a note of this user leads to.
        let name = ana.ok(&[&["whoami", "-o", "name"], arguments].concat(), "");
        assert!(["local", "token"].contains(&name.as_str()), "{arguments:?}: {name}");
    };
    is_no_person(&["--server", &other.url]);
    // A flag goes before a variable, and both before what is in use.
    ana.ok(&["context", "set", "elsewhere", "--server", &other.url], "");
    is_no_person(&["--context", "elsewhere"]);
    assert_eq!(ana.ok(&["whoami", "-o", "name"], ""), "user:ana");
    ana.ok(&["context", "use", "elsewhere"], "");
    is_no_person(&[]);
    ana.refused(&["whoami", "--context", "nowhere"], "", 2);
    let name = server.url.trim_start_matches("http://").to_owned();
    ana.ok(&["context", "use", &name], "");
    // Somebody else could have read it.
    std::fs::set_permissions(ana.contexts(), PermissionsExt::from_mode(0o644)).expect("it is mine");
    let said = ana.refused(&["whoami"], "", 2);
    assert!(said.contains("others can read it") && said.contains("chmod 600"), "{said}");
    std::fs::set_permissions(ana.contexts(), PermissionsExt::from_mode(0o600)).expect("it is mine");
    ana.ok(&["logout"], "");
    assert_eq!(refusal(&with_token(&server, &token)).await, Some(ErrorKind::CredentialRevoked));
    assert!(!std::fs::read_to_string(ana.contexts()).expect("the file").contains("punctual_session_"));
    assert_eq!(mode(&ana.contexts()), 0o600);
}

#[tokio::test]
async fn a_key_is_kept_in_a_file_that_only_its_owner_can_read() {
    let home = Home::new();
    let server = home.server();
    let person = Person::new(&home, "person");
    let at = ["--server", server.url.as_str()];
    let create = [&["key", "create", "ci", "--role", "viewer", "--out", "ci.key"], &at[..]].concat();
    let shown = person.ok(&create, "");
    let file = person.home.join("ci.key");
    assert_eq!(mode(&file), 0o600);
    let secret = std::fs::read_to_string(&file).expect("the key");
    assert!(secret.starts_with("punctual_key_") && !shown.contains(secret.trim()), "{shown}");
    let file = file.to_str().expect("UTF-8");
    assert_eq!(person.ok(&[&["whoami", "-o", "name", "--token-file", file], &at[..]].concat(), ""), "key:ci");
    // A file that is there stays as it is, and no key is made.
    person.refused(&[&["key", "create", "other", "--role", "viewer", "--out", "ci.key"], &at[..]].concat(), "", 2);
    assert_eq!(person.ok(&[&["key", "list", "-o", "name"], &at[..]].concat(), ""), "ci");
    // One that was not made leaves no file.
    person.refused(&[&["key", "create", "ci", "--role", "viewer", "--out", "again.key"], &at[..]].concat(), "", 6);
    assert!(!person.home.join("again.key").exists());
    let rotate = [&["key", "rotate", "ci", "--overlap", "0s", "--out", "new.key"], &at[..]].concat();
    person.ok(&rotate, "");
    let said = person.refused(&[&["whoami", "--token-file", file], &at[..]].concat(), "", 4);
    assert!(said.contains("was replaced"), "{said}");
    assert_eq!(person.ok(&[&["whoami", "-o", "name", "--token-file", "new.key"], &at[..]].concat(), ""), "key:ci");
}

#[tokio::test]
async fn secrets_are_in_no_file_of_the_server_and_in_no_answer() {
    let home = Home::new();
    let log = std::fs::File::create(home.file("log")).expect("a log");
    let server = home.server_logging("127.0.0.1:0", &["-v", "-v"], &[("PUNCTUAL_LOG", "trace")], log);
    let client = server.client();
    let ana = UserRequest {
        name: "ana".to_owned(),
        role: Some("admin".to_owned()),
        password: Some(SecretText(PASSWORD.to_owned())),
        ..UserRequest::default()
    };
    client.create_user(&ana).await.expect("a user");
    let key = client.create_key(&key("ci", "viewer")).await.expect("a key").secret.0;
    let login = LoginRequest { name: "ana".to_owned(), password: SecretText(PASSWORD.to_owned()) };
    let session = client.login(&login).await.expect("a session").token.0;
    let wrong = LoginRequest { name: "ana".to_owned(), password: SecretText("a wrong password of mine".to_owned()) };
    client.login(&wrong).await.expect_err("it is wrong");
    for token in [&key, &session] {
        assert_eq!(refusal(&with_token(&server, token)).await, None);
        let mut other = token.clone();
        other.replace_range(token.len() - 1.., if token.ends_with('0') { "1" } else { "0" });
        assert_eq!(refusal(&with_token(&server, &other)).await, Some(ErrorKind::InvalidToken));
    }
    let hidden = [PASSWORD, "a wrong password of mine", part(&key), part(&session)];
    let api = Checked::new(&server).await;
    for path in ["/v1/keys", "/v1/keys/ci", "/v1/users", "/v1/users/ana", "/v1/sessions", "/v1/whoami", "/v1/server"] {
        let answer = api.get(path).await.expect(200);
        assert!(hidden.iter().all(|secret| !answer.text.contains(secret)), "{path}: {}", answer.text);
        assert!(!answer.text.contains("argon2"), "{path}: {}", answer.text);
    }
    server.process.stop();
    let mut looked_at = 0;
    for file in files_below(home.path()) {
        let bytes = std::fs::read(&file).expect("a file");
        looked_at += bytes.len();
        for secret in hidden {
            let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!found, "{} holds a secret", file.display());
        }
    }
    assert!(looked_at > 100_000, "{looked_at} bytes");
}

/// The secret part of a key or a session.
fn part(token: &str) -> &str {
    token.split('_').nth(3).expect("it has a secret")
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files.extend(files_below(&path));
        } else if path.is_file() {
            files.push(path);
        }
    }
    files
}

#[tokio::test]
async fn a_flood_of_logins_is_refused_with_a_time_to_wait_and_stops_nobody_else() {
    let home = Home::new();
    let server = home.server();
    let api = Checked::new(&server).await;
    let user = json!({ "name": "ana", "role": "viewer", "password": PASSWORD });
    api.post("/v1/users", user).await.expect(201);
    let key = api.post("/v1/keys", json!({ "name": "ci", "role": "viewer" })).await.expect(201);
    assert_eq!(key.header("cache-control"), Some("no-store"));
    let key = with_token(&server, key.str("/secret"));
    let attempts = (0..60).map(|number| {
        let login = json!({ "name": format!("user{}", number % 7), "password": "wrong wrong wrong" });
        api.post("/v1/sessions", login)
    });
    let flood = futures_util::future::join_all(attempts);
    let others = async {
        for _ in 0..20 {
            assert_eq!(refusal(&key).await, None, "whoever has a key is not affected");
        }
    };
    let (answers, ()) = futures_util::future::join(flood, others).await;
    let count = |code: &str| answers.iter().filter(|answer| answer.str("/code") == code).count();
    assert_eq!(count("login_failed") + count("too_many_logins"), 60);
    assert!((1..=12).contains(&count("login_failed")), "{} got through", count("login_failed"));
    let refused: &Answer = answers.iter().find(|answer| answer.status == 429).expect("a refusal");
    let seconds: u64 = refused.header("retry-after").expect("a time").parse().expect("a number");
    assert!((1..=20).contains(&seconds), "{seconds}");
}
