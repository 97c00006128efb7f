//! The whole program, from outside: real processes, a real disk, real sockets.

mod agent_tokens;
mod agents;
mod artifacts;
mod backfills;
mod bad_input;
mod binaries;
mod checked;
mod cluster;
mod commands;
mod contract;
mod crash;
mod delete_race;
mod docs;
mod foreign;
mod harness;
mod leavers;
mod logs;
mod notifications;
mod openapi;
mod process_logs;
mod raw;
mod readme;
mod restart;
mod schedule_cli;
mod schedules;
mod sends;
