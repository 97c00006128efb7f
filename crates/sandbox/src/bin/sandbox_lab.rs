//! For tests: `launcher` is the launcher as a program of its own; `worker FILE ARGS…` runs FILE in a sandbox until it
//! is killed.

use std::error::Error;
use std::fs::File;

use punctual_sandbox::{
    Launcher, LauncherOptions, Limits, Network, ProgramUser, SandboxJob, Stdin, launcher_main, seal_program,
};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.split_first() {
        Some((mode, _)) if mode == "launcher" => launcher_main(),
        Some((mode, rest)) if mode == "worker" => {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
            runtime.block_on(work(rest))
        }
        _ => Err("launcher, or worker FILE ARGS…, is expected".into()),
    }
}

async fn work(args: &[String]) -> Result<(), Box<dyn Error>> {
    let (file, args) = args.split_first().ok_or("a file is expected")?;
    let options =
        LauncherOptions { command: std::env::current_exe()?, args: vec!["launcher".into()], required: vec![] };
    let launcher = Launcher::start(options).await?;
    let job = SandboxJob {
        program: seal_program(&mut File::open(file)?)?,
        args: args.to_vec(),
        env: vec![],
        stdin: Stdin::Empty,
        files: Vec::new(),
        limits: Limits::default(),
        network: Network::None,
        user: ProgramUser::Usual,
    };
    let mut running = launcher.run(job).await?;
    while let Some(output) = running.next_output().await {
        println!("{output:?}");
    }
    println!("{:?}", running.wait().await);
    Ok(())
}
