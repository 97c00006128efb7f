//! A program with a network reaches other machines and not the loopback of its own. The test makes a network for
//! that: this machine and another one, with a cable between them.

use std::fs::File;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::AsFd;
use std::process::Command;
use std::time::Duration;

use punctual_sandbox::{LaunchError, Network};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::lab::{User, job, launcher, run};

/// Set for the part that runs in the network of the test's own: the process whose network is the other machine's.
const OTHER: &str = "PUNCTUAL_TEST_OTHER_MACHINE";
const OTHER_ADDRESS: &str = "198.18.0.1";
const TEST: &str = "network::another_machine_is_reached_and_the_own_loopback_is_not";

/// `$1` says whether there is a route to the other machine.
const SCRIPT: &str = r#"
set -e
route=$1; shift
ip link set lo up
ip link add out0 type veth peer name far0
unshare --net sleep 120 & other=$!
trap 'kill $other' EXIT
while [ "$(readlink /proc/$other/ns/net)" = "$(readlink /proc/self/ns/net)" ]; do sleep 0.02; done
ip link set far0 netns $other
nsenter --net=/proc/$other/ns/net sh -c 'ip addr add 198.18.0.1/24 dev far0 && ip link set far0 up'
ip addr add 198.18.0.2/24 dev out0
ip link set out0 up
if [ $route = route ]; then ip route add default via 198.18.0.1; fi
PUNCTUAL_TEST_OTHER_MACHINE=$other "$@"
"#;

fn in_own_network(route: &str, command: &[&str]) -> Option<std::process::Output> {
    let args = ["--net", "sh", "-c", SCRIPT, "sh", route];
    Command::new("unshare").args(args).args(command).output().ok()
}

#[test]
fn another_machine_is_reached_and_the_own_loopback_is_not() {
    if std::env::var_os(OTHER).is_some() {
        return tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(inside());
    }
    if !in_own_network("route", &["true"]).is_some_and(|probe| probe.status.success()) {
        eprintln!("skipped: a network of the test's own, because it takes root, unshare and ip");
        return;
    }
    let own = std::env::current_exe().unwrap();
    for route in ["route", "none"] {
        let ran = in_own_network(route, &[own.to_str().unwrap(), "--exact", TEST, "--nocapture"]).unwrap();
        let text = String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success() && text.contains("1 passed"), "{route}: {text}");
    }
}

/// Sockets of the other machine, on one port.
fn listen_elsewhere() -> (TcpListener, UdpSocket) {
    let process = std::env::var(OTHER).unwrap();
    let listening = std::thread::spawn(move || {
        let network = File::open(format!("/proc/{process}/ns/net")).unwrap();
        // Of this thread alone, which ends with it.
        move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
        let tcp = TcpListener::bind((OTHER_ADDRESS, 0)).unwrap();
        let udp = UdpSocket::bind(tcp.local_addr().unwrap()).unwrap();
        (tcp, udp)
    });
    listening.join().unwrap()
}

async fn inside() {
    let routes = std::fs::read_to_string("/proc/net/route").unwrap();
    let has_route = routes.lines().any(|route| route.split_whitespace().nth(1) == Some("00000000"));
    let (tcp, udp) = listen_elsewhere();
    udp.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let port = tcp.local_addr().unwrap().port();
    // The same port on the own loopback.
    let own = TcpListener::bind(("127.0.0.1", port)).unwrap();
    own.set_nonblocking(true).unwrap();
    let own_udp = UdpSocket::bind(("127.0.0.1", port)).unwrap();
    own_udp.set_nonblocking(true).unwrap();
    for user in [User::Same, User::Nobody] {
        let launcher = launcher(user).await;
        let attack = |name: &str| {
            let mut job = job("network", &[name, "-", "-", &port.to_string(), "-", OTHER_ADDRESS]);
            job.network = Network::Host;
            job
        };
        if !has_route {
            match launcher.run(attack("far_away")).await {
                Err(LaunchError::Setup { step, cause }) => {
                    assert_eq!(step, "give the program a network without the loopback of this machine");
                    assert_eq!(cause.raw_os_error(), Some(libc::ENETUNREACH));
                }
                other => panic!("{other:?}"),
            }
            continue;
        }
        let ran = run(&launcher, attack("far_away")).await;
        // Here it is no escape, but what was asked for.
        assert_eq!(ran.code(), 66, "{ran:?}");
        assert!(!ran.stdout.contains("refused"), "{ran:?}");
        tcp.accept().unwrap();
        assert_eq!(udp.recv(&mut [0; 8]).unwrap(), 1);
        for name in ["tcp_all_loopback", "udp_all_loopback", "name_another_device"] {
            let ran = run(&launcher, attack(name)).await;
            assert_eq!(ran.code(), 0, "{name}: {ran:?}");
        }
        assert!(own.accept().is_err() && own_udp.recv(&mut [0; 8]).is_err(), "loopback was reached");
    }
}
