//! A server to run single tests against: prints what to set, and stops with Ctrl-C.
//! `serve durable` starts one that keeps what it acknowledges.

use punctual_local_postgres::{Settings, TEST_SERVER};

fn main() -> std::io::Result<()> {
    let durable = std::env::args().nth(1).is_some_and(|arg| arg == "durable");
    let settings = if durable { Settings::durable() } else { Settings::test() };
    let server = settings.start()?;
    println!("export {TEST_SERVER}='{}'", server.url());
    loop {
        std::thread::park();
    }
}
