//! Whether the address that a server advertises leads to it. Workers and peers reach a server at that address only: if
//! another one answers there, what this one owns would never run.
//!
//! Asks the address itself, because the database cannot tell a server that was killed a second ago from one that lives.
//! An address that nobody answers at is refused, too: jobs of the shards that this server would own could not start.
//!
//! An address may lead elsewhere later, such as that of a load balancer. A server that finds another one behind its address owns
//! no shards until it answers there itself.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use punctual_app::App;
use punctual_client::Client;
use punctual_core::ServerId;
use punctual_engine::Engine;
use punctual_pki::{CertificateDer, ClientTls, ServerTls, Trust};
use punctual_server::Network;
use punctual_store::Store;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::exit::conflict;

/// A server answers in milliseconds. The rest is for a machine that is busy.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);
/// A proxy in front of the server may start at the same time as the server does.
const WAIT_MAX: Duration = Duration::from_secs(10);
const ASK_EVERY: Duration = Duration::from_millis(250);
/// As often as servers read who else there is.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// Refuses to start unless this server answers at the address that it advertises. Answers on the listener meanwhile.
pub(crate) async fn check(
    listener: &TcpListener,
    server: ServerId,
    advertised: &str,
    store: &dyn Store,
    network: Network,
) -> anyhow::Result<()> {
    let client = OwnAddress::new(advertised.to_owned(), network.tls.clone())?.client;
    let own = listener.try_clone().context("cannot prepare the socket")?;
    own.set_nonblocking(true).context("cannot prepare the socket")?;
    let own = tokio::net::TcpListener::from_std(own).context("cannot prepare the socket")?;
    let (stop, stopped) = oneshot::channel::<()>();
    let until = async {
        // Ended by dropping the other end.
        let _ = stopped.await;
    };
    tokio::spawn(async move { punctual_server::serve(punctual_server::starting(server), own, network, until).await });
    let answering = who_answers(&client, advertised).await;
    drop(stop);
    let other = match answering {
        Ok(other) => other,
        Err(reason) => {
            return Err(conflict(
                format!(
                    "nobody answers at the address {advertised}, where workers and other servers reach this server{reason}"
                ),
                "set --advertise to an address that leads to this server, or leave it out to use the address of --listen",
            ));
        }
    };
    if other == server {
        return Ok(());
    }
    let members = store.members().await.context("cannot read the servers of the cluster")?;
    let known = members.into_iter().map(|seen| seen.member).find(|member| member.id == other);
    let what = match known {
        Some(member) => format!("{other}, version {}, running since {}", member.version, member.started_at),
        None => format!("{other}, which is starting or belongs to another cluster"),
    };
    Err(conflict(
        format!("another server has the address {advertised}: {what}"),
        format!(
            "give this server an address of its own with --advertise, or stop the other one; \
             `punctual server list --server {advertised}` shows them"
        ),
    ))
}

/// Looks who answers at the address for as long as another server says that it has the same.
pub(crate) fn keep_checking(
    app: App,
    engine: Engine,
    advertised: String,
    tls: Option<Arc<ServerTls>>,
) -> anyhow::Result<JoinHandle<()>> {
    let mut address = OwnAddress::new(advertised, tls)?;
    Ok(tokio::spawn(async move {
        loop {
            sleep(CHECK_EVERY).await;
            let is_taken = match app.same_address() {
                None => false,
                Some(_) => match address.who_answers().await {
                    Some(server) => server != engine.server(),
                    // Nobody can say yet.
                    None => continue,
                },
            };
            match (engine.set_address_taken(is_taken), is_taken) {
                (false, true) => tracing::error!(
                    address = address.advertised,
                    "another server answers at this server's address; until that changes this server owns no shards"
                ),
                (true, false) => tracing::info!(address = address.advertised, "this server may own shards again"),
                (false, false) | (true, true) => {}
            }
        }
    }))
}

/// The address that a server advertises, and whom it trusts there: what it may show itself, beside the authorities of the system.
struct OwnAddress {
    advertised: String,
    tls: Option<Arc<ServerTls>>,
    client: Client,
    /// Whom the client trusts.
    trusted: Vec<CertificateDer<'static>>,
}

impl OwnAddress {
    fn new(advertised: String, tls: Option<Arc<ServerTls>>) -> anyhow::Result<Self> {
        let client = Client::new(&advertised)?.with_repeat_budget(Duration::ZERO);
        let tls = tls.filter(|_| client.uses_tls());
        let mut address = Self { advertised, tls, client, trusted: Vec::new() };
        address.follow_authorities()?;
        Ok(address)
    }

