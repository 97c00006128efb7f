//! Who may use a server. The one decision for REST and the worker protocol alike.
//!
//! Agents, peers and signed addresses bring credentials of their own, which `agents`, `peer_key` and the storage check.

use std::fmt;

use hmac::{Hmac, Mac};
use punctual_api::ErrorKind;
use punctual_core::access::Rights;
use punctual_core::hex;
use punctual_pki::CertificateKind;
use sha2::Sha256;

use crate::peer_key::PeerKey;
use crate::principal::{Principal, PrincipalKind, Transport};
use crate::{App, AppError, Result};

/// Who holds the other end of a connection, by what the kernel says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SocketUser {
    /// The user that this server runs as.
    Own,
    Root,
    /// Another user of this machine.
    Other(u32),
    /// Another machine, a socket that is closed already, or a kernel that does not tell.
    #[default]
    Unknown,
}

/// What everybody but the server's own user and root has to know. All servers of a cluster have the same: it is derived from
/// their secret, and changes with it.
#[derive(Clone)]
pub struct AccessToken {
    text: String,
    /// For comparing in constant time.
    key: Hmac<Sha256>,
}

/// Tells scanners for leaked secrets, and people, what it is.
const PREFIX: &str = "punctual_";

impl AccessToken {
    pub(crate) fn new(key: &PeerKey) -> Self {
        let secret = key.derive(b"access token");
        let digits = hex::encode(secret);
        let key = Hmac::new_from_slice(&key.derive(b"access token comparison")).expect("a key may have any length");
        Self { text: format!("{PREFIX}{digits}"), key }
    }

    /// As it is written into its file. A secret.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Takes as long for any text of one length: digests under a secret key are compared, not the texts.
    pub(crate) fn is(&self, presented: &str) -> bool {
        let digest = |text: &str| self.key.clone().chain_update(text).finalize();
        digest(presented) == digest(&self.text)
    }
}

impl fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccessToken")
    }
}

impl App {
    /// Says on whose behalf a request is made and in which namespace, or which credential it lacks. `bearer` is the token that
    /// came with it, `namespace` the name that it asks for.
    pub fn authenticate(
        &self,
        transport: &Transport,
        bearer: Option<&str>,
        namespace: Option<&str>,
    ) -> Result<Principal> {
        let principal = self.recognize(transport, bearer)?;
        match namespace {
            Some(name) => self.choose_namespace(principal, name),
            None => Ok(principal),
        }
    }

    fn recognize(&self, transport: &Transport, bearer: Option<&str>) -> Result<Principal> {
        let everything = |kind, name| Ok(Principal::new(kind, name, Rights::all()).at(transport.address));
        // Before what the kernel says: whoever shows a certificate is its holder and nobody else.
        if let (Some(name), None) = (&transport.certificate, bearer) {
            return match name.kind {
                CertificateKind::Worker => Ok(self.enrolled_principal(&name.id)?.at(transport.address)),
                CertificateKind::Server => {
                    let error = AppError::new(ErrorKind::Forbidden, "the certificate of a server is for peers");
                    Err(error.hint("use a credential of your own"))
                }
            };
        }
        if let Some(secret) = bearer.and_then(|bearer| self.secret_of_token(bearer)) {
            // Commands of the server's own user find the token by themselves and send it.
            return match transport.socket_user {
                SocketUser::Own | SocketUser::Root => everything(PrincipalKind::LocalUser, "local"),
                SocketUser::Other(_) | SocketUser::Unknown => {
                    Ok(everything(PrincipalKind::ClusterToken, "token")?.with_credential(secret))
                }
            };
        }
        if let Some(identified) = bearer.and_then(|bearer| self.identify(bearer, transport)) {
            return identified;
        }
        let (kind, detail) = match (transport.socket_user, bearer) {
            // Also for those who need none: whoever presents a token expects it to be checked.
            (_, Some(_)) => (ErrorKind::InvalidToken, "the access token is not this server's".to_owned()),
            (SocketUser::Own | SocketUser::Root, None) => {
                return everything(PrincipalKind::LocalUser, "local");
            }
            (SocketUser::Other(uid), None) => {
                (ErrorKind::Unauthenticated, format!("uid {uid} is not the user that this server runs as"))
            }
            (SocketUser::Unknown, None) => (ErrorKind::Unauthenticated, "the request has no credential".to_owned()),
        };
        let place = match (transport.socket_user, &self.0.settings.token_file) {
            // Strangers learn nothing of the server's folders.
            (SocketUser::Unknown, _) => "ask an administrator of the cluster for one".to_owned(),
            (_, Some(file)) => {
                format!("the access token is in {}, which only the server's user can read", file.display())
            }
            (_, None) => "the server has no file with the access token; its log says why".to_owned(),
        };
        let hint = format!(
            "log in with `punctual login`, or use an API key; {place}; pass it with --token-file, in PUNCTUAL_TOKEN, or as \
             Authorization: Bearer TOKEN"
        );
        Err(AppError::new(kind, detail).hint(hint))
    }

    fn accepts_secret(&self, id: Option<&str>) -> bool {
        self.0.keys.now().accepted().any(|keys| Some(keys.id.as_str()) == id)
    }

    /// The id of the secret that an access token is derived from, if that is accepted.
    fn secret_of_token(&self, bearer: &str) -> Option<String> {
        let keys = self.0.keys.now();
        keys.accepted().find(|keys| keys.access.is(bearer)).map(|keys| keys.id.clone())
    }

    /// The principal with the rights that it has now, or the reason why its credential does not count any more. What lasts
    /// longer than a request asks again, at least every [`Principal::CHECKED_EVERY`].
    pub fn renew(&self, principal: &Principal) -> Result<Principal> {
        if let Some(found) = self.identify_again(principal) {
            return self.choose_again(found?, principal);
        }
        match principal.kind() {
            // The kernel's word holds for the connection.
            PrincipalKind::LocalUser | PrincipalKind::Server => Ok(principal.clone()),
            // The token holds for as long as the secret that it is derived from.
            PrincipalKind::ClusterToken if self.accepts_secret(principal.credential()) => Ok(principal.clone()),
            PrincipalKind::Worker => {
                Ok(self.enrolled_principal(principal.credential().unwrap_or_default())?.at(principal.address()))
            }
            PrincipalKind::ClusterToken | PrincipalKind::Key | PrincipalKind::Person | PrincipalKind::Agent => {
                let detail = format!("the credential of {} does not count any more", principal.name());
                Err(AppError::new(ErrorKind::Unauthenticated, detail).hint("use another credential"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use punctual_store::ClusterSecret;

    use super::*;

    #[test]
    fn a_token_is_that_of_its_cluster_and_is_not_shown() {
        let token = |secret| AccessToken::new(&PeerKey::new(ClusterSecret([secret; 32])));
        let (ours, theirs) = (token(1), token(2));
        assert!(ours.is(token(1).as_str()), "every server of the cluster has the same");
        for wrong in [theirs.as_str(), "", "punctual_", &ours.as_str()[1..], &format!("{} ", ours.as_str())] {
            assert!(!ours.is(wrong), "{wrong}");
        }
        assert_eq!(ours.as_str().len(), PREFIX.len() + 64, "256 bits");
        assert!(!format!("{ours:?}").contains(&ours.as_str()[PREFIX.len()..]));
    }
}
