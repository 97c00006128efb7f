//! `punctual task …`.

use clap::{Args, Subcommand};
use punctual_api::not_json;
use punctual_client::{Client, IfMatch};
use punctual_core::task::{Priority, TaskSpec};
use serde::Deserialize;

use super::Context;
use crate::exit::{Exit, usage};
use crate::field_flags::{self, in_flags};
use crate::input::{misfit, read_file};
use crate::output::{Format, Output, note};
use crate::task_flags::{JobInput, SpecFlags, Unset, priority, sparse};
use crate::view;
use crate::when::whole;

#[derive(Debug, Subcommand)]
pub(crate) enum TaskVerb {
    /// List tasks by name
    #[command(aliases = ["ls"])]
    List {
        /// How many, at most; 1 to 1000
        #[arg(short = 'n', long, value_name = "N", default_value_t = 50, value_parser = whole::<u16, 1, 1000>)]
        limit: u16,
        /// Go on where another list ended
        #[arg(long, value_name = "CURSOR")]
        cursor: Option<String>,
    },
    /// Show a task
    #[command(aliases = ["show"])]
    Get {
        /// The task's name; `punctual task list` shows them
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Create a task, or replace its whole definition
    ///
    /// What is not given is at its default afterwards, not what it was before. To change a part, edit what
    /// `punctual task get NAME -o json` prints and apply that. What changed is listed.
    #[command(aliases = ["create", "add", "put"])]
    Apply(Box<ApplyArgs>),
    /// Delete tasks
    #[command(aliases = ["remove", "rm"])]
    Delete {
        /// The tasks' names
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    punctual task apply ping --http https://example.org/ --retries 5 --timeout 30s\n  \
    punctual task get ping -o json > ping.json && punctual task apply -f ping.json")]
pub(crate) struct ApplyArgs {
    /// The task's name; may be left out if the file has it
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// The definition as JSON, or - for stdin
    #[arg(short, long, value_name = "FILE")]
    file: Option<String>,
    /// Only if the task still has this revision; 0: only if it does not exist
    #[arg(long, value_name = "N", value_parser = whole::<u32, 0, 4_294_967_295>)]
    if_revision: Option<u32>,
    /// From -100 to 100; each point is worth 15 minutes of waiting
    #[arg(long, value_name = "N", value_parser = priority, allow_hyphen_values = true)]
    priority: Option<Priority>,
    #[command(flatten)]
    spec: SpecFlags,
}

/// What `task get -o json` prints, so that it can be applied again. What the server
/// adds (ids, times) is passed over.
#[derive(Deserialize)]
struct Written {
    name: Option<String>,
    spec: TaskSpec,
}

impl ApplyArgs {
    fn definition(&self) -> anyhow::Result<(String, serde_json::Value)> {
        let (written_name, mut spec, mut unset) = match (&self.file, self.spec.spec(JobInput::None)?) {
            (Some(_), Some(_)) => {
                return Err(usage("both a file and flags define the task", "leave out one of the two"));
            }
            (Some(_), None) if self.spec.are_given() => {
                return Err(usage("both a file and flags define the task", "leave out one of the two"));
            }
            (Some(file), None) => read_definition(file)?,
            (None, Some(spec)) => (None, spec, self.spec.unset()),
            (None, None) => {
                return Err(usage(
                    "nothing says what the task runs",
                    "use -f FILE, --http, --email, --slack, --telegram, --command, --probe or --handler",
                ));
            }
        };
        if let Some(priority) = self.priority {
            spec.priority = priority;
            unset.priority = false;
        }
        let name = self.name.clone().or(written_name);
        let name = name.ok_or_else(|| usage("the task has no name", "write `punctual task apply NAME …`"))?;
        Ok((name, sparse(&spec, unset)))
    }
}

/// Reads a task with its name, or the spec alone.
fn read_definition(file: &str) -> anyhow::Result<(Option<String>, TaskSpec, Unset)> {
    const HINT: &str = "see an example with `punctual task get NAME -o json`";
    let text = read_file(file)?;
    let refused = |reason: String| usage(format!("{file} does not define a task: {reason}"), HINT);
    let misfit = |error: serde_json::Error| refused(misfit(&error));
    let value: serde_json::Value = serde_json::from_str(&text).map_err(|error| refused(not_json(&error)))?;
    let unset = |spec: &serde_json::Value| Unset {
        timeout: spec.get("timeout").is_none(),
        retry: spec.get("retry").is_none(),
        node_retry: spec.get("node_retry").is_none(),
        priority: spec.get("priority").is_none(),
    };
    if let Some(spec) = value.get("spec") {
        let written: Written = serde_json::from_str(&text).map_err(misfit)?;
        return Ok((written.name, written.spec, unset(spec)));
    }
    Ok((None, serde_json::from_str(&text).map_err(misfit)?, unset(&value)))
}

pub(crate) async fn run(verb: TaskVerb, context: &Context) -> anyhow::Result<Exit> {
    let client = context.client()?;
    let out = &context.out;
    match verb {
        TaskVerb::List { limit, cursor } => {
            let page = client.tasks(Some(limit.into()), cursor.as_deref()).await;
            let page = page.map_err(|error| in_flags(error, field_flags::OF_LISTS))?;
            out.rows(&page.tasks, &page)?;
            match &page.next_cursor {
                Some(cursor) => out.hint_more(page.tasks.len(), "task", cursor),
                None if page.tasks.is_empty() => {
                    out.hint("No tasks. Create one: punctual task apply ping --http https://example.org/");
                }
                None => {}
            }
        }
        TaskVerb::Get { name } => {
            let task = client.task(&name).await.map_err(|error| in_flags(error, field_flags::OF_NAMES))?;
            view::task(out, &task)?;
        }
        TaskVerb::Apply(args) => apply(&args, &client, out).await?,
        TaskVerb::Delete { names } => {
            for name in &names {
                client.delete_task(name).await.map_err(|error| in_flags(error, field_flags::OF_NAMES))?;
                out.hint(&format!("{name} is deleted."));
            }
        }
    }
    Ok(Exit::Ok)
}

async fn apply(args: &ApplyArgs, client: &Client, out: &Output) -> anyhow::Result<()> {
    let (name, spec) = args.definition()?;
    // Only to say what changed; whether it may is for the server to decide.
    let before = client.task(&name).await.ok();
    let when = IfMatch::of_revision(args.if_revision);
    // A place in a file is best named as a place.
    let flags = if args.file.is_some() { field_flags::OF_NAMES } else { field_flags::OF_TASKS };
    let task =
        client.apply_task(&name, &spec, when).await.map_err(|error| args.spec.in_typed(in_flags(error, flags)))?;
    match out.format {
        Format::Json | Format::Jsonl => return out.json(&task),
        Format::Name => return out.line(&task.name),
        Format::Table => out.line(&task.name)?,
    }
    let told = match before.map(|before| view::task_changes(&before.spec, &task.spec)) {
        None => "a new task".to_owned(),
        Some(changes) if changes.is_empty() => "nothing changed".to_owned(),
        Some(changes) => format!("changed: {}", changes.join(", ")),
    };
    task.warnings.iter().for_each(|warning| note(&format!("warning: {}", warning.detail)));
    out.hint(&format!("Revision {}, {told}. Next: punctual run {}", task.revision, task.name));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn definition(text: &str) -> Result<(Option<String>, TaskSpec), String> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        let read = read_definition(file.path().to_str().unwrap());
        read.map(|(name, spec, _)| (name, spec)).map_err(|error| error.to_string())
    }

    #[test]
    fn a_file_holds_a_spec_or_what_get_printed() {
        let spec = r#"{"run":{"http":{"url":"http://h/"}}}"#;
        let (name, alone) = definition(spec).unwrap();
        assert_eq!(name, None);
        let whole = format!(r#"{{"id":"x","revision":3,"name":"ping","spec":{spec}}}"#);
        assert_eq!(definition(&whole).unwrap(), (Some("ping".to_owned()), alone));
    }

    #[test]
    fn a_misspelt_file_is_refused_with_the_place() {
        for (text, reason) in [
            (r#"{"run":{"http":{"ulr":"x"}}}"#, "`ulr`: there is no such field"),
            (r#"{"name":"a","spec":{"run":{"html":{}}}}"#, "`html` is not one of"),
            ("{", "does not define a task"),
        ] {
            let refused = definition(text).unwrap_err();
            assert!(refused.contains(reason), "{refused}");
        }
    }
}