    /// The server that answers there now, if one does.
    async fn who_answers(&mut self) -> Option<ServerId> {
        if let Err(error) = self.follow_authorities() {
            tracing::warn!(address = self.advertised, "{error:#}");
        }
        timeout(ANSWER_LIMIT, self.client.who_answers()).await.ok()?.ok()?
    }

    /// Another server shows what it has from the authority of today, which may have been rotated since this one started.
    fn follow_authorities(&mut self) -> anyhow::Result<()> {
        let Some(tls) = &self.tls else { return Ok(()) };
        let trusted = tls.own_certificates();
        if trusted == self.trusted {
            return Ok(());
        }
        let tls = ClientTls::new(&Trust::SystemAnd(trusted.clone()), None, &[b"http/1.1"]).context("cannot use TLS")?;
        let client = Client::new(&self.advertised)?.with_repeat_budget(Duration::ZERO);
        self.client = client.with_tls(tls.config().as_ref().clone())?;
        self.trusted = trusted;
        Ok(())
    }
}

/// The server that answers at the address, as soon as one does; or why there was no answer, if TLS is the reason.
async fn who_answers(client: &Client, address: &str) -> Result<ServerId, String> {
    let deadline = Instant::now() + WAIT_MAX;
    let mut reason = String::new();
    while Instant::now() < deadline {
        match timeout(ANSWER_LIMIT, client.who_answers()).await {
            Ok(Ok(Some(server))) => return Ok(server),
            Ok(Ok(None)) => tracing::debug!(address, "what answers at the advertised address is no server"),
            Ok(Err(error)) => {
                tracing::debug!(%error, address, "nobody answers at the advertised address");
                reason = error.tls_trouble().map_or_else(String::new, |trouble| format!(": {trouble}"));
            }
            Err(_) => tracing::debug!(address, "the advertised address did not answer in time"),
        }
        sleep(ASK_EVERY).await;
    }
    Err(reason)
}

#[cfg(test)]
mod tests {
    use punctual_core::Span;
    use punctual_pki::{Authority, CertificateName, ClusterName, Credentials, LeafRequest, ServerTlsParts};

    use super::*;
    use crate::clock::now;

    fn authority(generation: u32) -> Authority {
        Authority::make(ClusterName::new("cluster").unwrap(), generation, now()).unwrap()
    }

    fn issued_by(authority: &Authority) -> Credentials {
        let name = CertificateName::server(authority.cluster().clone(), "server").unwrap();
        let hosts = vec!["127.0.0.1".to_owned()];
        authority.issue_with_key(LeafRequest { name, hosts, lifetime: Span::from_secs(3600) }, now()).unwrap()
    }

    fn parts(issued_by_first: &Authority, trusted: &[&Authority]) -> ServerTlsParts {
        ServerTlsParts {
            cluster: issued_by_first.cluster().clone(),
            issued: issued_by(issued_by_first),
            from_files: None,
            authorities: trusted.iter().map(|one| one.certificate().clone()).collect(),
        }
    }

    /// Answers at a free port; its address.
    async fn serve(server: ServerId, tls: ServerTls) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("https://{}", listener.local_addr().unwrap());
        let network = Network { tls: Some(Arc::new(tls)), ..Network::default() };
        let router = punctual_server::starting(server);
        tokio::spawn(punctual_server::serve(router, listener, network, std::future::pending()));
        address
    }

    #[tokio::test]
    async fn another_server_is_known_by_an_authority_that_was_made_after_the_start() {
        let (former, new) = (authority(1), authority(2));
        let other = ServerId::new(now(), 7);
        let advertised = serve(other, ServerTls::new(parts(&new, &[&former, &new])).unwrap()).await;
        let tls = Arc::new(ServerTls::new(parts(&former, &[&former])).unwrap());
        let mut address = OwnAddress::new(advertised, Some(Arc::clone(&tls))).unwrap();
        assert_eq!(address.who_answers().await, None, "nothing is known of the new authority yet");
        tls.replace(parts(&former, &[&former, &new])).unwrap();
        assert_eq!(address.who_answers().await, Some(other));
        // The former one is gone some day, and a server of another cluster is never believed.
        tls.replace(parts(&new, &[&new])).unwrap();
        assert_eq!(address.who_answers().await, Some(other));
        let stranger = authority(3);
        tls.replace(parts(&stranger, &[&stranger])).unwrap();
        assert_eq!(address.who_answers().await, None);
    }
}
