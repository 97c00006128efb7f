//! No task reaches what is not on the public internet, however it writes the address.

#[path = "../far_side/mod.rs"]
mod far_side;
mod rebinding;

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use far_side::*;
use punctual_core::attempt::{FailureClass, Last, Ran};
use punctual_core::run::Slack as Message;
use punctual_core::task::{HttpCall, Run};
use punctual_exec::{Cancel, Http, Outbound, Places, Resolve, Slack, SlackWebhooks};
use tokio::net::TcpListener;

/// Each means an address that must not be called, or is not the host of a URL at all.
const HOSTS: &str = include_str!("hosts.txt");

/// Fewer would mean that somebody took some away.
const HOSTS_MIN: usize = 200;

fn hosts() -> impl Iterator<Item = &'static str> {
    HOSTS.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// What stands behind a host is not a URL's business; these are tried with every kind of it.
const FORMS: [&str; 2] = ["http://{host}:{p}/", "https://{host}:{p}/latest/meta-data/?x=1#y"];

/// Answers from a list, and counts how often it was asked.
#[derive(Clone, Default)]
struct Names(Arc<State>);

#[derive(Default)]
struct State {
    /// The first answer is given first, the last again and again.
    answers: Mutex<HashMap<String, Vec<Vec<IpAddr>>>>,
    asked: AtomicUsize,
}

impl Names {
    fn with(self, host: &str, answers: &[&[&str]]) -> Self {
        let answers = answers.iter().rev().map(|list| list.iter().map(|ip| ip.parse().unwrap()).collect()).collect();
        self.0.answers.lock().unwrap().insert(host.to_owned(), answers);
        self
    }

    fn asked(&self) -> usize {
        self.0.asked.load(Ordering::SeqCst)
    }
}

#[async_trait::async_trait]
impl Resolve for Names {
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        self.0.asked.fetch_add(1, Ordering::SeqCst);
        let mut answers = self.0.answers.lock().unwrap();
        let Some(list) = answers.get_mut(host) else {
            return Err(io::Error::other("no such host"));
        };
        Ok(if list.len() > 1 { list.pop().unwrap() } else { list[0].clone() })
    }
}

/// Counts the connections that reach it.
async fn canary(address: &str) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind(address).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let reached = Arc::new(AtomicUsize::new(0));
    let count = reached.clone();
    tokio::spawn(async move {
        loop {
            let _ = listener.accept().await;
            count.fetch_add(1, Ordering::SeqCst);
        }
    });
    (port, reached)
}

fn private_names() -> Names {
    Names::default()
        .with("localhost", &[&["127.0.0.1", "::1"]])
        .with("localtest.example", &[&["127.0.0.1"]])
        .with("ten.example", &[&["10.0.0.1"]])
        .with("metadata.google.internal", &[&["169.254.169.254"]])
        .with("mapped.example", &[&["::ffff:127.0.0.1"]])
        .with("six.example", &[&["::1"]])
        .with("nat64.example", &[&["64:ff9b::7f00:1"]])
        .with("ula.example", &[&["fd00:ec2::254"]])
        .with("zero.example", &[&["0.0.0.0"]])
        // One public address does not make up for a private one.
        .with("mixed.example", &[&["8.8.8.8", "127.0.0.1"]])
        .with("mixed2.example", &[&["127.0.0.1", "8.8.8.8"]])
        .with("third.example", &[&["8.8.8.8", "1.1.1.1", "192.168.0.1"]])
        .with("sixth.example", &[&["2606:4700:4700::1111", "fd00::1"]])
        .with("a.localhost", &[&["127.0.0.1"]])
        .with("localhost.localdomain", &[&["127.0.0.1"]])
        .with("ip6-localhost", &[&["::1"]])
        .with("link.example", &[&["fe80::1"]])
        .with("shared.example", &[&["100.64.0.1"]])
        .with("many.example", &[&["224.0.0.1"]])
        .with("azure.example", &[&["168.63.129.16"]])
        .with("sixtofour.example", &[&["2002:7f00:1::"]])
        .with("xn--bcher-kva.example", &[&["10.0.0.1"]])
        .with("none.example", &[&[]])
}

