//! The authorization code flow with PKCE: a browser goes to the provider and comes back with a code.

use subtle::ConstantTimeEq;
use url::Url;

use crate::discovery::Discovery;
use crate::fault::quoted;
use crate::{Fault, Identity, Provider, challenge_of};

/// What ties an answer to the login that it is for. The browser sees the state and the nonce, and never the verifier.
#[derive(Clone, PartialEq, Eq)]
pub struct LoginSecrets {
    pub state: String,
    pub nonce: String,
    pub verifier: String,
}

/// What a browser brings back.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    pub state: Option<String>,
    pub code: Option<String>,
    /// Who sent the browser back, if the provider says so (RFC 9207).
    pub issuer: Option<String>,
    pub error: Option<String>,
    pub error_description: Option<String>,
}

/// Codes are short; some providers put a token into them.
const CODE_BYTES_MAX: usize = 4096;

impl Provider {
    /// Where a browser is sent to.
    pub async fn login_address(&self, secrets: &LoginSecrets) -> Result<Url, Fault> {
        let discovery = self.discovery().await?;
        let mut url = discovery.authorization.clone();
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.settings.client_id)
            .append_pair("redirect_uri", &self.settings.redirect_url)
            .append_pair("scope", &self.scope())
            .append_pair("state", &secrets.state)
            .append_pair("nonce", &secrets.nonce)
            .append_pair("code_challenge", &challenge_of(&secrets.verifier))
            .append_pair("code_challenge_method", "S256");
        Ok(url)
    }

    pub(crate) fn scope(&self) -> String {
        let others = self.settings.scopes.iter().map(String::as_str).filter(|scope| *scope != "openid");
        std::iter::once("openid").chain(others).collect::<Vec<_>>().join(" ")
    }

    /// Who logged in. An answer for another login, or from somebody else, is refused before the provider is asked.
    pub async fn finish(&self, answer: &Answer, secrets: &LoginSecrets) -> Result<Identity, Fault> {
        let state = answer.state.as_deref().unwrap_or_default();
        if !bool::from(state.as_bytes().ct_eq(secrets.state.as_bytes())) {
            return Err(Fault::invalid("wrong_state", "the answer is for another login"));
        }
        let discovery = self.discovery().await?;
        self.check_sender(answer, &discovery)?;
        if let Some(error) = &answer.error {
            let description = answer.error_description.as_deref().map(quoted).unwrap_or_default();
            return Err(Fault::LoginRefused(format!("{} {description}", quoted(error)).trim_end().to_owned()));
        }
        let code = answer.code.as_deref().filter(|code| !code.is_empty() && code.len() <= CODE_BYTES_MAX);
        let code =
            code.ok_or_else(|| Fault::invalid("no_code", "the provider sent the browser back without a code"))?;
        let fields = [
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", &self.settings.redirect_url),
            ("code_verifier", &secrets.verifier),
        ];
        let request = self.as_client(self.http.post(discovery.token.clone()), discovery.client_auth, &fields);
        match self.tokens(request, "the token endpoint").await? {
            Ok(tokens) => self.identity(&discovery, &tokens, Some(&secrets.nonce)).await,
            // It was used before, or is not for this client, this address or this verifier.
            Err(code) => Err(Fault::invalid("code_refused", format!("the token endpoint answers {code}"))),
        }
    }

    /// A code of another provider must not be redeemed here.
    fn check_sender(&self, answer: &Answer, discovery: &Discovery) -> Result<(), Fault> {
        match &answer.issuer {
            Some(issuer) if *issuer == self.settings.issuer => Ok(()),
            Some(issuer) => Err(Fault::invalid("wrong_issuer", format!("`iss` of the answer is `{}`", quoted(issuer)))),
            None if discovery.names_itself => Err(Fault::invalid("wrong_issuer", "`iss` of the answer is missing")),
            None => Ok(()),
        }
    }
}
