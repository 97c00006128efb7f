//! One entry of the table of settings, and the macro that the table is written in.

use super::kind::Shape;

/// A named setting: all that flags, help, docs, the settings file and the environment need to know about it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting {
    pub(crate) key: &'static str,
    pub(crate) section: Section,
    /// Which processes read it.
    pub(crate) roles: &'static [Role],
    /// The value if nobody sets one. Empty if there is none; `unset` then says what holds.
    pub(crate) default: &'static str,
    /// What holds without a value.
    pub(super) unset: &'static str,
    /// What holds without a value in `punctual dev`, where that differs.
    pub(super) unset_in_dev: &'static str,
    pub(crate) help: &'static str,
    pub(crate) flag: Option<Flag>,
    /// What other programs call the same thing. Read if nothing of ours sets a value.
    pub(super) foreign_variable: Option<&'static str>,
    pub(super) local_file: LocalFile,
    pub(super) secrecy: Secrecy,
    /// Which values there are; of the type that the table gives the setting.
    pub(super) shape: fn() -> Shape,
}

/// The headings of docs/configuration.md and of `punctual config --help`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Section {
    CommandLine,
    Servers,
    Logins,
    Database,
    Storage,
    Polling,
    Tasks,
    WorkerLoss,
    Connections,
    Workers,
    Permissions,
    Agents,
    Messages,
}

impl Section {
    pub(crate) const ALL: [Self; 13] = [
        Self::CommandLine,
        Self::Servers,
        Self::Logins,
        Self::Database,
        Self::Storage,
        Self::Polling,
        Self::Tasks,
        Self::WorkerLoss,
        Self::Connections,
        Self::Workers,
        Self::Permissions,
        Self::Agents,
        Self::Messages,
    ];

    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::CommandLine => "Command line",
            Self::Servers => "Servers",
            Self::Logins => "Login by OpenID Connect",
            Self::Database => "Database",
            Self::Storage => "Uploaded files and logs",
            Self::Polling => "Polling and batches",
            Self::Tasks => "Timeouts and retries of tasks",
            Self::WorkerLoss => "Workers that stop responding",
            Self::Connections => "Connections of workers and peers",
            Self::Workers => "Workers",
            Self::Permissions => "Sandbox and permissions",
            Self::Agents => "Agents",
            Self::Messages => "HTTP calls, webhooks and messages",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Every command that asks a server.
    Client,
    Server,
    Worker,
}

impl Role {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Client => "commands",
            Self::Server => "servers",
            Self::Worker => "workers",
        }
    }
}

/// A setting as a flag of some commands. Its name is the setting's, with dashes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flag {
    pub(crate) commands: &'static [FlagCommand],
    /// What stands for the value in the help; empty for a switch.
    pub(super) value_name: &'static str,
    pub(super) short: Option<char>,
    pub(super) repeats: bool,
    /// Shown by `--help` and not by `-h`.
    pub(super) is_rare: bool,
}

/// The commands that have flags for settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FlagCommand {
    Every,
    Server,
    Dev,
    Worker,
    Migrate,
}

impl FlagCommand {
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::Every => "every command",
            Self::Server => "`server`",
            Self::Dev => "`dev`",
            Self::Worker => "`worker`",
            Self::Migrate => "`migrate`",
        }
    }
}

/// Whether `punctual.toml` in the current folder, which may be somebody else's, can set it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LocalFile {
    /// It concerns output, capacity or timing.
    CanSet,
    /// Only to a folder inside the current one: the permissions of these folders are corrected.
    CanSetInside,
    /// It says whom to trust or to speak to, what may be done, what is protected or what is deleted. Also what nobody has decided yet.
    CannotSet,
}

impl LocalFile {
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::CanSet => "can be set in ./punctual.toml",
            Self::CanSetInside => "can be set in ./punctual.toml, to a folder inside the current one",
            Self::CannotSet => "cannot be set in ./punctual.toml",
        }
    }
}

/// What `punctual config` shows of the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Secrecy {
    Public,
    /// A URL or pairs that may hold a password.
    HasPassword,
    Secret,
}

/// The environment's name for a setting.
pub(crate) fn variable(key: &str) -> String {
    format!("PUNCTUAL_{}", key.to_ascii_uppercase())
}

/// A setting with a default value.
pub(super) const fn setting(default: &'static str, help: &'static str) -> Setting {
    Setting {
        key: "",
        section: Section::CommandLine,
        roles: &[],
        default,
        unset: "",
        unset_in_dev: "",
        help,
        flag: None,
        foreign_variable: None,
        local_file: LocalFile::CannotSet,
        secrecy: Secrecy::Public,
        shape: Shape::any,
    }
}

/// A setting that has no value unless somebody sets one; `unset` says what holds then.
pub(super) const fn unset(unset: &'static str, help: &'static str) -> Setting {
    Setting { unset, ..setting("", help) }
}

impl Setting {
    pub(super) const fn flag(self, commands: &'static [FlagCommand], value_name: &'static str) -> Self {
        let flag = Flag { commands, value_name, short: None, repeats: false, is_rare: false };
        Self { flag: Some(flag), ..self }
    }

