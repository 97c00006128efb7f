//! Builds servers and workers out of their parts. The only place that names a
//! concrete store, storage or transport.

use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use punctual_app::{App, ClusterKeys, Parts, RootKeySource, Settings, Unlocked, VaultParts, WorkerProgram};
use punctual_blobs::{BlobError, Blobs, UrlKey};
use punctual_core::schedule::recurrence::ZoneData;
use punctual_core::shard::QuotasAtStart;
use punctual_core::{ServerId, Span};
use punctual_duties::Runner;
use punctual_engine::{Engine, EngineConfig, MemberConfig, StartError};
use punctual_exec::{Account, Binaries, Commands, Downloads, ProgramCache, Programs};
use punctual_peers::GrpcPeers;
use punctual_sandbox::{Launcher, LauncherOptions, Protection};
use punctual_server::{Network, Rest};
use punctual_store_sqlite::DataLoss;
use punctual_worker::{HTTP_2, PlainHttp, Worker};
use tokio::sync::oneshot;

use crate::access::{self, Published, TokenSource, TrustedUsers};
use crate::address;
use crate::agents;
use crate::config::{Database, SandboxSettings, ServerSettings, Spawn, Storage, TlsMode, WorkerSettings};
use crate::exit::failed;
use crate::folders::make_private;
use crate::join::JoinOptions;
use crate::memory;
use crate::openid;
use crate::program_users;
use crate::root_key::{self, RootKeyPlace};
use crate::stores::OpenStore;
use crate::tls::ServerSide;
use crate::trust::TrustedAuthorities;
use crate::{clock, random};

#[derive(Debug)]
pub(crate) struct ServerOptions {
    /// Bound already, so that nobody takes the port in between.
    pub(crate) listener: TcpListener,
    pub(crate) settings: ServerSettings,
    pub(crate) data_loss: DataLoss,
    pub(crate) worker_program: WorkerProgram,
}

/// The server takes and runs jobs.
#[derive(Debug)]
pub(crate) struct ServerReady {
    pub(crate) address: SocketAddr,
    /// Such as `http://127.0.0.1:8020`.
    pub(crate) url: String,
    /// The store and how it writes, as `GET /v1/server` says it.
    pub(crate) store: String,
}

pub(crate) struct WorkerOptions {
    /// Addresses of servers, such as `http://127.0.0.1:8020`. One is enough: it tells of the others.
    pub(crate) servers: Vec<String>,
    pub(crate) name: String,
    pub(crate) settings: WorkerSettings,
    pub(crate) token: TokenSource,
    /// Whose servers on this machine the worker takes work from.
    pub(crate) trusted_users: TrustedUsers,
    pub(crate) plain_http: PlainHttp,
    /// Whom the worker trusts over TLS.
    pub(crate) authorities: TrustedAuthorities,
    /// For a worker that shows a certificate.
    pub(crate) join: Option<JoinOptions>,
}

