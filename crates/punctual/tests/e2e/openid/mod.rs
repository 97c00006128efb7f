//! Logins at a real provider of OpenID Connect: the real command line, real servers, and what a browser does.

mod browser;
mod hostile;
mod provider;

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

use punctual_api::{ErrorKind, LoginRequest, SecretText, UserRequest};
use punctual_client::Client;
use serde_json::{Value, json};

use self::browser::Browser;
use self::provider::Provider;
use crate::cluster::{Cluster, LEASE};
use crate::harness::{Home, PUNCTUAL, Process, Server, eventually};

const PASSWORD: &str = "correct horse battery staple";

fn server_of(home: &Home, provider: &mut Provider) -> Server {
    let settings = provider.settings();
    let settings: Vec<(&str, &str)> = settings.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let server = home.server_with("127.0.0.1:0", &[], &settings);
    provider.serves(&[&server.url]);
    server
}

/// A command line that logs in, while it waits for somebody with a browser.
struct Login {
    child: Process,
    stderr: BufReader<ChildStderr>,
    home: PathBuf,
}

impl Login {
    fn begin(home: &Home, name: &str, server: &Server, way: &[&str]) -> Self {
        let folder = home.file(name);
        std::fs::create_dir_all(&folder).expect("a home");
        let mut command = person(&folder);
        command.arg("login").args(way).args(["--server", &server.url]).env("BROWSER", "true");
        let mut child: Child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
        let stderr = BufReader::new(child.stderr.take().expect("stderr is piped"));
        Self { child: child.into(), stderr, home: folder }
    }

    /// The rest of the line that begins like this.
    fn says(&mut self, beginning: &str) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert_ne!(
                self.stderr.read_line(&mut line).expect("it writes"),
                0,
                "it ended before it said {beginning:?}"
            );
            if let Some(rest) = line.trim_start().strip_prefix(beginning) {
                return format!("{beginning}{rest}").trim().to_owned();
            }
        }
    }

    /// Waits until it has ended well; the answer is who it logged in.
    fn ends(self) -> Value {
        self.child.wait();
        let output = person(&self.home).args(["whoami", "-o", "json"]).output().expect("it runs");
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).expect("JSON")
    }
}

fn person(folder: &std::path::Path) -> Command {
    let mut command = Command::new(PUNCTUAL);
    command.env("HOME", folder).env("XDG_CONFIG_HOME", folder.join("config")).current_dir(folder);
    command
}

/// Logs in with the command line and a browser; the answer is `whoami`.
async fn logged_in(home: &Home, name: &str, server: &Server, browser: &mut Browser) -> Value {
    let mut login = Login::begin(home, name, server, &["--oidc"]);
    let address = login.says("http://");
    let check = login.says("Continue there only if it shows the code ");
    let page = browser.open(&address).await;
    let page = browser.log_in(page, name).await;
    assert_eq!(page.status, 200, "{page:?}");
    assert!(check.ends_with(&page.text_of("check")), "{check}: {page:?}");
    let back = browser.open(&page.link_of("continue")).await;
    assert_eq!(back.status, 200, "{back:?}");
    login.ends()
}

fn has_right(whoami: &Value, right: &str) -> bool {
    whoami["rights"].as_array().expect("rights").iter().any(|known| known == right)
}

async fn audit(client: &Client, action: &str) -> Vec<(String, String, String)> {
    let query = punctual_api::AuditQuery { action: Some(action.to_owned()), ..Default::default() };
    let entries = client.audit(&query).await.expect("lines").entries;
    let shown = |line: punctual_api::AuditLine| (line.principal, line.object.unwrap_or_default(), line.outcome);
    entries.into_iter().map(|entry| shown(entry.line)).collect()
}