    /// A flag without a value, which sets `true`.
    pub(super) const fn switch(self, commands: &'static [FlagCommand]) -> Self {
        self.flag(commands, "")
    }

    pub(super) const fn short(mut self, short: char) -> Self {
        if let Some(flag) = &mut self.flag {
            flag.short = Some(short);
        }
        self
    }

    /// The flag may be written several times; the values are joined by commas.
    pub(super) const fn repeats(mut self) -> Self {
        if let Some(flag) = &mut self.flag {
            flag.repeats = true;
        }
        self
    }

    pub(super) const fn rare(mut self) -> Self {
        if let Some(flag) = &mut self.flag {
            flag.is_rare = true;
        }
        self
    }

    pub(super) const fn in_dev(self, unset_in_dev: &'static str) -> Self {
        Self { unset_in_dev, ..self }
    }

    pub(super) const fn or_variable(self, name: &'static str) -> Self {
        Self { foreign_variable: Some(name), ..self }
    }

    /// The file in the current folder can set it.
    pub(super) const fn local(self) -> Self {
        Self { local_file: LocalFile::CanSet, ..self }
    }

    /// For folders whose permissions are corrected.
    pub(super) const fn local_if_inside(self) -> Self {
        Self { local_file: LocalFile::CanSetInside, ..self }
    }

    pub(super) const fn has_password(self) -> Self {
        Self { secrecy: Secrecy::HasPassword, ..self }
    }

    pub(super) const fn secret(self) -> Self {
        Self { secrecy: Secrecy::Secret, ..self }
    }

    pub(super) const fn read_by(self, roles: &'static [Role]) -> Self {
        Self { roles, ..self }
    }

    /// Completes an entry of the table.
    pub(super) const fn named(
        self,
        key: &'static str,
        section: Section,
        usual_roles: &'static [Role],
        shape: fn() -> Shape,
    ) -> Self {
        let roles = if self.roles.is_empty() { usual_roles } else { self.roles };
        Self { key, section, roles, shape, ..self }
    }

    /// The environment's name for it.
    pub(crate) fn variable(&self) -> String {
        variable(self.key)
    }

    pub(crate) fn shape(&self) -> Shape {
        (self.shape)()
    }

    /// What holds if nobody sets it, in words.
    pub(crate) fn default_words(&self) -> String {
        match (self.usual_default(), self.unset_in_dev) {
            (words, "") => words,
            (words, in_dev) => format!("{words}; in `punctual dev`: {in_dev}"),
        }
    }

    /// What holds if nobody sets it, for the help of one command.
    pub(super) fn default_words_of(&self, command: FlagCommand) -> String {
        match (command, self.unset_in_dev) {
            (_, "") | (FlagCommand::Every | FlagCommand::Server | FlagCommand::Worker | FlagCommand::Migrate, _) => {
                self.usual_default()
            }
            (FlagCommand::Dev, in_dev) => in_dev.to_owned(),
        }
    }

    fn usual_default(&self) -> String {
        let foreign = self.foreign_variable.map(|name| format!("${name}")).unwrap_or_default();
        let words = [foreign.as_str(), self.default, self.unset];
        words.into_iter().filter(|words| !words.is_empty()).collect::<Vec<_>>().join(", or ")
    }
}

/// Writes a part of the table. For each setting it makes an entry in `SETTINGS` and a method of [`super::Config`] that reads the
/// value; with `struct`, also one struct of all values, for those who read all of them. Below `composed` are values that are made
/// of several settings.
macro_rules! settings {
    (
        read by $roles:expr;
        $(#[$meta:meta])* struct $name:ident;
        composed { $( $(#[$composed_meta:meta])* $field:ident: $field_type:ty = $compose:expr; )* }
        $( $section:ident { $( $key:ident: $type:ty = $kind:expr, $setting:expr; )+ } )+
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone)]
        pub(crate) struct $name {
            $($( pub(crate) $key: $type, )+)+
            $( $(#[$composed_meta])* pub(crate) $field: $field_type, )*
        }

        impl $name {
            pub(in crate::config) fn read(config: &$crate::config::Config) -> anyhow::Result<Self> {
                Ok(Self {
                    $($( $key: config.$key()?, )+)+
                    $( $field: $compose(config)?, )*
                })
            }
        }

        settings! { read by $roles; $( $section { $( $key: $type = $kind, $setting; )+ } )+ }
    };
    (
        read by $roles:expr;
        $( $section:ident { $( $key:ident: $type:ty = $kind:expr, $setting:expr; )+ } )+
    ) => {
        pub(in crate::config) const SETTINGS: &[$crate::config::Setting] = &[ $($(
            $setting.named(stringify!($key), $crate::config::setting::Section::$section, $roles, || {
                let kind: $crate::config::kind::Kind<$type> = $kind;
                kind.shape()
            }),
        )+)+ ];

        impl $crate::config::Config {
            $($(
                pub(crate) fn $key(&self) -> anyhow::Result<$type> {
                    self.parse(stringify!($key), |text| $kind.parse(text))
                }
            )+)+
        }
    };
}
pub(super) use settings;
