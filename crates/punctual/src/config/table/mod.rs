//! The table of settings. A setting is an entry here and a line where its value is used; flags, environment, file, help and
//! docs/configuration.md follow from the entry.

mod client;
mod messages;
mod openid;
mod programs;
mod server;
mod storage;
mod worker;

pub(crate) use openid::OpenIdSettings;
pub(crate) use server::{Durability, ServerSettings, TlsMode};
pub(crate) use worker::WorkerSettings;

use super::Setting;
use super::setting::{FlagCommand, Role, Section};

const EVERY: &[FlagCommand] = &[FlagCommand::Every];
const SERVER: &[FlagCommand] = &[FlagCommand::Server];
const SERVER_AND_DEV: &[FlagCommand] = &[FlagCommand::Server, FlagCommand::Dev];
const SERVER_DEV_AND_WORKER: &[FlagCommand] = &[FlagCommand::Server, FlagCommand::Dev, FlagCommand::Worker];
const WORKER: &[FlagCommand] = &[FlagCommand::Worker];
const WORKER_AND_DEV: &[FlagCommand] = &[FlagCommand::Worker, FlagCommand::Dev];

const CLIENTS: &[Role] = &[Role::Client];
const SERVERS: &[Role] = &[Role::Server];
const WORKERS: &[Role] = &[Role::Worker];

/// Every setting, section by section.
pub(crate) fn settings() -> impl Iterator<Item = &'static Setting> {
    Section::ALL.into_iter().flat_map(of_section)
}

pub(super) fn of_section(section: Section) -> impl Iterator<Item = &'static Setting> {
    let parts = [
        client::SETTINGS,
        storage::SETTINGS,
        server::SETTINGS,
        openid::SETTINGS,
        worker::SETTINGS,
        programs::SETTINGS,
        messages::SETTINGS,
    ];
    parts.into_iter().flatten().filter(move |setting| setting.section == section)
}
