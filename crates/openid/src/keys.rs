//! The provider's public keys (JWKS, RFC 7517).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde_json::{Map, Value};

use crate::{Fault, json};

/// Providers have a few: the one in use, the next and former ones.
const KEYS_MAX: usize = 64;

/// The algorithms that an ID token may be signed with. None of them has a shared secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Algorithm {
    Rs256,
    Es256,
    EdDsa,
}

impl Algorithm {
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        match name {
            "RS256" => Some(Self::Rs256),
            "ES256" => Some(Self::Es256),
            "EdDSA" => Some(Self::EdDsa),
            _ => None,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Es256 => "ES256",
            Self::EdDsa => "EdDSA",
        }
    }
}

#[derive(Debug, Clone)]
struct Key {
    id: Option<String>,
    /// The one algorithm for it, by the type of the key.
    algorithm: Algorithm,
    material: Material,
}

#[derive(Debug, Clone)]
enum Material {
    Rsa { modulus: Vec<u8>, exponent: Vec<u8> },
    P256(Vec<u8>),
    Ed25519(Vec<u8>),
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Keys(Vec<Key>);

/// What became of a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Checked {
    Valid,
    /// A key of this name is there, and it did not make the signature.
    WrongSignature,
    /// No key of this name and algorithm is there: the provider may have a new one.
    UnknownKey,
}

impl Keys {
    /// What is not for signatures, or of an algorithm that is not used, is left out.
    pub(crate) fn read(text: &[u8]) -> Result<Self, Fault> {
        let unusable = |reason: &str| Fault::Unusable(format!("its keys: {reason}"));
        let document = json::object(text, "the set").map_err(|fault| unusable(&fault.to_string()))?;
        let list = document.get("keys").and_then(Value::as_array).ok_or_else(|| unusable("`keys` is missing"))?;
        if list.len() > KEYS_MAX {
            return Err(unusable(&format!("there are more than {KEYS_MAX}")));
        }
        Ok(Self(list.iter().filter_map(|key| read_key(key.as_object()?)).collect()))
    }

    pub(crate) fn check(&self, algorithm: Algorithm, id: Option<&str>, signed: &[u8], signature: &[u8]) -> Checked {
        let fits = |key: &&Key| key.algorithm == algorithm && id.is_none_or(|id| key.id.as_deref() == Some(id));
        let mut fitting = self.0.iter().filter(fits).peekable();
        if fitting.peek().is_none() {
            return Checked::UnknownKey;
        }
        if fitting.any(|key| key.verifies(signed, signature)) { Checked::Valid } else { Checked::WrongSignature }
    }
}

impl Key {
    fn verifies(&self, signed: &[u8], signature: &[u8]) -> bool {
        let verified = match &self.material {
            Material::Rsa { modulus, exponent } => {
                let key = RsaPublicKeyComponents { n: modulus, e: exponent };
                key.verify(&RSA_PKCS1_2048_8192_SHA256, signed, signature)
            }
            Material::P256(point) => UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(signed, signature),
            Material::Ed25519(point) => UnparsedPublicKey::new(&ED25519, point).verify(signed, signature),
        };
        verified.is_ok()
    }
}

fn read_key(key: &Map<String, Value>) -> Option<Key> {
    let text = |name: &str| key.get(name).and_then(Value::as_str);
    let bytes = |name: &str| text(name).and_then(|value| URL_SAFE_NO_PAD.decode(value).ok());
    // Whoever publishes a private key has lost it.
    if text("use").is_some_and(|usage| usage != "sig") || key.contains_key("d") {
        return None;
    }
    if let Some(operations) = key.get("key_ops")
        && !operations.as_array()?.iter().any(|operation| operation == "verify")
    {
        return None;
    }
    let (algorithm, material) = match (text("kty")?, text("crv")) {
        ("RSA", _) => (Algorithm::Rs256, Material::Rsa { modulus: bytes("n")?, exponent: bytes("e")? }),
        ("EC", Some("P-256")) => {
            let (x, y) = (bytes("x")?, bytes("y")?);
            let point = [&[4][..], &x, &y].concat();
            (Algorithm::Es256, Material::P256(Some(point).filter(|_| (x.len(), y.len()) == (32, 32))?))
        }
        ("OKP", Some("Ed25519")) => (Algorithm::EdDsa, Material::Ed25519(bytes("x").filter(|x| x.len() == 32)?)),
        _ => return None,
    };
    if text("alg").is_some_and(|named| named != algorithm.name()) {
        return None;
    }
    let id = match key.get("kid") {
        Some(id) => Some(id.as_str()?.to_owned()),
        None => None,
    };
    Some(Key { id, algorithm, material })
}
