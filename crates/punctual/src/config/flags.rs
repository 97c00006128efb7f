//! Settings as flags of commands, made from the table.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

use super::Setting;
use super::setting::{Flag, FlagCommand};
use super::table::settings;

/// Declares the flags of one command.
macro_rules! setting_flags {
    ($( $(#[$meta:meta])* $name:ident of $command:expr; )+) => { $(
        $(#[$meta])*
        #[derive(Debug)]
        pub(crate) struct $name(Vec<(&'static str, String)>);

        impl $name {
            /// The settings that were written as flags, with their texts.
            pub(crate) fn given(&self) -> &[(&'static str, String)] {
                &self.0
            }
        }

        impl Args for $name {
            fn augment_args(command: Command) -> Command {
                flags_of($command).fold(command, |command, (setting, flag)| command.arg(argument(setting, flag, $command)))
            }

            fn augment_args_for_update(command: Command) -> Command {
                Self::augment_args(command)
            }
        }

        impl FromArgMatches for $name {
            fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
                Ok(Self(flags_of($command).filter_map(|(setting, flag)| written(matches, setting, flag)).collect()))
            }

            fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
                *self = Self::from_arg_matches(matches)?;
                Ok(())
            }
        }
    )+ };
}

setting_flags! {
    /// Flags that every command has.
    GlobalFlags of FlagCommand::Every;
    /// Flags of `punctual server`.
    ServerFlags of FlagCommand::Server;
    /// Flags of `punctual dev`: most of those of a server, and those of a worker.
    DevFlags of FlagCommand::Dev;
    /// Flags of `punctual worker`.
    WorkerFlags of FlagCommand::Worker;
    /// Flags of `punctual migrate`.
    MigrateFlags of FlagCommand::Migrate;
}

/// The name of each setting's flag. The parser keeps names for as long as the program runs.
static FLAG_NAMES: LazyLock<BTreeMap<&'static str, String>> =
    LazyLock::new(|| settings().map(|setting| (setting.key, setting.key.replace('_', "-"))).collect());

fn flags_of(command: FlagCommand) -> impl Iterator<Item = (&'static Setting, Flag)> {
    let flags = settings().filter_map(|setting| Some((setting, setting.flag?)));
    flags.filter(move |(_, flag)| flag.commands.contains(&command))
}

fn argument(setting: &'static Setting, flag: Flag, command: FlagCommand) -> Arg {
    let default = match setting.default_words_of(command) {
        words if flag.value_name.is_empty() || words.is_empty() => String::new(),
        words => format!(" [default: {words}]"),
    };
    let mut argument = Arg::new(setting.key)
        .long(FLAG_NAMES[setting.key].as_str())
        .global(command == FlagCommand::Every)
        .hide_short_help(flag.is_rare)
        .help(format!("{}{default}", setting.help))
        .long_help(format!("{} [env: {}]{default}", setting.help, setting.variable()));
    if command != FlagCommand::Every {
        argument = argument.help_heading(setting.section.title());
    }
    if let Some(short) = flag.short {
        argument = argument.short(short);
    }
    if flag.value_name.is_empty() {
        return argument.action(ArgAction::SetTrue);
    }
    let choices = setting.shape().choices;
    if !choices.is_empty() {
        argument = argument.value_parser(PossibleValuesParser::new(choices)).hide_possible_values(true);
    }
    let action = if flag.repeats { ArgAction::Append } else { ArgAction::Set };
    argument.value_name(flag.value_name).action(action)
}

fn written(matches: &ArgMatches, setting: &'static Setting, flag: Flag) -> Option<(&'static str, String)> {
    if flag.value_name.is_empty() {
        return matches.get_flag(setting.key).then(|| (setting.key, true.to_string()));
    }
    let texts: Vec<&str> = matches.get_many::<String>(setting.key)?.map(String::as_str).collect();
    Some((setting.key, texts.join(",")))
}
