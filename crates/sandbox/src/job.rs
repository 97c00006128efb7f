//! The program to run, and its limits.

use std::os::fd::OwnedFd;

use bytes::Bytes;

/// One run of one program.
#[derive(Debug)]
pub struct SandboxJob {
    /// What is executed, by this descriptor and never by a path. Best made by
    /// [`seal_program`](crate::seal_program); a file on disk has to be executable for
    /// everyone and must not change any more.
    pub program: OwnedFd,
    /// The arguments after the program's own name.
    pub args: Vec<String>,
    /// The whole environment, apart from `PUNCTUAL_OUTPUT`, and `HOME` if it is not given.
    pub env: Vec<(String, String)>,
    pub stdin: Stdin,
    /// Files that it finds, read-only, in the folder that `PUNCTUAL_FILES` names. They are copied into its memory.
    pub files: Vec<File>,
    pub limits: Limits,
    pub network: Network,
    pub user: ProgramUser,
}

/// A file that the program reads.
#[derive(Debug)]
pub struct File {
    /// One word of a path.
    pub name: String,
    pub content: OwnedFd,
    pub len: u64,
}

impl File {
    pub const COUNT_MAX: usize = 16;
}

#[derive(Debug, Default)]
pub enum Stdin {
    #[default]
    Empty,
    Bytes(Bytes),
    /// The program shares this descriptor with its other holders.
    Descriptor(OwnedFd),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Network {
    /// A network namespace with nothing in it, not even loopback, and Unix sockets only.
    #[default]
    None,
    /// What this machine reaches by the device of its default route, and never its loopback. TCP and UDP only, without
    /// control messages. It is refused where there is no such device.
    Host,
}

/// The user and the group of this machine that a program runs as. Inside the sandbox it is always user 1000.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProgramUser {
    /// "nobody" if the launcher is root, and otherwise the launcher's own user.
    #[default]
    Usual,
    /// The user and the group of this number, which is not root's. Only a launcher that is root may choose it; see
    /// [`may_run_as`](crate::may_run_as).
    Number(u32),
}

/// The limits of one program. They apply to all its processes together unless the field says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Files in `/tmp` count as memory, too.
    pub memory_bytes: u64,
    /// 1000 is one processor.
    pub cpu_millis: u32,
    /// Processes and threads.
    pub pids: u32,
    /// Standard output and standard error together. More ends the program.
    pub output_bytes: u64,
    /// The size of `/tmp`.
    pub disk_bytes: u64,
    /// The maximum number of open files of each process.
    pub open_files: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_bytes: 256 << 20,
            cpu_millis: 1000,
            pids: 64,
            output_bytes: 10 << 20,
            disk_bytes: 64 << 20,
            open_files: 256,
        }
    }
}

impl Limits {
    /// The walls themselves need some memory, descriptors and time; below these they could
    /// not be built, and the program would seem to fail for no reason.
    pub(crate) fn problem(&self) -> Option<&'static str> {
        if self.memory_bytes < 8 << 20 {
            return Some("memory_bytes is below 8 MiB");
        }
        if self.cpu_millis < 10 {
            return Some("cpu_millis is below 10");
        }
        if self.pids == 0 {
            return Some("pids is 0");
        }
        if self.disk_bytes < 64 << 10 {
            return Some("disk_bytes is below 64 KiB");
        }
        if self.open_files < 8 {
            return Some("open_files is below 8");
        }
        None
    }
}
