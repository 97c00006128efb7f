//! Whether the address that a server advertises leads to it. Workers and peers reach a server at that address only: if
//! another one answers there, what this one owns would never run.
//!
//! Asks the address itself, because the database cannot tell a server that was killed a second ago from one that lives.
//! An address that nobody answers at is refused, too: jobs of the shards that this server would own could not start.
//!
//! An address may lead elsewhere later, such as that of a load balancer. A server that finds another one behind its address owns
//! no shards until it answers there itself.

use std::net::TcpListener;
use std::time::Duration;

use anyhow::Context;
use punctual_app::App;
use punctual_client::Client;
use punctual_core::ServerId;
use punctual_engine::Engine;
use punctual_pki::{ClientTls, Trust};
use punctual_server::Network;
use punctual_store::Store;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::exit::conflict;
use crate::tls::ServerSide;

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
    tls: Option<&ServerSide>,
) -> anyhow::Result<()> {
    let client = client(advertised, tls)?;
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
    tls: Option<&ServerSide>,
) -> anyhow::Result<JoinHandle<()>> {
    let client = client(&advertised, tls)?;
    Ok(tokio::spawn(async move {
        loop {
            sleep(CHECK_EVERY).await;
            let is_taken = match app.same_address() {
                None => false,
                Some(_) => match timeout(ANSWER_LIMIT, client.who_answers()).await {
                    Ok(Ok(Some(server))) => server != engine.server(),
                    // Nobody can say yet.
                    Ok(Ok(None) | Err(_)) | Err(_) => continue,
                },
            };
            match (engine.set_address_taken(is_taken), is_taken) {
                (false, true) => tracing::error!(
                    address = advertised,
                    "another server answers at this server's address; until that changes this server owns no shards"
                ),
                (true, false) => tracing::info!(address = advertised, "this server may own shards again"),
                (false, false) | (true, true) => {}
            }
        }
    }))
}

/// Trusts what this server may show itself, beside the authorities of the system.
fn client(address: &str, tls: Option<&ServerSide>) -> anyhow::Result<Client> {
    let client = Client::new(address)?.with_repeat_budget(Duration::ZERO);
    match tls {
        Some(tls) if client.uses_tls() => {
            let tls = ClientTls::new(&Trust::SystemAnd(tls.own_certificates()), None, &[b"http/1.1"]);
            Ok(client.with_tls(tls.context("cannot use TLS")?.config().as_ref().clone())?)
        }
        _ => Ok(client),
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
