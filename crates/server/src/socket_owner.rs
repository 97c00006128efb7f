//! Which user of this machine holds the other end of a connection, by what the kernel says.
//!
//! The kernel knows the user who made each socket. It is asked for the exact pair of addresses: by `sock_diag`, or by
//! `/proc/net/tcp` where that is missing. An answer counts only while both ends are there, so that a pair of addresses
//! that somebody else uses a moment later cannot be mistaken for it.

mod netlink;
mod proc_net;

use std::io;
use std::net::SocketAddr;
use std::sync::LazyLock;

use punctual_app::SocketUser;
use tokio::net::TcpStream;

/// A TCP socket as the kernel lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Socket {
    state: u8,
    uid: u32,
    /// 0 for a socket that no process holds any more.
    inode: u32,
}

/// A connection by its two addresses, seen from the side of its first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pair {
    from: SocketAddr,
    to: SocketAddr,
}

impl Pair {
    /// IPv6 sockets may speak IPv4; the kernel files them under IPv4.
    fn new(from: SocketAddr, to: SocketAddr) -> Self {
        let canonical = |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
        Self { from: canonical(from), to: canonical(to) }
    }

    fn reversed(self) -> Self {
        Self { from: self.to, to: self.from }
    }
}

impl Socket {
    /// Whether a process holds it. The kernel gives what nobody holds to root: connections that are not accepted yet, and
    /// those that are closed and still remembered.
    fn is_held(self) -> bool {
        const ESTABLISHED: u8 = 1;
        const FIN_WAIT_1: u8 = 4;
        const FIN_WAIT_2: u8 = 5;
        const CLOSE_WAIT: u8 = 8;
        self.inode != 0 && matches!(self.state, ESTABLISHED | FIN_WAIT_1 | FIN_WAIT_2 | CLOSE_WAIT)
    }
}

/// Who holds the other end of a connection that was accepted.
pub(crate) async fn user_of(stream: &TcpStream) -> SocketUser {
    let (Ok(peer), Ok(own)) = (stream.peer_addr(), stream.local_addr()) else { return SocketUser::Unknown };
    let pair = Pair::new(peer, own);
    if !pair.from.ip().is_loopback() || !pair.to.ip().is_loopback() {
        return SocketUser::Unknown;
    }
    let found = match by_netlink(pair) {
        Ok(found) => found,
        Err(error) => {
            tracing::debug!(%error, "no sock_diag here; reading /proc/net/tcp");
            // A list of all connections of the machine.
            let read = tokio::task::spawn_blocking(move || proc_net::find(pair)).await;
            read.ok().and_then(Result::ok).flatten()
        }
    };
    // If our end was reset meanwhile, the pair may be somebody else's by now.
    match found.filter(|socket| socket.is_held()) {
        Some(socket) if stream.peer_addr().is_ok_and(|now| now == peer) => user(socket.uid),
        _ => SocketUser::Unknown,
    }
}

/// `None` if there is no such socket, and an error if the kernel cannot be asked this way.
fn by_netlink(pair: Pair) -> io::Result<Option<Socket>> {
    if let Some(socket) = netlink::find(pair)? {
        return Ok(Some(socket));
    }
    // A kernel without the part that answers for TCP finds nothing at all, not even our own end.
    match netlink::find(pair.reversed())? {
        Some(_) => Ok(None),
        None => Err(io::ErrorKind::Unsupported.into()),
    }
}

fn user(uid: u32) -> SocketUser {
    match uid {
        // All users that have no number here look alike.
        _ if uid == OVERFLOW_UID && *IS_IN_USER_NAMESPACE => SocketUser::Unknown,
        _ if uid == rustix::process::geteuid().as_raw() => SocketUser::Own,
        0 => SocketUser::Root,
        _ => SocketUser::Other(uid),
    }
}

/// What users that are not mapped into a user namespace are shown as in it.
const OVERFLOW_UID: u32 = 65534;

static IS_IN_USER_NAMESPACE: LazyLock<bool> = LazyLock::new(|| {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    !map.split_whitespace().eq(["0", "0", "4294967295"])
});

/// The user of the process that listens at an address of this machine, if the kernel tells.
pub fn listening_user(address: SocketAddr) -> Option<SocketUser> {
    netlink::listener(address).ok().flatten().map(|socket| user(socket.uid))
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, TcpListener};

    use super::*;

    /// Both ends of a connection to a listener at `ip`; the client's end is made by `connect`.
    fn connected(ip: &str) -> (std::net::TcpStream, std::net::TcpStream) {
        let ip: IpAddr = ip.parse().unwrap();
        let listener = TcpListener::bind((ip, 0)).unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        (client, server)
    }

    fn pair(server: &std::net::TcpStream) -> Pair {
        Pair::new(server.peer_addr().unwrap(), server.local_addr().unwrap())
    }

    #[test]
    fn the_kernel_names_the_user_of_the_other_end() {
        let own = rustix::process::geteuid().as_raw();
        for ip in ["127.0.0.1", "127.9.8.7", "::1"] {
            let (client, server) = connected(ip);
            let pair = pair(&server);
            for found in [by_netlink(pair).unwrap(), proc_net::find(pair).unwrap()] {
                let socket = found.expect("the client's socket");
                assert!(socket.is_held() && socket.uid == own, "{ip}: {socket:?}");
            }
            drop(client);
        }
    }

    #[test]
    fn an_ipv6_socket_that_speaks_ipv4_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mapped: SocketAddr = format!("[::ffff:127.0.0.1]:{port}").parse().unwrap();
        let client = std::net::TcpStream::connect(mapped).unwrap();
        assert!(client.local_addr().unwrap().is_ipv6(), "the client's socket is IPv6");
        let (server, _) = listener.accept().unwrap();
        for found in [by_netlink(pair(&server)).unwrap(), proc_net::find(pair(&server)).unwrap()] {
            assert!(found.is_some_and(Socket::is_held));
        }
    }

    #[test]
    fn an_end_that_was_closed_belongs_to_nobody() {
        let (client, server) = connected("127.0.0.1");
        let pair = pair(&server);
        drop(client);
        for found in [by_netlink(pair).unwrap(), proc_net::find(pair).unwrap()] {
            assert!(!found.is_some_and(Socket::is_held), "{found:?}");
        }
    }

    #[test]
    fn a_listener_is_not_an_end_of_a_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let stranger = Pair::new(address, "127.0.0.1:1".parse().unwrap());
        assert_eq!(netlink::find(stranger).unwrap(), None);
        assert_eq!(proc_net::find(stranger).unwrap(), None);
        assert_eq!(listening_user(address), Some(user(rustix::process::geteuid().as_raw())));
        drop(listener);
        assert_eq!(listening_user(address), None);
    }

    #[tokio::test]
    async fn a_connection_that_was_reset_has_no_user() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = tokio::net::TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        assert_ne!(user_of(&server).await, SocketUser::Unknown);
        client.set_zero_linger().unwrap();
        drop(client);
        server.readable().await.unwrap();
        assert_eq!(user_of(&server).await, SocketUser::Unknown);
    }
}