#[tokio::test]
async fn somebody_logs_in_with_a_browser_and_has_the_role_of_their_groups() {
    let (home, mut provider) = (Home::new(), Provider::start());
    let server = server_of(&home, &mut provider);
    let client = server.client();
    provider.groups(&json!({ "ana": ["ops", "everybody"] }));
    let mut browser = Browser::new();
    let whoami = logged_in(&home, "ana", &server, &mut browser).await;
    assert_eq!((&whoami["kind"], &whoami["name"]), (&json!("person"), &json!("user:ana-example.com")));
    assert!(has_right(&whoami, "jobs.submit") && !has_right(&whoami, "tasks.edit"), "{whoami}");
    let user = client.user("ana-example.com").await.expect("the user was made");
    assert_eq!(
        (user.role.as_deref(), user.has_password, user.created.who.as_str()),
        (Some("operator"), false, "openid")
    );
    let account = user.openid.expect("an account at the provider");
    assert_eq!((account.issuer, account.subject.as_str()), (provider.issuer.clone(), "ana"));

    // Other groups, another role: for the open session too.
    provider.groups(&json!({ "ana": ["dev"] }));
    let whoami = logged_in(&home, "ana", &server, &mut browser).await;
    assert!(has_right(&whoami, "tasks.edit"), "{whoami}");
    assert_eq!(client.user("ana-example.com").await.expect("it is the same user").sessions, 2);

    // No group with a role: no login, and no session that is open stays.
    provider.groups(&json!({ "ana": ["everybody"] }));
    let mut login = Login::begin(&home, "ana", &server, &["--oidc"]);
    let page = browser.open(&login.says("http://")).await;
    let page = browser.log_in(page, "ana").await;
    assert_eq!((page.status, page.problem()), (401, "openid_refused".to_owned()), "{page:?}");
    assert!(page.body.contains("none of your groups has a role here"), "{page:?}");
    let after = client.user("ana-example.com").await.expect("it stays on record");
    assert_eq!((after.role.as_deref(), after.sessions), (None, 0));
    let output = person(&login.home).args(["whoami"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(4), "{output:?}");

    // On record, with the reason.
    let logins = audit(&client, "login").await;
    assert_eq!(logins.len(), 2, "{logins:?}");
    assert!(logins.iter().all(|(who, way, _)| (who.as_str(), way.as_str()) == ("user:ana-example.com", "openid")));
    eventually("the refusal is on record", || async {
        let refusals = audit(&client, "openid_login").await;
        refusals.iter().any(|(_, object, outcome)| object.starts_with("no_role") && outcome == "openid_refused")
    })
    .await;
    assert_eq!(audit(&client, "create_user").await.len(), 1);
    assert_eq!(audit(&client, "edit_user").await.len(), 2);
}

#[tokio::test]
async fn nobody_is_linked_to_a_user_by_name_and_a_disabled_user_stays_out() {
    let (home, mut provider) = (Home::new(), Provider::start());
    let server = server_of(&home, &mut provider);
    let client = server.client();
    let local = UserRequest {
        name: "ana-example.com".to_owned(),
        role: Some("admin".to_owned()),
        namespace_roles: Default::default(),
        password: Some(SecretText(PASSWORD.to_owned())),
        mail: Some("ana@example.com".to_owned()),
    };
    client.create_user(&local).await.expect("a local user of the same name and mail address");
    provider.groups(&json!({ "ana": ["ops"] }));
    let mut browser = Browser::new();
    let whoami = logged_in(&home, "ana", &server, &mut browser).await;
    let name = whoami["name"].as_str().expect("a name").strip_prefix("user:").expect("a person").to_owned();
    assert!(name.starts_with("ana-example.com-") && name.len() == "ana-example.com-".len() + 6, "{name}");
    assert!(!has_right(&whoami, "people.manage"), "{whoami}");
    let edit = punctual_api::UserEdit { disabled: Some(true), ..Default::default() };
    client.edit_user(&name, &edit).await.expect("it is disabled");
    let mut login = Login::begin(&home, "ana", &server, &["--oidc"]);
    let page = browser.open(&login.says("http://")).await;
    let page = browser.log_in(page, "ana").await;
    assert_eq!(page.problem(), "openid_refused", "{page:?}");
    assert!(!page.body.contains("disabled"), "only the audit log has the reason: {page:?}");
    let password = punctual_api::PasswordRequest { password: SecretText(PASSWORD.to_owned()), current: None };
    let refused = client.set_password(&name, &password).await.expect_err("a way around the provider");
    assert_eq!(refused.kind(), Some(ErrorKind::InvalidRequest));
}

#[tokio::test]
async fn somebody_logs_in_by_typing_a_code_elsewhere() {
    let (home, mut provider) = (Home::new(), Provider::start());
    let server = server_of(&home, &mut provider);
    provider.groups(&json!({ "bob": ["dev"] }));
    let mut login = Login::begin(&home, "bob", &server, &["--device"]);
    let address = login.says("http://");
    assert_eq!(login.says("and type"), "and type the code");
    let code = login.says("");
    let mut browser = Browser::new();
    let page = browser.open(&address).await;
    let page = browser.submit(&page, &[("user_code", &code)]).await;
    let page = browser.submit(&page, &[]).await;
    let page = browser.log_in(page, "bob").await;
    assert_eq!(page.status, 200, "{page:?}");
    let whoami = login.ends();
    assert_eq!(whoami["name"], "user:bob-example.com");
    assert!(has_right(&whoami, "tasks.edit"), "{whoami}");
}

#[tokio::test]
async fn any_server_behind_a_balancer_can_take_any_step_of_a_login() {
    let (cluster, mut provider) = (Cluster::new(), Provider::start());
    let settings = provider.settings();
    let mut settings: Vec<(&str, &str)> = settings.iter().map(|(name, value)| (*name, value.as_str())).collect();
    settings.push(("PUNCTUAL_DATABASE", &cluster.database));
    let flags = ["--lease-ttl", LEASE];
    let home_of_browsers = cluster.home.server_with("127.0.0.1:0", &flags, &settings);
    // This one sends browsers to the other, as it would to the balancer.
    let public = [&flags[..], &["--public-url", &home_of_browsers.url]].concat();
    let other = cluster.home.server_with("127.0.0.1:0", &public, &settings);
    provider.serves(&[&home_of_browsers.url]);
    provider.groups(&json!({ "ana": ["ops"] }));
    let mut browser = Browser::new();
    // Begins and ends at one server, and is at the other in between.
    let whoami = logged_in(&cluster.home, "ana", &other, &mut browser).await;
    assert_eq!(whoami["name"], "user:ana-example.com");
}

#[tokio::test]
async fn a_new_key_is_taken_at_once_and_without_the_provider_everything_else_goes_on() {
    let (home, mut provider) = (Home::new(), Provider::start());
    let server = server_of(&home, &mut provider);
    let client = server.client().with_repeat_budget(Duration::ZERO);
    provider.groups(&json!({ "ana": ["ops"] }));
    let mut browser = Browser::new();
    logged_in(&home, "ana", &server, &mut browser).await;
    provider.rotate_key();
    logged_in(&home, "ana", &server, &mut browser).await;

    let local = UserRequest {
        name: "eva".to_owned(),
        role: Some("viewer".to_owned()),
        namespace_roles: Default::default(),
        password: Some(SecretText(PASSWORD.to_owned())),
        mail: None,
    };
    client.create_user(&local).await.expect("a user with a password");
    let mut login = Login::begin(&home, "bob", &server, &["--oidc"]);
    let address = login.says("http://");
    // One that the provider does not know yet, so that it stays at the provider's page.
    let mut browser = Browser::new();
    let at_provider = browser.open(&address).await;
    drop(provider);
    // A code that can be redeemed nowhere, for a login that began.
    let at_provider = at_provider.way[1].clone();
    let state = at_provider.split("&state=").nth(1).and_then(|rest| rest.split('&').next());
    let (issuer, state) = (at_provider.as_str(), state.expect("a state"));
    let issuer = issuer.split("/auth").next().expect("an address").replace(':', "%3A").replace('/', "%2F");
    let back = format!("{}/v1/login/oidc/callback?code=x&state={state}&iss={issuer}", server.url);
    let page = browser.open(&back).await;
    assert_eq!((page.status, page.problem()), (503, "provider_unavailable".to_owned()), "{page:?}");
    let refused = client.begin_device_login().await.expect_err("nobody can be asked");
    assert_eq!(refused.kind(), Some(ErrorKind::ProviderUnavailable));
    let password = LoginRequest { name: "eva".to_owned(), password: SecretText(PASSWORD.to_owned()) };
    client.login(&password).await.expect("passwords work");
    let whoami = person(&home.file("ana")).args(["whoami", "-o", "name"]).output().expect("it runs");
    assert_eq!(String::from_utf8_lossy(&whoami.stdout).trim(), "user:ana-example.com", "open sessions go on");
}

#[tokio::test]
async fn a_server_without_a_provider_says_so() {
    let home = Home::new();
    let server = home.server();
    let refused = server.client().begin_device_login().await.expect_err("there is none");
    assert_eq!(refused.kind(), Some(ErrorKind::OpenIdOff));
}