async fn call(outbound: Outbound, url: String) -> Done {
    let http = Arc::new(Http::new(Arc::new(outbound)));
    perform(http, Run::Http(get(url)), None, Cancel::default()).await
}

/// Not one of them is connected to: not even tried, which would end as "cannot connect".
#[tokio::test]
async fn no_spelling_of_a_private_address_is_connected_to() {
    let (port, reached) = canary("[::]:0").await;
    let mut tried = 0;
    for host in hosts() {
        for form in FORMS {
            let url = form.replace("{host}", host).replace("{p}", &port.to_string());
            let done = call(outbound("").resolver(private_names()), url.clone()).await;
            let failure = done.failure();
            let is_refused = failure.reason.contains("http_allow")
                || failure.reason.starts_with("the url ")
                // Whoever is not known has no address.
                || failure.reason == "cannot connect: no such host"
                || failure.reason == "cannot connect: the name has no address";
            assert!(is_refused, "{url}: {}", failure.reason);
            assert_eq!(failure.ran, Ran::No, "{url}");
            tried += 1;
        }
    }
    let distinct: HashSet<&str> = hosts().collect();
    assert_eq!(distinct.len(), hosts().count(), "a host is listed twice");
    assert!(distinct.len() >= HOSTS_MIN, "only {} hosts", distinct.len());
    assert_eq!(tried, distinct.len() * FORMS.len());
    assert_eq!(reached.load(Ordering::SeqCst), 0, "the canary was reached");
}

/// The same canary is reached where it is allowed, or the test above would prove nothing.
#[tokio::test]
async fn the_canary_sings_where_it_is_allowed() {
    let (port, reached) = canary("127.0.0.1:0").await;
    for host in ["127.0.0.1", "2130706433", "localtest.example", "[::ffff:127.0.0.1]"] {
        let spec = HttpCall { timeout: punctual_core::Span::from_millis(200), ..get(format!("http://{host}:{port}/")) };
        let outbound = outbound("127.0.0.0/8").resolver(private_names());
        perform(Arc::new(Http::new(Arc::new(outbound))), Run::Http(spec), None, Cancel::default()).await;
    }
    assert_eq!(reached.load(Ordering::SeqCst), 4);
}

#[tokio::test]
async fn a_refusal_is_final_proves_that_nothing_ran_and_says_what_to_change() {
    let failure = call(outbound(""), "http://10.1.2.3/".to_owned()).await.failure();
    assert_eq!(
        failure.reason,
        "not called: 10.1.2.3 is a private address, which this worker does not call; the worker's setting \
         http_allow can allow it"
    );
    assert_eq!((failure.class, failure.last, failure.ran), (FailureClass::Task, Last::Yes, Ran::No));
}

/// Below the guard, a name that is harmless when it is checked and private a moment later.
#[tokio::test]
async fn a_name_that_changes_its_address_is_connected_where_it_was_checked() {
    let (received_addr, received) = answering_at("127.0.0.2:0", ok("hello")).await;
    let port = received_addr.port();
    let (_, reached) = canary(&format!("127.0.0.1:{port}")).await;
    let names = Names::default().with("rebind.example", &[&["127.0.0.2"], &["127.0.0.1"]]);
    let http = Arc::new(Http::new(Arc::new(outbound("127.0.0.2").resolver(names.clone()))));

    let url = format!("http://rebind.example:{port}/");
    let first = perform(http.clone(), Run::Http(get(url.clone())), None, Cancel::default()).await;
    assert_eq!(first.output()["body"], "hello");
    assert_eq!(names.asked(), 1, "one look-up for one connection");
    // The connection of the first call ends with the far side; a new one asks again.
    let fresh = Http::new(Arc::new(outbound("127.0.0.2").resolver(names.clone())));
    let second = perform(Arc::new(fresh), Run::Http(get(url)), None, Cancel::default()).await;
    assert!(second.failure().reason.contains("rebind.example is at 127.0.0.1"));
    assert_eq!((received.lock().unwrap().len(), reached.load(Ordering::SeqCst)), (1, 0));
}

