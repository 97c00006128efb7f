//! Makes the provider of OpenID Connect out of the settings.

use punctual_app::{App, OpenIdParts};
use punctual_core::host;
use punctual_engine::Clock;
use punctual_openid::{ClientSecret, Provider, ProviderSettings};
use punctual_pki::{Trust, certificates_from_pem, client_config};

use crate::config::{OpenIdSettings, host_of};
use crate::exit::usage;

const SEE: &str = "see docs/openid-connect.md";
/// Where the provider sends browsers back to, below the public address of the servers.
const CALLBACK: &str = "/v1/login/oidc/callback";

/// Lets people log in at the provider, if there is one. Asks it nothing yet: servers start also while it is down.
pub(crate) fn set_up(app: &App, settings: &OpenIdSettings, clock: Clock) -> anyhow::Result<()> {
    let Some(issuer) = &settings.openid_issuer else { return Ok(()) };
    let Some(rules) = settings.openid_rules.clone() else {
        let message = "openid_issuer is set, and openid_rules has no rule, so nobody could log in";
        return Err(usage(message, format!("map a group of the provider to a role in openid_rules; {SEE}")));
    };
    let secret = Some(settings.openid_client_secret.as_str()).filter(|secret| !secret.is_empty());
    let home = &app.settings().public_url;
    check_home(home)?;
    let provider = ProviderSettings {
        issuer: issuer.clone(),
        client_id: settings.openid_client_id.clone(),
        client_secret: secret.map(ClientSecret::new),
        redirect_url: format!("{home}{CALLBACK}"),
        scopes: settings.openid_scopes.clone(),
        name_claim: settings.openid_name_claim.clone(),
        groups_claim: settings.openid_groups_claim.clone(),
        audiences: settings.openid_audiences.clone(),
    };
    let tls = if issuer.starts_with("https://") { Some(tls(settings)?) } else { None };
    let provider = Provider::new(provider, tls, clock);
    let provider = provider.map_err(|error| usage(error.to_string(), format!("correct openid_issuer; {SEE}")))?;
    app.use_openid(OpenIdParts { provider, rules, session: settings.openid_session });
    Ok(())
}

/// Codes come back to this address, through browsers elsewhere.
fn check_home(home: &str) -> anyhow::Result<()> {
    let is_here = host_of(home).is_some_and(|name| host::is_loopback(name) || name == "::1");
    if home.starts_with("https://") || is_here {
        return Ok(());
    }
    let message = format!("browsers come back from the provider to {home}, which is not https");
    Err(usage(message, format!("set public_url to an address with https; {SEE}")))
}

fn tls(settings: &OpenIdSettings) -> anyhow::Result<punctual_pki::rustls::ClientConfig> {
    let refused = |reason: String| {
        usage(format!("openid_ca_file: {reason}"), format!("name a file with certificates in PEM; {SEE}"))
    };
    let trust = match &settings.openid_ca_file {
        None => Trust::System,
        Some(path) => {
            let text =
                std::fs::read(path).map_err(|error| refused(format!("cannot read {}: {error}", path.display())))?;
            Trust::Roots(certificates_from_pem(&text).map_err(|error| refused(error.to_string()))?)
        }
    };
    client_config(&trust, None, &[]).map_err(|error| refused(error.to_string()))
}
