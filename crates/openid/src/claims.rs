//! What an ID token must say, and what it says of a person.

use punctual_core::{Span, Timestamp};
use serde_json::{Map, Value};
use subtle::ConstantTimeEq;

use crate::Fault;
use crate::fault::quoted;
use crate::settings::ProviderSettings;

/// By how much the provider's clock may differ from ours.
const CLOCK_SKEW_MAX: Span = Span::from_secs(60);
/// It is made when the code is redeemed. One that was made long ago is of another login.
const AGE_MAX: Span = Span::from_secs(600);
/// OpenID Connect Core allows 255 characters.
const SUBJECT_BYTES_MAX: usize = 255;
const AUDIENCES_MAX: usize = 32;
/// Of more groups, none counts: those that were left out could be the ones that matter.
const GROUPS_MAX: usize = 5000;

/// Somebody whom the provider knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    pub issuer: String,
    /// With the issuer, it names the person for good. Nothing else does.
    pub subject: String,
    /// How the person is called, which they may be able to choose.
    pub name: Option<String>,
    pub groups: Vec<String>,
}

/// The claims that a login rests on.
pub(crate) fn check(
    claims: &Map<String, Value>,
    settings: &ProviderSettings,
    nonce: Option<&str>,
    now: Timestamp,
) -> Result<String, Fault> {
    let text = |name: &str| claims.get(name).and_then(Value::as_str);
    if text("iss") != Some(&settings.issuer) {
        let shown = quoted(text("iss").unwrap_or_default());
        return Err(Fault::invalid("wrong_issuer", format!("`iss` is `{shown}`")));
    }
    check_audience(claims, settings)?;
    check_times(claims, now)?;
    if let Some(nonce) = nonce {
        let said = text("nonce").unwrap_or_default();
        if !bool::from(said.as_bytes().ct_eq(nonce.as_bytes())) {
            return Err(Fault::invalid("wrong_nonce", "it was made for another login"));
        }
    }
    let subject = text("sub").filter(|subject| !subject.is_empty() && subject.len() <= SUBJECT_BYTES_MAX);
    let subject = subject.filter(|subject| !subject.chars().any(char::is_control));
    let subject = subject.ok_or_else(|| Fault::invalid("no_subject", "`sub` is missing, too long or not a text"))?;
    Ok(subject.to_owned())
}

fn check_audience(claims: &Map<String, Value>, settings: &ProviderSettings) -> Result<(), Fault> {
    let wrong = |detail: String| Err(Fault::invalid("wrong_audience", detail));
    let audiences: Vec<&str> = match claims.get("aud") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(list)) if list.len() <= AUDIENCES_MAX && list.iter().all(Value::is_string) => {
            list.iter().filter_map(Value::as_str).collect()
        }
        _ => return wrong("`aud` is missing or not a list of texts".to_owned()),
    };
    if !audiences.contains(&settings.client_id.as_str()) {
        return wrong(format!("`aud` is `{}`, and not this client", quoted(&audiences.join(" "))));
    }
    let is_known =
        |audience: &&str| *audience == settings.client_id || settings.audiences.iter().any(|known| known == audience);
    if let Some(other) = audiences.iter().find(|audience| !is_known(audience)) {
        return wrong(format!("`aud` has `{}` too, which openid_audiences does not name", quoted(other)));
    }
    match claims.get("azp") {
        None if audiences.len() == 1 => Ok(()),
        Some(Value::String(party)) if *party == settings.client_id => Ok(()),
        None => Err(Fault::invalid("wrong_party", "`aud` has several audiences, and `azp` is missing")),
        Some(_) => Err(Fault::invalid("wrong_party", "`azp` is another client")),
    }
}

fn check_times(claims: &Map<String, Value>, now: Timestamp) -> Result<(), Fault> {
    let required = |name: &str| {
        let time = time(claims, name)?;
        time.ok_or_else(|| Fault::invalid("malformed", format!("`{name}` is missing")))
    };
    if required("exp")? + CLOCK_SKEW_MAX <= now {
        return Err(Fault::invalid("expired", "`exp` is in the past"));
    }
    let issued = required("iat")?;
    let not_before = time(claims, "nbf")?;
    if [Some(issued), not_before].into_iter().flatten().any(|from| from > now + CLOCK_SKEW_MAX) {
        return Err(Fault::invalid("not_yet_valid", "`iat` or `nbf` is in the future; compare the clocks"));
    }
    if issued + AGE_MAX + CLOCK_SKEW_MAX < now {
        return Err(Fault::invalid("too_old", "`iat` is long before this login"));
    }
    Ok(())
}

/// Seconds since 1970, which may have a fraction.
fn time(claims: &Map<String, Value>, name: &str) -> Result<Option<Timestamp>, Fault> {
    /// The year 9999 and something: later than anything that is meant.
    const SECONDS_MAX: f64 = 253_000_000_000.0;
    let Some(value) = claims.get(name) else { return Ok(None) };
    let seconds = value.as_f64().filter(|seconds| (0.0..=SECONDS_MAX).contains(seconds));
    let seconds = seconds.ok_or_else(|| Fault::invalid("malformed", format!("`{name}` is not a time")))?;
    Ok(Some(Timestamp::saturating_from_micros((seconds * 1e6) as i64)))
}

/// What the claims say of the person's name.
pub(crate) fn name(claims: &Map<String, Value>, claim: &str) -> Option<String> {
    named(claims, claim)?.as_str().filter(|name| !name.is_empty()).map(str::to_owned)
}

/// What the claims say of groups; `None` if nothing.
pub(crate) fn groups(claims: &Map<String, Value>, claim: &str) -> Option<Vec<String>> {
    match named(claims, claim)? {
        Value::String(one) => Some(vec![one.clone()]),
        Value::Array(list) if list.len() <= GROUPS_MAX => {
            Some(list.iter().filter_map(Value::as_str).map(str::to_owned).collect())
        }
        _ => None,
    }
}

/// The claim of this name or, with dots, one inside others, such as `realm_access.roles`.
fn named<'a>(claims: &'a Map<String, Value>, claim: &str) -> Option<&'a Value> {
    if let Some(found) = claims.get(claim) {
        return Some(found);
    }
    let (outer, inner) = claim.split_once('.')?;
    named(claims.get(outer)?.as_object()?, inner)
}
