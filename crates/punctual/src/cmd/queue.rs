//! `punctual queue …`.

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use punctual_api::{ErrorKind, QueueDefaults, QueueQuery, QueueRequest, QueueView};
use punctual_client::{Client, ClientError, IfMatch};
use punctual_core::Span;
use punctual_core::retry::RetryPolicy;
use punctual_core::task::Priority;

use super::Context;
use crate::exit::{Exit, usage};
use crate::field_flags::{OF_QUEUES, QUEUE_WORDS, in_flags, in_words};
use crate::output::{Format, Output, note};
use crate::task_flags::priority;
use crate::view;
use crate::when::{parse_span, whole};

#[derive(Debug, Subcommand)]
pub(crate) enum QueueVerb {
    /// List queues by name, with what waits and runs in each
    #[command(aliases = ["ls"])]
    List {
        /// How many, at most; 1 to 1000
        #[arg(short = 'n', long, value_name = "N", default_value_t = 50, value_parser = whole::<u16, 1, 1000>)]
        limit: u16,
        /// Go on where another list ended
        #[arg(long, value_name = "CURSOR")]
        cursor: Option<String>,
    },
    /// Show a queue: its state, what waits and runs in it, and the defaults of its tasks
    #[command(aliases = ["show"])]
    Get {
        /// The queue's name
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Pause a queue: its jobs do not start until it is resumed
    ///
    /// Running attempts go on, and jobs are accepted. The command ends when all servers have confirmed the pause, or after a second
    /// with those that have not.
    Pause(NoteArgs),
    /// Let jobs of a paused or draining queue start and be submitted again
    Resume(NoteArgs),
    /// Drain a queue: no jobs can be submitted, and those that wait start
    ///
    /// Runs of schedules and workflows are not submissions, and still come.
    Drain(NoteArgs),
    /// Describe a queue, or set the defaults of its tasks: what is not given stays as it is
    ///
    /// Defaults hold for tasks that name no such policy, and are copied into a task when it is created or applied. Tasks that there are
    /// keep their policies until they are applied again.
    Edit(EditArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    punctual queue pause mail --note 'the provider is down'\n  \
    punctual queue resume mail\n  \
    punctual queue drain mail --note 'it moves to another provider'")]
pub(crate) struct NoteArgs {
    /// The queue's name
    #[arg(value_name = "NAME")]
    name: String,
    /// Why, for whoever asks later
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    punctual queue edit mail --description 'Mails to customers' --default-timeout 30s --default-retries 8\n  \
    punctual queue edit mail --unset timeout")]
#[command(group(ArgGroup::new("change").required(true).multiple(true).args([
    "description", "default_priority", "default_retries", "default_node_retries", "default_timeout", "default_queue_timeout", "unset",
])))]
pub(crate) struct EditArgs {
    /// The queue's name
    #[arg(value_name = "NAME")]
    name: String,
    /// A description for people; empty for none
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// The priority of its tasks, from -100 to 100
    #[arg(long, value_name = "N", value_parser = priority, allow_hyphen_values = true)]
    default_priority: Option<Priority>,
    /// Attempts after the first
    #[arg(long, value_name = "N", value_parser = whole::<u16, 0, 1000>)]
    default_retries: Option<u16>,
    /// Attempts after the loss of a worker
    #[arg(long, value_name = "N", value_parser = whole::<u16, 0, 1000>)]
    default_node_retries: Option<u16>,
    /// The longest time that an attempt may run
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    default_timeout: Option<Span>,
    /// Fail a job that has not started this long after it was due
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    default_queue_timeout: Option<Span>,
    /// Remove a default; may be repeated
    #[arg(long, value_name = "DEFAULT")]
    unset: Vec<QueueDefault>,
    /// Change it only if it has this revision; 0: only if nobody has changed it yet
    #[arg(long, value_name = "REVISION")]
    if_revision: Option<u32>,
}

/// What a queue can have a default of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum QueueDefault {
    Priority,
    Retries,
    NodeRetries,
    Timeout,
    QueueTimeout,
}

fn named(error: ClientError) -> anyhow::Error {
    in_words(in_flags(error, OF_QUEUES), QUEUE_WORDS).into()
}

pub(crate) async fn run(verb: QueueVerb, context: &Context) -> anyhow::Result<Exit> {
    let client = context.client()?;
    let out = &context.out;
    match verb {
        QueueVerb::List { limit, cursor } => {
            let page = client.queues(&QueueQuery { limit: Some(limit.to_string()), cursor }).await.map_err(named)?;
            out.rows(&page.queues, &page)?;
            match &page.next_cursor {
                Some(cursor) => out.hint_more(page.queues.len(), "queue", cursor),
                None if page.queues.is_empty() => {
                    out.hint("No queues. A queue is there once a task, a job or a worker names it.");
                }
                None => {}
            }
            if page.queues.iter().any(|queue| queue.uncertain) {
                note("warning: some servers did not answer; more may wait and run than is shown");
            }
        }
        QueueVerb::Get { name } => view::queue(&client.queue(&name).await.map_err(named)?, out)?,
        QueueVerb::Pause(NoteArgs { name, note }) => {
            let queue = client.pause_queue(&name, note.as_deref()).await.map_err(named)?;
            tell(&queue, &format!("{name} is paused. Let it go on: punctual queue resume {name}"), out)?;
        }
        QueueVerb::Resume(NoteArgs { name, note }) => {
            let queue = client.resume_queue(&name, note.as_deref()).await.map_err(named)?;
            tell(&queue, &format!("{name} is active."), out)?;
        }
        QueueVerb::Drain(NoteArgs { name, note }) => {
            let queue = client.drain_queue(&name, note.as_deref()).await.map_err(named)?;
            let hint = format!("{name} accepts no jobs. See what is left: punctual queue get {name}");
            tell(&queue, &hint, out)?;
        }
        QueueVerb::Edit(args) => view::queue(&edit(&args, &client).await?, out)?,
    }
    Ok(Exit::Ok)
}

