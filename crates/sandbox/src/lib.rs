//! Runs one static program that nobody vouches for, and keeps it away from everything else.
//!
//! A worker has many threads, and a process with threads cannot safely fork into namespaces.
//! So it starts one helper, the *launcher*, by executing its own program again with a hidden
//! argument. The worker hands each [`SandboxJob`] to the launcher through a socket, with open
//! descriptors and no paths. The launcher forks, and the child builds walls around itself
//! before it executes the program:
//!
//! | wall | what it keeps out |
//! |---|---|
//! | user namespace | The program is user 1000 inside. Outside it is the job's [`ProgramUser`]: one of its own, "nobody", or the worker's. |
//! | pid namespace | It sees and signals its own processes only, and all of them end with it. |
//! | mount namespace, private root | There is nothing of the machine's files: an empty root, five devices, an own `/proc`, a `/tmp` in memory. |
//! | network namespace | There is no network, not even loopback. If the job asks for one, the launcher makes its sockets; see `service::outside`. |
//! | IPC, UTS and cgroup namespaces | No shared memory, host name or control group of the machine. |
//! | no capabilities, no new privileges | It is not root anywhere, and nothing it executes can be. |
//! | seccomp | Most of the kernel cannot be called at all; see `filter`. |
//! | Landlock | A second wall around files, signals and abstract sockets. |
//! | control groups | Limits on memory, processor time and processes, for all its processes together. |
//! | resource limits | No core dumps, few descriptors, no real-time priority, no locked memory. |
//!
//! At its start the launcher builds such a sandbox once with nothing in it, and so finds out
//! which walls stand here: the [`Level`]. It fails closed. Without [`Protection::FLOOR`], or what
//! [`LauncherOptions::required`] adds, [`Launcher::run`] refuses; and a wall that stood at the start
//! must stand for each job, or the job is refused.
//!
//! **Ends.** When the program's first process ends, the kernel ends all others. Killing, a dropped
//! [`RunningProgram`], a launcher that dies and a worker that dies all end at the same place: the
//! first process of the pid namespace is killed, and with it everything inside.
//! [`RunningProgram::wait`] returns when nothing is left.
//!
//! **What it is not.** The kernel is shared. A hole in the kernel that can be reached through the
//! calls that are left is a hole in this sandbox; programs of people who attack each other
//! belong on machines of their own. Inside, a program may execute what it likes, in memory too:
//! `/tmp` is mounted without the right to execute out of habit, not as a wall.
//!
//! ```no_run
//! # async fn example(options: punctual_sandbox::LauncherOptions) -> Result<(), Box<dyn std::error::Error>> {
//! use punctual_sandbox::{Launcher, Limits, Network, SandboxJob, Stdin, ProgramUser, seal_program};
//!
//! let launcher = Launcher::start(options).await?;
//! let program = seal_program(&mut std::fs::File::open("hello")?)?;
//! let job = SandboxJob {
//!     program,
//!     args: vec![],
//!     env: vec![],
//!     stdin: Stdin::Empty,
//!     files: vec![],
//!     limits: Limits::default(),
//!     network: Network::None,
//!     user: ProgramUser::Usual,
//! };
//! let mut running = launcher.run(job).await?;
//! while let Some(output) = running.next_output().await {
//!     println!("{output:?}");
//! }
//! println!("{:?}", running.wait().await.status);
//! # Ok(()) }
//! ```

mod cell;
mod cgroup;
mod channel;
mod elf;
mod error;
mod exit;
mod filter;
mod job;
mod keeper;
mod launcher;
mod level;
mod output;
mod program;
mod request;
mod running;
mod service;
mod step;
#[expect(unsafe_code, reason = "forking, executing and closing by number have no safe interface")]
mod sys;
mod umask;
mod users;
mod wire;

pub use elf::{ElfInfo, ElfProblem, Machine, check_elf};
pub use error::LaunchError;
pub use exit::{Exit, LimitHit, Output, Status};
pub use job::{File, Limits, Network, ProgramUser, SandboxJob, Stdin};
pub use keeper::{GroupWord, tell_keeper};
pub use launcher::{Launcher, LauncherOptions};
pub use level::{Availability, Level, LevelName, Protection};
pub use output::Pipes;
pub use program::{seal_program, sealed_bytes};
pub use running::{ResultFound, RunningProgram, read_result};
pub use service::launcher_main;
pub use sys::{set_apart, set_apart_with_keeper};
pub use umask::keep_files_private;
pub use users::may_run_as;
