//! Settings of servers.

use std::net::SocketAddr;
use std::path::PathBuf;

use punctual_app::{LOG_BYTES_MAX, LOG_BYTES_MIN, Roles, TaskLimits};
use punctual_core::retry::RetryPolicy;
use punctual_core::size::ByteSize;
use punctual_core::{ShardId, Span};

use super::{SERVER, SERVER_AND_DEV, SERVER_DEV_AND_WORKER, SERVERS};
use punctual_server::Proxies;

use crate::config::kind::{Kind, folder, number, one_of, parsed, size, span};
use crate::config::setting::{FlagCommand, Role, setting, settings, unset};
use crate::config::{Database, OpenIdSettings, Storage, addresses, server};
use crate::root_key::RootKeyPlace;

/// Where the certificate comes from that a server shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TlsMode {
    /// No TLS.
    Off,
    /// From files that somebody renews.
    Files,
    /// From the cluster's own authority.
    Cluster,
}

/// How much a commit survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// A power cut.
    Full,
    /// The end of the process.
    Normal,
}

const SECOND: Span = Span::from_secs(1);
const HOUR: Span = Span::from_secs(3600);
const DAY: Span = Span::from_secs(86_400);

/// S3 refuses larger files in one piece.
const ARTIFACT_MAX: ByteSize = ByteSize::mib(5 << 10);

const fn millis(millis: i64) -> Span {
    Span::from_millis(millis)
}

