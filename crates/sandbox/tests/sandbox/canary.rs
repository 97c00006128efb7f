//! Things outside that no program may reach: a file, a process, ports and a socket. If one of
//! them changes, something escaped.

use std::fs;
use std::io::ErrorKind;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::PathBuf;
use std::process::{Child, Command};

const SECRET: &str = "nobody inside may read this";

pub(crate) struct Canary {
    folder: tempfile::TempDir,
    process: Child,
    tcp: TcpListener,
    udp: UdpSocket,
    socket: UnixListener,
    socket_name: String,
}

impl Canary {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let file = folder.path().join("canary");
        fs::write(&file, SECRET).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        tcp.set_nonblocking(true).unwrap();
        let udp = UdpSocket::bind(tcp.local_addr().unwrap()).unwrap();
        udp.set_nonblocking(true).unwrap();
        let socket_name = format!("punctual-canary-{}", file.display());
        let socket = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&socket_name).unwrap()).unwrap();
        socket.set_nonblocking(true).unwrap();
        let process = Command::new("sleep").arg("600").spawn().unwrap();
        Self { folder, process, tcp, udp, socket, socket_name }
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.folder.path().join("canary")
    }

    /// What an attack is told: file, process, port, socket.
    pub(crate) fn targets(&self) -> [String; 4] {
        [
            self.file().display().to_string(),
            self.process.id().to_string(),
            self.tcp.local_addr().unwrap().port().to_string(),
            self.socket_name.clone(),
        ]
    }

    pub(crate) fn assert_untouched(&mut self) {
        assert_eq!(fs::read_to_string(self.file()).unwrap(), SECRET);
        assert_eq!(fs::read_dir(self.folder.path()).unwrap().count(), 1);
        assert!(self.process.try_wait().unwrap().is_none(), "the process outside was killed");
        assert_eq!(self.tcp.accept().unwrap_err().kind(), ErrorKind::WouldBlock, "a connection came");
        assert_eq!(self.udp.recv(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock, "a packet came");
        assert_eq!(self.socket.accept().unwrap_err().kind(), ErrorKind::WouldBlock, "a connection came");
    }
}

impl Drop for Canary {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
