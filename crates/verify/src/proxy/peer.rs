//! Which process dialled. All parts of a cluster dial from the same address, so the proxy
//! asks the kernel whose socket is at the other end.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

const READS: usize = 5;

/// The processes that may dial.
#[derive(Debug, Clone, Default)]
pub struct Known(Arc<Mutex<BTreeSet<u32>>>);

impl Known {
    pub fn add(&self, pid: u32) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(pid);
    }

    pub fn remove(&self, pid: u32) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&pid);
    }

    /// Absent for a process that is not one of the known.
    pub fn owner_of(&self, socket: SocketAddr) -> Option<u32> {
        let SocketAddr::V4(v4) = socket else { return None };
        let address = u32::from_le_bytes(v4.ip().octets());
        let wanted = format!("{address:08X}:{:04X}", v4.port());
        // The table is read in pieces and changes meanwhile, so that a line may be missed.
        let inode = (0..READS).find_map(|_| inode_of(&wanted))?;
        let link = format!("socket:[{inode}]");
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        known.into_iter().find(|pid| holds(*pid, &link))
    }
}

fn inode_of(wanted: &str) -> Option<String> {
    let table = std::fs::read_to_string("/proc/net/tcp").ok()?;
    table.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let inode = (words.nth(1) == Some(wanted)).then(|| words.nth(7))??;
        // A connection that is over keeps its line for a while, without a socket.
        (inode != "0").then(|| inode.to_owned())
    })
}

fn holds(pid: u32, link: &str) -> bool {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    files.filter_map(|file| std::fs::read_link(file.path()).ok()).any(|target| target.as_os_str() == link)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_socket_is_traced_to_its_process() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let _stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (_accepted, from) = listener.accept().unwrap();
        let known = Known::default();
        assert_eq!(known.owner_of(from), None);
        known.add(std::process::id());
        assert_eq!(known.owner_of(from), Some(std::process::id()));
    }
}