settings! {
    read by SERVERS;

    /// The settings of a server, read and checked.
    struct ServerSettings;

    composed {
        storage: Storage = Storage::read;
        openid: OpenIdSettings = OpenIdSettings::read;
    }

    Servers {
        listen: SocketAddr = parsed(addresses::listen).described("an address of this machine"),
            setting("127.0.0.1:8020", "The address to listen on; port 0 takes any that is free")
                .flag(SERVER_AND_DEV, "ADDRESS").in_dev("127.0.0.1:8020, or the next free port");
        advertise: Option<String> = parsed(addresses::advertise).or_none(),
            unset("http:// or https:// and the address of `listen`", "The URL at which peers and workers reach the server")
                .flag(SERVER, "URL");
        tls: TlsMode = one_of(&[("off", TlsMode::Off), ("files", TlsMode::Files), ("cluster", TlsMode::Cluster)]),
            setting(
                "off",
                "Where the server's certificate comes from: cluster (the cluster's own authority), files (`tls_cert` and \
                 `tls_key`), or off for plain HTTP on loopback",
            )
            .flag(SERVER, "MODE");
        tls_cert: Option<PathBuf> = folder().described("a path").or_none(),
            unset("none", "The file with the certificate and its chain, in PEM; read again when it changes")
                .flag(SERVER, "FILE");
        tls_key: Option<PathBuf> = folder().described("a path").or_none(),
            unset("none", "The file with the private key of `tls_cert`, in PEM; read again when it changes")
                .flag(SERVER, "FILE");
        public_hosts: Vec<String> = parsed(addresses::public_hosts).described("names and IP addresses, separated by commas"),
            unset("none", "Names and IP addresses by which people and workers reach the server, beside that of `advertise`")
                .flag(SERVER, "HOSTS").repeats();
        proxies: Proxies = parsed(addresses::proxies).described("IP addresses and networks, separated by commas"),
            unset("none", "Addresses of proxies in front of the server; only their X-Forwarded headers are believed")
                .flag(SERVER, "ADDRESSES").repeats();
        public_url: Option<String> = parsed(addresses::public_url).or_none(),
            unset("http:// or https:// and the address of `listen`", "The URL that links in notifications begin with")
                .flag(SERVER, "URL");
        roles: Roles = parsed(server::roles).described("api, scheduler or both"),
            setting("api,scheduler", "What the server does: api, scheduler or both, separated by commas")
                .flag(SERVER, "ROLES").local();
        data_dir: PathBuf = folder(),
            setting(".punctual", "The folder of the embedded database, the access token and a worker's files")
                .flag(SERVER_DEV_AND_WORKER, "DIR").local_if_inside().read_by(&[Role::Server, Role::Worker]);
        root_key: Option<RootKeyPlace> = parsed(RootKeyPlace::parse).or_none()
            .described("file:PATH, credential:NAME, env:NAME or command:LINE"),
            unset(
                "the systemd credential punctual-root-key, or root.key in `data_dir`",
                "Where the root key is, which seals secrets in the database; all servers of a database need the same. \
                 A file is made at the first start",
            )
            .flag(SERVER_AND_DEV, "PLACE");
        lease_ttl: Span = span(SECOND, Span::from_secs(600)),
            setting("10s", "A server that is silent for this long loses its shards to the others").flag(SERVER, "TIME").local();
        clock_skew_max: Span = span(millis(10), HOUR),
            setting("5s", "A server whose clock differs from the database's by more than this starts no jobs")
                .flag(SERVER, "TIME").local();
        missed_after: Span = span(SECOND, HOUR),
            setting("60s", "A run of a schedule is missed if no server handled it within this time")
                .flag(SERVER_AND_DEV, "TIME").local();
        retention: Span = span(Span::from_secs(60), Span::MAX),
            setting("7d", "How long finished jobs are kept").flag(SERVER_AND_DEV, "TIME");
        audit_retention: Span = span(HOUR, Span::MAX),
            setting("365d", "How long lines of the audit log are kept").flag(SERVER_AND_DEV, "TIME");
        prune_interval: Span = span(SECOND, HOUR),
            setting("60s", "How often records older than `retention` are removed").local();
    }
    Database {
        database: Database = parsed(Database::parse).described("a URL or key=value pairs"),
            unset(
                "the embedded database",
                "The PostgreSQL database to use. A password belongs in PUNCTUAL_DATABASE or PGPASSWORD, not on the \
                 command line",
            )
            .flag(&[FlagCommand::Server, FlagCommand::Dev, FlagCommand::Migrate], "CONNECTION").has_password();
        database_wait: Span = span(Span::ZERO, DAY),
            setting("60s", "How long a server that starts waits for a PostgreSQL database that is unavailable")
                .flag(SERVER, "TIME").local();
        durability: Durability = one_of(&[("full", Durability::Full), ("normal", Durability::Normal)]),
            setting(
                "full",
                "Embedded database only. full: commits survive a power cut; normal: the latest ones may not",
            )
            .flag(SERVER_AND_DEV, "MODE").local();
        shards: Option<u16> = number(1, ShardId::COUNT_MAX.into()).or_none(),
            unset("4, or 64 with PostgreSQL", "Number of parts that the jobs are split into; fixed by the first server")
                .flag(SERVER_AND_DEV, "N").local();
    }
    Storage {
        artifact_max: ByteSize = size(ByteSize::bytes(1), ARTIFACT_MAX),
            setting("2GiB", "The largest file that may be uploaded").flag(SERVER_AND_DEV, "SIZE").local();
        log_limit: ByteSize = size(ByteSize::bytes(LOG_BYTES_MIN), ByteSize::bytes(LOG_BYTES_MAX)),
            setting("1MiB", "The size of one attempt's log; of a longer one, the beginning and the end are kept")
                .flag(SERVER_AND_DEV, "SIZE").local();
    }
    Polling {
        look_ahead: Span = span(SECOND, HOUR),
            setting("30s", "How far ahead of their time jobs are read into memory").flag(SERVER_AND_DEV, "TIME").local();
        window_max: usize = number(100, 10_000_000),
            setting("20000", "Maximum number of jobs that wait in memory, over all shards of a server")
                .flag(SERVER_AND_DEV, "N").local();
        poll_interval: Span = span(millis(10), Span::from_secs(60)),
            setting("1s", "How often the next jobs of the look-ahead are read; new jobs are also announced").local();
        full_poll_interval: Span = span(millis(10), HOUR).described("`poll_interval` to 1h"),
            setting("10s", "How often the whole look-ahead is read again, for jobs whose announcement was lost").local();
        read_batch: usize = number(2, 10_000),
            setting("1000", "Number of jobs that one read takes from the database").local();
        write_batch: usize = number(1, 10_000),
            setting("2000", "Maximum number of starts and ends of jobs that one transaction writes").local();
    }
    Tasks {
        default_timeout: Span = timeout().described("1ms to `timeout_max`"),
            setting("20m", "The timeout of a task that sets none").local();
        default_retries: u16 = retries().described("0 to `retries_max`"),
            setting("3", "The retries of a task that sets none, after failures and after the loss of a worker").local();
        timeout_max: Span = timeout(), setting("30d", "The longest timeout that a task may set").local();
        retries_max: u16 = retries(), setting("1000", "The most retries that a task may set").local();
        quarantine_after: u16 = number(1, 1000),
            setting("3", "A job is quarantined when this many workers died while they ran it").local();
        retry_after_max: Span = span(Span::ZERO, Span::MAX),
            setting("24h", "The longest delay of a retry that a receiver can ask for with `Retry-After`").local();
    }
    WorkerLoss {
        heartbeat: Span = span(millis(100), Span::from_secs(60)),
            setting("5s", "How often a worker sends a heartbeat").flag(SERVER_AND_DEV, "TIME").local();
        worker_dead_after: Span = span(millis(200), HOUR).described("two heartbeats to 1h"),
            setting("20s", "A worker that is silent for this long is lost").flag(SERVER_AND_DEV, "TIME").local();
    }
    Connections {
        grpc_streams_max: usize = number(1, 1_000_000),
            setting("20000", "Maximum number of gRPC calls of each kind that a server takes at a time");
        request_rate: u32 = number(0, 1_000_000),
            setting("5000", "Requests a second that each key and each user may send to a server; 0 is no limit");
    }
}

fn timeout() -> Kind<Span> {
    span(millis(1), TaskLimits::default().timeout_max)
}

fn retries() -> Kind<u16> {
    number(0, RetryPolicy::MAX_MAX.into())
}