/// Runs a server until `shutdown` ends, and then until it has drained.
pub(crate) async fn run_server(
    options: ServerOptions,
    ready: oneshot::Sender<ServerReady>,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> anyhow::Result<()> {
    let ServerOptions { listener, settings, data_loss, worker_program } = options;
    memory::keep_giving_back();
    settings.task_defaults().set();
    let numbers = random::numbers()?;
    let address = listener.local_addr().context("cannot read the address")?;
    let url = match &settings.advertise {
        // Nobody can use the address of all interfaces.
        Some(advertised) if address.ip().is_unspecified() => advertised.clone(),
        _ => format!("{}://{address}", settings.scheme()),
    };
    let opened = OpenStore::open(&settings, data_loss).await?;
    let store = opened.as_store();
    let root_keys = settings.root_key.clone().unwrap_or_else(|| RootKeyPlace::usual(&settings.data_dir));
    let root_keys: Arc<dyn RootKeySource> = Arc::new(root_keys);
    let entropy = root_key::entropy()?;
    let Unlocked { secrets, root_key: _, vault } =
        punctual_app::unlock(&*store, &*root_keys, &entropy).await.map_err(root_key::not_unlocked)?;
    let keys = ClusterKeys::open(&secrets);
    let blobs = open_storage(&settings, keys.now().url_key())?;
    let config = engine_config(&settings, address, [numbers(), numbers()]);
    let server = config.server;
    let tls = ServerSide::start(&settings, &store, &keys, &entropy, server).await?;
    let network = Network {
        tls: tls.as_ref().map(|side| Arc::clone(&side.tls)),
        hosts: served_hosts(&settings).into(),
        proxies: settings.proxies.clone(),
    };
    if settings.database != Database::Embedded {
        address::check(&listener, server, &config.member.address, &*store, network.clone()).await?;
    }
    let advertised = config.member.address.clone();
    let token_file = access::keep_token(&settings.data_dir, keys.now().access_token());
    let engine = Engine::start(Arc::clone(&store), config).await.map_err(not_started)?;
    let app_settings = Settings {
        heartbeat: settings.heartbeat,
        worker_dead_after: settings.worker_dead_after,
        lease_ttl: settings.lease_ttl,
        roles: settings.roles,
        artifact_max: settings.artifact_max,
        retention: settings.retention,
        audit_retention: settings.audit_retention,
        public_url: settings.public_url.clone().unwrap_or_else(|| url.clone()),
        worker_program,
        missed_after: settings.missed_after,
        log_limit: settings.log_limit,
        request_rate: settings.request_rate,
        task_limits: settings.task_limits(),
        token_file: token_file.clone(),
    };
    let app = App::new(Parts {
        store: Arc::clone(&store),
        engine: engine.clone(),
        clock: engine.clock(),
        random: numbers,
        peers: Arc::new(GrpcPeers::new(
            keys.clone(),
            engine.clock(),
            server,
            tls.as_ref().map(|side| side.peers.clone()),
        )),
        keys: keys.clone(),
        vault: VaultParts { key: vault, entropy, root_keys },
        blobs: blobs.clone(),
        settings: app_settings.clone(),
    });
    openid::set_up(&app, &settings.openid, engine.clock())?;
    // Whoever comes first with a key is not refused because nobody has looked yet.
    app.refresh_namespaces().await.context("cannot read namespaces")?;
    app.refresh_identities().await.context("cannot read keys and sessions")?;
    // Since the engine started, the others wait for this server before they sign with another secret. It may have changed before.
    app.refresh_cluster_secret().await.context("cannot read the stage of the cluster's secret")?;
    let token_kept = access::keep_token_fresh(&settings.data_dir, &keys);
    let duties = punctual_duties::all(&punctual_duties::Context {
        app: app.clone(),
        store: Arc::clone(&store),
        engine: engine.clone(),
        blobs,
        settings: app_settings,
        prune_every: settings.prune_interval,
    });
    let duties = Runner::start(&engine, duties);
    let address_check = match settings.database {
        Database::Embedded => None,
        _ => Some(address::keep_checking(app.clone(), engine.clone(), advertised, network.tls.clone())?),
    };
    let rest = if settings.roles.api { Rest::Served } else { Rest::ProbesOnly };

    listener.set_nonblocking(true).context("cannot prepare the socket")?;
    let listener = tokio::net::TcpListener::from_std(listener).context("cannot prepare the socket")?;
    let _published: Vec<_> = token_file.iter().flat_map(|file| note_token(address, file)).collect();
    let fresh = tls.map(ServerSide::keep_fresh);
    let _ = ready.send(ServerReady { address, url, store: store.description() });
    let mut was_stopped = false;
    let until = async {
        tokio::select! {
            () = shutdown => {}
            () = engine.ended() => {}
        }
        // Before the connections are waited for: the streams of workers end with the engine.
        was_stopped = engine.stop().await;
        app.say_goodbye().await;
    };
    let router = punctual_server::router(app.clone(), rest, network.clone(), settings.grpc_streams_max);
    punctual_server::serve(router, listener, network, until).await;
    token_kept.abort();
    if let Some(check) = address_check {
        check.abort();
    }
    if let Some(fresh) = fresh {
        fresh.abort();
    }
    // After the connections: workers that parted are recorded by a duty.
    duties.stop().await;
    drop((engine, store, app));
    opened.close().await.context("cannot close the store")?;
    anyhow::ensure!(was_stopped, "the engine broke down; its last words are in the log");
    Ok(())
}

/// The hosts that requests may name beside loopback. Without TLS and proxies nobody comes from elsewhere.
fn served_hosts(settings: &ServerSettings) -> Vec<String> {
    if settings.tls == TlsMode::Off && settings.proxies.is_empty() { Vec::new() } else { settings.hosts() }
}

/// Commands on this machine use its loopback addresses where a server listens on all of them.
fn note_token(address: SocketAddr, token_file: &Path) -> Vec<Published> {
    let addresses: Vec<SocketAddr> = match address.ip() {
        ip if !ip.is_unspecified() => vec![address],
        IpAddr::V4(_) => vec![(Ipv4Addr::LOCALHOST, address.port()).into()],
        IpAddr::V6(_) => [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()]
            .map(|ip| SocketAddr::new(ip, address.port()))
            .into(),
    };
    addresses.into_iter().filter_map(|address| access::publish(address, token_file)).collect()
}

fn open_storage(settings: &ServerSettings, urls: UrlKey) -> anyhow::Result<Blobs> {
    let opened = match &settings.storage {
        Storage::InDataDir => folder_storage(&settings.data_dir.join("storage"), urls)?,
        Storage::Folder(path) => folder_storage(path, urls)?,
        Storage::S3(bucket) => Blobs::s3(bucket),
    };
    opened.map_err(|error| failed(format!("cannot use the storage: {error}"), "correct the setting `storage`"))
}

fn folder_storage(path: &Path, urls: UrlKey) -> anyhow::Result<Result<Blobs, BlobError>> {
    make_private(path, "--storage")?;
    Ok(Blobs::folder(path, urls))
}

fn engine_config(settings: &ServerSettings, address: SocketAddr, random: [u64; 2]) -> EngineConfig {
    let wall = clock::wall();
    let server = ServerId::new(wall(), random[0]);
    let mut config = EngineConfig::new(server, wall, clock::monotonic(), random[1]);
    match settings.database {
        // The store's lock shows that the former owner is gone.
        Database::Embedded => config = config.alone(),
        Database::Postgres(_) => config.owner.lanes = punctual_store_postgres::LANES.into(),
    }
    config.member = MemberConfig {
        address: settings.advertise.clone().unwrap_or_else(|| format!("{}://{address}", settings.scheme())),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        roles: settings.roles.names(),
        zone_data: ZoneData::in_use().version.clone().unwrap_or_default(),
    };
    config.lease_ttl = settings.lease_ttl;
    // Three renewals may fail before a lease is lost.
    config.renew_every = Span::from_micros(settings.lease_ttl.as_micros() * 3 / 10);
    config.clock_skew_max = settings.clock_skew_max;
    config.owner.schedule_grace = settings.missed_after;
    config.owner.look_ahead = settings.look_ahead;
    config.owner.window_max = settings.window_max;
    config.owner.worker_silence = settings.worker_dead_after;
    config.owner.sweep_every = settings.poll_interval;
    config.owner.floor_sweep_every = settings.full_poll_interval;
    config.owner.page_len = settings.read_batch;
    config.owner.batch_max = settings.write_batch;
    config.owner.quarantine_after = settings.quarantine_after;
    config.owner.retry_after_max = settings.retry_after_max;
    config.owner.quotas_at_start = QuotasAtStart::Unknown;
    config
}

fn not_started(error: StartError) -> anyhow::Error {
    match error {
        StartError::ClockSkew(skew) => {
            failed(skew.to_string(), "start the server again then; `clock_skew_max` sets the limit")
        }
        StartError::Store(_) | StartError::Thread(_) => anyhow::Error::new(error).context("cannot start the engine"),
    }
}

/// The hidden argument with which this program is the sandbox's launcher.
pub(crate) const SANDBOX_LAUNCHER: &str = "sandbox-launcher";

pub(crate) fn sandbox_options(required: Vec<Protection>) -> anyhow::Result<LauncherOptions> {
    // Not by its path: by the time a launcher that died is started again, there may be a newer program.
    let this = PathBuf::from("/proc/self/exe");
    std::fs::read_link(&this).context("cannot find this program")?;
    Ok(LauncherOptions { command: this, args: vec![SANDBOX_LAUNCHER.to_owned()], required })
}

/// `None` where programs cannot be sandboxed: then the worker takes no binaries.
pub(crate) async fn safe_launcher(sandbox: &SandboxSettings) -> anyhow::Result<Option<Launcher>> {
    let launcher = match Launcher::start(sandbox_options(sandbox.required.clone())?).await {
        Ok(launcher) => launcher,
        Err(error) => {
            tracing::warn!(%error, "there is no sandbox here: this worker takes no binaries");
            return Ok(None);
        }
    };
    let level = launcher.level();
    let lacks = level.lacks(&sandbox.required);
    for sentence in level.sentences() {
        // A refusal below names what is lacking itself.
        if lacks.is_empty() || sandbox.is_named {
            tracing::info!("sandbox: {sentence}");
        } else {
            tracing::warn!("sandbox: {sentence}");
        }
    }
    if !Protection::FLOOR.iter().all(|protection| level.has(*protection)) {
        tracing::warn!("the sandbox is not safe here: this worker takes no binaries; see punctual doctor");
        return Ok(None);
    }
    if lacks.is_empty() {
        return Ok(Some(launcher));
    }
    if sandbox.is_named {
        let message = format!("the sandbox is weaker here than sandbox_require demands: {}", lacks.join("; "));
        return Err(failed(message, "do what it says, or require less with --sandbox-require"));
    }
    tracing::warn!(
        "this worker takes no binaries: not all limits of programs can be enforced here; \
         `--sandbox-require none` accepts that"
    );
    Ok(None)
}

async fn binaries(programs: Arc<Programs>, sandbox: &SandboxSettings) -> anyhow::Result<Option<Binaries>> {
    let Some(launcher) = safe_launcher(sandbox).await? else { return Ok(None) };
    let users = program_users::choose(&sandbox.users, &Spawn::Never)?;
    Ok(Some(Binaries::new(launcher, programs, sandbox.network, users)))
}

/// The folder of programs, and of files that tasks read.
fn programs(
    authorities: Option<&str>,
    downloads: Arc<dyn Downloads>,
    cache: ProgramCache,
) -> anyhow::Result<Arc<Programs>> {
    make_private(&cache.folder, "--cache-dir")?;
    let folder = cache.folder.display().to_string();
    let programs = Programs::trusting(authorities, downloads, cache).map_err(|error| {
        failed(format!("cannot use the folder {folder}: {error}"), "name another one with --cache-dir")
    })?;
    Ok(Arc::new(programs))
}

/// Runs a worker until `shutdown` ends, and then until its attempts have ended or
/// the drain timeout has.
pub(crate) async fn run_worker(
    options: WorkerOptions,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> anyhow::Result<()> {
    let WorkerOptions { servers, name, mut settings, token, trusted_users, plain_http, authorities, join } = options;
    tokio::pin!(shutdown);
    let mut own_authorities = authorities.pem().map_err(|reason| failed(reason, "correct --ca-file"))?;
    let mut worker = Worker::connect_any(servers.clone())
        .token(move |url| token(url))
        .distrust(move |address| trusted_users.distrust(address))
        .plain_http(plain_http)
        .tls(move || authorities.client(&[HTTP_2]))
        .servers_max(settings.worker_servers)
        .name(name.clone())
        .slots(settings.slots)
        .queues(settings.queues)
        .spool_dir(settings.spool_dir)
        .drain_timeout(settings.drain_timeout.to_std())
        .log_attempts(settings.log_attempts)
        .sending(settings.sending)
        .standard_executors();
    if settings.probe_effects {
        worker = worker.probe_effects();
    }
    if let Some(JoinOptions { folder, token }) = join {
        make_private(&folder, "identity_dir")?;
        worker = worker.join(folder, token);
        own_authorities = tokio::select! {
            enrolled = worker.enrol() => enrolled?,
            () = &mut shutdown => return Ok(()),
        };
    }
    // Agents are told whom to trust; what is named for them goes first.
    settings.agents.authorities = settings.agents.authorities.or_else(|| own_authorities.clone());
    let programs = programs(own_authorities.as_deref(), worker.downloads(), settings.programs)?;
    if settings.allow_commands {
        worker = worker.executor(Commands::new(Account::own()).files(Arc::clone(&programs)));
    }
    let mut all_ended = None;
    if settings.agents.spawn == Spawn::Never {
        if let Some(binaries) = binaries(programs, &settings.sandbox).await? {
            worker = worker.executor(binaries);
        }
    } else if let Some(agents) =
        agents::build(&settings.agents, &settings.sandbox, &servers, &name, settings.slots, worker.admissions()).await?
    {
        all_ended = Some(agents.all_ended());
        worker = worker.executor(agents);
    }
    for (key, value) in settings.labels {
        worker = worker.label(key, value);
    }
    let ran = worker.run_until(&mut shutdown).await;
    // What did not end in time is being ended by force.
    if let Some(all_ended) = all_ended
        && tokio::time::timeout(agents::FAREWELL_MAX, all_ended).await.is_err()
    {
        tracing::warn!("some environments of agents could not be ended; the next worker sweeps them");
    }
    Ok(ran?)
}
