//! Messages to programs: JSON that is signed.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, channel};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ring::hmac;
use serde_json::{Value, json};

use super::{BROKEN, Office};
use crate::harness::PATIENCE;

/// Of the worker's settings, without `whsec_`.
pub(super) const KEY: &str = "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

struct Request {
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    #[track_caller]
    fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(known, _)| known == name);
        &found.unwrap_or_else(|| panic!("no header {name} in {:?}", self.headers)).1
    }
}

/// Says yes to everything.
fn receiver() -> (SocketAddr, Receiver<Request>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let (sender, requests) = channel();
    std::thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            let mut reader = BufReader::new(socket.try_clone().expect("a second handle"));
            let lines = reader.by_ref().lines().map_while(Result::ok).take_while(|line| !line.is_empty());
            let headers: Vec<(String, String)> = lines
                .filter_map(|line| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned())))
                .collect();
            let length = headers.iter().find(|(name, _)| name == "content-length");
            let mut body = vec![0; length.and_then(|(_, value)| value.parse().ok()).unwrap_or(0)];
            reader.read_exact(&mut body).expect("the body comes");
            let _ = socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok");
            if sender.send(Request { headers, body }).is_err() {
                return;
            }
        }
    });
    (address, requests)
}

#[test]
fn a_webhook_gets_signed_json() {
    let office = Office::new();
    let (address, requests) = receiver();
    office.ok(&format!("notify apply pager --webhook http://{address}/hook --sign-with pager --window 5s"));
    office.ok(&format!("task apply broken {BROKEN}"));
    let job = office.fails("broken");
    let request = requests.recv_timeout(PATIENCE).expect("it is called");

    let (id, timestamp) = (request.header("webhook-id"), request.header("webhook-timestamp"));
    let key = hmac::Key::new(hmac::HMAC_SHA256, &BASE64_STANDARD.decode(KEY).expect("it is base64"));
    let signed = [format!("{id}.{timestamp}.").as_bytes(), &request.body].concat();
    let signature = request.header("webhook-signature").strip_prefix("v1,").expect("the first version").to_owned();
    let signature = BASE64_STANDARD.decode(signature).expect("it is base64");
    hmac::verify(&key, &signed, &signature).expect("the signature is ours");

    let message: Value = serde_json::from_slice(&request.body).expect("it is JSON");
    assert_eq!(request.header("content-type"), "application/json");
    assert_eq!((&message["type"], &message["rule"]), (&json!("punctual.notification"), &json!("pager")));
    assert_eq!(
        (&message["counts"], &message["subject"]),
        (&json!({ "failed": 1 }), &json!("[punctual] broken failed"))
    );
    let event = &message["events"][0];
    assert_eq!((&event["kind"], &event["task"], &event["job"]), (&json!("failed"), &json!("broken"), &json!(job)));
    assert_eq!(event["reason"], "attempt 1 failed as asked: the first 1 do");
    assert_eq!(event["link"], json!(format!("{}/v1/jobs/{job}", office.server.url)));
    assert_eq!((&event["attempts"][0]["attempt"], &event["attempts"][0]["ending"]), (&json!(1), &json!("failed")));
    assert_eq!(office.json("notify log pager")["deliveries"][0]["job"], id, "the id is that of the delivery");
}
