//! Whether the certificates fit the names by which servers are reached, and last.

use std::net::SocketAddr;
use std::time::Duration;

use punctual_client::Client;
use punctual_core::{Span, Timestamp};
use punctual_pki::{CertificateFacts, CertificateFiles, ClientTls, Reload, explain};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::Check;
use crate::clock::now;
use crate::config::{ServerSettings, TlsMode, host_of};
use crate::context::Context;
use crate::output::counted;
use crate::secret_files::exposure;
use crate::zone::short;

const ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// Certificates of public authorities are renewed a month before their end.
const EXPIRES_SOON: Span = Span::from_secs(14 * 86_400);
/// A server renews what the cluster's authority issued three days before its end.
const RENEWED_LATE: Span = Span::from_secs(2 * 86_400);
/// Time to give everybody the certificate of the next authority.
const AUTHORITY_EXPIRES_SOON: Span = Span::from_secs(180 * 86_400);

/// What the server that answers shows.
pub(super) async fn of_server(context: &Context, client: &Client) -> Vec<Check> {
    let mut checks = Vec::new();
    if client.url().starts_with("https://") {
        checks.push(match shown(context, client, client.url()).await {
            Ok(facts) => lasts("certificate", &facts, RENEWED_LATE, now()),
            Err(reason) => Check::fail("certificate", reason, "see docs/tls.md"),
        });
        if let Ok(list) = client.authority().await {
            checks.extend(
                list.authorities
                    .iter()
                    .filter(|view| view.retired_at.is_none())
                    .map(|view| authority(view.not_after, now())),
            );
        }
    }
    checks
}

fn authority(not_after: Timestamp, now: Timestamp) -> Check {
    const NAME: &str = "authority";
    let left = not_after.since(now);
    if left < AUTHORITY_EXPIRES_SOON {
        let reason = format!("the cluster's authority expires in {}", short(left));
        return Check::warn(NAME, reason, "replace it with `punctual authority rotate`");
    }
    Check::pass(NAME, format!("the cluster's authority expires in {}", short(left)))
}

/// What the settings of this machine's server say.
pub(super) async fn of_settings(context: &Context, settings: &ServerSettings) -> Vec<Check> {
    let mut checks = Vec::new();
    let hosts = settings.hosts();
    if let (TlsMode::Files, Some(certificate), Some(key)) = (settings.tls, &settings.tls_cert, &settings.tls_key) {
        checks.extend(of_files(CertificateFiles::new(certificate.clone(), key.clone(), exposure), &hosts, now()));
    }
    if let Some(advertised) = &settings.advertise {
        checks.push(reachable(context, advertised).await);
    }
    checks
}

fn of_files(mut files: CertificateFiles, hosts: &[String], now: Timestamp) -> Vec<Check> {
    const NAMES: &str = "certificate names";
    match files.look(now) {
        Reload::New(credentials) => {
            let facts = credentials.facts();
            let missing: Vec<&str> = hosts.iter().map(String::as_str).filter(|host| !facts.names(host)).collect();
            let names = if missing.is_empty() {
                Check::pass(NAMES, format!("tls_cert is for {}", counted(hosts.len(), "configured name")))
            } else {
                let reason = format!("tls_cert is not for {}", missing.join(", "));
                Check::fail(NAMES, reason, "get a certificate for all names in advertise, public_url and public_hosts")
            };
            vec![lasts("certificate file", facts, EXPIRES_SOON, now), names]
        }
        Reload::Broken(error) => {
            let reason = format!("{:#}", anyhow::Error::new(error));
            vec![Check::fail("certificate file", reason, "correct tls_cert and tls_key")]
        }
        Reload::Unchanged => Vec::new(),
    }
}

fn lasts(name: &'static str, facts: &CertificateFacts, soon: Span, now: Timestamp) -> Check {
    let left = facts.not_after.since(now);
    if facts.not_after <= now {
        return Check::fail(name, format!("it expired at {}", facts.not_after), "renew it, or compare the clocks");
    }
    if left < soon {
        return Check::warn(name, format!("it expires in {}", short(left)), "find out why it was not renewed");
    }
    Check::pass(name, format!("it expires in {}", short(left)))
}

/// Whether a server answers at the address that this one tells others.
async fn reachable(context: &Context, advertised: &str) -> Check {
    const NAME: &str = "advertised address";
    let fix = "let `advertise` lead to this server; workers and other servers use it";
    let client = match context.client_at(advertised) {
        Ok(client) => client,
        Err(error) => return Check::fail(NAME, format!("{error:#}"), fix),
    };
    match client.live().await {
        Ok(()) => Check::pass(NAME, format!("a server answers at {advertised}")),
        Err(error) => {
            let reason = error.unreachable_because().unwrap_or_else(|| error.to_string());
            Check::fail(NAME, format!("nobody answers at {advertised}: {reason}"), fix)
        }
    }
}

/// The certificate that a server shows, if it is trusted.
async fn shown(context: &Context, client: &Client, url: &str) -> Result<CertificateFacts, String> {
    let authorities = context.trusted_authorities(client).map_err(|error| format!("{error:#}"))?;
    let tls = authorities.client(&[b"http/1.1"])?;
    match timeout(ANSWER_LIMIT, handshake(url, &tls)).await {
        Ok(facts) => facts,
        Err(_) => Err("no TLS handshake in time".to_owned()),
    }
}

async fn handshake(url: &str, tls: &ClientTls) -> Result<CertificateFacts, String> {
    let host = host_of(url).ok_or("the address names no host")?;
    let name = tls.server_name(host).map_err(|error| error.to_string())?;
    let stream = connect(url, host).await.map_err(|error| error.kind().to_string())?;
    let stream = TlsConnector::from(tls.config()).connect(name, stream).await;
    let stream = stream.map_err(|error| explain(&error).map_or_else(|| error.to_string(), |why| why.to_string()))?;
    let certificates = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let first = certificates.first().ok_or("it showed no certificate")?;
    CertificateFacts::read(first).map_err(|error| error.to_string())
}

async fn connect(url: &str, host: &str) -> std::io::Result<TcpStream> {
    const HTTPS: u16 = 443;
    let authority = url.trim_start_matches("https://").split('/').next().unwrap_or_default();
    let port = authority.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).unwrap_or(HTTPS);
    match host.parse() {
        Ok(ip) => TcpStream::connect(SocketAddr::new(ip, port)).await,
        Err(_) => TcpStream::connect((host, port)).await,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    #[test]
    fn an_end_that_is_near_is_said_before_it_comes() {
        let facts = |days: i64| CertificateFacts {
            subject: String::new(),
            issuer: String::new(),
            not_before: Timestamp::EPOCH,
            not_after: Timestamp::EPOCH + Span::from_secs(days * 86_400),
            dns_names: Vec::new(),
            addresses: Vec::new(),
            serial: String::new(),
            is_authority: false,
        };
        let verdict = |days| lasts("x", &facts(days), EXPIRES_SOON, Timestamp::EPOCH).verdict;
        assert_eq!([verdict(0), verdict(13), verdict(15)], [Verdict::Fail, Verdict::Warn, Verdict::Pass]);
        let of_authority =
            |days: i64| authority(Timestamp::EPOCH + Span::from_secs(days * 86_400), Timestamp::EPOCH).verdict;
        assert_eq!([of_authority(179), of_authority(181)], [Verdict::Warn, Verdict::Pass]);
    }
}
