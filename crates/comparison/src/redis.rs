//! A Redis of its own for each run, gone at its end.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::bail;
use tempfile::TempDir;

const START_LIMIT: Duration = Duration::from_secs(20);

pub(crate) struct Redis {
    child: Child,
    port: u16,
    // Removed when nobody uses it any more.
    _folder: TempDir,
}

impl Redis {
    pub(crate) fn start() -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("punctual-redis-").tempdir()?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        // It must not outlive us, however we end.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "redis-server", "--bind", "127.0.0.1", "--port", &port.to_string()]);
        command.args(["--appendonly", "yes", "--appendfsync", "everysec", "--save", "", "--dir"]).arg(folder.path());
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
        let redis = Self { child, port, _folder: folder };
        let begun = Instant::now();
        while !redis.answers().unwrap_or(false) {
            if begun.elapsed() > START_LIMIT {
                bail!("Redis does not answer");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(redis)
    }

    fn answers(&self) -> std::io::Result<bool> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.write_all(b"PING\r\n")?;
        let mut answer = [0; 5];
        stream.read_exact(&mut answer)?;
        Ok(&answer == b"+PONG")
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/0", self.port)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
