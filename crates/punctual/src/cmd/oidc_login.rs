//! `punctual login --oidc` and `--device`: logging in at the OpenID Connect provider of a server.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use punctual_api::{
    BrowserLoginQuery, DeviceLogin, DevicePollRequest, DeviceStatus, LoginExchange, SecretText, SessionCreated,
    login_check,
};
use punctual_client::{Client, ClientError, DevicePolled};
use punctual_core::hex;
use punctual_openid::challenge_of;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;

use crate::exit::failed;
use crate::output::note;
use crate::random;

/// As long as the server keeps the login, and the click at its end.
const BROWSER_TIME_MAX: Duration = Duration::from_secs(12 * 60);
/// A browser sends its request at once.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(5);
const REQUEST_BYTES_MAX: usize = 16 << 10;
/// Browsers open a few connections ahead of time. More come from somebody else.
const CONNECTIONS_MAX: usize = 16;
/// How much the interval of polls grows when the provider asks for it (RFC 8628).
const SLOWER_BY: Duration = Duration::from_secs(5);

/// Has a browser on this machine log in, and waits until it comes back with a code.
pub(super) async fn by_browser(client: &Client, no_browser: bool) -> anyhow::Result<SessionCreated> {
    let cannot_listen = |error| failed(format!("cannot listen on loopback: {error}"), "use `punctual login --device`");
    let listener = TcpListener::bind("127.0.0.1:0").await.map_err(cannot_listen)?;
    let port = listener.local_addr().map_err(cannot_listen)?.port();
    let (verifier, state) = (hex::encode(random::secret()?), hex::encode(random::secret()?));
    let query = BrowserLoginQuery { port, challenge: challenge_of(&verifier), state: state.clone(), moved: None };
    let (address, check) = (client.browser_login_address(&query), login_check(&query.challenge));
    note(&format!(
        "Log in with a browser on this machine:\n  {address}\nContinue there only if it shows the code {check}"
    ));
    if !no_browser {
        open_browser(&address);
    }
    let Ok(code) = timeout(BROWSER_TIME_MAX, code_from_browser(listener, port, state)).await else {
        let message = format!("no browser came back within {} minutes", BROWSER_TIME_MAX.as_secs() / 60);
        return Err(failed(
            message,
            "try again, or use `punctual login --device`, which needs no browser on this machine",
        ));
    };
    let exchange = LoginExchange { code: SecretText(code), verifier: SecretText(verifier) };
    Ok(client.exchange_login(&exchange).await?)
}

/// The one that people chose, or the desktop's. If there is none, the address is on the screen.
fn open_browser(address: &str) {
    let chosen = std::env::var("BROWSER").unwrap_or_default();
    let chosen = chosen.split(':').next().unwrap_or_default();
    let browsers = if chosen.is_empty() { vec!["xdg-open", "open"] } else { vec![chosen] };
    for browser in browsers {
        let mut command = Command::new(browser);
        command.arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if let Ok(mut child) = command.spawn() {
            // It may run as long as the person looks at it.
            std::thread::spawn(move || child.wait());
            return;
        }
    }
}

/// The first code that comes with our own state. Whatever else connects is turned away and changes nothing.
async fn code_from_browser(listener: TcpListener, port: u16, state: String) -> String {
    let (sender, mut codes) = mpsc::channel(1);
    let (state, places) = (Arc::<str>::from(state), Arc::new(Semaphore::new(CONNECTIONS_MAX)));
    let accept = async move {
        loop {
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
            // Without a file descriptor for it, the next one may have one.
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let (sender, state) = (sender.clone(), Arc::clone(&state));
            tokio::spawn(async move {
                if let Ok(Some(code)) = timeout(REQUEST_TIME_MAX, answer(stream, port, &state)).await {
                    let _ = sender.send(code).await;
                }
                drop(place);
            });
        }
    };
    tokio::select! {
        code = codes.recv() => code.unwrap_or_default(),
        () = accept => String::new(),
    }
}

async fn answer(mut stream: TcpStream, port: u16, state: &str) -> Option<String> {
    let head = read_head(&mut stream).await?;
    let code = code_of(&head, port, state);
    let (status, text) = match &code {
        Some(_) => ("200 OK", "You are back. The terminal shows whether you are logged in; this page can be closed."),
        None => ("400 Bad Request", "This is not the login that the terminal waits for."),
    };
    let body = format!("<!doctype html><meta charset=\"utf-8\"><title>Punctual</title><p>{text}</p>\n");
    let response = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\nCache-Control: no-store\r\n\
         Referrer-Policy: no-referrer\r\nContent-Security-Policy: default-src 'none'\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    let _ = stream.write_all(response.as_bytes()).await;
    let _ = stream.shutdown().await;
    code
}

