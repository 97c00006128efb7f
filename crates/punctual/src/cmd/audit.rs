//! `punctual audit …`.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use punctual_api::{AuditExportQuery, AuditHead, AuditQuery};
use punctual_app::{AuditFault, AuditVerified, AuditVerifier};
use punctual_client::Client;
use punctual_core::Timestamp;
use serde::{Deserialize, Serialize};

use super::Context;
use crate::exit::{Exit, failed, usage};
use crate::output::{Format, Output, counted};
use crate::when::{parse_at, whole};

#[derive(Debug, Subcommand)]
pub(crate) enum AuditVerb {
    /// Show who changed what, and what was refused, the latest first
    #[command(aliases = ["ls"])]
    List(ListArgs),
    /// Write all lines as JSON, one a line, and the signed head as the last
    Export(ExportArgs),
    /// Find lines that were removed, changed or moved
    Verify(VerifyArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Only what this principal did, such as user:ana
    #[arg(long, value_name = "NAME")]
    principal: Option<String>,
    /// Only this action, such as apply_task
    #[arg(long, value_name = "ACTION")]
    action: Option<String>,
    /// Only what was done to this, such as the name of a task
    #[arg(long, value_name = "OBJECT")]
    object: Option<String>,
    /// Only with this outcome: done, or the code of an error, such as forbidden
    #[arg(long, value_name = "OUTCOME")]
    outcome: Option<String>,
    /// Only from this time on
    #[arg(long, value_name = "TIME", value_parser = parse_at)]
    since: Option<Timestamp>,
    /// Only before this time
    #[arg(long, value_name = "TIME", value_parser = parse_at)]
    until: Option<Timestamp>,
    /// How many to show
    #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 50, value_parser = whole::<u32, 1, 1000>)]
    limit: u32,
    /// Continue after a page
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// The file to write, which must not exist; only you can read it [default: stdout]
    #[arg(long, value_name = "FILE")]
    file: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    punctual audit verify\n  \
    punctual audit verify --file audit.jsonl --key 3f0c…")]
pub(crate) struct VerifyArgs {
    /// Verify an export instead of the server's log; no server is needed
    #[arg(long, value_name = "FILE")]
    file: Option<String>,
    /// The public key that an earlier `verify` printed: the log must be signed with it
    #[arg(long, value_name = "HEX")]
    key: Option<String>,
}

/// The last line of an export.
#[derive(Serialize, Deserialize)]
struct LastLine {
    head: AuditHead,
}

pub(crate) async fn run(verb: AuditVerb, context: &Context) -> anyhow::Result<Exit> {
    let out = &context.out;
    match verb {
        AuditVerb::List(args) => list(args, &context.client()?, out).await?,
        AuditVerb::Export(args) => export(&args, &context.client()?, out).await?,
        AuditVerb::Verify(args) => {
            let verified = match &args.file {
                Some(file) => verify_file(file, args.key.as_deref())?,
                None => verify(&context.client()?, args.key.as_deref()).await?,
            };
            return report(verified, args.key.is_some(), out);
        }
    }
    Ok(Exit::Ok)
}

async fn list(args: ListArgs, client: &Client, out: &Output) -> anyhow::Result<()> {
    let ListArgs { principal, action, object, outcome, since, until, limit, cursor } = args;
    let query = AuditQuery {
        principal,
        action,
        object,
        outcome,
        // It is chosen as for every command.
        namespace: None,
        since: since.map(|at| at.to_string()),
        until: until.map(|at| at.to_string()),
        limit: Some(limit.to_string()),
        cursor,
    };
    let list = client.audit(&query).await?;
    out.rows(&list.entries, &list)?;
    match &list.next_cursor {
        Some(cursor) => out.hint_more(list.entries.len(), "line", cursor),
        None if list.entries.is_empty() => out.hint("Nothing in the audit log fits."),
        None => {}
    }
    Ok(())
}

/// Gives each line of the log to `take`, and returns the head, with the base of the first part.
async fn each_line(
    client: &Client,
    mut take: impl FnMut(&AuditHead, &str) -> anyhow::Result<()>,
) -> anyhow::Result<AuditHead> {
    let mut query = AuditExportQuery::default();
    let mut base: Option<AuditHead> = None;
    let mut after = 0;
    loop {
        let part = client.export_audit(&query).await?;
        let base = base.get_or_insert_with(|| part.head.clone());
        if after == 0 {
            after = base.base_seq;
        }
        for line in &part.lines {
            take(base, line)?;
        }
        after += part.lines.len() as u64;
        if part.is_complete {
            let (base_seq, base_hash) = (base.base_seq, base.base_hash.clone());
            return Ok(AuditHead { base_seq, base_hash, ..part.head });
        }
        query.after_seq = Some(after.to_string());
    }
}

async fn export(args: &ExportArgs, client: &Client, out: &Output) -> anyhow::Result<()> {
    let mut lines = 0;
    let mut file = match &args.file {
        Some(path) => {
            let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
            Some(BufWriter::new(opened.with_context(|| format!("cannot write {path}"))?))
        }
        None => None,
    };
    let mut write = |line: &str| -> anyhow::Result<()> {
        match &mut file {
            Some(file) => writeln!(file, "{line}").context("cannot write the export"),
            None => out.line(line),
        }
    };
    let head = each_line(client, |_, line| {
        lines += 1;
        write(line)
    });
    let head = head.await?;
    let key = head.public_key.clone();
    write(&serde_json::to_string(&LastLine { head })?)?;
    if let Some(file) = file {
        let file = file.into_inner().context("cannot write the export")?;
        file.sync_all().context("cannot write the export")?;
    }
    out.hint(&format!("{} and the head, signed with the key {key}", counted(lines, "line")));
    Ok(())
}

async fn verify(client: &Client, key: Option<&str>) -> anyhow::Result<Result<AuditVerified, AuditFault>> {
    let mut verifier: Option<Result<AuditVerifier, AuditFault>> = None;
    let head = each_line(client, |head, line| {
        let verifier = verifier.get_or_insert_with(|| AuditVerifier::new(head));
        if let Ok(good) = verifier
            && let Err(fault) = good.line(line)
        {
            *verifier = Err(fault);
        }
        Ok(())
    });
    let head = head.await?;
    let verifier = verifier.unwrap_or_else(|| AuditVerifier::new(&head));
    Ok(verifier.and_then(|verifier| verifier.finish(&head, key)))
}

fn verify_file(path: &str, key: Option<&str>) -> anyhow::Result<Result<AuditVerified, AuditFault>> {
    let open = || std::fs::File::open(path).map(BufReader::new).with_context(|| format!("cannot read {path}"));
    let unreadable = || format!("cannot read {path}");
    // The head is the last line, and says where the first one begins.
    let (mut count, mut last) = (0, String::new());
    for line in open()?.lines() {
        last = line.with_context(unreadable)?;
        count += 1;
    }
    let Ok(LastLine { head }) = serde_json::from_str(&last) else {
        return Err(usage(
            format!("{path} is no export: its last line is not a signed head"),
            "name a file that `punctual audit export` wrote; if lines at its end are missing, that is a finding, too",
        ));
    };
    let mut verifier = match AuditVerifier::new(&head) {
        Ok(verifier) => verifier,
        Err(fault) => return Ok(Err(fault)),
    };
    for line in open()?.lines().take(count - 1) {
        if let Err(fault) = verifier.line(&line.with_context(unreadable)?) {
            return Ok(Err(fault));
        }
    }
    Ok(verifier.finish(&head, key))
}

fn report(verified: Result<AuditVerified, AuditFault>, has_key: bool, out: &Output) -> anyhow::Result<Exit> {
    let AuditVerified { lines, base, public_key } = verified.map_err(|fault| {
        let hint = "compare with an earlier export; whoever can write to the database may have changed the log";
        failed(format!("the audit log was tampered with: {fault}"), hint)
    })?;
    match out.format {
        Format::Json | Format::Jsonl => {
            out.json(&serde_json::json!({ "lines": lines, "base": base, "public_key": public_key }))?;
        }
        Format::Name => out.line(&public_key)?,
        Format::Table => {
            let removed = match base {
                0 => String::new(),
                base => format!("; retention removed those up to {base}"),
            };
            out.line(&format!("{} in order{removed}", counted(usize::try_from(lines).unwrap_or(usize::MAX), "line")))?;
            out.line(&format!("signed with {public_key}"))?;
        }
    }
    if !has_key {
        out.hint("Note the key outside the cluster, and pass it with --key: then nobody can sign another log.");
    }
    Ok(Exit::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_no_export_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        for text in ["", "{}\n", "{\"head\":1}\n", "not JSON"] {
            std::fs::write(&path, text).unwrap();
            assert!(verify_file(path.to_str().unwrap(), None).is_err(), "{text}");
        }
    }
}
