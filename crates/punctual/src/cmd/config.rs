//! `punctual config`.

use clap::Args;
use comfy_table::Cell;
use serde::Serialize;

use super::Context;
use crate::config::{self, ServerSettings, WorkerSettings, settings, unknown_setting};
use crate::exit::{Exit, usage};
use crate::output::{Output, Row};
use crate::table::Yield;

#[derive(Debug, Args)]
#[command(after_help = config::help())]
pub(crate) struct ConfigArgs {
    /// Only this setting
    key: Option<String>,
}

#[derive(Serialize)]
struct Line {
    key: &'static str,
    value: String,
    origin: String,
}

impl Row for Line {
    const HEADER: &'static [&'static str] = &["SETTING", "VALUE", "FROM"];
    const YIELDS: &'static [Yield] = &[Yield::Fold("FROM", 16), Yield::Fold("VALUE", 16)];

    fn name(&self) -> String {
        self.key.to_owned()
    }

    fn cells(&self, _: &Output) -> Vec<Cell> {
        let value = if self.value.is_empty() { "-" } else { &self.value };
        vec![Cell::new(self.key), Cell::new(value), Cell::new(&self.origin)]
    }
}

pub(crate) fn run(args: ConfigArgs, context: &Context) -> anyhow::Result<Exit> {
    let wanted = |key: &str| args.key.as_deref().is_none_or(|wanted| wanted == key);
    let lines: Vec<_> = settings()
        .filter(|setting| wanted(setting.key))
        .map(|setting| {
            let origin = context.config.value(setting.key).origin.to_string();
            Line { key: setting.key, value: context.config.shown(setting), origin }
        })
        .collect();
    if lines.is_empty() {
        let key = args.key.unwrap_or_default();
        return Err(usage(unknown_setting(&key), "see them all with `punctual config`"));
    }
    context.out.rows(&lines, &lines)?;
    if let Some(setting) = settings().find(|setting| args.key.as_deref() == Some(setting.key)) {
        context.out.hint(&config::description(setting));
    }
    // Shown first, so that the wrong value can be found in the table above.
    ServerSettings::new(&context.config)?;
    WorkerSettings::new(&context.config)?;
    if context.config.file.is_none() {
        context.out.hint("No file was read; ./punctual.toml would be.");
    }
    Ok(Exit::Ok)
}
