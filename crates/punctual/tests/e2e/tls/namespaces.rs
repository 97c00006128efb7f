//! Three machines, each a network namespace: a server, a worker, and somebody with a command line. Skipped where namespaces cannot
//! be made.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use super::{path, said};
use crate::harness::{Home, PUNCTUAL, Process, eventually};

/// Machines on one network. Removed with this.
struct Lab {
    name: String,
    hosts: Vec<String>,
}

const SERVER: &str = "10.231.77.1";

fn ip(arguments: &[&str]) -> Result<(), String> {
    let output = Command::new("ip").args(arguments).output().map_err(|error| format!("ip: {error}"))?;
    if output.status.success() { Ok(()) } else { Err(format!("ip {}: {}", arguments.join(" "), said(&output))) }
}

impl Lab {
    fn new(hosts: &[&str]) -> Result<Self, String> {
        let name = format!("punctual-{}", std::process::id());
        let mut lab = Self { name, hosts: Vec::new() };
        let hub = lab.of("hub");
        lab.add("hub")?;
        ip(&["-n", &hub, "link", "add", "bridge", "type", "bridge"])?;
        ip(&["-n", &hub, "link", "set", "bridge", "up"])?;
        for (number, host) in hosts.iter().enumerate() {
            lab.add(host)?;
            let (own, cable) = (lab.of(host), format!("cable{number}"));
            ip(&["-n", &hub, "link", "add", &cable, "type", "veth", "peer", "name", "eth0", "netns", &own])?;
            ip(&["-n", &hub, "link", "set", &cable, "master", "bridge", "up"])?;
            ip(&["-n", &own, "address", "add", &format!("10.231.77.{}/24", number + 1), "dev", "eth0"])?;
            ip(&["-n", &own, "link", "set", "eth0", "up"])?;
            ip(&["-n", &own, "link", "set", "lo", "up"])?;
        }
        Ok(lab)
    }

    fn of(&self, host: &str) -> String {
        format!("{}-{host}", self.name)
    }

    fn add(&mut self, host: &str) -> Result<(), String> {
        let name = self.of(host);
        ip(&["netns", "add", &name])?;
        self.hosts.push(name);
        Ok(())
    }

    /// The program on one of the machines, in a folder of its own and without notes of other tests.
    fn on(&self, host: &str, home: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.of(host), PUNCTUAL]).args(arguments).current_dir(home);
        command.env("XDG_RUNTIME_DIR", home).env("PUNCTUAL_SANDBOX_REQUIRE", "none");
        command
    }

    fn run(&self, host: &str, home: &Home, arguments: &[&str]) -> Output {
        self.on(host, home.path(), arguments).output().expect("the command runs")
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for host in &self.hosts {
            let _ = ip(&["netns", "delete", host]);
        }
    }
}

#[tokio::test]
async fn a_worker_and_a_command_line_on_other_machines_use_a_server_over_tls() {
    let lab = match Lab::new(&["server", "worker", "desk"]) {
        Ok(lab) => lab,
        Err(reason) => return eprintln!("skipped: network namespaces cannot be made here: {reason}"),
    };
    let homes = [Home::new(), Home::new(), Home::new()];
    let [server, worker, desk] = &homes;
    let url = format!("https://{SERVER}:8020");
    let flags = ["server", "--exit-with-stdin", "-o", "json", "--listen", "0.0.0.0:8020", "--data-dir", "data"];
    let tls = ["--tls", "cluster", "--advertise", &url];
    let mut started = lab.on("server", server.path(), &[&flags[..], &tls].concat());
    let mut started = started.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the server starts");
    let mut line = String::new();
    BufReader::new(started.stdout.take().expect("stdout is piped")).read_line(&mut line).expect("it is ready");
    let _server = Process::from(started);
    let ready: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
    assert_eq!(ready["url"], url.as_str());

    // Nobody is trusted at first sight, and nobody is let in because of where they come from.
    let refused = lab.run("desk", desk, &["--server", &url, "ps"]);
    assert!(refused.status.code() == Some(7) && said(&refused).contains("--ca-file"), "{}", said(&refused));
    for home in [worker, desk] {
        fs::copy(server.file("data/ca.pem"), home.file("ca.pem")).expect("an admin copies the certificate");
    }
    let refused = lab.run("desk", desk, &["--server", &url, "--ca-file", "ca.pem", "ps"]);
    assert_eq!(refused.status.code(), Some(4), "{}", said(&refused));
    for home in [worker, desk] {
        fs::copy(server.file("data/token"), home.file("token")).expect("an admin copies the token");
    }
    let plain = format!("http://{SERVER}:8020");
    let allowed = ["--allow-plain-http", "--token-file", "token", "ps"];
    let refused = lab.run("desk", desk, &[&["--server", &plain], &allowed[..]].concat());
    assert!(said(&refused).contains("https://"), "{}", said(&refused));

    let usual = ["--server", &url, "--ca-file", path(Path::new("ca.pem")), "--token-file", "token"];
    let at_desk = |arguments: &[&str]| lab.run("desk", desk, &[&usual[..], arguments].concat());
    // From another machine the access token makes nobody a worker.
    let work = ["worker", "--exit-with-stdin", "--spool-dir", "spool"];
    let log = worker.file("refused.log");
    let mut stranger = lab.on("worker", worker.path(), &[&work[..], &usual].concat());
    let stranger = stranger.stdin(Stdio::piped()).stderr(fs::File::create(&log).expect("a log"));
    let stranger = Process::from(stranger.spawn().expect("the worker starts"));
    eventually("it is refused", async || fs::read_to_string(&log).is_ok_and(|log| log.contains("needs a certificate")))
        .await;
    drop(stranger);
    let token = at_desk(&["worker", "token", "create", "--queues", "default", "--kinds", "probe"]);
    assert!(token.status.success(), "{}", said(&token));
    fs::write(worker.file("join.token"), &token.stdout).expect("an admin copies the token");
    fs::set_permissions(worker.file("join.token"), fs::Permissions::from_mode(0o600)).expect("it is closed");
    let arguments = [&work[..], &["--server", &url, "--join", "join.token"]].concat();
    let worker = lab.on("worker", worker.path(), &arguments).stdin(Stdio::piped()).spawn().expect("the worker starts");
    let _worker = Process::from(worker);
    eventually("the worker is connected", async || said(&at_desk(&["worker", "list"])).contains("connected")).await;
    let ran = at_desk(&["run", "--probe", r#"{"output":"from far away"}"#, "--wait"]);
    assert!(ran.status.success(), "{}", said(&ran));
    let listed = at_desk(&["-o", "name", "ps", "--all"]);
    let job = said(&listed).lines().next().expect("the job is listed").trim().to_owned();
    let logs = at_desk(&["logs", "-f", &job]);
    assert!(said(&logs).contains("from far away"), "{}", said(&logs));
    let doctor = at_desk(&["doctor"]);
    assert!(said(&doctor).contains("certificate"), "{}", said(&doctor));
    // The server's own user finds everything on its machine.
    let own = lab.run("server", server, &["--server", "https://127.0.0.1:8020", "ps"]);
    assert!(own.status.success(), "{}", said(&own));
}
