//! A name server that changes its mind, asked the way a worker asks: by the system's resolver, over
//! UDP. The test makes a network of its own for that, in which there is nothing else.

use std::net::{Ipv4Addr, UdpSocket};
use std::process::Command;

use super::*;

/// Set for the part that runs in the network of its own.
const INSIDE: &str = "PUNCTUAL_TEST_INSIDE";
const PUBLIC: &str = "93.184.216.34";
const METADATA: &str = "169.254.169.254";
const PORT: u16 = 8080;
const CALLS: usize = 60;

#[test]
fn a_name_server_that_changes_its_mind_leads_nobody_inside() {
    if std::env::var_os(INSIDE).is_some() {
        return tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(inside());
    }
    let folder = tempfile::tempdir().unwrap();
    let resolver = folder.path().join("resolv.conf");
    std::fs::write(&resolver, "nameserver 127.0.0.1\noptions attempts:1 timeout:2\n").unwrap();
    let script = format!(
        "mount --bind {resolver} /etc/resolv.conf && ip link set lo up && ip addr add {PUBLIC}/32 dev lo \
         && ip addr add {METADATA}/32 dev lo && exec \"$@\"",
        resolver = resolver.display()
    );
    let probe = Command::new("unshare").args(["--net", "--mount", "sh", "-c", &script, "sh", "true"]).output();
    if !probe.is_ok_and(|probe| probe.status.success()) {
        eprintln!("skipped: a network of the test's own, because it takes root, unshare and ip");
        return;
    }
    let own = std::env::current_exe().unwrap();
    let test = "rebinding::a_name_server_that_changes_its_mind_leads_nobody_inside";
    let ran = Command::new("unshare")
        .args(["--net", "--mount", "sh", "-c", &script, "sh"])
        .arg(own)
        .args(["--exact", test, "--nocapture"])
        .env(INSIDE, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success() && text.contains("1 passed"), "{text}");
}

async fn inside() {
    let asked = Arc::new(AtomicUsize::new(0));
    serve_names(asked.clone());
    let (_, at_home) = canary(&format!("127.0.0.1:{PORT}")).await;
    let (_, at_metadata) = canary(&format!("{METADATA}:{PORT}")).await;
    let again = format!("HTTP/1.1 302 Found\r\nlocation: http://turns.example:{PORT}/\r\ncontent-length: 0\r\n\r\n");
    let (_, outside) = answering_at(&format!("{PUBLIC}:{PORT}"), again).await;

    let mut refused = 0;
    for name in ["turns.example", "both.example", "cloud.example", "alias.example"] {
        for call in 0..CALLS / 4 {
            let spec = HttpCall { follow_redirects: 3, ..get(format!("http://{name}:{PORT}/{call}")) };
            // With a connection of its own each.
            let http = Arc::new(Http::new(Arc::new(outbound(""))));
            let done = perform(http, Run::Http(spec), None, Cancel::default()).await;
            refused += usize::from(done.failure().reason.contains("which this worker does not call"));
        }
    }
    let reached = [&at_home, &at_metadata].map(|canary| canary.load(Ordering::SeqCst));
    assert_eq!(reached, [0, 0], "nobody came inside");
    assert!(refused >= CALLS / 2, "{refused} of {CALLS} were led there");
    assert!(outside.lock().unwrap().len() >= 5, "some were led to where they may go, and on from there");
    assert!(asked.load(Ordering::SeqCst) >= CALLS, "the name server was asked");

    // Where it is allowed, the same names lead there, or all of this would prove nothing.
    for _ in 0..4 {
        let mut spec = get(format!("http://turns.example:{PORT}/"));
        spec.timeout = punctual_core::Span::from_millis(200);
        let http = Arc::new(Http::new(Arc::new(outbound("127.0.0.0/8"))));
        perform(http, Run::Http(spec), None, Cancel::default()).await;
    }
    assert!(at_home.load(Ordering::SeqCst) > 0, "the canary sings");
}

/// Answers with addresses that change from question to question, good for no time at all.
fn serve_names(asked: Arc<AtomicUsize>) {
    let socket = UdpSocket::bind("127.0.0.1:53").unwrap();
    std::thread::spawn(move || {
        let mut packet = [0; 512];
        while let Ok((len, from)) = socket.recv_from(&mut packet) {
            if let Some(answer) = answer(&packet[..len], &asked) {
                let _ = socket.send_to(&answer, from);
            }
        }
    });
}

fn answer(question: &[u8], asked: &AtomicUsize) -> Option<Vec<u8>> {
    let (name, end) = name_at(question, 12)?;
    let kind = question.get(end..end + 2)?;
    let is_v4 = kind == [0, 1];
    let (public, home): (Ipv4Addr, Ipv4Addr) = (PUBLIC.parse().unwrap(), Ipv4Addr::LOCALHOST);
    let turn = if is_v4 { asked.fetch_add(1, Ordering::SeqCst) } else { 0 };
    let addresses = match name.as_str() {
        _ if !is_v4 => vec![],
        "both.example" if turn.is_multiple_of(2) => vec![public, home],
        "both.example" => vec![home, public],
        "cloud.example" if turn.is_multiple_of(2) => vec![METADATA.parse().unwrap()],
        // Also what an alias stands for.
        _ if turn.is_multiple_of(2) => vec![public],
        _ => vec![home],
    };
    let mut answer = question[..2].to_vec();
    let is_alias = name == "alias.example" && !addresses.is_empty();
    let records = addresses.len() as u8 + u8::from(is_alias);
    // An answer without errors, one question, so many records.
    answer.extend([0x85, 0x80, 0, 1, 0, records, 0, 0, 0, 0]);
    answer.extend(&question[12..end + 4]);
    let mut owner: Vec<u8> = vec![0xc0, 12];
    if is_alias {
        let other = b"\x06behind\x07example\x00";
        answer.extend(&owner);
        answer.extend([0, 5, 0, 1, 0, 0, 0, 0, 0, other.len() as u8]);
        answer.extend(other);
        owner = other.to_vec();
    }
    for address in addresses {
        answer.extend(&owner);
        answer.extend([0, 1, 0, 1, 0, 0, 0, 0, 0, 4]);
        answer.extend(address.octets());
    }
    Some(answer)
}

/// The name in a question, and the place after it.
fn name_at(packet: &[u8], mut place: usize) -> Option<(String, usize)> {
    let mut labels = Vec::new();
    loop {
        let len = usize::from(*packet.get(place)?);
        place += 1;
        if len == 0 {
            return Some((labels.join("."), place));
        }
        labels.push(String::from_utf8_lossy(packet.get(place..place + len)?).to_lowercase());
        place += len;
    }
}
