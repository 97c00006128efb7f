//! Settings of commands that ask a server.

use std::path::PathBuf;
use std::str::FromStr;

use jiff::tz::TimeZone;
use tracing_subscriber::EnvFilter;

use super::{CLIENTS, EVERY};
use crate::config::kind::{folder, one_of, parsed, text, yes_or_no};
use crate::config::setting::{Role, setting, settings, unset};
use crate::output::{ColorChoice, Format};
use crate::when::zone_of;

settings! {
    read by CLIENTS;

    CommandLine {
        server: String = text(),
            setting("http://127.0.0.1:8020", "The server to talk to, or several separated by commas")
                .flag(EVERY, "URL").repeats().read_by(&[Role::Client, Role::Worker]);
        context: Option<String> = text().or_none(),
            unset("the one that `punctual context use` chose", "The saved context to use: a server with its credential")
                .flag(EVERY, "NAME").rare();
        namespace: Option<String> = text().or_none(),
            unset("that of the context or of the key, else default", "The namespace to work in")
                .flag(EVERY, "NAME").short('N').repeats();
        token_file: Option<String> = text().or_none(),
            unset("the token of a server of the same user", "A file with the access token; only users other than the server's need one")
                .flag(EVERY, "FILE").rare().read_by(&[Role::Client, Role::Worker]);
        server_user: Option<String> = text().or_none(),
            unset("this user, root and the owner of `token_file`", "The user whose server may listen on this machine, by name or number, beside this user and root")
                .flag(EVERY, "USER").rare().read_by(&[Role::Client, Role::Worker]);
        ca_file: Option<PathBuf> = folder().described("a path").or_none(),
            unset("the authorities of the system", "A file with the certificates of the authorities to trust, in PEM")
                .flag(EVERY, "FILE").rare().read_by(&[Role::Client, Role::Worker]);
        allow_plain_http: bool = yes_or_no(),
            setting("false", "Allow plain http:// to servers on other machines, in a network that you trust")
                .switch(EVERY).rare().read_by(&[Role::Client, Role::Worker]);
        output: Format = one_of(&[
            ("table", Format::Table), ("json", Format::Json), ("jsonl", Format::Jsonl), ("name", Format::Name),
        ]),
            setting("table", "Output format: table, json, jsonl or name").flag(EVERY, "FORMAT").short('o').local();
        color: ColorChoice = one_of(&[
            ("auto", ColorChoice::Auto), ("always", ColorChoice::Always), ("never", ColorChoice::Never),
        ]),
            setting("auto", "Use colors: auto, always or never; NO_COLOR is honoured").flag(EVERY, "WHEN").local();
        tz: TimeZone = parsed(zone_of).described("local, utc, a name"),
            setting("local", "Time zone for the times that are shown: local, utc or a name").flag(EVERY, "ZONE").local();
        log: Option<EnvFilter> = parsed(log_filter).or_none(),
            unset("by -q and -v", "What is logged, such as info or punctual_engine=debug")
                .read_by(&[Role::Client, Role::Server, Role::Worker]).local();
    }
}

fn log_filter(text: &str) -> Result<EnvFilter, String> {
    EnvFilter::from_str(text).map_err(|error| error.to_string())
}
