//! The addresses of a server: where it listens, and where others reach it.

use std::net::SocketAddr;

/// Reads an address. Anything but this machine is refused: there is no login yet,
/// and whoever can reach the port can run tasks.
pub(super) fn listen(text: &str) -> Result<SocketAddr, String> {
    let text = match text.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => text.to_owned(),
    };
    let address = text.parse().map_err(|_| format!("`{text}` is not an address, such as 127.0.0.1:8020"))?;
    loopback(address)
}

pub(crate) fn loopback(address: SocketAddr) -> Result<SocketAddr, String> {
    if address.ip().is_loopback() {
        return Ok(address);
    }
    Err(format!(
        "{address} can be reached from other machines, and there is no authentication yet: anyone there could \
         run tasks here. Listen on 127.0.0.1 and use an SSH tunnel or a proxy that authenticates"
    ))
}

/// Reads where others reach this server. They are on this machine, as it listens nowhere else.
pub(super) fn advertise(text: &str) -> Result<String, String> {
    let refused = || format!("`{text}` is not an address, such as http://127.0.0.1:8020");
    let rest = text.strip_prefix("http://").ok_or_else(refused)?;
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let is_host = |rest: &str| !rest.is_empty() && !rest.contains(['/', '?', '#', '@', ' ', ',']);
    if !is_host(rest) {
        return Err(refused());
    }
    Ok(format!("http://{rest}"))
}

/// Reads where people reach the servers, such as through a proxy of theirs; with a path, if there is one.
pub(super) fn public_url(text: &str) -> Result<String, String> {
    let refused = || format!("`{text}` is not an address, such as https://punctual.example.com");
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")).ok_or_else(refused)?;
    let is_plain = |c: char| !c.is_control() && !c.is_whitespace() && !"?#@,<>\"".contains(c);
    if rest.is_empty() || rest.starts_with('/') || text.len() > 512 || !rest.chars().all(is_plain) {
        return Err(refused());
    }
    Ok(text.trim_end_matches('/').to_owned())
}
