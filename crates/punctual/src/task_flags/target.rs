//! The target of a job or a schedule: the name of a task, the path of a static binary, or a task in flags.

use std::path::Path;

use punctual_api::{ArtifactKind, not_json};
use punctual_client::Client;
use punctual_core::run::{Slack, TaskFile, Telegram};
use punctual_core::task::{Run, TaskSpec};
use serde_json::value::RawValue;

use super::{BinaryFlags, JobInput, SpecFlags};
use crate::exit::usage;
use crate::input::text_or_file;
use crate::output::Output;
use crate::upload::{Upload, upload};

/// The flags that name what is run.
pub(crate) struct TargetFlags<'a> {
    pub(crate) task: Option<&'a str>,
    pub(crate) spec: &'a SpecFlags,
    pub(crate) binary: &'a BinaryFlags,
    /// What the binary is called with.
    pub(crate) args: &'a [String],
}

/// The name of a task, or a task without one.
#[derive(Debug, Default)]
pub(crate) struct Target {
    pub(crate) task: Option<String>,
    pub(crate) inline: Option<TaskSpec>,
}

impl<'a> TargetFlags<'a> {
    /// The binary to upload and run. The name of a task has no slash.
    pub(crate) fn file(&self) -> Option<&'a Path> {
        self.task.filter(|name| name.contains('/')).map(Path::new)
    }

    pub(crate) fn is_given(&self) -> bool {
        self.task.is_some() || self.spec.are_given() || self.binary.are_given() || !self.args.is_empty()
    }

    /// Refuses flags that contradict each other, and reads those that need no server.
    pub(crate) fn target(&self, input: Option<&RawValue>) -> anyhow::Result<Target> {
        if self.file().is_none() && (self.binary.are_given() || !self.args.is_empty()) {
            return Err(usage("only a binary has arguments and limits of its own", "name its file, such as ./tool"));
        }
        if self.file().is_none() && !self.binary.files().is_empty() && !self.spec.is_command() {
            return Err(usage(
                "only a binary or a command reads files",
                "name a binary such as ./tool, or use --command",
            ));
        }
        if let Some(folder @ ("." | "..")) = self.task {
            return Err(usage(format!("`{folder}` is a folder"), "name a file in it, such as ./tool, or a task"));
        }
        match (self.task, self.spec.name_a_run()) {
            (None, false) => return Err(nothing_to_run()),
            (Some(task), _) if self.spec.name_a_run() || (self.file().is_none() && self.spec.are_given()) => {
                return Err(usage(
                    format!("the task `{task}` has its own definition"),
                    "change it with `punctual task apply`, or leave out either the name or the flags",
                ));
            }
            _ => {}
        }
        let inline = self.spec.spec(if input.is_some() { JobInput::Given } else { JobInput::None })?;
        if let (Some(Run::Slack(Slack { text: None, .. })), None) = (inline.as_ref().map(|spec| &spec.run), input) {
            return Err(usage("nothing says what to post to Slack", "use --text, or --input for a message in JSON"));
        }
        if let (Some(Run::Telegram(Telegram { text: None, .. })), None) = (inline.as_ref().map(|spec| &spec.run), input)
        {
            return Err(usage("nothing says what to send by Telegram", "use --text, or --input for a plain text"));
        }
        Ok(Target { task: self.task.filter(|_| self.file().is_none()).map(str::to_owned), inline })
    }

    /// Uploads the binary, if it is one, and makes it the task; and the files that it reads.
    pub(crate) async fn upload(&self, target: &mut Target, client: &Client, out: &Output) -> anyhow::Result<()> {
        let mut files = Vec::new();
        for (name, path) in self.binary.files() {
            let Upload { artifact, was_sent } = upload(client, path, None, ArtifactKind::File).await?;
            if was_sent {
                out.hint(&format!("Uploaded {} as {}.", path.display(), artifact.id));
            }
            files.push(TaskFile { artifact: artifact.id, name: name.clone() });
        }
        self.upload_program(target, client, out).await?;
        match target.inline.as_mut().map(|spec| &mut spec.run) {
            Some(Run::Binary(binary)) => binary.files = files,
            Some(Run::Command(command)) => command.files = files,
            _ => {}
        }
        Ok(())
    }

    async fn upload_program(&self, target: &mut Target, client: &Client, out: &Output) -> anyhow::Result<()> {
        let Some(file) = self.file() else { return Ok(()) };
        let Upload { artifact, was_sent } = upload(client, file, None, ArtifactKind::Binary).await?;
        if was_sent {
            out.hint(&format!("Uploaded {} as {}.", file.display(), artifact.id));
        }
        target.inline = Some(self.spec.task_of(self.binary.run(artifact.id, self.args.to_vec()))?);
        Ok(())
    }
}

pub(crate) fn nothing_to_run() -> anyhow::Error {
    usage(
        "nothing says what to run",
        "name a task, or say what with --http, --email, --slack, --telegram, --command, --probe, --handler or --workflow",
    )
}

/// Reads `--input`.
pub(crate) fn read_input(input: Option<&str>) -> anyhow::Result<Option<Box<RawValue>>> {
    let Some(input) = input else { return Ok(None) };
    let read = RawValue::from_string(text_or_file(input)?.trim().to_owned());
    let read = read.map_err(|error| {
        usage(format!("--input is not JSON: {}", not_json(&error)), "put texts in quotes: '\"text\"'")
    })?;
    Ok(Some(read))
}
