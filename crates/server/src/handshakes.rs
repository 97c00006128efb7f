//! TLS handshakes, bounded in time and number: whoever opens connections and says nothing holds up nobody else.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use punctual_pki::{ServerTls, explain};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// A handshake takes milliseconds, and a few round trips on a bad line.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);
/// Each may take some 50 KiB of memory. Others wait for their turn, and within the same time.
const HANDSHAKES_MAX: usize = 512;
/// One machine takes no more, so a single one cannot keep all others out. Further connections of it are closed.
const HANDSHAKES_PER_ADDRESS_MAX: usize = 64;

pub(crate) struct Handshakes {
    places: Semaphore,
    by_address: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

/// Why a handshake did not end well.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoHandshake {
    #[error("{HANDSHAKES_PER_ADDRESS_MAX} connections from its address have not finished their handshakes")]
    TooMany,
    #[error("it did not end within {HANDSHAKE_WITHIN:?}")]
    TooSlow,
    #[error("{0}")]
    Failed(String),
}

impl Default for Handshakes {
    fn default() -> Self {
        Self { places: Semaphore::new(HANDSHAKES_MAX), by_address: Arc::default() }
    }
}

impl Handshakes {
    pub(crate) async fn accept(
        &self,
        stream: TcpStream,
        tls: &ServerTls,
        address: Option<IpAddr>,
    ) -> Result<TlsStream<TcpStream>, NoHandshake> {
        // Processes of this machine are its users', and thousands of workers may come back at once.
        let _turn = match address.filter(|address| !address.is_loopback()) {
            Some(address) => Some(self.turn(address).ok_or(NoHandshake::TooMany)?),
            None => None,
        };
        let handshake = async {
            let _place = self.places.acquire().await.map_err(|_| NoHandshake::TooSlow)?;
            let accepted = TlsAcceptor::from(tls.config()).accept(stream).await;
            accepted.map_err(|error| NoHandshake::Failed(reason(&error)))
        };
        timeout(HANDSHAKE_WITHIN, handshake).await.map_err(|_| NoHandshake::TooSlow)?
    }

    fn turn(&self, address: IpAddr) -> Option<Turn> {
        let mut by_address = self.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        let count = by_address.entry(address).or_default();
        if *count >= HANDSHAKES_PER_ADDRESS_MAX {
            return None;
        }
        *count += 1;
        Some(Turn { address, by_address: Arc::clone(&self.by_address) })
    }
}

fn reason(error: &io::Error) -> String {
    // The explanations are for clients, except where the client's own certificate is at fault.
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<punctual_pki::rustls::Error>());
    match tls {
        Some(tls) => tls.to_string(),
        None => explain(error).map_or_else(|| error.to_string(), |explanation| explanation.reason),
    }
}

/// A handshake that one address has under way.
struct Turn {
    address: IpAddr,
    by_address: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut by_address = self.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = by_address.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                by_address.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_takes_its_share_of_handshakes_and_gives_it_back() {
        let all = Handshakes::default();
        let (greedy, other) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let mut held: Vec<Turn> = (0..HANDSHAKES_PER_ADDRESS_MAX).map(|_| all.turn(greedy).unwrap()).collect();
        assert!(all.turn(greedy).is_none());
        assert!(all.turn(other).is_some());
        held.pop();
        assert!(all.turn(greedy).is_some());
        held.clear();
        assert!(all.by_address.lock().unwrap().is_empty(), "nobody is remembered");
    }
}
