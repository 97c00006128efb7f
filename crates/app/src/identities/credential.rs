//! The text of keys and sessions: `punctual_key_<id>_<secret>_<checksum>`.
//!
//! The id is public and finds the row. The secret has 256 random bits; the store has a digest of the whole text. The checksum
//! tells a mistyped or shortened text from a wrong one without asking anybody, so scanners for leaked secrets report no
//! false finds: `punctual_(key|session)_[0-9a-f]{16}_[0-9a-f]{64}_[0-9a-f]{8}`.

use punctual_core::hex;
use punctual_store::{IdentityId, SecretDigest};
use sha2::{Digest, Sha256};

/// What a text is the secret of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CredentialKind {
    Key,
    Session,
}

impl CredentialKind {
    const ALL: [Self; 2] = [Self::Key, Self::Session];

    const fn prefix(self) -> &'static str {
        match self {
            Self::Key => "punctual_key_",
            Self::Session => "punctual_session_",
        }
    }

    pub(crate) const fn noun(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Session => "session",
        }
    }
}

const ID_DIGITS: usize = 16;
const SECRET_DIGITS: usize = 64;
const CHECKSUM_DIGITS: usize = 8;

/// A text that somebody presented, whose form is right. The secret itself is not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Credential {
    pub(crate) kind: CredentialKind,
    pub(crate) id: IdentityId,
    pub(crate) digest: SecretDigest,
}

/// What is wrong with a text that begins like a key or a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) CredentialKind);

impl Credential {
    /// `None` if the text does not begin like one of ours, as the access token does not.
    pub(crate) fn read(text: &str) -> Option<Result<Self, Malformed>> {
        let (kind, rest) =
            CredentialKind::ALL.into_iter().find_map(|kind| Some((kind, text.strip_prefix(kind.prefix())?)))?;
        Some(Self::read_rest(kind, text, rest).ok_or(Malformed(kind)))
    }

    fn read_rest(kind: CredentialKind, text: &str, rest: &str) -> Option<Self> {
        let (id, rest) = rest.split_once('_')?;
        let (secret, checksum) = rest.split_once('_')?;
        let are_digits = [id, secret, checksum]
            .iter()
            .all(|part| part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')));
        let lengths = (id.len(), secret.len(), checksum.len());
        if !are_digits || lengths != (ID_DIGITS, SECRET_DIGITS, CHECKSUM_DIGITS) {
            return None;
        }
        if checksum != checksum_of(&text[..text.len() - CHECKSUM_DIGITS - 1]) {
            return None;
        }
        let id = IdentityId(u64::from_be_bytes(hex::decode(id)?));
        Some(Self { kind, id, digest: digest(text) })
    }
}

/// A new credential and its text.
pub(crate) fn new(kind: CredentialKind, id: IdentityId, secret: [u8; 32]) -> (String, SecretDigest) {
    let body = format!("{}{id}_{}", kind.prefix(), hex::encode(secret));
    let text = format!("{body}_{}", checksum_of(&body));
    let digest = digest(&text);
    (text, digest)
}

fn digest(text: &str) -> SecretDigest {
    SecretDigest(Sha256::digest(text).into())
}

/// Proves nothing: everybody can compute it.
fn checksum_of(body: &str) -> String {
    hex::encode(&Sha256::digest(body)[..CHECKSUM_DIGITS / 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made() -> (String, SecretDigest) {
        new(CredentialKind::Key, IdentityId(0x12), [0xab; 32])
    }

    #[test]
    fn a_text_reads_back_and_its_form_never_changes() {
        let (text, digest) = made();
        assert!(text.starts_with("punctual_key_0000000000000012_abababab"), "{text}");
        assert_eq!(text.len(), "punctual_key_".len() + 16 + 1 + 64 + 1 + 8);
        let id = IdentityId(0x12);
        assert_eq!(Credential::read(&text), Some(Ok(Credential { kind: CredentialKind::Key, id, digest })));
        let (session, _) = new(CredentialKind::Session, id, [0; 32]);
        assert!(session.starts_with("punctual_session_"), "{session}");
        assert!(Credential::read(&session).unwrap().is_ok());
    }

    #[test]
    fn a_text_that_was_mistyped_or_cut_off_is_malformed_and_not_looked_for() {
        let (text, _) = made();
        let bad = Some(Err(Malformed(CredentialKind::Key)));
        assert_eq!(Credential::read(&text.replacen("ab", "ac", 1)), bad, "one digit");
        assert_eq!(Credential::read(&text.to_uppercase().replace("PUNCTUAL_KEY_", "punctual_key_")), bad);
        for end in [text.len() - 1, text.len() - 9, 40, "punctual_key_".len()] {
            assert_eq!(Credential::read(&text[..end]), bad, "{end}");
        }
        for more in [
            format!("{text} "),
            format!("{text}_"),
            format!("{text}0"),
            text.replace('_', "-").replacen("punctual-key-", "punctual_key_", 1),
        ] {
            assert_eq!(Credential::read(&more), bad, "{more}");
        }
        let access_token = format!("punctual_{}", "ab".repeat(32));
        for other in ["", "punctual_", "Punctual_key_", &access_token] {
            assert_eq!(Credential::read(other), None, "{other}");
        }
    }
}
