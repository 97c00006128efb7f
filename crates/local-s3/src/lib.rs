//! A private S3 server for tests: a process of its own on a free port of this machine, with its
//! objects in a temporary folder. It checks signatures, and can be killed and started again.
//!
//! The server is `s3s-fs`, another implementation than the one we call it with, and comes as a
//! dependency like any other: nothing has to be installed. The process is the test's own program,
//! started again to run one test that serves:
//!
//! ```no_run
//! #[test]
//! fn child_that_serves_s3() {
//!     punctual_local_s3::serve_if_asked();
//! }
//! ```

use std::io::{BufRead, BufReader, Read, Result};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use tempfile::TempDir;

pub const KEY_ID: &str = "punctual-tests";
pub const SECRET: &str = "not-a-secret-at-all";
pub const BUCKET: &str = "punctual";
pub const REGION: &str = "us-east-1";

const FOLDER: &str = "PUNCTUAL_TEST_S3_FOLDER";
const ADDRESS: &str = "PUNCTUAL_TEST_S3_ADDRESS";
const READY: &str = "s3 listens on ";

pub struct LocalS3 {
    child: Option<Child>,
    address: SocketAddr,
    folder: TempDir,
    test: &'static str,
}

impl LocalS3 {
    /// Starts it. `test` is the name of the test that calls [`serve_if_asked`], with its modules.
    ///
    /// # Panics
    /// If it does not start, with what it said.
    pub fn start(test: &'static str) -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        std::fs::create_dir(folder.path().join(BUCKET)).expect("a folder for the bucket");
        let mut server = Self { child: None, address: SocketAddr::from(([127, 0, 0, 1], 0)), folder, test };
        server.start_again();
        server
    }

    /// Such as `http://127.0.0.1:9000`.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Where the objects of the bucket are, as files.
    pub fn bucket_folder(&self) -> std::path::PathBuf {
        self.folder.path().join(BUCKET)
    }

    /// The power goes.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// The power comes back: the same address, the same objects.
    pub fn start_again(&mut self) {
        self.kill();
        let program = std::env::current_exe().expect("a test is a program");
        let mut child = Command::new(program)
            .args(["--exact", self.test, "--nocapture", "--test-threads=1"])
            .env(FOLDER, self.folder.path())
            .env(ADDRESS, self.address.to_string())
            // Its end tells the server that nobody needs it any more.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the test's own program can be started");
        let mut stdout = BufReader::new(child.stdout.take().expect("stdout is piped"));
        let mut said = String::new();
        let address = loop {
            let mut line = String::new();
            let read = stdout.read_line(&mut line).unwrap_or(0);
            // The test harness writes on the same line before it.
            if let Some((_, address)) = line.split_once(READY) {
                break address.trim().parse().expect("it says its address");
            }
            said += &line;
            assert!(read > 0, "no S3 server for tests: {} ended and said: {said}", self.test);
        };
        self.address = address;
        self.child = Some(child);
        // Somebody has to read what it says.
        std::thread::spawn(move || std::io::copy(&mut stdout, &mut std::io::sink()));
    }
}

impl Drop for LocalS3 {
    fn drop(&mut self) {
        self.kill();
    }
}

/// In the process that was started for it: serves until that is ended. Otherwise does nothing.
///
/// # Panics
/// If it cannot serve.
pub fn serve_if_asked() {
    let (Some(folder), Ok(address)) = (std::env::var_os(FOLDER), std::env::var(ADDRESS)) else { return };
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(serve(Path::new(&folder), &address)).expect("the S3 server serves");
}

async fn serve(folder: &Path, address: &str) -> Result<()> {
    let files = s3s_fs::FileSystem::new(folder).map_err(|error| std::io::Error::other(format!("{error:?}")))?;
    let mut service = S3ServiceBuilder::new(files);
    service.set_auth(SimpleAuth::from_single(KEY_ID, SECRET));
    let service = service.build();
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("{READY}{}", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        let service = service.clone();
        tokio::spawn(async move {
            let _ = Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
        });
    }
}
