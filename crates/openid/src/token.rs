//! ID tokens (JWT, RFC 7519): the signature first, and then what is signed.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use crate::fault::quoted;
use crate::keys::{Algorithm, Checked, Keys};
use crate::{Fault, json};

/// Room for the names of some thousand groups.
const TOKEN_BYTES_MAX: usize = 128 << 10;
const KEY_ID_BYTES_MAX: usize = 256;

/// A token whose form is right. Nothing in it is true yet.
#[derive(Debug)]
pub(crate) struct Unverified<'a> {
    algorithm: Algorithm,
    key_id: Option<String>,
    signed: &'a str,
    payload: Vec<u8>,
    signature: Vec<u8>,
}

impl<'a> Unverified<'a> {
    pub(crate) fn read(token: &'a str) -> Result<Self, Fault> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(Fault::invalid("too_large", format!("the ID token has {} bytes", token.len())));
        }
        let malformed = |detail: &str| Fault::invalid("malformed", detail);
        let mut parts = token.split('.');
        let (Some(header), Some(payload), Some(signature), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(malformed("the ID token does not have three parts"));
        };
        let decoded = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| malformed("a part is not base64url"));
        let (algorithm, key_id) = read_header(&json::object(&decoded(header)?, "the header")?)?;
        Ok(Self {
            algorithm,
            key_id,
            signed: &token[..header.len() + 1 + payload.len()],
            payload: decoded(payload)?,
            signature: decoded(signature)?,
        })
    }

    /// What the provider signed. `None` if its keys have none with this id.
    pub(crate) fn verify(&self, keys: &Keys) -> Result<Option<Map<String, Value>>, Fault> {
        match keys.check(self.algorithm, self.key_id.as_deref(), self.signed.as_bytes(), &self.signature) {
            Checked::Valid => json::object(&self.payload, "the ID token").map(Some),
            Checked::WrongSignature => Err(Fault::invalid("wrong_signature", "no key of the provider made it")),
            Checked::UnknownKey => Ok(None),
        }
    }

    pub(crate) fn unknown_key(&self) -> Fault {
        let id = self.key_id.as_deref().map_or_else(|| "without an id".to_owned(), |id| format!("`{}`", quoted(id)));
        Fault::invalid("unknown_key", format!("the provider has no key {id} for the algorithm of the ID token"))
    }
}

/// The key comes from the provider's set and from nowhere else: `jwk`, `jku`, `x5c` and `x5u` are not looked at.
fn read_header(header: &Map<String, Value>) -> Result<(Algorithm, Option<String>), Fault> {
    let name = header.get("alg").and_then(Value::as_str).unwrap_or_default();
    let algorithm = Algorithm::from_name(name).ok_or_else(|| {
        Fault::invalid("wrong_algorithm", format!("`{}` is none of RS256, ES256 and EdDSA", quoted(name)))
    })?;
    if header.contains_key("crit") {
        return Err(Fault::invalid("malformed", "the header demands an extension"));
    }
    let is_jwt = |typ: &Value| typ.as_str().is_some_and(|typ| typ.eq_ignore_ascii_case("jwt"));
    if !header.get("typ").is_none_or(is_jwt) {
        return Err(Fault::invalid("malformed", "it is another kind of token"));
    }
    match header.get("kid") {
        None => Ok((algorithm, None)),
        Some(Value::String(id)) if id.len() <= KEY_ID_BYTES_MAX => Ok((algorithm, Some(id.clone()))),
        Some(_) => Err(Fault::invalid("malformed", "the id of the key is not a short text")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made once with a key that nobody kept.
    const RSA_KEY: &str = concat!(
        r#"{"kty":"RSA","n":"pzyhYBdtNafgqE-KgafF5Fx5cyEDOLlf_o207TDKn1abpUveRgorze5YXa3ihLntMIJt41LiMMG13ZJiZk"#,
        r#"mIacNZnEj7Lf3nSpnjRegZ0dw5BQEAYsEA0GcIs29EdtksQNRWggEN39hvjsNX77oMqi-WdYfEQCfIfxjkpJz0W4dZDENHLX5jqM"#,
        r#"-OKqjR4Es4Lv3yig6xJwb-2UXvpiB0OrqIE01qZI6JsWsyQOdIYMc8DECJqH4hg20bhnIU3wxgGEsJ812pD7uGTvhElsiK3eyQph"#,
        r#"WpvoXIJE5Uyp9u84pKLUniWaIphhjPJVs4yHPx3HDl9GrqeAM3QX9gU6SB_Q","e":"AQAB","kid":"rsa-1","use":"sig",""#,
        r#"alg":"RS256"}"#,
    );
    const RSA_TOKEN: &str = concat!(
        r#"eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6InJzYS0xIn0.eyJpc3MiOiJJU1MiLCJzdWIiOiJzIn0.HPg399EUIWBS"#,
        r#"Q7GrgHaphBRkdyZY1WjwgQ3mMh3tShUgLwSA7A5ox_Tf9iBTjPz-DMVK3Q9hUn2IAuqry5mjCmTmKi4TU5lmpvb9Wcb0yiBldzeK"#,
        r#"f-Ic7eM06ldB8YPsQXKFyTxWRuWhU4-KtRQhcPB5LiA4_DNfH5mqh2cc3nXkrTdz5rx9CJ4hMUK2ShtVFg1LICbdmjre-gHM6C4Y"#,
        r#"CBr40tc9PqN5EiSdYbnJ6KFXfqdQyhGrCHtXWS-Es4HvQCs36dVChcwZ0G1YKxTCj5oAT8JyKt063ZEySpk9xm_xACg5Ln8lYOha"#,
        r#"zv6ITQ7uxNJt8cWHAVP9EkGQV7EIdA"#,
    );

    fn keys(key: &str) -> Keys {
        Keys::read(format!(r#"{{"keys":[{key}]}}"#).as_bytes()).unwrap()
    }

    #[test]
    fn a_signature_with_rsa_is_checked() {
        let token = Unverified::read(RSA_TOKEN).unwrap();
        let claims = token.verify(&keys(RSA_KEY)).unwrap().unwrap();
        assert_eq!(claims["sub"], "s");
        let changed = RSA_TOKEN.replacen("eyJpc3Mi", "eyJpc3Nj", 1);
        let changed = Unverified::read(&changed).unwrap();
        assert_eq!(changed.verify(&keys(RSA_KEY)).unwrap_err().reason(), "wrong_signature");
        for other in [RSA_KEY.replace("rsa-1", "rsa-2"), RSA_KEY.replace("\"sig\"", "\"enc\"")] {
            assert_eq!(token.verify(&keys(&other)).unwrap(), None, "{other}");
        }
    }

    #[test]
    fn a_short_rsa_key_signs_nothing() {
        let (before, rest) = RSA_KEY.split_once("\"n\":\"").unwrap();
        let (modulus, after) = rest.split_once('"').unwrap();
        let short = format!("{before}\"n\":\"{}\"{after}", &modulus[..172]);
        let token = Unverified::read(RSA_TOKEN).unwrap();
        assert_eq!(token.verify(&keys(&short)).unwrap_err().reason(), "wrong_signature");
    }
}
