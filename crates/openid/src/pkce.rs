//! PKCE (RFC 7636) with S256: whoever redeems a code proves to be the one who asked for it.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

/// Of a verifier.
pub fn challenge_of(verifier: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(verifier))
}

/// Whether a text has the form of a challenge: the SHA-256 of something, in base64.
pub fn is_challenge(text: &str) -> bool {
    text.len() == 43 && URL_SAFE_NO_PAD.decode(text).is_ok_and(|digest| digest.len() == 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_challenge_is_that_of_the_rfc() {
        let challenge = challenge_of("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
        assert_eq!(challenge, "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
        assert!(is_challenge(&challenge));
        for bad in ["", "abc", &challenge[1..], &format!("{challenge}a"), &challenge.replacen('E', "=", 1)] {
            assert!(!is_challenge(bad), "{bad}");
        }
    }
}
