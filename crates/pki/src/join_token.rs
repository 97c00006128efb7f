//! What an administrator gives to a worker on another host, as one text: `punctual_join_ID_SECRET_FINGERPRINT_CHECKSUM`.
//!
//! The prefix and the checksum are for scanners of leaked secrets. The fingerprint is that of the cluster's authority: the
//! worker sends the token only to a server whose certificate that authority issued.

use std::fmt;
use std::str::FromStr;

use punctual_core::{JoinTokenId, hex};
use sha2::{Digest, Sha256};

use crate::{Fingerprint, PkiError};

const PREFIX: &str = "punctual_join_";
const ID_PREFIX: &str = "jointoken_";

#[derive(Clone, PartialEq, Eq)]
pub struct JoinToken {
    id: JoinTokenId,
    secret: [u8; 32],
    authority: Fingerprint,
}

impl JoinToken {
    /// `secret` comes from the operating system's generator.
    pub fn new(id: JoinTokenId, secret: [u8; 32], authority: Fingerprint) -> Self {
        Self { id, secret, authority }
    }

    /// Public: it names the token in lists.
    pub fn id(&self) -> JoinTokenId {
        self.id
    }

    /// The authority of the cluster that the token is for.
    pub fn authority(&self) -> Fingerprint {
        self.authority
    }

    /// What is stored of the secret.
    pub fn secret_sha256(&self) -> [u8; 32] {
        Sha256::digest(self.secret).into()
    }

    /// The whole text. A secret.
    pub fn reveal(&self) -> String {
        let id = self.id.to_string();
        let id = id.strip_prefix(ID_PREFIX).unwrap_or(&id);
        let authority = hex::encode(self.authority.to_bytes());
        let text = format!("{PREFIX}{id}_{}_{authority}", hex::encode(self.secret));
        format!("{text}_{}", checksum(&text))
    }
}

/// Nobody sees the secret in a log.
impl fmt::Debug for JoinToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("JoinToken").field(&self.id).finish()
    }
}

impl FromStr for JoinToken {
    type Err = PkiError;

    /// The refusal repeats nothing of the text.
    fn from_str(text: &str) -> Result<Self, PkiError> {
        let read = || {
            let (checked, sum) = text.rsplit_once('_')?;
            let (id, rest) = checked.strip_prefix(PREFIX)?.split_once('_')?;
            let (secret, authority) = rest.split_once('_')?;
            (sum == checksum(checked)).then_some(())?;
            Some(Self {
                id: format!("{ID_PREFIX}{id}").parse().ok()?,
                secret: hex::decode(secret)?,
                authority: Fingerprint::from_bytes(hex::decode(authority)?),
            })
        };
        read().ok_or(PkiError::BadJoinToken)
    }
}

fn checksum(text: &str) -> String {
    hex::encode(&Sha256::digest(text)[..4])
}

#[cfg(test)]
mod tests {
    use punctual_core::Timestamp;

    use super::*;

    fn token() -> JoinToken {
        JoinToken::new(JoinTokenId::new(Timestamp::EPOCH, 7), [9; 32], Fingerprint::from_bytes([3; 32]))
    }

    #[test]
    fn a_token_reads_back_and_nothing_else_does() {
        let text = token().reveal();
        assert_eq!(text.parse::<JoinToken>().unwrap(), token());
        for place in 0..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[place] = if changed[place] == b'1' { b'2' } else { b'1' };
            assert!(String::from_utf8(changed).unwrap().parse::<JoinToken>().is_err(), "{place}");
            assert!(text[..place].parse::<JoinToken>().is_err(), "{place}");
        }
        for bad in [format!(" {text}"), format!("{text}\n"), format!("{text}_"), text.to_uppercase(), "é".repeat(90)] {
            assert!(bad.parse::<JoinToken>().is_err(), "{bad}");
        }
    }

    #[test]
    fn nothing_but_its_text_shows_the_secret() {
        let secret = hex::encode([9; 32]);
        assert!(token().reveal().contains(&secret));
        assert!(!format!("{:?}", token()).contains(&secret));
        let refused = format!("{}0", token().reveal()).parse::<JoinToken>().unwrap_err();
        assert!(!refused.to_string().contains(&secret));
    }
}
