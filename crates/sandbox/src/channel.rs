//! Messages with descriptors between the worker, the launcher and the first process of a
//! sandbox. Packets on Unix sockets: each arrives whole or not at all.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

/// A job has five: its socket, the program, stdin, stdout and stderr.
const DESCRIPTORS_MAX: usize = 24;

#[derive(Debug)]
pub(crate) struct Packet {
    pub(crate) bytes: Vec<u8>,
    pub(crate) descriptors: Vec<OwnedFd>,
}

/// Two connected ends that never block and are not inherited.
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

pub(crate) fn send(socket: impl AsFd, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::Error::other("too many descriptors for one message"));
    }
    loop {
        match sendmsg(&socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL) {
            Err(rustix::io::Errno::INTR) => {}
            sent => return sent.map(drop).map_err(Into::into),
        }
    }
}

/// The next packet; `None` when the other side is gone.
pub(crate) fn receive(socket: impl AsFd, len_max: usize) -> io::Result<Option<Packet>> {
    let mut bytes = vec![0; len_max];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        match recvmsg(&socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC) {
            // What was sent and never read makes the end of a socket a reset, once. It is told before what the other side
            // said last, which is still to be read.
            Err(rustix::io::Errno::INTR | rustix::io::Errno::CONNRESET) => {}
            received => break received?,
        }
    };
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            descriptors.extend(received);
        }
    }
    // No message of ours is empty.
    if received.bytes == 0 {
        return Ok(None);
    }
    if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a message was longer than allowed"));
    }
    bytes.truncate(received.bytes);
    Ok(Some(Packet { bytes, descriptors }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_arrives_whole_with_its_descriptors() {
        let (one, other) = pair().unwrap();
        send(&one, b"hello", &[one.as_fd()]).unwrap();
        let packet = receive(&other, 16).unwrap().unwrap();
        assert_eq!(packet.bytes, b"hello");
        assert_eq!(packet.descriptors.len(), 1);
    }

    #[test]
    fn the_last_words_of_whoever_did_not_read_all_arrive() {
        let (one, other) = pair().unwrap();
        send(&other, b"never read", &[]).unwrap();
        send(&one, b"last words", &[]).unwrap();
        drop(one);
        assert_eq!(receive(&other, 16).unwrap().map(|packet| packet.bytes).as_deref(), Some(&b"last words"[..]));
        assert!(receive(&other, 16).unwrap().is_none());
    }

    #[test]
    fn a_closed_socket_is_an_end_and_a_long_packet_an_error() {
        let (one, other) = pair().unwrap();
        send(&one, b"longer than eight", &[]).unwrap();
        assert_eq!(receive(&other, 8).err().unwrap().kind(), io::ErrorKind::InvalidData);
        assert_eq!(receive(&other, 8).err().unwrap().kind(), io::ErrorKind::WouldBlock);
        drop(one);
        assert!(receive(&other, 8).unwrap().is_none());
    }
}
