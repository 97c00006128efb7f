//! Logins that are under way, sealed and given away.
//!
//! A server remembers nothing of them: what it has to know comes back from the browser or the command line, under a key that all
//! servers of the cluster have. So it does not matter which server the next request reaches, and logins that nobody finishes take
//! no room. Each has the id of the session that comes of it, and the store takes an id once: a ticket makes one session at most.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use punctual_core::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::sealing::{DataKey, Entropy, NoRandomness};

/// Larger ones are none of ours.
const TICKET_BYTES_MAX: usize = 6 << 10;

/// In the cookie of a browser that is at the provider.
#[derive(Serialize, Deserialize)]
pub(super) struct BrowserTicket {
    pub(super) id: u64,
    pub(super) state: String,
    pub(super) nonce: String,
    pub(super) verifier: String,
    pub(super) port: u16,
    pub(super) challenge: String,
    pub(super) command_state: String,
    until: i64,
}

/// What the browser brings to the command line: good for nobody who does not know what the challenge was made of.
#[derive(Serialize, Deserialize)]
pub(super) struct CodeTicket {
    pub(super) id: u64,
    pub(super) user: u64,
    pub(super) revision: u32,
    pub(super) challenge: String,
    until: i64,
}

/// What a command line polls with.
#[derive(Serialize, Deserialize)]
pub(super) struct DeviceTicket {
    pub(super) id: u64,
    pub(super) device_code: String,
    until: i64,
}

pub(super) trait Ticket: Serialize + DeserializeOwned {
    /// One kind does not open as another.
    const LABEL: &'static [u8];
    fn until(&self) -> i64;
    fn expire(&mut self, at: Timestamp);
}

macro_rules! ticket {
    ($ticket:ident $label:literal) => {
        impl Ticket for $ticket {
            const LABEL: &'static [u8] = $label;
            fn until(&self) -> i64 {
                self.until
            }
            fn expire(&mut self, at: Timestamp) {
                self.until = at.as_micros();
            }
        }
    };
}

ticket!(BrowserTicket b"openid browser 1");
ticket!(CodeTicket b"openid code 1");
ticket!(DeviceTicket b"openid device 1");

pub(super) struct BrowserParts {
    pub(super) port: u16,
    pub(super) challenge: String,
    pub(super) command_state: String,
}

impl BrowserTicket {
    pub(super) fn new(id: u64, secrets: &punctual_openid::LoginSecrets, parts: BrowserParts) -> Self {
        let BrowserParts { port, challenge, command_state } = parts;
        let (state, nonce, verifier) = (secrets.state.clone(), secrets.nonce.clone(), secrets.verifier.clone());
        Self { id, state, nonce, verifier, port, challenge, command_state, until: 0 }
    }
}

impl CodeTicket {
    pub(super) fn new(id: u64, user: u64, revision: u32, challenge: String) -> Self {
        Self { id, user, revision, challenge, until: 0 }
    }
}

impl DeviceTicket {
    pub(super) fn new(id: u64, device_code: String) -> Self {
        Self { id, device_code, until: 0 }
    }
}

pub(crate) struct TicketKey(DataKey);

impl TicketKey {
    pub(crate) fn new(key: [u8; 32]) -> Self {
        Self(DataKey::new(key))
    }

    pub(super) fn seal<T: Ticket>(
        &self,
        mut ticket: T,
        until: Timestamp,
        entropy: &Entropy,
    ) -> Result<String, NoRandomness> {
        ticket.expire(until);
        let plain = zeroize::Zeroizing::new(serde_json::to_vec(&ticket).expect("texts and numbers are JSON"));
        Ok(URL_SAFE_NO_PAD.encode(self.0.seal(&plain, T::LABEL, entropy)?))
    }

    /// `None` if it is none of ours, of another kind, or of a login that took too long.
    pub(super) fn open<T: Ticket>(&self, text: &str, now: Timestamp) -> Option<T> {
        if text.len() > TICKET_BYTES_MAX {
            return None;
        }
        let sealed = URL_SAFE_NO_PAD.decode(text).ok()?;
        let plain = self.0.open(&sealed, T::LABEL)?;
        let ticket: T = serde_json::from_slice(&plain).ok()?;
        (now.as_micros() < ticket.until()).then_some(ticket)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use punctual_core::Span;

    use super::*;

    #[test]
    fn a_ticket_opens_as_its_own_kind_under_its_own_key_until_it_ends() {
        let entropy: Entropy = Arc::new(|| Ok([7; 32]));
        let at = |seconds| Timestamp::EPOCH + Span::from_secs(seconds);
        let key = TicketKey::new([1; 32]);
        let text = key.seal(DeviceTicket::new(5, "code".to_owned()), at(100), &entropy).unwrap();
        assert_eq!(key.open::<DeviceTicket>(&text, at(99)).unwrap().id, 5);
        assert!(key.open::<DeviceTicket>(&text, at(100)).is_none(), "it has ended");
        assert!(key.open::<CodeTicket>(&text, at(1)).is_none(), "it is of another kind");
        assert!(TicketKey::new([2; 32]).open::<DeviceTicket>(&text, at(1)).is_none(), "it is of another cluster");
        let mut changed = text.clone().into_bytes();
        changed[40] ^= 1;
        let changed = String::from_utf8(changed).unwrap();
        for bad in ["", "x", &text[1..], &changed, &"A".repeat(10_000)] {
            assert!(key.open::<DeviceTicket>(bad, at(1)).is_none(), "{bad:.20}");
        }
    }
}
