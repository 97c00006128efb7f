//! Asks the kernel for one TCP socket by `sock_diag` (see sock_diag(7)): one message there, one back, whatever else is open.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, connect, recv, send, socket_with};

use super::{Pair, Socket};

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST: u16 = 1;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const IPPROTO_TCP: u8 = 6;

/// A `nlmsghdr`.
const HEADER_LEN: usize = 16;
/// With an `inet_diag_req_v2`.
const REQUEST_LEN: usize = HEADER_LEN + 56;
/// With an `inet_diag_msg`; attributes may follow.
const REPLY_LEN_MIN: usize = HEADER_LEN + 72;
const REPLY_LEN_MAX: usize = 4096;
/// Where the `inet_diag_sockid` begins in either.
const REQUEST_ID_AT: usize = HEADER_LEN + 8;
const REPLY_ID_AT: usize = HEADER_LEN + 4;
/// Two ports and two addresses.
const ADDRESSES_LEN: usize = 4 + 32;

/// The socket at `pair.from` that is connected to `pair.to`. An error means that the kernel cannot be asked.
pub(super) fn find(pair: Pair) -> io::Result<Option<Socket>> {
    let asked = addresses(pair.from, pair.to);
    // An IPv6 socket that speaks IPv4 is answered with its addresses in IPv6.
    let mapped = addresses(mapped(pair.from), mapped(pair.to));
    let found = ask(family(pair.from), &asked)?;
    // Without a connection the kernel answers with whoever listens there.
    Ok(found.filter(|(answered, _)| [asked, mapped].contains(answered)).map(|(_, socket)| socket))
}

/// The socket that listens at an address.
pub(super) fn listener(address: SocketAddr) -> io::Result<Option<Socket>> {
    const LISTEN: u8 = 10;
    let anywhere = match address.ip() {
        IpAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        IpAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    let found = ask(family(address), &addresses(address, anywhere))?;
    Ok(found.map(|(_, socket)| socket).filter(|socket| socket.state == LISTEN))
}

fn mapped(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) => SocketAddr::from((ip.to_ipv6_mapped(), address.port())),
        IpAddr::V6(_) => address,
    }
}

fn family(address: SocketAddr) -> u8 {
    if address.is_ipv4() { AF_INET } else { AF_INET6 }
}

fn addresses(from: SocketAddr, to: SocketAddr) -> [u8; ADDRESSES_LEN] {
    let mut bytes = [0; ADDRESSES_LEN];
    for (at, address) in [(0, from), (1, to)] {
        bytes[2 * at..][..2].copy_from_slice(&address.port().to_be_bytes());
        let place = &mut bytes[4 + 16 * at..];
        match address.ip() {
            IpAddr::V4(ip) => place[..4].copy_from_slice(&ip.octets()),
            IpAddr::V6(ip) => place[..16].copy_from_slice(&ip.octets()),
        }
    }
    bytes
}

fn ask(family: u8, addresses: &[u8; ADDRESSES_LEN]) -> io::Result<Option<([u8; ADDRESSES_LEN], Socket)>> {
    let kernel = open()?;
    send(&kernel, &request(family, addresses), SendFlags::empty())?;
    let mut reply = [0; REPLY_LEN_MAX];
    // The kernel has answered by the time that the request is sent.
    let (len, _) = recv(&kernel, &mut reply[..], RecvFlags::DONTWAIT)?;
    read(&reply[..len])
}

/// A socket that hears the kernel alone.
fn open() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    let kernel = socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, Some(netlink::SOCK_DIAG))?;
    connect(&kernel, &SocketAddrNetlink::new(0, 0))?;
    Ok(kernel)
}

fn request(family: u8, addresses: &[u8; ADDRESSES_LEN]) -> [u8; REQUEST_LEN] {
    let mut bytes = [0; REQUEST_LEN];
    bytes[..4].copy_from_slice(&(REQUEST_LEN as u32).to_ne_bytes());
    bytes[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes[6..8].copy_from_slice(&NLM_F_REQUEST.to_ne_bytes());
    bytes[HEADER_LEN] = family;
    bytes[HEADER_LEN + 1] = IPPROTO_TCP;
    // Sockets in any state.
    bytes[HEADER_LEN + 4..][..4].fill(0xff);
    bytes[REQUEST_ID_AT..][..ADDRESSES_LEN].copy_from_slice(addresses);
    // After the number of a network interface, 0 for any: no cookie.
    bytes[REQUEST_ID_AT + ADDRESSES_LEN + 4..].fill(0xff);
    bytes
}

fn read(reply: &[u8]) -> io::Result<Option<([u8; ADDRESSES_LEN], Socket)>> {
    let strange = || io::Error::new(io::ErrorKind::InvalidData, "the kernel's answer cannot be read");
    let word = |at: usize| reply.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).ok_or_else(strange);
    let kind = reply.get(4..6).and_then(|bytes| bytes.try_into().ok()).ok_or_else(strange)?;
    match u16::from_ne_bytes(kind) {
        NLMSG_ERROR => match i32::from_ne_bytes(word(HEADER_LEN)?) {
            error if error == -Errno::NOENT.raw_os_error() => Ok(None),
            error => Err(io::Error::from_raw_os_error(error.saturating_neg())),
        },
        SOCK_DIAG_BY_FAMILY if reply.len() >= REPLY_LEN_MIN => {
            let addresses = reply[REPLY_ID_AT..][..ADDRESSES_LEN].try_into().expect("as long as that");
            let state = reply[HEADER_LEN + 1];
            let uid = u32::from_ne_bytes(word(REPLY_LEN_MIN - 8)?);
            let inode = u32::from_ne_bytes(word(REPLY_LEN_MIN - 4)?);
            Ok(Some((addresses, Socket { state, uid, inode })))
        }
        _ => Err(strange()),
    }
}
