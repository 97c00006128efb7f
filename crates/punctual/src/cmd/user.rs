//! `punctual user …`.

use clap::{ArgGroup, Args, Subcommand};
use punctual_agent::is_loopback;
use punctual_api::{PasswordRequest, UserEdit, UserRequest};
use punctual_client::ClientError;

use super::Context;
use crate::exit::Exit;
use crate::field_flags::{OF_USERS, USER_WORDS, in_flags, in_words};
use crate::output::Format;
use crate::password::Asking;
use crate::view;

#[derive(Debug, Subcommand)]
pub(crate) enum UserVerb {
    /// Add a person who may log in; asks for a password
    #[command(aliases = ["add", "new"])]
    Create(CreateArgs),
    /// List people by name
    #[command(aliases = ["ls"])]
    List,
    /// Show a person
    #[command(aliases = ["show"])]
    Get {
        /// The user's name
        #[arg(value_name = "USER")]
        name: String,
    },
    /// Change a person's role or mail address, or disable them
    Edit(EditArgs),
    /// Remove people: their sessions end, and their keys are revoked
    #[command(aliases = ["remove", "rm"])]
    Delete {
        /// The users' names
        #[arg(required = true, value_name = "USER")]
        names: Vec<String>,
    },
    /// Set a password, one's own or another person's; ends the sessions of the person
    #[command(aliases = ["passwd"])]
    Password {
        /// The user's name
        #[arg(value_name = "USER")]
        name: String,
        /// Read the password from stdin; one's own takes two lines, the present one first
        #[arg(long)]
        password_stdin: bool,
    },
}

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("rights").args(["role", "namespace_role"]).required(true).multiple(true)))]
pub(crate) struct CreateArgs {
    /// The user's name
    #[arg(value_name = "USER")]
    name: String,
    /// A role for the cluster, and so in every namespace: viewer, operator, developer or admin
    #[arg(long, value_name = "ROLE")]
    role: Option<String>,
    /// What they may do in one namespace: a role, rights, or both, such as team-a=developer; may be repeated
    #[arg(long, value_name = "NAMESPACE=ROLE", value_parser = namespace_role)]
    namespace_role: Vec<(String, Vec<String>)>,
    /// A mail address
    #[arg(long, value_name = "ADDRESS")]
    mail: Option<String>,
    /// Read the password from stdin
    #[arg(long)]
    password_stdin: bool,
    /// Set no password, so that nobody can log in as this person
    #[arg(long, conflicts_with = "password_stdin")]
    no_password: bool,
}

#[derive(Debug, Args)]
pub(crate) struct EditArgs {
    /// The user's name
    #[arg(value_name = "USER")]
    name: String,
    /// A role for the cluster: viewer, operator, developer or admin; empty for none
    #[arg(long, value_name = "ROLE")]
    role: Option<String>,
    /// What they may do in one namespace, such as team-a=developer,commands.use; `team-a=` for nothing; may be repeated
    #[arg(long, value_name = "NAMESPACE=ROLE", value_parser = namespace_role)]
    namespace_role: Vec<(String, Vec<String>)>,
    /// A mail address; empty for none
    #[arg(long, value_name = "ADDRESS")]
    mail: Option<String>,
    /// Refuse the person: their sessions end, and their keys do not work meanwhile
    #[arg(long, conflicts_with = "enable")]
    disable: bool,
    /// Let the person in again
    #[arg(long)]
    enable: bool,
}

fn namespace_role(text: &str) -> Result<(String, Vec<String>), String> {
    let (namespace, words) = text.split_once('=').ok_or("must be NAMESPACE=ROLE, such as team-a=developer")?;
    let words = words.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned);
    Ok((namespace.trim().to_owned(), words.collect()))
}

fn named(error: ClientError) -> anyhow::Error {
    in_words(in_flags(error, OF_USERS), USER_WORDS).into()
}

/// How the person logs in. An address on loopback is of no use elsewhere.
fn login_line(url: &str, name: &str) -> String {
    let authority = "--ca-file names the cluster's authority if the servers have certificates of it";
    if is_loopback(url) {
        return format!(
            "They log in on this machine with: punctual login --server {url} --user {name}. On another one they name the address \
             that it knows the server by: punctual login --server https://HOST:PORT --user {name}; {authority}."
        );
    }
    format!("They log in with: punctual login --server {url} --user {name}; {authority}.")
}

pub(crate) async fn run(verb: UserVerb, context: &Context) -> anyhow::Result<Exit> {
    let client = context.client()?;
    let out = &context.out;
    match verb {
        UserVerb::Create(CreateArgs { name, role, namespace_role, mail, password_stdin, no_password }) => {
            let password = if no_password {
                None
            } else {
                Some(Asking::new(password_stdin).ask_new(&format!("New password for {name}: "))?)
            };
            let namespace_roles = namespace_role.into_iter().collect();
            let request = UserRequest { name, mail, role, namespace_roles, password };
            let user = client.create_user(&request).await.map_err(named)?;
            match out.format {
                Format::Json | Format::Jsonl => out.json(&user)?,
                Format::Table | Format::Name => out.line(&user.name)?,
            }
            out.hint(&login_line(client.url(), &user.name));
        }
        UserVerb::List => {
            let list = client.users().await.map_err(named)?;
            out.rows(&list.users, &list)?;
            if list.users.is_empty() {
                out.hint("No users. Add one: punctual user create ana --role admin");
            }
        }
        UserVerb::Get { name } => view::user(&client.user(&name).await.map_err(named)?, out)?,
        UserVerb::Edit(EditArgs { name, role, namespace_role, mail, disable, enable }) => {
            let disabled = (disable || enable).then_some(disable);
            let edit = UserEdit { mail, role, namespace_roles: namespace_role.into_iter().collect(), disabled };
            let user = client.edit_user(&name, &edit).await.map_err(named)?;
            view::user(&user, out)?;
        }
        UserVerb::Delete { names } => {
            for name in &names {
                client.delete_user(name).await.map_err(named)?;
                out.hint(&format!("{name} is removed."));
            }
        }
        UserVerb::Password { name, password_stdin } => {
            let asking = Asking::new(password_stdin);
            let is_own = client.whoami().await.map_err(named)?.name == format!("user:{name}");
            let current = is_own.then(|| asking.ask("Present password: ")).transpose()?;
            let password = asking.ask_new(&format!("New password for {name}: "))?;
            client.set_password(&name, &PasswordRequest { password, current }).await.map_err(named)?;
            out.hint(&format!("The password of {name} is set. Their sessions have ended."));
        }
    }
    Ok(Exit::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_on_loopback_is_not_offered_to_people_elsewhere() {
        let here = login_line("https://127.0.0.1:8020", "ana");
        assert!(
            here.contains("on this machine with: punctual login --server https://127.0.0.1:8020 --user ana"),
            "{here}"
        );
        assert!(here.contains("--server https://HOST:PORT --user ana; --ca-file"), "{here}");
        let there = login_line("https://jobs.example.com", "ana");
        assert!(
            there.starts_with("They log in with: punctual login --server https://jobs.example.com --user ana"),
            "{there}"
        );
    }
}
