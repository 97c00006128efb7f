//! What a sandbox costs: the time from asking for a program that does nothing to its end,
//! beside a bare fork and exec of the same program, and how many go through in a second.
//!
//! `cargo bench -p punctual-sandbox --bench start_cost`

use std::error::Error;
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use punctual_sandbox::{
    Launcher, LauncherOptions, Limits, Network, ProgramUser, SandboxJob, Status, Stdin, launcher_main, seal_program,
};

const RUNS: usize = 300;
const SUSTAINED: Duration = Duration::from_secs(5);
const AT_ONCE: usize = 4;

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    if std::env::args().nth(1).as_deref() == Some("launcher") {
        launcher_main();
    }
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?.block_on(measure())
}

async fn measure() -> Result<(), Box<dyn Error + Send + Sync>> {
    let folder = tempfile::tempdir()?;
    let (source, program) = (folder.path().join("true.c"), folder.path().join("true"));
    std::fs::write(&source, "int main(void) { return 0; }\n")?;
    let compiled = Command::new("cc").args(["-static", "-O1", "-o"]).arg(&program).arg(&source).status()?;
    assert!(compiled.success(), "a C compiler is needed");

    let mut bare = Vec::new();
    for _ in 0..RUNS {
        let began = Instant::now();
        assert!(Command::new(&program).status()?.success());
        bare.push(began.elapsed());
    }

    let options =
        LauncherOptions { command: std::env::current_exe()?, args: vec!["launcher".into()], required: vec![] };
    let began = Instant::now();
    let launcher = Arc::new(Launcher::start(options).await?);
    println!("launcher started and probed in {:.1?}; level: {}", began.elapsed(), launcher.level());
    let sealed = Arc::new(seal_program(&mut std::fs::File::open(&program)?)?);

    let mut sandboxed = Vec::new();
    for _ in 0..RUNS {
        let began = Instant::now();
        run(&launcher, &sealed).await?;
        sandboxed.push(began.elapsed());
    }
    let (bare, sandboxed) = (Figures::of(bare), Figures::of(sandboxed));
    println!("bare fork and exec:  median {:.2?}, p99 {:.2?}", bare.median, bare.p99);
    println!("in a sandbox:        median {:.2?}, p99 {:.2?}", sandboxed.median, sandboxed.p99);
    println!("the sandbox costs:   median {:.2?}", sandboxed.median.saturating_sub(bare.median));

    let count = Arc::new(AtomicU32::new(0));
    let began = Instant::now();
    let lanes: Vec<_> = (0..AT_ONCE)
        .map(|_| {
            let (launcher, sealed, count) = (launcher.clone(), sealed.clone(), count.clone());
            tokio::spawn(async move {
                while began.elapsed() < SUSTAINED {
                    run(&launcher, &sealed).await.expect("it runs");
                    count.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for lane in lanes {
        lane.await?;
    }
    let rate = f64::from(count.load(Ordering::Relaxed)) / began.elapsed().as_secs_f64();
    println!("sustained, {AT_ONCE} at once: {rate:.0} a second");
    Ok(())
}

async fn run(launcher: &Launcher, program: impl AsFd) -> Result<(), Box<dyn Error + Send + Sync>> {
    let job = SandboxJob {
        program: program.as_fd().try_clone_to_owned()?,
        args: vec![],
        env: vec![],
        stdin: Stdin::Empty,
        files: Vec::new(),
        limits: Limits::default(),
        network: Network::None,
        user: ProgramUser::Usual,
    };
    let exit = launcher.run(job).await?.wait().await;
    assert_eq!(exit.status, Status::Code(0));
    Ok(())
}

struct Figures {
    median: Duration,
    p99: Duration,
}

impl Figures {
    fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        Self { median: times[times.len() / 2], p99: times[times.len() * 99 / 100] }
    }
}
