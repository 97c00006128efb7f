//! Finds one TCP socket in the kernel's list of all (see proc_pid_net(5)), where there is no `sock_diag`.

use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::{Pair, Socket};

/// IPv6 sockets that speak IPv4 are in the list of IPv6.
pub(super) fn find(pair: Pair) -> io::Result<Option<Socket>> {
    let mut found = None;
    for (list, pair) in lists(pair) {
        found = found.or(match File::open(list) {
            Ok(file) => search(BufReader::new(file), &written(pair.from), &written(pair.to))?,
            // A machine without IPv6.
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        });
    }
    Ok(found)
}

fn lists(pair: Pair) -> Vec<(&'static str, Pair)> {
    match (pair.from.ip(), pair.to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let mapped = |ip: Ipv4Addr, port| SocketAddr::from((ip.to_ipv6_mapped(), port));
            let as_ipv6 = Pair { from: mapped(from, pair.from.port()), to: mapped(to, pair.to.port()) };
            vec![("/proc/net/tcp", pair), ("/proc/net/tcp6", as_ipv6)]
        }
        _ => vec![("/proc/net/tcp6", pair)],
    }
}

/// An address as the kernel writes it: each word of four bytes as one number.
fn written(address: SocketAddr) -> String {
    let bytes = match address.ip() {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let (words, _) = bytes.as_chunks::<4>();
    let words: String = words.iter().map(|word| format!("{:08X}", u32::from_ne_bytes(*word))).collect();
    format!("{words}:{:04X}", address.port())
}

fn search(list: impl BufRead, from: &str, to: &str) -> io::Result<Option<Socket>> {
    for line in list.lines() {
        let line = line?;
        let mut fields = line.split_whitespace().skip(1);
        if fields.next() != Some(from) || fields.next() != Some(to) {
            continue;
        }
        // After the state come queues, a timer and the retransmissions; after the user a count of probes.
        let state = fields.next().and_then(|state| u8::from_str_radix(state, 16).ok());
        let uid = fields.nth(3).and_then(|uid| uid.parse().ok());
        let inode = fields.nth(1).and_then(|inode| inode.parse().ok());
        if let (Some(state), Some(uid), Some(inode)) = (state, uid, inode) {
            return Ok(Some(Socket { state, uid, inode }));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_by_both_addresses() {
        let list = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
                    0: 0100007F:1F54 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 11 1 0 100 0\n   \
                    1: 0100007F:C350 0100007F:1F54 01 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0 20\n";
        let find = |from, to| search(list.as_bytes(), from, to).unwrap();
        assert_eq!(find("0100007F:C350", "0100007F:1F54"), Some(Socket { state: 1, uid: 1000, inode: 4711 }));
        assert_eq!(find("0100007F:1F54", "0100007F:C350"), None);
    }
}
