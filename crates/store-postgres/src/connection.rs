//! One connection: how it is set up for its work, its prepared statements, and how long it
//! may take to answer. Every setting of a session is here.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use punctual_store::{Result, StoreError, StoreFault};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, Statement};

use crate::target::{CONNECT_LIMIT, Target};
use crate::tls::MakeTls;
use crate::trouble::{Trouble, shown};

/// What a connection is for. Each kind of work has its own, so that none waits behind another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// Renewals and the clock: late ones cost a server its shards.
    Heartbeat,
    /// Takes shards, and may wait for a batch of their former owner.
    Leases,
    Lane,
    Submit,
    Owner,
    People,
    /// Retention and partitions.
    Maintenance,
}

impl Class {
    const fn name(self) -> &'static str {
        match self {
            Self::Heartbeat => "punctual heartbeat",
            Self::Leases => "punctual leases",
            Self::Lane => "punctual lane",
            Self::Submit => "punctual submit",
            Self::Owner => "punctual owner reads",
            Self::People => "punctual people reads",
            Self::Maintenance => "punctual maintenance",
        }
    }

    /// How long PostgreSQL works on one statement.
    const fn statement_limit(self) -> Duration {
        Duration::from_millis(match self {
            // A lease lasts 10 s and is renewed every 3 s: two tries must fit.
            Self::Heartbeat | Self::Leases => 2_500,
            // A full batch takes some 50 ms; one that takes so long is blocked.
            Self::Lane | Self::Submit => 10_000,
            // A takeover may read long lists, and nobody else does what it would do.
            Self::Owner => 15_000,
            // Whoever waits for a page has gone by then.
            Self::People => 5_000,
            Self::Maintenance => 120_000,
        })
    }

    /// How long an answer may take: a database that hangs cannot end its own statements.
    pub(crate) const fn answer_limit(self) -> Duration {
        self.statement_limit().saturating_add(Duration::from_millis(500))
    }

    fn settings(self) -> String {
        let limit_ms = self.statement_limit().as_millis();
        let mut settings =
            format!("-c statement_timeout={limit_ms} -c idle_in_transaction_session_timeout=5000 -c jit=off");
        // So that PostgreSQL notices a client that is gone, and frees the shards it had locked.
        settings += " -c tcp_keepalives_idle=5 -c tcp_keepalives_interval=2 -c tcp_keepalives_count=3 \
                     -c tcp_user_timeout=10000 -c client_connection_check_interval=2000";
        if self != Self::Maintenance {
            // Plans are made while tables are empty and kept. They must be the right ones for full
            // tables: by index, in its order.
            settings += " -c plan_cache_mode=force_generic_plan -c enable_seqscan=off -c enable_bitmapscan=off \
                         -c enable_hashjoin=off -c enable_mergejoin=off -c enable_sort=off -c enable_material=off";
        }
        if self == Self::Lane {
            // See transitions/lane.rs.
            settings += " -c punctual.last=0";
        }
        settings
    }
}

/// What tokio-postgres says of a server that is a standby or read-only, in its own words.
const NO_WRITES: &str = "does not allow writes";

pub(crate) struct Conn {
    pub(crate) client: Client,
    class: Class,
    statements: Mutex<HashMap<String, Statement>>,
    /// It did not answer in time, so what it would say next belongs to nobody.
    hangs: AtomicBool,
    /// The round in which it was made, and the present one.
    round: (u64, Arc<AtomicU64>),
    driver: AbortHandle,
}

impl Drop for Conn {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Conn {
    /// Tries the hosts in turn, from `first` on; the answer says which one it was.
    pub(crate) async fn open(
        target: &Target,
        tls: &MakeTls,
        class: Class,
        first: usize,
        round: &Arc<AtomicU64>,
    ) -> Result<(Self, usize)> {
        let mut reasons = Vec::new();
        let round = (round.load(Ordering::Relaxed), Arc::clone(round));
        for place in 0..target.hosts.len() {
            let host = (first + place) % target.hosts.len();
            let mut config = target.hosts[host].clone();
            let asked = config.get_options().unwrap_or_default().to_owned();
            // What the operator set in the URL comes last and wins.
            config.options(format!("{} {asked}", class.settings())).application_name(class.name());
            let limit = config.get_connect_timeout().copied().unwrap_or(CONNECT_LIMIT);
            match timeout(limit, config.connect(tls.clone())).await {
                Ok(Ok((client, connection))) => {
                    let driver = tokio::spawn(async move {
                        if let Err(error) = connection.await {
                            tracing::debug!(error = shown(&error), "a connection to PostgreSQL ended");
                        }
                    });
                    let conn = Self {
                        client,
                        class,
                        statements: Mutex::default(),
                        hangs: AtomicBool::new(false),
                        round,
                        driver: driver.abort_handle(),
                    };
                    return Ok((conn, host));
                }
                Ok(Err(error)) => reasons.push(shown(&error)),
                Err(_) => reasons.push(format!("no answer within {} s", limit.as_secs())),
            }
        }
        reasons.dedup();
        if reasons.iter().all(|reason| reason.contains(NO_WRITES)) {
            return Err(StoreError::faulty(StoreFault::ReadOnly, format!("PostgreSQL: {}", reasons.join("; "))));
        }
        Err(StoreError::Unavailable(format!("cannot connect to PostgreSQL: {}", reasons.join("; "))))
    }

    pub(crate) fn is_usable(&self) -> bool {
        let (made_in, present) = &self.round;
        !self.client.is_closed() && !self.hangs.load(Ordering::Relaxed) && *made_in == present.load(Ordering::Relaxed)
    }

    pub(crate) fn give_up(&self) {
        self.hangs.store(true, Ordering::Relaxed);
    }

    /// Waits for an answer as long as this kind of work may.
    pub(crate) async fn within_limit<T, E: Into<Trouble>>(
        &self,
        call: impl Future<Output = std::result::Result<T, E>>,
    ) -> std::result::Result<T, Trouble> {
        match timeout(self.class.answer_limit(), call).await {
            Ok(answer) => {
                let answer = answer.map_err(Into::into);
                if let Err(trouble) = &answer
                    && trouble.is_of_a_standby()
                {
                    self.give_up();
                }
                answer
            }
            Err(_) => {
                self.give_up();
                Err(Trouble::Silent(self.class.answer_limit()))
            }
        }
    }

    pub(crate) async fn prepare(&self, text: &str) -> std::result::Result<Statement, Trouble> {
        let known = self.statements.lock().unwrap_or_else(PoisonError::into_inner).get(text).cloned();
        if let Some(statement) = known {
            return Ok(statement);
        }
        let statement = self.within_limit(self.client.prepare(text)).await?;
        let mut statements = self.statements.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(statements.entry(text.to_owned()).or_insert(statement).clone())
    }

    pub(crate) async fn query(
        &self,
        text: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> std::result::Result<Vec<Row>, Trouble> {
        let statement = self.prepare(text).await?;
        self.within_limit(self.client.query(&statement, params)).await
    }

    pub(crate) async fn query_opt(
        &self,
        text: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> std::result::Result<Option<Row>, Trouble> {
        Ok(self.query(text, params).await?.into_iter().next())
    }

    pub(crate) async fn execute(
        &self,
        text: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> std::result::Result<u64, Trouble> {
        let statement = self.prepare(text).await?;
        self.within_limit(self.client.execute(&statement, params)).await
    }

    /// Statements without parameters or answers, such as BEGIN.
    pub(crate) async fn run(&self, text: &str) -> std::result::Result<(), Trouble> {
        self.within_limit(self.client.batch_execute(text)).await
    }
}