fn tell(queue: &QueueView, hint: &str, out: &Output) -> anyhow::Result<()> {
    match out.format {
        Format::Json | Format::Jsonl => out.json(queue)?,
        Format::Table | Format::Name => out.line(&queue.name)?,
    }
    out.hint(hint);
    if !queue.unconfirmed_servers.is_empty() {
        let servers: Vec<String> = queue.unconfirmed_servers.iter().map(ToString::to_string).collect();
        note(&format!(
            "warning: {} did not confirm it within a second, and will follow as soon as it reads the database",
            servers.join(", ")
        ));
    }
    Ok(())
}

async fn edit(args: &EditArgs, client: &Client) -> anyhow::Result<QueueView> {
    args.check()?;
    let (former, when) = match client.queue(&args.name).await {
        Ok(queue) => {
            // What was read is what is changed.
            let when = IfMatch::of_revision(Some(args.if_revision.unwrap_or(queue.revision)));
            (QueueRequest { description: queue.description, defaults: queue.defaults }, when)
        }
        Err(error) if error.kind() == Some(ErrorKind::QueueNotFound) => {
            (QueueRequest::default(), IfMatch::of_revision(Some(args.if_revision.unwrap_or(0))))
        }
        Err(error) => return Err(named(error)),
    };
    client.apply_queue(&args.name, &args.changed(former), when).await.map_err(named)
}

impl EditArgs {
    /// Refuses a default that is set and removed.
    fn check(&self) -> anyhow::Result<()> {
        let set = [
            (QueueDefault::Priority, self.default_priority.is_some(), "priority"),
            (QueueDefault::Retries, self.default_retries.is_some(), "retries"),
            (QueueDefault::NodeRetries, self.default_node_retries.is_some(), "node-retries"),
            (QueueDefault::Timeout, self.default_timeout.is_some(), "timeout"),
            (QueueDefault::QueueTimeout, self.default_queue_timeout.is_some(), "queue-timeout"),
        ];
        match set.into_iter().find(|(default, is_set, _)| *is_set && self.unset.contains(default)) {
            Some((_, _, name)) => {
                let message = format!("--default-{name} sets what --unset {name} removes");
                Err(usage(message, "leave one of them out"))
            }
            None => Ok(()),
        }
    }

    fn changed(&self, former: QueueRequest) -> QueueRequest {
        let QueueRequest { description, defaults } = former;
        let retries = |known: Option<RetryPolicy>, usual: RetryPolicy, max: Option<u16>| match max {
            Some(max) => Some(RetryPolicy { max, ..known.unwrap_or(usual) }),
            None => known,
        };
        let mut defaults = QueueDefaults {
            priority: self.default_priority.or(defaults.priority),
            retry: retries(defaults.retry, RetryPolicy::default(), self.default_retries),
            node_retry: retries(defaults.node_retry, RetryPolicy::after_node_failure(), self.default_node_retries),
            timeout: self.default_timeout.or(defaults.timeout),
            queue_timeout: self.default_queue_timeout.or(defaults.queue_timeout),
        };
        for unset in &self.unset {
            match unset {
                QueueDefault::Priority => defaults.priority = None,
                QueueDefault::Retries => defaults.retry = None,
                QueueDefault::NodeRetries => defaults.node_retry = None,
                QueueDefault::Timeout => defaults.timeout = None,
                QueueDefault::QueueTimeout => defaults.queue_timeout = None,
            }
        }
        let description = self.description.clone().or(description).filter(|text| !text.is_empty());
        QueueRequest { description, defaults }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_changes_what_is_given_and_leaves_the_rest() {
        let args = EditArgs {
            name: "mail".to_owned(),
            description: None,
            default_priority: None,
            default_retries: Some(8),
            default_node_retries: None,
            default_timeout: None,
            default_queue_timeout: Some(Span::from_secs(60)),
            unset: vec![QueueDefault::Timeout],
            if_revision: None,
        };
        let known = RetryPolicy { initial: Span::from_secs(7), ..RetryPolicy::default() };
        let former = QueueRequest {
            description: Some("mails".to_owned()),
            defaults: QueueDefaults {
                retry: Some(known),
                timeout: Some(Span::from_secs(5)),
                priority: Priority::new(3),
                ..QueueDefaults::default()
            },
        };
        let changed = args.changed(former);
        assert_eq!(changed.description.as_deref(), Some("mails"));
        let expected = QueueDefaults {
            retry: Some(RetryPolicy { max: 8, ..known }),
            priority: Priority::new(3),
            queue_timeout: Some(Span::from_secs(60)),
            ..QueueDefaults::default()
        };
        assert_eq!(changed.defaults, expected);
        assert!(args.check().is_ok());
    }

    #[test]
    fn a_default_is_not_set_and_removed_at_once_and_an_edit_changes_something() {
        use clap::Parser;
        #[derive(Parser)]
        struct Cli {
            #[command(flatten)]
            args: EditArgs,
        }
        let read = |words: &[&str]| Cli::try_parse_from([&["edit", "mail"], words].concat()).map(|cli| cli.args);
        assert!(read(&[]).is_err());
        assert!(read(&["--if-revision", "1"]).is_err());
        assert!(read(&["--unset", "timeout"]).unwrap().check().is_ok());
        let both = read(&["--default-timeout", "5s", "--unset", "timeout"]).unwrap();
        assert_eq!(both.check().unwrap_err().to_string(), "--default-timeout sets what --unset timeout removes");
    }
}
