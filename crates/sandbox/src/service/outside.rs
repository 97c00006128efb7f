//! The network of a program that has one. The program lives in an empty network namespace; the launcher makes its
//! internet sockets in the machine's, and binds each to the device of the default route. From there the machine's
//! loopback cannot be reached, whatever address is asked for, and the program cannot undo it.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, socket_with};

use super::start::NOBODY;
use crate::sys::listener::{self, Next, SocketCall};

/// Calls that are answered before other sandboxes get a turn.
const CALLS_AT_ONCE: usize = 16;

/// A route that refuses, in the flags of `/proc/net/ipv6_route`.
const REFUSING: u32 = 0x0200;
const LOOPBACK: &str = "lo";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListenerState {
    MoreMayCome,
    /// No process of the program is left.
    Over,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
}

pub(super) fn serve(listener: BorrowedFd<'_>) -> ListenerState {
    for _ in 0..CALLS_AT_ONCE {
        match listener::next_call(listener) {
            Next::Call(call) => {
                let answered = open(&call).and_then(|socket| call.answer(listener, socket.as_fd()));
                if let Err(error) = answered {
                    call.refuse(listener, &error);
                }
            }
            Next::Nothing => return ListenerState::MoreMayCome,
            Next::End => return ListenerState::Over,
        }
    }
    ListenerState::MoreMayCome
}

/// Opens a socket. The filter has checked the arguments; they are checked here too.
fn open(call: &SocketCall) -> io::Result<OwnedFd> {
    let refused = || io::Error::from_raw_os_error(libc::EPROTONOSUPPORT);
    let (family, domain) = match call.family {
        libc::AF_INET => (Family::V4, AddressFamily::INET),
        libc::AF_INET6 => (Family::V6, AddressFamily::INET6),
        _ => return Err(refused()),
    };
    let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    let (kind, protocol) = match (call.kind & !flags, call.protocol) {
        (libc::SOCK_STREAM, 0 | libc::IPPROTO_TCP) => (SocketType::STREAM, ipproto::TCP),
        (libc::SOCK_DGRAM, 0 | libc::IPPROTO_UDP) => (SocketType::DGRAM, ipproto::UDP),
        _ => return Err(refused()),
    };
    let mut wanted = SocketFlags::CLOEXEC;
    if call.kind & libc::SOCK_NONBLOCK != 0 {
        wanted |= SocketFlags::NONBLOCK;
    }
    let device = device(family).ok_or_else(|| io::Error::from_raw_os_error(libc::ENETUNREACH))?;
    let socket = as_nobody(|| socket_with(domain, kind, wanted, Some(protocol)))?;
    listener::bind_to_device(socket.as_fd(), &device)?;
    Ok(socket)
}

/// Runs `work` as the user nobody, because a socket of root's would bypass firewall rules that depend on its owner.
fn as_nobody<T>(work: impl FnOnce() -> T) -> T {
    if !rustix::process::geteuid().is_root() {
        return work();
    }
    let before = listener::set_owner(NOBODY);
    let done = work();
    listener::set_owner(before);
    done
}

/// Read each time: a machine may change its network while a launcher lives.
pub(super) fn device(family: Family) -> Option<String> {
    let v4 = || default_device_v4(&fs::read_to_string("/proc/net/route").unwrap_or_default());
    let v6 = || default_device_v6(&fs::read_to_string("/proc/net/ipv6_route").unwrap_or_default());
    match family {
        Family::V4 => v4().or_else(v6),
        Family::V6 => v6().or_else(v4),
    }
}

/// Columns: device, destination, gateway, flags, two counts, metric, mask.
fn default_device_v4(table: &str) -> Option<String> {
    let route = |line: &str| {
        let mut columns = line.split_whitespace();
        let device = columns.next()?.to_owned();
        let destination = columns.next()?;
        let metric: u32 = columns.nth(4)?.parse().ok()?;
        let mask = columns.next()?;
        (destination == "00000000" && mask == "00000000" && device != LOOPBACK).then_some((metric, device))
    };
    table.lines().skip(1).filter_map(route).min_by_key(|(metric, _)| *metric).map(|(_, device)| device)
}

/// Columns: destination, its length, source, its length, gateway, metric, two counts, flags, device.
fn default_device_v6(table: &str) -> Option<String> {
    let route = |line: &str| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let [destination, len, _, _, _, metric, _, _, flags, device] = columns[..] else { return None };
        let number = |text: &str| u32::from_str_radix(text, 16).ok();
        let is_default = len == "00" && destination.bytes().all(|digit| digit == b'0');
        let is_usable = number(flags)? & REFUSING == 0 && device != LOOPBACK;
        (is_default && is_usable).then_some((number(metric)?, device.to_owned()))
    };
    table.lines().filter_map(route).min_by_key(|(metric, _)| *metric).map(|(_, device)| device)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_device_is_that_of_the_default_route_with_the_lowest_metric() {
        let head = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n";
        let route = |device, destination, metric, mask| {
            format!("{device}\t{destination}\t010200C0\t0003\t0\t0\t{metric}\t{mask}\t0\t0\t0   \n")
        };
        let none = format!("{head}{}", route("eth0", "000200C0", 0, "00FFFFFF"));
        assert_eq!(default_device_v4(&none), None);
        let loopback = format!("{none}{}", route("lo", "00000000", 0, "00000000"));
        assert_eq!(default_device_v4(&loopback), None);
        let two = format!(
            "{none}{}{}",
            route("wlan0", "00000000", 600, "00000000"),
            route("eth0", "00000000", 100, "00000000")
        );
        assert_eq!(default_device_v4(&two).as_deref(), Some("eth0"));
        assert_eq!(default_device_v4("garbage\nmore of it"), None);
    }

    #[test]
    fn a_route_that_refuses_is_no_way_out() {
        let zero = "0".repeat(32);
        let line = |len: &str, flags: &str, device: &str| {
            format!("{zero} {len} {zero} 00 {zero} 00000400 00000001 00000000 {flags} {device}\n")
        };
        assert_eq!(default_device_v6(&line("00", "00200200", "lo")), None);
        assert_eq!(default_device_v6(&line("00", "00000203", "eth0")), None);
        assert_eq!(default_device_v6(&line("40", "00000003", "eth0")), None);
        assert_eq!(default_device_v6(&line("00", "00000003", "eth0")).as_deref(), Some("eth0"));
    }
}