/// The request up to the empty line.
async fn read_head(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let mut chunk = [0; 2048];
        let len = stream.read(&mut chunk).await.ok().filter(|len| *len > 0)?;
        head.extend_from_slice(&chunk[..len]);
        if head.len() > REQUEST_BYTES_MAX {
            return None;
        }
    }
    String::from_utf8(head).ok()
}

/// The code in a request of a browser that comes from the login that began here.
fn code_of(head: &str, port: u16, state: &str) -> Option<String> {
    let mut lines = head.split("\r\n");
    let target = lines.next()?.strip_prefix("GET /?")?.strip_suffix(" HTTP/1.1")?;
    let mut hosts = lines.filter_map(|line| line.split_once(':')).filter(|(name, _)| name.eq_ignore_ascii_case("host"));
    // A page whose name was made to lead here has another.
    if hosts.next()?.1.trim() != format!("127.0.0.1:{port}") {
        return None;
    }
    let mut pairs = target.split('&').filter_map(|pair| pair.split_once('='));
    let (mut code, mut found_state) = (None, None);
    for (name, value) in pairs.by_ref() {
        let place = match name {
            "code" => &mut code,
            "state" => &mut found_state,
            _ => continue,
        };
        if place.replace(value).is_some() {
            return None;
        }
    }
    let is_plain = |code: &&str| {
        !code.is_empty() && code.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    (found_state == Some(state)).then_some(())?;
    code.filter(is_plain).map(str::to_owned)
}

/// Shows a code to type at the provider, and asks until somebody has.
pub(super) async fn by_device(client: &Client) -> anyhow::Result<SessionCreated> {
    let DeviceLogin { login, user_code, address, complete_address, expires_in, interval } =
        client.begin_device_login().await?;
    let shorter = complete_address.map(|address| format!("\nor open\n  {address}")).unwrap_or_default();
    note(&format!("Open in a browser\n  {address}\nand type the code\n  {user_code}{shorter}\nWaiting …"));
    let request = DevicePollRequest { login };
    let polls = async {
        let mut interval = Duration::from_secs(interval.max(1));
        loop {
            tokio::time::sleep(interval).await;
            match client.poll_device_login(&request).await {
                Ok(DevicePolled::Done(session)) => return Ok(*session),
                Ok(DevicePolled::Waiting(DeviceStatus::Pending)) => {}
                Ok(DevicePolled::Waiting(DeviceStatus::SlowDown)) => interval += SLOWER_BY,
                Err(error) if may_pass(&error) => interval += SLOWER_BY,
                Err(error) => return Err(anyhow::Error::from(error)),
            }
        }
    };
    match timeout(Duration::from_secs(expires_in), polls).await {
        Ok(polled) => polled,
        Err(_) => Err(failed("the code has expired, and nobody typed it", "try again: punctual login --device")),
    }
}

/// Whether the same poll may succeed later: people do not type a code twice because a server restarted.
fn may_pass(error: &ClientError) -> bool {
    match error.kind() {
        Some(kind) => kind.is_retryable(),
        None => error.unreachable_because().is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_browser_that_comes_from_this_login_brings_a_code() {
        let request = |target: &str, host: &str| format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let code = |target: &str, host: &str| code_of(&request(target, host), 4100, "s7ate");
        assert_eq!(code("/?code=a-B_9&state=s7ate", "127.0.0.1:4100").as_deref(), Some("a-B_9"));
        for (target, host) in [
            ("/?code=a&state=other", "127.0.0.1:4100"),
            ("/?code=a", "127.0.0.1:4100"),
            ("/?state=s7ate", "127.0.0.1:4100"),
            ("/?code=&state=s7ate", "127.0.0.1:4100"),
            ("/?code=a&code=b&state=s7ate", "127.0.0.1:4100"),
            ("/?code=a&state=s7ate&state=s7ate", "127.0.0.1:4100"),
            ("/?code=a%0d&state=s7ate", "127.0.0.1:4100"),
            ("/?code=a&state=s7ate", "evil.example:4100"),
            ("/?code=a&state=s7ate", "127.0.0.1:4101"),
            ("/favicon.ico", "127.0.0.1:4100"),
        ] {
            assert_eq!(code(target, host), None, "{target} {host}");
        }
        assert_eq!(code_of("POST /?code=a&state=s7ate HTTP/1.1\r\nHost: 127.0.0.1:4100\r\n\r\n", 4100, "s7ate"), None);
        assert_eq!(code_of("GET /?code=a&state=s7ate HTTP/1.1\r\n\r\n", 4100, "s7ate"), None);
    }
}
