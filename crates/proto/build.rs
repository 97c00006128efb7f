//! Compiles the protocol with protox, so that a build needs no protoc.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let descriptors = protox::compile(["punctual/worker/v1/worker.proto", "punctual/peer/v1/peer.proto"], ["proto"])?;
    let mut calls = Vec::new();
    for file in &descriptors.file {
        for service in &file.service {
            let path = |method: &str| format!("/{}.{}/{method}", file.package(), service.name());
            calls.extend(service.method.iter().map(|method| path(method.name())));
        }
    }
    let out = std::path::PathBuf::from(std::env::var("OUT_DIR")?);
    let text = "/// The path of every call of the protocols, from their descriptors.\npub const CALLS: &[&str] = &";
    std::fs::write(out.join("calls.rs"), format!("{text}{calls:?};\n"))?;
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
