//! `punctual notify …`: who is told of what, and what was sent.

mod define;

pub(crate) use define::as_request;

use clap::{Args, Subcommand};
use punctual_api::{DeliveryQuery, DeliveryView, NotificationRequest, NotificationView, WaitingMessage};
use punctual_client::{Client, ClientError, IfMatch};
use punctual_core::{JobState, Span};

use super::Context;
use super::wait::{Late, wait_for};
use crate::exit::Exit;
use crate::field_flags::{NOTIFICATION_WORDS, OF_NOTIFICATIONS, in_flags, in_words};
use crate::output::{Format, Output, counted};
use crate::reconnection::Reconnection;
use crate::view;
use crate::wait_hints::warn;
use crate::when::{parse_span, whole};

#[derive(Debug, Subcommand)]
pub(crate) enum NotifyVerb {
    /// Create a rule, or replace the one of this name
    ///
    /// What is not given is at its default afterwards, not what it was before.
    #[command(aliases = ["create", "add", "put"])]
    Apply(Box<define::ApplyArgs>),
    /// List rules by name
    #[command(aliases = ["ls"])]
    List,
    /// Show a rule, what waits to be sent by it, and what it sent last
    #[command(aliases = ["show"])]
    Get {
        /// The rule's name; `punctual notify list` shows them
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Delete rules, with what waits to be sent by them
    #[command(aliases = ["remove", "rm"])]
    Delete {
        /// The rules' names
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
    /// Enable a rule
    #[command(aliases = ["resume"])]
    Enable {
        /// The rule's name
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Disable a rule; what waits to be sent by it is dropped
    #[command(aliases = ["pause"])]
    Disable {
        /// The rule's name
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Send a sample the way a rule says, and wait until it has arrived
    ///
    /// It is sent also if the rule is disabled.
    Test(TestArgs),
    /// Show what was sent, and whether it arrived
    Log(LogArgs),
    /// Show what a message looks like, and send nothing
    Preview(define::PreviewArgs),
}

#[derive(Debug, Args)]
pub(crate) struct TestArgs {
    /// The rule's name
    #[arg(value_name = "NAME")]
    name: String,
    /// Do not wait for it
    #[arg(short, long)]
    detach: bool,
    /// Stop waiting after this time, with exit code 124; it is sent all the same
    #[arg(long, value_name = "TIME", value_parser = parse_span, default_value = "15s", conflicts_with = "detach")]
    wait_timeout: Span,
}

#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    /// Only what was sent by this rule
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// How many, at most; 1 to 1000
    #[arg(short = 'n', long, value_name = "N", default_value_t = 50, value_parser = whole::<u16, 1, 1000>)]
    limit: u16,
    /// Go on where another list ended
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
}

/// Messages that `get` looks back at.
const LAST_SHOWN: usize = 5;

fn named(error: ClientError) -> anyhow::Error {
    in_words(in_flags(error, OF_NOTIFICATIONS), NOTIFICATION_WORDS).into()
}

pub(crate) async fn run(verb: NotifyVerb, context: &Context) -> anyhow::Result<Exit> {
    let client = context.client()?;
    let out = &context.out;
    match verb {
        NotifyVerb::Apply(args) => define::apply(&args, &client, out).await?,
        NotifyVerb::List => list(&client, out).await?,
        NotifyVerb::Get { name } => show(&name, &client, out).await?,
        NotifyVerb::Delete { names } => {
            for name in &names {
                client.delete_notification(name).await.map_err(named)?;
                out.hint(&format!("{name} is deleted."));
            }
        }
        NotifyVerb::Enable { name } => {
            let rule = switch(&name, true, &client).await?;
            tell(&rule, &format!("{name} tells again. Try it: punctual notify test {name}"), out)?;
        }
        NotifyVerb::Disable { name } => {
            let rule = switch(&name, false, &client).await?;
            tell(&rule, &format!("{name} is silent. Let it tell again: punctual notify enable {name}"), out)?;
        }
        NotifyVerb::Test(args) => return test(&args, &client, context).await,
        NotifyVerb::Log(args) => log(&args, &client, out).await?,
        NotifyVerb::Preview(args) => define::preview(&args, &client, out).await?,
    }
    Ok(Exit::Ok)
}

/// Prints a rule: its name for programs, and a sentence for people.
fn tell(rule: &NotificationView, sentence: &str, out: &Output) -> anyhow::Result<()> {
    match out.format {
        Format::Json | Format::Jsonl => return out.json(rule),
        Format::Name => return out.line(&rule.name),
        Format::Table => out.line(&rule.name)?,
    }
    out.hint(sentence);
    warn(&rule.warnings);
    Ok(())
}

async fn list(client: &Client, out: &Output) -> anyhow::Result<()> {
    let list = client.notifications().await.map_err(named)?;
    out.rows(&list.notifications, &list)?;
    if list.notifications.is_empty() && out.format == Format::Table {
        out.hint("No notification rules. Create one: punctual notify apply ops --email ops@example.org");
    }
    Ok(())
}

async fn show(name: &str, client: &Client, out: &Output) -> anyhow::Result<()> {
    let rule = client.notification(name).await.map_err(named)?;
    match out.format {
        Format::Json | Format::Jsonl => return out.json(&rule),
        Format::Name => return out.line(&rule.name),
        Format::Table => {}
    }
    let query = DeliveryQuery { limit: Some(LAST_SHOWN.to_string()), cursor: None };
    let last = client.deliveries(Some(name), &query).await.map_err(named)?;
    out.write(&view::notification::detail(&rule, &last.deliveries, out))
}

/// The rule as it is, switched on or off. Whoever changed it meanwhile is not overruled.
async fn switch(name: &str, enabled: bool, client: &Client) -> anyhow::Result<NotificationView> {
    let rule = client.notification(name).await.map_err(named)?;
    let only = IfMatch::Revision(rule.revision);
    let request = NotificationRequest { enabled: Some(enabled), ..define::as_request(rule) };
    client.put_notification(name, &request, only).await.map_err(named)
}

async fn test(args: &TestArgs, client: &Client, context: &Context) -> anyhow::Result<Exit> {
    let answer = client.test_notification(&args.name).await.map_err(named)?;
    let out = &context.out;
    warn(&answer.warnings);
    if args.detach {
        match out.format {
            Format::Json | Format::Jsonl => out.json(&answer)?,
            Format::Name | Format::Table => out.line(&answer.job.to_string())?,
        }
        out.hint(&format!("Check that it arrives: punctual notify log {}", args.name));
        return Ok(Exit::Ok);
    }
    out.hint(&format!("{} sends it. The job continues if you stop waiting.", answer.job));
    let reconnection = Reconnection::new(Some(args.wait_timeout.to_std()), out);
    reconnection.found();
    let exit =
        wait_for(&[answer.job], &answer.warnings, &reconnection, Late::TimedOut("--wait-timeout"), context).await?;
    match exit {
        Exit::Ok => out.hint("Accepted by the receiving server. Check that it arrived."),
        Exit::Timeout if !answer.warnings.is_empty() => out.hint("The sample waits up to a day for such a worker."),
        _ => {}
    }
    Ok(exit)
}

async fn log(args: &LogArgs, client: &Client, out: &Output) -> anyhow::Result<()> {
    let query = DeliveryQuery { limit: Some(args.limit.to_string()), cursor: args.cursor.clone() };
    let page = client.deliveries(args.name.as_deref(), &query).await.map_err(named)?;
    out.rows(&page.deliveries, &page)?;
    match &page.next_cursor {
        Some(cursor) => out.hint_more(page.deliveries.len(), "message", cursor),
        None if page.deliveries.is_empty() && out.format == Format::Table => {
            out.hint("Nothing is on record. Try a rule: punctual notify test NAME");
        }
        None => {}
    }
    if let Some(name) = args.name.as_deref().filter(|_| out.format == Format::Table)
        && let Ok(rule) = client.notification(name).await
        && let Some(WaitingMessage { events, held: Some(held), .. }) = rule.waiting
    {
        let (more, are) = (counted(events as usize, "more event"), if events == 1 { "is" } else { "are" });
        out.hint(&format!("{more} {are} held back and will be sent as one message: {held}."));
    }
    let waits = |message: &&DeliveryView| message.state.as_deref() == Some(JobState::Scheduled.as_str());
    if let Some(message) = page.deliveries.iter().rfind(waits).filter(|_| out.format == Format::Table) {
        out.hint(&format!("Some are not sent yet. See why: punctual explain {}", message.job));
    }
    Ok(())
}
