//! Compiles the protocol with protox, so that a build needs no protoc.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let descriptors = protox::compile(["punctual/worker/v1/worker.proto", "punctual/peer/v1/peer.proto"], ["proto"])?;
    tonic_prost_build::configure()
        .bytes(".")
        // Most outcomes have none, and a worker holds many.
        .boxed(".punctual.worker.v1.Outcome.details")
        // Most jobs are of no schedule.
        .boxed(".punctual.worker.v1.Assignment.scheduled_run")
        // What is written to a log by mistake must not have it.
        .skip_debug([".punctual.worker.v1.Secret"])
        .compile_fds(descriptors)?;
    println!("cargo::rerun-if-changed=proto");
    Ok(())
}
