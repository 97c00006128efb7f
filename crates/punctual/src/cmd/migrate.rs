//! `punctual migrate`.

use clap::{Args, Subcommand};
use comfy_table::Cell;
use punctual_store::StoreError;
use punctual_store::{MigrationState, MigrationStatus};
use punctual_store_postgres::{migrate, migrations, pending_sql};
use serde::Serialize;
use serde_json::json;

use super::Context;
use crate::config::{Connection, Database, MigrateFlags, ServerSettings};
use crate::exit::{Exit, failed, unreachable};
use crate::output::{Format, Output, Row, counted};
use crate::table::Yield;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct MigrateArgs {
    #[command(subcommand)]
    verb: Option<MigrateVerb>,
    /// Print the SQL that would run, and run nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    settings: MigrateFlags,
}

#[derive(Debug, Subcommand)]
enum MigrateVerb {
    /// Show every migration and whether the database has it
    Status(MigrateFlags),
}

impl MigrateArgs {
    pub(crate) fn settings(&self) -> &[(&'static str, String)] {
        match &self.verb {
            Some(MigrateVerb::Status(settings)) => settings.given(),
            None => self.settings.given(),
        }
    }
}

#[derive(Debug, Serialize)]
struct Line {
    version: u32,
    name: String,
    /// applied, pending or unknown.
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    applied_at: Option<punctual_core::Timestamp>,
}

impl From<MigrationStatus> for Line {
    fn from(status: MigrationStatus) -> Self {
        let (state, applied_at) = match status.state {
            MigrationState::Applied { at } => ("applied", Some(at)),
            MigrationState::Pending => ("pending", None),
            MigrationState::Unknown { at } => ("unknown", Some(at)),
        };
        Self { version: status.version, name: status.name, state, applied_at }
    }
}

impl Row for Line {
    const HEADER: &'static [&'static str] = &["VERSION", "NAME", "STATE", "APPLIED"];
    const YIELDS: &'static [Yield] = &[Yield::ShortTimes, Yield::Cut("NAME", 8), Yield::Drop("APPLIED")];

    fn name(&self) -> String {
        self.version.to_string()
    }

    fn cells(&self, out: &Output) -> Vec<Cell> {
        let applied = self.applied_at.map_or_else(|| "-".to_owned(), |at| out.time(at));
        vec![Cell::new(self.version), Cell::new(&self.name), Cell::new(self.state), Cell::new(applied)]
    }
}

pub(crate) async fn run(args: MigrateArgs, context: &Context) -> anyhow::Result<Exit> {
    let Database::Postgres(connection) = ServerSettings::new(&context.config)?.database else {
        context.out.hint(
            "The embedded database is brought up to date by the server that opens it; there is nothing to do. \
             Name a PostgreSQL with --database.",
        );
        return Ok(Exit::Ok);
    };
    match args.verb {
        Some(MigrateVerb::Status(_)) => status(&connection, context).await,
        None if args.dry_run => dry_run(&connection, context).await,
        None => apply(&connection, context).await,
    }
}

async fn status(connection: &Connection, context: &Context) -> anyhow::Result<Exit> {
    let known = migrations(&connection.reveal()).await.map_err(|error| refused(connection, error))?;
    let lines: Vec<Line> = known.into_iter().map(Line::from).collect();
    context.out.rows(&lines, &json!({ "migrations": lines }))?;
    let count = |state| lines.iter().filter(|line| line.state == state).count();
    match (count("pending"), count("unknown")) {
        (0, 0) => context.out.hint("The schema is up to date."),
        (pending, 0) => context
            .out
            .hint(&format!("{} to apply: punctual migrate, or start a server", counted(pending, "migration"))),
        (_, unknown) => context.out.hint(&format!(
            "The database has {} that this program does not know: use a newer one.",
            counted(unknown, "migration")
        )),
    }
    Ok(Exit::Ok)
}

async fn dry_run(connection: &Connection, context: &Context) -> anyhow::Result<Exit> {
    let sql = pending_sql(&connection.reveal()).await.map_err(|error| refused(connection, error))?;
    match context.out.format {
        Format::Json | Format::Jsonl => context.out.json(&json!({ "sql": sql }))?,
        Format::Table | Format::Name => context.out.write(&sql)?,
    }
    if sql.is_empty() {
        context.out.hint("The schema is up to date; nothing would run.");
    }
    Ok(Exit::Ok)
}

/// Several may do this at once: each waits for the others and applies what is still missing.
async fn apply(connection: &Connection, context: &Context) -> anyhow::Result<Exit> {
    let applied = migrate(&connection.reveal()).await.map_err(|error| refused(connection, error))?;
    let lines: Vec<Line> = applied.into_iter().map(Line::from).collect();
    context.out.rows(&lines, &json!({ "migrations": lines }))?;
    match lines.len() {
        0 => context.out.hint("The schema was up to date; nothing was done."),
        count => context.out.hint(&format!("{} applied.", counted(count, "migration"))),
    }
    Ok(Exit::Ok)
}

fn refused(connection: &Connection, error: StoreError) -> anyhow::Error {
    match error {
        StoreError::Unavailable(reason) => unreachable(
            format!("cannot reach the database {connection}: {reason}"),
            "start it, or correct `database`; `punctual doctor` checks it",
        ),
        error => failed(format!("{connection}: {error}"), "see `punctual migrate status`"),
    }
}