#[tokio::test]
async fn a_redirect_into_a_private_network_is_not_followed() {
    let (port, reached) = canary("[::]:0").await;
    for target in [
        format!("http://127.0.0.1:{port}/"),
        format!("http://2130706433:{port}/"),
        format!("http://[::ffff:7f00:1]:{port}/"),
        format!("http://localtest.example:{port}/"),
        format!("//127.0.0.1:{port}/"),
        "http://169.254.169.254/latest/meta-data/".to_owned(),
        "http://mixed.example/".to_owned(),
    ] {
        for status in ["301 Moved", "302 Found", "303 Other", "307 Same", "308 Same"] {
            let answer = format!("HTTP/1.1 {status}\r\nlocation: {target}\r\ncontent-length: 0\r\n\r\n");
            let (addr, received) = answering_at("127.0.0.2:0", answer).await;
            let spec = HttpCall { follow_redirects: 5, ..get(format!("http://{addr}/")) };
            let outbound = outbound("127.0.0.2").resolver(private_names());
            let http = Arc::new(Http::new(Arc::new(outbound)));
            let failure = perform(http, Run::Http(spec), None, Cancel::default()).await.failure();
            assert!(failure.reason.contains("http_allow"), "{target}: {}", failure.reason);
            // The first place was called, and it answered.
            assert_eq!((failure.last, failure.ran), (Last::Yes, Ran::Yes), "{target}");
            assert_eq!(received.lock().unwrap().len(), 1);
        }
    }
    assert_eq!(reached.load(Ordering::SeqCst), 0, "the canary was reached");
}

#[tokio::test]
async fn messages_to_slack_are_guarded_too() {
    let (port, reached) = canary("127.0.0.1:0").await;
    let webhooks = SlackWebhooks::parse(&format!("ops=http://127.0.0.1:{port}/s3cret")).unwrap();
    for (webhook, names) in [
        ("ops", Names::default()),
        ("https://hooks.slack.com/services/s3cret", Names::default().with("hooks.slack.com", &[&["127.0.0.1"]])),
    ] {
        let slack = Arc::new(Slack::new(Arc::new(outbound("").resolver(names)), webhooks.clone()));
        let message = Message { webhook: webhook.to_owned(), text: Some("hi".to_owned()) };
        let done = perform(slack, Run::Slack(message), None, Cancel::default()).await;
        assert!(!done.log.contains("s3cret"), "{}", done.log);
        let failure = done.failure();
        assert!(failure.reason.contains("http_allow") && !failure.reason.contains("s3cret"), "{}", failure.reason);
        assert_eq!((failure.last, failure.ran), (Last::Yes, Ran::No));
    }
    assert_eq!(reached.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn what_is_denied_is_not_called_although_it_is_allowed() {
    let (port, reached) = canary("127.0.0.1:0").await;
    let guard = punctual_exec::Guard::new(
        Places::parse("127.0.0.0/8").unwrap(),
        Places::parse("127.0.0.1, denied.example").unwrap(),
    );
    for host in ["127.0.0.1", "denied.example"] {
        let names = Names::default().with("denied.example", &[&["127.0.0.1"]]);
        let outbound = Outbound::new(guard.clone()).resolver(names);
        let failure = call(outbound, format!("http://{host}:{port}/")).await.failure();
        assert!(failure.reason.contains("http_deny"), "{}", failure.reason);
    }
    assert_eq!(reached.load(Ordering::SeqCst), 0);
}
